//! Finds other ways to write the words of a query, by which a collection may have them: joined ("smart phone" as "smartphone"),
//! split ("ebike" as "e-bike", "getUserName" as "get_user_name", "USA" as "U.S.A."), by their stems, and with the umlauts that
//! German also writes as two letters.

use super::plain_words::word_key;
use super::runs::{Class, Run, exact, fold, normalized, runs};
use super::stems::stemmer;
use super::terms::forms;
use crate::domain::Language;
use crate::domain::terms::{LiteralPart, Sought, TermPhrase};

/// Maximum number of words of a query of which other spellings are sought. In a sentence, each word is a small share.
const QUERY_WORDS_MAX: usize = 8;
/// Maximum number of words that are written as one.
const JOINED_MAX: usize = 3;
/// Length of a word that is split, in characters.
const SPLIT_CHARS: std::ops::RangeInclusive<usize> = 3..=24;
/// Maximum number of letters of an abbreviation that may be written with dots, in capitals and otherwise.
const CAPITALS_MAX: usize = 5;
const ABBREVIATION_MAX: usize = 3;
/// Umlauts in two letters, and the letters that they have without their accents.
const UMLAUTS: [(&str, &str); 3] = [("ae", "a"), ("oe", "o"), ("ue", "u")];

/// Returns the parts of a query that may be written otherwise. `language` is its language, if known.
pub fn spellings(query: &str, language: Option<Language>) -> Vec<LiteralPart> {
    let normal = normalized(query);
    let words: Vec<Run<'_>> = runs(&normal).take(QUERY_WORDS_MAX + 1).collect();
    if words.len() > QUERY_WORDS_MAX {
        return Vec::new();
    }
    let share = 1.0 / words.len().max(1) as f32;
    let part = |at, own: &[Run<'_>], phrases: Vec<TermPhrase>, sought| {
        let words = own.iter().map(|word| key(word.text)).collect();
        (!phrases.is_empty()).then_some(LiteralPart { phrases, at, words, share: share * own.len() as f32, sought })
    };
    let mut parts = Vec::new();
    for at in 0..words.len() {
        for count in 2..=JOINED_MAX {
            let Some(together) = words.get(at..at + count).filter(|words| words.iter().all(is_word)) else { break };
            let joined: String = together.iter().map(|word| word.text).collect();
            parts.extend(part(at, together, vec![single(&joined)], Sought::Joined(key(&joined))));
        }
    }
    let cased: Vec<Run<'_>> = runs(query).take(QUERY_WORDS_MAX + 1).collect();
    let stemmer = language.and_then(stemmer);
    for (at, word) in words.iter().enumerate().filter(|(_, word)| is_word(word)) {
        let own = std::slice::from_ref(word);
        let mut others: Vec<TermPhrase> = forms(word.text, stemmer.as_ref()).into_iter().map(TermPhrase::single_word).collect();
        others.extend(without_umlauts(word.text).map(|plain| single(&plain)));
        if others.len() > 1 {
            parts.extend(part(at, own, others, Sought::Unfound(key(word.text))));
        }
        // Normalizing may have joined or removed words.
        let cased = cased.get(at).filter(|_| cased.len() == words.len()).map_or("", |run| run.text);
        let (phrases, keys) = splits(word.text, cased).into_iter().map(|terms| (phrase(&terms), keys(&terms))).unzip();
        parts.extend(part(at, own, phrases, Sought::Split { word: key(word.text), words: keys }));
    }
    parts
}

/// Returns the ways to split a word: into any two parts, where its case changes in `cased`, and into its letters.
fn splits(word: &str, cased: &str) -> Vec<Vec<String>> {
    let characters: Vec<usize> = word.char_indices().map(|(at, _)| at).collect();
    if !SPLIT_CHARS.contains(&characters.len()) {
        return Vec::new();
    }
    let begins_word = |at: &&usize| word[**at..].starts_with(|c| super::runs::class(c).is_some());
    let in_two = characters.iter().skip(1).filter(begins_word).map(|at| vec![word[..*at].to_owned(), word[*at..].to_owned()]);
    let mut ways: Vec<Vec<String>> = in_two.collect();
    let by_case: Vec<String> = camel_case(cased).into_iter().map(str::to_lowercase).collect();
    if by_case.len() > 2 {
        ways.push(by_case);
    }
    let is_capitals = !cased.is_empty() && cased.bytes().all(|letter| letter.is_ascii_uppercase());
    if characters.len() <= if is_capitals { CAPITALS_MAX } else { ABBREVIATION_MAX } && word.is_ascii() {
        ways.push(word.chars().map(String::from).collect());
    }
    ways
}

/// Splits an ASCII word before each upper-case letter that follows a lower-case one.
fn camel_case(word: &str) -> Vec<&str> {
    let word = if word.is_ascii() { word } else { "" };
    let letters = word.as_bytes();
    let changes = letters.windows(2).enumerate().filter(|(_, pair)| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    let mut from = 0;
    let ends = changes.map(|(at, _)| at + 1).chain([word.len()]);
    ends.map(|end| &word[std::mem::replace(&mut from, end)..end]).collect()
}

/// Returns a word that has an umlaut in two letters as it is without its accent.
fn without_umlauts(word: &str) -> Option<String> {
    let plain = UMLAUTS.iter().fold(word.to_owned(), |word, (umlaut, letter)| word.replace(umlaut, letter));
    (plain != word).then_some(plain)
}

/// Returns the beginning of a word in the ways to spell it.
pub(super) fn beginnings(word: &str) -> impl Iterator<Item = TermPhrase> {
    let ways = [Some(exact(word).into_owned()), without_umlauts(word)];
    ways.into_iter().flatten().map(|way| TermPhrase { prefix: true, ..TermPhrase::single_word(way) })
}

fn is_word(run: &Run<'_>) -> bool {
    run.class == Class::Word
}

fn single(word: &str) -> TermPhrase {
    TermPhrase::single_word(exact(word).into_owned())
}

fn phrase(terms: &[String]) -> TermPhrase {
    TermPhrase { terms: terms.iter().map(|term| exact(term).into_owned()).collect(), prefix: false, folded: true }
}

fn keys(words: &[String]) -> Vec<u32> {
    words.iter().map(|word| key(word)).collect()
}

/// Returns the number of a word in its plain form.
pub(super) fn key(word: &str) -> u32 {
    word_key(fold(word).as_deref().unwrap_or(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ways to write each part that is sought in this case.
    fn ways(query: &str, language: &str, sought: impl Fn(&Sought) -> bool) -> Vec<Vec<String>> {
        let parts = spellings(query, Language::parse(language)).into_iter().filter(|part| sought(&part.sought));
        parts.map(|part| part.phrases.iter().map(|phrase| phrase.terms.join(" ")).collect()).collect()
    }

    fn joined(query: &str) -> Vec<Vec<String>> {
        ways(query, "en", |sought| matches!(sought, Sought::Joined(_)))
    }

    fn split(query: &str) -> Vec<Vec<String>> {
        ways(query, "en", |sought| matches!(sought, Sought::Split { .. }))
    }

    fn otherwise(query: &str, language: &str) -> Vec<Vec<String>> {
        ways(query, language, |sought| matches!(sought, Sought::Unfound(_)))
    }

    #[test]
    fn neighboring_words_are_joined() {
        assert_eq!(joined("smart phone"), [["smartphone"]]);
        assert_eq!(joined("U.S.A."), [["us"], ["usa"], ["sa"]]);
        assert_eq!(joined("get_user_name"), [["getuser"], ["getusername"], ["username"]]);
        assert_eq!(joined("猫 カフェ"), [[""; 0]; 0], "these scripts have no spaces");
    }

    #[test]
    fn a_word_is_split_anywhere_and_into_its_letters() {
        assert_eq!(split("usa"), [["u sa", "us a", "u s a"]]);
        assert_eq!(split("hanoi"), [["h anoi", "ha noi", "han oi", "hano i"]]);
        assert!(split("NATO")[0].contains(&"n a t o".to_owned()));
        assert_eq!(split("tv"), [[""; 0]; 0]);
        assert_eq!(split(&"long".repeat(10)), [[""; 0]; 0]);
    }

    #[test]
    fn a_word_is_split_where_its_case_changes() {
        assert!(split("getUserName")[0].contains(&"get user name".to_owned()));
        assert_eq!(camel_case("HTTPServer"), ["HTTPServer"]);
        assert_eq!(camel_case("straßeWeg"), [""]);
    }

    #[test]
    fn a_combining_mark_stays_with_its_letter() {
        assert!(split("за\u{301}мок")[0].iter().all(|way| !way.contains(" \u{301}")));
    }

    #[test]
    fn a_word_has_its_stem_and_umlauts_as_other_forms() {
        assert_eq!(otherwise("weisses Hemd", "de"), [["weisses", "weiss"]]);
        assert_eq!(otherwise("Muenchen", ""), [["muenchen", "munchen"]]);
        assert_eq!(otherwise("hemd", "de"), [[""; 0]; 0]);
    }

    #[test]
    fn parts_say_which_words_of_the_query_they_are() {
        let parts = spellings("nova smart phone", None);
        let found = parts.iter().find(|part| part.phrases == [single("smartphone")]).unwrap();
        assert_eq!((found.at, (found.share * 3.0).round()), (1, 2.0));
    }

    #[test]
    fn sentences_and_texts_have_no_other_spellings() {
        assert_eq!(spellings("one two three four five six seven eight nine", None), []);
        assert_eq!(spellings(&"a".repeat(1 << 20), None), []);
        assert_eq!(spellings("", None), []);
    }
}
