//! The comparison in a model card: the exported graph, the previous bundle and a simpler baseline, all evaluated the same
//! way, through their int8 graphs, in one run.

use std::fmt;
use std::path::Path;

use dragoman::bundle::{Bundle, MODEL_INT8, TOKEN_TABLE};

use super::golden;
use super::quality::quality;
use crate::error::Error;
use crate::eval::encoder::tokenize;
use crate::eval::{OnnxEncoder, Report, Speed, TextEncoder, measure, speed};

/// An int8 graph and its results.
#[derive(Debug)]
pub struct Measured {
    /// Its name in the card.
    pub name: String,
    /// Number of parameters, if known.
    pub parameters: Option<usize>,
    /// Size of the graph with its token table on disk.
    pub graph_bytes: usize,
    /// Speed on one core.
    pub speed: Speed,
    /// Quality, if there was an evaluation folder.
    pub report: Option<Report>,
}

impl Measured {
    /// Evaluates `graph`, which is loaded in `encoder`: its speed on the golden texts, its quality on the files in `evaluation`.
    pub fn new(
        name: String,
        parameters: Option<usize>,
        graph: &Path,
        encoder: &mut TextEncoder<OnnxEncoder>,
        evaluation: Option<&Path>,
    ) -> Result<Self, Error> {
        let texts = tokenize(&encoder.tokenizer, &golden::texts(), encoder.tokens_max)?;
        Ok(Self {
            name,
            parameters,
            graph_bytes: bytes_of(graph)?,
            speed: speed::measure(graph, &texts)?,
            report: evaluation.map(|folder| measure(folder, encoder)).transpose()?,
        })
    }

    /// Evaluates a bundle with its own tokenizer.
    pub fn of_bundle(folder: &Path, evaluation: Option<&Path>) -> Result<Self, Error> {
        let bundle = Bundle::open(folder)?;
        let path = bundle.path(MODEL_INT8);
        let parameters = bundle.manifest.training.get("parameters").and_then(serde_json::Value::as_u64);
        let parameters = parameters.and_then(|count| usize::try_from(count).ok());
        let name = format!("{} {}", bundle.manifest.name, bundle.manifest.version);
        Self::new(name, parameters, &path, &mut TextEncoder::open_bundle(folder, 0)?, evaluation)
    }

    fn quality(&self, name: &str) -> Option<f64> {
        self.report.as_ref().and_then(|report| quality(report).get(name).copied())
    }
}

/// Size of a graph's file, plus the token table next to it, if any.
fn bytes_of(graph: &Path) -> Result<usize, Error> {
    let bytes =
        |path: &Path| Ok::<usize, Error>(std::fs::metadata(path).map_err(|source| Error::file(path, source))?.len() as usize);
    let table = graph.with_file_name(TOKEN_TABLE);
    Ok(bytes(graph)? + if table.is_file() { bytes(&table)? } else { 0 })
}

/// Means by their key in `quality`, with their names in the card.
const MEANS: [(&str, &str); 10] = [
    ("flores_p_at_1_english", "FLORES, P@1 to and from English"),
    ("flores_p_at_1_other", "FLORES, P@1 of pairs without English"),
    ("short_p_at_1", "short sentences, P@1 to and from English"),
    ("tatoeba_p_at_1", "Tatoeba, P@1 to and from English"),
    ("sib200_accuracy", "SIB-200, accuracy in the other languages, trained in English"),
    ("passages_mrr_at_10_same_language", "questions in the passages' language, MRR@10 by embeddings"),
    ("passages_mrr_at_10_same_language_both", "the same by embeddings and late interaction"),
    ("passages_mrr_at_10_across", "questions in another language, MRR@10 by embeddings"),
    ("passages_mrr_at_10_across_both", "the same by embeddings and late interaction"),
    ("sts_spearman", "STS, rank correlation times 100"),
];

/// A table with one column per model. `Display` writes it as Markdown.
pub struct Comparison<'a>(pub &'a [Measured]);

impl Comparison<'_> {
    fn row(
        &self,
        f: &mut fmt::Formatter<'_>,
        title: &str,
        digits: usize,
        value: impl Fn(&Measured) -> Option<f64>,
    ) -> fmt::Result {
        let values: Vec<Option<f64>> = self.0.iter().map(value).collect();
        if values.iter().all(Option::is_none) {
            return Ok(());
        }
        write!(f, "| {title} |")?;
        for value in values {
            match value {
                Some(value) => write!(f, " {value:.digits$} |")?,
                None => write!(f, " - |")?,
            }
        }
        writeln!(f)
    }
}

impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|measured| measured.name.as_str()).collect();
        writeln!(f, "| int8 graphs | {} |", names.join(" | "))?;
        writeln!(f, "|---|{}", "---:|".repeat(names.len()))?;
        for (name, title) in MEANS {
            self.row(f, title, 2, |measured| measured.quality(name))?;
        }
        self.row(f, "parameters, million", 1, |measured| measured.parameters.map(|count| count as f64 / 1e6))?;
        self.row(f, "graph with its token table, MB", 1, |measured| Some(measured.graph_bytes as f64 / 1e6))?;
        self.row(f, "one query of 20 tokens on one core, ms (median)", 3, |measured| Some(measured.speed.query_ms))?;
        let tokens = self.0.first().map_or(0.0, |measured| measured.speed.tokens_mean);
        let title = format!("texts of {tokens:.0} tokens (mean) per second on one core, in batches");
        self.row(f, &title, 0, |measured| Some(measured.speed.texts_per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::short::ShortReport;

    fn measured(name: &str, parameters: Option<usize>, quality: Option<f64>) -> Measured {
        let short = |mean| ShortReport { languages: Default::default(), mean, absent: Vec::new() };
        Measured {
            name: name.to_owned(),
            parameters,
            graph_bytes: 13_600_000,
            speed: Speed { query_ms: 0.3456, texts_per_second: 2_345.6, tokens_mean: 14.2 },
            report: quality.map(|mean| Report { short: Some(short(mean)), ..Report::default() }),
        }
    }

    #[test]
    fn unmeasured_values_show_a_dash_and_empty_rows_are_omitted() {
        let all = [measured("tiny 0.2.0", Some(13_400_000), Some(83.721)), measured("tiny 0.1.0", None, None)];
        let text = Comparison(&all).to_string();
        let expect = "| int8 graphs | tiny 0.2.0 | tiny 0.1.0 |\n\
                      |---|---:|---:|\n\
                      | short sentences, P@1 to and from English | 83.72 | - |\n\
                      | parameters, million | 13.4 | - |\n\
                      | graph with its token table, MB | 13.6 | 13.6 |\n\
                      | one query of 20 tokens on one core, ms (median) | 0.346 | 0.346 |\n\
                      | texts of 14 tokens (mean) per second on one core, in batches | 2346 | 2346 |\n";
        assert_eq!(text, expect);
    }
}
