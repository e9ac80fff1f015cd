//! Texts that a job itself embeds: those of the request, or sentences split from a collection's documents.

use sha2::{Digest as _, Sha256};

use super::split_sentences::SplitSentence;
use crate::domain::{CollectionId, Language, MinedSentence};
use crate::mining::TextGroups;
use crate::service::error::Error;
use crate::service::jobs::JobError;

/// The first character of what takes the place of a blank text.
pub(crate) const BLANK: char = '\0';
/// The bit of a `caseless_hash` that is set for numbers and codes.
pub(crate) const CODE: u64 = 1;
/// Number of texts between two checks for cancellation.
const TEXTS_PER_CHECK: usize = 1_024;

#[derive(PartialEq, Eq)]
pub(crate) enum Texts {
    /// The texts of the request.
    List(Vec<String>),
    /// Sentences split from a collection's documents.
    Cut { collection: CollectionId, sentences: Vec<SplitSentence> },
}

impl Texts {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::List(texts) => texts.len(),
            Self::Cut { sentences, .. } => sentences.len(),
        }
    }

    pub(crate) fn text(&self, position: usize) -> &str {
        match self {
            Self::List(texts) => &texts[position],
            Self::Cut { sentences, .. } => &sentences[position].sentence.text,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::List(texts) => texts.iter().map(|text| (text.len() + size_of::<String>()) as u64).sum(),
            Self::Cut { sentences, .. } => sentences.iter().map(SplitSentence::bytes).sum(),
        }
    }

    /// Groups equal texts. `check_canceled` fails if the job should stop. `record` receives the document and the language of
    /// each sentence of a collection.
    pub(crate) fn groups(
        &self,
        equal: EqualTexts,
        check_canceled: impl Fn() -> Result<(), JobError>,
        mut record: impl FnMut(i64, Option<Language>),
    ) -> Result<Option<TextGroups>, JobError> {
        if let Self::Cut { sentences, .. } = self {
            for some in sentences.chunks(TEXTS_PER_CHECK) {
                check_canceled()?;
                some.iter().for_each(|sentence| record(sentence.document, sentence.sentence.language));
            }
        }
        Ok(groups(equal, (0..self.len()).map(|position| self.text(position)))?)
    }

    pub(crate) fn shares_collection_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cut { collection: one, .. }, Self::Cut { collection: other, .. }) => one == other,
            _ => false,
        }
    }

    /// Whether a position in these texts and one in others are the same sentence of a document.
    pub(crate) fn is_same(&self, position: usize, other: &Self, other_position: usize) -> bool {
        match (self, other) {
            (Self::Cut { sentences: ones, .. }, Self::Cut { sentences: others, .. }) if self.shares_collection_with(other) => {
                let (one, other) = (&ones[position], &others[other_position]);
                (one.document, one.sentence.start) == (other.document, other.sentence.start)
            }
            _ => false,
        }
    }

    /// Returns the sentence at a position in the form that results show.
    pub(crate) fn mined_sentence(&self, position: usize) -> MinedSentence {
        match self {
            Self::List(texts) => {
                MinedSentence { id: position.to_string(), language: None, text: texts[position].clone(), start: None, end: None }
            }
            Self::Cut { sentences, .. } => sentences[position].sentence.clone(),
        }
    }
}

/// What a job does with equal texts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EqualTexts {
    /// Whether equal texts of a side count as one sentence.
    pub(crate) deduplicate: bool,
    /// Whether identical texts are never a pair, because an untranslated copy is no translation.
    pub(crate) skip_identical: bool,
}

/// Returns a hash that texts share if they are equal apart from case and the white space around them; 0 for a blank text. If
/// only one of two such texts counts as a code, such as `ISO 9001` and `iso 9001`, their hashes differ only in the bit
/// `CODE`.
pub(crate) fn caseless_hash(text: &str) -> u64 {
    let text = text.trim();
    if text.is_empty() || text.starts_with(BLANK) {
        return 0;
    }
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&Sha256::digest(text.to_lowercase())[..8]);
    (u64::from_le_bytes(bytes) & !CODE) | u64::from(is_number_or_code(text))
}

/// Whether a text consists of numbers, dates, codes and signs, which are written alike in most languages: it has no letters,
/// or only ASCII letters and at least one digit, and each of its words with lower-case letters has a digit too.
fn is_number_or_code(text: &str) -> bool {
    let has_digit = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    let mut letters = text.chars().filter(|char| char.is_alphabetic()).peekable();
    letters.peek().is_none()
        || letters.all(|letter| letter.is_ascii())
            && has_digit(text)
            && text.split_whitespace().all(|word| has_digit(word) || !word.bytes().any(|byte| byte.is_ascii_lowercase()))
}

/// Groups equal texts. If each counts separately, still reads all texts and returns `None`.
pub(crate) fn groups<T: AsRef<str>>(equal: EqualTexts, texts: impl Iterator<Item = T>) -> Result<Option<TextGroups>, Error> {
    if equal.deduplicate {
        return Ok(Some(TextGroups::of(texts)?));
    }
    texts.for_each(drop);
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_dates_and_codes_are_distinguished_from_texts_with_words() {
        for text in ["12345", "2024-05-01", "٣٤٥", "10 %", "🙂", "AB-1234", "ISO 9001", "img_001.jpg", "B2", "-"] {
            assert!(is_number_or_code(text) && caseless_hash(text) & CODE == CODE, "{text}");
        }
        for text in ["Berlin", "OK", "12:30 Uhr", "chapter 2", "3月5日", "Ä1", "А4 и А5"] {
            assert!(!is_number_or_code(text) && caseless_hash(text) & CODE == 0, "{text}");
        }
        assert_eq!(caseless_hash("ISO 9001"), caseless_hash("iso 9001") | CODE);
    }

    #[test]
    fn texts_share_a_hash_whatever_their_case_and_the_space_around_them() {
        let same = |one: &str, other: &str| caseless_hash(one) == caseless_hash(other);
        assert!(same("Bonn", " BONN\n") && same("Ärger Ω", "ärger ω\u{3000}"));
        assert!(!same("Bonn", "Bonn.") && !same("a b", "ab"));
        assert_eq!(["", " \t", "\x007"].map(caseless_hash), [0; 3]);
    }
}
