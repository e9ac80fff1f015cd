//! Statistics of a field's numbers or dates: their range, and how many documents lie in each interval.

use std::collections::HashMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;
use utoipa::ToSchema;

use super::metadata::whole;
use super::{Scalar, timestamps};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Up to this value, a 64-bit float represents every integer.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// Number of decimal digits that every 64-bit number keeps.
const SIGNIFICANT_DIGITS: usize = 15;

/// The interval of a histogram bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HistogramInterval {
    /// A range of numbers with this width, which is above zero; a bucket begins at a multiple of it.
    Width(f64),
    /// An hour. Intervals of dates are in UTC.
    Hour,
    /// A day.
    Day,
    /// A week, beginning on Monday.
    Week,
    /// A month.
    Month,
    /// A year.
    Year,
}

/// A number or a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NumberOrTime {
    /// A number.
    Number(f64),
    /// An integer, which may have more digits than `Number` keeps.
    Integer(i64),
    /// Milliseconds since the Unix epoch.
    Time(i64),
}

/// Statistics of a field's numbers or, if it has none, of its dates.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FacetStats {
    /// Number of values; each element of an array counts.
    pub count: u64,
    /// The smallest value, as a number or an RFC 3339 time; omitted if there are no values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub min: Option<Scalar>,
    /// The largest value, in the same form; omitted if there are no values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub max: Option<Scalar>,
    /// The sum of the numbers; omitted for dates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum: Option<f64>,
    /// The mean of the numbers; omitted for dates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
}

/// An interval, and how many documents have a value in it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FacetBucket {
    /// Where the interval begins: a number or an RFC 3339 time.
    #[schema(value_type = serde_json::Value)]
    pub from: Scalar,
    /// Number of matching documents with a value in the interval; each counts once.
    pub documents: u64,
}

/// Accumulates the statistics and the histogram of a field.
#[derive(Debug)]
pub struct ValueSummary {
    interval: Option<HistogramInterval>,
    numbers: Totals,
    dates: Totals,
    buckets: HashMap<u64, DocumentCount>,
}

/// Totals of values. Integers are summed separately, exactly.
#[derive(Debug, Default)]
struct Totals {
    count: u64,
    /// The smallest and the largest integer.
    integers: Option<(i64, i64)>,
    integer_sum: i128,
    /// The smallest and the largest of the other numbers.
    reals: Option<(f64, f64)>,
    real_sum: CompensatedSum,
}

/// A sum with what rounding has lost of it (Neumaier 1974).
#[derive(Debug, Clone, Copy, Default)]
struct CompensatedSum {
    rounded: f64,
    lost: f64,
}

/// Counts documents, each once. All values of a document must come one after the other.
#[derive(Debug, Clone, Copy, Default)]
pub struct DocumentCount {
    /// Number of documents so far.
    pub documents: u64,
    /// The document that was counted last.
    last: i64,
}

impl DocumentCount {
    /// Counts a document, unless it was the last one.
    pub fn add(&mut self, document: i64) {
        if self.documents == 0 || self.last != document {
            *self = Self { documents: self.documents + 1, last: document };
        }
    }
}

impl HistogramInterval {
    /// Maximum buckets of a histogram.
    pub const BUCKETS_MAX: usize = 1_000;
    /// The intervals of dates, by name.
    pub const DATE_INTERVALS: [(&'static str, Self); 5] =
        [("hour", Self::Hour), ("day", Self::Day), ("week", Self::Week), ("month", Self::Month), ("year", Self::Year)];

    /// Where the bucket of a value begins; `None` if the interval is for the other kind of value. A number so large that
    /// neighboring multiples of the width cannot be distinguished has its own bucket.
    fn start(self, value: NumberOrTime) -> Option<f64> {
        let ms = match (self, value) {
            (Self::Width(width), NumberOrTime::Number(number)) => {
                let (quotient, nearest) = (number / width, (number / width).round());
                if nearest.abs() >= EXACT_MAX {
                    return Some(number);
                }
                // The quotient of a multiple may be just below or above a whole number.
                let bucket = match (quotient - nearest).abs() <= 4.0 * f64::EPSILON * nearest.abs() {
                    true if rounded(nearest * width) <= number => nearest,
                    true => nearest - 1.0,
                    false => quotient.floor(),
                };
                // Turns -0.0 into 0.0.
                return Some(bucket * width + 0.0);
            }
            (Self::Width(_), NumberOrTime::Integer(integer)) => return self.start(NumberOrTime::Number(integer as f64)),
            (Self::Width(_), NumberOrTime::Time(_)) | (_, NumberOrTime::Number(_) | NumberOrTime::Integer(_)) => return None,
            (_, NumberOrTime::Time(ms)) => ms,
        };
        let day = ms.div_euclid(DAY_MS);
        let start = match self {
            Self::Hour => ms.div_euclid(HOUR_MS) * HOUR_MS,
            // The first day of the epoch was a Thursday.
            Self::Week => (day - (day + 3).rem_euclid(7)) * DAY_MS,
            Self::Month => first_day(ms, |date| date.first_of_month())?,
            Self::Year => first_day(ms, |date| date.first_of_year())?,
            Self::Day | Self::Width(_) => day * DAY_MS,
        };
        Some(start as f64)
    }
}

/// Returns a multiple of an interval as people write it: 0.6, not 0.6000000000000001.
fn rounded(multiple: f64) -> f64 {
    format!("{multiple:.*e}", SIGNIFICANT_DIGITS - 1).parse().unwrap_or(multiple)
}

/// The start of the day that `first` gives for the day of `ms`, in milliseconds since the Unix epoch.
fn first_day(ms: i64, first: impl Fn(Date) -> Date) -> Option<i64> {
    let date = jiff::Timestamp::from_millisecond(ms).ok()?.to_zoned(TimeZone::UTC).date();
    Some(first(date).to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

impl ValueSummary {
    /// No values yet; with buckets if there is an interval.
    pub fn new(interval: Option<HistogramInterval>) -> Self {
        Self { interval, numbers: Totals::default(), dates: Totals::default(), buckets: HashMap::new() }
    }

    /// Adds a value of a document. All values of a document must be added one after the other. Returns whether there are still
    /// few enough buckets.
    pub fn add(&mut self, document: i64, value: NumberOrTime) -> bool {
        match value {
            NumberOrTime::Number(number) => match whole(number) {
                Some(integer) => self.numbers.add_integer(integer),
                None => self.numbers.add_real(number),
            },
            NumberOrTime::Integer(integer) => self.numbers.add_integer(integer),
            NumberOrTime::Time(ms) => self.dates.add_integer(ms),
        }
        if let Some(start) = self.interval.and_then(|interval| interval.start(value)) {
            self.buckets.entry(start.to_bits()).or_default().add(document);
        }
        self.buckets.len() <= HistogramInterval::BUCKETS_MAX
    }

    /// The statistics of the values.
    pub fn stats(&self) -> FacetStats {
        let (totals, dates) = if self.numbers.count > 0 { (&self.numbers, false) } else { (&self.dates, true) };
        let number = |value: f64| Some(value).filter(|value| totals.count > 0 && !dates && value.is_finite());
        let shown = |value: Scalar| match value {
            Scalar::Integer(ms) if dates => Scalar::Text(timestamps::rfc3339(ms)),
            number => number,
        };
        FacetStats {
            count: totals.count,
            min: totals.min().map(shown),
            max: totals.max().map(shown),
            sum: number(totals.sum()),
            mean: number(totals.sum() / totals.count as f64),
        }
    }

    /// The buckets that have documents, in order; `None` without an interval.
    pub fn histogram(&self) -> Option<Vec<FacetBucket>> {
        let interval = self.interval?;
        let dates = !matches!(interval, HistogramInterval::Width(_));
        let mut buckets: Vec<_> = self.buckets.iter().map(|(start, bucket)| (f64::from_bits(*start), bucket.documents)).collect();
        buckets.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let shown = |start: f64| match interval {
            HistogramInterval::Width(width) if (start / width).abs() < EXACT_MAX => rounded(start),
            _ => start,
        };
        let read = |(start, documents)| FacetBucket { from: scalar(shown(start), dates), documents };
        Some(buckets.into_iter().map(read).collect())
    }
}

impl Totals {
    fn add_integer(&mut self, value: i64) {
        let (min, max) = self.integers.unwrap_or((value, value));
        self.integers = Some((min.min(value), max.max(value)));
        self.integer_sum += i128::from(value);
        self.count += 1;
    }

    fn add_real(&mut self, value: f64) {
        let (min, max) = self.reals.unwrap_or((value, value));
        self.reals = Some((min.min(value), max.max(value)));
        self.real_sum.add(value);
        self.count += 1;
    }

    fn min(&self) -> Option<Scalar> {
        let (integer, real) = (self.integers.map(|(min, _)| min), self.reals.map(|(min, _)| min));
        // A real that equals an integer as a float is 2^63, and greater: in `add`, smaller whole numbers become integers.
        let real = real.filter(|real| integer.is_none_or(|integer| *real < integer as f64));
        real.map(Scalar::Real).or(integer.map(Scalar::Integer))
    }

    fn max(&self) -> Option<Scalar> {
        let (integer, real) = (self.integers.map(|(_, max)| max), self.reals.map(|(_, max)| max));
        let real = real.filter(|real| integer.is_none_or(|integer| *real >= integer as f64));
        real.map(Scalar::Real).or(integer.map(Scalar::Integer))
    }

    fn sum(&self) -> f64 {
        self.integer_sum as f64 + self.real_sum.total()
    }
}

impl CompensatedSum {
    fn add(&mut self, value: f64) {
        let sum = self.rounded + value;
        let (larger, smaller) = if self.rounded.abs() >= value.abs() { (self.rounded, value) } else { (value, self.rounded) };
        self.lost += (larger - sum) + smaller;
        self.rounded = sum;
    }

    fn total(self) -> f64 {
        self.rounded + self.lost
    }
}

/// A value as the API shows it: 2020.0 as 2020.
fn scalar(value: f64, is_date: bool) -> Scalar {
    match value {
        value if is_date => Scalar::Text(timestamps::rfc3339(value as i64)),
        value if value.fract() == 0.0 && value.abs() < EXACT_MAX => Scalar::Integer(value as i64),
        value => Scalar::Real(value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn histogram(interval: HistogramInterval, values: &[(i64, NumberOrTime)]) -> Vec<(Scalar, u64)> {
        let mut summary = ValueSummary::new(Some(interval));
        assert!(values.iter().all(|(document, value)| summary.add(*document, *value)));
        summary.histogram().unwrap().into_iter().map(|bucket| (bucket.from, bucket.documents)).collect()
    }

    #[track_caller]
    fn check_date(interval: &str, time: &str, expect: &str) {
        let (_, interval) = HistogramInterval::DATE_INTERVALS.into_iter().find(|(name, _)| *name == interval).unwrap();
        let got = histogram(interval, &[(1, NumberOrTime::Time(timestamps::parse(time).unwrap()))]);
        assert_eq!(got, [(Scalar::Text(format!("{expect}.000Z")), 1)], "{time} by {interval:?}");
    }

    #[test]
    fn dates_fall_into_utc_calendar_intervals() {
        check_date("hour", "2024-02-29T13:59:59.999Z", "2024-02-29T13:00:00");
        check_date("day", "2024-02-29T23:30:00-01:00", "2024-03-01T00:00:00");
        check_date("week", "2026-11-22", "2026-11-16T00:00:00");
        check_date("week", "2026-11-23", "2026-11-23T00:00:00");
        check_date("month", "2024-02-29T13:00:00Z", "2024-02-01T00:00:00");
        check_date("year", "2024-12-31T23:59:59Z", "2024-01-01T00:00:00");
        check_date("day", "1969-12-31T23:00:00Z", "1969-12-31T00:00:00");
        check_date("week", "1969-12-31T23:00:00Z", "1969-12-29T00:00:00");
    }

    #[test]
    fn multiples_of_a_decimal_interval_start_their_own_bucket() {
        let from = |width: f64, value: f64| {
            let found = histogram(HistogramInterval::Width(width), &[(1, NumberOrTime::Number(value))]);
            match found[..] {
                [(Scalar::Real(from), 1)] => from,
                [(Scalar::Integer(from), 1)] => from as f64,
                _ => panic!("{found:?}"),
            }
        };
        for value in (-30..=200).map(|n| format!("{n}e-1").parse::<f64>().unwrap()) {
            assert_eq!((from(0.1, value), from(0.1, value + 0.05)), (value, value));
        }
        assert_eq!((from(0.7, 2.1), from(1e-7, 3e-7), from(0.1, 0.299)), (2.1, 3e-7, 0.2));
    }

    #[test]
    fn stats_distinguish_integers_that_are_the_same_float() {
        let stats = |integers: &[i64], reals: &[f64]| {
            let mut summary = ValueSummary::new(None);
            assert!(integers.iter().all(|integer| summary.add(1, NumberOrTime::Integer(*integer))));
            assert!(reals.iter().all(|real| summary.add(1, NumberOrTime::Number(*real))));
            let FacetStats { min, max, sum, .. } = summary.stats();
            (min.unwrap(), max.unwrap(), sum.unwrap())
        };
        const BIG: i64 = 9_007_199_254_740_993;
        let (big, next) = (Scalar::Integer(BIG), Scalar::Integer(BIG + 1));
        assert_eq!(stats(&[BIG + 1, BIG], &[]), (big.clone(), next, (2 * BIG + 1) as f64));
        assert_eq!(stats(&[BIG, 1 - BIG], &[0.5]), (Scalar::Integer(1 - BIG), big, 1.5));
        assert_eq!(stats(&[2], &[1.5, 3.0]), (Scalar::Real(1.5), Scalar::Integer(3), 6.5));
        let end = 9_223_372_036_854_775_808.0;
        assert_eq!(stats(&[i64::MAX, i64::MIN], &[end, -end]).0, Scalar::Integer(i64::MIN));
        assert_eq!(stats(&[i64::MAX], &[end]), (Scalar::Integer(i64::MAX), Scalar::Real(end), 2.0 * end));
    }

    #[test]
    fn rounding_does_not_add_up_in_sums() {
        let mut summary = ValueSummary::new(None);
        assert!((0..1_000).all(|_| summary.add(1, NumberOrTime::Number(0.1))));
        assert_eq!(summary.stats().sum, Some(100.0));
    }

    proptest! {
        #[test]
        fn no_bucket_starts_above_its_number(number in proptest::num::f64::NORMAL, width in 1e-3..1e6) {
            let start = HistogramInterval::Width(width).start(NumberOrTime::Number(number)).unwrap();
            prop_assert!(start <= number + number.abs() * 1e-15 && start.is_finite(), "{} in {}", number, start);
        }

        #[test]
        fn every_time_lies_in_its_bucket(ms in -60_000_000_000_000_i64..250_000_000_000_000) {
            for (_, interval) in HistogramInterval::DATE_INTERVALS {
                let start = interval.start(NumberOrTime::Time(ms)).unwrap() as i64;
                prop_assert!(start <= ms && ms - start < 366 * DAY_MS, "{} in {}", ms, start);
            }
        }
    }
}
