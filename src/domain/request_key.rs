//! A caller's name for one request, so that sending it again does not do it again.

/// An idempotency key and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    key: String,
    fingerprint: String,
}

impl RequestKey {
    /// Longest key, in bytes.
    pub const BYTES_MAX: usize = 255;

    /// Takes 1 to 255 printable ASCII characters, spaces among them, and a fingerprint of all that the request says.
    pub fn new(key: &str, fingerprint: String) -> Result<Self, String> {
        let printable = key.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if key.is_empty() || key.len() > Self::BYTES_MAX || !printable {
            return Err(format!("must have 1 to {} printable ASCII characters, got {} bytes", Self::BYTES_MAX, key.len()));
        }
        Ok(Self { key: key.to_owned(), fingerprint })
    }

    /// The caller's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The same for the same request alone.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_short_printable_ascii() {
        for (key, good) in [("a", true), ("order 7/b", true), ("", false), ("é", false), ("a\nb", false)] {
            assert_eq!(RequestKey::new(key, String::new()).is_ok(), good, "{key:?}");
        }
        assert!(RequestKey::new(&"x".repeat(255), String::new()).is_ok());
        assert!(RequestKey::new(&"x".repeat(256), String::new()).is_err());
    }
}
