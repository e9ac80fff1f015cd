//! A deterministic fake encoder. It hashes character n-grams, so equal texts get equal embeddings and similar texts get similar
//! ones. It uses the same queue as the real encoder. `FakeControl` lets a test hold it, make it fail and inspect its batches.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

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

/// Lets a test control the fake encoder. Dropping the last clone releases the encoder.
#[derive(Clone)]
pub struct FakeControl(Arc<ControlHandle>);

struct ControlHandle(Arc<Gate>);

#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    held: bool,
    /// How many batches pass although it is held.
    passing: usize,
    /// A batch is waiting at the gate.
    blocked: bool,
    fail_on: Option<String>,
    broken: bool,
    panic_on: Option<String>,
    batches: Vec<Vec<usize>>,
}

impl FakeControl {
    /// Holds the next batch and all later ones until `resume` is called.
    pub fn pause(&self) {
        self.lock().held = true;
    }

    pub fn resume(&self) {
        self.0.0.resume();
    }

    /// Lets one batch pass, and holds the next.
    pub fn pass_one(&self) {
        self.lock().passing += 1;
        self.0.0.changed.notify_all();
    }

    /// Blocks until a batch is held. Everything submitted after that waits in the queue.
    pub fn wait_until_blocked(&self) {
        let mut state = self.lock();
        while !state.blocked {
            self.0.0.changed.wait(&mut state);
        }
    }

    /// Makes every batch fail that has this word in one of its texts.
    pub fn fail_on(&self, word: &str) {
        self.lock().fail_on = Some(word.to_lowercase());
    }

    /// Makes every batch fail if `broken`, and none otherwise.
    pub fn set_broken(&self, broken: bool) {
        self.lock().broken = broken;
    }

    /// Makes the encoder panic on every batch that has this word in one of its texts.
    pub fn panic_on(&self, word: &str) {
        self.lock().panic_on = Some(word.to_lowercase());
    }

    /// Returns the token counts of the texts in each batch that passed the gate, in order.
    pub fn batches(&self) -> Vec<Vec<usize>> {
        self.lock().batches.clone()
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.0.0.state.lock()
    }
}

impl Drop for ControlHandle {
    fn drop(&mut self) {
        self.0.resume();
    }
}

impl Gate {
    fn resume(&self) {
        self.state.lock().held = false;
        self.changed.notify_all();
    }

    /// Waits while the gate is held. Then returns whether the encoder is broken, and the words to fail and to panic on.
    fn wait_while_held(&self, batch: &[Tokens]) -> (bool, Option<String>, Option<String>) {
        let mut state = self.state.lock();
        while state.held && state.passing == 0 {
            state.blocked = true;
            self.changed.notify_all();
            self.changed.wait(&mut state);
        }
        state.blocked = false;
        state.passing = state.passing.saturating_sub(1);
        state.batches.push(batch.iter().map(|text| text.ids.len()).collect());
        (state.broken, state.fail_on.clone(), state.panic_on.clone())
    }
}

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
    gate: Arc<Gate>,
}

/// Creates the three parts, which share a vocabulary and a gate.
pub(super) fn make(options: &FakeOptions) -> (TextReader, FakeEncoder, FakeControl) {
    let vocabulary = SharedVocabulary::default();
    let gate = Arc::new(Gate::default());
    let tokenizer = Box::new(Arc::clone(&vocabulary));
    let text = TextReader { tokenizer, tokens_max: options.tokens_max };
    let encoder = FakeEncoder { vocabulary, dimension: options.dimension, gate: Arc::clone(&gate) };
    (text, encoder, FakeControl(Arc::new(ControlHandle(gate))))
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
        let (broken, fail_on, panic_on) = self.gate.wait_while_held(batch);
        let vocabulary = self.vocabulary.lock();
        let has = |word: Option<String>| {
            let number = word.and_then(|word| vocabulary.numbers.get(&word).copied());
            number.is_some_and(|number| batch.iter().any(|text| text.ids.contains(&number)))
        };
        assert!(!has(panic_on), "the fake encoder was told to panic");
        if broken || has(fail_on) {
            let source = Arc::new(std::io::Error::other("the fake encoder was told to fail"));
            return Err(EmbedError::Forward { texts: batch.len(), source });
        }
        let words = |text: &Tokens| text.ids.iter().map(|&id| vocabulary.words[id as usize].clone()).collect::<Vec<_>>();
        Ok(batch.iter().map(|text| Some(embed(&words(text), self.dimension))).collect())
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
        let (fake, _, _) = make(&FakeOptions { tokens_max: 6, ..FakeOptions::of(8) });
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
        let (fake, _, _) = make(&FakeOptions::of(8));
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
        let (text, mut encoder, _) = make(&FakeOptions::of(64));
        let mut embed = |sentence: &str| {
            encoder.encode(&[text.tokens(&EmbedText::from(sentence.to_owned())).unwrap()]).unwrap().remove(0).unwrap()
        };
        let cat = embed("The cat sleeps on the sofa.");
        assert_eq!(cat, embed("the CAT sleeps on the sofa"));
        assert!(cat.cosine(&embed("A cat sleeps on a sofa.")) > cat.cosine(&embed("Stock prices fell sharply today.")) + 0.2);
    }
}
