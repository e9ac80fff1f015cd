//! Finds the words of the collection that a word of a question represents: words with the same meaning, other forms of the word,
//! words that sound like it, and those that a misspelled word means.

use rustc_hash::FxHashMap;

use super::{PROBABLY, WORD_COUNT_BITS, WordIndex};
use crate::domain::{QueryWord, Script, Sound};
use crate::ranking::expansions::Expansion;
use crate::ranking::phrases::Phrase;
use crate::ranking::sense_table::Sense;
use crate::ranking::sounding::{MISSPELLED, Sounding, Typed, sounding};
use crate::ranking::sounds::probability;
use crate::ranking::translations::{Translations, meaning_scale};

/// Two words with a lower probability of the same meaning are different words.
const SAME_MIN: f32 = 0.02;
/// What share of a phrase's meaning each of its words has. With a higher one, a translation of the phrase comes before a passage
/// that has the words themselves in another form ("World War II").
const IN_PHRASE: f32 = 0.2;
/// What share of its meanings a word keeps without its accents, if the lexicon has it with them.
const WITHOUT_ACCENTS: f32 = 0.2;
/// Exponent of the probability that a word of a passage means what a word of the question does: likely translations count almost
/// as much as the word itself. `training/README.md` shows how it was chosen.
const PROBABILITY_POWER: f32 = 0.8;
/// Minimum contribution of one concept to that probability. It skips most words of a concept, because they hardly mean it.
const PART_MIN: f32 = SAME_MIN / 8.0;
/// The probability that a word and another form of it are the same word. It is below 1, so that the word as typed comes first.
const OTHER_FORM: f32 = 0.9;
/// An unknown word that sounds like one of the collection with at least this probability is a name.
const NAME_MIN: f32 = 0.2;

/// Words that a word of a question represents.
#[derive(Default)]
struct Found {
    /// The posting of each word, with the probability in the lower half. The bits of probabilities sort like the probabilities.
    entries: Vec<u64>,
    /// The expected number of passages that have such a word.
    expected: f32,
}

impl Found {
    fn push(&mut self, posting_id: u32, same: f32) {
        self.entries.push(u64::from(posting_id) << u32::BITS | u64::from(same.to_bits()));
    }

    /// Returns each word with its probability, in the order of postings. The probabilities of several shared concepts add up. A
    /// word certainly means itself.
    fn words(&mut self) -> Vec<(u32, f32)> {
        let posting_id = |entry: u64| (entry >> u32::BITS) as u32;
        let sum = |of_word: &[u64]| of_word.iter().map(|entry| f32::from_bits(*entry as u32)).sum::<f32>().min(1.0);
        self.entries.sort_unstable();
        let words = self.entries.chunk_by(|a, b| posting_id(*a) == posting_id(*b));
        words.map(|of_word| (posting_id(of_word[0]), sum(of_word))).collect()
    }
}

impl WordIndex {
    /// Finds the words of the collection that a word of the question represents, by itself and as a word of `phrase`.
    pub(super) fn expansion(&self, query_word: &QueryWord, phrase: Option<Phrase>, translations: &Translations) -> Expansion {
        let QueryWord { word, forms, corrections, .. } = query_word;
        let mut found = Found::default();
        let (plain, of_phrase) = shares(phrase);
        let known = std::iter::once(&word.key).chain(forms).find(|form| translations.has(**form));
        if let Some(known) = known {
            self.add_meanings(translations.senses(*known), plain, translations, &mut found);
        }
        for form in forms.iter().filter(|form| known.is_some_and(|known| known != *form)) {
            self.add_other_meanings(translations.senses(*form), OTHER_FORM, translations, &mut found);
        }
        if let Some(phrase) = phrase {
            self.add_other_meanings(translations.phrase_senses(phrase.key), of_phrase, translations, &mut found);
        }
        let is_translated = known.is_some() || phrase.is_some();
        let posting = self.posting_of(word.key);
        if let (Some(posting), true) = (posting, found.entries.is_empty() || known != Some(&word.key)) {
            found.expected += self.frequency(posting) as f32;
        }
        // A passage with an unknown form of a known word also counts the known word.
        let is_searched = |form: &&u32| known != Some(&word.key) || translations.has(**form);
        for (form, posting_id) in forms.iter().filter(is_searched).filter_map(|form| Some((*form, self.posting_of(*form)?))) {
            found.push(posting_id, OTHER_FORM);
            found.expected += if translations.has(form) { 0.0 } else { OTHER_FORM * self.frequency(posting_id) as f32 };
        }
        let is_found = found.words().iter().any(|(_, same)| *same >= PROBABLY);
        let is_everyday = translations.is_in_lexicon(word.key);
        let typed = Typed { word: *word, posting, is_translated, is_everyday, is_found, corrections };
        let known_word = |id: u32| Some(self.postings[id as usize].word).filter(|word| translations.has(*word));
        let Sounding { words: sounding, mut is_misspelled } = sounding(&self.sounds, &typed, |id| self.exists(id), known_word);
        let is_new = posting.is_none() && !is_translated;
        let mut is_name = is_new && sounding.values().any(|same| *same >= NAME_MIN);
        if let Some((pair, same)) = (is_new && !is_name).then(|| self.two_words(word.sound)).flatten() {
            pair.into_iter().for_each(|posting_id| found.push(posting_id, same));
            let rarer = pair.into_iter().map(|posting_id| self.frequency(posting_id)).min();
            found.expected += same * rarer.unwrap_or_default() as f32;
            is_name = true;
        }
        let is_another = |(id, same): (&u32, &f32)| *same >= NAME_MIN && !corrections.contains(&self.postings[*id as usize].word);
        let may_mean = is_new && (is_misspelled || !sounding.iter().any(is_another));
        for (posting_id, same) in sounding {
            found.push(posting_id, same);
            found.expected += same * self.frequency(posting_id) as f32;
        }
        if may_mean {
            let before = found.entries.len();
            corrections
                .iter()
                .for_each(|correction| self.add_meanings(translations.senses(*correction), MISSPELLED, translations, &mut found));
            is_misspelled |= found.entries.len() > before;
        }
        if let Some(posting) = posting {
            found.push(posting, plain);
        }
        let accented = phrase.filter(|phrase| phrase.is_word()).and_then(|phrase| self.posting_of(phrase.key));
        if let Some(accented) = accented {
            found.push(accented, 1.0);
        }
        let words = found.words().into_iter().filter(|(_, same)| *same >= SAME_MIN);
        let words: Vec<(u32, f32)> = words.map(|(posting_id, same)| (posting_id, same.powf(PROBABILITY_POWER))).collect();
        let (all, having) = (self.len() as f32, found.expected.min(self.len() as f32));
        let visits = words.iter().map(|(posting_id, _)| self.frequency(*posting_id)).sum();
        let counts = !(word.parts > 0 && words.is_empty());
        let rarity = if counts { (1.0 + (all - having + 0.5) / (having + 0.5)).ln() } else { 0.0 };
        Expansion { word: word.key, words, visits, rarity, is_misspelled, is_name }
    }

    /// Returns two words that together sound like a name in a script that writes foreign names without spaces, with the probability
    /// that they are the name: "Machu Picchu" for "マチュピチュ". At least half of the passages with the rarer word have both.
    fn two_words(&self, sound: Sound) -> Option<([u32; 2], f32)> {
        if !matches!(sound.script(), Script::Kana | Script::Hangul) {
            return None;
        }
        let slot = |entry: &u32| entry >> WORD_COUNT_BITS;
        let belong_together = |one: u32, other: u32| {
            let (rarer, other) = if self.frequency(one) <= self.frequency(other) { (one, other) } else { (other, one) };
            let (rarer, other) = (self.posting(rarer), self.posting(other));
            let both = rarer.iter().filter(|entry| other.binary_search_by_key(&slot(entry), slot).is_ok()).count();
            2 * both >= rarer.len()
        };
        let (pair, similar) = self.sounds.similar_pair(sound, |posting_id| self.exists(posting_id), belong_together)?;
        Some((pair.map(|word| word.posting_id), probability(sound, similar)))
    }

    /// Adds the words that mean another form of the word or its phrase, their probabilities times `factor`. One that also means
    /// the word itself, as found so far, keeps the higher probability, because both say the same.
    fn add_other_meanings(
        &self,
        senses: impl Iterator<Item = Sense> + Clone,
        factor: f32,
        translations: &Translations,
        found: &mut Found,
    ) {
        let mut other = Found::default();
        self.add_meanings(senses, factor, translations, &mut other);
        let before: FxHashMap<u32, f32> = found.words().into_iter().collect();
        for (posting_id, same) in other.words() {
            let more = same - before.get(&posting_id).copied().unwrap_or_default();
            if more > 0.0 {
                found.push(posting_id, more);
            }
        }
        found.expected = found.expected.max(other.expected);
    }

    /// Adds the words that have the concepts of a word or phrase, their probabilities times `factor`. Table and lexicon have
    /// many of these words in common, so only the one that leads to more passages counts for how many are expected.
    fn add_meanings(
        &self,
        senses: impl Iterator<Item = Sense> + Clone,
        factor: f32,
        translations: &Translations,
        found: &mut Found,
    ) {
        let mut expected = [0.0; 2];
        let factor = factor * meaning_scale(senses.clone());
        for sense in senses {
            let Some(concept) = self.concepts.get(&sense.concept()) else { continue };
            let probability = factor * sense.probability();
            let words = concept.words_with_min_probability(PART_MIN / probability);
            words
                .filter(|(other, _)| self.exists(*other))
                .for_each(|(other, of_other)| found.push(other, probability * of_other));
            expected[usize::from(translations.is_of_lexicon(sense.concept()))] += probability * self.entries(concept) as f32;
        }
        found.expected += expected[0].max(expected[1]);
    }
}

/// Returns the shares of its own meanings, and of the phrase's, that a word of a question has.
fn shares(phrase: Option<Phrase>) -> (f32, f32) {
    match phrase {
        Some(phrase) if phrase.is_word() => (WITHOUT_ACCENTS, 1.0),
        _ => (1.0, IN_PHRASE),
    }
}
