//! Points in time as the API writes them.

use serde::Serializer;

/// Writes milliseconds since the Unix epoch as RFC 3339, in UTC with milliseconds.
pub fn rfc3339(milliseconds: i64) -> String {
    let instant = jiff::Timestamp::from_millisecond(milliseconds).unwrap_or_default();
    format!("{instant:.3}")
}

/// Parses an RFC 3339 time, as milliseconds since the Unix epoch.
pub fn parse_rfc3339(text: &str) -> Result<i64, String> {
    let time: Result<jiff::Timestamp, _> = text.parse();
    Ok(time.map_err(|_| format!("must be an RFC 3339 time with its offset, got {text:?}"))?.as_millisecond())
}

/// Writes milliseconds since the Unix epoch as `rfc3339` does, for `serialize_with`.
pub(super) fn serialize<S: Serializer>(milliseconds: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339(*milliseconds))
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn times_are_rfc_3339_with_milliseconds() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_767_225_600_250), "2026-01-01T00:00:00.250Z");
    }
}
