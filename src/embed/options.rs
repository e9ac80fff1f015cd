//! The operator's settings of an encoder.

/// How to run the encoder.
#[derive(Debug, Clone)]
pub struct EmbedOptions {
    /// Where to run: `auto` uses CUDA if available, `cpu`, or `cuda:n`, which refuses to start without it.
    pub device: DeviceChoice,
    /// CPU threads of the encoder; 0 means one per core. Up to `session::SESSIONS_MAX` of them take one batch each; more of them
    /// share forward passes.
    pub threads: usize,
    /// Upper bound on texts times longest text in the concurrent forward passes, padding included; a question encoder has up to
    /// `QUESTION_BATCH_TOKENS_MAX` of its own beside it. A query may have to wait
    /// for one of these batches of bulk work. On a CPU, more than about 2,048 per session is not faster.
    pub batch_tokens_max: usize,
    /// Texts that may wait; more get `EmbedError::QueueFull`.
    pub queue_texts_max: usize,
}

/// The device that the operator requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// CUDA if available, otherwise the CPU, which the log and `/v1/models` then say.
    Auto,
    /// The CPU.
    Cpu,
    /// This CUDA device; refuses to start without it.
    Cuda(u32),
}
