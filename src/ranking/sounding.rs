//! Decides which words of a collection a word of a question may stand for by its sound, and with which probability: names in
//! other scripts and spellings, and the words that a misspelled one means.

use rustc_hash::FxHashMap;

use super::misspellings::{Correction, LONG_MIN};
use super::sounds::{SoundIndex, SoundingWord, probability};
use crate::domain::Word;

/// Factors of the probability that two words are the same name because they sound alike: where the translation table has one of
/// them, where it has both or the word of the question is an everyday word, and where the collection has the word itself and the
/// other one is in the same script.
const ONE_TRANSLATED: f32 = 0.6;
const BOTH_TRANSLATED: f32 = 0.1;
const ANOTHER_SPELLING: f32 = 0.2;
/// The probability that another word is meant by one that the collection lacks, if a single edit leads to it: where the
/// translation table lacks the word, too, and where it has it, but the collection has nothing that probably means the same. In
/// the second case, only long words are misspelled: a short one may be the beginning of another word.
pub(super) const MISSPELLED: f32 = 0.5;
const MISSPELLED_KNOWN: f32 = 0.25;
/// The same if two edits lead to it.
const MISSPELLED_TWICE: f32 = 0.3;
/// Factor of the probability that a misspelled word means a known word of its script that sounds like it, if other known words
/// are one letter away from it.
const SOUNDS_LIKE: f32 = 0.4;

/// A word of a question, and what is known about it.
pub(super) struct Typed<'q> {
    pub(super) word: Word,
    /// Its posting, if the collection has it.
    pub(super) posting: Option<u32>,
    /// Whether the translation table has it.
    pub(super) is_translated: bool,
    /// Whether it is an everyday word, which is hardly a name.
    pub(super) is_everyday: bool,
    /// Whether the collection has words that probably mean the same.
    pub(super) is_found: bool,
    /// Known words that are one letter away from it.
    pub(super) corrections: &'q [u32],
}

/// What a word may stand for.
pub(super) struct Sounding {
    /// The postings, with the probabilities.
    pub(super) words: FxHashMap<u32, f32>,
    /// Whether the word is probably misspelled.
    pub(super) is_misspelled: bool,
}

/// Finds the words of a collection that `exists` accepts and that the typed word may stand for. `known_word` returns the word with
/// a posting if the translation table has it.
pub(super) fn sounding(
    sounds: &SoundIndex,
    typed: &Typed,
    exists: impl Fn(u32) -> bool,
    known_word: impl Fn(u32) -> Option<u32>,
) -> Sounding {
    let Typed { word, posting, is_translated: of_typed, is_everyday, is_found, corrections } = *typed;
    let is_corrected = posting.is_none() && !of_typed && !corrections.is_empty();
    let only_sounds = |posting_id| is_corrected && known_word(posting_id).is_some_and(|known| !corrections.contains(&known));
    let others = sounds.similar(word.sound, &exists).into_iter().filter(|(other, _)| Some(other.posting_id) != posting);
    let same = |(SoundingWord { posting_id, sound }, similar): (SoundingWord, f32)| {
        let of_translated = match (of_typed, known_word(posting_id).is_some()) {
            _ if is_everyday => BOTH_TRANSLATED,
            (false, false) => 1.0,
            (true, true) => BOTH_TRANSLATED,
            _ => ONE_TRANSLATED,
        };
        let of_spelling = match sound.script() == word.sound.script() {
            true if posting.is_some() => ANOTHER_SPELLING,
            true if only_sounds(posting_id) => SOUNDS_LIKE,
            _ => 1.0,
        };
        (posting_id, probability(word.sound, similar) * of_translated * of_spelling)
    };
    let mut words: FxHashMap<u32, f32> = others.map(same).collect();
    let is_long = word.sound.symbols().nth(LONG_MIN - 1).is_some();
    let edits_max = match (posting.is_none() && !is_found, of_typed) {
        (false, _) => 0,
        (true, true) => usize::from(is_long),
        (true, false) => 2,
    };
    let misspelled = sounds.misspelled(word.sound, edits_max, &exists);
    for Correction { word, edits } in &misspelled {
        let probability = match (of_typed, edits) {
            (true, _) => MISSPELLED_KNOWN,
            (false, 1) => MISSPELLED,
            (false, _) => MISSPELLED_TWICE,
        };
        let probability = if only_sounds(word.posting_id) { SOUNDS_LIKE * probability } else { probability };
        let same = words.entry(word.posting_id).or_default();
        *same = same.max(probability);
    }
    Sounding { words, is_misspelled: !misspelled.is_empty() && !of_typed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::SoundSymbol::{A, D, K, L, M, O, P, R, S, W};
    use crate::domain::{Script, Sound, SoundSymbol};

    const KNOWN: u32 = 5;

    fn word(symbols: &[SoundSymbol]) -> Word {
        Word { sound: Sound::new(Script::Latin, symbols), ..Word::from(KNOWN) }
    }

    /// What a word may stand for in a collection that has only the word of these symbols.
    fn found(collection: &[SoundSymbol], typed: &[SoundSymbol], is_translated: bool, is_found: bool) -> Option<f32> {
        let sound = word(collection).sound;
        let sounds = SoundIndex::of([SoundingWord { posting_id: 0, sound }]);
        let typed = Typed { word: word(typed), posting: None, is_translated, is_everyday: false, is_found, corrections: &[] };
        sounding(&sounds, &typed, |_| true, |_| Some(KNOWN)).words.get(&0).copied()
    }

    #[test]
    fn a_long_word_of_the_table_is_misspelled_if_nothing_means_the_same() {
        let (passwords, typed) = ([P, A, S, W, O, R, D, S], [P, A, S, W, R, O, D, S]);
        assert_eq!(found(&passwords, &typed, true, false), Some(MISSPELLED_KNOWN));
        assert!(found(&passwords, &typed, true, true) < Some(MISSPELLED_KNOWN));
        assert_eq!(found(&passwords, &typed, false, false), Some(MISSPELLED));
    }

    #[test]
    fn an_everyday_word_is_hardly_a_name() {
        let symbols = [M, A, R, K, A, S];
        let sounds = SoundIndex::of([SoundingWord { posting_id: 0, sound: word(&symbols).sound }]);
        let same = |is_everyday: bool| {
            let typed =
                Typed { word: word(&symbols), posting: None, is_translated: true, is_everyday, is_found: true, corrections: &[] };
            sounding(&sounds, &typed, |_| true, |_| None).words[&0]
        };
        assert!(same(true) < same(false) / 2.0);
    }

    #[test]
    fn a_short_word_of_the_table_is_not_misspelled() {
        let (mark, typed) = ([M, A, R, K], [M, L, R, K]);
        assert!(found(&mark, &typed, true, false) < Some(MISSPELLED_KNOWN));
        assert_eq!(found(&mark, &typed, false, false), Some(MISSPELLED));
    }

    #[test]
    fn a_known_word_of_the_same_script_is_hardly_a_name_if_others_are_one_letter_away() {
        let probability_of = |script: Script, corrections: &[u32]| {
            let symbols = [M, A, R, K, A, S];
            let sounds = SoundIndex::of([SoundingWord { posting_id: 0, sound: Sound::new(script, &symbols) }]);
            let typed = Typed {
                word: word(&symbols),
                posting: None,
                is_translated: false,
                is_everyday: false,
                is_found: false,
                corrections,
            };
            sounding(&sounds, &typed, |_| true, |_| Some(KNOWN)).words[&0]
        };
        let alone = [Script::Latin, Script::Cyrillic].map(|script| probability_of(script, &[]));
        let [latin, cyrillic] = [Script::Latin, Script::Cyrillic].map(|script| probability_of(script, &[KNOWN + 1]));
        assert_eq!([latin, cyrillic], [SOUNDS_LIKE * alone[0], alone[1]]);
        assert_eq!(probability_of(Script::Latin, &[KNOWN]), alone[0], "it is one of those");
    }
}
