//! Accepting a job of mining: which sentences, what it will need, and whether that is there.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::{Arc, PoisonError};

use super::embedding_file::EmbeddingFile;
use super::memory::{self, PAIR_BYTES};
use super::request::{self, Cut, MARGINS, MineRequest, Plan, PlannedCollection, PlannedSide, STRATEGIES, Sentences, name_of};
use super::size::Size;
use super::{MineError, Strategy};
use crate::domain::{
    CollectionName, DocumentId, Filter, Job, JobId, JobStatus, JobType, JobUnit, Language, Metadata, MiningUnit, ModelInfo,
    PassageId, RequestKey,
};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::jobs::folder::Folder;
use crate::service::jobs::{NewJob, new_job_id};
use crate::service::runtime::OpenCollection;
use crate::service::state::Service;
use crate::service::upload_receiver::check_room;
use crate::store::SearchFilter;

/// The sentences of a side, found when the request comes.
pub(crate) struct Found {
    collection: Option<(CollectionName, Arc<OpenCollection>)>,
    /// Whether these are all passages of the collection.
    whole: bool,
    unit: MiningUnit,
    /// Keys of passages, ascending, of documents those of their first passages; for a list the places in it.
    pub(crate) ids: Vec<u64>,
    texts: Vec<String>,
}

impl Service {
    /// Accepts a job that finds translation pairs. Its sentences are those that are there now.
    pub async fn mine(&self, request: MineRequest) -> Result<Job, Error> {
        self.mine_once(request, None).await
    }

    /// As `mine`, unless a request of this key was accepted before: then it gives that job, as it is now.
    pub async fn mine_once(&self, request: MineRequest, key: Option<RequestKey>) -> Result<Job, Error> {
        self.check_running()?;
        if let Some(job) = self.accepted_before(key.as_ref()).await? {
            return Ok(job);
        }
        let place = self.job_place()?;
        let MineRequest { first, second, .. } = &request;
        let collections = [self.side_collection(first)?, self.side_collection(second)?];
        let service = self.clone();
        let accepted = blocking(move || {
            let [one, other] = collections;
            let first = find(request.first.clone(), one)?;
            let second = find(request.second.clone(), other)?;
            service.prepare(&request, &first, &second)
        });
        let (new, folder) = accepted.await?;
        self.submit_job_once(place, new, folder, key).await
    }

    /// Opens the results of a job of the type `of`, and says how many bytes they have. `what` is for the error.
    pub async fn job_lines(&self, id: &JobId, what: &'static str, of: JobType) -> Result<(File, u64), Error> {
        let (state, id) = (Arc::clone(&self.state), id.clone());
        blocking(move || {
            let job = state.job(&id)?;
            if job.kind != of || job.status != JobStatus::Succeeded {
                return Err(MineError::NoResults { id, kind: job.kind, status: job.status, what, of }.into());
            }
            let path = state.job_dir(&id).join(format!("{what}.ndjson"));
            let open = || {
                let file = File::open(&path)?;
                let bytes = file.metadata()?.len();
                Ok((file, bytes))
            };
            open().map_err(|source| Error::Folder { path: path.clone(), source })
        })
        .await
    }

    /// The collection of a side, as long as it is the one that the job was accepted with.
    pub(crate) fn planned_collection(&self, side: &PlannedSide) -> Result<Arc<OpenCollection>, Error> {
        let Some(planned) = &side.collection else { return Err(Error::Stopping) };
        let found = {
            let open = self.state.open.read().unwrap_or_else(PoisonError::into_inner);
            open.values().find(|one| one.row.id.0 == planned.id).cloned()
        };
        let found = found.filter(|found| !found.is_deleted());
        let collection =
            found.map_or_else(|| Err(Error::CollectionNotFound { name: CollectionName::parse(&planned.name)? }), Ok)?;
        collection.check_model(self.model())?;
        Ok(collection)
    }

    /// A collection that can be mined now.
    pub(crate) fn minable(&self, name: &CollectionName) -> Result<Arc<OpenCollection>, Error> {
        let collection = self.collection(name)?;
        collection.check_model(self.model())?;
        collection.index()?;
        Ok(collection)
    }

    fn side_collection(&self, sentences: &Sentences) -> Result<Option<Arc<OpenCollection>>, Error> {
        match sentences {
            Sentences::Collection { name, .. } => Ok(Some(self.minable(name)?)),
            Sentences::List(_) => Ok(None),
        }
    }

    fn prepare(&self, request: &MineRequest, first: &Found, second: &Found) -> Result<(NewJob, Folder), Error> {
        if let (Some((name, one)), Some((_, other))) = (&first.collection, &second.collection)
            && one.row.id == other.row.id
            && first.ids == second.ids
        {
            return Err(MineError::SameSides { collection: name.clone() }.into());
        }
        let (one, other) = (first.holds(self.model()), second.holds(self.model()));
        if one != other {
            return Err(MineError::Incomparable { first: one, second: other }.into());
        }
        for (side, found) in [("first", first), ("second", second)] {
            let (expected, got) = (request.neighbors, found.ids.len());
            if got < expected {
                return Err(MineError::TooFewSentences { side, expected, got }.into());
            }
        }
        let known = match &request.cut {
            Cut::Known(pairs) => Some(known(pairs, first, second)?),
            Cut::None | Cut::Threshold(_) => None,
        };
        let dimension = first.collection.as_ref().map_or(self.model().dimension, |(_, collection)| collection.row.dimension);
        let sizes = (first.size(), second.size());
        let memory_bytes = memory::of_mining(sizes, request.neighbors, request.margin, dimension, request.exact);
        memory::check(memory_bytes, self.limits())?;
        let disk_bytes = disk_bytes(request, first, second, dimension);
        check_room(&self.state.data_dir, disk_bytes, self.limits().disk_reserve_bytes)?;

        let id = new_job_id()?;
        let folder = Folder::create(self.state.job_dir(&id))?;
        for (side, found) in [("first", first), ("second", second)] {
            request::write_files(&self.state.job_dir(&id), side, &found.ids, &found.texts)?;
        }
        let names: BTreeSet<&str> =
            [first, second].into_iter().filter_map(|found| Some(found.collection.as_ref()?.0.as_str())).collect();
        let lists = first.collection.is_none() || second.collection.is_none();
        let plan = Plan {
            first: first.planned(),
            second: second.planned(),
            neighbors: request.neighbors,
            margin: name_of(&MARGINS, &request.margin).to_owned(),
            strategy: name_of(&STRATEGIES, &request.strategy).to_owned(),
            one_to_one: request.one_to_one,
            exact: request.exact,
            deduplicate: request.deduplicate,
            threshold: if let Cut::Threshold(threshold) = request.cut { Some(threshold) } else { None },
            known,
            collections: names.iter().map(|name| (*name).to_owned()).collect(),
            key: request.key.as_ref().filter(|_| lists).map(|key| key.as_str().to_owned()),
        };
        let details = [
            ("first_sentences", first.ids.len() as u64),
            ("second_sentences", second.ids.len() as u64),
            ("memory_bytes", memory_bytes),
            ("disk_bytes", disk_bytes),
        ];
        let of_one = first.collection.as_ref().or(second.collection.as_ref()).filter(|_| names.len() == 1);
        let new = NewJob {
            id,
            kind: JobType::Mine,
            collection: of_one.map(|(name, _)| name.clone()),
            request: request::write(&plan),
            details: details.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect::<Metadata>(),
            total: (first.ids.len() + second.ids.len()) as u64,
            unit: JobUnit::Sentences,
        };
        Ok((new, folder))
    }
}

impl Found {
    pub(crate) fn planned(&self) -> PlannedSide {
        PlannedSide {
            collection: self.collection.as_ref().map(|(name, collection)| PlannedCollection {
                name: name.as_str().to_owned(),
                id: collection.row.id.0.clone(),
                whole: self.whole,
                documents: self.unit == MiningUnit::Document,
            }),
        }
    }

    /// The same with another unit; these are passages. Blocks.
    pub(crate) fn by(self, unit: MiningUnit) -> Result<Self, Error> {
        let Some((_, collection)) = self.collection.as_ref().filter(|_| unit == MiningUnit::Document) else { return Ok(self) };
        let passages: Vec<PassageId> = self.ids.iter().copied().map(PassageId).collect();
        let ids = collection.store.first_passages(&passages)?.into_iter().map(|PassageId(id)| id).collect();
        Ok(Self { unit, ids, ..self })
    }

    /// What the embeddings are of.
    fn holds(&self, loaded: &ModelInfo) -> String {
        let row = self.collection.as_ref().map(|(_, collection)| &collection.row);
        match row {
            // A collection with a model has the loaded one.
            Some(row) if row.model.is_none() => format!("vectors of {} values", row.dimension),
            _ => format!("embeddings of model {}", loaded.name),
        }
    }

    pub(crate) fn size(&self) -> Size {
        let sentences = self.ids.len() as u64;
        let own_index = self.whole && self.unit == MiningUnit::Passage;
        let text_bytes = self.texts.iter().map(|text| (text.len() + size_of::<String>()) as u64).sum();
        Size { sentences, different: sentences, text_bytes, indexed: if own_index { 0 } else { sentences } }
    }
}

/// Finds the sentences of a side. Blocks.
fn find(sentences: Sentences, collection: Option<Arc<OpenCollection>>) -> Result<Found, Error> {
    match (sentences, collection) {
        (Sentences::Collection { name, languages, filter, unit }, Some(collection)) => {
            of_collection(name, collection, languages, filter)?.by(unit)
        }
        (Sentences::List(texts), _) => {
            let ids = (0..texts.len() as u64).collect();
            Ok(Found { collection: None, whole: false, unit: MiningUnit::Passage, ids, texts })
        }
        (Sentences::Collection { name, .. }, None) => Err(Error::CollectionNotFound { name }),
    }
}

/// Finds the passages of a collection whose documents are in one of `languages` and match. Blocks.
pub(crate) fn of_collection(
    name: CollectionName,
    collection: Arc<OpenCollection>,
    languages: Vec<Language>,
    filter: Filter,
) -> Result<Found, Error> {
    let filter = SearchFilter { languages, filter };
    let whole = filter == SearchFilter::default();
    let passages = collection.store.matching_passages(&filter, None)?.passages;
    let mut ids: Vec<u64> = passages.into_iter().map(|PassageId(id)| id).collect();
    ids.sort_unstable();
    Ok(Found { collection: Some((name, collection)), whole, unit: MiningUnit::Passage, ids, texts: Vec::new() })
}

/// Bytes of the disk that the job's files take at most, about.
fn disk_bytes(request: &MineRequest, first: &Found, second: &Found, dimension: usize) -> u64 {
    let (one, other) = (first.ids.len() as u64, second.ids.len() as u64);
    let pairs = match request.strategy {
        Strategy::Forward => one,
        Strategy::Backward => other,
        Strategy::Intersection | Strategy::MaxScore => one.min(other),
    };
    let side = |found: &Found| match &found.collection {
        Some(_) => found.ids.len() as u64 * 8,
        None => found.texts.iter().map(|text| (text.len() + EmbeddingFile::row_bytes(dimension)) as u64).sum(),
    };
    pairs.saturating_mul(PAIR_BYTES).saturating_add(side(first)).saturating_add(side(second))
}

/// The known pairs as keys of passages and places in lists.
fn known(pairs: &[(String, String)], first: &Found, second: &Found) -> Result<Vec<(u64, u64)>, Error> {
    let ones = known_side(pairs.iter().map(|pair| pair.0.as_str()), "first", first)?;
    let others = known_side(pairs.iter().map(|pair| pair.1.as_str()), "second", second)?;
    Ok(ones.into_iter().zip(others).collect())
}

fn known_side<'a>(names: impl Iterator<Item = &'a str>, side: &'static str, found: &Found) -> Result<Vec<u64>, Error> {
    let refuse = |index, problem: String| Error::from(MineError::KnownPair { index, side, problem });
    let Some((_, collection)) = &found.collection else {
        let place = |(index, name): (usize, &str)| {
            let place = name.parse::<u64>().ok().filter(|place| *place < found.ids.len() as u64);
            let expected =
                format!("must be a position in the list, from 0 to {}, got {name:?}", found.ids.len().saturating_sub(1));
            place.ok_or_else(|| refuse(index, expected))
        };
        return names.enumerate().map(place).collect();
    };
    let id = |(index, name)| DocumentId::parse(name).map_err(|error| refuse(index, error.to_string()));
    let ids = names.enumerate().map(id).collect::<Result<Vec<_>, _>>()?;
    let passages = collection.store.known_passages(&ids, found.unit)?;
    let key = |(index, (passage, id)): (usize, (Option<PassageId>, &DocumentId))| {
        let among = passage.filter(|passage| found.ids.binary_search(&passage.0).is_ok());
        let document = if found.unit == MiningUnit::Document { "document" } else { "document of one passage" };
        let expected = || format!("must be the id of a {document} among the sentences, got {:?}", id.as_str());
        among.map(|passage| passage.0).ok_or_else(|| refuse(index, expected()))
    };
    passages.into_iter().zip(&ids).enumerate().map(key).collect()
}
