//! From trained weights to a bundle, without Python: the graph, its quantization, the parity checks, the folder.

pub mod bundle;
pub mod bundle_update;
pub mod calibrate;
pub mod card;
pub mod card_language;
pub mod comparison;
pub mod corpora;
pub mod golden;
pub(crate) mod graph;
pub mod new_bundle;
pub mod onnx;
pub mod origin;
pub mod parity;
pub(crate) mod proto;
pub mod quality;
pub mod quantize;
pub mod questions;
pub mod tokens;
pub mod translations;
pub mod weights;

pub use bundle::{ExportOptions, Exported, export};
pub use calibrate::calibrate;
pub use new_bundle::NewBundle;
pub use onnx::{fp16_graph, fp32_graph, int8_graph};
pub use origin::{Imported, Origin, SourceFile};
pub use weights::{EncoderShape, EncoderWeights, Weight};
