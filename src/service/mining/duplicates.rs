//! Finds duplicates: clusters of passages or documents of a collection that say the same thing, in one language or several.
//!
//! The job finds the neighbors of every different text, leaving out those of its own document. `crate::mining` clusters the
//! pairs that are near enough. Equal texts are joined before all others. A text may occur many times and in several languages;
//! `Occurrences` chooses which occurrence of it to pair, and divides more of them than a cluster holds among several clusters.
//! After a restart of the server, the job starts over.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::memory::{self, PAIR_BYTES};
pub use super::occurrences::LanguageRule;
use super::occurrences::Occurrences;
use super::request::PlannedCorpus;
use super::results::ResultsFile;
use super::steps::Exclusion;
use super::texts::EqualTexts;
use super::{Corpus, find_passages, open_corpus, or_deleted, remove_all_but_results};
use crate::domain::{
    CollectionName, DuplicateCluster, Job, JobStatus, JobType, JobUnit, Language, Metadata, MiningUnit, RequestKey, Scope,
    SearchFilter,
};
use crate::mining::{Clusters, DuplicateRule, cluster};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::jobs::{Folder, JobContext, JobError, JobKind, NewJob, Steps, new_job_id};
use crate::service::open_collection::OpenCollection;
use crate::service::state::Service;

const CLUSTERS: &str = "clusters.ndjson";

#[derive(Debug, Clone, PartialEq)]
pub struct DuplicatesRequest {
    pub only: SearchFilter,
    pub unit: MiningUnit,
    pub settings: DuplicatesSettings,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DuplicatesSettings {
    /// Minimum cosine of two passages, or documents, that belong together.
    pub score_min: f32,
    /// Number of neighbors considered per passage, 1 to 255.
    pub neighbors: usize,
    /// Maximum number of passages in a cluster, at least 2.
    pub size_max: u32,
    /// Which languages two passages may have to belong together.
    pub pairs: LanguageRule,
}

pub(crate) struct DuplicatesJob;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DuplicatesPlan {
    #[serde(rename = "side")]
    corpus: PlannedCorpus,
    #[serde(flatten)]
    settings: DuplicatesSettings,
}

/// The initial details of the job: how many passages, documents or sentences it compares, and how much memory that takes.
#[derive(Debug, Serialize)]
pub(crate) struct DuplicatesDetails {
    /// Their number, by the name of the unit.
    #[serde(flatten)]
    compared: Metadata,
    memory_bytes: u64,
    disk_bytes: u64,
}

#[derive(Default)]
struct Traits {
    /// [positions]
    documents: Vec<i64>,
    /// [positions]
    languages: Vec<Option<Language>>,
}

impl Service {
    /// Accepts a job that finds duplicates among the passages that exist now. A repeated request returns the job that the first
    /// one created, in its current state.
    pub async fn find_duplicates(
        &self,
        name: &CollectionName,
        request: DuplicatesRequest,
        key: Option<RequestKey>,
    ) -> Result<Job, Error> {
        let prepared = async {
            let collection = self.find_minable_collection(name)?;
            let service = self.clone();
            blocking(move || service.prepare_duplicates(collection, request)).await
        };
        self.accept_job(key, prepared).await
    }

    fn prepare_duplicates(
        &self,
        collection: Arc<OpenCollection>,
        request: DuplicatesRequest,
    ) -> Result<NewJob<DuplicatesJob>, Error> {
        let DuplicatesRequest { only, unit, settings } = request;
        let name = collection.row.name.clone();
        let found = find_passages(collection, &only)?.into_unit(unit, self.limits())?;
        let positions = found.ids.len() as u64;
        let memory_bytes = memory::duplicates_bytes(found.size(), settings.neighbors, found.dimension(self.model()));
        memory::check(memory_bytes, self.limits())?;
        let disk_bytes = positions.saturating_mul(PAIR_BYTES / 2).saturating_add(found.disk_bytes(self.model()));
        self.state.check_disk_space(disk_bytes)?;
        let id = new_job_id()?;
        let folder = Folder::create(self.state.job_dir(&id))?;
        found.write(&self.state.job_dir(&id), "side")?;
        let plan = DuplicatesPlan { corpus: found.planned(), settings };
        let compared = Metadata::from_iter([(counted(unit).to_owned(), positions.into())]);
        Ok(NewJob {
            id,
            collection: Some(name),
            request: plan,
            details: DuplicatesDetails { compared, memory_bytes, disk_bytes },
            total: positions,
            folder: Some(folder),
            follows: None,
        })
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
    const TYPE: JobType = JobType::Duplicates;
    const SCOPE: Scope = Scope::Write;
    const UNIT: JobUnit = JobUnit::Sentences;
    type Request = DuplicatesPlan;
    type Details = DuplicatesDetails;

    const NEEDS_FILES: bool = true;

    async fn run(context: &JobContext, plan: DuplicatesPlan) -> Result<(), JobError> {
        or_deleted(context, find(context, &plan).await, &[&plan.corpus]).await
    }

    fn clean_up(folder: &Path, status: JobStatus) {
        remove_all_but_results(folder, status);
    }
}

async fn find(context: &JobContext, plan: &DuplicatesPlan) -> Result<(), JobError> {
    let settings = plan.settings;
    let record = |traits: &mut Traits, document, language| {
        traits.documents.push(document);
        traits.languages.push(language);
    };
    let equal = EqualTexts { deduplicate: true, skip_identical: false };
    let (corpus, traits) = open_corpus(context, &plan.corpus, "side", equal, record).await?;
    let corpus = Arc::new(corpus);
    let mut steps = Steps::new(context);
    steps.details().insert(counted(plan.corpus.unit()).to_owned(), corpus.positions().into());
    steps.details().insert("different".to_owned(), corpus.sentences().into());
    steps.set_corpora(&[&corpus]);
    steps.check_memory(memory::duplicates_bytes(corpus.size(), settings.neighbors, corpus.dimension()))?;
    steps.embed(&corpus).await?;
    steps.index(&corpus).await?;
    let Traits { documents, languages } = traits;
    let documents = Arc::new(documents);
    let exclusion = Exclusion::OwnDocument { documents: Arc::clone(&documents) };
    let ef = steps.find_ef(&corpus, &corpus, settings.neighbors, &exclusion).await?;
    let lists = steps.neighbors((&corpus, &corpus), settings.neighbors, ef, &exclusion).await?;

    let state = context.state()?;
    let (rule, folder, reserve) = (settings.pairs, state.job_dir(&context.job.id), state.limits.disk_reserve_bytes);
    drop(state);
    let limits = DuplicateRule { score_min: settings.score_min, size_max: settings.size_max };
    let canceled_by = context.clone();
    let written = blocking(move || {
        let occurrences = Occurrences::new(rule, limits.size_max, corpus.numbers(), &documents, &languages);
        let pairs = occurrences.neighbor_pairs(&lists).chain(occurrences.copies(&lists)).chain(occurrences.equal());
        let clusters = cluster(corpus.positions(), pairs, &limits)?;
        write(&canceled_by, ResultsFile::create(folder, CLUSTERS, reserve)?, &clusters, &corpus)
    })
    .await;
    // Canceling makes the writing fail. Report such a job as canceled, not as failed.
    context.check()?;
    steps.details().extend(written?);
    steps.end().await
}

/// Writes the clusters with their texts. Leaves out passages that are gone, and clusters of which fewer than two passages are
/// left.
fn write(context: &JobContext, mut file: ResultsFile, clusters: &Clusters, corpus: &Corpus) -> Result<Metadata, Error> {
    let (mut written, mut members_written) = (0_u64, 0_u64);
    for cluster in clusters.iter() {
        context.check_not_stopped()?;
        let sentences = corpus.mined_sentences(cluster.members)?;
        let representative = cluster.members.iter().position(|member| *member == cluster.representative);
        let representative =
            representative.and_then(|index| sentences[index].as_ref()).or_else(|| sentences.iter().flatten().next());
        let Some(representative) = representative.map(|sentence| sentence.id.clone()) else { continue };
        let members: Vec<_> = sentences.into_iter().flatten().collect();
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
    fn a_stored_plan_has_its_settings_beside_the_rest() {
        let plan = r#"{"side":{"collection":null},"score_min":0.9,"neighbors":8,"size_max":100,"pairs":"different"}"#;
        let read: DuplicatesPlan = serde_json::from_str(plan).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), plan);
        // Serde does not promise this for a struct with a flattened one.
        let later = plan.replace("\"neighbors\"", "\"speed\":1,\"neighbors\"");
        assert!(serde_json::from_str::<DuplicatesPlan>(&later).is_err(), "an unknown setting is refused");
    }
}
