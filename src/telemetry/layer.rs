//! The type that the layers of the log and of the traces have in common.

use tracing_subscriber::Registry;
use tracing_subscriber::layer::Layer;

/// A layer of any kind, right above the registry of spans.
pub(super) type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;
