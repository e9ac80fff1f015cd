//! Terms of passages and queries, which lexical search compares.

use super::sound::Sound;

/// The terms of a passage, separated by spaces. Terms contain only letters, digits, marks and emoji, in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassageTerms {
    /// Every word as spelled, and pairs of neighboring characters in scripts without spaces between words.
    pub words: String,
    /// The accented words, without their accents.
    pub folded: String,
    /// Its words in their plain form, counted (`text::word_counts::word_counts`).
    pub plain: WordCounts,
}

/// Number of bits of a word's key.
pub const WORD_KEY_BITS: u32 = 28;
/// Number of bits of its count, which are the lowest bits.
pub const WORD_COUNT_BITS: u32 = u32::BITS - WORD_KEY_BITS;
/// Maximum count of a word.
pub const WORD_COUNT_MAX: u8 = (1 << WORD_COUNT_BITS) - 1;

/// A word of a question or passage, to match with words of other languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Word {
    /// Its number (`text::plain_words::word_key`).
    pub key: u32,
    /// How it sounds.
    pub sound: Sound,
    /// Number of words before it that were joined to form it, because they may be parts of a name. Such a word only counts
    /// where a name sounds like it. 0 for other words.
    pub parts: u8,
}

impl From<u32> for Word {
    /// A word that has only its number.
    fn from(key: u32) -> Self {
        Self { key, sound: Sound::NONE, parts: 0 }
    }
}

/// A word of a query with its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryWord {
    /// The word.
    pub word: Word,
    /// The numbers of its other forms, which are the same word in another writing: traditional instead of simplified characters.
    pub forms: Vec<u32>,
    /// The number of the word with its accents, if it has some.
    pub accented: Option<u32>,
    /// Whether the query has it as a whole. False for a part of a longer word and for a name that is put together.
    pub is_typed: bool,
    /// The numbers of the known words that it may mean if it is misspelled.
    pub corrections: Vec<u32>,
    /// The ids of its tokens, which determine its weight. Empty if unknown.
    pub tokens: Vec<u32>,
    /// Whether it is a number of few digits, which matters no more than other words.
    pub is_small_number: bool,
}

impl From<Word> for QueryWord {
    fn from(word: Word) -> Self {
        Self {
            word,
            forms: Vec::new(),
            accented: None,
            is_typed: word.parts == 0,
            corrections: Vec::new(),
            tokens: Vec::new(),
            is_small_number: false,
        }
    }
}

/// A distinct word of a passage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedWord {
    /// Its number.
    pub key: u32,
    /// How often the passage has it, 1 to `WORD_COUNT_MAX`. Each occurrence at the beginning of a long passage counts
    /// several times.
    pub count: u8,
    /// How it sounds.
    pub sound: Sound,
}

/// The words of a passage in their plain form, with their counts, to match with translations and names.
///
/// They are in the form that is stored, because a search reads those of all passages: each word as a little-endian u32 with the
/// count in the lowest four bits, and its sound in seven bits per byte, lowest first, with the highest bit set in all bytes but
/// the last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WordCounts(Vec<u8>);

/// The first byte of the stored form. The older form without sounds begins with a word, whose count, never 0, is in the lowest
/// four bits of the first byte.
const WITH_SOUNDS: u8 = 0x10;
/// The bit of each byte of a packed number but the last.
const MORE: u8 = 0x80;

impl WordCounts {
    /// Counts words.
    pub fn from_words(words: impl IntoIterator<Item = impl Into<Word>>) -> Self {
        let mut words: Vec<Word> = words.into_iter().map(Into::into).collect();
        words.sort_by_key(|word| word.key);
        let mut counts = Self::default();
        for same in words.chunk_by(|a, b| a.key == b.key) {
            let count = same.len().min(usize::from(WORD_COUNT_MAX)) as u8;
            let sound = same.iter().map(|word| word.sound).find(|sound| !sound.is_none()).unwrap_or_default();
            counts.push(CountedWord { key: same[0].key, count, sound });
        }
        counts
    }

    fn push(&mut self, word: CountedWord) {
        let Self(bytes) = self;
        bytes.extend((word.key << WORD_COUNT_BITS | u32::from(word.count)).to_le_bytes());
        pack_number(word.sound.to_bits(), bytes);
    }

    /// The distinct words, in ascending order of keys.
    pub fn iter(&self) -> impl Iterator<Item = CountedWord> + '_ {
        let mut rest = self.0.as_slice();
        std::iter::from_fn(move || next_word(&mut rest))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes that are stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&[WITH_SOUNDS], self.0.as_slice()].concat()
    }

    /// Reads the output of `to_bytes`, or of its older form without sounds. Returns `None` if the bytes are not ascending words
    /// with counts.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let counts = match bytes {
            [WITH_SOUNDS, words @ ..] => Self(words.to_vec()),
            older => {
                let (words, rest) = older.as_chunks::<4>();
                let with_no_sound = |word: &[u8; 4]| [word[0], word[1], word[2], word[3], 0];
                rest.is_empty().then(|| Self(words.iter().flat_map(with_no_sound).collect()))?
            }
        };
        let (mut rest, mut last) = (counts.0.as_slice(), None);
        while !rest.is_empty() {
            let word = next_word(&mut rest)?;
            (word.count > 0 && last < Some(word.key)).then_some(())?;
            last = Some(word.key);
        }
        Some(counts)
    }
}

/// Reads the first word, and leaves the rest. Returns `None` if there is none.
fn next_word(bytes: &mut &[u8]) -> Option<CountedWord> {
    let (entry, rest) = bytes.split_first_chunk::<4>()?;
    let entry = u32::from_le_bytes(*entry);
    let (sound, rest) = unpack_number(rest)?;
    let sound = Sound::from_bits(sound)?;
    *bytes = rest;
    Some(CountedWord { key: entry >> WORD_COUNT_BITS, count: (entry & u32::from(WORD_COUNT_MAX)) as u8, sound })
}

/// Appends a number, seven bits per byte, lowest first, with the highest bit set in all bytes but the last.
pub(crate) fn pack_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= u64::from(MORE) {
        bytes.push(number as u8 | MORE);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads the number that `pack_number` wrote at the beginning. Returns it and the rest, or `None` if there is none.
pub(crate) fn unpack_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let last = bytes.iter().position(|byte| byte & MORE == 0)?;
    let (digits, rest) = bytes.split_at(last + 1);
    let seven = |all: u64, byte: &u8| all.checked_mul(1 << 7).map(|all| all | u64::from(byte & !MORE));
    Some((digits.iter().rev().try_fold(0, seven)?, rest))
}

/// The terms of a query: a passage with any of them may be a hit, if it has everything required and nothing excluded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryTerms {
    /// The terms, each once, including the required ones.
    pub terms: Vec<QueryTerm>,
    /// What a passage must contain: at least one alternative of each group.
    pub required: Vec<Vec<TermPhrase>>,
    /// What a passage must not contain.
    pub excluded: Vec<TermPhrase>,
    /// Whether the query had more terms than are searched for.
    pub truncated: bool,
}

/// One term of a query.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueryTerm {
    /// The term.
    pub text: String,
    /// Whether every term with this prefix counts, too.
    pub prefix: bool,
}

/// Consecutive terms in a passage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TermPhrase {
    /// The terms, in order; at least one.
    pub terms: Vec<String>,
    /// Whether every term that begins with the last one counts, too.
    pub prefix: bool,
    /// Whether the words match without their accents; otherwise only as spelled.
    pub folded: bool,
}

/// A part of a query that a passage should have exactly as written, or in another spelling.
#[derive(Debug, Clone, PartialEq)]
pub struct LiteralPart {
    /// The ways to write it; at least one, unless it is a date.
    pub phrases: Vec<TermPhrase>,
    /// The dates that it may mean. Each may also be written with its month in words (`text::dates::in_words`).
    pub dates: Vec<CalendarDate>,
    /// The position of its first word in the query, from 0.
    pub position: usize,
    /// Its words by their numbers (`text::plain_words::word_key`).
    pub words: Vec<u32>,
    /// Its share of the words of the query, by their count.
    pub share: f32,
    /// When to search for it.
    pub condition: SearchCondition,
}

/// A date of which a query names at least the month and another part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalendarDate {
    /// The day of the month, 1 to 31.
    pub day: Option<u8>,
    /// The month, 1 to 12.
    pub month: u8,
    /// The year.
    pub year: Option<u16>,
}

/// When to search for a part of a query as written. Words are given by their numbers (`text::plain_words::word_key`).
#[derive(Debug, Clone, PartialEq)]
pub enum SearchCondition {
    /// Always.
    Always,
    /// Always. It is a number of several groups. A passage that has all groups, but not together, does not count as having it.
    Number,
    /// Always, but only the phrases whose words a passage may have together. It is a time of day. If a passage has it, one that has
    /// its words, but not together, does not count as having it.
    Time,
    /// Always, but only the phrases whose words a passage may have together. It is another way to write a number with its word.
    Notation,
    /// As the beginning of a longer word, unless the collection has this word or one that probably means the same.
    Beginning(u32),
    /// Unless the collection has this word or, in a sentence, one that probably means the same.
    Unfound(u32),
    /// If the collection has this word, which joins several words of the query.
    Joined(u32),
    /// If a passage may have these words together, which are another form of a word of the query in a script without spaces.
    OtherForm(Vec<u32>),
    /// If the collection has this word, the initials of several words of the query, and it is not a word of any language.
    Initials(u32),
    /// If the collection lacks the word. The phrases split it into several words.
    Split {
        /// The word.
        word: u32,
        /// The words of each phrase, which is only searched if the collection has all of them.
        words: Vec<Vec<u32>>,
    },
}

impl TermPhrase {
    /// A single word, which matches with or without accents in the passage.
    pub fn single_word(word: String) -> Self {
        Self { terms: vec![word], prefix: false, folded: true }
    }
}

impl QueryTerms {
    /// Number of terms and phrases whose BM25 scores are added up; each required phrase counts once more, as a whole.
    pub fn scored(&self) -> usize {
        self.terms.len() + self.required.len()
    }

    /// Whether a passage must do more than share a word with the query.
    pub fn has_constraints(&self) -> bool {
        !self.required.is_empty() || !self.excluded.is_empty()
    }
}

/// A word or phrase of a lexicon's concept: a meaning with its words in all languages.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ConceptWord {
    /// A word.
    Word {
        /// Its number (`text::plain_words::word_key`).
        key: u32,
        /// What share of a dictionary's entry it is: 1, or less if an entry counts as several words.
        share: f32,
    },
    /// Several words in a row, or a word with its accents, by their number (`phrase_key`).
    Phrase(u32),
}

/// Returns the number of a word or phrase with this CRC-32.
pub fn hash_key(hash: u32) -> u32 {
    hash >> (u32::BITS - WORD_KEY_BITS)
}

/// Maximum number of words of a phrase that is looked up.
const PHRASE_WORDS_MAX: usize = 4;

/// The numbers of the last few words of a text, to find the phrases in it.
#[derive(Debug, Clone, Default)]
pub struct LastWords {
    words: [u32; PHRASE_WORDS_MAX],
    count: usize,
}

impl LastWords {
    /// Adds the next word, and returns the phrases of two and more words that end with it, shortest first: how many words each has,
    /// and its number (`phrase_key`).
    pub fn phrases_with(&mut self, word: u32) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.words.rotate_left(1);
        self.words[PHRASE_WORDS_MAX - 1] = word;
        self.count = PHRASE_WORDS_MAX.min(self.count + 1);
        (2..=self.count).map(|length| (length, phrase_key(&self.words[PHRASE_WORDS_MAX - length..])))
    }
}

/// Returns the number of several words in a row, which has `WORD_KEY_BITS` bits. A word may have the same number.
pub fn phrase_key(words: &[u32]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    words.iter().for_each(|word| hasher.update(&word.to_le_bytes()));
    hash_key(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::super::sound::{Script, SoundSymbol};
    use super::*;

    fn word(key: u32, sound: Sound) -> Word {
        Word { sound, ..key.into() }
    }

    #[test]
    fn the_phrases_that_end_with_a_word_have_at_most_four_words() {
        let mut last_words = LastWords::default();
        let phrases: Vec<Vec<(usize, u32)>> = (1..=5).map(|word| last_words.phrases_with(word).collect()).collect();
        let keys = |phrases: &[&[u32]]| phrases.iter().map(|words| (words.len(), phrase_key(words))).collect::<Vec<_>>();
        assert_eq!(phrases[..2], [vec![], keys(&[&[1, 2]])]);
        assert_eq!(phrases[4], keys(&[&[4, 5], &[3, 4, 5], &[2, 3, 4, 5]]));
    }

    #[test]
    fn word_counts_are_capped_and_round_trip_through_bytes() {
        let sound = Sound::new(Script::Latin, &SoundSymbol::ALL);
        let last = (1 << WORD_KEY_BITS) - 1;
        let words = [9.into(), word(7, sound), word(9, sound)];
        let counts = WordCounts::from_words(words.into_iter().chain([last.into(); 40]));
        let expect = [(7, 1, sound), (9, 2, sound), (last, WORD_COUNT_MAX, Sound::NONE)];
        assert_eq!(counts.iter().map(|word| (word.key, word.count, word.sound)).collect::<Vec<_>>(), expect);
        assert_eq!(WordCounts::from_bytes(&counts.to_bytes()), Some(counts));
    }

    fn older_form(entries: &[u32]) -> Vec<u8> {
        entries.iter().flat_map(|entry| entry.to_le_bytes()).collect()
    }

    #[test]
    fn word_counts_stored_without_sounds_are_still_read() {
        let counts = WordCounts::from_words([2, 3, 3]);
        assert_eq!(WordCounts::from_bytes(&older_form(&[0x21, 0x32])), Some(counts));
        assert_eq!(WordCounts::from_bytes(&[]), Some(WordCounts::default()));
    }

    #[test]
    fn invalid_word_count_bytes_are_refused() {
        assert_eq!(WordCounts::from_bytes(&[1, 2, 3]), None);
        assert_eq!(WordCounts::from_bytes(&older_form(&[0x21, 0x11])), None, "words are not in ascending order");
        assert_eq!(WordCounts::from_bytes(&older_form(&[0x21, 0x22])), None, "a word occurs twice");
        assert_eq!(WordCounts::from_bytes(&older_form(&[0x20])), None, "a count is zero");
        let bytes = WordCounts::from_words([word(1, Sound::new(Script::Latin, &SoundSymbol::ALL))]).to_bytes();
        assert_eq!(WordCounts::from_bytes(&bytes[..bytes.len() - 1]), None, "the last sound is truncated");
        assert_eq!(WordCounts::from_bytes(&[WITH_SOUNDS, 0x11, 0, 0, 0, 31]), None, "31 is not a sound");
    }
}
