//! Finds the words of a text in their plain form, in the same way for every language, to look up translations.
//!
//! A word is folded as for lexical search but not stemmed, so its language need not be known. In scripts without spaces, the
//! dictionaries of ICU4X find the words; they are part of the program. In Korean, each pair of neighboring characters counts as
//! a word, because particles are attached to words.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use icu_segmenter::options::WordBreakInvariantOptions;
use icu_segmenter::{WordSegmenter, WordSegmenterBorrowed};

use super::runs::{Class, Run, cut, fold, joined, normalized, runs};
use crate::domain::{WORD_KEY_BITS, WordCounts};

/// Returns the words of a text, in order, with repetitions.
pub fn plain_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for run in runs(&normalized(text)) {
        each(&run, |word, _| words.push(word.to_owned()));
    }
    words
}

/// Returns the number of a word, which has `WORD_KEY_BITS` bits. Different words rarely share one.
pub fn word_key(word: &str) -> u32 {
    crc32fast::hash(word.as_bytes()) >> (u32::BITS - WORD_KEY_BITS)
}

/// Counts the words of a text.
pub fn word_counts(text: &str) -> WordCounts {
    let mut keys = Vec::new();
    for run in runs(&normalized(text)) {
        each(&run, |word, _| keys.push(word_key(word)));
    }
    WordCounts::of(keys)
}

static UNSPACED: LazyLock<WordSegmenterBorrowed<'static>> =
    LazyLock::new(|| WordSegmenter::new_dictionary(WordBreakInvariantOptions::default()));

/// Passes the words of a run to `take`, each with its bytes in the run.
pub(super) fn each(run: &Run<'_>, mut take: impl FnMut(&str, Range<usize>)) {
    match run.class {
        Class::Word => {
            let word = cut(run.text);
            take(&fold(word).map_or(Cow::Borrowed(word), Cow::Owned), 0..run.text.len());
        }
        Class::Unspaced => {
            let mut from = 0;
            for at in UNSPACED.segment_str(run.text) {
                let range = std::mem::replace(&mut from, at)..at;
                if !range.is_empty() {
                    take(cut(&run.text[range.clone()]), range);
                }
            }
        }
        Class::Hangul => {
            let units = run.characters();
            match units[..] {
                [only] => take(cut(only), 0..only.len()),
                _ => {
                    let mut from = 0;
                    for pair in units.windows(2) {
                        take(&joined(pair), from..from + pair[0].len() + pair[1].len());
                        from += pair[0].len();
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_lower_case_and_without_accents() {
        assert_eq!(plain_words("Le Marché de Köln, 2024!"), ["le", "marche", "de", "koln", "2024"]);
        assert_eq!(plain_words("Он читает книги."), ["он", "читает", "книги"]);
    }

    #[test]
    fn without_spaces_words_come_from_a_dictionary() {
        assert_eq!(plain_words("河水上涨 a 桥"), ["河水", "上涨", "a", "桥"]);
        assert_eq!(plain_words("エッフェルは技師です"), ["エッフェル", "は", "技師", "です"]);
        assert_eq!(plain_words("ตลาดเปิดทุกวัน"), ["ตลาด", "เปิด", "ทุก", "วัน"]);
    }

    #[test]
    fn korean_words_are_pairs_of_characters() {
        assert_eq!(plain_words("도서관에서 책"), ["도서", "서관", "관에", "에서", "책"]);
    }

    #[test]
    fn a_text_counts_its_words() {
        let counts = word_counts("Row, row the boat. ROW!");
        let expect = WordCounts::of(["row", "row", "row", "the", "boat"].map(word_key).to_vec());
        assert_eq!(counts, expect);
        assert_eq!(counts.iter().find(|(key, _)| *key == word_key("row")), Some((word_key("row"), 3)));
        assert!(word_counts(" …!").is_empty());
    }
}
