//! Separates words and punctuation by the rules of the Moses tokenizer, as EMS (2024, section IV-B) applied them: nothing is
//! escaped, hyphens stay within words, and the text is already in lower case.
//!
//! The lists of abbreviations that keep their period are left out. They matter little in lower case, because a period stays on
//! its word anyway before a word in lower case, and in a word that has another period. The only difference is an abbreviation
//! at the end or before a number.

use regex::Regex;

use crate::domain::Language;

/// The rules, compiled.
pub(super) struct Moses {
    before_apostrophes: Vec<Rule>,
    english: Vec<Rule>,
    romance: Vec<Rule>,
    others: Vec<Rule>,
    /// A period before the last apostrophe.
    last: Rule,
}

/// A pattern and its replacement. Replacements only add white space.
struct Rule {
    pattern: Regex,
    replacement: &'static str,
}

/// The rules in the order in which they apply. Letters are Unicode's Alphabetic, as in Perl, so a virama or a tone mark does
/// not count as a letter and is separated.
const BEFORE_APOSTROPHES: &[(&str, &str)] = &[
    (r"[\x00-\x1f]", ""),
    (r"[^\p{Alphabetic}\p{Nd}\s.'`,\-]", " $0 "),
    // Several periods are one word.
    (r"\.{2,}", " $0 "),
    // A comma is separated unless it stands between digits.
    (r"(\P{N}),", "$1 , "),
    (r",(\P{N})", " , $1"),
    (r"(\p{N}),$", "$1 , "),
];

/// In English, contractions are split off before the apostrophe: it 's.
const ENGLISH: &[(&str, &str)] = &[
    (r"(\P{Alphabetic})'(\P{Alphabetic})", "${1} ' ${2}"),
    (r"([^\p{Alphabetic}\p{N}])'(\p{Alphabetic})", "${1} ' ${2}"),
    (r"(\p{Alphabetic})'(\P{Alphabetic})", "${1} ' ${2}"),
    (r"(\p{Alphabetic})'(\p{Alphabetic})", "${1} '${2}"),
    (r"(\p{N})'(s)", "${1} '${2}"),
];

/// In French and Italian, the apostrophe stays with the article: l' eau.
const ROMANCE: &[(&str, &str)] = &[
    (r"(\P{Alphabetic})'(\P{Alphabetic})", "${1} ' ${2}"),
    (r"(\P{Alphabetic})'(\p{Alphabetic})", "${1} ' ${2}"),
    (r"(\p{Alphabetic})'(\P{Alphabetic})", "${1} ' ${2}"),
    (r"(\p{Alphabetic})'(\p{Alphabetic})", "${1}' ${2}"),
];

const OTHERS: &[(&str, &str)] = &[("'", " ' ")];

const LAST: (&str, &str) = (r"\.' ?$", " . ' ");

impl Moses {
    /// Compiles the rules.
    pub(super) fn new() -> Self {
        let rules = |table: &[(&str, &'static str)]| table.iter().copied().map(Rule::new).collect();
        Self {
            before_apostrophes: rules(BEFORE_APOSTROPHES),
            english: rules(ENGLISH),
            romance: rules(ROMANCE),
            others: rules(OTHERS),
            last: Rule::new(LAST),
        }
    }

    /// Puts a space between words and punctuation of `text`, which must be in lower case. Removes control characters and keeps
    /// everything else in its order. White space becomes single spaces.
    pub(super) fn separate_words(&self, text: &str, language: Option<Language>) -> String {
        let apostrophes = match language.map(Language::code) {
            Some("en") => &self.english,
            Some("fr" | "it") => &self.romance,
            _ => &self.others,
        };
        let mut spaced = join(text.split_whitespace());
        for rule in self.before_apostrophes.iter().chain(apostrophes) {
            spaced = rule.apply(spaced);
        }
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let next = words.iter().skip(1).map(|&word| Some(word)).chain([None]);
        let split = join(words.iter().zip(next).flat_map(|(word, next)| final_period(word, next)));
        join(self.last.apply(split).split_whitespace())
    }
}

impl Rule {
    fn new((pattern, replacement): (&str, &'static str)) -> Self {
        let pattern = Regex::new(pattern).expect("the patterns of this file are regular expressions");
        Self { pattern, replacement }
    }

    fn apply(&self, text: String) -> String {
        match self.pattern.replace_all(&text, self.replacement) {
            std::borrow::Cow::Borrowed(_) => text,
            std::borrow::Cow::Owned(replaced) => replaced,
        }
    }
}

/// Splits the period off the end of `word`, unless `word` has letters and another period, or `next` begins in lower case.
fn final_period<'a>(word: &'a str, next: Option<&str>) -> impl Iterator<Item = &'a str> {
    let goes_on = next.and_then(|next| next.chars().next()).is_some_and(char::is_lowercase);
    let split = word.strip_suffix('.').filter(|rest| {
        let several_periods = rest.contains('.') && rest.chars().any(char::is_alphabetic);
        let only_periods = rest.bytes().all(|byte| byte == b'.');
        !goes_on && !several_periods && !only_periods
    });
    match split {
        Some(rest) => [Some(rest), Some(".")],
        None => [Some(word), None],
    }
    .into_iter()
    .flatten()
}

fn join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(language: &str, text: &str, expect: &str) {
        assert_eq!(Moses::new().separate_words(text, Language::parse(language)), expect, "{language}: {text}");
    }

    #[test]
    fn punctuation_is_separated_and_hyphens_are_not() {
        check("en", "wait, is this well-made (or not)?", "wait , is this well-made ( or not ) ?");
        check("es", "¿dónde está?  ¡aquí!", "¿ dónde está ? ¡ aquí !");
        check("de", "60% von 40 € & mehr", "60 % von 40 € & mehr");
    }

    #[test]
    fn a_comma_between_digits_is_not_separated() {
        check("en", "1,500 people,2 dogs, 3,", "1,500 people , 2 dogs , 3 ,");
    }

    #[test]
    fn english_splits_before_the_apostrophe_and_french_and_italian_after_it() {
        check("en", "it's the dogs' bowl, don't", "it 's the dogs ' bowl , don 't");
        check("en", "the 1990's", "the 1990 's");
        check("fr", "l'eau d'aujourd'hui", "l' eau d' aujourd' hui");
        check("it", "l'albero", "l' albero");
        check("tr", "istanbul'da", "istanbul ' da");
        check("uk", "п'ять", "п ' ять");
    }

    #[test]
    fn a_period_is_split_off_unless_the_text_continues_in_lower_case() {
        check("en", "it rained. we stayed.", "it rained. we stayed .");
        check("en", "at 5 p.m. 20 came.", "at 5 p.m. 20 came .");
        check("en", "version 2. 3 follows.", "version 2 . 3 follows .");
        check("el", "ναι. όχι.", "ναι. όχι .");
        check("hi", "ठीक है. चलो.", "ठीक है . चलो .");
    }

    #[test]
    fn consecutive_periods_form_one_token() {
        check("en", "well...maybe .. no....", "well ... maybe .. no ....");
    }

    #[test]
    fn a_period_before_the_last_apostrophe_is_separated() {
        check("en", "she said 'go home.'", "she said ' go home . '");
    }

    #[test]
    fn non_alphabetic_combining_marks_are_separated() {
        // The virama U+094D and the tone mark U+0E49 are not Alphabetic.
        check("hi", "नमस्ते", "नमस \u{94d} ते");
        check("th", "น้ำ", "น \u{e49} ำ");
    }

    #[test]
    fn white_space_is_collapsed_and_control_characters_are_removed() {
        check("en", " a\tb\u{1}c \n d ", "a bc d");
        check("en", "", "");
    }
}
