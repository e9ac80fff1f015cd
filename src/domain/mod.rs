//! Plain values that every layer speaks in. Nothing here knows HTTP, SQL, a model or a wire format.

pub mod code;
pub mod collection;
pub mod document;
pub mod embedding;
pub mod ids;
pub mod language;
pub mod limits;
pub mod model;
pub mod search;

pub use code::{Blame, Code};
pub use collection::{Collection, CollectionCounts, CollectionView, IndexState, Metric, NewCollection};
pub use document::{Document, DocumentPage, Metadata, NewDocument, Page, Passage, UpsertOutcome, UpsertStatus, Wait};
pub use embedding::Embedding;
pub use ids::{CollectionId, CollectionName, DocumentId, InvalidId, PassageId, Sequence};
pub use language::{DetectedLanguage, Language};
pub use limits::Limits;
pub use model::{Device, Embedded, ModelInfo};
pub use search::{Equals, Hit, HitPassage, Scalar, SearchAnswer, SearchRequest};
