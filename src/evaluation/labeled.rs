//! Reads labeled texts for classification from three file formats into the same splits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::domain::Language;

use super::error::EvaluationError;
use super::lines;

/// A labeled text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The class.
    pub label: String,
    /// The text.
    pub text: String,
}

/// The splits of one language.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// To train on.
    pub train: Vec<Example>,
    /// For early stopping.
    pub dev: Vec<Example>,
    /// To test on.
    pub test: Vec<Example>,
}

/// A data set by language.
pub type Labeled = BTreeMap<Language, Parts>;

/// Reads SIB-200: `sib200.xx.tsv`, one text per line, `split<TAB>index<TAB>label<TAB>text` with the splits `train`, `dev` and
/// `test`. `dev` is for early stopping, and `test_part` is the test split.
pub fn read_sib200(folder: &Path, test_part: &str) -> Result<Labeled, EvaluationError> {
    let mut set = Labeled::new();
    for language in Language::all() {
        let path = folder.join(format!("sib200.{language}.tsv"));
        if !path.is_file() {
            continue;
        }
        let parts: &mut Parts = set.entry(language).or_default();
        for (number, [part, _, label, text]) in lines::rows(&path, ["part", "index", "label", "text"])?.into_iter().enumerate() {
            let example = Example { label, text };
            if part == test_part {
                parts.test.push(example.clone());
            }
            match part.as_str() {
                "train" => parts.train.push(example),
                "dev" => parts.dev.push(example),
                "test" => {}
                _ => return Err(lines::field_error(&path, number + 1, "part", "train, dev or test", &part)),
            }
        }
        if parts.test.is_empty() {
            let problem = format!("expected lines of the split {test_part}, got none");
            return Err(EvaluationError::Content { path, problem });
        }
    }
    Ok(set)
}

/// Reads MLDoc: `XX.train.1000`, `XX.dev` and `XX.test`, one document per line, `label<TAB>text`. XX is the language code or
/// its English name in lower case. A language without training files can still be a test language.
pub fn read_mldoc(folder: &Path) -> Result<Labeled, EvaluationError> {
    let mut set = Labeled::new();
    for language in Language::all() {
        for name in [language.code().to_owned(), language.name().to_lowercase()] {
            let path = |part: &str| folder.join(format!("{name}.{part}"));
            if path("test").is_file() {
                let parts = Parts {
                    train: read_if_exists(path("train.1000"))?,
                    dev: read_if_exists(path("dev"))?,
                    test: read_examples(&path("test"))?,
                };
                set.insert(language, parts);
            }
        }
    }
    Ok(set)
}

/// Reads one product of CLS: `XX.PRODUCT.train` and `XX.PRODUCT.test`, one review per line, `label<TAB>text`. There is no dev
/// split, so the test split of the training language is used for early stopping.
pub fn read_cls(folder: &Path, product: &str) -> Result<Labeled, EvaluationError> {
    let mut set = Labeled::new();
    for language in Language::all() {
        let path = |part: &str| folder.join(format!("{language}.{product}.{part}"));
        if path("test").is_file() {
            let test = read_examples(&path("test"))?;
            set.insert(language, Parts { train: read_if_exists(path("train"))?, dev: test.clone(), test });
        }
    }
    Ok(set)
}

fn read_if_exists(path: PathBuf) -> Result<Vec<Example>, EvaluationError> {
    if path.is_file() { read_examples(&path) } else { Ok(Vec::new()) }
}

/// Reads labels and texts. Additional tabs belong to the text.
fn read_examples(path: &Path) -> Result<Vec<Example>, EvaluationError> {
    let mut examples = Vec::new();
    for (number, line) in lines::sentences(path)?.iter().enumerate() {
        let wrong = |got: &str| lines::field_error(path, number + 1, "line", "label<TAB>text", got);
        let (label, text) = line.split_once('\t').ok_or_else(|| wrong("no tab"))?;
        if label.trim().is_empty() || text.trim().is_empty() {
            return Err(wrong("a blank label or text"));
        }
        examples.push(Example { label: label.to_owned(), text: text.to_owned() });
    }
    Ok(examples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::test_encoders::with_files;

    fn labels(examples: &[Example]) -> Vec<&str> {
        examples.iter().map(|example| example.label.as_str()).collect()
    }

    fn language(code: &str) -> Language {
        Language::parse(code).unwrap()
    }

    #[test]
    fn sib200_has_all_parts_of_a_language_in_one_file() {
        let french =
            "train\t0\tsports\tElle a gagné le match.\ndev\t1\ttravel\tLe train part à midi.\ntest\t2\thealth\tIl est guéri.\n";
        let set = with_files(&[("sib200.fr.tsv", french)], |folder| read_sib200(folder, "dev")).unwrap();
        let parts = &set[&language("fr")];
        assert_eq!([labels(&parts.train), labels(&parts.dev), labels(&parts.test)], [["sports"], ["travel"], ["travel"]]);
        assert_eq!(parts.train[0].text, "Elle a gagné le match.");
        let set = with_files(&[("sib200.fr.tsv", french)], |folder| read_sib200(folder, "test")).unwrap();
        assert_eq!(labels(&set[&language("fr")].test), ["health"]);
    }

    #[test]
    fn mldoc_file_names_use_language_codes_or_english_names() {
        let files = [
            ("german.train.1000", "CCAT\tDer Gewinn stieg.\n"),
            ("german.dev", "ECAT\tDie Preise fielen.\n"),
            ("german.test", "GCAT\tEs regnet.\tViel.\n"),
            ("ru.test", "MCAT\tРынок вырос.\n"),
        ];
        let set = with_files(&files, read_mldoc).unwrap();
        let german = &set[&language("de")];
        assert_eq!([labels(&german.train), labels(&german.dev), labels(&german.test)], [["CCAT"], ["ECAT"], ["GCAT"]]);
        assert_eq!(german.test[0].text, "Es regnet.\tViel.");
        assert!(set[&language("ru")].train.is_empty() && set.len() == 2);
    }

    #[test]
    fn cls_uses_the_test_split_of_a_training_language_as_its_dev_split() {
        let files = [
            ("en.books.train", "negative\tDull.\n"),
            ("en.books.test", "positive\tA joy.\n"),
            ("en.dvd.test", "negative\tNo.\n"),
        ];
        let set = with_files(&files, |folder| read_cls(folder, "books")).unwrap();
        let english = &set[&language("en")];
        assert_eq!(
            [labels(&english.train), labels(&english.dev), labels(&english.test)],
            [["negative"], ["positive"], ["positive"]]
        );
    }
}
