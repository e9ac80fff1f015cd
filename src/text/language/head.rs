//! The language head, a linear classifier over a bundle's tokens: multinomial logistic regression.
//!
//! Its features are a text's tokens that have letters, and the pairs of neighboring tokens of one word, hashed into a small
//! table of rows. Pairs matter because a word that the tokenizer splits often says more than its pieces. Each feature has a
//! weight per language. The score of a language is the sum of its weights, divided by the number of features to the power of
//! the exponent, and by the temperature. Softmax over the scores gives the probabilities. A row that no training text had has
//! the scale 0 and does not count.
//!
//! The file `language.head`, all numbers little-endian: 8 bytes `DRAGOLID`; u32 version; u32 languages; u32 vocabulary; u32
//! rows for pairs; f32 exponent; f32 temperature; per language 4 bytes of its code, padded with zeros; per token a byte: 0
//! without letters, 1 at a word's start, 2 within a word; per row (tokens, then pairs) an f32 scale; per row one i8 per
//! language. A weight is its byte times its row's scale.

use std::path::Path;

use crate::domain::{DetectedLanguage, Language};
use crate::text::{TextError, Tokenizer};

const MAGIC: &[u8; 8] = b"DRAGOLID";
const VERSION: u32 = 1;
/// Bytes before the codes.
const HEADER_BYTES: usize = 32;
const CODE_BYTES: usize = 4;
/// More languages or tokens than this mean a damaged file.
const LANGUAGES_MAX: usize = 4_096;
const ROWS_MAX: usize = 1 << 24;

/// The weights of a head, each row with its scale.
#[derive(Debug, Clone, PartialEq)]
pub struct LanguageHead {
    /// The languages of the columns.
    pub languages: Vec<Language>,
    /// The power of the number of features that a sum of weights is divided by: 0 for a sum, 1 for a mean.
    pub exponent: f32,
    /// Divides scores before softmax, so that a confidence of 0.8 is correct four times in five.
    pub temperature: f32,
    /// The kinds of the tokens.
    pub features: Features,
    /// The scale of each row. 0 for a row without information.
    pub scales: Vec<f32>,
    /// [rows, languages]
    pub weights: Vec<i8>,
}

/// The result of a head for a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeadPrediction {
    /// The most likely language and its probability.
    pub detected: DetectedLanguage,
    /// The mean weight of the features for this language, divided by the temperature.
    pub support: f32,
    /// Number of tokens and pairs that count.
    pub counted: usize,
}

/// Maps token ids to the rows that count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// The kind of each token of the vocabulary.
    pub kinds: Vec<TokenKind>,
    /// Number of rows that pairs are hashed into. With 0, pairs are not used.
    pub pairs: usize,
}

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// It has no letters and does not count.
    Silent = 0,
    /// It is the start of a word.
    Start = 1,
    /// It continues a word.
    Within = 2,
}

impl Features {
    /// Reads the tokens of `tokenizer`.
    pub fn new(tokenizer: &Tokenizer, pairs: usize) -> Self {
        let kind = |id: usize| {
            let piece = tokenizer.token(id as u32).unwrap_or_default();
            match piece.strip_prefix('▁') {
                _ if piece.starts_with(['<', '[']) || !piece.contains(char::is_alphabetic) => TokenKind::Silent,
                Some(_) => TokenKind::Start,
                None => TokenKind::Within,
            }
        };
        Self { kinds: (0..tokenizer.vocabulary_size()).map(kind).collect(), pairs }
    }

    /// Returns the number of rows of tokens and pairs.
    pub fn rows(&self) -> usize {
        self.kinds.len() + self.pairs
    }

    /// Returns the rows of a text with these token ids: each token that counts, followed by its pair with the previous token of
    /// the word. An id outside the vocabulary does not count.
    pub fn of(&self, ids: &[u32]) -> Vec<u32> {
        let mut rows = Vec::with_capacity(2 * ids.len());
        let mut before = None;
        for &id in ids {
            let kind = self.kinds.get(id as usize).copied().unwrap_or(TokenKind::Silent);
            if kind == TokenKind::Silent {
                before = None;
                continue;
            }
            rows.push(id);
            if let (TokenKind::Within, Some(before)) = (kind, before) {
                rows.extend(self.pair(before, id));
            }
            before = Some(id);
        }
        rows
    }

    /// Returns the row of a pair, by Fibonacci hashing of both ids.
    fn pair(&self, first: u32, second: u32) -> Option<u32> {
        let mixed = (u64::from(first) << 32 | u64::from(second)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let row = (mixed >> 32).checked_rem(self.pairs as u64)?;
        Some((self.kinds.len() as u64 + row) as u32)
    }
}

impl LanguageHead {
    /// Reads a head's file.
    pub fn load(path: &Path) -> Result<Self, TextError> {
        let bytes = std::fs::read(path).map_err(|source| TextError::File { path: path.to_owned(), source })?;
        Self::from_bytes(&bytes).map_err(|problem| TextError::LanguageHead { path: path.to_owned(), problem })
    }

    /// Reads the output of `to_bytes`, or returns what is wrong with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() < HEADER_BYTES || bytes[..8] != *MAGIC {
            return Err("it does not begin with the mark of a language head".to_owned());
        }
        let word = |index: usize| [bytes[index], bytes[index + 1], bytes[index + 2], bytes[index + 3]];
        let number = |index: usize| u32::from_le_bytes(word(index));
        let real = |index: usize| f32::from_le_bytes(word(index));
        if number(8) != VERSION {
            return Err(format!("its format is {}, but this program supports {VERSION}", number(8)));
        }
        let (languages, vocabulary, pairs) = (number(12) as usize, number(16) as usize, number(20) as usize);
        if languages == 0 || vocabulary == 0 || languages > LANGUAGES_MAX || vocabulary.max(pairs) > ROWS_MAX {
            return Err(format!("it has {languages} languages, {vocabulary} tokens and {pairs} rows for pairs"));
        }
        let rows = vocabulary + pairs;
        let kinds_at = HEADER_BYTES + CODE_BYTES * languages;
        let scales_at = kinds_at + vocabulary;
        let weights_at = scales_at + 4 * rows;
        let expected = weights_at + rows * languages;
        if bytes.len() != expected {
            return Err(format!("expected {expected} bytes, got {}", bytes.len()));
        }
        let codes = bytes[HEADER_BYTES..kinds_at].chunks_exact(CODE_BYTES);
        let kinds = bytes[kinds_at..scales_at].iter().map(|&byte| kind(byte)).collect::<Result<_, _>>()?;
        let head = Self {
            languages: codes.map(language).collect::<Result<_, _>>()?,
            exponent: real(24),
            temperature: real(28),
            features: Features { kinds, pairs },
            scales: (0..rows).map(|row| real(scales_at + 4 * row)).collect(),
            weights: bytes[weights_at..].iter().map(|&byte| byte as i8).collect(),
        };
        head.check()?;
        Ok(head)
    }

    /// Returns the file's content.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for number in [VERSION, self.languages.len() as u32, self.vocabulary() as u32, self.features.pairs as u32] {
            bytes.extend(number.to_le_bytes());
        }
        for number in [self.exponent, self.temperature] {
            bytes.extend(number.to_le_bytes());
        }
        for language in &self.languages {
            let mut code = language.code().as_bytes().to_vec();
            code.resize(CODE_BYTES, 0);
            bytes.extend(code);
        }
        bytes.extend(self.features.kinds.iter().map(|&kind| kind as u8));
        bytes.extend(self.scales.iter().flat_map(|scale| scale.to_le_bytes()));
        bytes.extend(self.weights.iter().map(|&weight| weight as u8));
        bytes
    }

    /// Returns the number of tokens that have a row.
    pub fn vocabulary(&self) -> usize {
        self.features.kinds.len()
    }

    /// Returns the most likely language of a text with these token ids, and its probability. `None` if none of the tokens
    /// counts.
    pub fn detect(&self, ids: &[u32]) -> Option<DetectedLanguage> {
        self.predict(ids).map(|found| found.detected)
    }

    /// Like `detect`, but also returns the strength of the evidence, which shows whether the text is in any of the languages.
    pub fn predict(&self, ids: &[u32]) -> Option<HeadPrediction> {
        let (sums, counted) = self.sums(&self.features.of(ids))?;
        let divisor = self.divisor(counted);
        let best = (0..sums.len()).max_by(|&a, &b| sums[a].total_cmp(&sums[b]))?;
        let sum: f32 = sums.iter().map(|score| ((score - sums[best]) / divisor).exp()).sum();
        let detected = DetectedLanguage { language: self.languages[best], confidence: (1.0 / sum).clamp(0.0, 1.0) };
        Some(HeadPrediction { detected, support: self.mean(sums[best], counted), counted })
    }

    /// Returns the mean weight for a language of the features of a text with these token ids, divided by the temperature.
    /// `None` if none of the tokens counts, or if the head does not know the language.
    pub fn support(&self, ids: &[u32], language: Language) -> Option<f32> {
        let index = self.languages.iter().position(|known| *known == language)?;
        let (sums, counted) = self.sums(&self.features.of(ids))?;
        Some(self.mean(sums[index], counted))
    }

    /// Returns the score of each language before softmax. `None` if none of the tokens counts.
    pub fn scores(&self, ids: &[u32]) -> Option<Vec<f32>> {
        self.scores_of_rows(&self.features.of(ids))
    }

    /// Returns the scores of a text from the rows that count.
    pub fn scores_of_rows(&self, rows: &[u32]) -> Option<Vec<f32>> {
        let (mut scores, counted) = self.sums(rows)?;
        let divisor = self.divisor(counted);
        scores.iter_mut().for_each(|score| *score /= divisor);
        Some(scores)
    }

    /// Returns the sum of the weights for each language, and the number of rows that have weights. `None` if none has.
    fn sums(&self, rows: &[u32]) -> Option<(Vec<f32>, usize)> {
        let width = self.languages.len();
        let mut sums = vec![0.0_f32; width];
        let mut counted = 0;
        for &row in rows {
            let scale = self.scales.get(row as usize).copied().unwrap_or(0.0);
            if scale == 0.0 {
                continue;
            }
            counted += 1;
            let weights = &self.weights[row as usize * width..][..width];
            for (sum, &weight) in sums.iter_mut().zip(weights) {
                *sum += scale * f32::from(weight);
            }
        }
        (counted > 0).then_some((sums, counted))
    }

    /// Returns the divisor for sums of this many rows.
    fn divisor(&self, counted: usize) -> f32 {
        (counted as f32).powf(self.exponent) * self.temperature
    }

    fn mean(&self, sum: f32, counted: usize) -> f32 {
        sum / (counted as f32 * self.temperature)
    }

    /// Rejects numbers that no training produces.
    fn check(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.exponent) {
            return Err(format!("expected an exponent between 0 and 1, got {}", self.exponent));
        }
        if !(self.temperature.is_finite() && self.temperature > 0.0) {
            return Err(format!("expected a temperature above 0, got {}", self.temperature));
        }
        match self.scales.iter().position(|scale| !(scale.is_finite() && *scale >= 0.0)) {
            Some(row) => Err(format!("expected a scale of 0 or more for row {row}, got {}", self.scales[row])),
            None => Ok(()),
        }
    }
}

fn language(code: &[u8]) -> Result<Language, String> {
    let text = String::from_utf8_lossy(code);
    let code = text.trim_end_matches('\0');
    Language::parse(code).ok_or_else(|| format!("it lists the unknown language {code:?}"))
}

fn kind(byte: u8) -> Result<TokenKind, String> {
    match byte {
        0 => Ok(TokenKind::Silent),
        1 => Ok(TokenKind::Start),
        2 => Ok(TokenKind::Within),
        _ => Err(format!("expected a token's kind of 0 to 2, got {byte}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A head of two languages with four tokens and one row for pairs. The third token has no letters, and the fourth continues
    /// a word.
    fn head() -> LanguageHead {
        let languages = ["de", "fr"].into_iter().filter_map(Language::parse).collect();
        let kinds = vec![TokenKind::Start, TokenKind::Start, TokenKind::Silent, TokenKind::Within];
        LanguageHead {
            languages,
            exponent: 0.5,
            temperature: 2.0,
            features: Features { kinds, pairs: 1 },
            scales: vec![0.5, 0.25, 0.0, 1.0, 0.125],
            weights: vec![4, 0, -8, 8, 0, 0, 1, 2, 80, 0],
        }
    }

    #[test]
    fn scores_are_normalized_by_token_count_and_temperature() {
        // Token 0 is (2, 0) and token 1 is (-2, 2). Token 0 three times and token 1 once give the sums (4, 2). The divisor is
        // the root of 4 tokens times the temperature of 2: 4.
        assert_eq!(head().scores(&[0, 0, 0, 1]), Some(vec![1.0, 0.5]));
    }

    #[test]
    fn a_token_within_a_word_also_adds_its_pair() {
        assert_eq!(head().features.of(&[1, 3, 3, 0]), [1, 3, 4, 3, 4, 0]);
        // After a token without letters, or at the very start, there is nothing to pair with.
        assert_eq!(head().features.of(&[1, 2, 3]), [1, 3]);
        assert_eq!(head().features.of(&[3]), [3]);
        // (2, 0), (1, 2) and the pair (10, 0) give the sums (13, 2) of three rows. The divisor is 2 times the root of 3.
        let scores = head().scores(&[0, 3]).expect("scores");
        assert!((scores[0] - 13.0 / 12.0_f32.sqrt()).abs() < 1e-5 && (scores[1] - 2.0 / 12.0_f32.sqrt()).abs() < 1e-5);
    }

    #[test]
    fn a_head_without_pair_rows_adds_no_pairs() {
        let features = Features { pairs: 0, ..head().features };
        assert_eq!(features.of(&[1, 3]), [1, 3]);
    }

    #[test]
    fn pairs_depend_on_token_order() {
        let features = Features { pairs: 1 << 16, kinds: vec![TokenKind::Within; 9] };
        assert_ne!(features.of(&[4, 7])[2], features.of(&[7, 4])[2]);
    }

    #[test]
    fn confidence_is_the_softmax_of_the_best_score() {
        // One token (2, 0), divided by 1 and by 2, gives the scores (1, 0), and e / (e + 1) = 0.731059.
        let found = head().detect(&[0]).expect("a language");
        assert_eq!(found.language.code(), "de");
        assert!((found.confidence - 0.731_059).abs() < 1e-5, "{}", found.confidence);
    }

    #[test]
    fn tokens_without_letters_are_ignored() {
        assert_eq!(head().detect(&[0, 2, 2, 2]), head().detect(&[0]));
        assert_eq!(head().detect(&[2, 2]), None);
        assert_eq!(head().detect(&[99]), None);
    }

    #[test]
    fn a_head_round_trips() {
        assert_eq!(LanguageHead::from_bytes(&head().to_bytes()), Ok(head()));
    }

    #[track_caller]
    fn check_refused(change: impl Fn(&mut Vec<u8>), expect: &str) {
        let mut bytes = head().to_bytes();
        change(&mut bytes);
        let problem = LanguageHead::from_bytes(&bytes).expect_err("a damaged file");
        assert!(problem.contains(expect), "{problem}");
    }

    #[test]
    fn a_damaged_file_is_refused_with_the_reason() {
        check_refused(|bytes| bytes.clear(), "does not begin");
        check_refused(|bytes| bytes[0] = b'X', "does not begin");
        check_refused(|bytes| bytes[8] = 9, "its format is 9, but this program supports 1");
        // 32 bytes of header, 2 codes of 4, 4 kinds, 5 scales of 4, 5 rows of 2.
        check_refused(|bytes| bytes.truncate(73), "expected 74 bytes, got 73");
        check_refused(|bytes| bytes[12] = 0, "it has 0 languages, 4 tokens and 1 rows for pairs");
        check_refused(|bytes| bytes[32..34].copy_from_slice(b"xx"), "the unknown language \"xx\"");
        check_refused(|bytes| bytes[40] = 3, "a token's kind of 0 to 2, got 3");
        check_refused(|bytes| bytes[24..28].copy_from_slice(&1.5_f32.to_le_bytes()), "an exponent between 0 and 1, got 1.5");
        check_refused(|bytes| bytes[28..32].copy_from_slice(&0.0_f32.to_le_bytes()), "a temperature above 0, got 0");
        check_refused(|bytes| bytes[44..48].copy_from_slice(&f32::NAN.to_le_bytes()), "for row 0, got NaN");
    }
}
