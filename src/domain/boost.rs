//! Boosts: raise or lower the scores of documents that match a filter, or whose value is near an origin.

use super::{DocumentHead, Field, Filter, NumberOrTime};

/// Milliseconds of a day, the unit of distances between times.
const DAY_MS: f64 = 86_400_000.0;

/// Raises or lowers the scores of documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Boost {
    /// Which documents it applies to, and how strongly.
    pub by: BoostBy,
    /// The factor at full strength: above 1 it raises scores, below 1 it lowers them.
    pub weight: f64,
}

/// Which documents a boost applies to.
#[derive(Debug, Clone, PartialEq)]
pub enum BoostBy {
    /// Those that match, all at full strength.
    Filter(Filter),
    /// Those whose value is near an origin: the nearer, the stronger.
    Decay(Decay),
}

/// How a boost decays with the distance from an origin, in either direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Decay {
    /// The field that has the value: metadata, or one of the document's own times.
    pub field: Field,
    /// The value with the full boost. The distance between numbers is their difference; between times, the days.
    pub origin: NumberOrTime,
    /// The shape of the decay.
    pub shape: DecayShape,
}

/// The shape of a decay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DecayShape {
    /// Halves over each such distance.
    Exponential {
        /// Above zero.
        half_life: f64,
    },
    /// A bell curve with this standard deviation.
    Gaussian {
        /// Above zero.
        scale: f64,
    },
}

impl Boost {
    /// Maximum boosts per search.
    pub const COUNT_MAX: usize = 10;
    /// Limits of the weight.
    pub const WEIGHTS: std::ops::RangeInclusive<f64> = 0.01..=100.0;
    /// The default weight.
    pub const WEIGHT_DEFAULT: f64 = 2.0;
    /// Limits of the product of all factors in a search.
    const FACTORS: (f64, f64) = (0.001, 1_000.0);

    /// The factor for a document: the weight to the power of the boost's strength there, from 0 to 1.
    pub fn factor(&self, document: &DocumentHead) -> f64 {
        let share = match &self.by {
            BoostBy::Filter(filter) => f64::from(u8::from(filter.holds(document))),
            BoostBy::Decay(decay) => decay.nearness(document).unwrap_or(0.0),
        };
        self.weight.powf(share)
    }

    /// The combined factor of several boosts.
    pub fn product(factors: impl IntoIterator<Item = f64>) -> f64 {
        let (min, max) = Self::FACTORS;
        factors.into_iter().product::<f64>().clamp(min, max)
    }
}

impl Decay {
    /// From 1 at the origin, falling towards 0; `None` for a document without such a value.
    fn nearness(&self, document: &DocumentHead) -> Option<f64> {
        let distance = match self.origin {
            NumberOrTime::Number(origin) => self.field.number(document)? - origin,
            NumberOrTime::Integer(origin) => self.field.number(document)? - origin as f64,
            NumberOrTime::Time(origin) => (self.field.time(document)? as f64 - origin as f64) / DAY_MS,
        };
        Some(match self.shape {
            DecayShape::Exponential { half_life } => (-distance.abs() / half_life).exp2(),
            DecayShape::Gaussian { scale } => (-(distance / scale).powi(2) / 2.0).exp(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::{DocumentId, Scalar, Test};

    const NOW: i64 = 1_767_225_600_000;

    #[track_caller]
    fn check(by: BoostBy, weight: f64, metadata: Value, expect: f64) {
        let head = DocumentHead {
            id: DocumentId::parse("a").unwrap(),
            language: None,
            metadata: metadata.as_object().unwrap().clone(),
            created_at_ms: NOW - 10 * DAY_MS as i64,
            updated_at_ms: NOW,
        };
        let got = Boost { by: by.clone(), weight }.factor(&head);
        assert!((got - expect).abs() < 1e-9, "{by:?} of {metadata}: {got}, not {expect}");
    }

    fn decay(field: &str, origin: NumberOrTime, shape: DecayShape) -> BoostBy {
        BoostBy::Decay(Decay { field: Field::parse(field).unwrap(), origin, shape })
    }

    #[test]
    fn matching_documents_get_the_weight() {
        let by = BoostBy::Filter(Filter::Field(Field::parse("a").unwrap(), Test::Eq(Scalar::Integer(1))));
        check(by.clone(), 3.0, json!({"a": 1}), 3.0);
        check(by.clone(), 0.5, json!({"a": 1}), 0.5);
        check(by, 3.0, json!({"a": 2}), 1.0);
    }

    #[test]
    fn a_boost_decays_with_distance_on_both_sides_of_the_origin() {
        let by = decay("n", NumberOrTime::Number(10.0), DecayShape::Exponential { half_life: 5.0 });
        for (n, share) in [(10.0, 1.0), (15.0, 0.5), (5.0, 0.5), (20.0, 0.25)] {
            check(by.clone(), 4.0, json!({ "n": n }), 4.0_f64.powf(share));
        }
        let by = decay("n", NumberOrTime::Number(10.0), DecayShape::Gaussian { scale: 5.0 });
        for (n, share) in [(10.0, 0.0_f64), (15.0, -0.5), (0.0, -2.0)] {
            check(by.clone(), 4.0, json!({ "n": n }), 4.0_f64.powf(share.exp()));
        }
    }

    #[test]
    fn time_decay_is_measured_in_days() {
        let shape = DecayShape::Exponential { half_life: 10.0 };
        let by = |field| decay(field, NumberOrTime::Time(NOW), shape);
        check(by("at"), 4.0, json!({"at": "2025-12-22T00:00:00Z"}), 2.0);
        check(by("at"), 4.0, json!({"at": "2025-12-22"}), 2.0);
        check(by("created_at"), 4.0, json!({}), 2.0);
        check(by("updated_at"), 4.0, json!({}), 4.0);
    }

    #[test]
    fn missing_or_mismatched_values_leave_the_score_unchanged() {
        let shape = DecayShape::Exponential { half_life: 1.0 };
        for metadata in [json!({}), json!({"n": null}), json!({"n": "10"}), json!({"n": [10]}), json!({"n": true})] {
            check(decay("n", NumberOrTime::Number(10.0), shape), 4.0, metadata.clone(), 1.0);
            check(decay("n", NumberOrTime::Time(NOW), shape), 4.0, metadata, 1.0);
        }
        check(decay("n", NumberOrTime::Time(NOW), shape), 4.0, json!({"n": NOW}), 1.0);
    }

    #[test]
    fn combined_boosts_change_a_score_at_most_a_thousandfold() {
        assert_eq!(Boost::product([2.0, 0.25]), 0.5);
        assert_eq!(Boost::product([100.0; 10]), 1_000.0);
        assert_eq!(Boost::product([0.01; 10]), 0.001);
        assert_eq!(Boost::product([]), 1.0);
    }
}
