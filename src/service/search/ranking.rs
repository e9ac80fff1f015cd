//! Ranks candidates by meaning, by words or by both, then applies the request's margin, boosts, languages, diversity, groups
//! and page.

use super::fusion::{fuse, interleave_languages, interleave_languages_by_score};
use super::groups::collapse;
use super::hits::Candidate;
use super::margin::rescore;
use super::marks::QueryMatcher;
use super::resolve::ResolvedQuery;
use super::{boosts, diversity, preference};
use crate::domain::{
    DenseMethod, Embedding, Field, Filter, HitRanks, Language, QueryTerms, RankedScore, SearchMode, SearchRequest, Test,
};
use crate::embed::Embedder;
use crate::ranking::{TokenScorer, Translations};
use crate::service::error::Error;
use crate::service::open_collection::OpenCollection;
use crate::storage::{FirstPassages, Nearest, NearestSearch, Neighbor, RequiredPassages, Scope, Unit};
use crate::store::{SearchFilter, StoreError};

/// Minimum number of documents of each list that are fused, and more if the page reaches further. With fewer, a document's rank
/// would depend on how many hits were requested.
const FUSED_MIN: usize = 200;
/// Number of documents per requested hit that are rescored by their margin.
const RESCORED_PER_HIT: usize = 4;
/// Maximum number of rescored documents, unless more hits are requested. Each one takes a search in the index.
const RESCORED_MAX: usize = 200;
/// Minimum number of documents to rank if boosts, languages or diversity may move a document from beyond the page onto it.
const REORDERED_MIN: usize = 200;
/// Number of documents to rank per requested hit in that case.
const REORDERED_PER_HIT: usize = 4;
/// Maximum number of documents ranked to find enough groups.
const GROUPED_MAX: usize = 10_000;
/// Factor by which the depth grows if it was not enough.
const GROWTH: usize = 4;
/// Number of passages searched per wanted document in lexical search, and their minimum.
const PASSAGES_PER_DOCUMENT: usize = 2;
const PASSAGES_MIN: usize = 32;

/// A search in a collection.
pub(super) struct Plan<'a> {
    pub(super) collection: &'a OpenCollection,
    pub(super) request: &'a SearchRequest,
    pub(super) resolved: &'a mut ResolvedQuery,
    /// What the model offers for comparisons in addition to embeddings.
    pub(super) evidence: ModelEvidence<'a>,
    /// The passages that have the required words, for the lists that do not search by words.
    pub(super) words: Option<RequiredPassages>,
}

/// What a model offers for comparing questions with passages, in addition to embeddings.
#[derive(Clone, Copy)]
pub(super) struct ModelEvidence<'a> {
    /// Compares them token by token (late interaction), if the model can.
    pub(super) scorer: Option<&'a TokenScorer>,
    /// Compares them word by word across languages, if the model can.
    pub(super) translations: Option<&'a Translations>,
}

impl<'a> From<&'a Embedder> for ModelEvidence<'a> {
    fn from(embedder: &'a Embedder) -> Self {
        Self { scorer: embedder.scorer(), translations: embedder.translations() }
    }
}

/// The candidates that become hits.
pub(super) struct Page {
    /// The candidates in the order of the hits.
    pub(super) candidates: Vec<Candidate>,
    pub(super) filter: SearchFilter,
    /// How many were ranked.
    pub(super) ranked: usize,
    pub(super) method: Option<DenseMethod>,
    /// The query's tokens and words in the model, to mark matches.
    pub(super) matcher: QueryMatcher,
}

/// Candidates, best first.
pub(super) struct Ranking {
    pub(super) candidates: Vec<Candidate>,
    /// Whether a deeper search would find nothing more.
    pub(super) exhausted: bool,
    pub(super) method: Option<DenseMethod>,
    /// The query's tokens and words in the model, to mark matches.
    pub(super) matcher: QueryMatcher,
}

impl Plan<'_> {
    pub(super) fn page(mut self) -> Result<Page, Error> {
        self.find_required()?;
        let request = self.request;
        let filter = self.filter();
        let end = request.offset.saturating_add(request.limit);
        let mut depth = end;
        loop {
            let ranking = if request.balance_languages {
                self.rank_balanced(&filter, depth)?
            } else {
                self.rank_and_boost(&filter, depth)?
            };
            let ranked = ranking.candidates.len();
            let mut candidates = ranking.candidates;
            if let Some(score_min) = request.score_min {
                candidates.retain(|candidate| candidate.score >= score_min);
            }
            // If scores only fall with depth, no later candidate can reach the minimum score.
            let ended = self.scores_descend() && candidates.len() < ranked;
            let mut last = ranking.exhausted || ended || depth >= GROUPED_MAX;
            preference::reorder(&mut candidates, &self.resolved.preferred);
            if request.diversity > 0.0 {
                diversity::reorder(self.collection, &mut candidates, &self.resolved.preferred, (request.diversity, end))?;
            }
            match &request.grouping {
                Some(grouping) => candidates = collapse(self.collection, candidates, grouping)?,
                None => last = true,
            }
            if last || candidates.len() >= end {
                let candidates = candidates.into_iter().skip(request.offset).take(request.limit).collect();
                return Ok(Page { candidates, filter, ranked, method: ranking.method, matcher: ranking.matcher });
            }
            depth = depth.saturating_mul(GROWTH).min(GROUPED_MAX);
        }
    }

    /// Whether a deeper search cannot find a better score than the last one. It can if each language has a separate list, or
    /// if the score comes from a margin, boosts or the ranks in several lists.
    fn scores_descend(&self) -> bool {
        let request = self.request;
        !request.balance_languages
            && request.margin.is_none()
            && request.boosts.is_empty()
            && !matches!(request.mode, SearchMode::Hybrid(_) | SearchMode::Full { .. })
    }

    /// Returns the filter of the hits. A request without languages gets the default languages of its collection.
    fn filter(&self) -> SearchFilter {
        let languages = self.request.languages.clone().unwrap_or_else(|| self.collection.current().default_languages);
        SearchFilter { languages, filter: self.request.filter.clone() }
    }

    /// Searches each language separately, so that documents in other languages are found no matter how many documents of one
    /// language are nearer. Then lets the languages take turns. In mode `full` relevance means the same in all languages, so
    /// the candidates of a single search take turns.
    fn rank_balanced(&self, filter: &SearchFilter, depth: usize) -> Result<Ranking, Error> {
        if let SearchMode::Full { candidates } = self.request.mode {
            let ranking = self.rank_and_boost(filter, depth.max(candidates))?;
            return Ok(Ranking { candidates: interleave_languages_by_score(ranking.candidates), ..ranking });
        }
        let mut all = Ranking::new(Vec::new(), true);
        let mut languages: Vec<Language> = filter.languages.clone();
        if languages.is_empty() {
            let counted = self.collection.store.counts()?.languages;
            languages = counted.iter().filter_map(|(language, _)| *language).collect();
            if counted.iter().any(|(language, _)| language.is_none()) {
                let without = Filter::Field(Field::Language, Test::Exists(false));
                all = self.rank_and_boost(&Filter::And(vec![filter.filter.clone(), without]).into(), depth)?;
            }
        }
        languages.sort_unstable();
        languages.dedup();
        for language in languages {
            let narrow = SearchFilter { languages: vec![language], ..filter.clone() };
            let found = self.rank_and_boost(&narrow, depth)?;
            all.exhausted &= found.exhausted;
            all.method = all.method.or(found.method);
            all.candidates.extend(found.candidates);
        }
        all.candidates = interleave_languages(all.candidates, self.collection.row.metric);
        Ok(all)
    }

    /// Ranks the best documents that match, about `depth` of them, and applies boosts.
    fn rank_and_boost(&self, filter: &SearchFilter, depth: usize) -> Result<Ranking, Error> {
        let mut ranking = self.rank_by_mode(filter, self.rank_depth(depth))?;
        boosts::apply(self.collection, self.request, &mut ranking.candidates)?;
        Ok(ranking)
    }

    /// Returns how many documents to rank so that the first `depth` are right. The lists of `hybrid` and the candidates of a
    /// margin are long enough anyway.
    fn rank_depth(&self, depth: usize) -> usize {
        let request = self.request;
        let reorders = !request.boosts.is_empty() || !self.resolved.preferred.is_empty() || request.diversity > 0.0;
        match (request.mode, request.margin) {
            (SearchMode::Full { candidates }, _) if reorders => depth.max(candidates),
            (SearchMode::Dense | SearchMode::Lexical, None) if reorders => {
                depth.saturating_mul(REORDERED_PER_HIT).max(REORDERED_MIN)
            }
            _ => depth,
        }
    }

    fn rank_by_mode(&self, filter: &SearchFilter, depth: usize) -> Result<Ranking, Error> {
        match (self.request.mode, self.request.margin) {
            (SearchMode::Full { candidates }, _) => self.search_full(filter, depth, candidates),
            (SearchMode::Dense, None) => self.search_dense(filter, depth),
            (SearchMode::Dense, Some(neighbors)) => {
                let rescored_max = depth.saturating_mul(RESCORED_PER_HIT).min(RESCORED_MAX).max(depth);
                let mut ranking = self.search_dense(filter, rescored_max)?;
                rescore(self.collection, &mut ranking.candidates, neighbors, self.request.parameters)?;
                Ok(ranking)
            }
            (SearchMode::Lexical, _) => self.search_lexical(filter, depth),
            (SearchMode::Hybrid(fusion), _) => {
                let each = depth.saturating_mul(2).max(FUSED_MIN);
                let (dense, lexical) = (self.search_dense(filter, each)?, self.search_lexical(filter, each)?);
                Ok(Ranking {
                    exhausted: dense.exhausted && lexical.exhausted,
                    method: dense.method,
                    candidates: fuse(dense.candidates, lexical.candidates, &fusion),
                    matcher: QueryMatcher::default(),
                })
            }
        }
    }

    /// Finds the passages that have the words the query requires, for the lists that do not search by words. In mode `full`,
    /// drops quotes if no passage of the requested documents meets all conditions: in other languages few passages would contain
    /// them literally, and the words of the quotes and their meaning still find something.
    fn find_required(&mut self) -> Result<(), Error> {
        let Some(terms) = self.resolved.terms.as_ref().filter(|_| self.request.mode != SearchMode::Lexical) else {
            return Ok(());
        };
        let found = |terms: &QueryTerms| {
            self.collection.store.required_matches(terms).map_err(|error| self.add_preparation_progress(error))
        };
        let words = found(terms)?;
        let quotes_alone = matches!(self.request.mode, SearchMode::Full { .. }) && !self.request.reading.all_words;
        if !quotes_alone || terms.required.is_empty() || self.has_matches(words.as_ref())? {
            self.words = words;
            return Ok(());
        }
        let relaxed = QueryTerms { required: Vec::new(), ..terms.clone() };
        self.words = found(&relaxed)?;
        self.resolved.terms = Some(relaxed);
        Ok(())
    }

    /// Whether a passage of the requested documents has the required words.
    fn has_matches(&self, words: Option<&RequiredPassages>) -> Result<bool, Error> {
        let filter = self.filter();
        let scope = Scope { filter: &filter, words };
        Ok(scope.is_all() || !self.collection.store.passages_in(scope)?.is_empty())
    }

    /// Returns the scope of a search in the documents that match.
    pub(super) fn scope<'s>(&'s self, filter: &'s SearchFilter) -> Scope<'s> {
        Scope { filter, words: self.words.as_ref() }
    }

    /// Builds a search for the nearest passages, with the effort that was requested.
    pub(super) fn nearest_query<'s>(&'s self, query: &'s Embedding, limit: usize, filter: &'s SearchFilter) -> NearestSearch<'s> {
        NearestSearch {
            exact: self.request.exact,
            parameters: self.request.parameters,
            ..NearestSearch::passages(query, limit, self.scope(filter), self.collection.current().hnsw.ef_search)
        }
    }

    fn search_dense(&self, filter: &SearchFilter, limit: usize) -> Result<Ranking, Error> {
        let Some(embedding) = &self.resolved.embedding else { return Ok(Ranking::new(Vec::new(), true)) };
        let wanted = limit.saturating_add(self.resolved.excluded.len());
        let search = NearestSearch { unit: Unit::Document, ..self.nearest_query(embedding, wanted, filter) };
        let Nearest { neighbors, documents, method } = self.collection.store.nearest(&search)?;
        let mut candidates: Vec<Candidate> = neighbors.into_iter().zip(documents).map(Candidate::from_passage).collect();
        let exhausted = candidates.len() < wanted;
        self.drop_excluded(&mut candidates, limit, |ranked| HitRanks { dense: Some(ranked), ..HitRanks::default() });
        Ok(Ranking { method: Some(method), ..Ranking::new(candidates, exhausted) })
    }

    fn search_lexical(&self, filter: &SearchFilter, limit: usize) -> Result<Ranking, Error> {
        let Some(terms) = &self.resolved.terms else { return Ok(Ranking::new(Vec::new(), true)) };
        let wanted = limit.saturating_add(self.resolved.excluded.len());
        let mut passages = wanted.saturating_mul(PASSAGES_PER_DOCUMENT).max(PASSAGES_MIN);
        loop {
            let found =
                self.collection.store.lexical(terms, filter, passages).map_err(|error| self.add_preparation_progress(error))?;
            let exhausted = found.len() < passages;
            let found: Vec<_> = found.into_iter().map(|(passage, score)| Neighbor { passage, score }).collect();
            let mut documents = FirstPassages::new(wanted);
            documents.add(&found, |passages| self.collection.store.documents_of(passages))?;
            if exhausted || documents.is_full() {
                // If `documents` is full, it may have left documents out.
                let exhausted = exhausted && !documents.is_full();
                let mut candidates = documents.into_vec().into_iter().map(Candidate::from_passage).collect();
                self.drop_excluded(&mut candidates, limit, |ranked| HitRanks { lexical: Some(ranked), ..HitRanks::default() });
                return Ok(Ranking::new(candidates, exhausted));
            }
            passages = passages.saturating_mul(GROWTH);
        }
    }

    /// Drops excluded documents and sets the ranks of the rest.
    fn drop_excluded(&self, candidates: &mut Vec<Candidate>, limit: usize, ranks: impl Fn(RankedScore) -> HitRanks) {
        candidates.retain(|candidate| !self.resolved.excluded.contains(&candidate.document));
        candidates.truncate(limit);
        for (rank, candidate) in (1..).zip(candidates.iter_mut()) {
            candidate.ranks = ranks(RankedScore { rank, score: candidate.score });
        }
    }

    /// Converts the error that words cannot be searched yet, and adds how far their preparation has come.
    pub(super) fn add_preparation_progress(&self, error: StoreError) -> Error {
        match error {
            StoreError::LexicalIncomplete { filled: done, until: total } => {
                Error::TermsPending { collection: self.collection.row.name.clone(), done, total }
            }
            other => other.into(),
        }
    }
}

impl Ranking {
    fn new(candidates: Vec<Candidate>, exhausted: bool) -> Self {
        Self { candidates, exhausted, method: None, matcher: QueryMatcher::default() }
    }
}
