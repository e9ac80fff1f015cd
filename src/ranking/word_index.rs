//! The words of many passages in memory, to score them for a question in words of any language.
//!
//! BM25 (Robertson and Zaragoza, 2009) in which a word of the question stands for every word of the collection that shares a
//! concept with it: its count is the sum of their counts, each times the probability that both mean the same (probabilistic
//! structured queries, Darwish and Oard, 2003, with concepts between the two words).

use std::collections::HashMap;

use super::best;
use super::translations::Translations;
use crate::domain::{PassageId, WORD_COUNT_BITS, WORD_COUNT_MAX, WordCounts};

const K1: f32 = 1.2;
const B: f32 = 0.75;
/// Maximum passages; further ones are not found by words of other languages.
const SLOTS_MAX: usize = 1 << (u32::BITS - WORD_COUNT_BITS);
/// Minimum removed passages before room is made.
const DEAD_MIN: usize = 1 << 12;
/// Maximum words of the question to search for; of a longer one, the first.
pub const QUESTION_WORDS_MAX: usize = 64;
/// Two words with a lower probability of the same meaning are different words.
const SAME_MIN: f32 = 0.02;
/// Minimum contribution of one concept to that probability: most words of a concept hardly mean it.
const PART_MIN: f32 = SAME_MIN / 8.0;
/// Minimum rarity of a word of the question, as a share of the average, for a match with it to mean something.
const TELLING: f32 = 0.5;
/// Maximum visits of passages, per passage of the collection, counted once for each word that leads to them; with the minimum
/// below. Beyond that, the words of the question that most passages have find nothing.
const VISITS_PER_PASSAGE: usize = 1;
const VISITS_MIN: usize = 50_000;

/// Passages with their words.
#[derive(Debug, Clone, Default)]
pub struct WordIndex {
    /// The slot of each passage.
    places: HashMap<PassageId, u32>,
    /// By slot; `None` for a removed one, until room is made.
    passages: Vec<Option<PassageId>>,
    /// Words of the passage in each slot.
    lengths: Vec<u16>,
    /// Of `lengths`, those of existing passages.
    length_sum: u64,
    /// The place of each word's posting.
    words: HashMap<u32, u32>,
    /// By position; empty ones are of words that no passage has any more.
    postings: Vec<Posting>,
    /// For each concept the words of the collection that have it, by their places.
    concepts: HashMap<u16, Vec<(u32, f32)>>,
}

/// The passages that have a word: slot, then count in the lowest `WORD_COUNT_BITS`.
type Posting = Vec<u32>;

/// How well passages answer a question.
#[derive(Debug, Clone, Default)]
pub struct WordScores {
    /// By slot.
    scores: Vec<f32>,
    /// The highest score: of a passage that has every word of the question once.
    possible: f32,
    /// The words of the question that say something of the passages that have them, rarest first.
    telling: Vec<u32>,
}

impl WordScores {
    /// The words of the question that say something of the passages that have them, rarest first.
    pub fn telling(&self) -> &[u32] {
        &self.telling
    }
}

impl WordIndex {
    /// Adds a passage, or replaces the one with its key.
    pub fn insert(&mut self, passage: PassageId, words: &WordCounts, translations: &Translations) {
        self.remove(passage);
        if self.passages.len() >= SLOTS_MAX {
            return;
        }
        let slot = self.passages.len() as u32;
        for (word, count) in words.iter() {
            let place = *self.words.entry(word).or_insert_with(|| {
                let place = self.postings.len() as u32;
                for sense in translations.senses(word) {
                    self.concepts.entry(sense.concept).or_default().push((place, sense.probability()));
                }
                self.postings.push(Posting::with_capacity(1));
                place
            });
            self.postings[place as usize].push((slot << WORD_COUNT_BITS) | u32::from(count));
        }
        let length = u16::try_from(words.total()).unwrap_or(u16::MAX);
        self.length_sum += u64::from(length);
        self.lengths.push(length);
        self.passages.push(Some(passage));
        self.places.insert(passage, slot);
    }

    /// Removes a passage, if it is there.
    pub fn remove(&mut self, passage: PassageId) {
        let Some(slot) = self.places.remove(&passage) else { return };
        self.passages[slot as usize] = None;
        self.length_sum -= u64::from(self.lengths[slot as usize]);
        let dead = self.passages.len() - self.places.len();
        if dead > DEAD_MIN.max(self.passages.len() / 2) {
            self.compact();
        }
    }

    /// The number of passages.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no passages.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Compares a question of these words with all passages.
    pub fn scores(&self, question: &[u32], translations: &Translations) -> WordScores {
        let mut distinct: Vec<u32> = Vec::new();
        for word in question {
            if distinct.len() < QUESTION_WORDS_MAX && !distinct.contains(word) {
                distinct.push(*word);
            }
        }
        let mut lanes: Vec<Lane> = distinct.into_iter().map(|word| self.lane(word, translations)).collect();
        let possible: f32 = lanes.iter().map(|lane| lane.rarity).sum();
        lanes.sort_by(|a, b| b.rarity.total_cmp(&a.rarity));
        let least = TELLING * possible / lanes.len().max(1) as f32;
        let telling = lanes.iter().filter(|lane| lane.rarity >= least).map(|lane| lane.asked).collect();
        let mut left = VISITS_MIN.max(VISITS_PER_PASSAGE * self.len());
        let mut scores = vec![0.0; self.passages.len()];
        let (mut counts, mut met) = (vec![0.0; self.passages.len()], Vec::new());
        for (number, lane) in lanes.iter().enumerate() {
            left = left.saturating_sub(lane.visits);
            if number > 0 && left == 0 {
                break;
            }
            self.add(lane, &mut counts, &mut met, &mut scores);
        }
        WordScores { scores, possible, telling }
    }

    /// How well a passage answers, about 0 to 1; 0 for a missing one.
    pub fn score(&self, scores: &WordScores, passage: PassageId) -> f32 {
        let score = self.places.get(&passage).and_then(|&slot| scores.scores.get(slot as usize));
        score.map_or(0.0, |score| score / scores.possible.max(1.0))
    }

    /// The best `limit` passages that `accept` accepts, best first, older first for equal scores.
    pub fn nearest(&self, scores: &WordScores, limit: usize, accept: impl Fn(PassageId) -> bool) -> Vec<(PassageId, f32)> {
        let possible = scores.possible.max(1.0);
        let passage = |slot: usize| self.passages.get(slot).copied().flatten().filter(|&passage| accept(passage));
        best(&scores.scores, passage, limit).into_iter().map(|(passage, score)| (passage, score / possible)).collect()
    }

    /// What a word of the question finds.
    fn lane(&self, word: u32, translations: &Translations) -> Lane {
        let frequency = |place: u32| self.postings[place as usize].len();
        let mut found: Vec<(u32, f32)> = Vec::new();
        let mut expected = 0.0;
        for sense in translations.senses(word) {
            let probability = sense.probability();
            for (other, of_other) in self.concepts.get(&sense.concept).into_iter().flatten() {
                if probability * of_other >= PART_MIN {
                    found.push((*other, probability * of_other));
                }
                expected += probability * frequency(*other) as f32;
            }
        }
        let own = self.words.get(&word).copied();
        if let (Some(own), true) = (own, found.is_empty()) {
            expected = frequency(own) as f32;
        }
        found.extend(own.map(|own| (own, 1.0)));
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        // The probabilities of several shared concepts add up; a word certainly means itself.
        let same = |of_word: &[(u32, f32)]| (of_word[0].0, of_word.iter().map(|(_, same)| same).sum::<f32>().min(1.0));
        let words: Vec<(u32, f32)> = found.chunk_by(|a, b| a.0 == b.0).map(same).filter(|(_, same)| *same >= SAME_MIN).collect();
        let (all, having) = (self.len() as f32, expected.min(self.len() as f32));
        let visits = words.iter().map(|(place, _)| frequency(*place)).sum();
        Lane { asked: word, words, visits, rarity: (1.0 + (all - having + 0.5) / (having + 0.5)).ln() }
    }

    /// Adds the score of a word of the question for each passage. `counts` are zeros before and after.
    fn add(&self, lane: &Lane, counts: &mut [f32], met: &mut Vec<u32>, scores: &mut [f32]) {
        for (place, same) in &lane.words {
            for entry in &self.postings[*place as usize] {
                let (slot, count) = (entry >> WORD_COUNT_BITS, entry & u32::from(WORD_COUNT_MAX));
                if counts[slot as usize] == 0.0 {
                    met.push(slot);
                }
                counts[slot as usize] += same * count as f32;
            }
        }
        let mean = self.length_sum as f32 / self.len().max(1) as f32;
        for slot in met.drain(..).map(|slot| slot as usize) {
            let count = std::mem::take(&mut counts[slot]);
            let length = 1.0 - B + B * f32::from(self.lengths[slot]) / mean.max(1.0);
            scores[slot] += lane.rarity * count * (K1 + 1.0) / (count + K1 * length);
        }
    }

    /// Makes room: removes the slots of removed passages.
    fn compact(&mut self) {
        let mut moved = vec![None; self.passages.len()];
        let (mut passages, mut lengths) = (Vec::new(), Vec::new());
        for (slot, passage) in self.passages.iter().enumerate() {
            if let Some(passage) = *passage {
                moved[slot] = Some(passages.len() as u32);
                self.places.insert(passage, passages.len() as u32);
                passages.push(Some(passage));
                lengths.push(self.lengths[slot]);
            }
        }
        for posting in &mut self.postings {
            let count = |entry: u32| entry & u32::from(WORD_COUNT_MAX);
            let kept =
                |entry: &u32| moved[(entry >> WORD_COUNT_BITS) as usize].map(|slot| (slot << WORD_COUNT_BITS) | count(*entry));
            *posting = posting.iter().filter_map(kept).collect();
        }
        self.forget_words();
        (self.passages, self.lengths) = (passages, lengths);
    }

    /// Drops the words that no passage has any more.
    fn forget_words(&mut self) {
        let mut moved = vec![None; self.postings.len()];
        let mut postings = Vec::new();
        for (place, posting) in self.postings.drain(..).enumerate().filter(|(_, posting)| !posting.is_empty()) {
            moved[place] = Some(postings.len() as u32);
            postings.push(posting);
        }
        self.postings = postings;
        let place_of = |place: u32| moved[place as usize];
        self.words = self.words.drain().filter_map(|(word, place)| Some((word, place_of(place)?))).collect();
        for words in self.concepts.values_mut() {
            *words = words.iter().filter_map(|(place, probability)| Some((place_of(*place)?, *probability))).collect();
        }
    }
}

/// What a word of a question finds in a collection.
#[derive(Debug)]
struct Lane {
    /// The word itself, by its number.
    asked: u32,
    /// Words of the collection by their places, with the probability that they mean the same.
    words: Vec<(u32, f32)>,
    /// Passages that they lead to, counted once for each word.
    visits: usize,
    /// Its weight: BM25's inverse document frequency.
    rarity: f32,
}

#[cfg(test)]
mod tests {
    use super::super::translations::Sense;
    use super::*;

    const BOAT: u32 = 10;
    const BATEAU: u32 = 20;
    const SHIP: u32 = 30;
    const TREE: u32 = 40;
    const KUBERNETES: u32 = 50;

    /// Concept 1 is a boat, 2 a ship, 3 a tree.
    fn translations() -> Translations {
        Translations::new(vec![
            (BOAT, vec![Sense::new(1, 1.0)]),
            (BATEAU, vec![Sense::new(1, 0.6), Sense::new(2, 0.4)]),
            (SHIP, vec![Sense::new(2, 1.0)]),
            (TREE, vec![Sense::new(3, 1.0)]),
        ])
    }

    fn index(passages: &[&[u32]]) -> WordIndex {
        let (mut index, translations) = (WordIndex::default(), translations());
        for (passage, words) in (0..).zip(passages) {
            index.insert(PassageId(passage), &WordCounts::of(words.to_vec()), &translations);
        }
        index
    }

    fn nearest(index: &WordIndex, question: &[u32]) -> Vec<u64> {
        let scores = index.scores(question, &translations());
        index.nearest(&scores, 10, |_| true).into_iter().map(|(passage, _)| passage.0).collect()
    }

    #[test]
    fn a_word_finds_its_translations_the_likelier_ones_first() {
        let index = index(&[&[TREE, 1, 2], &[SHIP, 3, 4], &[BOAT, 5, 6], &[7, 8, 9]]);
        assert_eq!(nearest(&index, &[BATEAU]), [2, 1]);
        assert_eq!(nearest(&index, &[SHIP]), [1], "the concept of a boat is another");
    }

    #[test]
    fn a_word_itself_counts_most() {
        let index = index(&[&[BOAT, 1, 2], &[BATEAU, 3, 4], &[5, 6, 7]]);
        assert_eq!(nearest(&index, &[BATEAU]), [1, 0]);
    }

    #[test]
    fn a_word_without_translations_finds_itself() {
        let index = index(&[&[BOAT, 1], &[KUBERNETES, 2]]);
        assert_eq!(nearest(&index, &[KUBERNETES]), [1]);
        assert_eq!(nearest(&index, &[60]), [0_u64; 0]);
    }

    #[test]
    fn the_score_is_that_of_the_formula() {
        let index = index(&[&[BOAT, BOAT, 1, 2], &[3, 4]]);
        let scores = index.scores(&[BATEAU, 60], &translations());
        // One passage has the boat, which is meant with 0.6 in parts of 127; nobody has word 60. The mean length is 3.
        let (all, having, count) = (2.0_f32, 76.0 / 127.0, 2.0 * 76.0 / 127.0);
        let rarity = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
        let unknown = (1.0 + (all + 0.5) / 0.5).ln();
        let expect = rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * 4.0 / 3.0)) / (rarity + unknown);
        let got = index.score(&scores, PassageId(0));
        assert!((got - expect).abs() < 1e-5, "{got}, expected {expect}");
        assert_eq!(index.score(&scores, PassageId(1)), 0.0);
    }

    #[test]
    fn a_rare_word_says_more_than_a_common_one() {
        let index = index(&[&[BOAT, TREE], &[BOAT, 1], &[BOAT, 2], &[3, 4]]);
        assert_eq!(nearest(&index, &[BOAT, TREE])[0], 0);
        let scores = index.scores(&[BOAT, TREE], &translations());
        assert!(index.score(&scores, PassageId(0)) > 2.0 * index.score(&scores, PassageId(1)));
    }

    #[test]
    fn only_what_is_accepted_is_found() {
        let index = index(&[&[BOAT], &[BATEAU], &[3]]);
        let scores = index.scores(&[BOAT], &translations());
        assert_eq!(index.nearest(&scores, 10, |passage| passage.0 == 1).len(), 1);
        assert_eq!(index.nearest(&scores, 1, |_| true)[0].0, PassageId(0));
    }

    #[test]
    fn passages_that_are_replaced_or_removed_are_gone_whenever_room_is_made() {
        let (mut index, translations) = (WordIndex::default(), translations());
        let words =
            |round: u32, passage: u32| WordCounts::of(vec![if round == 9 { BOAT } else { TREE }, 100 + round, 1_000 + passage]);
        for round in 0..10 {
            for passage in 0..1_000 {
                index.insert(PassageId(passage.into()), &words(round, passage), &translations);
            }
        }
        for passage in 500..1_000 {
            index.remove(PassageId(passage));
        }
        assert_eq!(index.len(), 500);
        assert!(index.passages.len() < 6_000, "{} slots", index.passages.len());
        let scores = index.scores(&[SHIP, TREE, BATEAU], &translations);
        assert!(index.nearest(&scores, 2_000, |_| true).iter().all(|(passage, _)| passage.0 < 500));
        assert_eq!(index.nearest(&index.scores(&[BATEAU], &translations), 2_000, |_| true).len(), 500);
        assert_eq!(index.score(&index.scores(&[1_700], &translations), PassageId(700)), 0.0);
    }
}
