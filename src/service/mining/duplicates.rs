//! Finds duplicates: clusters of passages or documents of a collection that say the same thing, in one language or several.
//!
//! The job finds the neighbors of every different text, leaving out those of its own document. `crate::mining` clusters the
//! pairs that are near enough. Equal texts are pairs with a cosine of 1. A text may occur many times and in several languages;
//! `Occurrences` chooses which occurrence of it to pair. After a restart of the server, the job starts over.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::corpus::Source;
use super::memory::{self, PAIR_BYTES};
use super::request::{self, PlannedCorpus};
use super::results::ResultsFile;
use super::split_sentences;
use super::steps::{Exclusion, begin, recovered};
use super::texts::{EqualTexts, Texts};
use super::{Corpus, MineError, embeddings, keep_results, listed, of_collection};
use crate::domain::{
    CollectionName, DuplicateCluster, Job, JobUnit, Language, Metadata, MiningUnit, RequestKey, Scope, SearchFilter,
};
use crate::mining::{Clusters, DuplicateRule, NeighborLists, cluster};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::jobs::folder::Folder;
use crate::service::jobs::{JobAccess, JobContext, JobError, JobKind, JobVisibility, NewJob, new_job_id};
use crate::service::open_collection::OpenCollection;
use crate::service::state::Service;
use crate::service::upload_receiver::check_disk_space;

/// The file of the clusters in the job's folder.
const CLUSTERS: &str = "clusters.ndjson";
/// A search for duplicates.
#[derive(Debug, Clone, PartialEq)]
pub struct DuplicatesRequest {
    /// Which documents to compare.
    pub only: SearchFilter,
    /// Whether passages are compared, or whole documents.
    pub unit: MiningUnit,
    /// Minimum cosine of two passages, or documents, that belong together.
    pub score_min: f32,
    /// Number of neighbors considered per passage, 1 to 255.
    pub neighbors: usize,
    /// Maximum number of passages in a cluster, at least 2.
    pub size_max: u32,
    /// Which languages two passages may have to belong together.
    pub pairs: LanguageRule,
}

/// `any`: any languages. `same`: the same language. `different`: two languages, so that clusters contain translations.
/// Documents without a recognized language count only with `any`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DuplicateLanguages)]
pub enum LanguageRule {
    /// Any languages.
    #[default]
    Any,
    /// The same language: near-duplicates.
    Same,
    /// Two different languages: translations.
    Different,
}

/// Finds clusters of near-duplicates and translations.
pub(crate) struct DuplicatesJob;

/// What the job needs to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DuplicatesPlan {
    side: PlannedCorpus,
    score_min: f32,
    neighbors: usize,
    size_max: u32,
    pairs: LanguageRule,
}

/// The initial details of the job: how many passages, documents or sentences it compares, and how much memory that takes.
#[derive(Debug, Serialize)]
pub(crate) struct DuplicatesDetails {
    #[serde(skip_serializing_if = "Option::is_none")]
    passages: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    documents: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sentences: Option<u64>,
    memory_bytes: u64,
    disk_bytes: u64,
}

/// The document and the language of each passage.
#[derive(Default)]
struct Traits {
    /// [places]
    documents: Vec<i64>,
    /// [places]
    languages: Vec<Option<Language>>,
}

/// Chooses which passages to pair. Two passages may not be paired if they are of the same kind: of the same document, or of
/// languages that the rule does not allow together. If the occurrences of a text are of several kinds, one pair per passage
/// connects them, and one pair per neighbor connects them with other texts. If all are of one kind, they cannot be paired with
/// each other: the first one represents them in pairs with neighbors, and each further one is paired with the nearest of these
/// neighbors.
struct Occurrences<'a> {
    rule: LanguageRule,
    /// [places] The number of the text at each place.
    numbers: &'a [u32],
    /// [places]
    documents: &'a [i64],
    /// [places]
    languages: &'a [Option<Language>],
    /// Sorted by number and language.
    groups: Vec<Group>,
    /// [places] All places, in the order of their groups.
    sorted: Vec<u32>,
}

/// The occurrences of one text; under `LanguageRule::Same`, those in one language. So if two of them may not be paired, they
/// are of the same document or, under `LanguageRule::Different`, of the same language.
struct Group {
    number: u32,
    /// Only set under `LanguageRule::Same`.
    language: Option<Language>,
    first: u32,
    /// The first occurrence that may be paired with `first`.
    second: Option<u32>,
    /// Its range in `Occurrences::sorted`.
    positions: Range<usize>,
}

impl LanguageRule {
    fn allows(self, one: Option<Language>, other: Option<Language>) -> bool {
        match self {
            Self::Any => true,
            // Two texts without a recognized language do not have the same language.
            Self::Same => one.is_some() && one == other,
            Self::Different => one.is_some() && other.is_some() && one != other,
        }
    }
}

impl Service {
    /// Accepts a job that finds duplicates among the passages that exist now.
    pub async fn find_duplicates(&self, name: &CollectionName, request: DuplicatesRequest) -> Result<Job, Error> {
        self.find_duplicates_once(name, request, None).await
    }

    /// Like `find_duplicates`, but a repeated request returns the job that the first one created, in its current state.
    pub async fn find_duplicates_once(
        &self,
        name: &CollectionName,
        request: DuplicatesRequest,
        key: Option<RequestKey>,
    ) -> Result<Job, Error> {
        let prepared = async {
            let collection = self.minable(name)?;
            let (service, name) = (self.clone(), name.clone());
            blocking(move || service.prepare_duplicates(name, collection, request)).await
        };
        self.accept_job(key, prepared).await
    }

    fn prepare_duplicates(
        &self,
        name: CollectionName,
        collection: Arc<OpenCollection>,
        request: DuplicatesRequest,
    ) -> Result<(NewJob<DuplicatesJob>, Option<Folder>), Error> {
        let DuplicatesRequest { only, unit, score_min, neighbors, size_max, pairs } = request;
        let found = of_collection(name.clone(), collection, only)?.by(unit, self.limits())?;
        let positions = found.ids.len() as u64;
        let memory_bytes = memory::of_duplicates(found.size(), neighbors, found.dimension(self.model()));
        memory::check(memory_bytes, self.limits())?;
        let disk_bytes = positions.saturating_mul(PAIR_BYTES / 2).saturating_add(found.disk_bytes(self.model()));
        check_disk_space(&self.state.data_dir, disk_bytes, self.limits().disk_reserve_bytes)?;
        let id = new_job_id()?;
        let folder = Folder::create(self.state.job_dir(&id))?;
        found.write(&self.state.job_dir(&id), "side")?;
        let plan = DuplicatesPlan { side: found.planned(), score_min, neighbors, size_max, pairs };
        let of = |counted| Some(positions).filter(|_| counted == unit);
        let [passages, documents, sentences] = [MiningUnit::Passage, MiningUnit::Document, MiningUnit::Sentence].map(of);
        let new = NewJob {
            id,
            collection: Some(name),
            request: plan,
            details: DuplicatesDetails { passages, documents, sentences, memory_bytes, disk_bytes },
            total: positions,
            unit: JobUnit::Sentences,
        };
        Ok((new, Some(folder)))
    }
}

/// Returns the name that the job's details use for the compared unit.
fn counted(unit: MiningUnit) -> &'static str {
    match unit {
        MiningUnit::Passage => "passages",
        MiningUnit::Document => "documents",
        MiningUnit::Sentence => "sentences",
    }
}

impl JobKind for DuplicatesJob {
    type Request = DuplicatesPlan;
    type Details = DuplicatesDetails;

    const NEEDS_FILES: bool = true;

    fn access(_: &DuplicatesPlan, collection: Option<&CollectionName>) -> JobAccess {
        JobAccess { scope: Scope::Write, reach: JobVisibility::of(collection) }
    }

    async fn run(context: &JobContext, plan: DuplicatesPlan) -> Result<(), JobError> {
        let result = find(context, &plan).await;
        if let Err(JobError::Failed(_)) = &result {
            // If the collection was deleted, return that error instead.
            context.sync_catalog().await?;
            Service { state: context.state()? }.planned_collection(&plan.side)?;
        }
        result
    }

    fn clean_up(folder: &Path) {
        keep_results(folder);
    }
}

async fn find(context: &JobContext, plan: &DuplicatesPlan) -> Result<(), JobError> {
    let (corpus, traits) = open(context, plan).await?;
    let mut details = context.job.progress().1;
    details.insert(counted(plan.side.unit()).to_owned(), corpus.positions().into());
    details.insert("different".to_owned(), corpus.sentences().into());
    let mut steps = begin(context, &[&corpus], details);
    steps.check_memory(memory::of_duplicates(corpus.size(), plan.neighbors, corpus.dimension()))?;
    steps.embed(&corpus).await?;
    steps.index(&corpus).await?;
    let Traits { documents, languages } = traits;
    let documents = Arc::new(documents);
    let exclusion = Exclusion::OwnDocument { documents: Arc::clone(&documents) };
    let ef = steps.ef(&corpus, &corpus, plan.neighbors, &exclusion).await?;
    let lists = steps.neighbors((&corpus, &corpus), plan.neighbors, ef, &exclusion).await?;

    let state = context.state()?;
    let (rule, folder, reserve) = (plan.pairs, state.job_dir(&context.job.id), state.limits.disk_reserve_bytes);
    drop(state);
    let limits = DuplicateRule { score_min: plan.score_min, size_max: plan.size_max };
    let canceled_by = context.clone();
    let written = blocking(move || {
        let occurrences = Occurrences::new(rule, corpus.numbers(), &documents, &languages);
        let pairs = occurrences.near(&lists).chain(occurrences.copies(&lists)).chain(occurrences.equal());
        let clusters = cluster(corpus.positions(), pairs, &limits).map_err(MineError::from)?;
        write(&canceled_by, ResultsFile::create(folder, CLUSTERS, reserve)?, &clusters, &corpus)
    })
    .await;
    // Canceling makes the writing fail. Report such a job as canceled, not as failed.
    context.check()?;
    steps.details().extend(written?);
    steps.end().await
}

async fn open(context: &JobContext, plan: &DuplicatesPlan) -> Result<(Arc<Corpus>, Traits), JobError> {
    let state = context.state()?;
    let collection = Service { state: Arc::clone(&state) }.planned_collection(&plan.side)?;
    recovered(context, &collection).await?;
    let (whole, unit) = (plan.side.collection.as_ref().is_some_and(|planned| planned.whole), plan.side.unit());
    let (folder, canceled_by) = (state.job_dir(&context.job.id), context.clone());
    let opened = tokio::task::spawn_blocking(move || {
        let mut traits = Traits::default();
        let (source, ids) = match unit {
            MiningUnit::Sentence => {
                let sentences = split_sentences::read(&folder, "side")?;
                let cut = Texts::Cut { collection: collection.row.id.clone(), sentences };
                listed(cut, embeddings(&state, &folder, "side")?)
            }
            MiningUnit::Passage | MiningUnit::Document => {
                (Source::Collection { collection, whole, unit }, request::read_ids(&folder, "side")?)
            }
        };
        let corpus = Corpus::open(
            source,
            ids,
            EqualTexts::One,
            || canceled_by.check(),
            |document, language| {
                traits.documents.push(document);
                traits.languages.push(language);
            },
        )?;
        Ok::<_, JobError>((Arc::new(corpus), traits))
    });
    opened.await.map_err(Error::from)?
}

impl<'a> Occurrences<'a> {
    fn new(rule: LanguageRule, numbers: &'a [u32], documents: &'a [i64], languages: &'a [Option<Language>]) -> Self {
        let mut all = Self { rule, numbers, documents, languages, groups: Vec::new(), sorted: Vec::new() };
        let keyed = (0..numbers.len() as u32).filter_map(|position| Some((all.key(position)?, position)));
        let mut keyed: Vec<((u32, Option<Language>), u32)> = keyed.collect();
        keyed.sort_unstable();
        let mut end = 0;
        let groups = keyed.chunk_by(|one, other| one.0 == other.0).map(|same| {
            let ((number, language), first) = same[0];
            let second = same.iter().map(|(_, position)| *position).find(|position| all.may_pair(first, *position));
            end += same.len();
            Group { number, language, first, second, positions: end - same.len()..end }
        });
        all.groups = groups.collect();
        all.sorted = keyed.into_iter().map(|(_, position)| position).collect();
        all
    }

    /// Returns the pairs of neighbors, as places.
    fn near(&self, lists: &NeighborLists) -> impl Iterator<Item = (u32, u32, f32)> {
        self.groups.iter().flat_map(move |group| {
            lists.of(group.number as usize).filter_map(move |(other, cosine)| {
                let (one, other) = self.pair(group, self.group((other, group.language))?)?;
                Some((one, other, cosine))
            })
        })
    }

    /// For texts whose occurrences are all of one kind, pairs each occurrence but the first with the nearest neighbor of the
    /// text. Returns places.
    fn copies(&self, lists: &NeighborLists) -> impl Iterator<Item = (u32, u32, f32)> {
        let mut nearest: HashMap<u32, (u32, f32)> = HashMap::new();
        for (one, other, cosine) in self.near(lists) {
            for (first, neighbor) in [(one, other), (other, one)] {
                let kept = nearest.entry(first).or_insert((neighbor, cosine));
                if cosine > kept.1 {
                    *kept = (neighbor, cosine);
                }
            }
        }
        let alike = self.groups.iter().filter(|group| group.second.is_none() && group.positions.len() > 1);
        alike.flat_map(move |group| {
            let found = nearest.get(&group.first).copied();
            let further = self.sorted[group.positions.clone()].iter().filter(|position| **position != group.first);
            found
                .into_iter()
                .flat_map(move |(neighbor, cosine)| further.clone().map(move |position| (neighbor, *position, cosine)))
        })
    }

    /// Pairs each occurrence of a text with the first one of another kind. Returns places.
    fn equal(&self) -> impl Iterator<Item = (u32, u32, f32)> {
        (0..self.numbers.len() as u32).filter_map(move |position| {
            let group = self.group(self.key(position)?)?;
            let firsts = [Some(group.first), group.second].into_iter().flatten();
            let other = firsts.filter(|_| position != group.first).find(|first| self.may_pair(*first, position))?;
            Some((other, position, 1.0))
        })
    }

    /// Finds an occurrence of one text and an occurrence of the other that may be paired.
    fn pair(&self, one: &Group, other: &Group) -> Option<(u32, u32)> {
        let firsts = Some((one.first, other.first));
        let pairs = [firsts, other.second.map(|second| (one.first, second)), one.second.map(|second| (second, other.first))];
        pairs.into_iter().flatten().find(|(one, other)| self.may_pair(*one, *other))
    }

    /// Returns the group of a passage, or `None` if it may not be paired with any other.
    fn key(&self, position: u32) -> Option<(u32, Option<Language>)> {
        let (number, language) = (self.numbers[position as usize], self.languages[position as usize]);
        match self.rule {
            LanguageRule::Any => Some((number, None)),
            LanguageRule::Same => Some((number, Some(language?))),
            LanguageRule::Different => language.map(|_| (number, None)),
        }
    }

    fn group(&self, key: (u32, Option<Language>)) -> Option<&Group> {
        let at = self.groups.binary_search_by_key(&key, |group| (group.number, group.language)).ok()?;
        self.groups.get(at)
    }

    fn may_pair(&self, one: u32, other: u32) -> bool {
        let (one, other) = (one as usize, other as usize);
        self.documents[one] != self.documents[other] && self.rule.allows(self.languages[one], self.languages[other])
    }
}

/// Writes the clusters with their texts. Leaves out passages that are gone, and clusters of which fewer than two passages are
/// left.
fn write(context: &JobContext, mut file: ResultsFile, clusters: &Clusters, corpus: &Corpus) -> Result<Metadata, Error> {
    let (mut written, mut members_written) = (0_u64, 0_u64);
    for one in clusters.iter() {
        if context.check().is_err() {
            return Err(Error::Stopping);
        }
        let shown = corpus.shown(one.members)?;
        let representative = one.members.iter().position(|member| *member == one.representative);
        let representative = representative.and_then(|at| shown[at].as_ref()).or_else(|| shown.iter().flatten().next());
        let Some(representative) = representative.map(|shown| shown.id.clone()) else { continue };
        let members: Vec<_> = shown.into_iter().flatten().collect();
        if members.len() < 2 {
            continue;
        }
        written += 1;
        members_written += members.len() as u64;
        file.add(&DuplicateCluster { size: members.len(), representative, members })?;
    }
    file.finish()?;
    let counts = [("clusters", written), ("members", members_written), ("refused_pairs", clusters.refused as u64)];
    Ok(counts.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_decide_what_may_belong_together() {
        let [de, fr] = ["de", "fr"].map(Language::parse);
        let check = |rule: LanguageRule, expect: [bool; 3]| {
            assert_eq!([rule.allows(de, de), rule.allows(de, fr), rule.allows(de, None)], expect, "{rule:?}");
        };
        check(LanguageRule::Any, [true, true, true]);
        check(LanguageRule::Same, [true, false, false]);
        check(LanguageRule::Different, [false, true, false]);
        assert!(!LanguageRule::Same.allows(None, None));
    }

    /// Checks the clusters of `passages`, each given as the number of its text, its document and its language, if the two texts
    /// in `near` are neighbors.
    #[track_caller]
    fn check(rule: LanguageRule, passages: &[(u32, i64, &str)], near: Option<(u32, u32)>, expect: &[&[u32]]) {
        let numbers: Vec<u32> = passages.iter().map(|passage| passage.0).collect();
        let documents: Vec<i64> = passages.iter().map(|passage| passage.1).collect();
        let languages: Vec<Option<Language>> = passages.iter().map(|passage| Language::parse(passage.2)).collect();
        let mut lists = NeighborLists::new(2, 2, 1).unwrap();
        if let Some((one, other)) = near {
            lists.put(one, &[(other, 0.9)]).unwrap();
        }
        let occurrences = Occurrences::new(rule, &numbers, &documents, &languages);
        let limits = DuplicateRule { score_min: 0.8, size_max: 100 };
        let pairs = occurrences.near(&lists).chain(occurrences.copies(&lists)).chain(occurrences.equal());
        let clusters = cluster(passages.len(), pairs, &limits).unwrap();
        assert_eq!(clusters.iter().map(|one| one.members).collect::<Vec<_>>(), expect, "{rule:?} {passages:?}");
    }

    #[test]
    fn equal_texts_are_clustered_whichever_language_comes_first() {
        let two_languages = [(0, 0, "de"), (0, 1, "en"), (0, 2, "en"), (0, 3, "")];
        check(LanguageRule::Same, &two_languages, None, &[&[1, 2]]);
        check(LanguageRule::Different, &two_languages, None, &[&[0, 1, 2]]);
        check(LanguageRule::Any, &two_languages, None, &[&[0, 1, 2, 3]]);
        check(LanguageRule::Different, &[(0, 0, "de"), (0, 1, "de"), (0, 2, "en")], None, &[&[0, 1, 2]]);
        check(LanguageRule::Different, &[(0, 0, "de"), (0, 1, "de")], None, &[]);
    }

    #[test]
    fn equal_texts_of_one_document_are_only_connected_through_another_document() {
        check(LanguageRule::Any, &[(0, 0, "de"), (0, 0, "de")], None, &[]);
        check(LanguageRule::Any, &[(0, 0, "de"), (0, 0, "de"), (0, 1, "de")], None, &[&[0, 1, 2]]);
    }

    #[test]
    fn near_texts_are_paired_by_occurrences_whose_languages_fit() {
        check(LanguageRule::Same, &[(0, 0, "de"), (0, 1, "en"), (1, 2, "en")], Some((0, 1)), &[&[1, 2]]);
        check(LanguageRule::Same, &[(0, 0, "de"), (1, 1, "en"), (1, 2, "de")], Some((1, 0)), &[&[0, 2]]);
        check(LanguageRule::Different, &[(0, 0, "de"), (0, 1, "en"), (1, 2, "de")], Some((0, 1)), &[&[0, 1, 2]]);
        check(LanguageRule::Different, &[(0, 0, "de"), (1, 1, "de"), (1, 2, "en")], Some((0, 1)), &[&[0, 1, 2]]);
        check(LanguageRule::Different, &[(0, 0, "de"), (1, 1, "de"), (1, 2, "")], Some((0, 1)), &[]);
        check(LanguageRule::Any, &[(0, 0, "de"), (1, 0, "de"), (1, 1, "")], Some((0, 1)), &[&[0, 1, 2]]);
    }

    #[test]
    fn all_copies_of_a_text_are_clustered_with_its_neighbors() {
        check(LanguageRule::Different, &[(0, 0, "de"), (0, 1, "de"), (1, 2, "en")], Some((0, 1)), &[&[0, 1, 2]]);
        check(LanguageRule::Different, &[(0, 0, "de"), (1, 1, "en"), (1, 2, "en")], Some((0, 1)), &[&[0, 1, 2]]);
        check(LanguageRule::Any, &[(0, 0, "de"), (0, 0, "de"), (1, 1, "de")], Some((1, 0)), &[&[0, 1, 2]]);
        check(LanguageRule::Any, &[(0, 0, "de"), (0, 0, "de"), (1, 0, "de")], Some((1, 0)), &[]);
    }
}
