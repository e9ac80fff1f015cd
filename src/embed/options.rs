//! The operator's settings of an encoder.

use crate::domain::DeviceChoice;

#[derive(Debug, Clone)]
pub struct EmbedOptions {
    /// Where to run: `auto` uses CUDA if available, `cpu` uses the CPU, and `cuda:n` uses that device or refuses to start.
    pub device: DeviceChoice,
    /// Number of CPU threads of the encoder; 0 means one per core. Up to `session::SESSIONS_MAX` threads run one batch each.
    /// Additional threads share these forward passes.
    pub threads: usize,
    /// Maximum tokens in the concurrent forward passes, padding included: the number of texts times the tokens of the longest
    /// one. A question encoder has its own budget of up to `QUESTION_BATCH_TOKENS_MAX` in addition. A query may have to wait
    /// for one such batch of bulk work. On a CPU, more than about 2,048 tokens per session is not faster.
    pub batch_tokens_max: usize,
    /// Maximum number of waiting texts. Beyond it, callers get `EmbedError::QueueFull`.
    pub queue_texts_max: usize,
}
