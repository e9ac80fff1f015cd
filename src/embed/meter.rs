//! Metrics of the encoder's queue and threads.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

/// Counters and histograms of an embedder since its start. Clones share them.
#[derive(Debug, Clone)]
pub struct EmbedMeter {
    /// Seconds that a text waited until its batch started.
    pub wait_s: Histogram,
    /// Seconds of one forward pass.
    pub batch_s: Histogram,
    /// Number of texts in one forward pass.
    pub batch_texts: Histogram,
    pub texts: Counter,
    /// Number of embedded tokens, without padding.
    pub tokens: Counter,
    /// Number of failed batches.
    pub failures: Counter,
}

impl EmbedMeter {
    pub(super) fn record_batch(&self, texts: usize, tokens: usize, took: Duration) {
        self.batch_s.observe(took.as_secs_f64());
        self.batch_texts.observe(texts as f64);
        self.texts.inc_by(texts as u64);
        self.tokens.inc_by(tokens as u64);
    }
}

impl Default for EmbedMeter {
    fn default() -> Self {
        let seconds = || Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0]);
        Self {
            wait_s: seconds(),
            batch_s: seconds(),
            batch_texts: Histogram::new([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]),
            texts: Counter::default(),
            tokens: Counter::default(),
            failures: Counter::default(),
        }
    }
}
