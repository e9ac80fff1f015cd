//! Compares queries with titles.

use std::borrow::Cow;

use unicode_normalization::char::is_combining_mark;

use super::runs::{Class, class, fold, normalized, runs};
use super::stems::stemmer;
use super::terms::{passage_terms, plain_stem};
use super::variants::simplified;
use crate::domain::Language;

/// Signs at the end of a name that tell it from another name.
pub(super) const NAME_SIGNS: [char; 2] = ['+', '#'];

/// Returns a title in the form in which two spellings of it are equal: its words without case, width and punctuation, and
/// without emoji next to other words. The signs of "C++" and "C#" are part of the word.
pub fn plain_title(title: &str) -> String {
    let normal = normalized(title);
    let mut plain: Vec<&str> = Vec::new();
    for text in normal.split_whitespace() {
        let before = plain.len();
        plain.extend(runs(text).filter(|run| run.class != Class::Pictograph).map(|run| run.text));
        let is_after = |c: char| class(c).is_none_or(|class| class == Class::Pictograph) && !is_combining_mark(c);
        let text = text.trim_end_matches(|c: char| is_after(c) && !NAME_SIGNS.contains(&c));
        let signs = &text[text.trim_end_matches(NAME_SIGNS).len()..];
        plain.extend((plain.len() > before && !signs.is_empty()).then_some(signs));
    }
    if plain.is_empty() {
        plain = runs(&normal).map(|run| run.text).collect();
    }
    plain.join(" ")
}

/// Returns the terms with which the passages of a document with this title begin. The title is in the form of `plain_title`.
pub fn title_terms(plain: &str) -> Vec<String> {
    passage_terms(plain, None, |_| true).words.split(' ').filter(|term| !term.is_empty()).map(str::to_owned).collect()
}

/// Whether a title has these words one after another, both in the form of `plain_title`. Korean particles may follow them. In
/// scripts without spaces, they may stand within longer words.
pub fn is_part_of_title(words: &str, title: &str) -> bool {
    let is_unspaced = |end: Option<char>| end.and_then(class) == Some(Class::Unspaced) && words.chars().nth(1).is_some();
    let (first, last) = (words.chars().next(), words.chars().rfind(|c| !is_combining_mark(*c)));
    let has_particles = last.and_then(class) == Some(Class::Hangul);
    title.match_indices(words).any(|(start, _)| {
        let (before, after) = (&title[..start], &title[start + words.len()..]);
        let begins = before.is_empty() || before.ends_with(' ') || is_unspaced(first);
        let ends = after.is_empty() || after.strip_prefix(' ').is_some_and(|next| !next.starts_with(NAME_SIGNS));
        begins && (ends || is_unspaced(last) || has_particles)
    })
}

/// Returns a title in the form of `plain_title` with the stems of its words by the rules of `language`, if there are any,
/// without accents, and in simplified Chinese characters.
pub fn stemmed_title(title: &str, language: Option<Language>) -> String {
    let stemmer = language.and_then(stemmer);
    let stemmed = |word: &str| {
        let stem = stemmer.as_ref().and_then(|stemmer| plain_stem(stemmer, word)).map(Cow::into_owned);
        stem.or_else(|| fold(word)).unwrap_or_else(|| word.to_owned())
    };
    simplified(title).as_deref().unwrap_or(title).split(' ').map(stemmed).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signs_of_a_name_are_part_of_a_title() {
        assert_eq!(["C", "C++.", "c#!", "(A+)", "C + #"].map(plain_title), ["c", "c ++", "c #", "a +", "c"]);
        assert_eq!(["《C++》", "C++🎉", "C++。", "*C++*"].map(plain_title), ["c ++"; 4]);
    }

    #[test]
    fn spellings_of_a_title_are_equal_without_case_and_punctuation() {
        assert_eq!(plain_title("“How to: Bake Bread”"), plain_title("how to bake bread"));
        assert_ne!(plain_title("Bread"), plain_title("Breads"));
    }

    #[test]
    fn emoji_beside_the_words_of_a_title_do_not_count() {
        assert_eq!(plain_title("🎂 Cakes ☀\u{fe0f}"), "cakes");
        assert_eq!(plain_title("☀\u{fe0f}"), "☀");
    }

    #[test]
    fn passages_begin_with_the_terms_of_their_title() {
        for title in [
            "Harbor",
            "Old Town Hall",
            "Straße 12",
            "東京",
            "東京タワーの歴史",
            "서울 도서관",
            "กรุงเทพ",
            "《Été》 iPhoneを買う",
            "C++",
        ] {
            let terms = title_terms(&plain_title(title));
            let passage = passage_terms(&format!("{title}\n東京 was here, 서울"), None, |_| true).words;
            assert!(
                passage.split(' ').zip(&terms).all(|(written, term)| written == term) && !terms.is_empty(),
                "{terms:?} {passage}"
            );
        }
        assert_ne!(title_terms("東京")[1..], title_terms("東京都")[1..2], "a longer title goes on with other terms");
    }

    #[test]
    fn a_title_has_words_but_no_parts_of_words() {
        let has = |title, words| is_part_of_title(&plain_title(words), &plain_title(title));
        assert!(has("Rain jacket, blue", "rain") && has("Rain jacket, blue", "Jacket blue") && has("Rain jacket", "rain jacket"));
        assert!(!has("Rainforest", "rain") && !has("Rain and wind", "rain wind"));
        assert!(has("東京の天気", "天気") && has("서울의 날씨", "서울") && has("การเดินทางในกรุงเทพ", "กรุงเทพ"));
        assert!(!has("水曜日", "水"), "one character is often a part of another word");
        assert!(!has("C++ by example", "C") && has("C by example", "C"));
    }

    #[test]
    fn a_title_is_found_by_other_forms_of_its_words() {
        let has = |title, words, language| {
            let stems = |text| stemmed_title(&plain_title(text), Language::parse(language));
            is_part_of_title(&stems(words), &stems(title))
        };
        assert!(has("Neural network, explained", "neural networks", "en") && has("Die Häuser in Köln", "haus", "de"));
        assert!(has("Нейронная сеть", "нейронные сети", "ru") && has("Crème brûlée", "creme brulee", ""));
        assert!(has("圖書館的歷史", "图书馆", "zh") && has("図書館の歴史", "圖書館", "ja"));
        assert!(!has("Neural network", "neural networks", "") && !has("Rainforest", "rains", "en"));
        assert!(!has("C++ by example", "C", "en") && has("東京の天気", "天気", "ja"));
    }
}
