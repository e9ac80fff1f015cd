//! Writes a bundle: graphs, parity checks, golden texts, measured quality, model card, manifest.
//!
//! Everything is written and verified in a temporary folder next to the final one and renamed at the very end, so an
//! existing bundle is always complete. A failed export leaves the folder with the ending `partial` behind for inspection.

use std::path::{Path, PathBuf};

use dragoman::bundle::{
    Bundle, FORMAT, GOLDEN, LANGUAGE_HEAD, LATE_TABLE, MODEL_CARD, MODEL_FP16, MODEL_INT8, Manifest, TOKEN_TABLE, TOKENIZER,
};
use dragoman::domain::{Language, RelevanceWeights};
use dragoman::ranking::TokenTable;
use dragoman::text::{LanguageHead, TEXT_VERSION, Tokenizer};
use prost::Message as _;
use serde_json::json;

use super::calibrate::calibrate;
use super::card::{Card, stage_table};
use super::card_language;
use super::comparison::{Comparison, Measured};
use super::corpora;
use super::golden;
use super::onnx::{fp16_graph, fp32_graph, int8_graph};
use super::origin::Origin;
use super::parity::{Parity, Sample, Variant, check_parity};
use super::proto::ModelProto;
use super::quality::quality;
use super::tokens::{TableFile, write_late_table};
use super::weights::EncoderWeights;
use crate::error::Error;
use crate::eval::language::LanguageReport;
use crate::eval::language_baselines::{check, compare};
use crate::eval::{OnnxEncoder, Report, TextEncoder, TokenEncoder};

/// What goes into a bundle besides the weights.
#[derive(Debug, Clone, Copy)]
pub struct ExportOptions<'a> {
    /// Name of the bundle.
    pub name: &'a str,
    /// Where the weights come from.
    pub origin: Origin<'a>,
    /// Semantic version of the bundle.
    pub version: &'a str,
    /// The tokenizer.json that the weights were trained with.
    pub tokenizer: &'a Path,
    /// The folder to write; an existing one is replaced.
    pub folder: &'a Path,
    /// Texts to calibrate int8 ranges on, ideally a sample of the training data in all languages; none means the golden texts.
    pub calibration: &'a [String],
    /// Folder of evaluation files, for parity and measured quality; without one, parity is checked on the golden texts.
    pub evaluation: Option<&'a Path>,
    /// Table of the training corpora with their licenses, for the model card.
    pub corpora: Option<&'a Path>,
    /// The language head; without one, the server detects languages by rules.
    pub language_head: Option<&'a Path>,
    /// Simpler weights with the same tokenizer, those of the bag of tokens, for comparison in the card.
    pub baseline: Option<&'a EncoderWeights>,
    /// The previous bundle, for comparison in the card. It may be the bundle that is replaced.
    pub previous: Option<&'a Path>,
    /// The bundle that the run started from, if no stage has changed its encoder since: its graphs and token table are copied,
    /// so embeddings stay bit-identical.
    pub encoder_of: Option<&'a Path>,
    /// The relevance weights of search; `None` means those of the first models with late interaction.
    pub relevance: Option<RelevanceWeights>,
    /// Additional text of the model card, as Markdown.
    pub notes: Option<&'a str>,
}

/// A written bundle.
#[derive(Debug)]
pub struct Exported {
    /// The bundle.
    pub bundle: Bundle,
    /// Parity of each graph with the reference.
    pub parity: Vec<Parity>,
    /// Quality, size and speed of the int8 graph, followed by those of the graphs that it is compared with.
    pub measured: Vec<Measured>,
}

impl Exported {
    /// Quality of the int8 graph, if there was an evaluation folder.
    pub fn report(&self) -> Option<&Report> {
        self.measured.first().and_then(|measured| measured.report.as_ref())
    }
}

/// Maximum bytes of a protobuf message, and so of an ONNX file.
const PROTOBUF_BYTES_MAX: usize = i32::MAX as usize;

impl std::fmt::Display for Exported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for parity in &self.parity {
            writeln!(f, "{parity:?}")?;
        }
        if let Some(report) = self.report() {
            writeln!(f, "{report}")?;
        }
        writeln!(f, "{}", Comparison(&self.measured))?;
        let Manifest { name, version, .. } = &self.bundle.manifest;
        writeln!(f, "bundle {name} {version} written to {}", self.bundle.folder.display())
    }
}

/// Exports `weights`. `reference` is the same encoder as trained, in libtorch.
pub fn export(
    options: &ExportOptions<'_>,
    weights: &EncoderWeights,
    reference: &mut dyn TokenEncoder,
) -> Result<Exported, Error> {
    let partial = options.folder.with_extension("partial");
    remove_folder(&partial)?;
    std::fs::create_dir_all(&partial).map_err(|source| Error::file(&partial, source))?;
    let copy = partial.join(TOKENIZER);
    std::fs::copy(options.tokenizer, &copy).map_err(|source| Error::file(options.tokenizer, source))?;
    let tokenizer = Tokenizer::load(&copy)?;
    let tokenizer = match options.origin.preprocessing() {
        Some(preprocessing) => tokenizer.preprocessed(preprocessing),
        None => tokenizer,
    };
    if tokenizer.vocabulary_size() != weights.shape.vocabulary {
        let problem = format!("has {} pieces, but the model has {}", tokenizer.vocabulary_size(), weights.shape.vocabulary);
        return Err(Error::Content { path: options.tokenizer.to_owned(), problem });
    }
    let (int8, parity) = write_graphs(options, &partial, weights, &tokenizer, reference)?;
    let recognition = copy_language_head(options, &partial, &tokenizer)?;
    let mut encoder = TextEncoder { tokenizer, tokens_max: weights.shape.tokens_max, encoder: int8 };
    let texts = golden::golden_texts(&encoder.tokenizer, encoder.tokens_max, &mut encoder.encoder)?;
    let json = golden::to_json(&texts).map_err(|error| content(&partial.join(GOLDEN), &error.to_string()))?;
    write(&partial.join(GOLDEN), json.as_bytes())?;
    let measured = measure_all(options, &partial, weights, &mut encoder)?;
    let card = card(options, &partial, weights, &parity, &measured, card_language::render(&recognition))?;
    write(&partial.join(MODEL_CARD), card.as_bytes())?;
    let mut manifest = manifest(options, weights, &parity, measured.first().and_then(|measured| measured.report.as_ref()));
    manifest.quality.extend(recognition.first().map(card_language::quality).unwrap_or_default());
    let mut files = vec![MODEL_INT8, MODEL_FP16, TOKEN_TABLE, TOKENIZER, GOLDEN, MODEL_CARD];
    files.extend(partial.join(LATE_TABLE).is_file().then_some(LATE_TABLE));
    files.extend(options.language_head.map(|_| LANGUAGE_HEAD));
    Bundle::seal(&partial, manifest, &files)?;
    remove_folder(options.folder)?;
    std::fs::rename(&partial, options.folder).map_err(|source| Error::file(options.folder, source))?;
    Ok(Exported { bundle: Bundle::open(options.folder)?, parity, measured })
}

/// Writes the shipped graphs and verifies all three. Returns the loaded int8 graph.
fn write_graphs(
    options: &ExportOptions<'_>,
    folder: &Path,
    weights: &EncoderWeights,
    tokenizer: &Tokenizer,
    reference: &mut dyn TokenEncoder,
) -> Result<(OnnxEncoder, Vec<Parity>), Error> {
    let tokens_max = weights.shape.tokens_max;
    let sample = Sample::read(options.evaluation, tokenizer, tokens_max)?;
    let ranges = calibrate(weights, tokenizer, options.calibration)?;
    let expected = reference.embed(&sample.texts)?;
    let mut parity = Vec::new();
    let mut check_graph = |variant, mut encoder: OnnxEncoder| {
        parity.push(check_parity(variant, &sample, &expected, &mut encoder)?);
        Ok::<_, Error>(encoder)
    };
    check_graph(Variant::Fp32, OnnxEncoder::from_bytes(&encoded("the fp32 graph", &fp32_graph(weights)?)?, 0)?)?;
    let (fp16, int8) = (folder.join(MODEL_FP16), folder.join(MODEL_INT8));
    if let Some(earlier) = options.encoder_of {
        for file in [TOKEN_TABLE, MODEL_FP16, MODEL_INT8] {
            std::fs::copy(earlier.join(file), folder.join(file)).map_err(|source| Error::file(&earlier.join(file), source))?;
        }
    } else {
        let table = TableFile::write(folder, weights)?;
        write_graph(&fp16, &fp16_graph(weights, &table)?)?;
        write_graph(&int8, &int8_graph(weights, &ranges, Some(&table))?)?;
    }
    check_graph(Variant::Fp16, OnnxEncoder::open(&fp16, 0)?)?;
    let encoder = check_graph(Variant::Int8, OnnxEncoder::open(&int8, 0)?)?;
    let table = if write_late_table(folder, weights)? { LATE_TABLE } else { TOKEN_TABLE };
    let encoder = encoder.with_late_interaction(Some((&TokenTable::read(&folder.join(table))?).into()));
    Ok((encoder, parity))
}

/// Evaluates the graph in `folder`, which is loaded in `encoder`, and the graphs that it is compared with.
fn measure_all(
    options: &ExportOptions<'_>,
    folder: &Path,
    weights: &EncoderWeights,
    encoder: &mut TextEncoder<OnnxEncoder>,
) -> Result<Vec<Measured>, Error> {
    let graph = folder.join(MODEL_INT8);
    let name = format!("{} {}", options.name, options.version);
    let mut measured = vec![Measured::new(name, Some(weights.parameters()), &graph, encoder, options.evaluation)?];
    if let Some(previous) = options.previous {
        let mut previous = Measured::of_bundle(previous, options.evaluation)?;
        previous.name.push_str(" (before)");
        measured.push(previous);
    }
    if let Some(baseline) = options.baseline {
        let tokens_max = baseline.shape.tokens_max;
        let ranges = calibrate(baseline, &encoder.tokenizer, options.calibration)?;
        // A separate folder, so that no other model's token table is next to the graph.
        let scratch = tempfile::tempdir().map_err(|source| Error::file(folder, source))?;
        let graph = scratch.path().join(MODEL_INT8);
        write_graph(&graph, &int8_graph(baseline, &ranges, None)?)?;
        let name = if baseline.shape.layers == 0 { "bag of tokens" } else { "baseline" };
        let (tokenizer, parameters) = (encoder.tokenizer.clone(), Some(baseline.parameters()));
        let mut encoder = TextEncoder { tokenizer, tokens_max, encoder: OnnxEncoder::open(&graph, 0)? };
        measured.push(Measured::new(name.to_owned(), parameters, &graph, &mut encoder, options.evaluation)?);
    }
    Ok(measured)
}

pub(super) fn write_graph(path: &Path, graph: &ModelProto) -> Result<(), Error> {
    write(path, &encoded(&path.display().to_string(), graph)?)
}

/// The graph as a file's content. A protobuf message is limited to 2 GiB; of the weights, only the token table is in a separate
/// file.
fn encoded(name: &str, graph: &ModelProto) -> Result<Vec<u8>, Error> {
    let bytes = graph.encoded_len();
    if bytes > PROTOBUF_BYTES_MAX {
        let problem = format!("the graph has {bytes} bytes, expected at most {PROTOBUF_BYTES_MAX}, the limit of protobuf");
        return Err(content(Path::new(name), &problem));
    }
    Ok(graph.encode_to_vec())
}

/// Copies the language head into the bundle. Returns its language detection results first, then the baselines'; empty without a
/// head or an evaluation folder.
fn copy_language_head(options: &ExportOptions<'_>, folder: &Path, tokenizer: &Tokenizer) -> Result<Vec<LanguageReport>, Error> {
    let Some(path) = options.language_head else {
        return Ok(Vec::new());
    };
    let head = LanguageHead::load(path)?;
    write(&folder.join(LANGUAGE_HEAD), &head.to_bytes())?;
    match options.evaluation {
        Some(data) => compare(head, tokenizer.clone(), data),
        None => check(head, tokenizer.clone()).map(|_| Vec::new()),
    }
}

/// Writes the model card as text.
fn card(
    options: &ExportOptions<'_>,
    folder: &Path,
    weights: &EncoderWeights,
    parity: &[Parity],
    measured: &[Measured],
    language_detection: String,
) -> Result<String, Error> {
    let training = match options.origin {
        Origin::Trained(config) => stage_table(config),
        Origin::Imported(_) => String::new(),
    };
    let mut files = Vec::new();
    let late = folder.join(LATE_TABLE).is_file().then_some(LATE_TABLE);
    let head = options.language_head.map(|_| LANGUAGE_HEAD);
    for file in [MODEL_INT8, MODEL_FP16, TOKEN_TABLE, TOKENIZER].into_iter().chain(late).chain(head) {
        let path = folder.join(file);
        let bytes = std::fs::metadata(&path).map_err(|source| Error::file(&path, source))?.len();
        files.push((file, bytes));
    }
    let corpora = match (options.corpora, options.origin) {
        (Some(path), Origin::Trained(config)) => corpora::read_corpora(path, |name| config.corpora.weight(name) > 0.0)?,
        _ => Vec::new(),
    };
    let card = Card {
        name: options.name,
        version: options.version,
        shape: weights.shape,
        parameters: weights.parameters(),
        files,
        corpora,
        imported: options.origin.imported(),
        language_detection,
        training,
        parity,
        measured,
        notes: options.notes,
    };
    Ok(card.to_string())
}

fn manifest(options: &ExportOptions<'_>, weights: &EncoderWeights, parity: &[Parity], report: Option<&Report>) -> Manifest {
    Manifest {
        format: FORMAT,
        name: options.name.to_owned(),
        version: options.version.to_owned(),
        text_version: TEXT_VERSION,
        preprocessing: options.origin.preprocessing(),
        dimension: weights.shape.dimension,
        tokens_max: weights.shape.tokens_max,
        languages: Language::all().map(|language| language.code().to_owned()).collect(),
        relevance: options.relevance,
        files: Default::default(),
        training: match options.origin {
            Origin::Trained(config) => json!({ "config": config, "parameters": weights.parameters(), "parity": parity }),
            Origin::Imported(imported) => {
                json!({ "imported": imported, "parameters": weights.parameters(), "parity": parity })
            }
        },
        quality: report.map(quality).unwrap_or_default(),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes).map_err(|source| Error::file(path, source))
}

pub(super) fn remove_folder(folder: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::file(folder, error)),
        _ => Ok(()),
    }
}

fn content(path: &Path, problem: &str) -> Error {
    Error::Content { path: PathBuf::from(path), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::proto::{GraphProto, TensorProto};
    use super::*;

    #[test]
    fn a_graph_larger_than_protobuf_allows_is_refused() {
        // Zeros that are never read, so no memory is committed for them.
        let tensor = TensorProto { raw_data: Some(vec![0; PROTOBUF_BYTES_MAX]), ..Default::default() };
        let graph = GraphProto { initializer: vec![tensor], ..Default::default() };
        let model = ModelProto { graph: Some(graph), ..Default::default() };
        let error = encoded("model.onnx", &model).unwrap_err().to_string();
        // The graph, the tensor and its values each have a tag of one byte and a length of five.
        let bytes = PROTOBUF_BYTES_MAX + 3 * 6;
        let expect = format!("the graph has {bytes} bytes, expected at most 2147483647");
        assert!(error.contains("model.onnx") && error.contains(&expect), "{error}");
    }
}
