//! Idempotency keys: a caller's name for a request, so that sending it again does not repeat its effect.

use super::KeyId;

/// An idempotency key and its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    caller: Option<KeyId>,
    key: String,
    fingerprint: String,
}

impl RequestKey {
    /// Maximum length of a key, in bytes.
    pub const BYTES_MAX: usize = 255;

    /// Takes 1 to 255 printable ASCII characters, including spaces, and a fingerprint of the whole request.
    pub fn new(key: &str, fingerprint: String) -> Result<Self, String> {
        let printable = key.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if key.is_empty() || key.len() > Self::BYTES_MAX || !printable {
            return Err(format!("must have 1 to {} printable ASCII characters, got {} bytes", Self::BYTES_MAX, key.len()));
        }
        Ok(Self { caller: None, key: key.to_owned(), fingerprint })
    }

    /// Limits the key to a caller, so that other callers learn nothing from it.
    pub fn scoped_to(self, caller: &KeyId) -> Self {
        Self { caller: Some(caller.clone()), ..self }
    }

    /// The key of its record in the store; no two callers share one.
    pub fn record_key(&self) -> String {
        // A key never contains a line feed.
        self.caller.as_ref().map_or_else(|| self.key.clone(), |caller| format!("{}\n{}", caller.as_str(), self.key))
    }

    /// The caller's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// A fingerprint that only the same request has.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}
