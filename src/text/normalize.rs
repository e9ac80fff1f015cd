//! Normalization and pre-tokenization, as parts of `tokenizer.json`. Normalizes to NFKC, lower case, and one space between
//! words. Then splits words, punctuation and digits, and marks each part with a leading `▁`.
//!
//! Both are part of the tokenizer's file instead of separate code, so that any program that reads the file gets the same ids.

use tokenizers::normalizers::{Lowercase, NFKC, Nmt, Sequence as Normalizers};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence as PreTokenizers;
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;
use tokenizers::{NormalizedString, Normalizer, SplitDelimiterBehavior};

/// Makes the normalizer of text version 1. It removes control characters, then applies NFKC, lower case, and NFKC again,
/// because some letters and marks only have a composed form in lower case (`ǰ` has one, `J̌` does not).
pub fn normalizer() -> Normalizers {
    Normalizers::new(vec![Nmt.into(), NFKC.into(), Lowercase.into(), NFKC.into()])
}

/// Makes the pre-tokenizer of text version 1. It splits off punctuation before it sets the word mark, so that a word has the
/// same pieces with or without a quotation mark before it.
pub fn pre_tokenizer() -> PreTokenizers {
    PreTokenizers::new(vec![
        PreTokenizerWrapper::WhitespaceSplit(WhitespaceSplit),
        PreTokenizerWrapper::Punctuation(Punctuation::new(SplitDelimiterBehavior::Isolated)),
        PreTokenizerWrapper::Digits(Digits::new(false)),
        PreTokenizerWrapper::Metaspace(Metaspace::new('▁', PrependScheme::Always, true)),
    ])
}

/// Normalizes `text` as the tokenizer does before it searches for pieces.
pub fn normalize(text: &str) -> String {
    let mut normalized = NormalizedString::from(text);
    match normalizer().normalize(&mut normalized) {
        Ok(()) => normalized.get().to_owned(),
        // These normalizers only rewrite characters; none of them can fail.
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expect: &str) {
        assert_eq!(normalize(text), expect, "normalize({text:?})");
    }

    #[test]
    fn full_width_characters_and_ligatures_become_plain() {
        check("ＡＢＣ　１２３", "abc 123");
        check("ﬁnden", "finden");
        check("ｶﾞｷﾞ", "ガギ");
    }

    #[test]
    fn letters_with_case_are_lowercased() {
        check("ÇA VA", "ça va");
        check("ΚΑΛΗΜΈΡΑ", "καλημέρα");
        check("ПРИВІТ", "привіт");
        check("ԲԱՐԵՎ", "բարեվ");
    }

    #[test]
    fn combining_marks_compose_after_lowercasing() {
        check("J\u{30c}", "\u{1f0}");
        check("e\u{301}", "é");
    }

    #[test]
    fn letters_without_case_are_unchanged() {
        for text in ["你好", "नमस्ते", "สวัสดี", "გამარჯობა", "မင်္ဂလာပါ"]
        {
            check(text, text);
        }
    }

    proptest! {
        #[test]
        fn normalizing_twice_changes_nothing(text in "\\PC{0,40}") {
            let once = normalize(&text);
            prop_assert_eq!(normalize(&once), once);
        }
    }
}
