//! Finds the stem of a word, which its inflected forms have in common, by Snowball's rules for the language.

use std::borrow::Cow;

use frostem::{Algorithm, Stemmer};

use crate::domain::Language;

/// Returns the stemmer of a language, or `None` if Snowball has no rules for it.
pub(super) fn stemmer(language: Language) -> Option<Stemmer> {
    let algorithm = match language.code() {
        "ar" => Algorithm::Arabic,
        "ca" => Algorithm::Catalan,
        "cs" => Algorithm::Czech,
        "da" => Algorithm::Danish,
        "de" => Algorithm::German,
        "el" => Algorithm::Greek,
        "en" => Algorithm::English,
        "eo" => Algorithm::Esperanto,
        "es" => Algorithm::Spanish,
        "et" => Algorithm::Estonian,
        "eu" => Algorithm::Basque,
        "fa" => Algorithm::Persian,
        "fi" => Algorithm::Finnish,
        "fr" => Algorithm::French,
        "hi" => Algorithm::Hindi,
        "hu" => Algorithm::Hungarian,
        "hy" => Algorithm::Armenian,
        "id" => Algorithm::Indonesian,
        "it" => Algorithm::Italian,
        "lt" => Algorithm::Lithuanian,
        "nb" => Algorithm::Norwegian,
        "nl" => Algorithm::Dutch,
        "pl" => Algorithm::Polish,
        "pt" => Algorithm::Portuguese,
        "ro" => Algorithm::Romanian,
        "ru" => Algorithm::Russian,
        "sr" => Algorithm::Serbian,
        "sv" => Algorithm::Swedish,
        "ta" => Algorithm::Tamil,
        "tr" => Algorithm::Turkish,
        "uk" => Algorithm::Ukrainian,
        _ => return None,
    };
    Some(Stemmer::new(algorithm))
}

/// Returns the stem of a word in lower case, or `None` if that is the word itself or empty.
pub(super) fn stem<'w>(stemmer: &Stemmer, word: &'w str) -> Option<Cow<'w, str>> {
    // The rules are made for words. Anything with a digit is a number or a name.
    if word.chars().any(|c| c.is_numeric()) {
        return None;
    }
    let stem = stemmer.stem(word);
    (!stem.is_empty() && stem != word).then_some(stem)
}

/// Whether there are stemming rules for a language.
pub fn has_rules(language: Language) -> bool {
    stemmer(language).is_some()
}

/// Returns the stem of a word in lower case by the rules of `language`, or the word itself if it has none.
pub fn stemmed(word: &str, language: Language) -> Cow<'_, str> {
    stemmer(language).and_then(|stemmer| stem(&stemmer, word)).unwrap_or(Cow::Borrowed(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(language: &str, words: &[&str], expect: &str) {
        let stemmer = stemmer(Language::parse(language).unwrap()).unwrap();
        for word in words {
            let stem = stem(&stemmer, word).unwrap_or(Cow::Borrowed(word));
            assert_eq!(stem, expect, "{language}: {word}");
        }
    }

    #[test]
    fn inflected_forms_share_one_stem() {
        check("en", &["ripen", "ripens", "ripened", "ripening"], "ripen");
        check("de", &["haus", "häuser", "häusern", "hauses"], "haus");
        check("es", &["cantamos", "cantaban", "cantar"], "cant");
        check("ru", &["книга", "книги", "книгу", "книгами"], "книг");
        check("tr", &["evler", "evlerin", "ev"], "ev");
        check("fi", &["talossa", "talosta", "talo"], "talo");
    }

    #[test]
    fn words_with_digits_have_no_stem() {
        let english = stemmer(Language::parse("en").unwrap()).unwrap();
        assert_eq!(stem(&english, "b52s"), None);
    }

    #[test]
    fn languages_without_rules_have_no_stemmer() {
        for code in ["ja", "zh", "th", "ko", "vi", "sw", "my"] {
            assert!(stemmer(Language::parse(code).unwrap()).is_none(), "{code}");
        }
    }
}
