//! Languages that a search prefers: documents in them go before others that are about as good, not before much better ones.
//!
//! The order is by the score as if that of a document in a preferred language were up to a quarter better; scores themselves stay
//! what they are.

use super::hits::Candidate;
use crate::domain::{Language, PreferredLanguage, SearchRequest, SearchTarget};
use crate::embed::Embedder;

/// How much better the score of a document in the first preferred language counts. Of `n` languages the second has `(n - 1) / n` of
/// it, and so on.
const BONUS: f32 = 0.25;

/// The languages that are preferred, the first one most; the query's own among them, where it is recognized.
pub(super) fn languages(request: &SearchRequest, embedder: &Embedder) -> Vec<Language> {
    let mut languages = Vec::new();
    for preferred in &request.prefer_language {
        let language = match (preferred, &request.target) {
            (PreferredLanguage::Of(language), _) => Some(*language),
            (PreferredLanguage::Query, SearchTarget::Text(text)) => embedder.detect(text).map(|found| found.language),
            (PreferredLanguage::Query, _) => None,
        };
        languages.extend(language.filter(|language| !languages.contains(language)));
    }
    languages
}

/// Puts candidates, best first, into the order that the preference makes.
pub(super) fn order(candidates: &mut [Candidate], preferred: &[Language]) {
    if preferred.is_empty() {
        return;
    }
    // Stable: of equal ones the order stays.
    candidates.sort_by(|a, b| counted(b, preferred).total_cmp(&counted(a, preferred)));
}

/// The score that makes the order.
pub(super) fn counted(candidate: &Candidate, preferred: &[Language]) -> f32 {
    let count = preferred.len() as f32;
    let place = preferred.iter().position(|language| Some(*language) == candidate.language);
    let factor = 1.0 + place.map_or(0.0, |place| BONUS * (count - place as f32) / count);
    // Scores below zero are distances, or cosines of what points away: nearer to zero is better.
    if candidate.score < 0.0 { candidate.score / factor } else { candidate.score * factor }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{DocumentId, HitPlaces, PassageId};

    /// The order of candidates, best first, by their places in the list.
    #[track_caller]
    fn check(candidates: &[(&str, f32)], preferred: &[&str], expect: &[u64]) {
        let candidate = |(key, (language, score)): (u64, &(&str, f32))| Candidate {
            passage: PassageId(key),
            document: DocumentId::parse(&format!("d{key}")).unwrap(),
            language: Language::parse(language),
            score: *score,
            places: HitPlaces::default(),
            group: None,
        };
        let mut candidates: Vec<Candidate> = (1..).zip(candidates).map(candidate).collect();
        let preferred: Vec<Language> = preferred.iter().filter_map(|code| Language::parse(code)).collect();
        order(&mut candidates, &preferred);
        assert_eq!(candidates.iter().map(|candidate| candidate.passage.0).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn about_as_good_in_the_preferred_language_goes_first_and_much_better_stays_first() {
        check(&[("en", 0.9), ("en", 0.8), ("fr", 0.75)], &["fr"], &[3, 1, 2]);
        check(&[("en", 0.9), ("en", 0.8), ("fr", 0.7)], &["fr"], &[1, 3, 2]);
        check(&[("en", 0.9), ("en", 0.8), ("fr", 0.6)], &["fr"], &[1, 2, 3]);
        check(&[("en", 0.9), ("", 0.8), ("fr", 0.75)], &[], &[1, 2, 3]);
    }

    #[test]
    fn the_first_of_several_languages_is_preferred_most() {
        check(&[("en", 0.8), ("fr", 0.75), ("de", 0.75)], &["de", "fr"], &[3, 2, 1]);
        check(&[("fr", 0.8), ("de", 0.7)], &["de", "fr"], &[1, 2]);
        check(&[("en", 0.8), ("fr", 0.7)], &["de", "fr"], &[1, 2]);
    }

    #[test]
    fn distances_and_negative_scores_are_preferred_alike() {
        check(&[("en", -1.0), ("fr", -1.2), ("fr", -1.3)], &["fr"], &[2, 1, 3]);
        check(&[("en", 0.0), ("fr", -0.1)], &["fr"], &[1, 2]);
    }

    #[test]
    fn of_equal_ones_the_order_stays() {
        check(&[("fr", 0.5), ("fr", 0.5), ("en", 0.5)], &["fr"], &[1, 2, 3]);
    }
}
