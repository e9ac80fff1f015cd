//! Adds the concepts of a lexicon to a translation table.

use rustc_hash::FxHashMap;

use super::translations::{Sense, Translations};
use crate::domain::ConceptWord;

/// The probability that a word with one concept of the lexicon has it. Two such words mean the same with the square of this.
/// `training/README.md` shows how it was chosen.
const IN_LEXICON: f32 = 0.6;

impl Translations {
    /// Adds concepts. Their words keep the senses that they have, because a dictionary lists only the main ones; a word with
    /// several new concepts has them in equal parts.
    #[must_use]
    pub fn with_concepts(&self, concepts: &[Vec<ConceptWord>]) -> Self {
        let mut added: FxHashMap<u32, Vec<(u32, f32)>> = FxHashMap::default();
        for (concept, words) in (self.concepts_end()..).zip(concepts) {
            for word in words {
                added.entry(word.key).or_default().push((concept, word.share));
            }
        }
        let mut added: Vec<(u32, Vec<Sense>)> = added.into_iter().map(|(word, shares)| (word, senses(&shares))).collect();
        added.sort_unstable_by_key(|(word, _)| *word);
        self.with_senses(&added)
    }
}

/// Returns the senses of a word that has entries of these concepts, each a share of an entry.
fn senses(entries: &[(u32, f32)]) -> Vec<Sense> {
    let entries_sum: f32 = entries.iter().map(|(_, share)| share).sum();
    let whole = entries.iter().map(|(_, share)| *share).fold(0.0, f32::max);
    let of_concept = entries.chunk_by(|a, b| a.0 == b.0);
    let sense = |entries: &[(u32, f32)]| {
        let share: f32 = entries.iter().map(|(_, share)| share).sum();
        Sense::new(entries[0].0, (IN_LEXICON * whole * share / entries_sum).into())
    };
    of_concept.map(sense).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUELL: u32 = 10;
    const TRASH: u32 = 20;
    const GARBAGE: u32 = 30;

    fn table() -> Translations {
        Translations::new(vec![(TRASH, vec![Sense::new(3, 1.0)]), (40, vec![Sense::new(4, 0.5)])])
    }

    fn word(key: u32) -> ConceptWord {
        ConceptWord { key, share: 1.0 }
    }

    fn senses_of(table: &Translations, word: u32) -> Vec<(u32, f32)> {
        table.senses(word).iter().map(|sense| (sense.concept(), sense.probability())).collect()
    }

    #[track_caller]
    fn assert_senses(table: &Translations, word: u32, expect: &[(u32, f32)]) {
        let senses = senses_of(table, word);
        let alike = senses.len() == expect.len()
            && senses.iter().zip(expect).all(|(got, expect)| got.0 == expect.0 && (got.1 - expect.1).abs() < 0.005);
        assert!(alike, "{senses:?}, expected {expect:?}");
    }

    #[test]
    fn words_of_a_concept_share_it_and_keep_their_senses() {
        let table = table().with_concepts(&[vec![word(TRASH), word(GARBAGE), word(MUELL)]]);
        assert_senses(&table, TRASH, &[(3, 1.0), (5, IN_LEXICON)]);
        assert_senses(&table, GARBAGE, &[(5, IN_LEXICON)]);
        assert_senses(&table, MUELL, &[(5, IN_LEXICON)]);
        assert_senses(&table, 40, &[(4, 0.5)]);
        assert_eq!(table.len(), 4);
        assert!(table.is_of_lexicon(5) && !table.is_of_lexicon(4));
        assert!(table.has_learned(TRASH) && !table.has_learned(GARBAGE) && table.has(GARBAGE));
    }

    #[test]
    fn a_word_divides_its_probability_among_its_concepts() {
        let table = table().with_concepts(&[vec![word(MUELL)], vec![word(MUELL), word(MUELL)]]);
        assert_senses(&table, MUELL, &[(5, IN_LEXICON / 3.0), (6, IN_LEXICON * 2.0 / 3.0)]);
    }

    #[test]
    fn a_part_of_an_entry_has_its_share() {
        let table = table().with_concepts(&[vec![ConceptWord { key: MUELL, share: 0.5 }]]);
        assert_senses(&table, MUELL, &[(5, IN_LEXICON / 2.0)]);
    }

    #[test]
    fn the_lexicon_does_not_change_the_vocabulary_by_which_words_are_stored() {
        let table = table();
        assert_eq!(table.with_concepts(&[vec![word(TRASH), word(GARBAGE), word(MUELL)]]).vocabulary(), table.vocabulary());
    }

    #[test]
    fn no_concepts_change_nothing() {
        assert_eq!(table().with_concepts(&[]), table());
    }
}
