//! Plain values that every layer shares, without HTTP, SQL or models. If the API sends a value, or the store saves it as JSON,
//! its form is defined only here.

pub mod boost;
pub mod causes;
pub mod classifier;
pub mod classifier_settings;
pub mod code;
pub mod collection;
mod distinct_json;
pub mod document;
pub mod embedding;
pub mod evaluation;
pub mod filter;
pub mod hexadecimal;
pub mod histogram;
pub mod ids;
pub mod import_export;
pub mod job;
pub mod json;
pub mod key;
pub mod language;
#[cfg(feature = "server")]
pub mod limits;
pub mod metadata;
pub mod mining;
pub mod model;
pub(crate) mod names;
pub mod passages;
mod persisted_filter;
pub mod projection;
pub mod quota_owner;
pub mod relevance;
pub mod request_key;
mod scalar;
pub mod search;
pub mod secret;
pub mod selection;
pub mod settings;
pub mod similarity;
pub mod snapshot;
pub mod sound;
pub mod terms;
pub mod timestamps;

pub use boost::{Boost, BoostBy, Decay, DecayShape};
pub use causes::{chain, panic_text, with_causes};
pub use classifier::{
    Classifier, ClassifierDefinition, ClassifierKind, ClassifierName, ClassifierRecord, ClassifierState, DescribedLabel,
    EvaluationSet, LabelExamples, LabelProbability, LabeledDocuments, LabeledNeighborText, LabeledText, LanguageExamples,
    NewClassifier, PredictItems, PredictOptions, Prediction, TrainingReport, labels_at, normalized_label,
};
pub use classifier_settings::{Activation, KnnSettings, MlpSettings, NeighborWeight};
pub use code::{Code, ErrorClass};
pub use collection::{
    Alias, Collection, CollectionChange, CollectionCounts, CollectionModel, CollectionView, Damage, IndexState, NewCollection,
    NewSource,
};
pub use distinct_json::DistinctJson;
pub use document::{
    Document, DocumentFailure, DocumentHead, DocumentPage, NewDocument, Page, Passage, TITLE_CHARS_MAX, UpsertCounts,
    UpsertedDocument, Wait, check_title,
};
pub use embedding::Embedding;
pub use evaluation::{
    Calibration, CalibrationBin, ConfusionCell, Evaluation, EvaluationScores, LabelEvaluation, LanguageEvaluation, LanguageGap,
    MajorityLabel, TransferGap,
};
pub use filter::{Field, Filter, MetadataPath, Relation, SearchFilter, Test};
pub use hexadecimal::hex;
pub use histogram::{DocumentCount, FacetBucket, FacetStats, HistogramInterval, NumberOrTime, ValueSummary};
pub use ids::{CollectionId, CollectionName, DocumentId, InvalidId, PassageId, Sequence};
pub use import_export::{CellType, ColumnTypes, FileEncoding, FileFormat};
pub use job::{Job, JobDetails, JobFailure, JobFilter, JobId, JobProgress, JobStatus, JobType, JobUnit};
pub use key::{Caller, CreateKeyRequest, Key, KeyId, Scope};
pub use language::{DetectedLanguage, Language, LanguageTagError};
#[cfg(feature = "server")]
pub use limits::Limits;
pub use metadata::{Metadata, MetadataObject};
pub use mining::{DuplicateCluster, MinedSentence, ScoredPair};
pub use model::{Device, DeviceChoice, Embedded, ModelInfo, PassageEmbedding};
pub use passages::{MiningUnit, PassageBounds, PassageContext, PassageSpan, TokenSet};
pub use projection::{Projection, ProjectionCenter, ProjectionRequest, ProjectionSummary};
pub use quota_owner::QuotaOwner;
pub use relevance::RelevanceWeights;
pub use request_key::RequestKey;
pub use scalar::{Scalar, ScalarList};
pub use search::{
    BoostedScore, DenseMethod, ExampleSet, Examples, Fusion, GroupKey, Grouping, Hit, HitParts, HitPassage, HitRanks,
    PassageMark, PreferredLanguage, QueryOptions, RankedScore, SearchMode, SearchModeName, SearchParameters, SearchRequest,
    SearchResults, SearchStatistics, SearchTarget, WordMatching,
};
pub use secret::Secret;
pub use selection::{
    DocumentOrder, DocumentPatch, Facet, FacetRequest, FacetValue, Facets, Precondition, ScrollPage, ScrollPosition,
    ScrollRequest,
};
pub use settings::{HnswSettings, Metric, Quantization};
pub use similarity::{PairSimilarity, SimilarityMatrix};
pub use snapshot::{RestoreRequest, Snapshot, SnapshotClassifier, SnapshotCollection, SnapshotId};
pub use sound::{SOUND_SYMBOLS_MAX, Script, Sound, SoundSymbol};
#[cfg(test)]
pub use terms::ConceptWord;
pub use terms::{
    CountedWord, LastWords, LiteralPart, PassageTerms, QueryTerm, QueryTerms, QueryWord, SearchCondition, TermPhrase,
    WORD_COUNT_BITS, WORD_COUNT_MAX, WORD_KEY_BITS, Word, WordCounts, hash_key, phrase_key,
};
