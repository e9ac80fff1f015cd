//! Runs an exported graph: token ids in, embeddings out.

use std::path::Path;

use dragoman::evaluation::Embeddings;
use ort::environment::Environment;
use ort::inputs;
use ort::session::Session;
use ort::session::builder::SessionBuilder;
use ort::value::TensorRef;
use parking_lot::Mutex;

use super::encoder::{PaddedBatch, TokenEncoder};
use super::late_interaction::LateInteraction;
use crate::error::Error;

/// The library's name if `ORT_DYLIB_PATH` is not set.
const LIBRARY: &str = "libonnxruntime.so";

/// A loaded graph.
pub struct OnnxEncoder {
    session: Session,
    dimension: usize,
    late_interaction: Option<LateInteraction>,
    questions: Option<Box<OnnxEncoder>>,
}

impl OnnxEncoder {
    /// Loads a graph file to run on `threads` threads of the CPU; 0 means one per core.
    pub fn open(path: &Path, threads: usize) -> Result<Self, Error> {
        Self::commit(threads, |builder| builder.commit_from_file(path))
    }

    /// Like `open`, from the content of a file that contains all of its weights.
    pub fn from_bytes(bytes: &[u8], threads: usize) -> Result<Self, Error> {
        Self::commit(threads, |builder| builder.commit_from_memory(bytes))
    }

    fn commit(threads: usize, load: impl FnOnce(&mut SessionBuilder) -> ort::Result<Session>) -> Result<Self, Error> {
        let builder = Session::builder(&environment()?)?;
        let builder = builder.with_intra_threads(threads).map_err(ort::Error::from)?;
        // Without VNNI, products of unsigned and signed bytes overflow on x86 unless this selects the slower, exact kernels.
        let mut builder = builder.with_precise_qmm().map_err(ort::Error::from)?;
        let session = load(&mut builder)?;
        let output = session.outputs().first().and_then(|output| output.dtype().tensor_shape()?.last().copied());
        let dimension = output.and_then(|width| usize::try_from(width).ok()).ok_or_else(|| Error::Setting {
            setting: "model",
            problem: "the graph's first output has no known width".to_owned(),
        })?;
        Ok(Self { session, dimension, late_interaction: None, questions: None })
    }

    /// Adds the late interaction scorer.
    pub fn with_late_interaction(self, late_interaction: Option<LateInteraction>) -> Self {
        Self { late_interaction, ..self }
    }

    /// Adds the graph for questions.
    pub fn with_questions(self, questions: Option<Self>) -> Self {
        Self { questions: questions.map(Box::new), ..self }
    }

    /// Runs one text and passes every float output with its name to `see`.
    pub fn run_with_observer(&mut self, text: &[u32], mut see: impl FnMut(&str, &[f32])) -> Result<(), Error> {
        let ids: Vec<i64> = text.iter().map(|&id| i64::from(id)).collect();
        let mask = vec![1_i64; ids.len()];
        let ids = TensorRef::from_array_view(([1, ids.len()], ids.as_slice()))?;
        let mask = TensorRef::from_array_view(([1, mask.len()], mask.as_slice()))?;
        let outputs = self.session.run(inputs!["input_ids" => ids, "attention_mask" => mask])?;
        for (name, value) in outputs.iter() {
            see(name, value.try_extract_tensor::<f32>()?.1);
        }
        Ok(())
    }
}

impl TokenEncoder for OnnxEncoder {
    fn dimension(&self) -> usize {
        self.dimension
    }

    fn late_interaction(&self) -> Option<&LateInteraction> {
        self.late_interaction.as_ref()
    }

    fn embed_questions(&mut self, questions: &[Vec<u32>]) -> Result<Embeddings, Error> {
        match &mut self.questions {
            Some(encoder) => encoder.embed(questions),
            None => self.embed(questions),
        }
    }

    fn embed_batch(&mut self, batch: &PaddedBatch) -> Result<Vec<f32>, Error> {
        let shape = [batch.texts, batch.length];
        let ids = TensorRef::from_array_view((shape, batch.ids.as_slice()))?;
        let mask = TensorRef::from_array_view((shape, batch.mask.as_slice()))?;
        let outputs = self.session.run(inputs!["input_ids" => ids, "attention_mask" => mask])?;
        let (_, values) = outputs["sentence_embedding"].try_extract_tensor::<f32>()?;
        Ok(values.to_vec())
    }
}

/// ONNX Runtime's environment; a process can have only one.
fn environment() -> Result<Environment, Error> {
    static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);
    let mut environment = ENVIRONMENT.lock();
    if let Some(environment) = &*environment {
        return Ok(environment.clone());
    }
    let library = std::env::var_os("ORT_DYLIB_PATH").unwrap_or_else(|| LIBRARY.into());
    let load = |error: ort::LoadDynamicError| Error::Content {
        path: library.clone().into(),
        problem: format!("{error}; run `make` to fetch ONNX Runtime, or set ORT_DYLIB_PATH to its path"),
    };
    let built = ort::init_from(&library).map_err(load)?.with_telemetry(false).build()?;
    Ok(environment.insert(built).clone())
}
