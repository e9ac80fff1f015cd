//! Mode `full` combines all evidence. Embeddings, late interaction, words and translated words each list passages, and each
//! listed passage gets one relevance from all of them.
//!
//! Passages are ranked first; their documents are only looked up as far as the page reaches. The length of each list is bounded
//! (`FullSearch`). If the passages belong to too few documents, the lists get longer. All listed passages are ranked by an
//! estimate of late interaction. The best of them, half as many as the length limit of a list, are then ranked again by late
//! interaction itself.

use rustc_hash::FxHashMap;

use super::super::Error;
use super::hits::Candidate;
use super::marks::Asked;
use super::ranking::{ModelEvidence, Plan, Ranking};
use super::tokens::with_tokens;
use crate::domain::{DenseMethod, Embedding, FullSearch, HitPlaces, ListPlace, Metric, PassageId, QueryTerms, SearchParameters};
use crate::ranking::{Evidence, LateEstimates, Question, TokenIndex, TokenScorer, WordIndex, WordScores, lexical_share};
use crate::storage::{FirstPassages, NearestSearch, Neighbor, PassageSet};
use crate::store::SearchFilter;

/// Number of passages that each list has per wanted document.
const PASSAGES_PER_DOCUMENT: usize = 4;
/// Factor by which the lists grow if they had too few documents.
const GROWTH: usize = 4;
/// Maximum length of a list.
const NAMED_MAX: usize = 40_000;
/// In the end, one out of this many passages of a list is scored by late interaction itself. Scoring more does not noticeably
/// change the first ten ranks.
const COMPARED_PART: usize = 2;
/// Up to this many passages, late interaction scores all of them. In larger collections it only scores what the other lists
/// have, because scoring more would make a search too slow.
const SCANNED_MAX: usize = 200_000;

/// What the lists say about a passage.
#[derive(Debug, Clone, Default)]
struct Named {
    /// Its places in the lists that have it.
    places: HitPlaces,
    /// The similarity of the embeddings, by the collection's metric.
    similarity: Option<f32>,
}

/// The passages of all lists together.
struct Passages {
    /// Most relevant first.
    ranked: Vec<(Neighbor, HitPlaces)>,
    /// Whether longer lists would not add any passages.
    exhausted: bool,
    /// How the nearest embeddings were found.
    method: Option<DenseMethod>,
    /// The tokens and words of the query, to mark matches.
    asked: Asked,
}

/// A passage with its relevance.
struct Judged {
    passage: PassageId,
    named: Named,
    late: Option<f32>,
    relevance: f32,
}

impl Judged {
    /// Returns its relevance and its places, with the final score of late interaction in place of the estimate.
    fn place(self) -> (Neighbor, HitPlaces) {
        let mut places = self.named.places;
        if let Some((place, late)) = places.late.as_mut().zip(self.late) {
            place.score = late;
        }
        (Neighbor { passage: self.passage, score: self.relevance }, places)
    }
}

/// The scores of passages by the model's tokens and words.
struct ModelScores<'i> {
    tokens: &'i TokenIndex,
    words: &'i WordIndex,
    translated: Option<WordScores>,
    /// Estimates of late interaction, until passages are scored by late interaction itself.
    estimates: Option<LateEstimates>,
    question: Option<Question>,
}

impl ModelScores<'_> {
    /// Returns the late interaction score of a passage with these tokens, or its estimate.
    fn late(&self, passage: PassageId, own: &[u16]) -> Option<f32> {
        match &self.estimates {
            Some(estimates) => Some(estimates.get(self.tokens, passage)),
            None => self.question.as_ref().map(|question| question.score(own)),
        }
    }

    /// Switches from estimates to late interaction itself, and reads everything that these passages need for it.
    fn compare(&mut self, passages: impl Iterator<Item = PassageId>) -> Result<(), Error> {
        self.estimates = None;
        let tokens = passages.filter_map(|passage| self.tokens.get(passage));
        self.question.as_mut().map_or(Ok(()), |question| Ok(question.read(tokens)?))
    }
}

impl Plan<'_> {
    /// Ranks the `depth` most relevant documents.
    pub(super) fn full(&self, filter: &SearchFilter, depth: usize, search: FullSearch) -> Result<Ranking, Error> {
        let mut limit = search.candidates.max(depth.saturating_mul(PASSAGES_PER_DOCUMENT));
        loop {
            let Passages { ranked, exhausted, method, asked } = self.relevant(filter, limit)?;
            let mut documents = FirstPassages::new(depth);
            let neighbors: Vec<_> = ranked.iter().map(|(neighbor, _)| *neighbor).collect();
            documents.take(&neighbors, |passages| self.collection.store.documents_of(passages))?;
            if documents.is_full() || exhausted || limit >= NAMED_MAX {
                let exhausted = (exhausted && !documents.is_full()) || limit >= NAMED_MAX;
                let mut places: FxHashMap<_, _> =
                    ranked.into_iter().map(|(neighbor, places)| (neighbor.passage, places)).collect();
                let mut candidates: Vec<_> = documents.into_vec().into_iter().map(Candidate::of).collect();
                for candidate in &mut candidates {
                    candidate.places = places.remove(&candidate.passage).unwrap_or_default();
                }
                return Ok(Ranking { candidates, exhausted, method, asked });
            }
            limit = limit.saturating_mul(GROWTH).min(NAMED_MAX);
        }
    }

    /// Collects and ranks the passages of all lists, with up to `limit` passages per list.
    fn relevant(&self, filter: &SearchFilter, limit: usize) -> Result<Passages, Error> {
        let (collection, resolved) = (self.collection, &*self.resolved);
        let mut named: FxHashMap<PassageId, Named> = FxHashMap::default();
        let (mut exhausted, mut method) = (true, None);
        if let Some(embedding) = &resolved.embedding {
            let search = self.nearest(embedding, limit, filter);
            let nearest = collection.store.nearest(&NearestSearch { parameters: self.estimating(), ..search })?;
            exhausted &= nearest.neighbors.len() < limit;
            method = Some(nearest.method);
            for (rank, Neighbor { passage, score }) in (1..).zip(nearest.neighbors) {
                named.entry(passage).or_default().places.dense = Some(ListPlace { rank, score });
            }
        }
        if let Some(terms) = &resolved.terms {
            if self.asks_by_words() {
                let lexical = collection.store.lexical(terms, filter, limit).map_err(|error| self.pending(error))?;
                exhausted &= lexical.len() < limit;
                for (rank, (passage, score)) in (1..).zip(lexical) {
                    named.entry(passage).or_default().places.lexical = Some(ListPlace { rank, score });
                }
            } else {
                collection.store.check_lexical().map_err(|error| self.pending(error))?;
            }
        }
        let scope = self.scope(filter);
        let set = (!scope.is_all()).then(|| collection.store.passages_in(scope)).transpose()?;
        let ModelEvidence { scorer, translations } = self.evidence;
        let (ranked, asked, whole) = with_tokens(collection, translations, |tokens, words| {
            let accept = |passage| set.as_ref().is_none_or(|set| set.contains(passage));
            let question = scorer.map(|scorer| scorer.question(&resolved.tokens, tokens)).transpose()?;
            let estimates = question.as_ref().filter(|_| tokens.len() <= SCANNED_MAX).map(|question| question.estimate(tokens));
            if let Some(estimates) = &estimates {
                let late = estimates.nearest(tokens, limit, accept);
                exhausted &= late.len() < limit;
                for (rank, (passage, score)) in (1..).zip(late) {
                    named.entry(passage).or_default().places.late = Some(ListPlace { rank, score });
                }
            }
            let translated = translations.map(|translations| words.scores(&resolved.words, translations));
            if let Some(scores) = &translated {
                let found = words.nearest(scores, limit, accept);
                exhausted &= found.len() < limit;
                for (rank, (passage, score)) in (1..).zip(found) {
                    named.entry(passage).or_default().places.translated = Some(ListPlace { rank, score });
                }
            }
            if let Some(embedding) = &resolved.embedding {
                self.compare(embedding, &mut named)?;
            }
            let compared = limit.div_ceil(COMPARED_PART);
            let whole = named.len() <= compared || estimates.is_none();
            let mut model = ModelScores { tokens, words, translated, estimates, question };
            let mut named: Vec<(PassageId, Named)> = named.into_iter().collect();
            if !whole {
                named = self
                    .judge(named.into_iter(), &model)
                    .into_iter()
                    .take(compared)
                    .map(|judged| (judged.passage, judged.named))
                    .collect();
            }
            model.compare(named.iter().map(|(passage, _)| *passage))?;
            let ranked = self.judge(named.into_iter(), &model);
            let words = model.translated.map_or_else(Vec::new, WordScores::into_telling);
            Ok::<_, Error>((ranked, Asked { question: model.question, words }, whole))
        })??;
        Ok(Passages { ranked: ranked.into_iter().map(Judged::place).collect(), exhausted: exhausted && whole, method, asked })
    }

    /// Whether BM25 over the literal words makes a list. It does not if relevance gives it no weight, because the list of
    /// translated words includes the literal ones.
    fn asks_by_words(&self) -> bool {
        let ModelEvidence { scorer, translations } = self.evidence;
        translations.is_none() || scorer.is_none_or(|scorer| scorer.relevance().lexical > 0.0)
    }

    /// Returns the parameters of the search for the nearest embeddings. Relevance does not need rescoring, unless the index
    /// only has the signs of the values.
    fn estimating(&self) -> SearchParameters {
        let mut parameters = self.request.parameters;
        if !self.collection.row.quantization.keeps_signs_only() {
            parameters.oversampling = parameters.oversampling.or(Some(1.0));
        }
        parameters
    }

    /// Sets the similarity of every listed passage from the same values, because relevance must not depend on which list has
    /// the passage.
    fn compare(&self, embedding: &Embedding, named: &mut FxHashMap<PassageId, Named>) -> Result<(), Error> {
        let all: PassageSet = named.keys().copied().collect();
        for neighbor in self.collection.store.compare(embedding, &all)? {
            if let Some(named) = named.get_mut(&neighbor.passage) {
                named.similarity = Some(neighbor.score);
            }
        }
        Ok(())
    }

    /// Computes the relevance of each passage. Sorts by relevance, best first, and among equal passages the older first.
    fn judge(&self, named: impl Iterator<Item = (PassageId, Named)>, model: &ModelScores<'_>) -> Vec<Judged> {
        let terms = self.resolved.terms.as_ref().map_or(0, QueryTerms::scored);
        let passages = self.collection.store.searchable().map_or(0, |(passages, _)| passages);
        let metric = self.collection.row.metric;
        let weights = self.evidence.scorer.map(TokenScorer::relevance).unwrap_or_default();
        let judged = named.map(|(passage, named)| {
            let own = model.tokens.get(passage).unwrap_or_default();
            let late = model.late(passage, own);
            let evidence = Evidence {
                dense: named.similarity.map_or(0.0, |score| cosine(metric, score)),
                late,
                lexical: named.places.lexical.map_or(0.0, |place| lexical_share(place.score, terms, passages)),
                translated: model.translated.as_ref().map_or(0.0, |scores| model.words.score(scores, passage)),
                tokens: own.len(),
            };
            Judged { passage, named, late, relevance: evidence.relevance(&weights) }
        });
        let mut judged: Vec<_> = judged.collect();
        judged.sort_unstable_by(|a, b| b.relevance.total_cmp(&a.relevance).then(a.passage.cmp(&b.passage)));
        judged
    }
}

/// Converts a score by a metric to the cosine, for embeddings of unit length.
fn cosine(metric: Metric, score: f32) -> f32 {
    match metric {
        Metric::Cosine | Metric::Dot => score,
        Metric::L2 => 1.0 - score * score / 2.0,
    }
}
