//! How an encoder is run, as the operator says.

/// How the encoder is run.
#[derive(Debug, Clone)]
pub struct EmbedOptions {
    /// Where to run: `auto` takes CUDA when it can, `cpu`, or `cuda:n`, which refuses to start without.
    pub device: DeviceChoice,
    /// Threads that encode on the CPU; 0 means one per core. Up to `session::SESSIONS_MAX` of them take a batch each, more share
    /// forward passes.
    pub threads: usize,
    /// Upper bound on texts times longest text in the forward passes that run at once, padding included; an encoder of questions has up to
    /// `QUESTION_BATCH_TOKENS_MAX` of its own beside it. A query may have to wait
    /// for one of these batches of bulk work. On a CPU more than about 2,048 for each makes nothing faster.
    pub batch_tokens_max: usize,
    /// Texts that may wait; more get `EmbedError::QueueFull`.
    pub queue_texts_max: usize,
}

/// The device that the operator asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// CUDA when it can be had, else the CPU, which the log and `/v1/models` then say.
    Auto,
    /// The CPU.
    Cpu,
    /// This CUDA device, or refuse to start.
    Cuda(u32),
}
