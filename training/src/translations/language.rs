//! Learns the translations of one language's words.
//!
//! Model 1 is fitted twice, on words and on their stems. The fewer sentence pairs a word was seen in, the more its translations
//! are those of its stem.

use std::borrow::Cow;

use dragoman::domain::Language;
use dragoman::text::stems::{has_rules, stemmed};
use rustc_hash::FxHashMap;

use super::model1::Model;
use super::pairs::{self, Pairs};
use super::vocabulary::Vocabulary;

/// The weight of a stem's translations, expressed as a number of occurrences of the word.
const STEM_COUNT: f64 = 2.0;
/// Without stemming rules, the stem of a longer word is its first characters, this many.
const BEGINNING_CHARS: usize = 6;

/// A word with its frequency and the English stems that translate it, each with its probability.
#[derive(Debug, Clone, PartialEq)]
pub struct TranslatedWord {
    /// The word.
    pub word: String,
    /// Share of the texts that contain it.
    pub frequency: f64,
    /// English stems with their probabilities.
    pub concepts: Vec<(String, f64)>,
}

/// What was learned about words, or about stems.
#[derive(Debug, Default)]
struct Learned {
    concepts: FxHashMap<String, Vec<(String, f64)>>,
    seen: FxHashMap<String, f64>,
}

/// Learns the translations of the `words_max` most frequent words and of those in the word lists; the second language is the
/// pivot, whose stems are the concepts.
pub fn learn(pairs: &Pairs, vocabulary: &Vocabulary, languages: [Language; 2], words_max: usize) -> Vec<TranslatedWord> {
    let [language, _] = languages;
    let (words, stems) = rayon::join(|| fit(pairs, languages, |word, _| Cow::Borrowed(word)), || fit(pairs, languages, stem));
    let mut frequent: FxHashMap<String, f64> =
        vocabulary.frequent(words_max).into_iter().map(|(word, frequency)| (word.to_owned(), frequency)).collect();
    for (own, _) in &pairs.words {
        pairs::distinct(own).for_each(|word| _ = frequent.entry(word).or_insert(0.0));
    }
    let mut known: Vec<TranslatedWord> = frequent
        .into_iter()
        .map(|(word, frequency)| TranslatedWord { concepts: mixed(&word, &words, &stems, language), word, frequency })
        .filter(|known| !known.concepts.is_empty())
        .collect();
    known.sort_unstable_by(|a, b| a.word.cmp(&b.word));
    known
}

/// The translations of a word mixed with those of its stem; the less often the word was seen, the more the stem's count.
fn mixed(word: &str, words: &Learned, stems: &Learned, language: Language) -> Vec<(String, f64)> {
    let seen = words.seen.get(word).copied().unwrap_or(0.0);
    let mut concepts: FxHashMap<&str, f64> = FxHashMap::default();
    let own = words.concepts.get(word);
    let of_stem = stems.concepts.get(stem(word, language).as_ref());
    let share = if of_stem.is_some() { seen / (seen + STEM_COUNT) } else { 1.0 };
    for (concepts_of, share) in [(own, share), (of_stem, 1.0 - share)] {
        for (concept, probability) in concepts_of.into_iter().flatten() {
            *concepts.entry(concept).or_default() += share * probability;
        }
    }
    concepts.into_iter().map(|(concept, probability)| (concept.to_owned(), probability)).collect()
}

/// The stem of a word, or its first characters if the language has no stemming rules.
fn stem(word: &str, language: Language) -> Cow<'_, str> {
    if has_rules(language) {
        return stemmed(word, language);
    }
    let end = word.char_indices().nth(BEGINNING_CHARS).map_or(word.len(), |(end, _)| end);
    Cow::Borrowed(&word[..end])
}

/// Fits Model 1 on the words in the given `form`.
fn fit(pairs: &Pairs, [language, pivot]: [Language; 2], form: fn(&str, Language) -> Cow<'_, str>) -> Learned {
    let (mut words, mut concepts) = (Names::default(), Names::default());
    // Model 1 has a null word 0 in every sentence, which generates the words that no other word translates.
    words.number("");
    let (mut model, mut learned) = (Model::default(), Learned::default());
    let both: [(&[(String, String)], f32); 2] = [(&pairs.sentences, 1.0), (&pairs.words, pairs::WORDS_WEIGHT)];
    for (sentences, weight) in both {
        for (own, translation) in sentences {
            let mut numbers: Vec<u32> = pairs::distinct(own).map(|word| words.number(&form(&word, language))).collect();
            let stems = pairs::distinct(translation).map(|word| concepts.number(&stemmed(&word, pivot)));
            let mut stems: Vec<u32> = stems.collect();
            for numbers in [&mut numbers, &mut stems] {
                numbers.sort_unstable();
                numbers.dedup();
            }
            for number in &numbers {
                *learned.seen.entry(words.names[*number as usize].clone()).or_default() += f64::from(weight);
            }
            model.add(numbers, stems, weight);
        }
    }
    for (word, translations) in model.fit() {
        let named = translations.into_iter().map(|(concept, share)| (concepts.names[concept as usize].clone(), share));
        learned.concepts.insert(words.names[word as usize].clone(), named.collect());
    }
    learned
}

/// Assigns numbers to words.
#[derive(Debug, Default)]
struct Names {
    numbers: FxHashMap<String, u32>,
    names: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(name.to_owned(), number);
        self.names.push(name.to_owned());
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn german() -> Vec<TranslatedWord> {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let mut pairs = Pairs::default();
        for _ in 0..5 {
            pairs.sentences.extend([pair("das Boot", "the boat"), pair("das Haus", "the house"), pair("ein Haus", "a house")]);
        }
        pairs.words.push(pair("Biene", "bee"));
        let mut vocabulary = Vocabulary::default();
        for text in ["das boot", "zwei Boote", "drei boote", "viele Bienen", "die Bienen", "Quarz", "Quarz"] {
            vocabulary.add(text);
        }
        learn(&pairs, &vocabulary, ["de", "en"].map(|code| Language::parse(code).unwrap()), 100)
    }

    fn best<'k>(known: &'k [TranslatedWord], word: &str) -> Option<&'k str> {
        let concepts = &known.iter().find(|known| known.word == word)?.concepts;
        concepts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(concept, _)| concept.as_str())
    }

    #[test]
    fn a_word_without_translations_uses_those_of_its_stem() {
        let known = german();
        assert_eq!(best(&known, "boote"), Some("boat"));
        assert_eq!(best(&known, "bienen"), Some("bee"));
        assert_eq!(best(&known, "biene"), Some("bee"), "in no text, but in a word list");
    }

    #[test]
    fn untranslated_words_and_words_outside_the_texts_are_left_out() {
        let known = german();
        assert_eq!(best(&known, "quarz"), None);
        assert_eq!(best(&known, "haus"), None, "no text of the vocabulary contains it");
    }

    #[test]
    fn without_stemming_rules_the_first_characters_are_the_stem() {
        let croatian = Language::parse("hr").unwrap();
        assert_eq!(stem("zahradama", croatian), "zahrad");
        assert_eq!(stem("rat", croatian), "rat");
    }
}
