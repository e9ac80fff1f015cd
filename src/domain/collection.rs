//! A collection: documents that share a model and an index.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    CollectionId, CollectionName, DocumentId, Embedding, HnswSettings, Language, MetadataPath, Metric, ModelInfo, PassageBounds,
    Quantization,
};

/// A collection to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCollection {
    /// The name.
    pub name: CollectionName,
    /// The caller's description, free text.
    pub description: Option<String>,
    /// Where its embeddings come from.
    pub source: NewSource,
    /// The metric.
    pub metric: Metric,
    /// The quantization.
    pub quantization: Quantization,
    /// Parameters of the index.
    pub hnsw: HnswSettings,
    /// How its texts are split; `None` means into passages as long as the model reads in full, without overlap. Ignored without
    /// a model.
    pub passages: Option<PassageBounds>,
    /// The languages of a search that does not name any; empty means all.
    pub default_languages: Vec<Language>,
    /// Metadata paths to index.
    pub metadata_indexes: Vec<MetadataPath>,
}

/// Where the embeddings of a new collection come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewSource {
    /// From the model with this name; `None` means the loaded one.
    Model(Option<String>),
    /// From the caller, who sends vectors of this dimension.
    OwnVectors(usize),
}

impl NewCollection {
    /// A collection of texts, embedded by the loaded model, with default settings.
    pub fn new(name: CollectionName) -> Self {
        Self {
            name,
            description: None,
            source: NewSource::Model(None),
            metric: Metric::default(),
            quantization: Quantization::usual(Metric::default()),
            hnsw: HnswSettings::default(),
            passages: None,
            default_languages: Vec::new(),
            metadata_indexes: Vec::new(),
        }
    }
}

/// Changes to a collection; `None` keeps a setting.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CollectionChange {
    /// The description; an empty one removes it.
    pub description: Option<String>,
    /// Candidates considered while searching.
    pub ef_search: Option<usize>,
    /// The languages of a search that does not name any; empty means all.
    pub default_languages: Option<Vec<Language>>,
    /// The indexed metadata paths, which the collection's database stores.
    pub metadata_indexes: Option<Vec<MetadataPath>>,
}

/// Another name of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = AliasInfo)]
pub struct Alias {
    /// The alias.
    #[serde(rename = "alias")]
    #[schema(value_type = String)]
    pub name: CollectionName,
    /// The name of the collection that it points to.
    #[schema(value_type = String)]
    pub collection: CollectionName,
}

/// The model that made a collection's embeddings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionModel {
    /// Its name.
    pub name: String,
    /// Its fingerprint; embeddings with another fingerprint are never stored.
    pub fingerprint: String,
}

impl From<&ModelInfo> for CollectionModel {
    fn from(model: &ModelInfo) -> Self {
        Self { name: model.name.clone(), fingerprint: model.fingerprint.clone() }
    }
}

/// As errors name it: with the first digits of its fingerprint.
impl fmt::Display for CollectionModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (fingerprint {:.12})", self.name, self.fingerprint)
    }
}

/// A collection as stored in the catalog.
#[derive(Debug, Clone, PartialEq)]
pub struct Collection {
    /// Stable id, which names its folder.
    pub id: CollectionId,
    /// The name.
    pub name: CollectionName,
    /// The caller's description.
    pub description: Option<String>,
    /// The model that embeds its texts; `None` if the caller sends vectors.
    pub model: Option<CollectionModel>,
    /// Values per embedding.
    pub dimension: usize,
    /// The metric.
    pub metric: Metric,
    /// The quantization.
    pub quantization: Quantization,
    /// Parameters of the index.
    pub hnsw: HnswSettings,
    /// How its texts are split. `None` without a model. Also `None` if the collection is older than this setting and another
    /// model is loaded; then it cannot be written.
    pub passages: Option<PassageBounds>,
    /// The languages of a search that does not name any; empty means all.
    pub default_languages: Vec<Language>,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
}

/// The contents of a collection.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CollectionCounts {
    /// Number of documents.
    pub documents: u64,
    /// Number of passages of all documents.
    pub passages: u64,
    /// Number of passages that are not searchable yet.
    pub passages_pending: u64,
    /// Documents per language, most documents first; `None` stands for documents without a recognized language.
    pub languages: Vec<(Option<Language>, u64)>,
    /// Bytes of the database, its write-ahead log and the index on disk.
    pub disk_bytes: u64,
    /// Whether its texts may have been split into passages by older rules.
    pub cut_by_older_rules: bool,
}

/// `ready`: searches find everything that is stored. `recovering`: the server is still loading the collection after a start.
/// `damaged`: the database cannot be opened, so nothing can be read, and the counts are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = IndexStateName)]
pub enum IndexState {
    /// Searches find everything acknowledged with `wait=indexed`.
    Ready,
    /// After a start, the index is still catching up with the database.
    Recovering,
    /// The database or its index is damaged.
    Damaged,
}

/// Damage to a collection's database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = DamagedPlace)]
pub struct Damage {
    /// The damaged document: replace or delete it to repair the damage. Omitted if the damage is not in one document, or if its
    /// id cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub document: Option<DocumentId>,
    /// What is wrong, and where.
    pub problem: String,
}

/// A collection with its contents.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionView {
    /// The catalog's row.
    pub collection: Collection,
    /// Its contents.
    pub counts: CollectionCounts,
    /// Whether it can be searched in full.
    pub index_state: IndexState,
    /// Indexed metadata paths.
    pub metadata_indexes: Vec<MetadataPath>,
    /// Damage found since the server started.
    pub damage: Vec<Damage>,
}

impl Collection {
    /// Applies the changes that the catalog's row stores.
    pub fn change(&mut self, change: CollectionChange) {
        let CollectionChange { description, ef_search, default_languages, metadata_indexes: _ } = change;
        if let Some(description) = description {
            self.description = Some(description).filter(|text| !text.is_empty());
        }
        self.hnsw.ef_search = ef_search.unwrap_or(self.hnsw.ef_search);
        if let Some(languages) = default_languages {
            self.default_languages = languages;
        }
    }

    /// Makes an embedding from computed values, scaled as the metric requires; `None` if the metric needs a direction and they
    /// have none.
    pub fn scale_embedding(&self, values: Vec<f32>) -> Option<Embedding> {
        match self.metric {
            Metric::Cosine => Embedding::normalized(values),
            Metric::Dot | Metric::L2 => Embedding::unscaled(values),
        }
    }

    /// Checks that a document has a vector of the right dimension in a collection without a model, and none in others. `values`
    /// is the length of its vector. The error says what was expected and what was given.
    pub fn check_vector_dimension(&self, values: Option<usize>) -> Result<(), String> {
        let expected = self.dimension;
        match (&self.model, values) {
            (None, None) => {
                Err(format!("must be given, because the collection has no model: expected {expected} values, got none"))
            }
            (Some(model), Some(got)) => {
                Err(format!("must be left out, because the collection embeds texts with {}, got {got} values", model.name))
            }
            (None, Some(got)) if got != expected => Err(format!("must have {expected} values, got {got}")),
            (None, Some(_)) | (Some(_), None) => Ok(()),
        }
    }

    /// Checks a caller's vector, for a document or as a query, and scales it as the metric requires. The error says what was
    /// expected and what was given.
    pub fn prepare_vector(&self, values: Vec<f32>) -> Result<Embedding, String> {
        let (expected, got) = (self.dimension, values.len());
        if expected != got {
            return Err(format!("must have {expected} values, got {got}"));
        }
        if let Some(position) = values.iter().position(|value| !value.is_finite()) {
            return Err(format!(
                "must have finite numbers within the range of 32-bit floats; the one at position {position} is not"
            ));
        }
        let max = self.quantization.value_max();
        let too_large = values.iter().find(|value| value.abs() > max);
        if let Some(value) = too_large.filter(|_| self.metric != Metric::Cosine) {
            let quantization = self.quantization.name();
            return Err(format!("must have numbers from {} to {max} for the quantization {quantization}, got {value}", -max));
        }
        self.scale_embedding(values).ok_or_else(|| "must not be all zeros: the metric cosine needs a direction".to_owned())
    }
}
