//! Combines the words of all languages into one table.

use std::collections::{BTreeMap, HashMap};

use dragoman::domain::Language;
use dragoman::ranking::{Sense, Translations};
use dragoman::text::plain_words::word_key;
use dragoman::text::stems::stemmed;

use super::language::TranslatedWord;
use super::vocabulary::Vocabulary;

/// Maximum concepts per word.
const SENSES_MAX: usize = 4;
/// Minimum probability of a concept.
const PROBABILITY_MIN: f64 = 0.1;
/// Minimum frequency of a word; also the frequency of words that occur only in word lists.
const FREQUENCY_MIN: f64 = 1e-6;
/// Maximum number of concepts.
const CONCEPTS_MAX: usize = 1 << 16;

/// The words of the languages added so far.
#[derive(Debug, Default)]
pub struct Table {
    words: HashMap<String, Word>,
}

#[derive(Debug, Default)]
struct Word {
    /// By stem: the sum of its probability times the language's weight.
    concepts: BTreeMap<String, f64>,
    /// The total weight of the languages that have the word.
    total: f64,
}

impl Table {
    /// Adds the words of a language. If several languages have the same word, each is weighted by the square root of the word's
    /// frequency in it.
    pub fn add(&mut self, words: Vec<TranslatedWord>) {
        for TranslatedWord { word, frequency, concepts } in words {
            let counts = frequency.max(FREQUENCY_MIN).sqrt();
            let entry = self.words.entry(word).or_default();
            entry.total += counts;
            for (concept, probability) in concepts {
                *entry.concepts.entry(concept).or_default() += counts * probability;
            }
        }
    }

    /// Adds the words of the pivot language.
    pub fn add_pivot(&mut self, vocabulary: Vocabulary, language: Language, words_max: usize) {
        let known = vocabulary.frequent(words_max).into_iter().map(|(word, frequency)| TranslatedWord {
            word: word.to_owned(),
            frequency,
            concepts: vec![(stemmed(word, language).into_owned(), 1.0)],
        });
        self.add(known.collect());
    }

    /// Whether there are no words yet.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Builds the table. Concepts of a single word are left out, because they lead to no words of other languages; so are the
    /// rarest concepts beyond the maximum.
    pub fn finish(self) -> Translations {
        let words: Vec<(String, Vec<(String, f64)>)> =
            self.words.into_iter().map(|(word, entry)| (word, entry.strongest())).collect();
        let numbers = numbered(&words);
        let numbered = words.into_iter().map(|(word, concepts)| {
            let senses = concepts
                .iter()
                .filter_map(|(concept, probability)| Some(Sense::new((*numbers.get(concept)?).into(), *probability)));
            (word_key(&word), senses.collect())
        });
        Translations::new(numbered.collect())
    }
}

impl Word {
    /// Its most probable concepts with their probabilities.
    fn strongest(self) -> Vec<(String, f64)> {
        let total = self.total.max(f64::MIN_POSITIVE);
        let concepts = self.concepts.into_iter().map(|(concept, counts)| (concept, counts / total));
        let mut concepts: Vec<_> = concepts.filter(|(_, probability)| *probability >= PROBABILITY_MIN).collect();
        concepts.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        concepts.truncate(SENSES_MAX);
        concepts
    }
}

/// Assigns numbers to the concepts that the most words have; a concept needs at least two words.
fn numbered(words: &[(String, Vec<(String, f64)>)]) -> HashMap<String, u16> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for (concept, _) in words.iter().flat_map(|(_, concepts)| concepts) {
        *uses.entry(concept).or_default() += 1;
    }
    let mut uses: Vec<(&str, usize)> = uses.into_iter().filter(|(_, uses)| *uses > 1).collect();
    uses.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    uses.into_iter().take(CONCEPTS_MAX).zip(0..=u16::MAX).map(|((concept, _), number)| (concept.to_owned(), number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(words: &[(&str, &str)]) -> Vec<TranslatedWord> {
        let known = |(word, concept): &(&str, &str)| TranslatedWord {
            word: (*word).to_owned(),
            frequency: 0.01,
            concepts: vec![((*concept).to_owned(), 0.9)],
        };
        words.iter().map(known).collect()
    }

    fn table() -> Translations {
        let mut table = Table::default();
        table.add(known(&[("boot", "boat"), ("gift", "poison"), ("quarz", "quartz")]));
        table.add(known(&[("bateau", "boat"), ("poison", "poison")]));
        let mut english = Vocabulary::default();
        for _ in 0..2 {
            ["boat", "boats", "gift", "boot", "poison"].into_iter().for_each(|word| english.add(word));
        }
        table.add_pivot(english, Language::parse("en").unwrap(), 100);
        table.finish()
    }

    #[test]
    fn words_with_the_same_translation_share_a_concept() {
        let table = table();
        let concept = |word| table.senses(word_key(word)).next().map(Sense::concept);
        assert!(concept("boat").is_some());
        for word in ["boats", "bateau"] {
            assert_eq!(concept(word), concept("boat"), "{word}");
        }
        assert_ne!(concept("bateau"), concept("poison"));
    }

    #[test]
    fn a_word_in_two_languages_splits_its_probability_between_them() {
        let table = table();
        let senses: Vec<Sense> = table.senses(word_key("boot")).collect();
        assert_eq!(senses.len(), 1, "the English concept `boot` belongs to no other word, so it is dropped: {senses:?}");
        assert!((0.1..0.5).contains(&senses[0].probability()), "{senses:?}");
    }

    #[test]
    fn concepts_of_a_single_word_are_left_out() {
        assert!(!table().has(word_key("quarz")));
    }
}
