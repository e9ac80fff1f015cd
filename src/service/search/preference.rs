//! Applies preferred languages: documents in them go before others that are about as good, but not before much better ones.
//!
//! Candidates are sorted as if the scores of documents in a preferred language were up to a quarter better. The scores
//! themselves do not change.

use super::hits::Candidate;
use crate::domain::{Language, PreferredLanguage, SearchRequest, SearchTarget};
use crate::embed::Embedder;

/// How much better a score counts in the first preferred language. With `n` preferred languages, the second one gets
/// `(n - 1) / n` of that, and so on.
const BONUS: f32 = 0.25;

/// Returns the preferred languages, the most preferred first. If the request asks for the query's own language, includes it if
/// it is recognized.
pub(super) fn preferred_languages(request: &SearchRequest, embedder: &Embedder) -> Vec<Language> {
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

/// Reorders candidates, sorted best first, by the preference.
pub(super) fn reorder(candidates: &mut [Candidate], preferred: &[Language]) {
    if preferred.is_empty() {
        return;
    }
    // The sort is stable, so equal candidates keep their order.
    candidates.sort_by(|a, b| preferred_score(b, preferred).total_cmp(&preferred_score(a, preferred)));
}

/// Returns the score that candidates are sorted by.
pub(super) fn preferred_score(candidate: &Candidate, preferred: &[Language]) -> f32 {
    let count = preferred.len() as f32;
    let position = preferred.iter().position(|language| Some(*language) == candidate.language);
    let factor = 1.0 + position.map_or(0.0, |position| BONUS * (count - position as f32) / count);
    // Scores below zero are distances, or cosines of opposite directions. Nearer to zero is better.
    if candidate.score < 0.0 { candidate.score / factor } else { candidate.score * factor }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the order of candidates. `expect` has their positions in `candidates`.
    #[track_caller]
    fn check(candidates: &[(&str, f32)], preferred: &[&str], expect: &[u64]) {
        let candidates = (1..).zip(candidates).map(|(key, (language, score))| Candidate::example(key, language, *score));
        let mut candidates: Vec<Candidate> = candidates.collect();
        let preferred: Vec<Language> = preferred.iter().filter_map(|code| Language::parse(code)).collect();
        reorder(&mut candidates, &preferred);
        assert_eq!(candidates.iter().map(|candidate| candidate.passage.0).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn the_preferred_language_wins_unless_another_hit_is_much_better() {
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
    fn language_preference_also_applies_to_negative_scores() {
        check(&[("en", -1.0), ("fr", -1.2), ("fr", -1.3)], &["fr"], &[2, 1, 3]);
        check(&[("en", 0.0), ("fr", -0.1)], &["fr"], &[1, 2]);
    }

    #[test]
    fn ties_keep_their_order() {
        check(&[("fr", 0.5), ("fr", 0.5), ("en", 0.5)], &["fr"], &[1, 2, 3]);
    }
}
