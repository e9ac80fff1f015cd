//! Origins of web pages, as the setting `cors_origins` names them and browsers send them.

use axum::http::HeaderValue;

/// Where a web page comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Any,
    /// This origin, as browsers send it: `https://example.com`, `http://localhost:5173`.
    Exactly(HeaderValue),
}

impl Origin {
    /// Accepts `*`, or scheme and host with an optional port, without a path.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let well_formed = host.is_some_and(|host| {
            !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
        });
        let value = HeaderValue::from_str(text).ok().filter(|_| well_formed);
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        value.filter(|_| lower).map(Self::Exactly).ok_or_else(|| {
            format!("must be * or an origin in lower case, such as https://example.com, without a path, got {text:?}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_must_be_written_as_browsers_send_them() {
        for good in ["*", "https://example.com", "http://localhost:5173", "http://[::1]:8080"] {
            assert!(Origin::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "example.com", "https://", "https://example.com/", "HTTPS://example.com", "https://Example.com", "null"] {
            assert!(Origin::parse(bad).is_err(), "{bad}");
        }
    }
}
