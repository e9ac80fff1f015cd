//! Evaluates an encoder (a run's weights in libtorch, or an exported graph: `encoder`), its speed, and its language head.
//!
//! The tasks and their file formats are the server's (`dragoman::evaluation`), so `dragoman eval`, which measures a server, gives
//! the same numbers.

pub mod encoder;
pub mod language;
pub mod language_baselines;
pub mod late_interaction;
pub mod session;
pub mod speed;
pub mod torch;
pub mod without_diacritics;

pub use dragoman::evaluation::{
    Embeddings, EvaluationError, Report, SentenceEncoder, candidates, classification, flores, measure, mining, passages,
    retrieval, short, sts, tatoeba,
};
pub use encoder::{PaddedBatch, TextEncoder, TokenEncoder};
pub use late_interaction::LateInteraction;
pub use session::OnnxEncoder;
pub use speed::Speed;
pub use torch::TorchEncoder;
pub use without_diacritics::WithoutDiacritics;
