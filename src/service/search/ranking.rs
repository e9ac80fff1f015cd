//! The order of candidates: by meaning, by words or by both, then what the request says of margins, boosts, languages, diversity,
//! groups and pages.

use super::super::Error;
use super::fusion::{fuse, take_turns, take_turns_by_score};
use super::groups::collapse;
use super::hits::Candidate;
use super::margin::rescore;
use super::resolve::ResolvedQuery;
use super::{boosts, diversity, preference};
use crate::domain::{
    DenseMethod, Embedding, Field, Filter, HitPlaces, Language, ListPlace, QueryTerms, SearchMode, SearchRequest, Test,
};
use crate::embed::Embedder;
use crate::ranking::{Question, TokenScorer, Translations};
use crate::service::open_collection::OpenCollection;
use crate::storage::{FirstPassages, Nearest, NearestSearch, Neighbor, Scope, Unit, WordPassages};
use crate::store::{SearchFilter, StoreError};

/// Documents of each list that are fused, at least; more when the page reaches further. With fewer, a document's rank would
/// depend on how many hits were asked for.
const FUSED_MIN: usize = 200;
/// How many documents are looked at for each hit asked for, when they are scored anew by their margin.
const RESCORED_PER_HIT: usize = 4;
/// Documents scored anew, unless more hits than that are asked for: each is a search in the index.
const RESCORED_MAX: usize = 200;
/// Documents ranked at least, and for each hit asked for, where boosts, languages or diversity may bring a document from beyond the
/// page.
const REORDERED_MIN: usize = 200;
/// See `REORDERED_MIN`.
const REORDERED_PER_HIT: usize = 4;
/// Documents looked at for enough groups.
const GROUPED_MAX: usize = 10_000;
/// How much further to look when that was not enough.
const GROWTH: usize = 4;
/// Passages asked for per document wanted, and at least, when words are searched.
const PASSAGES_PER_DOCUMENT: usize = 2;
const PASSAGES_MIN: usize = 32;

/// A search in a collection.
pub(super) struct Plan<'a> {
    /// The collection.
    pub(super) collection: &'a OpenCollection,
    /// What was asked for.
    pub(super) request: &'a SearchRequest,
    /// What to look for.
    pub(super) resolved: &'a mut ResolvedQuery,
    /// What the model compares besides embeddings.
    pub(super) evidence: ModelEvidence<'a>,
    /// The passages that have what the words demand, for the lists that are not by words.
    pub(super) words: Option<WordPassages>,
}

/// What a model compares questions and passages by, besides embeddings.
#[derive(Clone, Copy)]
pub(super) struct ModelEvidence<'a> {
    /// Token by token, if it can.
    pub(super) scorer: Option<&'a TokenScorer>,
    /// Word by word across languages, if it can.
    pub(super) translations: Option<&'a Translations>,
}

impl<'a> From<&'a Embedder> for ModelEvidence<'a> {
    fn from(embedder: &'a Embedder) -> Self {
        Self { scorer: embedder.scorer(), translations: embedder.translations() }
    }
}

/// What the model's tokens and words asked, to mark what answers.
#[derive(Default)]
pub(super) struct Asked {
    /// What late interaction compared, if it did.
    pub(super) question: Option<Question>,
    /// The words of the question, by their numbers, that say something of a passage that has them or a translation of them.
    pub(super) words: Vec<u32>,
}

/// The candidates that become hits.
pub(super) struct Page {
    /// In the order of the hits.
    pub(super) candidates: Vec<Candidate>,
    /// What they must match.
    pub(super) filter: SearchFilter,
    /// How many were ranked.
    pub(super) ranked: usize,
    /// How the nearest embeddings were found.
    pub(super) method: Option<DenseMethod>,
    /// What the model's tokens and words asked.
    pub(super) asked: Asked,
}

/// Candidates, best first.
pub(super) struct Ranking {
    pub(super) candidates: Vec<Candidate>,
    /// Whether looking further finds nothing more.
    pub(super) exhausted: bool,
    /// How the nearest embeddings were found.
    pub(super) method: Option<DenseMethod>,
    /// What the model's tokens and words asked.
    pub(super) asked: Asked,
}

impl Plan<'_> {
    /// Gives the candidates of the page.
    pub(super) fn page(mut self) -> Result<Page, Error> {
        self.demand()?;
        let request = self.request;
        let filter = self.filter();
        let end = request.offset.saturating_add(request.limit);
        let mut depth = end;
        loop {
            let ranking = if request.balance_languages { self.balanced(&filter, depth)? } else { self.ranked(&filter, depth)? };
            let ranked = ranking.candidates.len();
            let mut candidates = ranking.candidates;
            if let Some(score_min) = request.score_min {
                candidates.retain(|candidate| candidate.score >= score_min);
            }
            // Where scores fall, whoever comes later reaches the least score no more.
            let ended = self.scores_fall() && candidates.len() < ranked;
            let mut last = ranking.exhausted || ended || depth >= GROUPED_MAX;
            preference::order(&mut candidates, &self.resolved.preferred);
            if request.diversity > 0.0 {
                diversity::order(self.collection, &mut candidates, &self.resolved.preferred, (request.diversity, end))?;
            }
            match &request.grouping {
                Some(grouping) => candidates = collapse(self.collection, candidates, grouping)?,
                None => last = true,
            }
            if last || candidates.len() >= end {
                let candidates = candidates.into_iter().skip(request.offset).take(request.limit).collect();
                return Ok(Page { candidates, filter, ranked, method: ranking.method, asked: ranking.asked });
            }
            depth = depth.saturating_mul(GROWTH).min(GROUPED_MAX);
        }
    }

    /// Whether looking further finds no better score than the last: not where each language has a list of its own, and not where
    /// the margin, boosts or the places in two lists make the score.
    fn scores_fall(&self) -> bool {
        let request = self.request;
        !request.balance_languages
            && request.margin.is_none()
            && request.boosts.is_empty()
            && !matches!(request.mode, SearchMode::Hybrid(_) | SearchMode::Full(_))
    }

    /// What restricts the hits. A request that names no languages has those of its collection.
    fn filter(&self) -> SearchFilter {
        let languages = self.request.languages.clone().unwrap_or_else(|| self.collection.current().default_languages);
        SearchFilter { languages, filter: self.request.filter.clone() }
    }

    /// Looks in each language by itself, so that however many documents of one language are nearer, those of the others are
    /// found; then lets the languages take turns. Relevance means the same in all languages, so there the candidates of one search do.
    fn balanced(&self, filter: &SearchFilter, depth: usize) -> Result<Ranking, Error> {
        if let SearchMode::Full(search) = self.request.mode {
            let ranking = self.ranked(filter, depth.max(search.candidates))?;
            return Ok(Ranking { candidates: take_turns_by_score(ranking.candidates), ..ranking });
        }
        let mut all = Ranking::of(Vec::new(), true);
        let mut languages: Vec<Language> = filter.languages.clone();
        if languages.is_empty() {
            let counted = self.collection.store.counts()?.languages;
            languages = counted.iter().filter_map(|(language, _)| *language).collect();
            if counted.iter().any(|(language, _)| language.is_none()) {
                let without = Filter::Field(Field::Language, Test::Exists(false));
                let narrow = SearchFilter { languages: Vec::new(), filter: Filter::And(vec![filter.filter.clone(), without]) };
                all = self.ranked(&narrow, depth)?;
            }
        }
        languages.sort_unstable();
        languages.dedup();
        for language in languages {
            let narrow = SearchFilter { languages: vec![language], ..filter.clone() };
            let one = self.ranked(&narrow, depth)?;
            all.exhausted &= one.exhausted;
            all.method = all.method.or(one.method);
            all.candidates.extend(one.candidates);
        }
        all.candidates = take_turns(all.candidates, self.collection.row.metric);
        Ok(all)
    }

    /// Ranks the best documents that match, about `depth` of them, and boosts them.
    fn ranked(&self, filter: &SearchFilter, depth: usize) -> Result<Ranking, Error> {
        let mut ranking = self.unboosted(filter, self.reordered(depth))?;
        boosts::apply(self.collection, self.request, &mut ranking.candidates)?;
        Ok(ranking)
    }

    /// Documents to rank for `depth` of them. The lists of `hybrid` and the candidates of a margin are long enough by themselves.
    fn reordered(&self, depth: usize) -> usize {
        let request = self.request;
        let moves = !request.boosts.is_empty() || !self.resolved.preferred.is_empty() || request.diversity > 0.0;
        match (request.mode, request.margin) {
            (SearchMode::Full(search), _) if moves => depth.max(search.candidates),
            (SearchMode::Dense | SearchMode::Lexical, None) if moves => {
                depth.saturating_mul(REORDERED_PER_HIT).max(REORDERED_MIN)
            }
            _ => depth,
        }
    }

    fn unboosted(&self, filter: &SearchFilter, depth: usize) -> Result<Ranking, Error> {
        match (self.request.mode, self.request.margin) {
            (SearchMode::Full(search), _) => self.full(filter, depth, search),
            (SearchMode::Dense, None) => self.dense(filter, depth),
            (SearchMode::Dense, Some(neighbors)) => {
                let looked_at = depth.saturating_mul(RESCORED_PER_HIT).min(RESCORED_MAX).max(depth);
                let mut ranking = self.dense(filter, looked_at)?;
                rescore(self.collection, &mut ranking.candidates, neighbors, self.request.parameters)?;
                Ok(ranking)
            }
            (SearchMode::Lexical, _) => self.lexical(filter, depth),
            (SearchMode::Hybrid(fusion), _) => {
                let each = depth.saturating_mul(2).max(FUSED_MIN);
                let (dense, lexical) = (self.dense(filter, each)?, self.lexical(filter, each)?);
                Ok(Ranking {
                    exhausted: dense.exhausted && lexical.exhausted,
                    method: dense.method,
                    candidates: fuse(dense.candidates, lexical.candidates, &fusion),
                    asked: Asked::default(),
                })
            }
        }
    }

    /// Looks which passages have what the words demand, for the lists that are not by words. `full` lets go of quotes that no passage has
    /// word for word: among other languages few are, and their words and what they mean still find something.
    fn demand(&mut self) -> Result<(), Error> {
        let (Some(terms), Some(_)) = (&self.resolved.terms, &self.resolved.embedding) else { return Ok(()) };
        let found = |terms: &QueryTerms| self.collection.store.demanded(terms).map_err(|error| self.pending(error));
        let words = found(terms)?;
        let quotes_alone = matches!(self.request.mode, SearchMode::Full(_)) && !self.request.reading.all_words;
        let is_met = !matches!(&words, Some(WordPassages::Only(passages)) if passages.is_empty());
        if is_met || !quotes_alone {
            self.words = words;
            return Ok(());
        }
        let relaxed = QueryTerms { required: Vec::new(), ..terms.clone() };
        self.words = found(&relaxed)?;
        self.resolved.terms = Some(relaxed);
        Ok(())
    }

    /// Where to look in documents that match.
    pub(super) fn scope<'s>(&'s self, filter: &'s SearchFilter) -> Scope<'s> {
        Scope { filter, words: self.words.as_ref() }
    }

    /// A search for the nearest passages, as much work as was asked for.
    pub(super) fn nearest<'s>(&'s self, query: &'s Embedding, limit: usize, filter: &'s SearchFilter) -> NearestSearch<'s> {
        NearestSearch {
            exact: self.request.exact,
            parameters: self.request.parameters,
            ..NearestSearch::passages(query, limit, self.scope(filter), self.collection.current().hnsw.ef_search)
        }
    }

    fn dense(&self, filter: &SearchFilter, limit: usize) -> Result<Ranking, Error> {
        let Some(embedding) = &self.resolved.embedding else { return Ok(Ranking::of(Vec::new(), true)) };
        let wanted = limit.saturating_add(self.resolved.excluded.len());
        let search = NearestSearch { unit: Unit::Document, ..self.nearest(embedding, wanted, filter) };
        let Nearest { neighbors, documents, method } = self.collection.store.nearest(&search)?;
        let mut candidates: Vec<Candidate> = neighbors.into_iter().zip(documents).map(Candidate::of).collect();
        let exhausted = candidates.len() < wanted;
        self.keep(&mut candidates, limit, |place| HitPlaces { dense: Some(place), ..HitPlaces::default() });
        Ok(Ranking { method: Some(method), ..Ranking::of(candidates, exhausted) })
    }

    fn lexical(&self, filter: &SearchFilter, limit: usize) -> Result<Ranking, Error> {
        let Some(terms) = &self.resolved.terms else { return Ok(Ranking::of(Vec::new(), true)) };
        let wanted = limit.saturating_add(self.resolved.excluded.len());
        let mut passages = wanted.saturating_mul(PASSAGES_PER_DOCUMENT).max(PASSAGES_MIN);
        loop {
            let found = self.collection.store.lexical(terms, filter, passages).map_err(|error| self.pending(error))?;
            let exhausted = found.len() < passages;
            let found: Vec<_> = found.into_iter().map(|(passage, score)| Neighbor { passage, score }).collect();
            let mut documents = FirstPassages::new(wanted);
            documents.take(&found, |passages| self.collection.store.documents_of(passages))?;
            if exhausted || documents.is_full() {
                // What is full may have left documents out.
                let exhausted = exhausted && !documents.is_full();
                let mut candidates = documents.into_vec().into_iter().map(Candidate::of).collect();
                self.keep(&mut candidates, limit, |place| HitPlaces { lexical: Some(place), ..HitPlaces::default() });
                return Ok(Ranking::of(candidates, exhausted));
            }
            passages = passages.saturating_mul(GROWTH);
        }
    }

    /// Drops what was excluded and tells the rest their places.
    fn keep(&self, candidates: &mut Vec<Candidate>, limit: usize, places: impl Fn(ListPlace) -> HitPlaces) {
        candidates.retain(|candidate| !self.resolved.excluded.contains(&candidate.document));
        candidates.truncate(limit);
        for (rank, candidate) in (1..).zip(candidates.iter_mut()) {
            candidate.places = places(ListPlace { rank, score: candidate.score });
        }
    }

    /// Words cannot be searched yet: says how far they are.
    pub(super) fn pending(&self, error: StoreError) -> Error {
        match error {
            StoreError::LexicalIncomplete { filled: done, until: total } => {
                Error::TermsPending { collection: self.collection.row.name.clone(), done, total }
            }
            other => other.into(),
        }
    }
}

impl Ranking {
    fn of(candidates: Vec<Candidate>, exhausted: bool) -> Self {
        Self { candidates, exhausted, method: None, asked: Asked::default() }
    }
}
