//! Finds the stem of a word, which its inflected forms share, by Snowball's rules for the language.

use std::borrow::Cow;

use frostem::Stemmer;

use crate::domain::Language;

/// Returns the stemmer of a language, or `None` if Snowball has no rules for it.
pub(super) fn stemmer(language: Language) -> Option<Stemmer> {
    // Snowball only has a name for Norwegian as a whole. `Cargo.toml` lists the languages whose rules are part of the program.
    let name = if language.code() == "nb" { "no" } else { language.code() };
    Stemmer::try_from_name(name).ok()
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

/// Whether the stem of a word in Latin, Greek or Cyrillic letters begins with the word's own first letter, but for an accent.
/// Some rules also remove prefixes (Dutch, Indonesian, Ukrainian) or change letters (Esperanto, Serbian, Turkish).
pub(super) fn keeps_first_letter(language: Language) -> bool {
    !matches!(language.code(), "ar" | "eo" | "fa" | "hi" | "hy" | "id" | "nl" | "sr" | "ta" | "tr" | "uk")
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
    use rand_xoshiro::SplitMix64;
    use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

    use super::super::runs::fold;
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

    /// Tries all words that begin with three letters of the language's alphabet, with random endings.
    #[test]
    fn most_stems_keep_the_first_letter_without_its_accent() {
        let mut random = SplitMix64::seed_from_u64(1);
        let first = |word: &str| fold(word).as_deref().unwrap_or(word).chars().next();
        for language in Language::all().filter(|language| keeps_first_letter(*language)) {
            let Some(stemmer) = stemmer(language) else { continue };
            let letters: Vec<char> = match language.code() {
                "el" => "αάβγδεζηθικλμνξοπρστυφχψω".chars().collect(),
                "ru" => "абвгдеёжзийклмнопрстуфхцчшщъыьэюя".chars().collect(),
                _ => "abcdefghijklmnopqrstuvwxyzàäåæçéñöøüßčęış".chars().collect(),
            };
            for number in 0..letters.len().pow(3) {
                let beginning = (0..3).map(|exponent| number / letters.len().pow(exponent));
                let ending = (0..random.next_u64() % 6).map(|_| random.next_u64() as usize).collect::<Vec<_>>();
                let word: String = beginning.chain(ending).map(|letter| letters[letter % letters.len()]).collect();
                let stem = stem(&stemmer, &word).unwrap_or(Cow::Borrowed(&word));
                assert_eq!(first(&stem), first(&word), "{language}: {word} {stem}");
            }
        }
    }

    #[test]
    fn half_of_the_languages_have_rules() {
        let with_rules: Vec<&str> = Language::all().filter(|language| has_rules(*language)).map(Language::code).collect();
        let expect = "ar ca cs da de el en eo es et eu fa fi fr hi hu hy id it lt nb nl pl pt ro ru sr sv ta tr uk";
        assert_eq!(with_rules.join(" "), expect);
    }
}
