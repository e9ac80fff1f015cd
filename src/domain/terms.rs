//! Terms of passages and queries, which lexical search compares.

/// The terms of a passage, separated by spaces. Terms contain only letters, digits and marks, in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassageTerms {
    /// Every word as spelled, and pairs of neighboring characters in scripts without spaces between words.
    pub words: String,
    /// Words without their accents, for those that have any.
    pub folded: String,
    /// Its words in their plain form, counted.
    pub plain: WordCounts,
}

/// Number of bits of a word's key.
pub const WORD_KEY_BITS: u32 = 28;
/// Number of bits of its count, which are the lowest bits.
pub const WORD_COUNT_BITS: u32 = u32::BITS - WORD_KEY_BITS;
/// Maximum count of a word.
pub const WORD_COUNT_MAX: u8 = (1 << WORD_COUNT_BITS) - 1;

/// The words of a passage in their plain form, with their counts, to match with translations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WordCounts(Vec<u32>);

impl WordCounts {
    /// Counts the keys of words (`text::plain_words::word_key`).
    pub fn of(mut keys: Vec<u32>) -> Self {
        keys.sort_unstable();
        let runs = keys.chunk_by(|a, b| a == b);
        let entry = |run: &[u32]| (run[0] << WORD_COUNT_BITS) | run.len().min(usize::from(WORD_COUNT_MAX)) as u32;
        Self(runs.map(entry).collect())
    }

    /// Each word's key with its count, in ascending order of keys.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u8)> + '_ {
        self.0.iter().map(|entry| (entry >> WORD_COUNT_BITS, (entry & u32::from(WORD_COUNT_MAX)) as u8))
    }

    /// The number of words, including repetitions.
    pub fn total(&self) -> usize {
        self.iter().map(|(_, count)| usize::from(count)).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Little-endian u32 values, the count in the lowest four bits, as stored in SQLite.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|entry| entry.to_le_bytes()).collect()
    }

    /// Reads the output of `to_bytes`. Returns `None` if the bytes are not ascending words with counts.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (fours, rest) = bytes.as_chunks::<4>();
        let counts = Self(fours.iter().map(|four| u32::from_le_bytes(*four)).collect());
        let is_sorted = counts.0.is_sorted_by(|a, b| a >> WORD_COUNT_BITS < b >> WORD_COUNT_BITS);
        (rest.is_empty() && is_sorted && counts.iter().all(|(_, count)| count > 0)).then_some(counts)
    }
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

impl TermPhrase {
    /// A single word, which matches with or without accents in the passage.
    pub fn anywhere(word: String) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_and_come_back_from_their_bytes() {
        let keys = [vec![9, 7, 9], vec![(1 << WORD_KEY_BITS) - 1; 40]].concat();
        let counts = WordCounts::of(keys);
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(7, 1), (9, 2), ((1 << WORD_KEY_BITS) - 1, WORD_COUNT_MAX)]);
        assert_eq!(counts.total(), 18);
        assert_eq!(WordCounts::from_bytes(&counts.to_bytes()), Some(counts));
    }

    #[test]
    fn other_bytes_are_no_words() {
        let bytes = |entries: &[u32]| entries.iter().flat_map(|entry| entry.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(WordCounts::from_bytes(&[1, 2, 3]), None);
        assert_eq!(WordCounts::from_bytes(&bytes(&[0x20, 0x11])), None, "not ascending");
        assert_eq!(WordCounts::from_bytes(&bytes(&[0x21, 0x22])), None, "a word twice");
        assert_eq!(WordCounts::from_bytes(&bytes(&[0x20])), None, "no count");
        assert_eq!(WordCounts::from_bytes(&[]), Some(WordCounts::default()));
    }
}
