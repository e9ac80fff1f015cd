//! Mode `full` combines all evidence. Embeddings, late interaction, words and translated words each list passages, and each
//! listed passage gets one relevance from all of them.
//!
//! Passages are ranked first; their documents are only looked up as far as the page reaches. The length of each list is bounded
//! (`SearchMode::Full`). If the passages belong to too few documents, the lists get longer. All listed passages are ranked by an
//! estimate of late interaction. The best of them, half as many as the length limit of a list, are then ranked again by late
//! interaction itself.

use rustc_hash::FxHashMap;

use super::hits::Candidate;
use super::literal::LiteralMatches;
use super::marks::QueryMatcher;
use super::ranking::{ModelEvidence, Plan, Ranking};
use super::tokens::with_tokens;
use crate::domain::{DenseMethod, Embedding, HitRanks, Metric, PassageId, QueryTerms, RankedScore};
use crate::embed::DependentToken;
use crate::ranking::{Evidence, LateEstimates, Question, TokenIndex, TokenScorer, WordIndex, WordScores, lexical_share};
use crate::service::error::Error;
use crate::storage::{FirstPassages, NearestSearch, Neighbor, PassageSet};
use crate::store::SearchFilter;

/// Number of passages in each list per wanted document.
const PASSAGES_PER_DOCUMENT: usize = 4;
/// Factor by which the lists grow if they had too few documents.
const GROWTH: usize = 4;
const LIST_LENGTH_MAX: usize = 40_000;
/// Minimum length of the lists of a query of one or two words, because many passages may contain them.
const SHORT_QUERY_LISTED: usize = 200;
const SHORT_QUERY_WORDS: usize = 2;
/// In the end, one in this many passages of a list is scored by late interaction itself. Scoring more does not noticeably
/// change the first ten ranks.
const COMPARED_PART: usize = 2;
/// Minimum number of passages that are scored exactly: a page of hits needs some to choose from.
const COMPARED_MIN: usize = 25;
/// In collections of up to this many passages, late interaction scores all of them. In larger ones it only scores the
/// passages of the other lists, because scoring more would make a search too slow.
const SCANNED_MAX: usize = 200_000;

/// What the lists say about a passage.
#[derive(Debug, Clone, Default)]
struct PassageCandidate {
    /// Its ranks in the lists that have it.
    ranks: HitRanks,
    /// The similarity of the embeddings, by the collection's metric.
    similarity: Option<f32>,
}

/// The passages of all lists together.
struct Passages {
    /// Most relevant first.
    ranked: Vec<(Neighbor, HitRanks)>,
    /// Whether longer lists would not add any passages.
    exhausted: bool,
    /// How the nearest embeddings were found.
    method: Option<DenseMethod>,
    /// The tokens and words of the query, to mark matches.
    matcher: QueryMatcher,
}

pub(super) struct RankedPassage {
    pub(super) passage: PassageId,
    candidate: PassageCandidate,
    late: Option<f32>,
    /// The share of the query's words that it has.
    pub(super) translated: f32,
    pub(super) relevance: f32,
}

impl RankedPassage {
    /// Returns its relevance and its ranks, with the final score of late interaction in place of the estimate.
    fn with_ranks(self) -> (Neighbor, HitRanks) {
        let mut ranks = self.candidate.ranks;
        if let Some((ranked, late)) = ranks.late.as_mut().zip(self.late) {
            ranked.score = late;
        }
        (Neighbor { passage: self.passage, score: self.relevance }, ranks)
    }
}

/// A token of the question that depends on its word (`DependentToken`).
struct Dependence {
    token: u16,
    word: u32,
    shorter: Option<u32>,
    /// The postings of the words that mean the word, sorted. `None` for a group of a number, because other numbers contain it
    /// too.
    meanings: Option<Vec<u32>>,
}

/// The scores of passages by the model's tokens and words.
struct ModelScores<'i> {
    tokens: &'i TokenIndex,
    words: &'i WordIndex,
    translated: Option<WordScores>,
    /// Estimates of late interaction, until passages are scored by late interaction itself.
    estimates: Option<LateEstimates>,
    question: Option<Question>,
    dependent_tokens: Vec<Dependence>,
    /// The passages that have parts of the query as written, and the shares of these parts.
    literal: (&'i LiteralMatches, Vec<f32>),
}

impl ModelScores<'_> {
    /// Returns the late interaction score of a passage with these tokens, or its estimate.
    fn late_score(&self, passage: PassageId, tokens: &[u16]) -> Option<f32> {
        match &self.estimates {
            Some(estimates) => Some(estimates.get(self.tokens, passage)),
            None => self.question.as_ref().map(|question| question.score(tokens, &self.partial_tokens(passage, tokens))),
        }
    }

    /// Returns the tokens of a passage that depend on a word of the question, if the passage has neither this word nor others
    /// that mean the same, so that it only has the tokens in other words.
    fn partial_tokens(&self, passage: PassageId, tokens: &[u16]) -> Vec<u16> {
        let lacks = |postings: &Vec<u32>| self.words.has_any(passage, postings) == Some(false);
        let is_partial = |dependence: &&Dependence| {
            tokens.binary_search(&dependence.token).is_ok()
                && dependence.shorter.is_none_or(|shorter| self.words.has_word(passage, shorter) == Some(true))
                && dependence.meanings.as_ref().is_none_or(lacks)
                && !self.literal.0.has(dependence.word, passage)
        };
        self.dependent_tokens.iter().filter(is_partial).map(|dependence| dependence.token).collect()
    }

    /// Returns the share of the query's words that a passage has, as written or in any language.
    fn translated_score(&self, passage: PassageId) -> f32 {
        let (literal, shares) = &self.literal;
        literal.raise(self.translated.as_ref().map_or(0.0, |scores| self.words.score(scores, passage)), shares, passage)
    }

    /// Switches from estimates to late interaction itself, and reads everything that these passages need for it.
    fn compare(&mut self, passages: impl Iterator<Item = PassageId>) -> Result<(), Error> {
        self.estimates = None;
        let tokens = passages.filter_map(|passage| self.tokens.get(passage));
        self.question.as_mut().map_or(Ok(()), |question| Ok(question.add_passages(tokens)?))
    }
}

impl Plan<'_> {
    /// Ranks the `depth` most relevant documents.
    pub(super) fn search_full(&self, filter: &SearchFilter, depth: usize, candidates_min: usize) -> Result<Ranking, Error> {
        let mut limit = candidates_min.max(depth.saturating_mul(PASSAGES_PER_DOCUMENT));
        if (1..=SHORT_QUERY_WORDS).contains(&self.resolved.words_typed) {
            limit = limit.max(SHORT_QUERY_LISTED);
        }
        self.collection.mark_searched();
        let literal = self.literal_matches()?;
        loop {
            let Passages { ranked, exhausted, method, matcher } = self.rank_passages(filter, limit, &literal)?;
            let mut documents = FirstPassages::new(depth);
            let neighbors: Vec<_> = ranked.iter().map(|(neighbor, _)| *neighbor).collect();
            documents.add(&neighbors, |passages| self.collection.store.documents_of(passages))?;
            if documents.is_full() || exhausted || limit >= LIST_LENGTH_MAX {
                let exhausted = (exhausted && !documents.is_full()) || limit >= LIST_LENGTH_MAX;
                let mut ranks: FxHashMap<_, _> = ranked.into_iter().map(|(neighbor, ranks)| (neighbor.passage, ranks)).collect();
                let mut candidates: Vec<_> = documents.into_vec().into_iter().map(Candidate::from_passage).collect();
                for candidate in &mut candidates {
                    candidate.ranks = ranks.remove(&candidate.passage).unwrap_or_default();
                }
                return Ok(Ranking { candidates, exhausted, method, matcher });
            }
            limit = limit.saturating_mul(GROWTH).min(LIST_LENGTH_MAX);
        }
    }

    /// Collects and ranks the passages of all lists, with up to `limit` passages per list.
    fn rank_passages(&self, filter: &SearchFilter, limit: usize, literal: &LiteralMatches) -> Result<Passages, Error> {
        let (collection, resolved) = (self.collection, &*self.resolved);
        let mut candidates: FxHashMap<PassageId, PassageCandidate> = FxHashMap::default();
        let (mut exhausted, method) = self.list_nearest(filter, limit, &mut candidates)?;
        exhausted &= self.list_lexical(filter, limit, &mut candidates)?;
        let scope = self.scope(filter);
        let set = (!scope.is_all()).then(|| collection.store.passages_in(scope)).transpose()?;
        let ModelEvidence { scorer, translations } = self.evidence;
        let (mut ranked, matcher, all_compared, titled) = with_tokens(collection, translations, |tokens, words| {
            let accept = |passage| set.as_ref().is_none_or(|set| set.contains(passage));
            let question = scorer.map(|scorer| scorer.question(&resolved.tokens, tokens)).transpose()?;
            let estimates = question.as_ref().filter(|_| tokens.len() <= SCANNED_MAX).map(|question| question.estimate(tokens));
            if let Some(estimates) = &estimates {
                let late = estimates.nearest(tokens, limit, accept);
                exhausted &= late.len() < limit;
                for (rank, (passage, score)) in (1..).zip(late) {
                    candidates.entry(passage).or_default().ranks.late = Some(RankedScore { rank, score });
                }
            }
            let translated = translations.map(|translations| words.scores(&resolved.words, question.as_ref(), translations));
            let mut titled = Vec::new();
            if let Some(scores) = &translated {
                let found = words.nearest(scores, limit, accept);
                if found.len() >= limit {
                    exhausted = false;
                    titled = self.passages_titled_as_query(accept)?;
                }
                for (rank, (passage, score)) in (1..).zip(found) {
                    candidates.entry(passage).or_default().ranks.translated = Some(RankedScore { rank, score });
                }
            }
            let score = |passage| translated.as_ref().map_or(0.0, |scores| words.score(scores, passage));
            let (found, all) = literal.passages(limit, accept, score);
            exhausted &= all;
            for passage in found.into_iter().chain(titled.iter().copied()) {
                candidates.entry(passage).or_default();
            }
            if let Some(embedding) = &resolved.embedding {
                self.compare(embedding, &mut candidates)?;
            }
            let compared = limit.div_ceil(COMPARED_PART).max(COMPARED_MIN);
            let all_compared = candidates.len() <= compared || estimates.is_none();
            let shares = literal.shares(translated.as_ref());
            let dependent_tokens = translated.as_ref().map_or_else(Vec::new, |scores| self.dependences(words, scores, literal));
            let mut model =
                ModelScores { tokens, words, translated, estimates, question, dependent_tokens, literal: (literal, shares) };
            let mut candidates: Vec<(PassageId, PassageCandidate)> = candidates.into_iter().collect();
            if !all_compared {
                let best = self.rank(candidates.into_iter(), &model).into_iter().enumerate();
                let best =
                    best.filter(|(position, ranked_passage)| *position < compared || titled.contains(&ranked_passage.passage));
                candidates = best.map(|(_, ranked_passage)| (ranked_passage.passage, ranked_passage.candidate)).collect();
            }
            model.compare(candidates.iter().map(|(passage, _)| *passage))?;
            let ranked = self.rank(candidates.into_iter(), &model);
            let words = model.translated.map_or_else(Vec::new, WordScores::into_significant_words);
            let matcher = QueryMatcher { question: model.question, words, terms: literal.terms.clone() };
            Ok::<_, Error>((ranked, matcher, all_compared, titled))
        })??;
        self.prefer_titled(&mut ranked, &titled)?;
        Ok(Passages {
            ranked: ranked.into_iter().map(RankedPassage::with_ranks).collect(),
            exhausted: exhausted && all_compared,
            method,
            matcher,
        })
    }

    /// Returns the tokens of the query that depend on a word, with the words that mean it.
    fn dependences(&self, words: &WordIndex, scores: &WordScores, literal: &LiteralMatches) -> Vec<Dependence> {
        let matters = |dependent: &&DependentToken| dependent.shorter.is_none_or(|shorter| words.has(shorter));
        let dependence = |dependent: &DependentToken| {
            let is_in_number = dependent.is_group && literal.has_number(dependent.word);
            let meanings = (!is_in_number).then(|| words.meanings(dependent.word, scores));
            Some(Dependence {
                token: u16::try_from(dependent.token).ok()?,
                word: dependent.word,
                shorter: dependent.shorter,
                meanings,
            })
        };
        self.resolved.dependent_tokens.iter().filter(matters).filter_map(dependence).collect()
    }

    /// Adds the passages with the nearest embeddings. Returns whether there are no more, and how they were found.
    fn list_nearest(
        &self,
        filter: &SearchFilter,
        limit: usize,
        candidates: &mut FxHashMap<PassageId, PassageCandidate>,
    ) -> Result<(bool, Option<DenseMethod>), Error> {
        let Some(embedding) = &self.resolved.embedding else { return Ok((true, None)) };
        let search = NearestSearch { rough: self.compares_listed(), ..self.nearest_query(embedding, limit, filter) };
        let nearest = self.collection.store.nearest(&search)?;
        let exhausted = nearest.neighbors.len() < limit;
        for (rank, Neighbor { passage, score }) in (1..).zip(nearest.neighbors) {
            candidates.entry(passage).or_default().ranks.dense = Some(RankedScore { rank, score });
        }
        Ok((exhausted, Some(nearest.method)))
    }

    /// Adds the best passages by BM25 over the literal words, if there is such a list. Returns whether there are no more.
    fn list_lexical(
        &self,
        filter: &SearchFilter,
        limit: usize,
        candidates: &mut FxHashMap<PassageId, PassageCandidate>,
    ) -> Result<bool, Error> {
        let Some(terms) = &self.resolved.terms else { return Ok(true) };
        // Without such a list, only checks that passages have their terms.
        let none = QueryTerms::default();
        let terms = if self.needs_lexical_list() { terms } else { &none };
        let lexical = self.collection.store.lexical(terms, filter, limit);
        let lexical = lexical.map_err(|error| self.add_preparation_progress(error))?;
        let exhausted = lexical.len() < limit;
        for (rank, (passage, score)) in (1..).zip(lexical) {
            candidates.entry(passage).or_default().ranks.lexical = Some(RankedScore { rank, score });
        }
        Ok(exhausted)
    }

    /// Whether BM25 over the literal words has a separate list. It has none if relevance gives it no weight, because the
    /// list of translated words includes the literal ones.
    fn needs_lexical_list(&self) -> bool {
        let ModelEvidence { scorer, translations } = self.evidence;
        translations.is_none() || scorer.is_none_or(|scorer| scorer.relevance().lexical > 0.0)
    }

    /// Whether the ranks of the nearest embeddings follow from the comparison of all listed passages. They do not if the request
    /// wants a more exact comparison of the nearest, or if the index only has the signs of the values.
    fn compares_listed(&self) -> bool {
        !self.request.exact
            && self.request.parameters.oversampling.is_none()
            && !self.collection.row.quantization.keeps_signs_only()
    }

    /// Sets the similarity of every listed passage from the same values, because relevance must not depend on which list has
    /// the passage. Unless the request wants a more exact comparison, the ranks of the nearest embeddings follow from it, too.
    fn compare(&self, embedding: &Embedding, candidates: &mut FxHashMap<PassageId, PassageCandidate>) -> Result<(), Error> {
        let all: PassageSet = candidates.keys().copied().collect();
        let (ranks_follow, mut rank) = (self.compares_listed(), 1);
        for neighbor in self.collection.store.compare(embedding, &all)? {
            if let Some(candidate) = candidates.get_mut(&neighbor.passage) {
                candidate.similarity = Some(neighbor.score);
                if let (Some(ranked), true) = (&mut candidate.ranks.dense, ranks_follow) {
                    (rank, *ranked) = (rank + 1, RankedScore { rank, score: neighbor.score });
                }
            }
        }
        Ok(())
    }

    /// Computes the relevance of each passage. Sorts by relevance, best first, and among equal passages the older first.
    fn rank(
        &self,
        candidates: impl Iterator<Item = (PassageId, PassageCandidate)>,
        model: &ModelScores<'_>,
    ) -> Vec<RankedPassage> {
        let terms = self.resolved.terms.as_ref().map_or(0, QueryTerms::scored);
        let passages = self.collection.store.searchable().unwrap_or(0);
        let metric = self.collection.row.metric;
        let weights = self.evidence.scorer.map(TokenScorer::relevance).unwrap_or_default();
        let ranked_passages = candidates.map(|(passage, candidate)| {
            let tokens = model.tokens.get(passage).unwrap_or_default();
            let late = model.late_score(passage, tokens);
            let evidence = Evidence {
                dense: candidate.similarity.map_or(0.0, |score| cosine(metric, score)),
                late,
                lexical: candidate.ranks.lexical.map_or(0.0, |ranked| lexical_share(ranked.score, terms, passages)),
                translated: model.translated_score(passage),
                tokens: tokens.len(),
            };
            RankedPassage { passage, candidate, late, translated: evidence.translated, relevance: evidence.relevance(&weights) }
        });
        let mut ranked_passages: Vec<_> = ranked_passages.collect();
        sort(&mut ranked_passages);
        ranked_passages
    }
}

/// Sorts by relevance, best first, and among equal passages the older first.
pub(super) fn sort(ranked: &mut [RankedPassage]) {
    ranked.sort_unstable_by(|a, b| b.relevance.total_cmp(&a.relevance).then(a.passage.cmp(&b.passage)));
}

/// Converts a score by a metric to the cosine, for embeddings of unit length.
fn cosine(metric: Metric, score: f32) -> f32 {
    match metric {
        Metric::Cosine | Metric::Dot => score,
        Metric::L2 => 1.0 - score * score / 2.0,
    }
}
