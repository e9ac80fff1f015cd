//! Runs a test on both engines, and builds the test data.

use std::ops::Deref;

use dragoman::domain::{
    Collection, CollectionId, CollectionName, DocumentPatch, Embedding, Field, Filter, HnswSettings, Language, Limits, Metric,
    PassageEmbedding, PassageId, PassageTerms, Precondition, Quantization, Scalar, Sequence, Test, TokenSet, WordCounts,
};
use dragoman::index::{Index, IndexParameters};
use dragoman::storage::{Embedded, Postgres, Storage};
use dragoman::store::{
    Change, Clock, DocumentStore, PendingPassage, PreparedDocument, SearchFilter, StoreOptions, TermsOf, Upserted, system_clock,
};
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::postgres_server::Database;
pub use crate::stored::{cut, document, embedding, id, keys, language};

/// Values per embedding, unless a test overrides it.
pub const DIMENSION: usize = 3;
/// Writes that may wait in the queue.
pub const WRITES_MAX: usize = 8;

/// Turns each function into one test per engine.
macro_rules! over_both_engines {
    ($($(#[doc = $about:literal])* fn $name:ident($engine:ident) $body:block)*) => {
        $($(#[doc = $about])* fn $name($engine: &crate::contract::Engine) $body)*

        mod embedded {
            $(#[test] fn $name() { super::$name(&crate::contract::Engine::embedded()) })*
        }

        mod postgres {
            $(#[test] fn $name() { super::$name(&crate::contract::Engine::postgres()) })*
        }
    };
}
pub(crate) use over_both_engines;

/// An engine with an empty collection.
pub enum Engine {
    /// The embedded engine, how far its index has caught up, and its folder.
    Embedded(Box<Embedded>, Mutex<(Sequence, TempDir)>),
    /// The engine on a database server.
    Postgres(Box<Postgres>),
}

impl Engine {
    /// Creates the embedded engine.
    pub fn embedded() -> Self {
        Self::embedded_of(&collection(DIMENSION, Metric::Cosine))
    }

    /// Creates both engines with this clock.
    pub fn both_at(clock: Clock) -> [Self; 2] {
        let row = collection(DIMENSION, Metric::Cosine);
        let postgres = Postgres::open(&Database::shared().1, &row, terms_of(), WRITES_MAX).unwrap();
        [Self::embedded_at(&row, clock), Self::Postgres(Box::new(postgres.with_clock(clock)))]
    }

    /// Creates the embedded engine for this collection.
    pub fn embedded_of(row: &Collection) -> Self {
        Self::embedded_at(row, system_clock)
    }

    fn embedded_at(row: &Collection, clock: Clock) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options =
            StoreOptions { power_safe: false, write_queue_max: WRITES_MAX, readers_max: 4, terms_of: terms_of(), slots: None };
        let store = DocumentStore::open_with_clock(folder.path(), &options, clock).unwrap();
        let engine = Embedded::new(row, store);
        let parameters = IndexParameters { hnsw: row.hnsw, ..IndexParameters::new(row.dimension, row.metric, row.quantization) };
        engine.install(Index::create(&parameters).unwrap());
        engine.end_recovery();
        Self::Embedded(Box::new(engine), Mutex::new((Sequence(0), folder)))
    }

    /// Creates the engine on a database server.
    pub fn postgres() -> Self {
        Self::postgres_of(&collection(DIMENSION, Metric::Cosine))
    }

    /// Creates the engine for this collection on a database server.
    pub fn postgres_of(row: &Collection) -> Self {
        Self::Postgres(Box::new(Postgres::open(&Database::shared().1, row, terms_of(), WRITES_MAX).unwrap()))
    }

    /// The engine's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Embedded(..) => "embedded",
            Self::Postgres(_) => "postgres",
        }
    }

    /// Brings an index that lags behind up to date; otherwise does nothing.
    pub fn catch_up_index(&self) {
        let Self::Embedded(engine, applied) = self else { return };
        let mut applied = applied.lock();
        let (index, _) = engine.index().unwrap();
        for (sequence, change) in engine.store.changes(applied.0, usize::MAX).unwrap() {
            match change {
                Change::Embedded(passage, embedding) => index.add(passage, &embedding).unwrap(),
                Change::Removed(passage) => drop(index.remove(passage).unwrap()),
            }
            applied.0 = sequence;
        }
    }

    /// Stores one document.
    pub fn put(&self, document: PreparedDocument) -> Upserted {
        self.upsert_if(vec![document], Precondition::None).unwrap().remove(0)
    }

    /// Embeds waiting passages, each with a different embedding.
    pub fn embed(&self, pending: &[PendingPassage]) -> Vec<(PassageId, Embedding)> {
        let embeddings = pending.iter().map(|passage| (passage.id, embedded(passage.id))).collect();
        self.set_embeddings(embeddings).unwrap()
    }
}

impl Deref for Engine {
    type Target = dyn Storage;

    fn deref(&self) -> &(dyn Storage + 'static) {
        match self {
            Self::Embedded(engine, ..) => &**engine,
            Self::Postgres(engine) => &**engine,
        }
    }
}

/// A collection whose vectors the caller supplies.
pub fn collection(dimension: usize, metric: Metric) -> Collection {
    Collection {
        id: CollectionId(uuid::Uuid::now_v7().to_string()),
        name: CollectionName::parse("texts").unwrap(),
        description: None,
        model: None,
        dimension,
        metric,
        quantization: Quantization::usual(metric),
        hnsw: HnswSettings::default(),
        passages: None,
        default_languages: Vec::new(),
        created_at_ms: 0,
    }
}

/// Computes the terms of passages with `terms`.
pub fn terms_of() -> TermsOf {
    TermsOf::new(terms)
}

/// The words of a text as spelled, and without accents where they differ, and the number of words.
fn terms(text: &str, language: Option<Language>) -> PassageTerms {
    let folded = text.replace(['é', 'è'], "e");
    let stem = language.map(|language| format!(" in{}", language.code())).unwrap_or_default();
    let folded = if folded == text { stem } else { folded + &stem };
    let plain = WordCounts::from_words(text.split(' ').map(|word| word.len() as u32));
    PassageTerms { words: text.to_owned(), folded, plain }
}

/// The embedding of a passage, with tokens.
pub fn embedded(passage: PassageId) -> PassageEmbedding {
    PassageEmbedding { embedding: embedding(passage.0 as f32), tokens: TokenSet::from_ids(&[passage.0 as u32, 7]) }
}

/// A metadata patch.
pub fn patch(metadata: serde_json::Value) -> DocumentPatch {
    let limits = Limits { metadata_bytes_max: 1_000, metadata_depth_max: 3, ..Limits::default() };
    limits.metadata_patch(metadata.as_object().unwrap().clone())
}

/// A clock that stands at `$now`, milliseconds since the Unix epoch.
macro_rules! clock {
    ($now:ident, $clock:ident) => {
        static $now: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(0);
        fn $clock() -> i64 {
            $now.load(std::sync::atomic::Ordering::SeqCst)
        }
    };
}
pub(crate) use clock;

/// Adds metadata to a document.
pub fn with(document: PreparedDocument, metadata: serde_json::Value) -> PreparedDocument {
    PreparedDocument { metadata: metadata.as_object().unwrap().clone(), ..document }
}

/// A filter that requires a value.
pub fn equals(field: &str, value: Scalar) -> SearchFilter {
    SearchFilter { languages: Vec::new(), filter: Filter::Field(Field::parse(field).unwrap(), Test::Eq(value)) }
}
