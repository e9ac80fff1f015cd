//! Points in time as the API writes them.

use jiff::fmt::temporal::Pieces;
use serde::{Serialize as _, Serializer};

/// Bytes of a date, such as 2026-01-31.
const DATE_BYTES: usize = 10;
/// The first time that RFC 3339 can write: 0000-01-01T00:00:00Z.
const FIRST: jiff::Timestamp = jiff::Timestamp::constant(-62_167_219_200, 0);
/// The offsets of RFC 3339 are shorter, at most 23:59. jiff parses up to 25:59.
const DAY_SECONDS: u32 = 24 * 60 * 60;

/// Writes milliseconds since the Unix epoch as RFC 3339, in UTC with milliseconds. The first and the last time that can be
/// written stand for earlier and later ones.
pub fn rfc3339(milliseconds: i64) -> String {
    let nearest = if milliseconds < 0 { FIRST } else { jiff::Timestamp::MAX };
    let instant = jiff::Timestamp::from_millisecond(milliseconds).unwrap_or(nearest).max(FIRST);
    format!("{instant:.3}")
}

/// Parses an RFC 3339 time, or a date, which stands for its start in UTC, as milliseconds since the Unix epoch.
pub fn parse(text: &str) -> Option<i64> {
    // A cheap check that refuses most other texts.
    if text.len() < DATE_BYTES || !begins_with_digit(text) {
        return None;
    }
    if text.len() > DATE_BYTES {
        return timestamp(text).map(jiff::Timestamp::as_millisecond);
    }
    let date: jiff::civil::Date = text.parse().ok()?;
    let start = date.to_zoned(jiff::tz::TimeZone::UTC).map_or(jiff::Timestamp::MAX, |start| start.timestamp());
    Some(start.as_millisecond())
}

/// Parses an RFC 3339 time. The last one that can be stored, in the evening of 9999-12-30, stands for later ones: people write
/// 9999-12-31 for "never". The first time of the year 0 in UTC stands for earlier ones, which have no RFC 3339 form in UTC.
pub(super) fn timestamp(text: &str) -> Option<jiff::Timestamp> {
    // jiff also accepts years with a sign.
    if !begins_with_digit(text) {
        return None;
    }
    let parsed = with_possible_offset(text).map(|time| time.max(FIRST));
    parsed.or_else(|| {
        let time = text.strip_prefix("9999-12-31").or_else(|| text.strip_prefix("9999-12-30"))?;
        with_possible_offset(&format!("9999-12-01{time}")).map(|_| jiff::Timestamp::MAX)
    })
}

fn with_possible_offset(text: &str) -> Option<jiff::Timestamp> {
    let time = text.parse().ok()?;
    let offset = Pieces::parse(text).ok()?.to_numeric_offset()?;
    (offset.seconds().unsigned_abs() < DAY_SECONDS).then_some(time)
}

fn begins_with_digit(text: &str) -> bool {
    text.as_bytes().first().is_some_and(u8::is_ascii_digit)
}

/// Parses an RFC 3339 time, as milliseconds since the Unix epoch.
pub fn parse_rfc3339(text: &str) -> Result<i64, String> {
    let form = "must be an RFC 3339 time with its offset, such as 2026-01-31T08:00:00Z";
    let time = timestamp(text).ok_or_else(|| format!("{form}, got {text:?}"))?;
    Ok(time.as_millisecond())
}

/// Writes milliseconds since the Unix epoch as `rfc3339` does, for `serialize_with`.
pub(super) fn serialize<S: Serializer>(milliseconds: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339(*milliseconds))
}

/// The same for an optional time.
pub(super) fn serialize_some<S: Serializer>(milliseconds: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    milliseconds.map(rfc3339).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::{parse, parse_rfc3339, rfc3339};

    #[test]
    fn times_are_rfc_3339_with_milliseconds() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_767_225_600_250), "2026-01-01T00:00:00.250Z");
        for late in [253_402_207_201_000, i64::MAX] {
            assert_eq!(rfc3339(late), "9999-12-30T22:00:00.999Z");
        }
        for early in [-62_167_219_200_001, i64::MIN] {
            assert_eq!(rfc3339(early), "0000-01-01T00:00:00.000Z");
        }
    }

    #[test]
    fn only_rfc_3339_times_and_dates_are_parsed() {
        for (text, expect) in [
            ("2026-01-01T00:00:00.25Z", Some(1_767_225_600_250)),
            ("2026-01-01T02:00:00+02:00", Some(1_767_225_600_000)),
            ("2026-01-01", Some(1_767_225_600_000)),
            ("9999-12-31", Some(253_402_207_200_999)),
            ("9999-12-31T23:59:59Z", Some(253_402_207_200_999)),
            ("9999-12-31T25:00:00Z", None),
            ("0000-01-01", Some(-62_167_219_200_000)),
            ("0000-01-01T00:00:00+05:00", Some(-62_167_219_200_000)),
            ("0000-01-01T00:00:00.5Z", Some(-62_167_219_199_500)),
            ("2026-01-01T23:59:00+23:59", Some(1_767_225_600_000)),
            ("2025-12-31T00:01:00-23:59", Some(1_767_225_600_000)),
            ("2026-01-01T23:59:00+23:60", None),
            ("2026-01-02T00:00:00+24:00", None),
            ("2025-12-31T00:00:00-24:00", None),
            ("9999-12-31T23:59:59-24:00", None),
            ("-000001-12-31T19:00:00Z", None),
            ("+002026-01-01T00:00:00Z", None),
            ("2026-02-30", None),
            ("2026-01-01T00:00:00", None),
            ("1767225600", None),
            ("January 2026", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expect, "{text:?}");
            if text.contains('T') {
                assert_eq!(parse_rfc3339(text).ok(), expect, "{text:?}");
            }
        }
    }
}
