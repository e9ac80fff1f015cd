//! The model card: what the model is, what it was made from, how good it is, where it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use dragoman::domain::Language;

use super::parity::Parity;
use super::weights::EncoderShape;
use crate::config::Norm;
use crate::error::Error;
use crate::eval::Report;

/// Languages that the card names as the worst.
const WORST: usize = 8;

/// What the card says. `Display` writes it as Markdown.
pub struct Card<'a> {
    /// Name of the bundle.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// Size of the encoder.
    pub shape: EncoderShape,
    /// Numbers in it.
    pub parameters: usize,
    /// Files and their bytes.
    pub files: Vec<(&'static str, u64)>,
    /// What it was trained on.
    pub corpora: Vec<CorpusRow>,
    /// The configuration as TOML.
    pub recipe: &'a str,
    /// Nearness of the graphs to what was trained.
    pub parity: &'a [Parity],
    /// Measured quality.
    pub report: Option<&'a Report>,
    /// The command that repeats the measurement.
    pub evaluation_command: &'a str,
}

/// A training corpus, all its files together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CorpusRow {
    /// Name.
    pub name: String,
    /// Where it comes from.
    pub repositories: BTreeSet<String>,
    /// Licences of its files.
    pub licences: BTreeSet<String>,
    /// Classes of the licences: `open` or `research`.
    pub classes: BTreeSet<String>,
    /// Segments of all files.
    pub segments: u64,
}

/// Reads a table of corpora: tab-separated, one row per file, columns found by their names. Rows of a corpus that `used`
/// refuses are left out.
pub fn read_corpora(path: &Path, used: impl Fn(&str) -> bool) -> Result<Vec<CorpusRow>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
    let header: Vec<&str> = text.lines().next().unwrap_or_default().split('\t').collect();
    let find = |name: &'static str| {
        let missing = || Error::Content { path: path.to_owned(), problem: format!("expected a column {name}") };
        header.iter().position(|&column| column == name).ok_or_else(missing)
    };
    let (name, repository, licence) = (find("corpus")?, find("repository")?, find("licence")?);
    let (class, segments) = (find("licence_class")?, find("segments")?);
    let mut rows: BTreeMap<String, CorpusRow> = BTreeMap::new();
    for (number, line) in text.lines().enumerate().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        if fields.len() < header.len() {
            return Err(Error::Line {
                path: path.to_owned(),
                line: number + 1,
                problem: "expected as many columns as the header has",
            });
        }
        if !used(fields[name]) {
            continue;
        }
        let count: u64 = fields[segments].parse().map_err(|_| Error::Line {
            path: path.to_owned(),
            line: number + 1,
            problem: "expected a number of segments",
        })?;
        let row = rows.entry(fields[name].to_owned()).or_default();
        row.name = fields[name].to_owned();
        row.repositories.insert(fields[repository].to_owned());
        row.licences.insert(fields[licence].to_owned());
        row.classes.insert(fields[class].to_owned());
        row.segments += count;
    }
    Ok(rows.into_values().collect())
}

impl fmt::Display for Card<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = &self.shape;
        writeln!(f, "# {} {}\n", self.name, self.version)?;
        writeln!(
            f,
            "A sentence encoder for {} languages: texts of the same meaning have near embeddings, whatever language they are in.\n\
             Made by Dragoman's training subproject after EMS (2024).\n",
            Language::COUNT
        )?;
        let norm = match shape.norm {
            Norm::Pre => "before each sublayer",
            Norm::Post => "after each sublayer",
        };
        writeln!(f, "- {} values per embedding, at most {} tokens per text", shape.dimension, shape.tokens_max)?;
        writeln!(
            f,
            "- {} Transformer layers, {} heads, feed-forward {}, normalization {norm}; {} token pieces; {:.1}M parameters",
            shape.layers,
            shape.heads,
            shape.feed_forward,
            shape.vocabulary,
            self.parameters as f64 / 1e6
        )?;
        for (file, bytes) in &self.files {
            writeln!(f, "- `{file}`: {:.1} MB", *bytes as f64 / 1e6)?;
        }
        self.quality(f)?;
        self.exactness(f)?;
        self.limits(f)?;
        self.data(f)?;
        writeln!(f, "\n## Recipe\n\n```toml\n{}\n```", self.recipe.trim_end())
    }
}

impl Card<'_> {
    fn quality(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n## Quality\n")?;
        match self.report {
            Some(report) => {
                writeln!(f, "Measured on the int8 graph through the text pipeline of the server, by\n")?;
                writeln!(f, "    {}\n", self.evaluation_command)?;
                write!(f, "{report}")
            }
            None => writeln!(f, "Not measured."),
        }
    }

    fn exactness(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n## Exactness of the graphs\n")?;
        writeln!(f, "Against the encoder as it was trained, in libtorch and float32:\n")?;
        writeln!(f, "| graph | sentences | languages | least cosine | mean cosine | P@1 | P@1 of the reference |")?;
        writeln!(f, "|-------|----------:|----------:|-------------:|------------:|----:|---------------------:|")?;
        for parity in self.parity {
            writeln!(
                f,
                "| {} | {} | {} | {:.6} | {:.6} | {:.2} | {:.2} |",
                parity.variant.name(),
                parity.sentences,
                parity.languages,
                parity.cosine_min,
                parity.cosine_mean,
                parity.p_at_1,
                parity.p_at_1_reference
            )?;
        }
        Ok(())
    }

    fn limits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n## Limits\n")?;
        writeln!(f, "- Text after the first {} tokens is not read; split longer texts.", self.shape.tokens_max)?;
        writeln!(f, "- Languages other than the {} get embeddings too, but nothing is promised of them.", Language::COUNT)?;
        writeln!(f, "- Kurdish is Kurmanji in Latin script.")?;
        writeln!(f, "- Case is lost on the way in: texts are compared in lower case.")?;
        if let Some(worst) = self.report.and_then(worst) {
            writeln!(f, "- Quality differs much between languages; the lowest on FLORES: {worst}.")?;
        }
        Ok(())
    }

    fn data(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.corpora.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n## Training data\n")?;
        writeln!(
            f,
            "{} corpora of parallel text. Class `research` is free for research use; the others are under open licences.\n",
            self.corpora.len()
        )?;
        writeln!(f, "| corpus | source | licence | class | segments |")?;
        writeln!(f, "|--------|--------|---------|-------|---------:|")?;
        let join = |set: &BTreeSet<String>| set.iter().map(|text| text.replace('|', "/")).collect::<Vec<_>>().join("; ");
        for row in &self.corpora {
            let (repositories, licences, classes) = (join(&row.repositories), join(&row.licences), join(&row.classes));
            writeln!(f, "| {} | {repositories} | {licences} | {classes} | {} |", row.name, row.segments)?;
        }
        Ok(())
    }
}

/// The languages with the lowest P@1 on FLORES, both directions together.
fn worst(report: &Report) -> Option<String> {
    let mut scores: Vec<(f64, &str)> = report
        .flores
        .as_ref()?
        .languages
        .iter()
        .map(|(code, score)| ((score.to_english + score.from_english) / 2.0, code.as_str()))
        .collect();
    scores.sort_by(|a, b| a.0.total_cmp(&b.0));
    let named = scores.iter().take(WORST).map(|(score, code)| {
        Language::parse(code).map_or_else(|| format!("{code} {score:.0}"), |language| format!("{} {score:.0}", language.name()))
    });
    Some(named.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "file\tcorpus\trepository\tlicence_class\tlicence\tsegments\n\
                         a.fr\tnews\torg/news\topen\tCC0\t10\n\
                         a.de\tnews\torg/news\topen\tCC0\t12\n\
                         b.fr\twords\torg/words\tresearch\tfree | research\t5\n";

    fn read(text: &str, used: impl Fn(&str) -> bool) -> Result<Vec<CorpusRow>, Error> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_corpora(file.path(), used)
    }

    #[test]
    fn files_of_a_corpus_are_one_row() {
        let rows = read(TABLE, |_| true).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].name.as_str(), rows[0].segments, rows[0].licences.len()), ("news", 22, 1));
    }

    #[test]
    fn a_corpus_that_was_not_used_is_not_named() {
        let rows = read(TABLE, |name| name != "words").unwrap();
        assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["news"]);
    }

    #[test]
    fn a_table_of_another_shape_is_refused() {
        for (text, expect) in [
            ("corpus\tlicence\n", "expected a column repository"),
            ("corpus\trepository\tlicence\tlicence_class\tsegments\nnews\torg\n", ":2: expected as many columns"),
            ("corpus\trepository\tlicence\tlicence_class\tsegments\nnews\torg\tCC0\topen\tmany\n", ":2: expected a number"),
        ] {
            let error = read(text, |_| true).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        }
    }

    #[test]
    fn a_card_names_sizes_data_and_recipe_and_says_what_was_not_measured() {
        let shape = EncoderShape {
            vocabulary: 48_000,
            dimension: 256,
            layers: 2,
            heads: 4,
            feed_forward: 1_024,
            tokens_max: 120,
            norm: Norm::Pre,
        };
        let card = Card {
            name: "tiny",
            version: "0.1.0",
            shape,
            parameters: 13_900_000,
            files: vec![("model.onnx", 14_200_000)],
            corpora: read(TABLE, |_| true).unwrap(),
            recipe: "seed = 1\n",
            parity: &[],
            report: None,
            evaluation_command: "",
        };
        let text = card.to_string();
        for part in [
            "# tiny 0.1.0",
            "13.9M parameters",
            "`model.onnx`: 14.2 MB",
            "| words | org/words | free / research | research | 5 |",
            "```toml\nseed = 1\n```",
            "Not measured.",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }
}
