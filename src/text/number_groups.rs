//! Finds the other ways to write the numbers and codes of a query: with and without groups of digits, the "v" of a version, the
//! sign between sizes, and Roman numerals.

use super::runs::{class, truncate_term};
use crate::domain::terms::TermPhrase;

/// Maximum number of groups of a number or code.
pub(super) const GROUPS_MAX: usize = 16;
/// Signs between the thousands of a number.
const THOUSANDS_SIGNS: [&str; 5] = [".", ",", "'", "’", "٬"];
/// Maximum number of sizes of a thing.
const DIMENSIONS_MAX: usize = 3;
/// Minimum number of digits of a number that may be written in groups.
pub(super) const GROUPED_MIN: usize = 4;
/// Minimum number of digits of a number in lakhs, whose groups are not those of thousands: "1,23,456".
const LAKHS_MIN: usize = 6;
/// Minimum number of characters of a code that is often written in groups of four, such as an account number.
const CODE_MIN: usize = 12;

/// The largest number that is also searched as a Roman numeral, and their digits with the values, largest first.
const ROMAN_MAX: u8 = 39;
const ROMAN_DIGITS: [(&str, u8); 5] = [("x", 10), ("ix", 9), ("v", 5), ("iv", 4), ("i", 1)];

/// Returns a small number as a Roman numeral in lower case, and such a numeral as a number.
pub(super) fn other_numeral(text: &str) -> Option<String> {
    let roman = |number: u8| {
        let (mut numeral, mut rest) = (String::new(), number);
        for (digit, value) in ROMAN_DIGITS {
            while rest >= value {
                numeral.push_str(digit);
                rest -= value;
            }
        }
        numeral
    };
    if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0') {
        return text.parse().ok().filter(|number| (1..=ROMAN_MAX).contains(number)).map(roman);
    }
    let is_roman = !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'i' | b'v' | b'x'));
    let number = if is_roman { (1..=ROMAN_MAX).find(|number| roman(*number) == text) } else { None };
    number.map(|number| number.to_string())
}

/// Splits a text at its spaces, except those between the thousands of a number, which become apostrophes: "1 234" becomes
/// "1'234". Also says which texts had such spaces.
pub(super) fn with_thousands_joined(normal: &str) -> Vec<(String, bool)> {
    let mut texts: Vec<(String, bool)> = Vec::new();
    // Whether thousands may follow the last text.
    let mut is_open = false;
    for word in normal.split_whitespace() {
        let digits = word.bytes().take_while(u8::is_ascii_digit).count();
        let decimals = word[digits..].trim_start_matches([',', '.']);
        let goes_on =
            digits == 3 && (decimals.bytes().all(|byte| byte.is_ascii_digit()) || !decimals.contains(char::is_alphanumeric));
        match texts.last_mut().filter(|_| is_open && goes_on) {
            Some((number, is_spaced)) => {
                (*number, *is_spaced) = (format!("{number}'{word}"), true);
                is_open = digits == word.len();
            }
            None => {
                let number = word.trim_start_matches(|c: char| class(c).is_none());
                let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
                is_open = is_number && (1..=3).contains(&number.len()) && !number.starts_with('0');
                texts.push((word.to_owned(), false));
            }
        }
    }
    texts
}

/// Returns a version number without the letter before it, and one that has none with a "v": "2.3" for "v2.3", and the other way
/// round. `as_written` has its groups. Numbers of four digits or more are rather prices than versions and get no "v".
pub(super) fn other_version(text: &str, as_written: &TermPhrase) -> Option<TermPhrase> {
    let number = text.strip_prefix(|c: char| c.is_ascii_lowercase()).unwrap_or(text);
    let (first, rest) = number.split_once('.')?;
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = is_digits(first) && rest.starts_with(|c: char| c.is_ascii_digit());
    let has_letter = number.len() < text.len();
    if !is_version || !has_letter && first.len() >= GROUPED_MIN {
        return None;
    }
    let first = if has_letter { truncate_term(first).to_owned() } else { format!("v{first}") };
    let terms = std::iter::once(first).chain(as_written.terms.iter().skip(1).cloned()).collect();
    Some(TermPhrase { terms, prefix: false, folded: false })
}

/// Returns the ways to write a number or code in groups: thousands, lakhs, and groups of four.
pub(super) fn grouped(text: &str) -> impl Iterator<Item = TermPhrase> {
    let text = if text.len() > 4 * GROUPS_MAX { "" } else { text };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (integer, rest) = text.split_at(digits);
    let decimals = rest.get(1..).filter(|decimals| !decimals.is_empty() && decimals.bytes().all(|byte| byte.is_ascii_digit()));
    let is_number = digits >= GROUPED_MIN && (rest.is_empty() || decimals.is_some());
    let with_decimals = |groups: Vec<String>| groups.into_iter().chain(decimals.map(ToOwned::to_owned)).collect::<Vec<_>>();
    let thousands = is_number.then(|| with_decimals(groups_from_the_end(integer, 3).collect()));
    let lakhs = (is_number && digits >= LAKHS_MIN).then(|| {
        let (head, tail) = integer.split_at(digits - 3);
        with_decimals(groups_from_the_end(head, 2).chain([tail.to_owned()]).collect())
    });
    let is_code = text.len() >= CODE_MIN && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let fours = is_code.then(|| groups(text, 4).collect());
    [thousands, lakhs, fours].into_iter().flatten().map(written)
}

/// Whether these groups of digits are those of India: "12,34,567".
fn are_lakhs(groups: &[&str]) -> bool {
    let [first, between @ .., last] = groups else { return false };
    first.len() <= 2 && !between.is_empty() && between.iter().all(|group| group.len() == 2) && last.len() == 3
}

/// Returns the ways to write a number of groups of thousands, or of lakhs, without these: "1.099,00" as 1099.
pub(super) fn ungrouped(text: &str) -> impl Iterator<Item = TermPhrase> {
    let groups: Vec<&str> = text.split(|c: char| !c.is_ascii_digit()).collect();
    let signs: Vec<&str> = text.split(|c: char| c.is_ascii_digit()).filter(|sign| !sign.is_empty()).collect();
    let decimals = groups.last().copied().filter(|last| (1..=2).contains(&last.len()));
    let integer = &groups[..groups.len() - usize::from(decimals.is_some())];
    let (between, before_decimals) = signs.split_at(integer.len().saturating_sub(1).min(signs.len()));
    let first = between.first().copied().unwrap_or_default();
    let are_signs = THOUSANDS_SIGNS.contains(&first) && between.iter().all(|sign| *sign == first);
    let is_thousands = are_signs
        && !before_decimals.contains(&first)
        && integer.len() > 1
        && (1..=3).contains(&integer[0].len())
        && (integer[1..].iter().all(|group| group.len() == 3) || are_lakhs(integer));
    let integer = is_thousands.then(|| integer.concat());
    let exact = integer.clone().map(|integer| std::iter::once(integer).chain(decimals.map(ToOwned::to_owned)).collect());
    let rounded = integer.filter(|_| decimals.is_some_and(|decimals| decimals.bytes().all(|digit| digit == b'0')));
    let variants: [Option<Vec<String>>; 2] = [exact, rounded.map(|integer| vec![integer])];
    variants.into_iter().flatten().map(written)
}

/// Returns the other ways to write the sizes of a thing, with a letter or a sign between the numbers: "M8x40" for "M8×40", and
/// the other way round.
pub(super) fn dimensions(text: &str) -> Vec<TermPhrase> {
    let text = if text.len() > 4 * GROUPS_MAX { "" } else { text };
    let groups: Vec<&str> = text.split(['x', '×']).collect();
    let is_last = |index: usize| index + 1 == groups.len();
    let ends_in_digits = |(index, group): (usize, &&str)| {
        let (starts, ends) = (group.starts_with(|c: char| c.is_ascii_digit()), group.ends_with(|c: char| c.is_ascii_digit()));
        group.bytes().all(|byte| byte.is_ascii_alphanumeric()) && (starts || index == 0) && (ends || is_last(index))
    };
    // "0x1f" is a number.
    if !(2..=DIMENSIONS_MAX).contains(&groups.len()) || groups[0] == "0" || !groups.iter().enumerate().all(ends_in_digits) {
        return Vec::new();
    }
    let owned = |groups: &[&str]| groups.iter().map(|group| (*group).to_owned()).collect::<Vec<_>>();
    let with_letters = owned(&groups.join(" x ").split(' ').collect::<Vec<_>>());
    let mut variants = vec![vec![groups.join("x")], owned(&groups), with_letters];
    // Not the way that it is written.
    variants.remove(usize::from(text.contains('×')));
    variants.into_iter().map(written).collect()
}

pub(super) fn written(terms: Vec<String>) -> TermPhrase {
    TermPhrase { terms, prefix: false, folded: false }
}

/// Splits an ASCII text into groups of this length; the last one may be shorter.
fn groups(text: &str, length: usize) -> impl Iterator<Item = String> {
    text.as_bytes().chunks(length).map(|group| String::from_utf8_lossy(group).into_owned())
}

/// Splits an ASCII text into groups of this length; the first one may be shorter.
fn groups_from_the_end(text: &str, length: usize) -> impl Iterator<Item = String> {
    let (head, tail) = text.split_at(text.len() % length);
    let head = (!head.is_empty()).then(|| head.to_owned());
    head.into_iter().chain(groups(tail, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_also_roman_numerals() {
        let other = |text: &str| other_numeral(text).unwrap_or_default();
        assert_eq!(["1", "4", "14", "16", "39"].map(other), ["i", "iv", "xiv", "xvi", "xxxix"]);
        assert_eq!(["ii", "viii", "xix"].map(other), ["2", "8", "19"]);
        assert_eq!(["0", "40", "007", "", "iiii", "vx", "xl", "x1", "256", "1000"].map(other), [""; 10]);
    }
}
