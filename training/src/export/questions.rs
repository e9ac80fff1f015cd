//! Adds a question encoder to an existing bundle: its graphs are written next to the bundle's own, which stay bit-identical, and
//! so do all embeddings made with them.

use std::path::Path;

use dragoman::bundle::{Bundle, QUESTIONS_FP16, QUESTIONS_INT8, TOKEN_TABLE, TOKENIZER};
use dragoman::ranking::TokenTable;
use dragoman::text::Tokenizer;
use serde_json::json;

use super::bundle::write_graph;
use super::bundle_update::BundleUpdate;
use super::calibrate::calibrate;
use super::new_bundle::NewBundle;
use super::onnx::{fp16_graph, int8_graph};
use super::parity::{Parity, Sample, Variant, check_parity};
use super::quality::quality;
use super::tokens::TableFile;
use super::weights::EncoderWeights;
use crate::config::{Config, StageConfig};
use crate::error::Error;
use crate::eval::passages::{self, PassagesReport};
use crate::eval::{OnnxEncoder, Report, TextEncoder, TokenEncoder};
use crate::model::encoder::TOKENS;

/// The section of the model card.
const SECTION: &str = "## Questions";
/// Maximum difference between a value of the token table and the bundle's, in quantization steps of its row; rounding accounts
/// for half a step.
const STEPS_MAX: f32 = 0.51;

/// The inputs of the new bundle besides the weights.
#[derive(Debug, Clone, Copy)]
pub struct QuestionOptions<'a> {
    /// The bundle that the run started from.
    pub bundle: &'a Path,
    /// The bundle to write.
    pub new_bundle: &'a NewBundle,
    /// The run's configuration, and its stage that trained the weights.
    pub stage: (&'a Config, &'a StageConfig),
    /// Texts to calibrate int8 ranges on; none means the golden texts.
    pub calibration: &'a [String],
    /// Folder of evaluation files, for parity and for passage retrieval quality.
    pub evaluation: Option<&'a Path>,
}

/// Writes the bundle with `weights` as its question encoder; `reference` is the same encoder in libtorch. Returns the section
/// of the model card.
pub fn add_questions(
    options: &QuestionOptions<'_>,
    weights: &EncoderWeights,
    reference: &mut dyn TokenEncoder,
) -> Result<String, Error> {
    let (relevance, notes) = (options.new_bundle.relevance_weights()?, options.new_bundle.notes_text()?);
    let mut bundle_update = BundleUpdate::begin(options.bundle, &options.new_bundle.out)?;
    check_table(&bundle_update.before, weights)?;
    let parity = write_graphs(options, bundle_update.partial(), weights, reference)?;
    options.new_bundle.bundle_version.clone_into(&mut bundle_update.manifest.version);
    bundle_update.manifest.relevance = relevance.or(bundle_update.manifest.relevance);
    bundle_update.manifest.training["questions"] =
        json!({ "stage": options.stage.1, "sampling": options.stage.0.sampling, "parity": parity });
    bundle_update.files.extend([QUESTIONS_INT8, QUESTIONS_FP16].map(str::to_owned));
    // Sealed once to be opened and evaluated as a server would, and again with the results.
    bundle_update.seal()?;
    let measured = match options.evaluation {
        Some(data) => [options.bundle, bundle_update.partial()]
            .map(|folder| measure(folder, data))
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?,
        None => Vec::new(),
    };
    if let Some(after) = measured.last().and_then(Option::clone) {
        bundle_update.manifest.quality.extend(quality(&Report { passages: Some(after), ..Report::default() }));
    }
    let section = section(options.stage.1, notes.as_deref(), &parity, &measured);
    bundle_update.finish(SECTION, &section)?;
    Ok(section)
}

/// Checks that the stage has not changed the token table, since both graphs read the bundle's.
fn check_table(bundle: &Bundle, weights: &EncoderWeights) -> Result<(), Error> {
    let path = bundle.path(TOKEN_TABLE);
    let (table, trained) = (TokenTable::read(&path)?, &weights.get(TOKENS)?.values);
    let scales = table.scales.iter().flat_map(|scale| std::iter::repeat_n(scale.max(f32::MIN_POSITIVE), table.dimension));
    let steps = table.vectors().iter().zip(trained).zip(scales).map(|((a, b), scale)| (a - b).abs() / scale).fold(0.0, f32::max);
    if table.rows.len() == trained.len() && steps <= STEPS_MAX {
        return Ok(());
    }
    let problem = format!(
        "is {steps} steps away from that of the question encoder; add an encoder that learned with \
         question_encoder to the bundle exported from the same weights, and train one with resting_passages with token_rate_scale 0"
    );
    Err(Error::Content { path, problem })
}

fn write_graphs(
    options: &QuestionOptions<'_>,
    folder: &Path,
    weights: &EncoderWeights,
    reference: &mut dyn TokenEncoder,
) -> Result<Vec<Parity>, Error> {
    let (tokenizer, tokens_max) = (Tokenizer::load(&folder.join(TOKENIZER))?, weights.shape.tokens_max);
    let ranges = calibrate(weights, &tokenizer, options.calibration)?;
    let table = TableFile::open(folder)?;
    let sample = Sample::read(options.evaluation, &tokenizer, tokens_max)?;
    let expected = reference.embed(&sample.texts)?;
    let graphs = [
        (Variant::Fp16, QUESTIONS_FP16, fp16_graph(weights, &table)?),
        (Variant::Int8, QUESTIONS_INT8, int8_graph(weights, &ranges, Some(&table))?),
    ];
    let mut parity = Vec::new();
    for (variant, file, graph) in graphs {
        write_graph(&folder.join(file), &graph)?;
        parity.push(check_parity(variant, &sample, &expected, &mut OnnxEncoder::open(&folder.join(file), 0)?)?);
    }
    Ok(parity)
}

fn measure(bundle: &Path, data: &Path) -> Result<Option<PassagesReport>, Error> {
    Ok(passages::measure(data, usize::MAX, &mut TextEncoder::open_bundle(bundle, 0)?)?)
}

fn section(stage: &StageConfig, notes: Option<&str>, parity: &[Parity], measured: &[Option<PassagesReport>]) -> String {
    let learned = match stage.question_encoder {
        Some(_) => "which learned\ntogether with the passage encoder.",
        None => "which learned\nto find the embeddings that the passage encoder computes. The passage encoder is unchanged.",
    };
    let mut text = format!(
        "{SECTION}\n\nQueries are embedded by a separate question encoder (`{QUESTIONS_INT8}`, `{QUESTIONS_FP16}`), {learned}\n\n"
    );
    if let [Some(before), Some(after)] = measured {
        text.push_str("| MRR@10 in percent | without it | with it |\n|---|---:|---:|\n");
        let rows = [
            ("the passages' language", before.same_language, after.same_language),
            ("another language", before.across, after.across),
            ("another language, one of both English", before.with_english, after.with_english),
        ];
        for (name, before, after) in rows {
            let (a, b) = (before.dense.mrr_at_10, after.dense.mrr_at_10);
            text.push_str(&format!("| questions in {name}, by embeddings | {a:.2} | {b:.2} |\n"));
            if let (Some(before), Some(after)) = (before.both, after.both) {
                text.push_str(&format!(
                    "| the same with late interaction | {:.2} | {:.2} |\n",
                    before.mrr_at_10, after.mrr_at_10
                ));
            }
        }
        text.push('\n');
    }
    let minimums: Vec<String> = parity.iter().map(|it| format!("{} {:.6}", it.variant.name(), it.cosine_min)).collect();
    text.push_str(&format!("Minimum cosine with libtorch: {}.\n\n", minimums.join(", ")));
    if let Some(notes) = notes {
        text.push_str(notes.trim());
        text.push_str("\n\n");
    }
    text
}
