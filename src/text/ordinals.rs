//! Reads ordinal numbers ("third", "3rd", "3."), and finds the ways to write them.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::number_groups::other_numeral;
use super::plain_words::plain_key;

/// The words for first to twelfth in English, German, French, Spanish, Italian, Portuguese, Dutch and Swedish. Words that are
/// frequent in another meaning are left out.
const ORDINALS: [&str; 12] = [
    "first erste ersten erster erstes premier première primer primera primero primo prima primeiro primeira eerste första",
    "second zweite zweiten zweiter zweites deuxième seconde segundo segunda secondo seconda tweede",
    "third dritte dritten dritter drittes troisième tercer tercera tercero terzo terza terceiro terceira derde tredje",
    "fourth vierte vierten vierter viertes quatrième cuarto cuarta quarto quarta vierde fjärde",
    "fifth fünfte fünften fünfter fünftes cinquième quinto quinta vijfde femte",
    "sixth sechste sechsten sechster sechstes sixième sexto sexta sesto sesta zesde sjätte",
    "seventh siebte siebten siebter siebtes septième séptimo séptima settimo settima sétimo sétima zevende sjunde",
    "eighth achte achtes huitième octavo octava ottavo ottava oitavo oitava achtste åttonde",
    "ninth neunte neunten neunter neuntes neuvième noveno novena nono nona negende nionde",
    "tenth zehnte zehnten zehnter zehntes dixième décimo décima decimo decima tiende tionde",
    "eleventh elfte elften elfter elftes onzième",
    "twelfth zwölfte zwölften zwölfter zwölftes douzième",
];
/// What follows the digits of an ordinal number.
const SUFFIXES: [&str; 12] = ["st", "nd", "rd", "th", "e", "er", "ère", "ème", "te", "ten", "a", "o"];
/// The largest ordinal number in digits.
const MAX: u8 = 39;

/// The number of each word, by the word's number (`plain_words::word_key`).
static NUMBER_OF: LazyLock<FxHashMap<u32, u8>> = LazyLock::new(|| {
    let numbers = (1..).zip(ORDINALS);
    numbers.flat_map(|(number, words)| words.split(' ').map(move |word| (plain_key(word), number))).collect()
});

/// Returns the number that a text of a normalized query names as an ordinal.
pub(super) fn ordinal(text: &str) -> Option<u8> {
    let (digits, suffix) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    if digits.is_empty() {
        return NUMBER_OF.get(&plain_key(text)).copied();
    }
    let is_ordinal = suffix == "." || SUFFIXES.contains(&suffix);
    digits.parse().ok().filter(|number| is_ordinal && (1..=MAX).contains(number) && !digits.starts_with('0'))
}

/// Returns the ways to write a number as an ordinal, without the dot of "3.".
pub(super) fn ordinals(number: u8) -> impl Iterator<Item = String> {
    let words = usize::from(number).checked_sub(1).and_then(|index| ORDINALS.get(index)).copied().unwrap_or_default();
    let in_words = words.split(' ').filter(|word| !word.is_empty()).map(ToOwned::to_owned);
    let in_digits = std::iter::once("").chain(SUFFIXES).map(move |suffix| format!("{number}{suffix}"));
    in_words.chain(in_digits)
}

/// Returns the ways to write a number after the word that it numbers: "2" and "ii".
pub(super) fn cardinals(number: u8) -> impl Iterator<Item = String> {
    let digits = number.to_string();
    let numeral = other_numeral(&digits);
    std::iter::once(digits).chain(numeral)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinal_numbers_are_read_in_words_and_in_digits() {
        for text in ["third", "3rd", "3.", "3e", "dritte", "troisieme", "troisième", "tercera", "3a"] {
            assert_eq!(ordinal(text), Some(3), "{text}");
        }
        assert_eq!(["21st", "12th", "zwölfter", "1er"].map(ordinal), [Some(21), Some(12), Some(12), Some(1)]);
        assert_eq!(["3", "3x", "03.", "40th", "300th", "th", "three", ""].map(ordinal), [None; 8]);
    }

    #[test]
    fn an_ordinal_number_has_words_up_to_twelve_and_digits() {
        let has = |number, text: &str| ordinals(number).any(|other| other == text);
        assert!(has(2, "second") && has(2, "2nd") && has(2, "2") && has(12, "twelfth") && has(21, "21st") && !has(2, "third"));
        assert_eq!(cardinals(2).collect::<Vec<_>>(), ["2", "ii"]);
    }
}
