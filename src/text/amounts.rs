//! Finds the numbers of a query with the word that belongs to them, and the other ways to write both: amounts with their unit
//! ("500 ml"), large numbers ("3 million"), named numbers ("platform 17", "Louis XIV") and ordinal numbers ("third floor").

use super::magnitudes::{Notations, large_number, with_powers};
use super::number_groups::{GROUPED_MIN, other_numeral, ungrouped};
use super::ordinals::{cardinals, ordinal, ordinals};
use super::plain_words::{plain_key, word_keys};
use super::runs::{Class, Run, exact, runs};
use super::units::other_names;
use crate::domain::terms::{LiteralPart, SearchCondition, TermPhrase};

/// Maximum number of parts of each kind.
const PARTS_MAX: usize = 4;
/// Maximum number of letters of a unit after a number.
const UNIT_MAX: usize = 4;
/// Minimum number of letters of a word before a number that it names, or after an ordinal number.
const NAME_MIN: usize = 3;
/// Maximum number of words that a number names: "World War 2".
const NAMED_MAX: usize = 2;
/// Roman numerals that are words in some languages.
const ROMAN_WORDS: [&str; 3] = ["vi", "xi", "i"];
/// Signs around an amount that do not belong to it, and those that may also follow it.
const AROUND: &str = "()[]{}\"“”„«»‘’";
const AFTER: &str = ".,;:!?…";

/// Returns the numbers of a query with the unit after each, also written as one and with other names of the unit, and those with
/// the word before them, also as Roman numerals: "500 ml", "platform 17", "Louis 14". Every word of a few letters counts as a
/// unit. Longer numbers after a word are rather years.
pub(super) fn amounts(normal: &str, share: f32) -> Vec<LiteralPart> {
    let texts: Vec<&str> = normal.split_whitespace().collect();
    let is_around = |c: char| AROUND.contains(c);
    let part = |(two, position): (&[&str], usize)| {
        let [first, second] = [two[0].trim_start_matches(is_around), without_signs_after(two[1])];
        let is_last = position + 2 == texts.len();
        let others = amount(first, second).or_else(|| named_number(first, second, is_last))?;
        let terms = vec![exact(first).into_owned(), exact(second).into_owned()];
        Some(LiteralPart {
            phrases: std::iter::once(terms).chain(others).map(folded).collect(),
            dates: Vec::new(),
            position,
            words: vec![plain_key(first), plain_key(second)],
            share: 2.0 * share,
            condition: SearchCondition::Always,
        })
    };
    texts.windows(2).zip(positions(&texts)).filter_map(part).take(PARTS_MAX).collect()
}

/// Returns the large numbers of a query in the ways to write them. `texts` are its texts between spaces, but with the groups of
/// thousands as one.
pub(super) fn large_numbers(texts: &[&str], share: f32) -> Vec<LiteralPart> {
    let number = |(index, position): (usize, usize)| {
        let in_digits = || Some((with_powers(&digits(texts[index].trim_matches(|c: char| !c.is_alphanumeric()))?), 1));
        let (Notations { spaced, unspaced }, count) = large_number(&texts[index..]).or_else(in_digits)?;
        let typed: Vec<Run<'_>> = texts[index..index + count].iter().flat_map(|text| runs(text)).collect();
        let (words, share) = (word_keys(&typed), share * typed.len() as f32);
        let part = move |phrases: Vec<TermPhrase>| {
            let part = LiteralPart {
                phrases,
                dates: Vec::new(),
                position,
                words: words.clone(),
                share,
                condition: SearchCondition::Always,
            };
            Some(part).filter(|part| !part.phrases.is_empty())
        };
        // They are apart, because words by their beginning are not searched in large collections.
        Some([spaced, unspaced].into_iter().filter_map(part))
    };
    positions(texts).enumerate().filter_map(number).flatten().take(PARTS_MAX).collect()
}

/// Returns the ordinal numbers of a query with the words after them, and the named numbers, each also written as the other:
/// "third floor" and "floor 3".
pub(super) fn numbered(normal: &str, share: f32) -> Vec<LiteralPart> {
    let texts: Vec<&str> = normal.split_whitespace().collect();
    let starts: Vec<usize> = positions(&texts).collect();
    let part = |(index, count): (usize, usize)| {
        let together = texts.get(index..=index + count)?;
        let others = numbered_otherwise(together)?;
        let typed: Vec<Run<'_>> = together.iter().flat_map(|text| runs(text)).collect();
        Some(LiteralPart {
            phrases: others.into_iter().map(folded).collect(),
            dates: Vec::new(),
            position: starts[index],
            words: word_keys(&typed),
            share: share * typed.len() as f32,
            condition: SearchCondition::Notation,
        })
    };
    let places = (0..texts.len()).flat_map(|index| (1..=NAMED_MAX).map(move |count| (index, count)));
    places.filter_map(part).take(PARTS_MAX).collect()
}

/// Returns the ways to write some words with their number, which is before them as an ordinal or after them. `None` if these are
/// not such.
fn numbered_otherwise(texts: &[&str]) -> Option<Vec<Vec<String>>> {
    let names = |texts: &[&str]| texts.iter().map(|text| name(without_signs_after(text))).collect::<Option<Vec<String>>>();
    let (first, after) = texts.split_first()?;
    let (last, before) = texts.split_last()?;
    let before_names = |number: String, names: &[String]| std::iter::once(number).chain(names.iter().cloned()).collect();
    if let Some(number) = ordinal(first.trim_start_matches(|c: char| AROUND.contains(c))) {
        let names = names(after)?;
        let after_names = |number: String| names.iter().cloned().chain([number]).collect();
        return Some(
            cardinals(number).map(after_names).chain(ordinals(number).map(|number| before_names(number, &names))).collect(),
        );
    }
    let names = names(before)?;
    let last = without_signs_after(last);
    let digits = if is_number(last) { Some(last.to_owned()) } else { other_numeral(last).filter(|_| is_telling_numeral(last)) };
    let number = ordinal(&format!("{}.", digits?))?;
    Some(ordinals(number).map(|number| before_names(number, &names)).collect())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a Roman numeral is hardly another word.
fn is_telling_numeral(numeral: &str) -> bool {
    numeral.len() > 1 && !ROMAN_WORDS.contains(&numeral)
}

/// Returns the digits of a number of groups of thousands.
fn digits(number: &str) -> Option<String> {
    if is_number(number) {
        return Some(number.to_owned());
    }
    let mut phrases = number.starts_with(|c: char| c.is_ascii_digit()).then(|| ungrouped(number)).into_iter().flatten();
    phrases.find_map(|phrase| if let [digits] = &phrase.terms[..] { Some(digits.clone()) } else { None })
}

/// Returns the other ways to write a number with the unit after it. `None` if these are not such.
fn amount(number: &str, unit: &str) -> Option<Vec<Vec<String>>> {
    let is_short = !unit.is_empty() && unit.len() <= UNIT_MAX && unit.bytes().all(|byte| byte.is_ascii_alphabetic());
    let mut names = other_names(unit).peekable();
    if !is_number(number) || !is_short && names.peek().is_none() {
        return None;
    }
    let mut written = vec![vec![[number, unit].concat()]];
    for name in names {
        written.push(vec![number.to_owned(), name.to_owned()]);
        written.extend((name.len() < UNIT_MAX).then(|| vec![[number, name].concat()]));
    }
    Some(written)
}

/// Returns the ways to write a number that is joined with a known unit.
pub(super) fn joined_amount(text: &str) -> Vec<TermPhrase> {
    let (number, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let others = if other_names(unit).next().is_some() { amount(number, unit) } else { None };
    let apart = others.is_some().then(|| vec![number.to_owned(), unit.to_owned()]);
    others.into_iter().flatten().chain(apart).map(folded).collect()
}

/// Returns the other ways to write a word and the number after it, which may be a Roman numeral. `None` if these are not such.
fn named_number(text: &str, number: &str, is_last: bool) -> Option<Vec<Vec<String>>> {
    let (name, other) = (name(text)?, other_numeral(number));
    // Single letters and some others are rather words.
    let is_numeral = other.is_some() && !ROMAN_WORDS.contains(&number) && (is_last || number.len() > 1);
    let is_named = is_number(number) && number.len() < GROUPED_MIN || is_numeral && !is_number(number);
    is_named.then(|| other.into_iter().map(|other| vec![name.clone(), other]).collect())
}

/// Returns the term of a word that may name a number. `None` for other texts.
fn name(text: &str) -> Option<String> {
    let run = runs(text).next().filter(|run| run.class == Class::Word && run.text == text)?;
    let is_name = !run.text.contains(char::is_numeric) && run.characters().len() >= NAME_MIN;
    is_name.then(|| exact(text).into_owned())
}

/// Returns the position of each text's first word in the query.
fn positions(texts: &[&str]) -> impl Iterator<Item = usize> {
    texts.iter().scan(0, |position, text| {
        let count = runs(text).count();
        *position += count;
        Some(*position - count)
    })
}

fn without_signs_after(text: &str) -> &str {
    text.trim_end_matches(|c: char| AROUND.contains(c) || AFTER.contains(c))
}

fn folded(terms: Vec<String>) -> TermPhrase {
    TermPhrase { terms, prefix: false, folded: true }
}

#[cfg(test)]
mod tests {
    use super::super::runs::normalized;
    use super::*;

    /// The ways to write each part, with its position and the number of its words.
    fn written(parts: Vec<LiteralPart>) -> Vec<(usize, usize, Vec<String>)> {
        let phrases = |part: &LiteralPart| part.phrases.iter().map(|phrase| phrase.terms.join(" ")).collect();
        parts.iter().map(|part| (part.position, part.words.len(), phrases(part))).collect()
    }

    fn numbered_in(query: &str) -> Vec<(usize, usize, Vec<String>)> {
        written(numbered(&normalized(query), 0.25))
    }

    #[test]
    fn an_ordinal_number_before_a_word_is_also_written_after_it() {
        let found = numbered_in("the third floor");
        let (position, words, floor) = &found[0];
        assert_eq!((*position, *words), (1, 2));
        for phrase in ["floor 3", "floor iii", "3rd floor", "3 floor", "third floor"] {
            assert!(floor.contains(&phrase.to_owned()), "{phrase}: {floor:?}");
        }
        assert!(numbered_in("Second World War")[1].2.contains(&"world war ii".to_owned()));
        assert!(numbered_in("(4. Stock)")[0].2.contains(&"vierter stock".to_owned()));
    }

    #[test]
    fn a_named_number_is_also_written_as_an_ordinal_before_the_name() {
        let found = numbered_in("World War II");
        assert_eq!(found.iter().map(|(position, words, _)| (*position, *words)).collect::<Vec<_>>(), [(0, 3), (1, 2)]);
        assert!(found[0].2.contains(&"second world war".to_owned()) && found[1].2.contains(&"2nd war".to_owned()));
        assert!(numbered_in("Chapter 3")[0].2.contains(&"third chapter".to_owned()));
    }

    #[test]
    fn other_words_are_not_numbered() {
        for query in ["third", "3 apples", "in 2", "3rd 4th", "room 120", "hur kan vi", "third of", "c++ 17", "第 5", ""] {
            assert_eq!(numbered_in(query), [], "{query}");
        }
    }

    #[test]
    fn a_large_number_says_which_words_of_the_query_it_is() {
        let found = |texts: &[&str]| -> Vec<(usize, usize)> {
            written(large_numbers(texts, 0.25)).into_iter().map(|(position, words, _)| (position, words)).collect()
        };
        assert_eq!(found(&["about", "3", "million", "people"]), [(1, 2), (1, 2)], "the second one in other scripts");
        assert_eq!(found(&["2'500'000", "people"]), [(0, 3), (0, 3)]);
        assert_eq!(found(&["2.5", "million"]), [(0, 3), (0, 3)]);
        assert_eq!(found(&["2024", "v1.000"]), []);
    }
}
