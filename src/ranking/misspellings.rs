//! Finds the words of a collection that a misspelled word of a question may mean: words of the same script whose sound is a
//! single edit away, or two edits if both are long and none is nearer.
//!
//! An edit is one symbol more or less, another symbol, or two neighbors in the other order. Words are found by their skeletons
//! (`sounds`), so at most one of the edits may change a consonant to one of another class. The number of words compared is
//! bounded.

use rustc_hash::FxHashSet;

use super::sounds::{CLASSES, COMPARED_MAX, FOUND_MAX, SoundIndex, SoundingWord, classes, skeleton, symbols, variants};
use crate::domain::{SOUND_SYMBOLS_MAX, Sound};

/// Minimum number of symbols of a word that may be misspelled.
const MISSPELLED_MIN: usize = 4;
/// Minimum number of symbols of a long word, which may have two edits. Short ones are too often other words.
pub(super) const LONG_MIN: usize = 7;
/// Maximum number of words of any script that are looked at to find those of one script.
const SEEN_MAX: usize = 20_000;

/// A word that a misspelled one may mean.
#[derive(Debug, Clone, Copy)]
pub(super) struct Correction {
    pub(super) word: SoundingWord,
    /// Number of edits between them, 1 or 2.
    pub(super) edits: usize,
}

impl SoundIndex {
    /// Finds the words that `exists` accepts and that are the fewest edits away, at most `edits_max`.
    pub(super) fn misspelled(&self, sound: Sound, edits_max: usize, exists: impl Fn(u32) -> bool) -> Vec<Correction> {
        let typed = symbols(sound);
        let typed = typed.as_slice();
        let edits_max = edits_max.min(match typed.len() {
            0..MISSPELLED_MIN => 0,
            MISSPELLED_MIN..LONG_MIN => 1,
            _ => 2,
        });
        if edits_max == 0 {
            return Vec::new();
        }
        let candidates = self.with_skeletons(skeletons_alike(sound), exists).take(SEEN_MAX);
        let candidates = candidates.filter(|word| word.sound.script() == sound.script()).take(COMPARED_MAX);
        let compared =
            |word: SoundingWord| Some(Correction { word, edits: edits(typed, symbols(word.sound).as_slice(), edits_max)? });
        let mut corrections: Vec<Correction> = candidates.filter_map(compared).filter(|candidate| candidate.edits > 0).collect();
        let fewest = corrections.iter().map(|candidate| candidate.edits).min();
        corrections.retain(|candidate| Some(candidate.edits) == fewest);
        corrections.truncate(FOUND_MAX);
        corrections
    }
}

/// Returns the skeletons of the words that a misspelled word may mean. Few words have the same consonants in another order, so
/// they come before those with others.
fn skeletons_alike(sound: Sound) -> Vec<u64> {
    let classes = classes(sound);
    let swapped = (1..classes.len()).filter(|index| classes[index - 1] != classes[*index]).map(|index| {
        let mut swapped = classes.clone();
        swapped.swap(index - 1, index);
        skeleton(&swapped)
    });
    let variants = variants(&classes, 1);
    let (same, others) = variants.split_at(1);
    let mut skeletons: Vec<u64> = same.iter().copied().chain(swapped).chain(others.iter().copied()).collect();
    if sound.symbols().count() == SOUND_SYMBOLS_MAX {
        skeletons.extend(skeletons_of_longer(&classes));
    }
    let mut seen = FxHashSet::default();
    skeletons.retain(|skeleton| seen.insert(*skeleton));
    skeletons
}

/// Returns further skeletons for a word that is longer than its sound. If it lacks a consonant, or has one too many, the one at
/// the end of the sound differs as well.
fn skeletons_of_longer(classes: &[u64]) -> Vec<u64> {
    let mut found = Vec::new();
    for index in 0..classes.len() {
        let (before, after) = classes.split_at(index);
        found.extend((1..=CLASSES).map(|class| skeleton(&[before, &[class], &after[..after.len() - 1]].concat())));
        found.extend((1..=CLASSES).map(|class| skeleton(&[before, &after[1..], &[class]].concat())));
    }
    found
}

/// Returns the number of edits between two words, if it is at most `edits_max`. If both may be longer than their sounds, what one
/// has at the end and the other does not have may be further on in the other.
fn edits(one: &[u8], other: &[u8], edits_max: usize) -> Option<usize> {
    if one.len().abs_diff(other.len()) > edits_max {
        return None;
    }
    let may_be_cut = one.len() == SOUND_SYMBOLS_MAX && other.len() == SOUND_SYMBOLS_MAX;
    let end = other.len();
    let mut before = [0; SOUND_SYMBOLS_MAX + 1];
    let mut row: [usize; SOUND_SYMBOLS_MAX + 1] = std::array::from_fn(|index| index);
    let mut fewest = usize::MAX;
    for (index, symbol) in one.iter().enumerate() {
        let mut next = [index + 1; SOUND_SYMBOLS_MAX + 1];
        for (to, of_other) in other.iter().enumerate() {
            let changed = row[to] + usize::from(symbol != of_other);
            next[to + 1] = changed.min(row[to + 1] + 1).min(next[to] + 1);
            if index > 0 && to > 0 && *symbol == other[to - 1] && one[index - 1] == *of_other {
                next[to + 1] = next[to + 1].min(before[to - 1] + 1);
            }
        }
        if next[..=end].iter().all(|edits| *edits > edits_max) && row[..=end].iter().all(|edits| *edits > edits_max) {
            return None;
        }
        (before, row) = (row, next);
        if may_be_cut && index + 1 + edits_max >= one.len() {
            fewest = fewest.min(row[end]);
        }
    }
    if may_be_cut {
        fewest = row[end - edits_max..end].iter().copied().fold(fewest, usize::min);
    }
    Some(fewest.min(row[end])).filter(|edits| *edits <= edits_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Script, SoundSymbol};

    fn of(script: Script, symbols: &str) -> Sound {
        let symbol =
            |c: char| SoundSymbol::ALL.into_iter().find(|symbol| format!("{symbol:?}") == c.to_ascii_uppercase().to_string());
        Sound::new(script, &symbols.chars().filter_map(symbol).collect::<Vec<_>>())
    }

    fn sound(symbols: &str) -> Sound {
        of(Script::Latin, symbols)
    }

    fn index(words: &[&str]) -> SoundIndex {
        let words = (0..).zip(words).map(|(posting_id, word)| SoundingWord { posting_id, sound: sound(word) });
        SoundIndex::of(words)
    }

    /// The positions of the words that a misspelled one may mean.
    fn corrections(index: &SoundIndex, typed: Sound) -> Vec<u32> {
        index.misspelled(typed, 2, |_| true).iter().map(|candidate| candidate.word.posting_id).collect()
    }

    #[test]
    fn a_short_misspelled_word_is_one_edit_away() {
        let index = index(&["memory", "folder", "patch", "kamera", "memo"]);
        for (typed, word) in
            [("meory", 0), ("mmeory", 0), ("memroy", 0), ("mevory", 0), ("floder", 1), ("folde", 1), ("kanera", 3)]
        {
            assert_eq!(corrections(&index, sound(typed)), [word], "{typed}");
        }
        assert!(corrections(&index, of(Script::Cyrillic, "mevory")).is_empty() && corrections(&index, sound("mem")).is_empty());
        assert!(corrections(&index, sound("flodre")).is_empty(), "two edits");
    }

    #[test]
    fn a_long_misspelled_word_may_be_two_edits_away() {
        let index = index(&["refrigerator", "temperatura", "restoran"]);
        for (typed, word) in [("refirgeator", 0), ("refregirator", 0), ("tempratuta", 1), ("restruan", 2), ("rastoram", 2)] {
            assert_eq!(corrections(&index, sound(typed)), [word], "{typed}");
        }
        assert!(corrections(&index, sound("rastorom")).is_empty(), "three edits");
    }

    #[test]
    fn words_that_are_fewer_edits_away_come_alone() {
        let index = index(&["restoran", "restoranu", "ristorante"]);
        assert_eq!(corrections(&index, sound("restorn")), [0]);
        assert_eq!(index.misspelled(sound("restoran"), 2, |_| true)[0].edits, 1, "the word itself is not misspelled");
        assert_eq!(index.misspelled(sound("restrunu"), 1, |_| true).len(), 0, "only one edit was allowed");
    }

    #[test]
    fn the_end_of_a_word_beyond_its_sound_counts_as_equal() {
        let long = "internatonalisation";
        assert_eq!(sound(long).symbols().count(), SOUND_SYMBOLS_MAX);
        let index = index(&["internationalisation", "internasional"]);
        assert_eq!(corrections(&index, sound("intrnationalisation")), [0]);
        assert_eq!(index.misspelled(sound("innternationalisation"), 1, |_| true).len(), 1);
        assert_eq!(index.misspelled(sound("inernationalisation"), 1, |_| true)[0].word.posting_id, 0);
    }

    #[test]
    fn a_word_with_swapped_consonants_is_found_among_many_others() {
        let words: Vec<&str> = std::iter::repeat_n("relmeto", COMPARED_MAX).chain(["roklita"]).collect();
        assert_eq!(corrections(&index(&words), sound("rolkita")), [COMPARED_MAX as u32]);
    }
}
