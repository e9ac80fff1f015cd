//! Errors of classification.

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClassifyError {
    #[error("{name}: expected {expected}, got {got}")]
    Parameter { name: &'static str, expected: String, got: String },
    /// Parallel lists differ in length, or an embedding has another dimension.
    #[error("{what}: expected {expected} values, got {got}")]
    Length { what: &'static str, expected: usize, got: usize },
    #[error("example {example} has label number {got}, but there are only {labels} labels")]
    Label { example: usize, got: u32, labels: usize },
    #[error("example {example} has label number {label} twice")]
    Repeated { example: usize, label: u32 },
    #[error("the embedding of example {example} is not finite")]
    NotFinite { example: usize },
    #[error("class {class}: its {count} embeddings have no common direction")]
    NoDirection { class: usize, count: usize },
    #[error("training with seed {seed} diverged in epoch {epoch}; a lower learning rate than {learning_rate} may help")]
    Diverged { seed: u64, epoch: usize, learning_rate: f32 },
    #[error("training was stopped before it finished")]
    Stopped,
    #[error("the saved classifier is damaged: {0}")]
    Saved(#[from] SavedError),
}

/// Refuses a temperature that is not a finite number above 0.
pub(super) fn check_temperature(temperature: f32) -> Result<(), ClassifyError> {
    if temperature.is_finite() && temperature > 0.0 {
        return Ok(());
    }
    let expected = "a finite number above 0".to_owned();
    Err(ClassifyError::Parameter { name: "temperature", expected, got: temperature.to_string() })
}

/// The reason why bytes are not a saved classifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SavedError {
    #[error("expected it to begin with DRAGOMLP")]
    Magic,
    #[error("expected format {expected}, got {got}")]
    Version { expected: u32, got: u32 },
    #[error("expected {expected} bytes, got {got}")]
    Length { expected: u64, got: u64 },
    #[error("expected CRC-32 {expected:08x}, got {got:08x}")]
    Checksum { expected: u32, got: u32 },
    #[error("no classifier can have this value of {0}")]
    Value(&'static str),
}
