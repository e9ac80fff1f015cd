//! Accepts mining jobs: finds their sentences, and checks that there is enough memory and disk space.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::embedding_file::EmbeddingFile;
use super::memory::{self, PAIR_BYTES};
use super::request::{self, MinePlan, MineRequest, PlannedCollection, PlannedCorpus, Sentences};
use super::size::Size;
use super::split_sentences::split_documents;
use super::texts::Texts;
use super::{MineDetails, MineError, MineJob, Strategy};
use crate::domain::{
    CollectionName, DocumentId, Job, JobId, JobStatus, JobType, Limits, MiningUnit, ModelInfo, PassageId, RequestKey,
    SearchFilter,
};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::jobs::result_lines::{count, open_results};
use crate::service::jobs::{Folder, NewJob, new_job_id};
use crate::service::open_collection::OpenCollection;
use crate::service::state::{Service, State};
use crate::storage::Scope;

/// The sentences of a corpus, found when the job is accepted.
pub(crate) struct SelectedSentences {
    /// The collection with its own name.
    collection: Option<(CollectionName, Arc<OpenCollection>)>,
    /// Whether all passages of the collection are used.
    whole: bool,
    unit: MiningUnit,
    /// Keys of passages (a document has the key of its first passage), or positions in a list. Ascending.
    pub(crate) ids: Vec<u64>,
    /// The texts that the job itself embeds. Then `ids` are their positions.
    texts: Option<Texts>,
}

impl Service {
    /// Accepts a job that mines translation pairs among the sentences that exist now. A repeated request returns the job that
    /// the first one created, in its current state.
    pub async fn mine(&self, request: MineRequest, key: Option<RequestKey>) -> Result<Job, Error> {
        let prepared = async {
            let service = self.clone();
            blocking(move || {
                let (first, second) = (service.find_sentences(&request.first)?, service.find_sentences(&request.second)?);
                service.prepare(&request, &first, &second)
            })
            .await
        };
        self.accept_job(key, prepared).await
    }

    /// Opens the results of a job of type `of`, and returns their length in bytes. `what` names the results in the error.
    pub async fn job_lines(&self, id: &JobId, what: &'static str, of: JobType) -> Result<(File, u64), Error> {
        let id = id.clone();
        self.state
            .run(move |state| {
                let job = state.job(&id)?;
                if job.kind != of || job.status != JobStatus::Succeeded {
                    return Err(MineError::NoResults { id, kind: job.kind, status: job.status, what, of }.into());
                }
                let lines = match of {
                    JobType::Duplicates => count(&job.details, "clusters"),
                    _ => count(&job.details, "pairs").saturating_sub(count(&job.details, "gone")),
                };
                open_results(&state.job_dir(&id).join(format!("{what}.ndjson")), &job, lines, state.server.is_some())
            })
            .await
    }

    /// Finds a collection, and checks that it can be mined now.
    pub(crate) fn find_minable_collection(&self, name: &CollectionName) -> Result<Arc<OpenCollection>, Error> {
        let collection = self.state.collection(name)?;
        collection.check_model(self.model())?;
        collection.check_ready()?;
        Ok(collection)
    }

    /// Finds the sentences of a corpus. Blocks.
    fn find_sentences(&self, sentences: &Sentences) -> Result<SelectedSentences, Error> {
        match sentences {
            Sentences::Collection { name, only, unit } => {
                find_passages(self.find_minable_collection(name)?, only)?.into_unit(*unit, self.limits())
            }
            Sentences::List(texts) => {
                let ids = (0..texts.len() as u64).collect();
                let texts = Some(Texts::List(texts.clone()));
                Ok(SelectedSentences { collection: None, whole: false, unit: MiningUnit::Passage, ids, texts })
            }
        }
    }

    fn prepare(
        &self,
        request: &MineRequest,
        first: &SelectedSentences,
        second: &SelectedSentences,
    ) -> Result<NewJob<MineJob>, Error> {
        if let (Some((name, one)), Some((_, other))) = (&first.collection, &second.collection)
            && one.row.id == other.row.id
            && (first.unit, &first.ids, &first.texts) == (second.unit, &second.ids, &second.texts)
        {
            return Err(MineError::SameSides { collection: name.clone() }.into());
        }
        let (one, other) = (first.describe_embeddings(self.model()), second.describe_embeddings(self.model()));
        if one != other {
            return Err(MineError::Incomparable { first: one, second: other }.into());
        }
        let settings = request.settings;
        for (corpus, found) in [("first", first), ("second", second)] {
            let (expected, got) = (settings.neighbors, found.ids.len());
            if got < expected {
                return Err(MineError::TooFewSentences { corpus, expected, got }.into());
            }
        }
        let known = request.known_pairs.as_ref().map(|pairs| resolve_known_pairs(pairs, first, second)).transpose()?;
        let dimension = first.dimension(self.model());
        let size = |found: &SelectedSentences| Size { hashed: settings.skip_identical, ..found.size() };
        let sizes = (size(first), size(second));
        let memory_bytes = memory::mining_bytes(sizes, settings.neighbors, settings.margin, dimension, settings.exact);
        memory::check(memory_bytes, self.limits())?;
        let disk_bytes = disk_bytes(settings.strategy, first, second, self.model());
        self.state.check_disk_space(disk_bytes)?;

        let id = new_job_id()?;
        let folder = Folder::create(self.state.job_dir(&id))?;
        for (name, found) in [("first", first), ("second", second)] {
            found.write(&self.state.job_dir(&id), name)?;
        }
        let names: BTreeSet<&CollectionName> =
            [first, second].into_iter().filter_map(|found| Some(&found.collection.as_ref()?.0)).collect();
        let lists = first.collection.is_none() || second.collection.is_none();
        let plan = MinePlan {
            first: first.planned(),
            second: second.planned(),
            settings,
            threshold: request.threshold,
            known,
            known_complete: request.known_complete,
            collections: names.iter().map(|name| (*name).clone()).collect(),
            key: request.key.clone().filter(|_| lists),
        };
        let (first_sentences, second_sentences) = (first.ids.len() as u64, second.ids.len() as u64);
        let of_one = first.collection.as_ref().or(second.collection.as_ref()).filter(|_| names.len() == 1);
        Ok(NewJob {
            id,
            collection: of_one.map(|(name, _)| name.clone()),
            request: plan,
            details: MineDetails { first_sentences, second_sentences, memory_bytes, disk_bytes },
            total: first_sentences + second_sentences,
            folder: Some(folder),
            follows: None,
        })
    }
}

impl State {
    /// Finds the collection of a corpus, and checks that it is still the one that the job was accepted for.
    pub(crate) fn planned_collection(&self, corpus: &PlannedCorpus) -> Result<Arc<OpenCollection>, Error> {
        let Some(planned) = &corpus.collection else { return Err(Error::Stopping) };
        let found = self.collection_by_id(&planned.id.0).filter(|found| !found.is_deleted());
        let collection = found.ok_or_else(|| self.missing_error(&planned.name))?;
        collection.check_model(self.embedder.model())?;
        Ok(collection)
    }
}

impl SelectedSentences {
    pub(crate) fn planned(&self) -> PlannedCorpus {
        PlannedCorpus {
            collection: self.collection.as_ref().map(|(name, collection)| PlannedCollection {
                name: name.clone(),
                id: collection.row.id.clone(),
                whole: self.whole,
                documents: self.unit == MiningUnit::Document,
                sentences: self.unit == MiningUnit::Sentence,
            }),
        }
    }

    /// Converts passages to another unit: their documents, or the sentences of these. Blocks.
    pub(crate) fn into_unit(self, unit: MiningUnit, limits: &Limits) -> Result<Self, Error> {
        let Some((_, collection)) = self.collection.as_ref().filter(|_| unit != MiningUnit::Passage) else { return Ok(self) };
        let passages: Vec<PassageId> = self.ids.iter().copied().map(PassageId).collect();
        let firsts = collection.with_store(|store| store.first_passages(&passages))?;
        if unit == MiningUnit::Sentence {
            let sentences = split_documents(collection, &firsts, limits)?;
            let ids = (0..sentences.len() as u64).collect();
            let texts = Some(Texts::Cut { collection: collection.row.id.clone(), sentences });
            return Ok(Self { unit, ids, texts, ..self });
        }
        Ok(Self { unit, ids: firsts.into_iter().map(|PassageId(id)| id).collect(), ..self })
    }

    pub(crate) fn write(&self, folder: &Path, name: &str) -> Result<(), Error> {
        request::write_files(folder, name, &self.ids, self.texts.as_ref())
    }

    /// Returns the collection if the corpus uses its embeddings.
    fn own_embeddings(&self) -> Option<&Arc<OpenCollection>> {
        self.collection.as_ref().filter(|_| self.texts.is_none()).map(|(_, collection)| collection)
    }

    pub(crate) fn dimension(&self, loaded: &ModelInfo) -> usize {
        self.own_embeddings().map_or(loaded.dimension, |collection| collection.row.dimension)
    }

    /// Returns how many bytes the sentences and the computed embeddings take on disk.
    pub(crate) fn disk_bytes(&self, loaded: &ModelInfo) -> u64 {
        let row = EmbeddingFile::row_bytes(self.dimension(loaded)) as u64;
        match self.own_embeddings() {
            Some(_) => self.ids.len() as u64 * 8,
            None => self.text_bytes() + self.ids.len() as u64 * row,
        }
    }

    fn text_bytes(&self) -> u64 {
        self.texts.as_ref().map_or(0, Texts::bytes)
    }

    /// Returns the position of each document's sentence, or `None` if the document does not have exactly one.
    fn only_sentences(&self, ids: &[DocumentId]) -> Vec<Option<PassageId>> {
        let mut positions: HashMap<&str, Option<PassageId>> = HashMap::new();
        let Some(Texts::Cut { sentences, .. }) = &self.texts else { return vec![None; ids.len()] };
        for (position, sentence) in (0..).zip(sentences) {
            positions.entry(&sentence.sentence.id).and_modify(|only| *only = None).or_insert(Some(PassageId(position)));
        }
        ids.iter().map(|id| positions.get(id.as_str()).copied().flatten()).collect()
    }

    fn describe_embeddings(&self, loaded: &ModelInfo) -> String {
        let row = self.own_embeddings().map(|collection| &collection.row);
        match row {
            // A collection with a model always has the loaded one here.
            Some(row) if row.model.is_none() => format!("vectors of {} values", row.dimension),
            _ => format!("embeddings of model {}", loaded.name),
        }
    }

    /// Returns its size without hashes, for memory estimates.
    pub(crate) fn size(&self) -> Size {
        let sentences = self.ids.len() as u64;
        let own_index = self.whole
            && self.unit == MiningUnit::Passage
            && self.own_embeddings().is_none_or(|collection| collection.embedded().is_ok());
        let indexed = if own_index { 0 } else { sentences };
        Size { sentences, different: sentences, hashed: false, text_bytes: self.text_bytes(), indexed }
    }
}

/// Finds the passages of some documents of a collection. Blocks.
pub(crate) fn find_passages(collection: Arc<OpenCollection>, only: &SearchFilter) -> Result<SelectedSentences, Error> {
    let whole = *only == SearchFilter::default();
    let passages = collection.with_store(|store| store.passages_in(Scope { filter: only, words: None }))?;
    let ids = passages.iter().map(|PassageId(id)| id).collect();
    Ok(SelectedSentences {
        collection: Some((collection.row.name.clone(), collection)),
        whole,
        unit: MiningUnit::Passage,
        ids,
        texts: None,
    })
}

/// Estimates how many bytes the job's files take on disk at most.
fn disk_bytes(strategy: Strategy, first: &SelectedSentences, second: &SelectedSentences, loaded: &ModelInfo) -> u64 {
    let (one, other) = (first.ids.len() as u64, second.ids.len() as u64);
    let pairs = match strategy {
        Strategy::Forward => one,
        Strategy::Backward => other,
        Strategy::Intersection | Strategy::MaxScore => one.min(other),
    };
    pairs.saturating_mul(PAIR_BYTES).saturating_add(first.disk_bytes(loaded)).saturating_add(second.disk_bytes(loaded))
}

/// Converts known pairs to keys of passages or positions in lists.
fn resolve_known_pairs(
    pairs: &[(String, String)],
    first: &SelectedSentences,
    second: &SelectedSentences,
) -> Result<Vec<(u64, u64)>, Error> {
    let ones = known_ids(pairs.iter().map(|pair| pair.0.as_str()), "first", first)?;
    let others = known_ids(pairs.iter().map(|pair| pair.1.as_str()), "second", second)?;
    Ok(ones.into_iter().zip(others).collect())
}

fn known_ids<'a>(
    names: impl Iterator<Item = &'a str>,
    corpus: &'static str,
    found: &SelectedSentences,
) -> Result<Vec<u64>, Error> {
    let refuse = |index, problem: String| Error::from(MineError::KnownPair { index, corpus, problem });
    let Some((_, collection)) = &found.collection else {
        let position = |(index, name): (usize, &str)| {
            let position = name.parse::<u64>().ok().filter(|position| *position < found.ids.len() as u64);
            let expected =
                format!("must be a position in the list, from 0 to {}, got {name:?}", found.ids.len().saturating_sub(1));
            position.ok_or_else(|| refuse(index, expected))
        };
        return names.enumerate().map(position).collect();
    };
    let id = |(index, name)| DocumentId::parse(name).map_err(|error| refuse(index, error.to_string()));
    let ids = names.enumerate().map(id).collect::<Result<Vec<_>, _>>()?;
    let passages = match found.unit {
        MiningUnit::Sentence => found.only_sentences(&ids),
        MiningUnit::Passage | MiningUnit::Document => collection.with_store(|store| store.known_passages(&ids, found.unit))?,
    };
    let key = |(index, (passage, id)): (usize, (Option<PassageId>, &DocumentId))| {
        let among = passage.filter(|passage| found.ids.binary_search(&passage.0).is_ok());
        let document = match found.unit {
            MiningUnit::Passage => "document of one passage",
            MiningUnit::Document => "document",
            MiningUnit::Sentence => "document of one sentence",
        };
        let expected = || format!("must be the id of a {document} among the sentences, got {:?}", id.as_str());
        among.map(|passage| passage.0).ok_or_else(|| refuse(index, expected()))
    };
    passages.into_iter().zip(&ids).enumerate().map(key).collect()
}
