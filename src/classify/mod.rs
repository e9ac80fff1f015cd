//! Classification on frozen embeddings: learns from labels in some languages, predicts in all of them. Pure computation: takes
//! embeddings, scores and numbers of labels; knows no collection, no index and no job.

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

pub use calibrate::{Reliability, TemperatureFit, fit_temperature, reliability};
pub use error::ClassifyError;
pub use evaluate::{ClassCounts, ClassReport, Confusion, LanguageReport, evaluate_classes, evaluate_languages, majority};
pub use evaluate_labels::{LabelReport, evaluate_labels};
pub use knn::{LabeledNeighbor, VoteRule, VoteWeight, Votes, vote};
pub use labels::{Answer, LabelNames, Targets};
pub use mlp::{Mlp, Training};
pub use prototype::Prototypes;
pub use split::{Split, strata_of_label_sets, stratified_split};
