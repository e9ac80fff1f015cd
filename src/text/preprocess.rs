//! The preprocessing that a bundle may require: lower case, and spaces between words.
//!
//! It only adds white space, and only removes white space and control characters. Everything else stays in its order. So each
//! resulting character can be found in the source by counting, and passages are split in the source.

use std::ops::Range;

use super::language::rules::RuleDetector;
use super::moses::Moses;
use super::words::{space_chinese, space_japanese};
use crate::bundle::Preprocessing;

pub(super) struct Preprocessor {
    detector: RuleDetector,
    moses: Moses,
}

/// A prepared text, and the source of its parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AlignedText {
    pub(super) text: String,
    /// For each of its characters: where it starts, and its range in the source. An added space has an empty range.
    characters: Vec<(usize, Range<usize>)>,
}

impl Preprocessor {
    /// Compiles what `preprocessing` needs. Dictionaries are loaded with the first text that needs them.
    pub(super) fn new(preprocessing: Preprocessing) -> Self {
        match preprocessing {
            Preprocessing::MosesJieba => Self { detector: RuleDetector::new(), moses: Moses::new() },
        }
    }

    /// Lower-cases `text` and puts spaces between its words, by the rules of its detected language.
    pub(super) fn prepare(&self, text: &str) -> String {
        let language = self.detector.detect(text).map(|detected| detected.language);
        let lower = text.to_lowercase();
        match language.map(|language| language.code()) {
            Some("zh") => space_chinese(&lower),
            Some("ja") => space_japanese(&lower),
            _ => self.moses.separate_words(&lower, language),
        }
    }

    /// Like `prepare`, but also returns the mapping to the source.
    pub(super) fn prepare_aligned(&self, text: &str) -> AlignedText {
        let prepared = self.prepare(text);
        let mut sources = lower_case_chars(text).filter(|(c, _)| !c.is_whitespace());
        let mut end_of_last = 0;
        let characters = prepared.char_indices().map(|(position, c)| {
            if c.is_whitespace() {
                return (position, end_of_last..end_of_last);
            }
            // Removed control characters are skipped.
            let source = sources.find(|(source, _)| *source == c).map_or(end_of_last..end_of_last, |(_, range)| range);
            end_of_last = source.end;
            (position, source)
        });
        let characters = characters.collect();
        AlignedText { text: prepared, characters }
    }
}

impl AlignedText {
    /// Returns the range in the source of a byte range of the prepared text.
    pub(super) fn source(&self, range: Range<usize>) -> Range<usize> {
        let first = self.characters.partition_point(|(position, _)| *position < range.start);
        let last = self.characters.partition_point(|(position, _)| *position < range.end);
        match self.characters.get(first..last) {
            Some([(_, only)]) => only.clone(),
            Some([(_, first), .., (_, last)]) => first.start..last.end,
            _ => {
                let end = self.characters.last().map_or(0, |(_, source)| source.end);
                let position = self.characters.get(first).map_or(end, |(_, source)| source.start);
                position..position
            }
        }
    }
}

/// Returns the characters of `text` in lower case, each with the range of its source character. Lower-casing in context (a
/// final sigma) may change the resulting character, but never the number of characters.
fn lower_case_chars(text: &str) -> impl Iterator<Item = (char, Range<usize>)> {
    let ranges = text
        .char_indices()
        .flat_map(|(position, c)| std::iter::repeat_n(position..position + c.len_utf8(), c.to_lowercase().count()));
    let lower: Vec<char> = text.to_lowercase().chars().collect();
    lower.into_iter().zip(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prepared(text: &str) -> AlignedText {
        Preprocessor::new(Preprocessing::MosesJieba).prepare_aligned(text)
    }

    fn check(text: &str, expect: &str) {
        assert_eq!(prepared(text).text, expect, "{text}");
    }

    #[test]
    fn word_segmentation_depends_on_the_language() {
        check("The children don't read the old books.", "the children don 't read the old books .");
        check("L'école est fermée et les enfants jouent dans l'eau.", "l' école est fermée et les enfants jouent dans l' eau .");
        check("我们明天去图书馆看书。", "我们 明天 去 图书馆 看书 。");
        check("図書館で本を読む。", "図書館 で 本 を 読む 。");
        check("ПРИВІТ, СВІТЕ!", "привіт , світе !");
        check("ΟΔΟΣ", "οδο\u{3c2}");
    }

    #[test]
    fn tokens_map_back_to_the_source_text() {
        let text = " Don't  STOP,\u{1} ok";
        let aligned = prepared(text);
        assert!(aligned.text.ends_with("stop , ok"), "{}", aligned.text);
        for (word, expect) in [("stop", "STOP"), (",", ","), ("ok", "ok"), ("stop ,", "STOP,")] {
            let position = aligned.text.find(word).unwrap();
            assert_eq!(&text[aligned.source(position..position + word.len())], expect, "{word}");
        }
    }

    #[test]
    fn a_character_that_lowercases_to_two_maps_back_to_its_source() {
        // İ becomes i and a dot above, which is not a letter and is separated.
        let text = "İZMİR!";
        let aligned = prepared(text);
        assert_eq!(aligned.text, "i \u{307} zmi \u{307} r !");
        assert_eq!(&text[aligned.source(0..1)], "İ");
        assert_eq!(&text[aligned.source(2..4)], "İ");
        assert_eq!(&text[aligned.source(aligned.text.len() - 1..aligned.text.len())], "!");
    }

    #[test]
    fn an_empty_range_maps_to_an_empty_source_range() {
        let aligned = prepared(" \u{2} ");
        assert_eq!((aligned.text.as_str(), aligned.source(0..0)), ("", 0..0));
    }

    proptest! {
        #[test]
        fn only_case_white_space_and_control_characters_change(text in "[a-cÄİΣ.,'’ \\t本はと你好\u{1}0-9-]{0,30}") {
            let letters = |text: &str| text.to_lowercase().chars().filter(|c| !c.is_whitespace() && *c != '\u{1}').collect::<String>();
            let aligned = prepared(&text);
            prop_assert_eq!(letters(&aligned.text), letters(&text));
            for (position, source) in &aligned.characters {
                let c = aligned.text[*position..].chars().next().unwrap();
                prop_assert!(c == ' ' || text[source.clone()].to_lowercase().contains(c) || c == 'ς', "{} at {:?}", c, source);
            }
        }
    }
}
