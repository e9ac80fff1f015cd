//! Search by all there is: embeddings, late interaction, words, and translations of words name passages, and each of these gets one
//! relevance from all evidence.
//!
//! Passages are ranked, and their documents looked up only as far as the page reaches. How many passages each of the four names is
//! bounded (`FullSearch`); when they are of too few documents, each names more.

use std::collections::HashMap;

use super::super::Error;
use super::candidates::among;
use super::dense;
use super::hits::Candidates;
use super::matching::PassageSet;
use super::ranking::{ModelEvidence, Plan, Ranking};
use super::tokens::with_tokens;
use crate::domain::{DenseMethod, Embedding, FullSearch, HitPlaces, ListPlace, Metric, PassageId, QueryTerms};
use crate::index::Neighbor;
use crate::ranking::{Evidence, Question, TokenIndex, TokenScorer, lexical_share};
use crate::store::SearchFilter;

/// Passages that each list names for each document wanted.
const PASSAGES_PER_DOCUMENT: usize = 2;
/// How much more each list names when that was too little.
const GROWTH: usize = 4;
/// Passages that a list names at most.
const NAMED_MAX: usize = 40_000;
/// Late interaction looks through all passages up to so many, and through what embeddings and words name beyond: more take longer
/// than a search should.
const SCANNED_MAX: usize = 200_000;

/// What the four lists say of a passage.
#[derive(Debug, Clone, Copy, Default)]
struct Named {
    /// Its places in the lists that name it.
    places: HitPlaces,
    /// The similarity of the embeddings by the metric, also of passages that others named.
    similarity: Option<f32>,
}

/// What the four lists name together.
struct Passages {
    /// Most relevant first.
    ranked: Vec<(Neighbor, HitPlaces)>,
    /// Whether the lists name no more than these.
    exhausted: bool,
    /// Who named the nearest embeddings.
    method: Option<DenseMethod>,
    /// What late interaction asked.
    question: Option<Question>,
}

impl Plan<'_> {
    /// Ranks the `depth` most relevant documents.
    pub(super) fn full(&self, filter: &SearchFilter, depth: usize, search: FullSearch) -> Result<Ranking, Error> {
        let mut limit = search.candidates.max(depth.saturating_mul(PASSAGES_PER_DOCUMENT));
        loop {
            let Passages { ranked, exhausted, method, question } = self.relevant(filter, limit)?;
            let mut candidates = Candidates::new(depth);
            candidates.take(self.collection, &ranked.iter().map(|(neighbor, _)| *neighbor).collect::<Vec<_>>())?;
            if candidates.is_full() || exhausted || limit >= NAMED_MAX {
                let exhausted = (exhausted && !candidates.is_full()) || limit >= NAMED_MAX;
                let places: HashMap<_, _> = ranked.into_iter().map(|(neighbor, places)| (neighbor.passage, places)).collect();
                let mut candidates = candidates.into_vec();
                for candidate in &mut candidates {
                    candidate.places = places.get(&candidate.passage).copied().unwrap_or_default();
                }
                return Ok(Ranking { candidates, exhausted, method, question });
            }
            limit = limit.saturating_mul(GROWTH).min(NAMED_MAX);
        }
    }

    /// The passages of which each list names up to `limit`.
    fn relevant(&self, filter: &SearchFilter, limit: usize) -> Result<Passages, Error> {
        let (collection, aim) = (self.collection, &*self.aim);
        let mut named: HashMap<PassageId, Named> = HashMap::new();
        let (mut exhausted, mut method) = (true, None);
        if let Some(embedding) = &aim.embedding {
            let nearest = dense::passages(collection, embedding, limit, self.scope(filter), self.effort())?;
            exhausted &= nearest.neighbors.len() < limit;
            method = Some(nearest.method);
            for (rank, Neighbor { passage, score }) in (1..).zip(nearest.neighbors) {
                let entry = named.entry(passage).or_default();
                (entry.places.dense, entry.similarity) = (Some(ListPlace { rank, score }), Some(score));
            }
        }
        if let Some(terms) = &aim.terms {
            let lexical = collection.store.lexical(terms, filter, limit).map_err(|error| self.pending(error))?;
            exhausted &= lexical.len() < limit;
            for (rank, (passage, score)) in (1..).zip(lexical) {
                named.entry(passage).or_default().places.lexical = Some(ListPlace { rank, score });
            }
        }
        let scope = self.scope(filter);
        let set = (!scope.is_all()).then(|| scope.passages(collection)).transpose()?;
        let ModelEvidence { scorer, translations } = self.evidence;
        let (ranked, question) = with_tokens(collection, translations, |tokens, words| {
            let accept = |passage| set.as_ref().is_none_or(|set| set.contains(passage));
            let mut question = scorer.map(|scorer| scorer.question(&aim.tokens, tokens)).transpose()?;
            if let Some(question) = question.as_ref().filter(|_| tokens.len() <= SCANNED_MAX) {
                let late = question.nearest(tokens, limit, accept);
                exhausted &= late.len() < limit;
                for (rank, (passage, score)) in (1..).zip(late) {
                    named.entry(passage).or_default().places.late = Some(ListPlace { rank, score });
                }
            }
            let translated = translations.map(|translations| words.scores(&aim.words, translations));
            if let Some(scores) = &translated {
                let found = words.nearest(scores, limit, accept);
                exhausted &= found.len() < limit;
                for (rank, (passage, score)) in (1..).zip(found) {
                    named.entry(passage).or_default().places.translated = Some(ListPlace { rank, score });
                }
            }
            if let Some(embedding) = &aim.embedding {
                self.compare(embedding, &mut named)?;
            }
            if let Some(question) = &mut question {
                question.read(named.keys().filter_map(|&passage| tokens.get(passage)))?;
            }
            let by_words = |passage| translated.as_ref().map_or(0.0, |scores| words.score(scores, passage));
            Ok::<_, Error>((self.judge(named, question.as_ref(), tokens, by_words), question))
        })??;
        Ok(Passages { ranked, exhausted, method, question })
    }

    /// Adds the similarity of those that embeddings did not name.
    fn compare(&self, embedding: &Embedding, named: &mut HashMap<PassageId, Named>) -> Result<(), Error> {
        let others: PassageSet =
            named.iter().filter(|(_, named)| named.similarity.is_none()).map(|(passage, _)| *passage).collect();
        for neighbor in among(self.collection, embedding, &others)?.neighbors {
            if let Some(named) = named.get_mut(&neighbor.passage) {
                named.similarity = Some(neighbor.score);
            }
        }
        Ok(())
    }

    /// Gives each passage its relevance; best first, of equal ones the older first.
    fn judge(
        &self,
        named: HashMap<PassageId, Named>,
        question: Option<&Question>,
        tokens: &TokenIndex,
        translated: impl Fn(PassageId) -> f32,
    ) -> Vec<(Neighbor, HitPlaces)> {
        let terms = self.aim.terms.as_ref().map_or(0, QueryTerms::scored);
        let passages = self.collection.search_index().map_or(0, |(index, _)| index.len());
        let metric = self.collection.row.metric;
        let weights = self.evidence.scorer.map(TokenScorer::relevance).unwrap_or_default();
        let judged = named.into_iter().map(|(passage, Named { mut places, similarity })| {
            let own = tokens.get(passage).unwrap_or_default();
            let late = question.map(|question| question.score(own));
            let evidence = Evidence {
                dense: similarity.map_or(0.0, |score| cosine(metric, score)),
                late,
                lexical: places.lexical.map_or(0.0, |place| lexical_share(place.score, terms, passages)),
                translated: translated(passage),
                tokens: own.len(),
            };
            if let Some((place, late)) = places.late.as_mut().zip(late) {
                place.score = late;
            }
            (Neighbor { passage, score: evidence.relevance(&weights) }, places)
        });
        let mut judged: Vec<_> = judged.collect();
        judged.sort_by(|(a, _), (b, _)| b.score.total_cmp(&a.score).then(a.passage.cmp(&b.passage)));
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
