//! The origin of a bundle's weights: a training run, or files published by others.

use std::fmt;

use dragoman::bundle::Preprocessing;
use serde::Serialize;

use crate::config::Config;

/// Where weights come from.
#[derive(Debug, Clone, Copy)]
pub enum Origin<'a> {
    /// A training run with this configuration.
    Trained(&'a Config),
    /// The authors' files.
    Imported(&'a Imported),
}

/// What was imported, and under which terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The checkpoint.
    pub checkpoint: SourceFile,
    /// The SentencePiece model.
    pub sentencepiece: SourceFile,
    /// The license of both, as stated at import.
    pub licence: Option<String>,
    /// The preprocessing of texts before the tokenizer.
    pub preprocessing: Preprocessing,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceFile {
    /// Its name, without folders.
    pub name: String,
    /// Its content's SHA-256 in hexadecimal.
    pub sha256: String,
}

impl<'a> Origin<'a> {
    /// The imported files, if the weights were imported.
    pub fn imported(self) -> Option<&'a Imported> {
        match self {
            Self::Trained(_) => None,
            Self::Imported(imported) => Some(imported),
        }
    }

    /// The preprocessing of texts before the tokenizer; models trained here need none.
    pub fn preprocessing(self) -> Option<Preprocessing> {
        self.imported().map(|imported| imported.preprocessing)
    }
}

/// Writes the sections of a model card on the origin of the weights.
impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n## Source\n")?;
        writeln!(f, "Imported, not trained here. Those who published the weights say how they were made.\n")?;
        for (what, file) in [("weights", &self.checkpoint), ("pieces (SentencePiece)", &self.sentencepiece)] {
            writeln!(f, "- {what}: `{}`, SHA-256 `{}`", file.name, file.sha256)?;
        }
        match &self.licence {
            Some(licence) => writeln!(f, "- licence: {licence}")?,
            None => writeln!(f, "- licence: not stated at import; ask who published the files before passing the bundle on")?,
        }
        match self.preprocessing {
            Preprocessing::MosesJieba => write!(f, "{MOSES_JIEBA}"),
        }
    }
}

/// What a reader must know about `Preprocessing::MosesJieba`.
const MOSES_JIEBA: &str = "
## What differs from the original preprocessing

Texts are lowercased and segmented into words before SentencePiece, as in EMS (2024), section IV-B. The differences are:

- **The language of a text** is detected; the original is told it. The language decides between jieba, the Japanese
  dictionary and Moses, and how apostrophes are split (English; French and Italian; all others).
- **Japanese** is segmented with the dictionary of ICU4X, longest word first. The original uses Juman++, which segments
  into morphemes, so it separates verb endings more often. Expect results in Japanese to be somewhat worse than published.
- **Chinese** is segmented with jieba's dictionary and model by another program, which may differ in unknown words.
- **Moses**: the lists of abbreviations that keep their period are left out. In lower case they only decide at the end of a
  text and before a number.
- **Normalization** of SentencePiece is applied per grapheme, as Hugging Face's tokenizers do, not by the longest match.
- **Length**: embeddings have unit length here; the original does not normalize the mean. Cosines are the same.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(licence: Option<&str>) -> String {
        let file = |name: &str, sum: &str| SourceFile { name: name.to_owned(), sha256: sum.to_owned() };
        let (checkpoint, sentencepiece) = (file("m.pt", "aa"), file("p.model", "bb"));
        let licence = licence.map(str::to_owned);
        Imported { checkpoint, sentencepiece, licence, preprocessing: Preprocessing::MosesJieba }.to_string()
    }

    #[test]
    fn a_card_names_the_files_the_licence_and_the_differences() {
        let text = imported(Some("CC BY-NC 4.0"));
        for part in
            ["`m.pt`, SHA-256 `aa`", "`p.model`, SHA-256 `bb`", "licence: CC BY-NC 4.0", "Juman++", "ICU4X", "unit length"]
        {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }

    #[test]
    fn a_card_says_that_no_licence_was_stated() {
        let text = imported(None);
        assert!(text.contains("licence: not stated at import"), "{text}");
    }
}
