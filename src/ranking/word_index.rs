//! The words of many passages in memory, to score them for a question in words of any language.
//!
//! BM25 (Robertson and Zaragoza, 2009) in which a word of the question represents every word of the collection that shares a
//! concept with it. Its count is the sum of their counts, each times the probability that both words mean the same
//! (probabilistic structured queries, Darwish and Oard, 2003, with concepts between the two words), which is scaled
//! (`translations::meaning_scale`) and has an exponent (`meanings`). Names that no translation
//! table has are recognized in other scripts by their sound (`sounds`).

mod meanings;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use rustc_hash::{FxHashMap, FxHashSet};

use super::best;
use super::bm25::{B, Formula, add_all};
use super::concept::Concept;
use super::expansions::{Expansion, ExpansionCache};
use super::phrases::phrases;
use super::question::Question;
use super::sounds::{SoundIndex, SoundingWord};
use super::translations::{Translations, meaning_scale};
use super::weighted_words::{SignificantWord, Weighted, WordScores, sufficient_score, weighted_words};
use crate::domain::{CountedWord, PassageId, QueryWord, WORD_COUNT_BITS, WORD_COUNT_MAX, Word, WordCounts};

/// Maximum number of passages. Further ones are not found by words of other languages.
const SLOTS_MAX: usize = 1 << (u32::BITS - WORD_COUNT_BITS);
/// Minimum number of removed passages before their room is reclaimed.
const DEAD_MIN: usize = 1 << 12;
/// Minimum number of new entries before all entries are rearranged.
const NEW_MIN: usize = 1 << 16;
/// When entries are arranged, each word gets room for one more entry per this many, so that a frequent word does not have to
/// move for the next passage.
const SPARE_PART: u32 = 8;
/// Minimum rarity of a word of the question, as a share of the average, for a match with it to be significant.
const SIGNIFICANT_MIN: f32 = 0.5;
/// Minimum scaled probability that two words mean the same for one to be found by the other.
const PROBABLY: f32 = 0.6;
/// Maximum number of visits per passage of the collection, with the minimum below. A passage counts once for each word that
/// leads to it. Beyond that, the most frequent words of the question are ignored.
const VISITS_PER_PASSAGE: usize = 1;
const VISITS_MIN: usize = 50_000;
/// If a word leads to more than one out of this many passages, all passages are scored for it, because that is faster than
/// remembering which of them have the word.
const SCORED_PART: usize = 16;

/// Passages with their words.
#[derive(Debug, Default)]
pub struct WordIndex {
    /// The slot of each passage.
    slots: FxHashMap<PassageId, u32>,
    /// The passages by slot. `None` for a removed one, until its room is reclaimed.
    passages: Vec<Option<PassageId>>,
    /// Number of words of the passage in each slot, without phrases.
    lengths: Vec<u16>,
    /// Sum of the `lengths` of existing passages.
    length_sum: u64,
    /// The posting ids of all passages' words, slot by slot, and where those of each slot begin. Removing a passage needs them.
    slot_words: Vec<u32>,
    slot_starts: Vec<usize>,
    /// The id of each word's posting. The writers of documents choose the words, so their hashes are randomized.
    words: HashMap<u32, u32>,
    /// The postings by id.
    postings: Vec<Posting>,
    /// The ids of those whose words no passage has anymore.
    removed: FxHashSet<u32>,
    /// The entries of all postings: the slot, and the count in the lowest `WORD_COUNT_BITS`. The first `arranged` entries are
    /// grouped by the concepts of their words, because a question reads all entries with one of its concepts.
    entries: Vec<u32>,
    arranged: usize,
    concepts: FxHashMap<u32, Concept>,
    /// The words by their sounds.
    sounds: SoundIndex,
    /// Number of changes so far.
    version: u32,
    /// The expansions of words of earlier questions.
    expansions: ExpansionCache,
}

/// The entries of a word, and the room after them.
#[derive(Debug, Clone, Copy)]
struct Posting {
    /// The number of the word.
    word: u32,
    /// Whether it is a phrase, or a word with its accents. Their words count for the length of a passage themselves.
    is_phrase: bool,
    /// Whether the word is among the `sounds`.
    has_sound: bool,
    start: usize,
    length: u32,
    capacity: u32,
    /// Number of its entries whose passages still exist.
    live: u32,
}

impl WordIndex {
    /// Adds a passage, or replaces the one with its key.
    pub fn insert(&mut self, passage: PassageId, words: &WordCounts, translations: &Translations) {
        self.remove(passage);
        if self.passages.len() >= SLOTS_MAX {
            return;
        }
        let slot = self.passages.len() as u32;
        self.version = self.version.wrapping_add(1);
        let mut total = 0;
        self.slot_starts.push(self.slot_words.len());
        for word in words.iter() {
            let posting_id = self.posting_id(word, translations);
            self.push(posting_id, (slot << WORD_COUNT_BITS) | u32::from(word.count));
            self.slot_words.push(posting_id);
            let is_phrase = self.postings[posting_id as usize].is_phrase;
            total += if is_phrase { 0 } else { usize::from(word.count) };
        }
        let length = u16::try_from(total).unwrap_or(u16::MAX);
        self.length_sum += u64::from(length);
        self.lengths.push(length);
        self.passages.push(Some(passage));
        self.slots.insert(passage, slot);
    }

    /// Returns the id of a word's posting, which is new if the word is.
    fn posting_id(&mut self, CountedWord { key, sound, .. }: CountedWord, translations: &Translations) -> u32 {
        let posting_id = *self.words.entry(key).or_insert_with(|| {
            let posting_id = self.postings.len() as u32;
            let scale = meaning_scale(translations.passage_senses(key));
            for sense in translations.passage_senses(key) {
                self.concepts.entry(sense.concept()).or_default().add(posting_id, scale * sense.probability());
            }
            let is_phrase = translations.has_phrase(key);
            self.postings.push(Posting { word: key, is_phrase, has_sound: false, start: 0, length: 0, capacity: 0, live: 0 });
            posting_id
        });
        let has_sound = &mut self.postings[posting_id as usize].has_sound;
        *has_sound = *has_sound || self.sounds.insert(SoundingWord { posting_id, sound });
        posting_id
    }

    /// Removes a passage, if it exists.
    pub fn remove(&mut self, passage: PassageId) {
        let Some(slot) = self.slots.remove(&passage) else { return };
        self.version = self.version.wrapping_add(1);
        self.passages[slot as usize] = None;
        self.length_sum -= u64::from(self.lengths[slot as usize]);
        for posting_id in &self.slot_words[self.slot_range(slot as usize)] {
            let live = &mut self.postings[*posting_id as usize].live;
            *live -= 1;
            if *live == 0 {
                self.removed.insert(*posting_id);
            }
        }
        let dead = self.passages.len() - self.slots.len();
        if dead > DEAD_MIN.max(self.passages.len() / 2) {
            self.arrange();
        }
    }

    /// Returns where the posting ids of a slot's words are in `slot_words`.
    fn slot_range(&self, slot: usize) -> Range<usize> {
        self.slot_starts[slot]..self.slot_starts.get(slot + 1).copied().unwrap_or(self.slot_words.len())
    }

    /// Arranges the entries if many are new. Called after changes and before searches.
    pub fn prepare(&mut self) {
        if self.entries.len() - self.arranged > NEW_MIN.max(self.arranged / 2) {
            self.arrange();
        }
    }

    /// Adds an entry to a posting. If the posting has no room, moves it to the end.
    fn push(&mut self, posting_id: u32, entry: u32) {
        let posting = &mut self.postings[posting_id as usize];
        let length = posting.length as usize;
        if posting.length == posting.capacity {
            let moved = posting.start..posting.start + length;
            (posting.start, posting.capacity) = (self.entries.len(), 2 * posting.length.max(1));
            self.entries.extend_from_within(moved);
            self.entries.resize(posting.start + posting.capacity as usize, 0);
        }
        self.entries[posting.start + length] = entry;
        posting.length += 1;
        posting.live += 1;
        self.removed.remove(&posting_id);
    }

    fn posting(&self, posting_id: u32) -> &[u32] {
        let Posting { start, length, .. } = self.postings[posting_id as usize];
        &self.entries[start..start + length as usize]
    }

    /// Returns the number of passages.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no passages.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether a passage has this word, by its number, also as part of another.
    pub fn has(&self, word: u32) -> bool {
        self.posting_of(word).is_some()
    }

    /// Whether a passage may have all of these words, by their numbers.
    pub fn has_together(&self, words: &[u32]) -> bool {
        let postings = words.iter().map(|word| Some(self.posting(self.posting_of(*word)?))).collect::<Option<Vec<_>>>();
        let Some(mut postings) = postings else { return false };
        postings.sort_by_key(|posting| posting.len());
        let Some((rarest, others)) = postings.split_first() else { return true };
        // Slots are assigned in ascending order, so those of a posting are sorted.
        let slot = |entry: &u32| entry >> WORD_COUNT_BITS;
        let has = |candidate: u32| others.iter().all(|posting| posting.binary_search_by_key(&candidate, slot).is_ok());
        rarest.iter().any(|entry| has(slot(entry)))
    }

    /// Returns the id of a word's posting if a passage has the word.
    fn posting_of(&self, word: u32) -> Option<u32> {
        self.words.get(&word).copied().filter(|posting_id| self.exists(*posting_id))
    }

    /// Whether a passage has a word, by its number, also as part of another. `None` if the index does not have the passage.
    pub fn has_word(&self, passage: PassageId, word: u32) -> Option<bool> {
        let slot = self.slots.get(&passage)?;
        // Slots are assigned in ascending order, so those of a posting are sorted.
        let is_in = |id: &u32| self.posting(*id).binary_search_by_key(slot, |entry| entry >> WORD_COUNT_BITS).is_ok();
        Some(self.words.get(&word).is_some_and(is_in))
    }

    /// Whether a word of a query, by its number, or a word that probably means the same is among the words of the collection. The
    /// word must have no other forms.
    pub fn finds(&self, word: u32, translations: &Translations) -> bool {
        let look_up = |word: Word| self.expansion(&word.into(), None, translations);
        let expansion = |word: Word| self.expansions.get((word, None, self.version), || look_up(word));
        self.has(word) || expansion(word.into()).words.iter().any(|(_, same)| *same >= PROBABLY)
    }

    /// Whether a passage has one of the words with these postings, which are sorted. `None` if the index does not have the
    /// passage.
    pub fn has_any(&self, passage: PassageId, posting_ids: &[u32]) -> Option<bool> {
        let slot = *self.slots.get(&passage)?;
        let slot_words = &self.slot_words[self.slot_range(slot as usize)];
        Some(slot_words.iter().any(|posting_id| posting_ids.binary_search(posting_id).is_ok()))
    }

    /// Returns the postings of the words of the collection that mean the same as a word of the question with these scores, and
    /// of the word itself, sorted.
    pub fn meanings(&self, word: u32, scores: &WordScores) -> Vec<u32> {
        let expansions = scores.words.iter().filter(|(expansion, _)| expansion.word == word);
        let posting_id = self.words.get(&word).copied();
        let mut meanings: Vec<u32> = expansions.flat_map(|(expansion, _)| expansion.meanings()).chain(posting_id).collect();
        meanings.sort_unstable();
        meanings
    }

    /// Compares a query of these words with all passages. `question` knows how much their tokens matter.
    pub fn scores(&self, query: &[QueryWord], question: Option<&Question>, translations: &Translations) -> WordScores {
        let phrases = phrases(query, translations);
        let expansion = |word: &QueryWord| {
            let phrase = phrases.get(&word.word.key).copied();
            self.expansions.get((word.word, phrase, self.version), || self.expansion(word, phrase, translations))
        };
        let mut weighted = weighted_words(query, question, expansion);
        let sufficient = sufficient_score(query, &weighted);
        weighted.sort_by(|a, b| b.expansion.rarity.total_cmp(&a.expansion.rarity));
        let significant = self.significant_words(&weighted);
        let mut left = VISITS_MIN.max(VISITS_PER_PASSAGE * self.len());
        let mut scores = vec![0.0; self.passages.len()];
        let (mut counts, mut touched) = (vec![0.0; self.passages.len()], Vec::new());
        for (number, word) in weighted.iter().enumerate() {
            left = left.saturating_sub(word.expansion.visits);
            if number > 0 && left == 0 {
                break;
            }
            self.add(word, &mut counts, &mut touched, &mut scores);
        }
        let words = weighted.into_iter().map(|word| (word.expansion, word.weight)).collect();
        WordScores { scores, sufficient, significant, words }
    }

    /// Returns the score of a passage, about 0 to 1, or 0 for a missing one.
    pub fn score(&self, scores: &WordScores, passage: PassageId) -> f32 {
        let score = self.slots.get(&passage).and_then(|&slot| scores.scores.get(slot as usize));
        score.map_or(0.0, |score| scores.share(*score))
    }

    /// Returns the best `limit` passages that `accept` accepts, best first, and among equal scores the older first.
    pub fn nearest(&self, scores: &WordScores, limit: usize, accept: impl Fn(PassageId) -> bool) -> Vec<(PassageId, f32)> {
        let passage = |slot: usize| self.passages.get(slot).copied().flatten().filter(|&passage| accept(passage));
        best(&scores.scores, passage, limit).into_iter().map(|(passage, score)| (passage, scores.share(score))).collect()
    }

    fn significant_words(&self, weighted: &[Weighted]) -> Vec<SignificantWord> {
        let total: f32 = weighted.iter().map(|word| word.expansion.rarity).sum();
        let rarity_min = SIGNIFICANT_MIN * total / weighted.len().max(1) as f32;
        let significant = weighted.iter().filter(|word| word.expansion.rarity >= rarity_min && word.has_significant_token);
        significant.map(|word| self.significant_word(&word.expansion)).collect()
    }

    fn significant_word(&self, expansion: &Expansion) -> SignificantWord {
        let meanings = expansion.meanings().map(|posting_id| self.postings[posting_id as usize].word).collect();
        SignificantWord { word: expansion.word, meanings }
    }

    /// Whether any passage has a word. Unlike its frequency, this is known without reading its posting.
    fn exists(&self, posting_id: u32) -> bool {
        !self.removed.contains(&posting_id)
    }

    /// Returns the number of passages that have a word.
    fn frequency(&self, posting_id: u32) -> usize {
        self.postings[posting_id as usize].live as usize
    }

    /// Returns how many passages have the words of a concept. A passage counts once for each word.
    fn entries(&self, concept: &Concept) -> u64 {
        let (entries, version) = (u64::from(u32::MAX), u64::from(self.version) << u32::BITS);
        let counted = concept.counted.load(Ordering::Relaxed);
        if counted & !entries == version {
            return counted & entries;
        }
        let counted: usize = concept.words.iter().map(|(posting_id, _)| self.frequency(*posting_id)).sum();
        let counted = (counted as u64).min(entries);
        concept.counted.store(version | counted, Ordering::Relaxed);
        counted
    }

    /// Adds the score of a word of the question to each passage. `counts` must be zeros before, and is zeros after.
    fn add(&self, word: &Weighted, counts: &mut [f32], touched: &mut Vec<u32>, scores: &mut [f32]) {
        let mean = self.length_sum as f32 / self.len().max(1) as f32;
        let (expansion, weight) = (&word.expansion, word.weight);
        let formula = Formula { weight, per_word: B / mean.max(1.0) };
        let entries = expansion
            .words
            .iter()
            .flat_map(|(posting_id, same)| self.posting(*posting_id).iter().map(move |entry| (entry, same)));
        let entries =
            entries.map(|(entry, same)| ((entry >> WORD_COUNT_BITS) as usize, same * (entry & u32::from(WORD_COUNT_MAX)) as f32));
        if expansion.visits > scores.len() / SCORED_PART {
            entries.for_each(|(slot, count)| counts[slot] += count);
            return add_all(&formula, counts, &self.lengths, scores);
        }
        touched.clear();
        for (slot, count) in entries {
            if counts[slot] == 0.0 {
                touched.push(slot as u32);
            }
            counts[slot] += count;
        }
        for slot in touched.iter().map(|slot| *slot as usize) {
            scores[slot] += formula.score(std::mem::take(&mut counts[slot]), self.lengths[slot]);
        }
    }

    /// Rearranges all entries. Drops the slots of removed passages, and words that no passage has anymore.
    fn arrange(&mut self) {
        let mut new_slots = vec![None; self.passages.len()];
        let (mut passages, mut lengths) = (Vec::with_capacity(self.len()), Vec::with_capacity(self.len()));
        for (slot, passage) in self.passages.iter().enumerate() {
            if let Some(passage) = *passage {
                new_slots[slot] = Some(passages.len() as u32);
                self.slots.insert(passage, passages.len() as u32);
                passages.push(Some(passage));
                lengths.push(self.lengths[slot]);
            }
        }
        let length = self.postings.iter().map(|posting| (posting.live + posting.live / SPARE_PART) as usize).sum();
        let (mut entries, mut postings) = (Vec::with_capacity(length), Vec::with_capacity(self.postings.len()));
        let mut new_ids = vec![None; self.postings.len()];
        for old in self.by_concept() {
            let start = entries.len();
            let count = |entry: u32| entry & u32::from(WORD_COUNT_MAX);
            let moved = |entry: &u32| {
                new_slots[(entry >> WORD_COUNT_BITS) as usize].map(|slot| (slot << WORD_COUNT_BITS) | count(*entry))
            };
            entries.extend(self.posting(old).iter().filter_map(moved));
            let length = (entries.len() - start) as u32;
            if length > 0 {
                new_ids[old as usize] = Some(postings.len() as u32);
                let capacity = length + length / SPARE_PART;
                entries.resize(start + capacity as usize, 0);
                postings.push(Posting { start, length, capacity, live: length, ..self.postings[old as usize] });
            }
        }
        let new_id = |posting_id: u32| new_ids[posting_id as usize];
        let sounding = self.sounds.iter().filter_map(|word| Some(SoundingWord { posting_id: new_id(word.posting_id)?, ..word }));
        let mut sounding: Vec<SoundingWord> = sounding.collect();
        // A search compares a limited number of words, the first ones, so their order must not be random.
        sounding.sort_unstable_by_key(|word| word.posting_id);
        self.sounds = SoundIndex::of(sounding);
        self.words = self.words.drain().filter_map(|(word, posting_id)| Some((word, new_id(posting_id)?))).collect();
        for concept in self.concepts.values_mut() {
            let words = concept.words.iter().filter_map(|(posting_id, probability)| Some((new_id(*posting_id)?, *probability)));
            concept.words = words.collect();
            concept.sort();
        }
        let slots = (0..self.passages.len()).filter(|slot| new_slots[*slot].is_some());
        let (mut slot_words, mut slot_starts) = (Vec::with_capacity(self.slot_words.len()), Vec::with_capacity(self.len()));
        for slot in slots {
            slot_starts.push(slot_words.len());
            slot_words.extend(self.slot_words[self.slot_range(slot)].iter().filter_map(|old| new_id(*old)));
        }
        (self.slot_words, self.slot_starts) = (slot_words, slot_starts);
        self.removed.clear();
        self.arranged = entries.len();
        (self.passages, self.lengths, self.postings, self.entries) = (passages, lengths, postings, entries);
        self.version = self.version.wrapping_add(1);
    }

    /// Returns the posting ids of all words. Words with the same most likely concept are together, most likely first.
    fn by_concept(&self) -> Vec<u32> {
        let mut likeliest = vec![(0.0, None); self.postings.len()];
        for (concept, Concept { words, .. }) in &self.concepts {
            for (posting_id, probability) in words {
                let (max, of) = &mut likeliest[*posting_id as usize];
                if *probability > *max || (*probability == *max && Some(*concept) < *of) {
                    (*max, *of) = (*probability, Some(*concept));
                }
            }
        }
        let mut posting_ids: Vec<u32> = (0..self.postings.len() as u32).collect();
        posting_ids.sort_unstable_by(|a, b| {
            let ((a_max, a_of), (b_max, b_of)) = (likeliest[*a as usize], likeliest[*b as usize]);
            a_of.cmp(&b_of).then(f32::total_cmp(&b_max, &a_max)).then(a.cmp(b))
        });
        posting_ids
    }
}

#[cfg(test)]
#[path = "word_index_tests.rs"]
mod tests;
