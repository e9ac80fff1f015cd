//! Errors of classification.

/// An error of a classifier.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClassifyError {
    /// A setting outside of its bounds.
    #[error("{name}: expected {expected}, got {got}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// Its bounds, in words.
        expected: String,
        /// What was given, in words.
        got: String,
    },
    /// Lists that belong together differ in length, or an embedding has another dimension.
    #[error("{what}: expected {expected} values, got {got}")]
    Length {
        /// What was counted.
        what: &'static str,
        /// How many there must be.
        expected: usize,
        /// How many there are.
        got: usize,
    },
    /// A label that the classifier does not have.
    #[error("example {example} has label number {got}, but there are only {labels} labels")]
    Label {
        /// The number of the example, from 0.
        example: usize,
        /// Its label.
        got: u32,
        /// How many labels there are.
        labels: usize,
    },
    /// A label that an example has twice.
    #[error("example {example} has label number {label} twice")]
    Repeated {
        /// The number of the example, from 0.
        example: usize,
        /// The label.
        label: u32,
    },
    /// An embedding that holds NaN or infinity.
    #[error("the embedding of example {example} is not finite")]
    NotFinite {
        /// The number of the example, from 0.
        example: usize,
    },
    /// Embeddings of a class that cancel each other out.
    #[error("class {class}: its {count} embeddings have no common direction")]
    NoDirection {
        /// The number of the class.
        class: usize,
        /// How many embeddings it has.
        count: usize,
    },
    /// The loss became NaN or infinite.
    #[error("training with seed {seed} diverged in epoch {epoch}; a lower learning rate than {learning_rate} may help")]
    Diverged {
        /// The run's.
        seed: u64,
        /// From 0.
        epoch: usize,
        /// As asked for.
        learning_rate: f32,
    },
    /// The caller stopped the training.
    #[error("training was stopped before it finished")]
    Stopped,
    /// Bytes that are not a saved classifier.
    #[error("the saved classifier is damaged: {0}")]
    Saved(#[from] SavedError),
}

/// Why bytes are not a saved classifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SavedError {
    /// They begin with something else.
    #[error("expected it to begin with DRAGOMLP")]
    Magic,
    /// They were written by another version of the program.
    #[error("expected format {expected}, got {got}")]
    Version {
        /// What this program reads.
        expected: u32,
        /// What the bytes say.
        got: u32,
    },
    /// They are cut short, or longer than their header says.
    #[error("expected {expected} bytes, got {got}")]
    Length {
        /// By the header.
        expected: u64,
        /// Given.
        got: u64,
    },
    /// They were changed.
    #[error("expected CRC-32 {expected:08x}, got {got:08x}")]
    Checksum {
        /// As saved.
        expected: u32,
        /// Of the bytes.
        got: u32,
    },
    /// A value that no classifier has.
    #[error("no classifier can have this value of {0}")]
    Value(&'static str),
}
