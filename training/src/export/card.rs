//! The model card: what the model is, how to use it, how good it is, what it was made from, and its limits.

use std::collections::BTreeSet;
use std::fmt;

use dragoman::domain::Language;

use super::comparison::{Comparison, Measured};
use super::corpora::CorpusRow;
use super::origin::Imported;
use super::parity::Parity;
use super::weights::EncoderShape;
use crate::config::{Config, Norm, StageConfig};
use crate::eval::Report;

/// Number of languages that the card lists as the worst.
const WORST: usize = 8;

/// The content of the card. `Display` writes it as Markdown.
pub struct Card<'a> {
    /// Name of the bundle.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// Size of the encoder.
    pub shape: EncoderShape,
    /// Number of parameters.
    pub parameters: usize,
    /// Files and their bytes.
    pub files: Vec<(&'static str, u64)>,
    /// The training corpora.
    pub corpora: Vec<CorpusRow>,
    /// The origin of the weights, if they were not trained here.
    pub imported: Option<&'a Imported>,
    /// The section on language detection; empty without a language head.
    pub language_detection: String,
    /// The table of the training stages; empty for imported weights.
    pub training: String,
    /// Parity of the graphs with the trained encoder.
    pub parity: &'a [Parity],
    /// Quality, size and speed: of this bundle first, then of the models that it is compared with.
    pub measured: &'a [Measured],
    /// Additional text, as Markdown.
    pub notes: Option<&'a str>,
}

/// Returns the line for a file in a card's list of files.
pub(super) fn file_line(file: &str, bytes: u64) -> String {
    format!("- `{file}`: {:.1} MB", bytes as f64 / 1e6)
}

impl fmt::Display for Card<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = &self.shape;
        writeln!(f, "# {} {}\n", self.name, self.version)?;
        writeln!(
            f,
            "A sentence encoder for {} languages: texts with the same meaning have similar embeddings, whatever their language.\n\
             {}\n",
            Language::COUNT,
            match self.imported {
                Some(_) => "A checkpoint of EMS (2024), imported by Dragoman's training subproject.",
                None => "Made by Dragoman's training subproject, following EMS (2024).",
            }
        )?;
        let norm = match shape.norm {
            Norm::Pre => "before each sublayer",
            Norm::Post => "after each sublayer",
        };
        writeln!(f, "- {} values per embedding, at most {} tokens per text", shape.dimension, shape.tokens_max)?;
        writeln!(
            f,
            "- {} Transformer layers, {} heads, feed-forward {} with {}, normalization {norm}; {} token pieces; {:.1}M parameters",
            shape.layers,
            shape.heads,
            shape.feed_forward,
            shape.activation.name(),
            shape.vocabulary,
            self.parameters as f64 / 1e6
        )?;
        for (file, bytes) in &self.files {
            writeln!(f, "{}", file_line(file, *bytes))?;
        }
        self.usage(f)?;
        self.quality(f)?;
        f.write_str(&self.language_detection)?;
        self.exactness(f)?;
        self.data(f)?;
        match self.imported {
            Some(imported) => imported.fmt(f)?,
            None => write!(f, "\n## Training\n\n{}", self.training)?,
        }
        if let Some(notes) = self.notes {
            writeln!(f, "\n## Notes\n\n{}", notes.trim())?;
        }
        self.limits(f)
    }
}

/// The stages of a run as a table.
pub(super) fn stage_table(config: &Config) -> String {
    let mut table = String::from(
        "The complete configuration is `training.config` in `manifest.json`. Its stages:\n\n\
         | stage | steps | pairs per step | tokens per text | learning rate |\n|---|---:|---:|---:|---:|\n",
    );
    for stage in &config.stages {
        let StageConfig { name, steps, batch_pairs, tokens_max, learning_rate, .. } = stage;
        table.push_str(&format!("| {name} | {steps} | {batch_pairs} | {tokens_max} | {learning_rate} |\n"));
    }
    table
}

impl Card<'_> {
    fn usage(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n## Use\n\n    dragoman serve --model models/{}\n", self.name)?;
        writeln!(f, "The server embeds texts (`POST /v1/embeddings`) and searches with the model.")
    }

    fn quality(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n## Quality and speed\n")?;
        match self.report() {
            Some(report) => {
                writeln!(f, "Measured on int8 graphs through the server's text pipeline, with\n")?;
                writeln!(f, "    dragoman-train eval --bundle models/{} --data DEV\n", self.name)?;
                writeln!(f, "{}", Comparison(self.measured))?;
                write!(f, "{}", report.by_language())
            }
            None => {
                writeln!(f, "Quality was not measured.\n")?;
                write!(f, "{}", Comparison(self.measured))
            }
        }
    }

    /// The quality report of this bundle.
    fn report(&self) -> Option<&Report> {
        self.measured.first().and_then(|measured| measured.report.as_ref())
    }

    fn exactness(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n## Exactness of the graphs\n")?;
        writeln!(f, "Compared with the trained encoder in libtorch, in float32:\n")?;
        writeln!(f, "| graph | sentences | languages | minimum cosine | mean cosine | P@1 | P@1 of the reference |")?;
        writeln!(f, "|-------|----------:|----------:|---------------:|------------:|----:|---------------------:|")?;
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
        writeln!(f, "- Languages other than the {} get embeddings too, but with no promise of quality.", Language::COUNT)?;
        writeln!(f, "- Kurdish is Kurmanji in Latin script.")?;
        writeln!(f, "- Case is ignored: texts are converted to lower case first.")?;
        if let Some(worst) = self.report().and_then(worst) {
            writeln!(f, "- Quality varies widely between languages; the lowest on FLORES: {worst}.")?;
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
    use crate::config::Activation;
    use crate::eval::Speed;
    use crate::eval::flores::{FloresReport, WithEnglish};

    const SHAPE: EncoderShape = EncoderShape {
        vocabulary: 48_000,
        dimension: 256,
        layers: 2,
        heads: 4,
        feed_forward: 1_024,
        tokens_max: 120,
        norm: Norm::Pre,
        activation: Activation::Gelu,
    };

    fn card(measured: &[Measured]) -> Card<'_> {
        let set = |text: &str| BTreeSet::from([text.to_owned()]);
        let words = CorpusRow {
            name: "words".to_owned(),
            repositories: set("org/words"),
            licences: set("free | research"),
            classes: set("research"),
            segments: 5,
        };
        Card {
            name: "tiny",
            version: "0.1.0",
            shape: SHAPE,
            parameters: 13_900_000,
            files: vec![("model.onnx", 14_200_000)],
            corpora: vec![words],
            imported: None,
            language_detection: "\n## Language identification\n\nGood.\n".to_owned(),
            training: "One stage.\n".to_owned(),
            parity: &[],
            measured,
            notes: Some("Made in spring.\n"),
        }
    }

    fn measured(name: &str, report: Option<Report>) -> Measured {
        let speed = Speed { query_ms: 0.5, texts_per_second: 2_000.0, tokens_mean: 15.0 };
        Measured { name: name.to_owned(), parameters: Some(13_900_000), graph_bytes: 14_200_000, speed, report }
    }

    /// A report with French and Thai, where P@1 with English is `points` percent in both directions.
    fn report(points: f64) -> Report {
        let score = WithEnglish { to_english: points, from_english: points };
        let flores = FloresReport {
            sentences: 10,
            languages: ["fr", "th"].map(|code| (code.to_owned(), score)).into(),
            english_mean: points,
            other_mean: points / 2.0,
            other_pairs: 2,
            absent: Vec::new(),
        };
        Report { flores: Some(flores), ..Report::default() }
    }

    #[track_caller]
    fn check(text: &str, parts: &[&str]) {
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }

    #[test]
    fn a_card_lists_sizes_data_and_training_and_states_unmeasured_quality() {
        let text = card(&[measured("tiny 0.1.0", None)]).to_string();
        let parts = [
            "# tiny 0.1.0",
            "13.9M parameters",
            "`model.onnx`: 14.2 MB",
            "| words | org/words | free / research | research | 5 |",
            "Quality was not measured.",
            "\n## Language identification\n\nGood.\n\n## Exactness",
            "\n## Training\n\nOne stage.\n\n## Notes\n\nMade in spring.\n\n## Limits",
            "| one query of 20 tokens on one core, ms (median) | 0.500 |",
        ];
        check(&text, &parts);
    }

    #[test]
    fn a_card_compares_the_previous_bundle_and_the_baseline_by_language() {
        let all = [
            measured("tiny 0.2.0", Some(report(90.0))),
            measured("tiny 0.1.0", Some(report(80.0))),
            measured("bag of tokens", Some(report(70.0))),
        ];
        let text = card(&all).to_string();
        let parts = [
            "| int8 graphs | tiny 0.2.0 | tiny 0.1.0 | bag of tokens |",
            "| FLORES, P@1 to and from English | 90.00 | 80.00 | 70.00 |",
            "| FLORES, P@1 of pairs without English | 45.00 | 40.00 | 35.00 |",
            "| th Thai               |         90.0 |         90.0 |",
            "- FLORES, 2 ordered pairs without English: mean 45.00",
            "the lowest on FLORES: French 90, Thai 90.",
        ];
        check(&text, &parts);
    }
}
