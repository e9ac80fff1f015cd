//! The bare ONNX session that the benchmarks compare with.

use dragoman::bundle::{Bundle, MODEL_INT8};
use dragoman::domain::DeviceChoice;
use dragoman::embed::{EmbedOptions, session};
use dragoman::text::Tokens;
use ort::session::Session;
use ort::value::TensorRef;

/// The configuration of both sides.
pub fn options(threads: usize) -> EmbedOptions {
    EmbedOptions { device: DeviceChoice::Cpu, threads, batch_tokens_max: 2_048, queue_texts_max: 20_000 }
}

/// Loads the int8 weights as the server does.
pub fn bare(bundle: &Bundle, threads: usize) -> Session {
    let environment = session::environment().expect("ONNX Runtime loads");
    session::cpu_session(&environment, &bundle.path(MODEL_INT8), &options(threads), threads).expect("the weights load")
}

/// Runs one batch, padded to its longest text.
pub fn run(session: &mut Session, batch: &[Tokens]) {
    let longest = batch.iter().map(|text| text.ids.len()).max().unwrap_or(0);
    let (mut ids, mut mask) = (vec![0i64; batch.len() * longest], vec![0i64; batch.len() * longest]);
    for (row, text) in batch.iter().enumerate() {
        for (column, id) in text.ids.iter().enumerate() {
            ids[row * longest + column] = i64::from(*id);
            mask[row * longest + column] = 1;
        }
    }
    let shape = [batch.len(), longest];
    let ids = TensorRef::from_array_view((shape, ids.as_slice())).expect("a tensor");
    let mask = TensorRef::from_array_view((shape, mask.as_slice())).expect("a tensor");
    let outputs = session.run(ort::inputs!["input_ids" => ids, "attention_mask" => mask]).expect("the session runs");
    let (_, values) = outputs["sentence_embedding"].try_extract_tensor::<f32>().expect("an embedding");
    std::hint::black_box(values);
}
