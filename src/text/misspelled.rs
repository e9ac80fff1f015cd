//! Finds the words that a misspelled word of a query may mean, among the words of the vocabulary: those with one letter more or
//! less, another letter, or two neighbors in the other order. The collection need not have the word: it may have it in another
//! language.

use std::sync::LazyLock;

use super::runs::Class;
use crate::domain::hash_key;

/// Number of letters of a word that may be misspelled. Shorter words are too often one letter away from another.
const LETTERS: std::ops::RangeInclusive<usize> = 5..=20;
/// Maximum number of words that one may mean.
const CORRECTIONS_MAX: usize = 4;
/// The letters of plain words in the scripts in which misspelled words are corrected.
const ALPHABETS: [&str; 3] =
    ["abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрстуфхцчшщъыьэюяіїєґўјљњћђџѓќѕ", "αβγδεζηθικλμνξοπρστυφχψω"];

/// Groups of letters that are mistaken for each other.
const SIMILAR: [&str; 14] =
    ["aeiouy", "cksqxz", "fvwb", "dt", "gjkh", "mn", "ij", "bp", "аеёиоуыэюяіїє", "ий", "дт", "зсц", "шщ", "αεηιουω"];
/// Rows of keys.
const KEYS: [&str; 11] = [
    "qwertyuiop",
    "asdfghjkl",
    "zxcvbnm",
    "tzu",
    "yx",
    "йцукенгшщзхъ",
    "фывапролджэ",
    "ячсмитьбю",
    "ςερτυθιοπ",
    "ασδφγηξκλ",
    "ζχψωβνμ",
];
/// More tokens fewer than this show no more that a word is meant.
const TOKENS_FEWER_MAX: usize = 3;
/// How many tokens more than its kind of mistake demands, times two, a word may have, and how many fewer it must have if the typed
/// word may also be a compound.
const TOKENS_MORE: usize = 1;
const TOKENS_FEWER_THAN_COMPOUND: usize = 2;

/// How a word differs from the one that is meant.
#[derive(Debug, Clone, Copy)]
enum Edit<'w> {
    /// Two neighbors are in the other order.
    Swapped,
    /// A letter is double that should not be, or the other way round.
    Doubled,
    /// A letter is missing.
    Missing,
    /// There is a letter too many.
    Extra,
    /// A letter was typed instead of another one.
    Replaced { typed: &'w str, meant: &'w str },
}

impl Edit<'_> {
    /// How many tokens fewer than the typed word a meant one has, times two. About 3,600 misspelled words and 680 unknown names
    /// showed how probable each kind of mistake is: of the words with as many tokens that are found by swapping two letters, half
    /// are meant, and of those that are found by any other letter, one in 25.
    fn tokens_fewer(self) -> usize {
        match self {
            Self::Swapped | Self::Doubled => 0,
            Self::Missing => 2,
            Self::Extra => 3,
            Self::Replaced { typed, meant } => {
                let are_beside = |row: &&str| row.contains(&[typed, meant].concat()) || row.contains(&[meant, typed].concat());
                let are_similar = |group: &&str| group.contains(typed) && group.contains(meant);
                if KEYS.iter().any(are_beside) {
                    2
                } else if SIMILAR.iter().any(are_similar) {
                    3
                } else {
                    5
                }
            }
        }
    }
}

/// Returns the numbers (`word_key`) of the words that `is_known` accepts and that a plain word of this class may mean, which is
/// unknown itself. Different words may share a number, so unless people often make the mistake, a word that is meant must also
/// have fewer tokens: `tokens` counts those of a text, which are many for a text that is no word. `is_compound` says whether the
/// typed word has two known parts.
pub(super) fn corrections_of(
    class: Class,
    word: &str,
    is_compound: bool,
    is_known: impl Fn(u32) -> bool,
    tokens: impl Fn(&str) -> usize,
) -> Vec<u32> {
    let alphabet = ALPHABETS.iter().find(|alphabet| word.chars().all(|letter| alphabet.contains(letter)));
    let is_word = class == Class::Word && LETTERS.contains(&word.chars().count());
    let Some(alphabet) = alphabet.filter(|_| is_word) else { return Vec::new() };
    let mut known: Vec<(String, u32, Edit<'_>)> = Vec::new();
    for_each_edit(word, alphabet, |edit, key, edited| {
        if is_known(key) {
            let edited = edited.concat();
            known.extend(known.iter().all(|(other, ..)| *other != edited).then_some((edited, key, edit)));
        }
    });
    if known.is_empty() {
        return Vec::new();
    }
    let tokens_of_typed = tokens(word);
    let limit = match is_compound {
        true => (2 * tokens_of_typed).saturating_sub(TOKENS_FEWER_THAN_COMPOUND),
        false => 2 * tokens_of_typed + TOKENS_MORE,
    };
    let excess = |(other, key, edit): (String, u32, Edit<'_>)| {
        (2 * tokens(&other).max(tokens_of_typed.saturating_sub(TOKENS_FEWER_MAX)) + edit.tokens_fewer(), key)
    };
    let mut ranked: Vec<(usize, u32)> = known.into_iter().map(excess).collect();
    let least = ranked.iter().map(|(excess, _)| *excess).min().filter(|least| *least <= limit);
    ranked.retain(|(excess, _)| Some(*excess) == least);
    ranked.into_iter().map(|(_, key)| key).take(CORRECTIONS_MAX).collect()
}

/// Returns the CRC-32 of a text that has this one and goes on with some letters. For so few, this takes half as long as
/// `crc32fast`.
fn extended(hash: u32, letters: &str) -> u32 {
    static STEPS: LazyLock<[u32; 256]> = LazyLock::new(|| {
        let zero = crc32fast::hash(&[0]);
        std::array::from_fn(|byte| crc32fast::hash(&[byte as u8]) ^ zero)
    });
    let steps: &[u32; 256] = &STEPS;
    !letters.bytes().fold(!hash, |state, byte| steps[usize::from(state as u8 ^ byte)] ^ (state >> 8))
}

/// Passes the number and the parts of each text that is one edit away from a word to `take`, the likeliest kinds of edits first.
/// Some are passed twice. A text is hashed from where it differs, because there are hundreds.
fn for_each_edit<'w>(word: &'w str, alphabet: &'w str, mut take: impl FnMut(Edit<'w>, u32, [&str; 4])) {
    let starts: Vec<usize> = word.char_indices().map(|(index, _)| index).chain([word.len()]).collect();
    // The CRC-32 of the letters before each one.
    let mut before = vec![crc32fast::hash(&[])];
    for letter in word.char_indices().map(|(index, letter)| &word[index..index + letter.len_utf8()]) {
        before.push(extended(before[before.len() - 1], letter));
    }
    let mut pass = |edit: Edit<'w>, index: usize, [first, second]: [&str; 2], after: usize| {
        let rest = &word[starts[after]..];
        let hash = [first, second, rest].into_iter().fold(before[index], extended);
        take(edit, hash_key(hash), [&word[..starts[index]], first, second, rest]);
    };
    let length = starts.len() - 1;
    let letter = |index: usize| &word[starts[index]..starts[index + 1]];
    let is_beside = |other: &str, [before, after]: [usize; 2]| {
        before > 0 && letter(before - 1) == other || after < length && letter(after) == other
    };
    for index in (1..length).filter(|index| letter(index - 1) != letter(*index)) {
        pass(Edit::Swapped, index - 1, [letter(index), letter(index - 1)], index + 1);
    }
    for index in 0..length {
        let is_double = is_beside(letter(index), [index, index + 1]);
        pass(if is_double { Edit::Doubled } else { Edit::Extra }, index, ["", ""], index + 1);
    }
    let others = || alphabet.char_indices().map(|(index, letter)| &alphabet[index..index + letter.len_utf8()]);
    for other in others() {
        for index in 0..=length {
            let is_double = is_beside(other, [index, index]);
            pass(if is_double { Edit::Doubled } else { Edit::Missing }, index, [other, ""], index);
        }
    }
    for other in others() {
        for index in (0..length).filter(|index| letter(*index) != other) {
            pass(Edit::Replaced { typed: letter(index), meant: other }, index, [other, ""], index + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plain_words::word_key;
    use super::*;

    /// The words of this vocabulary that a word may mean. A word of the vocabulary is one token, and another is three.
    fn corrections(word: &str, vocabulary: &[&str]) -> Vec<u32> {
        let known: Vec<u32> = vocabulary.iter().map(|word| word_key(word)).collect();
        corrections_of(
            Class::Word,
            word,
            false,
            |key| known.contains(&key),
            |text| if known.contains(&word_key(text)) { 1 } else { 3 },
        )
    }

    #[test]
    fn a_word_with_one_wrong_letter_means_a_known_word() {
        for typed in ["versichrung", "versicherrung", "verischerung", "versicherumg", "ersicherung", "versicherunge"] {
            assert_eq!(corrections(typed, &["versicherung", "vers"]), [word_key("versicherung")], "{typed}");
        }
        assert_eq!(corrections("библотека", &["библиотека"]), [word_key("библиотека")]);
        assert_eq!(corrections("θαλασα", &["θαλασσα"]), [word_key("θαλασσα")]);
    }

    #[test]
    fn every_edit_has_the_number_of_its_text() {
        for (word, alphabet) in [("hotel", ALPHABETS[0]), ("отель", ALPHABETS[1])] {
            let mut edits = 0;
            for_each_edit(word, alphabet, |_, key, edited| {
                assert_eq!(key, word_key(&edited.concat()));
                edits += 1;
            });
            let letters = alphabet.chars().count();
            assert_eq!(edits, 4 + 5 + 6 * letters + 5 * (letters - 1), "{word}");
        }
    }

    #[test]
    fn words_that_are_two_letters_away_are_not_meant() {
        assert_eq!(corrections("versichrug", &["versicherung"]), [0; 0]);
    }

    #[test]
    fn short_words_and_codes_are_not_misspelled() {
        assert_eq!(corrections("hose", &["hoses", "rose"]), [0; 0]);
        assert_eq!(corrections("rj4500", &["rj45000"]), [0; 0]);
        assert_eq!(corrections(&"a".repeat(21), &[&"a".repeat(20)]), [0; 0]);
    }

    #[test]
    fn a_meant_word_has_the_fewest_tokens_and_fewer_than_the_typed_one() {
        let key = |key: u32| ["hotels", "hotele"].map(word_key).contains(&key);
        let corrections = |of_hotels: usize| {
            let tokens = |text: &str| if text == "hotels" { of_hotels } else { 2 };
            corrections_of(Class::Word, "hotelz", false, key, tokens).len()
        };
        assert_eq!((corrections(1), corrections(2), corrections(3)), (1, 0, 0));
    }

    /// Whether a word with three tokens means another one with this many.
    fn is_meant(typed: &str, meant: &str, tokens_of_meant: usize, is_compound: bool) -> bool {
        let tokens = |text: &str| if text == typed { 3 } else { tokens_of_meant };
        corrections_of(Class::Word, typed, is_compound, |key| key == word_key(meant), tokens) == [word_key(meant)]
    }

    #[test]
    fn frequent_mistakes_need_no_fewer_tokens() {
        for typed in ["hoetls", "hottels", "hotells"] {
            assert!(is_meant(typed, "hotels", 3, false), "{typed}");
        }
        assert!(is_meant("retungs", "rettungs", 3, false));
        for (typed, fewer) in [("hotls", 1), ("hotrls", 1), ("hotals", 1), ("hotelps", 1), ("hotegs", 2)] {
            assert!(is_meant(typed, "hotels", 3 - fewer, false) && !is_meant(typed, "hotels", 4 - fewer, false), "{typed}");
        }
    }

    #[test]
    fn a_word_that_may_be_a_compound_must_have_more_tokens_than_the_meant_one() {
        assert!(is_meant("hoetls", "hotels", 2, true) && !is_meant("hoetls", "hotels", 3, true));
        assert!(is_meant("hotls", "hotels", 1, true) && !is_meant("hotls", "hotels", 2, true));
    }

    #[test]
    fn the_likeliest_kind_of_mistake_wins() {
        let known = ["hotels", "hotes"].map(word_key);
        let tokens = |text: &str| if text == "hotes" { 1 } else { 2 };
        assert_eq!(corrections_of(Class::Word, "hotesl", false, |key| known.contains(&key), tokens), [word_key("hotels")]);
        assert_eq!(corrections_of(Class::Word, "hotesl", false, |key| key == known[1], tokens), [word_key("hotes")]);
    }
}
