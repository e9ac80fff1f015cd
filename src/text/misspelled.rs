//! Finds the words that a misspelled word of a query may mean, among the words of the vocabulary: those with one letter more or
//! less, another letter, or two neighbors in the other order. The collection need not have the word: it may have it in another
//! language.

use std::sync::LazyLock;

use super::plain_words::hash_key;
use super::runs::Class;

/// Number of letters of a word that may be misspelled. Shorter words are too often one letter away from another.
const LETTERS: std::ops::RangeInclusive<usize> = 5..=20;
/// Maximum number of words that one may mean.
const CORRECTIONS_MAX: usize = 4;
/// The letters of plain words in the scripts in which misspelled words are corrected.
const ALPHABETS: [&str; 3] =
    ["abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрстуфхцчшщъыьэюяіїєґўјљњћђџѓќѕ", "αβγδεζηθικλμνξοπρστυφχψω"];

/// Returns the numbers (`word_key`) of the words that `is_known` accepts and that a plain word of this class may mean, which is
/// unknown itself. Different words may share a number, so a word that is meant must also have fewer tokens: `tokens` counts
/// those of a text, which are many for a text that is no word.
pub(super) fn corrections_of(
    class: Class,
    word: &str,
    is_known: impl Fn(u32) -> bool,
    tokens: impl Fn(&str) -> usize,
) -> Vec<u32> {
    let alphabet = ALPHABETS.iter().find(|alphabet| word.chars().all(|letter| alphabet.contains(letter)));
    let is_word = class == Class::Word && LETTERS.contains(&word.chars().count());
    let Some(alphabet) = alphabet.filter(|_| is_word) else { return Vec::new() };
    let mut known: Vec<(String, u32)> = Vec::new();
    for_each_edit(word, alphabet, |key, edited| {
        if is_known(key) {
            let edited = edited.concat();
            known.extend(known.iter().all(|(other, _)| *other != edited).then_some((edited, key)));
        }
    });
    if known.is_empty() {
        return Vec::new();
    }
    let tokens_of_typed = tokens(word);
    let mut counted: Vec<(usize, u32)> = known.into_iter().map(|(other, key)| (tokens(&other), key)).collect();
    let fewest = counted.iter().map(|(count, _)| *count).min().filter(|count| *count < tokens_of_typed);
    counted.retain(|(count, _)| Some(*count) == fewest);
    counted.into_iter().map(|(_, key)| key).take(CORRECTIONS_MAX).collect()
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
fn for_each_edit(word: &str, alphabet: &str, mut take: impl FnMut(u32, [&str; 4])) {
    let starts: Vec<usize> = word.char_indices().map(|(index, _)| index).chain([word.len()]).collect();
    // The CRC-32 of the letters before each one.
    let mut before = vec![crc32fast::hash(&[])];
    for letter in word.char_indices().map(|(index, letter)| &word[index..index + letter.len_utf8()]) {
        before.push(extended(before[before.len() - 1], letter));
    }
    let mut pass = |index: usize, [first, second]: [&str; 2], after: usize| {
        let rest = &word[starts[after]..];
        let hash = [first, second, rest].into_iter().fold(before[index], extended);
        take(hash_key(hash), [&word[..starts[index]], first, second, rest]);
    };
    let length = starts.len() - 1;
    let letter = |index: usize| &word[starts[index]..starts[index + 1]];
    for index in (1..length).filter(|index| letter(index - 1) != letter(*index)) {
        pass(index - 1, [letter(index), letter(index - 1)], index + 1);
    }
    for index in 0..length {
        pass(index, ["", ""], index + 1);
    }
    let others = || alphabet.char_indices().map(|(index, letter)| &alphabet[index..index + letter.len_utf8()]);
    for other in others() {
        (0..=length).for_each(|index| pass(index, [other, ""], index));
    }
    for other in others() {
        (0..length).filter(|index| letter(*index) != other).for_each(|index| pass(index, [other, ""], index + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::super::plain_words::word_key;
    use super::*;

    /// The words of this vocabulary that a word may mean. A word of the vocabulary is one token, and another is three.
    fn corrections(word: &str, vocabulary: &[&str]) -> Vec<u32> {
        let known: Vec<u32> = vocabulary.iter().map(|word| word_key(word)).collect();
        corrections_of(Class::Word, word, |key| known.contains(&key), |text| if known.contains(&word_key(text)) { 1 } else { 3 })
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
            for_each_edit(word, alphabet, |key, edited| {
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
            corrections_of(Class::Word, "hotelz", key, tokens).len()
        };
        assert_eq!((corrections(1), corrections(2), corrections(3)), (1, 0, 0));
    }
}
