//! A deterministic fake encoder. It hashes character n-grams, so equal texts get equal embeddings and similar texts get similar
//! ones. It uses the same queue as the real encoder.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::EmbedError;
use super::queue::{Encode, QueueBounds};
use super::text_reader::TextReader;
use crate::domain::{Device, Embedding, Language, ModelInfo};
use crate::text::{TextError, Tokenize, Tokens};

#[derive(Debug, Clone)]
pub struct FakeOptions {
    pub dimension: usize,
    /// Maximum tokens per text. A token is a word, or a character in scripts without spaces. The default is small, so that even
    /// short texts are split.
    pub tokens_max: usize,
    /// Maximum of a batch's number of texts times the tokens of its longest text.
    pub batch_tokens_max: usize,
    pub queue_texts_max: usize,
}

impl FakeOptions {
    /// Returns the defaults with this dimension.
    pub fn of(dimension: usize) -> Self {
        Self { dimension, tokens_max: 16, batch_tokens_max: 1_024, queue_texts_max: 20_000 }
    }

    pub(super) fn bounds(&self) -> QueueBounds {
        QueueBounds { batch_tokens_max: self.batch_tokens_max, texts_max: self.queue_texts_max }
    }

    pub(super) fn model(&self) -> ModelInfo {
        ModelInfo {
            name: "fake".to_owned(),
            version: "0.0.0".to_owned(),
            fingerprint: format!("fake-{}", self.dimension),
            dimension: self.dimension,
            tokens_max: self.tokens_max,
            languages: Language::all().collect(),
            device: Device::Cpu,
            device_note: None,
            quality: Vec::new(),
        }
    }
}

/// Runs before each batch, with the words of each of its texts. A test may wait in it, panic, or make the batch fail.
pub type BeforeBatch = Box<dyn Fn(&[Vec<String>]) -> Result<(), EmbedError> + Send>;

/// The words that the fake encoder has seen. Each word gets its number when it is first used; other processes may number it
/// differently.
#[derive(Default)]
struct Vocabulary {
    words: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Vocabulary {
    /// Returns the number of a word in a text. Ignores punctuation at both ends of the word.
    fn number_of(&mut self, word: &str) -> u32 {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        self.number(&if bare.is_empty() { word } else { bare }.to_lowercase())
    }

    fn number(&mut self, word: &str) -> u32 {
        if let Some(&number) = self.numbers.get(word) {
            return number;
        }
        let number = self.words.len() as u32;
        self.words.push(word.to_owned());
        self.numbers.insert(word.to_owned(), number);
        number
    }
}

type SharedVocabulary = Arc<Mutex<Vocabulary>>;

pub(super) struct FakeEncoder {
    vocabulary: SharedVocabulary,
    dimension: usize,
    before_batch: BeforeBatch,
}

/// Creates both parts, which share a vocabulary.
pub(super) fn make(options: &FakeOptions, before_batch: BeforeBatch) -> (TextReader, FakeEncoder) {
    let vocabulary = SharedVocabulary::default();
    let tokenizer = Box::new(Arc::clone(&vocabulary));
    let text = TextReader { tokenizer, tokens_max: options.tokens_max };
    (text, FakeEncoder { vocabulary, dimension: options.dimension, before_batch })
}

/// The fake tokenizer.
impl Tokenize for SharedVocabulary {
    fn encode(&self, text: &str, tokens_max: usize) -> Result<Tokens, TextError> {
        let words = words(text);
        let mut vocabulary = self.lock();
        let mut ids: Vec<u32> = words.iter().take(tokens_max).map(|range| vocabulary.number_of(&text[range.clone()])).collect();
        if ids.is_empty() {
            ids.push(vocabulary.number("<unk>"));
        }
        Ok(Tokens { ids, truncated: words.len() > tokens_max })
    }

    fn pieces(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TextError> {
        let mut vocabulary = self.lock();
        Ok(words(text).into_iter().map(|range| (vocabulary.number_of(&text[range.clone()]), range)).collect())
    }
}

impl Encode for FakeEncoder {
    fn encode(&mut self, batch: &[Tokens]) -> Result<Vec<Option<Embedding>>, EmbedError> {
        let vocabulary = self.vocabulary.lock();
        let words = |text: &Tokens| text.ids.iter().map(|&id| vocabulary.words[id as usize].clone()).collect();
        let batch: Vec<Vec<String>> = batch.iter().map(words).collect();
        drop(vocabulary);
        (self.before_batch)(&batch)?;
        Ok(batch.iter().map(|words| Some(embed(words, self.dimension))).collect())
    }
}

/// Returns the byte ranges of the words. White space separates words; in scripts without spaces, each character is a word.
fn words(text: &str) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut open = false;
    for (start, c) in text.char_indices() {
        let end = start + c.len_utf8();
        let alone = matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..);
        match words.last_mut() {
            _ if c.is_whitespace() => open = false,
            // A punctuation mark after a word belongs to it, so that the end of a sentence is recognized.
            Some(word) if (open && !alone) || (word.end == start && !c.is_alphanumeric()) => word.end = end,
            _ => {
                words.push(start..end);
                open = !alone;
            }
        }
    }
    words
}

/// Adds up signed hashes of each word, of its character n-grams with up to three characters, and of its pair with the previous
/// word.
fn embed(words: &[String], dimension: usize) -> Embedding {
    let mut values = vec![0.0f32; dimension];
    let mut add = |feature: &str, weight: f32| {
        let hash = fnv1a(feature);
        let sign = if hash >> 63 == 0 { weight } else { -weight };
        values[(hash % dimension as u64) as usize] += sign;
    };
    for (index, word) in words.iter().enumerate() {
        add(word, 2.0);
        let marked: Vec<char> = format!("^{word}$").chars().collect();
        for length in 1..=3 {
            marked.windows(length).for_each(|gram| add(&gram.iter().collect::<String>(), 0.5));
        }
        if index > 0 {
            add(&format!("{} {word}", words[index - 1]), 0.5);
        }
    }
    // In a tiny dimension, opposite signs may cancel out to zero.
    let axis = || Embedding::normalized((0..dimension).map(|index| if index == 0 { 1.0 } else { 0.0 }).collect());
    #[expect(clippy::expect_used, reason = "an axis has length 1; the dimension is at least 1, or indexing panicked above")]
    Embedding::normalized(values.clone()).or_else(axis).expect("an axis has a direction")
}

fn fnv1a(text: &str) -> u64 {
    let mixed =
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    // FNV gives short texts similar high bits, but the sign comes from the highest bit. Mixing lets the low bits affect it.
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[cfg(test)]
mod tests {
    use super::super::EmbedText;
    use super::*;
    use crate::domain::PassageBounds;

    fn split(text: &str, expect: &[&str]) {
        let (fake, _) = make(&FakeOptions { tokens_max: 6, ..FakeOptions::of(8) }, Box::new(|_| Ok(())));
        let passages: Vec<&str> =
            fake.split(None, text, PassageBounds::adjacent(6)).unwrap().into_iter().map(|cut| &text[cut.range]).collect();
        assert_eq!(passages, expect, "{text:?}");
    }

    #[test]
    fn passages_end_at_sentence_ends() {
        split("One two.", &["One two."]);
        split("One two. Three four. Five six seven!", &["One two. Three four.", "Five six seven!"]);
        split("天気がよい。猫は寝る。", &["天気がよい。", "猫は寝る。"]);
        split("a b c d e f g h", &["a b c d e f", "g h"]);
        split("  ", &["  "]);
    }

    fn tokens(text: &str, expect: usize) {
        let (fake, _) = make(&FakeOptions::of(8), Box::new(|_| Ok(())));
        assert_eq!(fake.tokens(&EmbedText::from(text.to_owned())).unwrap().ids.len(), expect, "{text:?}");
    }

    #[test]
    fn tokens_are_words_or_characters() {
        tokens("The cat sleeps.", 3);
        tokens("猫は寝る。", 4);
        tokens("แมว", 3);
        tokens("", 1);
        tokens(&"word ".repeat(40), 16);
    }

    #[test]
    fn similar_texts_have_closer_embeddings_than_unrelated_ones() {
        let (text, mut encoder) = make(&FakeOptions::of(64), Box::new(|_| Ok(())));
        let mut embed = |sentence: &str| {
            encoder.encode(&[text.tokens(&EmbedText::from(sentence.to_owned())).unwrap()]).unwrap().remove(0).unwrap()
        };
        let cat = embed("The cat sleeps on the sofa.");
        assert_eq!(cat, embed("the CAT sleeps on the sofa"));
        assert!(cat.cosine(&embed("A cat sleeps on a sofa.")) > cat.cosine(&embed("Stock prices fell sharply today.")) + 0.2);
    }
}
