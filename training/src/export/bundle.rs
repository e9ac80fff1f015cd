//! Writes a bundle: graphs, proof of parity, golden texts, measured quality, model card, manifest.
//!
//! Everything is written and proven in a folder beside the final one, which takes its name at the very end: a bundle that is
//! there is whole. An export that fails leaves the folder with the ending `partial` behind, to be looked into.

use std::path::{Path, PathBuf};

use dragoman::bundle::{Bundle, FORMAT, GOLDEN, MODEL_CARD, MODEL_FP16, MODEL_INT8, Manifest, TOKENIZER};
use dragoman::domain::Language;
use dragoman::text::{TEXT_VERSION, Tokenizer};
use prost::Message as _;
use serde_json::json;

use super::calibrate::calibrate;
use super::card::{self, Card};
use super::golden;
use super::onnx::{fp16_graph, fp32_graph, int8_graph};
use super::parity::{Parity, Sample, Variant, prove};
use super::proto::ModelProto;
use super::weights::EncoderWeights;
use crate::config::Config;
use crate::error::Error;
use crate::eval::encoder::tokenize;
use crate::eval::{OnnxEncoder, Report, TextEncoder, TokenEncoder, measure};

/// What goes into a bundle besides the weights.
#[derive(Debug, Clone, Copy)]
pub struct ExportOptions<'a> {
    /// The run's configuration: name, sizes, recipe.
    pub config: &'a Config,
    /// Semantic version of the bundle.
    pub version: &'a str,
    /// The tokenizer.json that the weights were trained with.
    pub tokenizer: &'a Path,
    /// The folder to write; one that is there is replaced.
    pub folder: &'a Path,
    /// Texts that int8 ranges are found on, best a sample of the training data in all languages; none means the golden texts.
    pub calibration: &'a [String],
    /// Folder of evaluation files, for parity and measured quality; without one, parity is proven on the golden texts.
    pub evaluation: Option<&'a Path>,
    /// Table of the training corpora with their licences, for the model card.
    pub corpora: Option<&'a Path>,
    /// The command that repeats the measurement, for the model card.
    pub evaluation_command: &'a str,
}

/// A written bundle.
#[derive(Debug)]
pub struct Exported {
    /// The bundle.
    pub bundle: Bundle,
    /// Nearness of each graph to the reference.
    pub parity: Vec<Parity>,
    /// Quality of the int8 graph, when there was an evaluation folder.
    pub report: Option<Report>,
}

/// Exports `weights`. `reference` is the same encoder as it was trained, in libtorch.
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
    if tokenizer.vocabulary_size() != weights.shape.vocabulary {
        let problem = format!("has {} pieces, the model has {}", tokenizer.vocabulary_size(), weights.shape.vocabulary);
        return Err(Error::Content { path: options.tokenizer.to_owned(), problem });
    }
    let (int8, parity) = write_graphs(options, &partial, weights, &tokenizer, reference)?;
    let mut encoder = TextEncoder { tokenizer, tokens_max: weights.shape.tokens_max, encoder: int8 };
    let texts = golden::golden_texts(&encoder.tokenizer, encoder.tokens_max, &mut encoder.encoder)?;
    let json = golden::to_json(&texts).map_err(|error| content(&partial.join(GOLDEN), &error))?;
    write(&partial.join(GOLDEN), json.as_bytes())?;
    let report = options.evaluation.map(|folder| measure(folder, &mut encoder)).transpose()?;
    write_card(options, &partial, weights, &parity, report.as_ref())?;
    let manifest = manifest(options, weights, &parity, report.as_ref());
    Bundle::seal(&partial, manifest, &[MODEL_INT8, MODEL_FP16, TOKENIZER, GOLDEN, MODEL_CARD])?;
    remove_folder(options.folder)?;
    std::fs::rename(&partial, options.folder).map_err(|source| Error::file(options.folder, source))?;
    Ok(Exported { bundle: Bundle::open(options.folder)?, parity, report })
}

/// Writes the graphs that are shipped and proves all three. Gives the int8 one, loaded.
fn write_graphs(
    options: &ExportOptions<'_>,
    folder: &Path,
    weights: &EncoderWeights,
    tokenizer: &Tokenizer,
    reference: &mut dyn TokenEncoder,
) -> Result<(OnnxEncoder, Vec<Parity>), Error> {
    let tokens_max = weights.shape.tokens_max;
    let sample = Sample::read(options.evaluation, tokenizer, tokens_max)?;
    let golden: Vec<String> = golden::by_language().into_values().flatten().collect();
    let texts = if options.calibration.is_empty() { &golden } else { options.calibration };
    let ranges = calibrate(weights, &tokenize(tokenizer, texts, tokens_max)?)?;
    let expected = reference.embed(&sample.texts)?;
    let mut parity = Vec::new();
    let mut prove_bytes = |variant, bytes: &[u8]| {
        let mut encoder = OnnxEncoder::from_bytes(bytes, 0)?;
        parity.push(prove(variant, &sample, &expected, &mut encoder)?);
        Ok::<_, Error>(encoder)
    };
    prove_bytes(Variant::Fp32, &fp32_graph(weights)?.encode_to_vec())?;
    let fp16 = write_graph(&folder.join(MODEL_FP16), &fp16_graph(weights)?)?;
    prove_bytes(Variant::Fp16, &fp16)?;
    let int8 = write_graph(&folder.join(MODEL_INT8), &int8_graph(weights, &ranges)?)?;
    let encoder = prove_bytes(Variant::Int8, &int8)?;
    Ok((encoder, parity))
}

fn write_graph(path: &Path, graph: &ModelProto) -> Result<Vec<u8>, Error> {
    let bytes = graph.encode_to_vec();
    write(path, &bytes)?;
    Ok(bytes)
}

fn write_card(
    options: &ExportOptions<'_>,
    folder: &Path,
    weights: &EncoderWeights,
    parity: &[Parity],
    report: Option<&Report>,
) -> Result<(), Error> {
    let recipe = toml::to_string(options.config).map_err(|error| content(&folder.join(MODEL_CARD), &error))?;
    let mut files = Vec::new();
    for file in [MODEL_INT8, MODEL_FP16, TOKENIZER] {
        let path = folder.join(file);
        let bytes = std::fs::metadata(&path).map_err(|source| Error::file(&path, source))?.len();
        files.push((file, bytes));
    }
    let corpora = match options.corpora {
        Some(path) => card::read_corpora(path, |name| options.config.corpora.weight(name) > 0.0)?,
        None => Vec::new(),
    };
    let card = Card {
        name: &options.config.name,
        version: options.version,
        shape: weights.shape,
        parameters: weights.parameters(),
        files,
        corpora,
        recipe: &recipe,
        parity,
        report,
        evaluation_command: options.evaluation_command,
    };
    write(&folder.join(MODEL_CARD), card.to_string().as_bytes())
}

fn manifest(options: &ExportOptions<'_>, weights: &EncoderWeights, parity: &[Parity], report: Option<&Report>) -> Manifest {
    Manifest {
        format: FORMAT,
        name: options.config.name.clone(),
        version: options.version.to_owned(),
        text_version: TEXT_VERSION,
        dimension: weights.shape.dimension,
        tokens_max: weights.shape.tokens_max,
        languages: Language::all().map(|language| language.code().to_owned()).collect(),
        files: Default::default(),
        training: json!({ "config": options.config, "parameters": weights.parameters(), "parity": parity }),
        quality: report.map(Report::quality).unwrap_or_default(),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes).map_err(|source| Error::file(path, source))
}

fn remove_folder(folder: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::file(folder, error)),
        _ => Ok(()),
    }
}

fn content(path: &Path, error: &dyn std::error::Error) -> Error {
    Error::Content { path: PathBuf::from(path), problem: error.to_string() }
}
