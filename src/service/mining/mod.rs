//! Mines translation pairs between two corpora, by the margin of a pair's cosine over the cosines of its neighbors.
//!
//! The job finds the neighbors of every sentence in the other corpus, in both directions. It compares all with all, or searches
//! through indexes if the corpora are so large that this is faster (`strategy`). `crate::mining` turns the neighbors into
//! pairs. The neighbors are only in memory, so after a restart the job finds them again. The embeddings of texts of the request
//! are in a file, so after a restart the job continues with those that are missing.

mod comparing;
pub(super) mod corpus;
pub mod duplicates;
mod embedding_file;
mod error;
pub(super) mod memory;
mod occurrences;
pub(super) mod request;
pub(super) mod results;
mod searching;
pub(super) mod size;
pub(super) mod split_sentences;
pub(super) mod steps;
mod strategy;
mod submit;
pub(super) mod texts;

use std::collections::HashSet;
use std::fs::DirEntry;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

pub(super) use corpus::Corpus;
pub use error::{MineError, too_few_sentences};
pub use request::{MineRequest, MiningSettings, Sentences};
pub(super) use submit::find_passages;

use crate::domain::{
    CollectionName, JobStatus, JobType, JobUnit, Language, Metadata, MiningUnit, Scope, ScoredPair, with_causes,
};
use crate::mining::{Candidate, KnownPairs, MarginScores, best_threshold, one_to_one, propose};
pub use crate::mining::{Margin, Strategy};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::jobs::{JobContext, JobError, JobKind, JobVisibility, Steps};
use crate::service::state::State;
use comparing::BidirectionalNeighbors;
use corpus::Source;
use embedding_file::EmbeddingFile;
use request::{MinePlan, PlannedCorpus};
use results::ResultsFile;
use steps::Exclusion;
use texts::EqualTexts;

const PAIRS: &str = "pairs.ndjson";
const PAIRS_PER_READ: usize = 256;

pub(crate) struct MineJob;

#[derive(Debug, Serialize)]
pub(crate) struct MineDetails {
    first_sentences: u64,
    second_sentences: u64,
    memory_bytes: u64,
    disk_bytes: u64,
}

impl JobKind for MineJob {
    const TYPE: JobType = JobType::Mine;
    const SCOPE: Scope = Scope::Write;
    const UNIT: JobUnit = JobUnit::Sentences;
    type Request = MinePlan;
    type Details = MineDetails;

    const NEEDS_FILES: bool = true;

    /// The job may be about two collections, and its results show texts of both.
    fn visibility(plan: &MinePlan, _: Option<&CollectionName>) -> JobVisibility {
        let collections = plan.collections.clone();
        match plan.has_lists() {
            true => JobVisibility::Texts { collections, caller: plan.key.clone() },
            false => JobVisibility::Collections(collections),
        }
    }

    async fn run(context: &JobContext, plan: MinePlan) -> Result<(), JobError> {
        or_deleted(context, mine(context, &plan).await, &[&plan.first, &plan.second]).await
    }

    fn clean_up(folder: &Path, status: JobStatus) {
        remove_all_but_results(folder, status);
    }
}

async fn mine(context: &JobContext, plan: &MinePlan) -> Result<(), JobError> {
    let (mut steps, settings) = (Steps::new(context), plan.settings);
    let equal = EqualTexts { deduplicate: settings.deduplicate, skip_identical: settings.skip_identical };
    let (mut first, ()) = open_corpus(context, &plan.first, "first", equal, |_, _, _| ()).await?;
    let (mut second, ()) = open_corpus(context, &plan.second, "second", equal, |_, _, _| ()).await?;
    corpus::mark_shared_codes(&mut first, &mut second);
    let (first, second) = (Arc::new(first), Arc::new(second));
    for (corpus, name) in [(&first, "first"), (&second, "second")] {
        let (expected, got) = (settings.neighbors, corpus.sentences());
        if got < expected {
            return Err(MineError::TooFewSentences { corpus: name, expected, got }.into());
        }
    }
    let dimension = first.dimension();
    for (name, corpus) in [("first", &first), ("second", &second)] {
        steps.details().insert(format!("{name}_sentences"), corpus.positions().into());
        steps.details().insert(format!("{name}_different"), corpus.sentences().into());
    }
    steps.set_corpora(&[&first, &second]);
    steps.record_time("reading_ms");
    let sizes = (first.size(), second.size());
    steps.check_memory(memory::mining_bytes(sizes, settings.neighbors, settings.margin, dimension, settings.exact))?;
    steps.embed(&first).await?;
    steps.embed(&second).await?;
    steps.record_time("embedding_ms");
    let (forward, backward) = neighbors(&mut steps, settings, &first, &second).await?;
    steps.record_time("neighbors_ms");

    let (state, planned) = (context.state()?, plan.clone());
    let (one, other) = (Arc::clone(&first), Arc::clone(&second));
    let (pairs, threshold) = blocking(move || {
        let mut pairs = propose(settings.strategy, &MarginScores::new(&forward, &backward, settings.margin)?);
        drop((forward, backward));
        if settings.one_to_one {
            pairs = one_to_one(pairs, one.sentences(), other.sentences());
        }
        let threshold = keep_above_threshold(&mut pairs, &planned, &one, &other)?;
        Ok((pairs, threshold))
    })
    .await?;
    steps.details().extend(threshold);
    steps.details().insert("pairs".to_owned(), pairs.len().into());
    let (folder, reserve) = (state.job_dir(&context.job.id), state.limits.disk_reserve_bytes);
    drop(state);
    let canceled_by = context.clone();
    steps.record_time("pairs_ms");
    let written =
        blocking(move || write(&canceled_by, ResultsFile::create(folder, PAIRS, reserve)?, &pairs, (&first, &second))).await;
    // Canceling makes the writing fail. Report such a job as canceled, not as failed.
    context.check()?;
    steps.details().extend(written?);
    steps.record_time("writing_ms");
    steps.end().await
}

/// Finds the neighbors in both directions.
async fn neighbors(
    steps: &mut Steps<'_>,
    settings: MiningSettings,
    first: &Arc<Corpus>,
    second: &Arc<Corpus>,
) -> Result<BidirectionalNeighbors, JobError> {
    let (sizes, per_query) = ((first.size(), second.size()), settings.neighbors);
    let mut exact = settings.exact.unwrap_or_else(|| strategy::should_compare_all(sizes.0, sizes.1));
    let mut efs = None;
    if !exact && first.uses_own_index() && second.uses_own_index() {
        let tried = try_search_widths(steps, first, second, per_query).await?;
        exact = settings.exact.is_none() && strategy::compares_all(sizes.0, sizes.1, tried);
        efs = Some(tried);
    }
    steps.details().insert("exact".to_owned(), exact.into());
    if exact {
        return steps.compare(first, second, per_query).await;
    }
    steps.index(first).await?;
    steps.index(second).await?;
    let (there, back) = match efs {
        Some(efs) => efs,
        None => try_search_widths(steps, first, second, per_query).await?,
    };
    steps.details().insert("candidates".to_owned(), there.max(back).into());
    let forward = steps.neighbors((first, second), per_query, there, &Exclusion::Itself).await?;
    let backward = steps.neighbors((second, first), per_query, back, &Exclusion::Itself).await?;
    Ok((forward, backward))
}

/// Finds out by a trial which search width (ef) each direction needs.
async fn try_search_widths(
    steps: &mut Steps<'_>,
    first: &Arc<Corpus>,
    second: &Arc<Corpus>,
    per_query: usize,
) -> Result<(usize, usize), JobError> {
    let there = steps.find_ef(first, second, per_query, &Exclusion::Itself).await?;
    Ok((there, steps.find_ef(second, first, per_query, &Exclusion::Itself).await?))
}

/// Opens a corpus: reads its sentences, and groups equal ones. `name` is its name in the job's folder. `record` gets the
/// document and the language of each passage; what it collects is returned with the corpus.
async fn open_corpus<T: Default + Send + 'static>(
    context: &JobContext,
    planned: &PlannedCorpus,
    name: &'static str,
    equal: EqualTexts,
    record: fn(&mut T, i64, Option<Language>),
) -> Result<(Corpus, T), JobError> {
    let state = context.state()?;
    let collection = planned.collection.as_ref().map(|_| state.planned_collection(planned)).transpose()?;
    if let Some(collection) = &collection {
        context.wait_until_recovered(collection).await?;
    }
    let whole = planned.collection.as_ref().is_some_and(|planned| planned.whole);
    let (unit, folder, canceled_by) = (planned.unit(), state.job_dir(&context.job.id), context.clone());
    let opened = tokio::task::spawn_blocking(move || {
        let (source, ids) = match collection {
            Some(collection) if unit != MiningUnit::Sentence => {
                (Source::Collection { collection, whole, unit }, request::read_ids(&folder, name)?)
            }
            cut => {
                let texts = request::read_texts(&folder, name, cut.map(|collection| collection.row.id.clone()))?;
                let positions = (0..texts.len() as u64).collect();
                (Source::Texts { texts, embeddings: embeddings(&state, &folder, name)? }, positions)
            }
        };
        let mut recorded = T::default();
        let record_one = |document, language| record(&mut recorded, document, language);
        let corpus = Corpus::open(source, ids, equal, || canceled_by.check(), record_one)?;
        Ok::<_, JobError>((corpus, recorded))
    });
    opened.await?
}

/// Opens the file of the embeddings that the job computes for a corpus. Each model has a separate file.
fn embeddings(state: &State, folder: &Path, name: &str) -> Result<EmbeddingFile, Error> {
    let model = state.embedder.model();
    let name = format!("{name}.{:.12}.embeddings", model.fingerprint);
    EmbeddingFile::open(folder.join(name), model.dimension)
}

/// Keeps the pairs above the threshold. Returns the threshold and its quality on the known pairs as details.
fn keep_above_threshold(pairs: &mut Vec<Candidate>, plan: &MinePlan, first: &Corpus, second: &Corpus) -> Result<Metadata, Error> {
    let mut details = Metadata::new();
    details.insert("proposed".to_owned(), pairs.len().into());
    let mut threshold = plan.threshold;
    if let Some(known) = &plan.known {
        let known = known_numbers(known, first, second)?;
        let translations = if plan.known_complete { KnownPairs::All(&known) } else { KnownPairs::Some(&known) };
        let fit = best_threshold(pairs, translations).ok_or(MineError::NoKnownPairFound)?;
        threshold = Some(to_result_score(fit.threshold as f32));
        details.insert("known_pairs".to_owned(), known.len().into());
        details.insert("judged".to_owned(), fit.evaluated.into());
        details.insert("precision".to_owned(), fit.quality.precision.into());
        details.insert("recall".to_owned(), fit.quality.recall.into());
        details.insert("f1".to_owned(), fit.quality.f1.into());
    }
    if let Some(threshold) = threshold {
        // The pairs are sorted by descending score.
        pairs.truncate(pairs.partition_point(|pair| to_result_score(pair.score) >= threshold));
        details.insert("threshold".to_owned(), threshold.into());
    }
    Ok(details)
}

/// Returns the numbers of the sentences of known pairs. Leaves out pairs with a deleted passage, and pairs that are excluded
/// because of their texts: they are never proposed, so they would lower the recall. Fails if it leaves out all pairs because of
/// their texts.
fn known_numbers(known: &[(u64, u64)], first: &Corpus, second: &Corpus) -> Result<HashSet<(u32, u32)>, MineError> {
    let numbers = |(one, other): &(u64, u64)| Some((first.number_of(*one)?, second.number_of(*other)?));
    let found: HashSet<(u32, u32)> = known.iter().filter_map(numbers).collect();
    let possible: HashSet<_> = found.iter().copied().filter(|(one, other)| !first.is_excluded(*one, second, *other)).collect();
    if possible.is_empty() && !found.is_empty() { Err(MineError::KnownPairsExcluded) } else { Ok(possible) }
}

/// Converts a score to the value that results show, with the digits of an `f32`. So comparing shown scores with the shown
/// threshold selects the same pairs.
fn to_result_score(score: f32) -> f64 {
    score.to_string().parse().unwrap_or(f64::from(score))
}

/// Writes the pairs with their texts. Returns details that say how many pairs were left out because a passage was deleted.
fn write(
    context: &JobContext,
    mut file: ResultsFile,
    pairs: &[Candidate],
    (first, second): (&Corpus, &Corpus),
) -> Result<Metadata, Error> {
    let mut deleted = 0_u64;
    for part in pairs.chunks(PAIRS_PER_READ) {
        context.check_not_stopped()?;
        let positions = |corpus: &Corpus, number: fn(&Candidate) -> u32| -> Vec<u32> {
            part.iter().map(|pair| corpus.first_position(number(pair))).collect()
        };
        let ones = first.mined_sentences(&positions(first, |pair| pair.first))?;
        let others = second.mined_sentences(&positions(second, |pair| pair.second))?;
        for ((pair, first), second) in part.iter().zip(ones).zip(others) {
            match (first, second) {
                (Some(first), Some(second)) => file.add(&ScoredPair { score: pair.score, first, second })?,
                _ => deleted += 1,
            }
        }
    }
    file.finish()?;
    let mut details = Metadata::new();
    details.insert("gone".to_owned(), deleted.into());
    for (name, corpus) in [("first", first), ("second", second)] {
        if let Some(file) = corpus.embeddings_file() {
            details.insert(format!("{name}_truncated"), file.truncated()?.into());
        }
    }
    Ok(details)
}

/// Returns the error that a collection was deleted instead of another failure, if one was.
async fn or_deleted(context: &JobContext, result: Result<(), JobError>, corpora: &[&PlannedCorpus]) -> Result<(), JobError> {
    if let Err(JobError::Failed(_)) = &result {
        context.sync_catalog().await?;
        let state = context.state()?;
        for corpus in corpora.iter().filter(|corpus| corpus.collection.is_some()) {
            state.planned_collection(corpus)?;
        }
    }
    result
}

/// Removes all files of a finished job except the results of one that succeeded.
pub(crate) fn remove_all_but_results(folder: &Path, status: JobStatus) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let is_result =
        |entry: &DirEntry| status == JobStatus::Succeeded && entry.file_name().as_encoded_bytes().ends_with(b".ndjson");
    for entry in entries.flatten().filter(|entry| !is_result(entry)) {
        if let Err(error) = std::fs::remove_file(entry.path()) {
            tracing::warn!(path = %entry.path().display(), error = with_causes(&error), "cannot remove a job's file");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_pairs_that_are_excluded_because_of_their_texts_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let opened = |name: &str, texts: &[&str], skip_identical| {
            let ids = (0..texts.len() as u64).collect();
            let texts = super::texts::Texts::List(texts.iter().map(|text| (*text).to_owned()).collect());
            let source = Source::Texts { texts, embeddings: EmbeddingFile::open(folder.path().join(name), 2).unwrap() };
            Corpus::open(source, ids, EqualTexts { deduplicate: true, skip_identical }, || Ok(()), |_, _| ()).unwrap()
        };
        let known = |skip_identical| {
            let mut first = opened("first", &["Bonn", "gut", "Hund", "2024", "7", "30 Tage"], skip_identical);
            let mut second =
                opened("second", &["dog", " BONN", "good", "year 2024", "2024", "seven", "30", "7 days"], skip_identical);
            corpus::mark_shared_codes(&mut first, &mut second);
            let pairs = [(0, 1), (1, 2), (2, 0), (2, 9), (3, 3), (4, 5), (5, 6)];
            let found = known_numbers(&pairs, &first, &second).unwrap();
            let mut numbers: Vec<_> = found.into_iter().collect();
            numbers.sort_unstable();
            numbers
        };
        // `2024` is on both sides, so it is in no pair. `7` and `30` are only on one.
        assert_eq!(known(true), [(1, 2), (2, 0), (4, 5), (5, 6)]);
        assert_eq!(known(false), [(0, 1), (1, 2), (2, 0), (3, 3), (4, 5), (5, 6)]);
    }
}
