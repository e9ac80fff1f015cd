//! Puts spaces between the words of languages that are written without them: Chinese with jieba, Japanese with the dictionary
//! of ICU4X.
//!
//! Both dictionaries are part of the program. jieba's is compressed; the first Chinese text decompresses it into memory (tens
//! of megabytes). ICU4X's is read in place.

use std::sync::LazyLock;

use jieba_rs::Jieba;

use super::plain_words::UNSPACED;

static JIEBA: LazyLock<Jieba> = LazyLock::new(Jieba::new);

/// Puts a space between the words of a Chinese text with jieba's default mode, which finds new words with a hidden Markov model.
pub(super) fn space_chinese(text: &str) -> String {
    join(JIEBA.cut(text, true).into_iter().map(|token| token.word))
}

/// Puts a space between the words of a Japanese text. Takes the longest word of the dictionary first, and separates scripts.
pub(super) fn space_japanese(text: &str) -> String {
    let mut from = 0;
    join(UNSPACED.segment_str(text).map(|boundary| &text[std::mem::replace(&mut from, boundary)..boundary]))
}

/// Joins words with single spaces, leaving out white space.
fn join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(str::trim).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chinese_is_segmented_by_its_dictionary() {
        let check = |text: &str, expect: &str| assert_eq!(space_chinese(text), expect, "{text}");
        check("我们明天去图书馆看书。", "我们 明天 去 图书馆 看书 。");
        check("今天 天气很好", "今天 天气 很 好");
        check("", "");
    }

    #[test]
    fn japanese_is_segmented_by_its_dictionary() {
        let check = |text: &str, expect: &str| assert_eq!(space_japanese(text), expect, "{text}");
        check("図書館で本を読む。", "図書館 で 本 を 読む 。");
        check("東京タワー", "東京 タワー");
        check("", "");
    }
}
