//! Evaluates retrieval of texts without diacritics.

use dragoman::evaluation::{Embeddings, EvaluationError, SentenceEncoder};

use crate::data::strip_diacritics::without_diacritics;

/// Wraps an encoder and removes the diacritics of all texts before embedding them.
pub struct WithoutDiacritics<'e>(pub &'e mut dyn SentenceEncoder);

impl SentenceEncoder for WithoutDiacritics<'_> {
    fn encode(&mut self, texts: &[String]) -> Result<Embeddings, EvaluationError> {
        self.0.encode(&plain(texts))
    }

    fn encode_questions(&mut self, questions: &[String]) -> Result<Embeddings, EvaluationError> {
        self.0.encode_questions(&plain(questions))
    }

    fn late_scores(&mut self, questions: &[String], passages: &[String]) -> Result<Option<Vec<f32>>, EvaluationError> {
        self.0.late_scores(&plain(questions), &plain(passages))
    }
}

fn plain(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| without_diacritics(text).unwrap_or_else(|| text.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records the texts that it is asked to embed.
    struct Notes(Vec<String>);

    impl SentenceEncoder for Notes {
        fn encode(&mut self, texts: &[String]) -> Result<Embeddings, EvaluationError> {
            self.0.extend_from_slice(texts);
            Embeddings::normalized(vec![1.0; texts.len()], 1)
        }

        fn late_scores(&mut self, questions: &[String], passages: &[String]) -> Result<Option<Vec<f32>>, EvaluationError> {
            self.0.extend(questions.iter().chain(passages).cloned());
            Ok(Some(Vec::new()))
        }
    }

    #[test]
    fn diacritics_are_removed_before_texts_are_compared_token_by_token() {
        let mut notes = Notes(Vec::new());
        let [question, passage] = ["Où?", "Là-bas."].map(|text| [text.to_owned()]);
        assert_eq!(WithoutDiacritics(&mut notes).late_scores(&question, &passage).unwrap(), Some(Vec::new()));
        assert_eq!(notes.0, ["ou?", "la-bas."]);
    }

    #[test]
    fn diacritics_are_removed_before_a_text_is_embedded() {
        let mut notes = Notes(Vec::new());
        let texts = ["Çocuklar şarkı söylüyor.", "The children sing."].map(str::to_owned);
        assert_eq!(WithoutDiacritics(&mut notes).encode(&texts).unwrap().len(), 2);
        assert_eq!(notes.0, ["cocuklar sarki soyluyor.", "The children sing."]);
    }
}
