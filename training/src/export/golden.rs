//! The golden texts: two sentences in each of the 62 languages, `training/golden.tsv`, written for this project. A bundle
//! contains their token ids and embeddings, so that any server can verify that it computes the same as the trainer.

use std::collections::BTreeMap;

use dragoman::bundle::GoldenText;
use dragoman::domain::Language;
use dragoman::text::Tokenizer;

use crate::error::Error;
use crate::eval::encoder::tokenize;
use crate::eval::{OnnxEncoder, TokenEncoder};

const GOLDEN: &str = include_str!("../../golden.tsv");
/// Number of leading values stored per embedding.
const STORED_VALUES: usize = 8;

/// The golden texts by language, aligned: the same index is the same sentence.
pub fn by_language() -> BTreeMap<Language, Vec<String>> {
    let row = |line: &str| {
        let mut columns = line.split('\t');
        let language = Language::parse(columns.next()?)?;
        Some((language, columns.map(str::to_owned).collect()))
    };
    GOLDEN.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
}

/// All golden texts.
pub fn texts() -> Vec<String> {
    by_language().into_values().flatten().collect()
}

/// The output of `encoder`, the int8 graph, for the golden texts.
pub fn golden_texts(tokenizer: &Tokenizer, tokens_max: usize, encoder: &mut OnnxEncoder) -> Result<Vec<GoldenText>, Error> {
    let (mut languages, mut texts) = (Vec::new(), Vec::new());
    for (language, sentences) in by_language() {
        languages.extend(sentences.iter().map(|_| language));
        texts.extend(sentences);
    }
    let ids = tokenize(tokenizer, &texts, tokens_max)?;
    let embeddings = encoder.embed(&ids)?;
    let rows = languages.into_iter().zip(texts).zip(ids).zip(embeddings.rows());
    let golden = rows.map(|(((language, text), ids), embedding)| GoldenText {
        language: language.code().to_owned(),
        text,
        ids,
        embedding_head: embedding.iter().copied().take(STORED_VALUES).collect(),
    });
    Ok(golden.collect())
}

/// A JSON array with one text per line.
pub fn to_json(golden: &[GoldenText]) -> serde_json::Result<String> {
    let lines: Result<Vec<String>, _> = golden.iter().map(serde_json::to_string).collect();
    Ok(format!("[\n{}\n]\n", lines?.join(",\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_two_sentences() {
        let golden = by_language();
        assert_eq!(golden.len(), Language::COUNT);
        for (language, sentences) in golden {
            assert_eq!(sentences.len(), 2, "{language}");
            assert!(sentences.iter().all(|sentence| !sentence.trim().is_empty()), "{language}");
        }
    }

    #[test]
    fn json_has_one_text_per_line_and_round_trips() {
        let text = |text: &str| GoldenText {
            language: "en".to_owned(),
            text: text.to_owned(),
            ids: vec![3, 4],
            embedding_head: vec![0.5, -0.25],
        };
        let golden = vec![text("a \"quoted\" word"), text("line\nbreak")];
        let json = to_json(&golden).unwrap();
        assert_eq!(json.lines().count(), 4);
        assert_eq!(serde_json::from_str::<Vec<GoldenText>>(&json).unwrap(), golden);
    }
}
