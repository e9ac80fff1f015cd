//! Classification on frozen embeddings: trains on labels in some languages and predicts in all of them. Pure computation on
//! embeddings, scores and label numbers, independent of collections, indexes and jobs.

pub mod calibrate;
pub mod error;
pub mod evaluate;
pub mod evaluate_labels;
pub mod knn;
pub mod labels;
pub mod mlp;
pub mod prototype;
pub(crate) mod random;
pub mod split;

pub use calibrate::{fit_temperature, reliability};
pub use error::ClassifyError;
pub use evaluate::{ClassCounts, evaluate_classes, evaluate_languages, majority};
pub use evaluate_labels::evaluate_labels;
pub use knn::vote;
pub use labels::{LabelNames, TargetKind, Targets};
pub use mlp::{Mlp, Training};
pub use prototype::Prototypes;
pub use split::{Split, strata_of_label_sets, stratified_split};
