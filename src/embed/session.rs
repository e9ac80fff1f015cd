//! ONNX Runtime: loads the library and the weights, and runs batches.
//!
//! The library is loaded at run time instead of linked, so that the same program runs with a CPU or a CUDA build of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ort::environment::Environment;
use ort::ep::{CPU, CUDA, ExecutionProvider as _};
use ort::logging::LogLevel;
use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;
use ort::value::{Outlet, TensorElementType, TensorRef, ValueType};
use parking_lot::Mutex;

use super::queue::Encode;
use super::weights::Weights;
use super::{EmbedError, EmbedOptions};
use crate::bundle::{Bundle, MODEL_FP16, MODEL_INT8, QUESTIONS_FP16, QUESTIONS_INT8};
use crate::domain::{Device, DeviceChoice, Embedding, chain};
use crate::text::Tokens;

const INPUT_IDS: &str = "input_ids";
const ATTENTION_MASK: &str = "attention_mask";
const SENTENCE_EMBEDDING: &str = "sentence_embedding";

/// Up to this batch budget, a CPU session allocates from an arena. The arena saves a sixth of a batch's time, but keeps the
/// memory that the largest batch needed: about 40 kB per token for a 384-wide encoder. With a larger budget, the session has no
/// arena and returns memory after each batch.
const ARENA_BATCH_TOKENS_MAX: usize = 4_096;

/// Number of tokens of the text that warms up a session, so that the session allocates what a typical query needs.
const WARM_UP_TOKENS: usize = 20;

/// Maximum number of CPU sessions. Each has a copy of the weights.
pub const SESSIONS_MAX: usize = 4;

/// Sessions ready to encode, and where they run.
pub struct Opened {
    /// The encoders, at least one.
    pub encoders: Vec<OnnxEncoder>,
    /// The question encoder, if the bundle has one.
    pub questions: Option<OnnxEncoder>,
    pub device: Device,
    /// Why the sessions do not run on CUDA, if the options allow CUDA.
    pub note: Option<String>,
}

/// One ONNX session with the buffers of its inputs.
pub struct OnnxEncoder {
    session: Session,
    dimension: usize,
    ids: Vec<i64>,
    mask: Vec<i64>,
}

/// Opens the bundle's weights on the device that `options` request, checks their inputs and outputs, and runs them once.
pub fn open(bundle: &Bundle, options: &EmbedOptions) -> Result<Opened, EmbedError> {
    let environment = environment()?;
    match options.device {
        DeviceChoice::Cpu => open_cpu(&environment, bundle, options, None),
        DeviceChoice::Cuda(device) => {
            open_cuda(&environment, bundle, device).map_err(|reason| EmbedError::Device { device, reason })
        }
        DeviceChoice::Auto => match open_cuda(&environment, bundle, 0) {
            Ok(opened) => Ok(opened),
            Err(reason) => {
                tracing::info!(reason, "not using CUDA");
                open_cpu(&environment, bundle, options, Some(format!("not on CUDA: {reason}")))
            }
        },
    }
}

/// Returns ONNX Runtime's environment. The first call loads the library. A process can have only one environment, and keeps it
/// until the process ends.
pub fn environment() -> Result<Environment, EmbedError> {
    static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);
    let mut environment = ENVIRONMENT.lock();
    if let Some(environment) = environment.as_ref() {
        return Ok(environment.clone());
    }
    let executable = std::env::current_exe().ok();
    let beside = executable.as_deref().and_then(Path::parent);
    let made = load_library(&library_path(std::env::var_os("ORT_DYLIB_PATH"), beside))?;
    Ok(environment.insert(made).clone())
}

/// Opens a weights file on the CPU, with this many threads per forward pass. It is public for the benchmarks, which compare the
/// queue with the bare session.
pub fn cpu_session(
    environment: &Environment,
    weights: &Path,
    options: &EmbedOptions,
    threads: usize,
) -> Result<Session, EmbedError> {
    let build = || {
        Session::builder(environment)?
            .with_optimization_level(GraphOptimizationLevel::All)?
            .with_intra_threads(threads)?
            // Spinning threads are slightly faster on an idle machine, but take the cores from everything else on a busy one.
            .with_intra_op_spinning(false)?
            // ONNX Runtime keeps memory patterns per input shape, but the shape differs from batch to batch.
            .with_memory_pattern(false)?
            // Processors without VNNI add up products of unsigned and signed bytes in 16 bits, which may overflow.
            .with_precise_qmm()?
            .with_execution_providers([CPU::default()
                .with_arena_allocator(options.batch_tokens_max <= ARENA_BATCH_TOKENS_MAX)
                .build()])?
            .commit_from_file(weights)
    };
    build().map_err(|error: ort::Error| EmbedError::Model { path: weights.to_owned(), source: Arc::new(error) })
}

impl OnnxEncoder {
    /// Wraps a session after checking that it has a bundle encoder's inputs and output.
    pub fn new(session: Session, dimension: usize) -> Result<Self, EmbedError> {
        check_tensor("input", session.inputs(), INPUT_IDS, TensorElementType::Int64, None)?;
        check_tensor("input", session.inputs(), ATTENTION_MASK, TensorElementType::Int64, None)?;
        check_tensor("output", session.outputs(), SENTENCE_EMBEDDING, TensorElementType::Float32, Some(dimension))?;
        if session.inputs().len() > 2 {
            let got = format!("{} inputs", session.inputs().len());
            return Err(EmbedError::Contract { expected: "2 inputs".to_owned(), got });
        }
        let mut encoder = Self { session, dimension, ids: Vec::new(), mask: Vec::new() };
        encoder.encode(&[Tokens { ids: vec![0; WARM_UP_TOKENS], truncated: false }])?;
        Ok(encoder)
    }

    /// Fills the input buffers and returns the numbers of rows and columns. Padding has id 0 and is masked.
    fn fill(&mut self, batch: &[Tokens]) -> (usize, usize) {
        let longest = batch.iter().map(|text| text.ids.len()).max().unwrap_or(0);
        self.ids.clear();
        self.mask.clear();
        for text in batch {
            let padding = longest - text.ids.len();
            self.ids.extend(text.ids.iter().map(|&id| i64::from(id)));
            self.ids.extend(std::iter::repeat_n(0, padding));
            self.mask.extend(std::iter::repeat_n(1, text.ids.len()));
            self.mask.extend(std::iter::repeat_n(0, padding));
        }
        (batch.len(), longest)
    }
}

impl Encode for OnnxEncoder {
    fn encode(&mut self, batch: &[Tokens]) -> Result<Vec<Option<Embedding>>, EmbedError> {
        let (rows, columns) = self.fill(batch);
        let failed = |error: ort::Error| EmbedError::Forward { texts: rows, source: Arc::new(error) };
        let ids = TensorRef::from_array_view(([rows, columns], self.ids.as_slice())).map_err(failed)?;
        let mask = TensorRef::from_array_view(([rows, columns], self.mask.as_slice())).map_err(failed)?;
        let outputs = self.session.run(ort::inputs![INPUT_IDS => ids, ATTENTION_MASK => mask]).map_err(failed)?;
        let (shape, values) = outputs[SENTENCE_EMBEDDING].try_extract_tensor::<f32>().map_err(failed)?;
        if **shape != [rows as i64, self.dimension as i64] {
            let expected = format!("an output of shape [{rows}, {}]", self.dimension);
            return Err(EmbedError::Contract { expected, got: format!("one of shape {shape}") });
        }
        Ok(values.chunks_exact(self.dimension).map(|row| Embedding::normalized(row.to_vec())).collect())
    }
}

fn open_cpu(
    environment: &Environment,
    bundle: &Bundle,
    options: &EmbedOptions,
    note: Option<String>,
) -> Result<Opened, EmbedError> {
    let weights = Weights::copy(bundle, &[MODEL_INT8, QUESTIONS_INT8])?;
    let open_file = |path: &Path, threads: usize| {
        OnnxEncoder::new(cpu_session(environment, path, options, threads)?, bundle.manifest.dimension)
    };
    let open = |threads: usize| open_file(&weights.path(MODEL_INT8), threads);
    // Each session's share of the budget must hold the longest text; otherwise the concurrent batches would exceed the budget.
    let sessions_max = options.batch_tokens_max / bundle.manifest.tokens_max.max(1);
    let encoders = threads_of_sessions(options.threads, sessions_max).into_iter().map(open).collect::<Result<_, _>>()?;
    // Queries are short, so one core embeds them faster than searches can use them.
    let questions = weights.optional(QUESTIONS_INT8).map(|path| open_file(&path, 1)).transpose()?;
    Ok(Opened { encoders, questions, device: Device::Cpu, note })
}

/// Returns the number of threads of each session. A batch on its own thread does not wait for other threads after each
/// operation. So several small sessions do more work than one wide session, most of all while other work takes some of the
/// cores.
fn threads_of_sessions(threads: usize, sessions_max: usize) -> Vec<usize> {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let sessions = threads.min(SESSIONS_MAX).min(sessions_max).max(1);
    (0..sessions).map(|number| (threads + number) / sessions).collect()
}

/// Opens the fp16 weights on a CUDA device, or explains why that does not work.
fn open_cuda(environment: &Environment, bundle: &Bundle, device: u32) -> Result<Opened, String> {
    if !bundle.manifest.files.contains_key(MODEL_FP16) {
        return Err(format!("the bundle has no {MODEL_FP16}"));
    }
    if !CUDA::is_available().unwrap_or(false) {
        return Err("this ONNX Runtime was built without CUDA".to_owned());
    }
    let weights = Weights::copy(bundle, &[MODEL_FP16, QUESTIONS_FP16]).map_err(|error| chain(&error))?;
    let number = i32::try_from(device).map_err(|_| format!("there is no device {device}"))?;
    let build = |path: PathBuf| {
        Session::builder(environment)?
            .with_optimization_level(GraphOptimizationLevel::All)?
            .with_memory_pattern(false)?
            .with_execution_providers([CUDA::default().with_device_id(number).build().error_on_failure()])?
            .commit_from_file(path)
    };
    let open = |path: PathBuf| {
        let session = build(path).map_err(|error: ort::Error| error.to_string())?;
        // An incompatible driver only fails at the first run.
        OnnxEncoder::new(session, bundle.manifest.dimension).map_err(|error| chain(&error))
    };
    let questions = weights.optional(QUESTIONS_FP16).map(open).transpose()?;
    Ok(Opened { encoders: vec![open(weights.path(MODEL_FP16))?], questions, device: Device::Cuda(device), note: None })
}

/// Returns the path of the library: the operator's path, or a file next to the program, or the bare name, which the system's
/// loader looks up.
fn library_path(from_environment: Option<OsString>, beside: Option<&Path>) -> PathBuf {
    let name = format!("{}onnxruntime{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    if let Some(path) = from_environment.filter(|path| !path.is_empty()) {
        return PathBuf::from(path);
    }
    beside.map(|folder| folder.join(&name)).filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(name))
}

fn load_library(path: &Path) -> Result<Environment, EmbedError> {
    let failed = |source| EmbedError::Library { path: path.to_owned(), source };
    if path.is_absolute() && !path.is_file() {
        return Err(failed(Arc::new(std::io::Error::from(std::io::ErrorKind::NotFound))));
    }
    let builder = ort::init_from(path).map_err(|error| failed(Arc::new(error)))?;
    let environment = builder.with_name("dragoman").with_telemetry(false).build().map_err(|error| failed(Arc::new(error)))?;
    // Below this level, ONNX Runtime formats a line for every node, which the log would then filter out.
    environment.set_log_level(LogLevel::Warning);
    Ok(environment)
}

fn check_tensor(
    kind: &str,
    outlets: &[Outlet],
    name: &str,
    element: TensorElementType,
    columns: Option<usize>,
) -> Result<(), EmbedError> {
    let columns_text = columns.map_or_else(|| "length".to_owned(), |columns| columns.to_string());
    let expected = format!("an {kind} {name}: {element} [batch, {columns_text}]");
    let Some(outlet) = outlets.iter().find(|outlet| outlet.name() == name) else {
        let names: Vec<&str> = outlets.iter().map(Outlet::name).collect();
        return Err(EmbedError::Contract { expected, got: format!("the {kind}s {names:?}") });
    };
    let fits = match outlet.dtype() {
        // -1 stands for a size that differs from run to run. `encode` checks the actual shape of the output.
        ValueType::Tensor { ty, shape, .. } => {
            let columns_fit = |columns: usize| shape.get(1).is_some_and(|&size| size == -1 || size == columns as i64);
            *ty == element && shape.len() == 2 && columns.is_none_or(columns_fit)
        }
        _ => false,
    };
    if fits { Ok(()) } else { Err(EmbedError::Contract { expected, got: format!("{name}: {}", outlet.dtype()) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configured_library_path_overrides_the_bundled_library() {
        let folder = tempfile::tempdir().unwrap();
        let beside = folder.path().join("libonnxruntime.so");
        std::fs::write(&beside, "").unwrap();
        let check = |variable: Option<&str>, folder: Option<&Path>, expect: &Path| {
            assert_eq!(library_path(variable.map(OsString::from), folder), expect);
        };
        check(Some("/opt/onnx.so"), Some(folder.path()), Path::new("/opt/onnx.so"));
        check(None, Some(folder.path()), &beside);
        check(Some(""), Some(folder.path()), &beside);
        check(None, Some(Path::new("/nowhere")), Path::new("libonnxruntime.so"));
        check(None, None, Path::new("libonnxruntime.so"));
    }

    #[test]
    fn threads_are_divided_among_a_few_sessions() {
        for (threads, expect) in [(1, &[1][..]), (2, &[1, 1]), (4, &[1, 1, 1, 1]), (6, &[1, 1, 2, 2]), (16, &[4, 4, 4, 4])] {
            assert_eq!(threads_of_sessions(threads, 34), expect);
        }
        assert!(!threads_of_sessions(0, 34).is_empty());
    }

    #[test]
    fn the_token_budget_limits_the_number_of_sessions() {
        assert_eq!(threads_of_sessions(4, 2), [2, 2]);
        assert_eq!(
            threads_of_sessions(4, 0),
            [4],
            "there is always at least one session, even if the longest text exceeds the token budget"
        );
    }

    #[test]
    fn the_missing_library_error_says_how_to_get_it() {
        let error = load_library(Path::new("/nowhere/libonnxruntime.so")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot load ONNX Runtime from /nowhere/libonnxruntime.so: run `make run` once, which fetches it, or set \
             ORT_DYLIB_PATH to the path of libonnxruntime.so"
        );
    }
}
