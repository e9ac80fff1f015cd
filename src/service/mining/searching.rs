//! Finds neighbors through indexes. A trial determines the search width (ef), then every sentence is searched.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use super::corpus::Corpus;
use super::steps::Exclusion;
use super::strategy::EFS;
use crate::domain::Embedding;
use crate::mining::NeighborLists;
use crate::parallel::{in_parallel, parallelism};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::jobs::{JobError, Steps};

/// Number of sentences that each core searches between two checks for cancellation.
const QUERIES_PER_CORE: usize = 512;
/// Number of sentences that a core searches at a time.
const QUERIES_PER_PART: usize = 64;
const TRIAL_QUERIES: usize = 256;
/// The search width whose results a trial takes as exact.
const TRIAL_EF: usize = 2_048;
/// Share of the true neighbors that searches must find. Missing a neighbor rarely loses a pair, because the best neighbor is
/// usually another one.
const RECALL_MIN: f64 = 0.995;

type Found = Vec<(u32, Vec<(u32, f32)>)>;

impl Steps<'_> {
    /// Finds the smallest search width with which searches from one corpus in the other miss almost nothing.
    pub(crate) async fn find_ef(
        &mut self,
        from: &Arc<Corpus>,
        to: &Arc<Corpus>,
        per_query: usize,
        exclusion: &Exclusion,
    ) -> Result<usize, JobError> {
        self.check()?;
        let (one, other, exclusion) = (Arc::clone(from), Arc::clone(to), exclusion.clone());
        Ok(blocking(move || trial(&one, &other, per_query, &exclusion)).await?)
    }

    /// Finds the nearest `per_query` sentences of `to` for each sentence of `from`, with the search width `ef`.
    pub(crate) async fn neighbors(
        &mut self,
        (from, to): (&Arc<Corpus>, &Arc<Corpus>),
        per_query: usize,
        ef: usize,
        exclusion: &Exclusion,
    ) -> Result<NeighborLists, JobError> {
        let mut lists = NeighborLists::new(from.sentences(), to.sentences(), per_query)?;
        let step = QUERIES_PER_CORE * parallelism();
        for begin in (0..from.sentences()).step_by(step) {
            self.check()?;
            let (one, other, exclusion) = (Arc::clone(from), Arc::clone(to), exclusion.clone());
            let range = begin..one.sentences().min(begin + step);
            let count = range.len();
            lists = blocking(move || {
                let search = |part: Range<usize>| search(&one, &other, one.embeddings(part)?, (per_query, ef), &exclusion);
                let parts = in_parallel(range, QUERIES_PER_PART, parallelism(), search)?;
                for (number, nearest) in parts.into_iter().flatten() {
                    lists.put(number, &nearest)?;
                }
                Ok(lists)
            })
            .await?;
            self.count(count as u64).await?;
        }
        Ok(lists)
    }
}

fn search(
    from: &Corpus,
    to: &Corpus,
    queries: Vec<(u32, Embedding)>,
    (per_query, ef): (usize, usize),
    exclusion: &Exclusion,
) -> Result<Found, Error> {
    let search_one = |(number, embedding): (u32, Embedding)| {
        // It cannot form a pair, and a search that finds nothing takes long.
        if from.is_shared_code(number) {
            return Ok((number, Vec::new()));
        }
        let position = from.first_position(number);
        let skip = |other_position: usize, other: u32| match exclusion {
            Exclusion::Itself => {
                from.is_excluded(number, to, other) || from.is_same_passage(position, to, to.first_position(other) as usize)
            }
            Exclusion::OwnDocument { documents } => other == number || documents[position as usize] == documents[other_position],
        };
        Ok((number, to.nearest(&embedding, per_query, ef, skip)?))
    };
    queries.into_iter().map(search_one).collect()
}

/// Compares the results of each search width with those of a very wide search. Blocks.
fn trial(from: &Corpus, to: &Corpus, per_query: usize, exclusion: &Exclusion) -> Result<usize, Error> {
    let count = from.sentences().min(TRIAL_QUERIES);
    let parts = in_parallel(0..count, QUERIES_PER_PART / 4, parallelism(), |part| {
        let mut queries = Vec::with_capacity(part.len());
        for index in part {
            let number = index * from.sentences() / count;
            queries.extend(from.embeddings(number..number + 1)?);
        }
        let search_with = |ef| search(from, to, queries.clone(), (per_query, ef), exclusion);
        let wanted: Vec<HashSet<u32>> = search_with(TRIAL_EF)?
            .into_iter()
            .map(|(_, nearest)| nearest.into_iter().map(|(number, _)| number).collect())
            .collect();
        let mut hits: Vec<usize> = Vec::with_capacity(EFS.len());
        for ef in EFS {
            let found = search_with(ef)?.into_iter().zip(&wanted);
            hits.push(
                found.map(|((_, nearest), wanted)| nearest.iter().filter(|(number, _)| wanted.contains(number)).count()).sum(),
            );
        }
        Ok::<_, Error>((wanted.iter().map(HashSet::len).sum::<usize>(), hits))
    })?;
    let wanted: usize = parts.iter().map(|(wanted, _)| wanted).sum();
    let enough = |index: &usize| {
        let hits: usize = parts.iter().map(|(_, hits)| hits[*index]).sum();
        hits as f64 >= RECALL_MIN * wanted as f64
    };
    let index = (0..EFS.len()).find(enough).unwrap_or(EFS.len() - 1);
    tracing::debug!(ef = EFS[index], "chose the search width of mining");
    Ok(EFS[index])
}
