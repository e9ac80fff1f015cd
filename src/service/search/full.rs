//! Search by all there is: embeddings, late interaction and words, also translated ones, name passages, and each of these gets one
//! relevance from all evidence.
//!
//! Passages are ranked, and their documents looked up only as far as the page reaches. How many passages each list names is bounded
//! (`FullSearch`); when they are of too few documents, each names more. All that are named are ranked by an estimate of late
//! interaction, and the best of them, as many as one list names, once more by late interaction itself.

use std::collections::HashMap;

use super::super::Error;
use super::hits::Candidate;
use super::ranking::{Asked, ModelEvidence, Plan, Ranking};
use super::tokens::with_tokens;
use crate::domain::{DenseMethod, Embedding, FullSearch, HitPlaces, ListPlace, Metric, PassageId, QueryTerms, SearchParameters};
use crate::ranking::{Evidence, LateEstimates, Question, TokenIndex, TokenScorer, WordIndex, WordScores, lexical_share};
use crate::storage::{FirstPassages, NearestSearch, Neighbor, PassageSet};
use crate::store::SearchFilter;

/// Passages that each list names for each document wanted.
const PASSAGES_PER_DOCUMENT: usize = 4;
/// How much more each list names when that was too little.
const GROWTH: usize = 4;
/// Passages that a list names at most.
const NAMED_MAX: usize = 40_000;
/// One of so many passages that a list names is compared whole in the end. More change no rank among the first ten that counts.
const COMPARED_PART: usize = 2;
/// Late interaction looks through all passages up to so many, and through what embeddings and words name beyond: more take longer
/// than a search should.
const SCANNED_MAX: usize = 200_000;

/// What the lists say of a passage.
#[derive(Debug, Clone, Default)]
struct Named {
    /// Its places in the lists that name it.
    places: HitPlaces,
    /// The similarity of the embeddings by the metric.
    similarity: Option<f32>,
}

/// What the lists name together.
struct Passages {
    /// Most relevant first.
    ranked: Vec<(Neighbor, HitPlaces)>,
    /// Whether the lists name no more than these.
    exhausted: bool,
    /// Who named the nearest embeddings.
    method: Option<DenseMethod>,
    /// What the model's tokens and words asked.
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
    /// Where it stands, with what late interaction says of it in the end.
    fn place(self) -> (Neighbor, HitPlaces) {
        let mut places = self.named.places;
        if let Some((place, late)) = places.late.as_mut().zip(self.late) {
            place.score = late;
        }
        (Neighbor { passage: self.passage, score: self.relevance }, places)
    }
}

/// What the model's tokens and words say of the passages.
struct ModelScores<'i> {
    tokens: &'i TokenIndex,
    words: &'i WordIndex,
    translated: Option<WordScores>,
    /// Until the passages are compared whole, if there are any.
    estimates: Option<LateEstimates>,
    question: Option<Question>,
}

impl ModelScores<'_> {
    /// Late interaction with a passage of these tokens.
    fn late(&self, passage: PassageId, own: &[u16]) -> Option<f32> {
        match &self.estimates {
            Some(estimates) => Some(estimates.get(self.tokens, passage)),
            None => self.question.as_ref().map(|question| question.score(own)),
        }
    }

    /// From here on passages are compared whole, and these without delay.
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
                let mut places: HashMap<_, _> = ranked.into_iter().map(|(neighbor, places)| (neighbor.passage, places)).collect();
                let mut candidates: Vec<_> = documents.into_vec().into_iter().map(Candidate::of).collect();
                for candidate in &mut candidates {
                    candidate.places = places.remove(&candidate.passage).unwrap_or_default();
                }
                return Ok(Ranking { candidates, exhausted, method, asked });
            }
            limit = limit.saturating_mul(GROWTH).min(NAMED_MAX);
        }
    }

    /// The passages of which each list names up to `limit`.
    fn relevant(&self, filter: &SearchFilter, limit: usize) -> Result<Passages, Error> {
        let (collection, resolved) = (self.collection, &*self.resolved);
        let mut named: HashMap<PassageId, Named> = HashMap::new();
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
            let words = model.translated.map_or_else(Vec::new, |scores| scores.telling().to_vec());
            Ok::<_, Error>((ranked, Asked { question: model.question, words }, whole))
        })??;
        Ok(Passages { ranked: ranked.into_iter().map(Judged::place).collect(), exhausted: exhausted && whole, method, asked })
    }

    /// Whether BM25 over the words as they are spelled names passages: not where relevance gives it no weight, since translated words
    /// contain it.
    fn asks_by_words(&self) -> bool {
        let ModelEvidence { scorer, translations } = self.evidence;
        translations.is_none() || scorer.is_none_or(|scorer| scorer.relevance().lexical > 0.0)
    }

    /// How the nearest embeddings are looked for: relevance needs no more than the values of the index, where these are more than signs.
    fn estimating(&self) -> SearchParameters {
        let mut parameters = self.request.parameters;
        if !self.collection.row.quantization.keeps_signs_only() {
            parameters.oversampling = parameters.oversampling.or(Some(1.0));
        }
        parameters
    }

    /// Sets the similarity of each, by the same values whoever named it: relevance must not depend on that.
    fn compare(&self, embedding: &Embedding, named: &mut HashMap<PassageId, Named>) -> Result<(), Error> {
        let all: PassageSet = named.keys().copied().collect();
        for neighbor in self.collection.store.compare(embedding, &all)? {
            if let Some(named) = named.get_mut(&neighbor.passage) {
                named.similarity = Some(neighbor.score);
            }
        }
        Ok(())
    }

    /// Gives each passage its relevance; best first, of equal ones the older first.
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

/// The cosine of embeddings of unit length, from their score by a metric.
fn cosine(metric: Metric, score: f32) -> f32 {
    match metric {
        Metric::Cosine | Metric::Dot => score,
        Metric::L2 => 1.0 - score * score / 2.0,
    }
}
