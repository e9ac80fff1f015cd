//! Reads numbers with a power of ten in words ("3 million", "2,5 Mio.", "300万"), and finds the ways to write a large number.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::number_groups::{grouped, written};
use super::plain_words::plain_key;
use super::runs::{normalized, runs};
use super::terms::phrase;
use crate::domain::terms::TermPhrase;

/// The names of powers of ten, each with the number of zeros. A name that means different powers in different languages, such as
/// "billion", has the one that it has in English.
const POWERS: [(usize, &str); 6] = [
    (
        3,
        "k thousand thousands tausend tsd mille mila mil duizend tusen tusind tuhatta tys tysięcy tisíc ezer ribu тысяча тысячи \
         тысяч тыс тисяч",
    ),
    (5, "lakh lakhs लाख"),
    (
        6,
        "million millions mio mln millionen millón millones milhão milhões milione milioni miljoen miljoner millioner miljoonaa \
         milion milionów milionu milijuna milijonov milioane milyon juta millió миллион миллиона миллионов млн мільйон мільйона \
         мільйонів милиона εκατομμύρια מיליון مليون ملايين میلیون मिलियन",
    ),
    (7, "crore crores करोड़"),
    (
        9,
        "billion billions bn mrd milliarde milliarden milliard milliards milliarder miljarder miliardi miljard miljardia miliardów \
         miliard milijardi milyar miliar bilhões миллиард миллиарда миллиардов млрд мільярд мільярдів милиарда δισεκατομμύρια \
         מיליארד مليار میلیارد अरब",
    ),
    (12, "trillion trillions billionen billones trilhões триллион триллионов трлн"),
];
/// Those of scripts without spaces, and of Korean.
const UNSPACED: [(usize, &str); 2] = [(4, "万 萬 만"), (8, "亿 億 억")];
/// Names that are also written together with their number.
const JOINED: [&str; 5] = ["k", "mio", "mln", "bn", "mrd"];
/// Maximum number of digits of a number before a power of ten: before the decimal sign, and after it.
const INTEGER_MAX: usize = 3;
const UNSPACED_INTEGER_MAX: usize = 4;
const DECIMALS_MAX: usize = 2;
/// Number of digits of a number that is also searched with powers of ten.
const DIGITS: std::ops::RangeInclusive<usize> = 4..=15;

/// The number of zeros of each name between spaces, by its number.
static ZEROS_OF: LazyLock<FxHashMap<u32, usize>> = LazyLock::new(|| {
    let keys = |names: &'static str| names.split(' ').map(|name| plain_key(&normalized(name)));
    POWERS.iter().flat_map(|(zeros, names)| keys(names).map(|key| (key, *zeros))).collect()
});

/// The ways to write a number.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Notations {
    /// Those that end with a whole word or number.
    pub(super) spaced: Vec<TermPhrase>,
    /// Those that end within a word.
    pub(super) unspaced: Vec<TermPhrase>,
}

/// Returns the other ways to write the number with which some texts of a normalized query begin, if a power of ten follows it,
/// and how many of the texts these are.
pub(super) fn large_number(texts: &[&str]) -> Option<(Notations, usize)> {
    let text = texts.first()?.trim_start_matches(|c: char| !c.is_alphanumeric());
    let (number, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | ',')).unwrap_or(text.len()));
    let (integer, decimals) = number.split_once(['.', ',']).unwrap_or((number, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if integer.is_empty() || !is_digits(integer) || !is_digits(decimals) || decimals.len() > DECIMALS_MAX {
        return None;
    }
    let (zeros, used) = if rest.is_empty() { (zeros_of(texts.get(1)?)?, 2) } else { (zeros_of(rest)?, 1) };
    let zeros = "0".repeat(zeros.checked_sub(decimals.len())?);
    let digits = [integer, decimals, &zeros].concat();
    let digits = digits.trim_start_matches('0');
    let mut notations = with_powers(digits);
    notations.spaced.extend(grouped(digits).chain([written(vec![digits.to_owned()])]));
    DIGITS.contains(&digits.len()).then_some((notations, used))
}

/// Returns the number of zeros of the power of ten with which a text begins. Signs may follow it, and other words in scripts
/// without spaces.
fn zeros_of(text: &str) -> Option<usize> {
    let unspaced = UNSPACED.iter().find(|(_, names)| names.split(' ').any(|name| text.starts_with(name)));
    let name = || runs(text).next().filter(|name| text.trim_end_matches(|c: char| !c.is_alphanumeric()) == name.text);
    unspaced.map(|(zeros, _)| *zeros).or_else(|| ZEROS_OF.get(&plain_key(name()?.text)).copied())
}

/// Returns the ways to write a number that is given without groups with a power of ten.
pub(super) fn with_powers(digits: &str) -> Notations {
    let is_number =
        DIGITS.contains(&digits.len()) && !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Notations::default();
    }
    let of_power = |zeros, names: &'static str, integer_max| {
        let number = before_power(digits, zeros, integer_max);
        number.into_iter().flat_map(move |number| names.split(' ').map(move |name| (number.clone(), name)))
    };
    let spaced = POWERS.iter().flat_map(|(zeros, names)| of_power(*zeros, names, INTEGER_MAX));
    let texts = spaced.flat_map(|(number, name)| {
        let joined = JOINED.contains(&name).then(|| format!("{number}{name}"));
        [Some(format!("{number} {name}")), joined]
    });
    let unspaced = UNSPACED.iter().flat_map(|(zeros, names)| of_power(*zeros, names, UNSPACED_INTEGER_MAX));
    Notations {
        spaced: texts.flatten().filter_map(|text| phrase(&text)).collect(),
        unspaced: unspaced.filter_map(|(number, name)| phrase(&format!("{number}{name}"))).collect(),
    }
}

/// Returns a number as it is written before a power of ten. `None` if it would have too many digits.
fn before_power(digits: &str, zeros: usize, integer_max: usize) -> Option<String> {
    let (integer, rest) = digits.split_at(digits.len().checked_sub(zeros)?);
    let decimals = rest.trim_end_matches('0');
    let is_short = (1..=integer_max).contains(&integer.len()) && decimals.len() <= DECIMALS_MAX;
    is_short.then(|| if decimals.is_empty() { integer.to_owned() } else { format!("{integer}.{decimals}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(phrases: &[TermPhrase]) -> Vec<String> {
        phrases.iter().map(|phrase| phrase.terms.join(" ")).collect()
    }

    /// The ways to write the number with which a query begins, those that end with a whole word.
    fn written_as(query: &str) -> Vec<String> {
        let normal = normalized(query);
        let texts_of_query: Vec<&str> = normal.split_whitespace().collect();
        large_number(&texts_of_query).map_or_else(Vec::new, |(notations, _)| texts(&notations.spaced))
    }

    #[test]
    fn a_number_with_a_power_of_ten_is_also_written_in_digits_and_in_other_languages() {
        let million = written_as("3 million");
        for notation in ["3 million", "3 mio", "3mio", "3 millones", "3 миллиона", "30 lakh", "3 000 000", "3000000"] {
            assert!(million.contains(&notation.to_owned()), "{notation}: {million:?}");
        }
        for query in ["3 Mio.", "3 millónes!", "3Mio", "$3 million", "3,0 Millionen", "300万人", "300만 명", "30 लाख", "3 млн"]
        {
            assert_eq!(written_as(query), million, "{query}");
        }
    }

    #[test]
    fn a_number_may_have_decimals() {
        let number = written_as("2.5 billion");
        assert!(["2 5 mrd", "2 500 000 000", "2500000000"].iter().all(|text| number.contains(&(*text).to_owned())), "{number:?}");
        assert_eq!(written_as("2,5 Mrd."), number);
        assert!(written_as("0.5 million").contains(&"500 thousand".to_owned()));
    }

    #[test]
    fn a_large_number_in_digits_is_written_with_powers_of_ten() {
        let with_powers = |digits: &str| with_powers(digits);
        assert!(texts(&with_powers("40000").spaced).contains(&"40k".to_owned()));
        assert_eq!(texts(&with_powers("3000000").unspaced), ["300 万", "300 萬", "300 만"]);
        assert!(with_powers("3000000").unspaced.iter().all(|phrase| phrase.prefix));
        for digits in ["200", "2024", "1234567", "0300000", "30000x", "30000000000000000000", ""] {
            assert_eq!(with_powers(digits), Notations::default(), "{digits}");
        }
    }

    #[test]
    fn other_numbers_have_no_power_of_ten() {
        for query in
            ["3", "3 apples", "million", "3.4.5 million", "3.000 million", "version3 million", "3 millionaires", "5m", ""]
        {
            assert_eq!(written_as(query), [""; 0], "{query}");
        }
    }
}
