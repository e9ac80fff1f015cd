//! The words of a collection, by meaning.

use std::sync::atomic::AtomicU64;

/// New words of a concept stay unsorted until they are one in this many of its words, and at least the number below.
const UNSORTED_PART: usize = 4;
const UNSORTED_MIN: usize = 16;

/// The words of the collection that have a concept.
#[derive(Debug, Default)]
pub(super) struct Concept {
    /// The words by the ids of their postings, each with the probability that it means the concept, scaled
    /// (`translations::meaning_scale`). The first `sorted` ones are sorted, most likely first; new ones follow.
    pub(super) words: Vec<(u32, f32)>,
    sorted: usize,
    /// The lower half has the total number of passages with these words, and the upper half the version of the index for which
    /// it was counted. They are counted when a question needs the number, because changes are more frequent than questions.
    pub(super) counted: AtomicU64,
}

impl Concept {
    pub(super) fn add(&mut self, posting_id: u32, probability: f32) {
        self.words.push((posting_id, probability));
        if self.words.len() - self.sorted > UNSORTED_MIN.max(self.words.len() / UNSORTED_PART) {
            self.sort();
        }
    }

    pub(super) fn sort(&mut self) {
        self.words.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        self.sorted = self.words.len();
    }

    /// Returns the words that mean the concept with at least this probability.
    pub(super) fn words_with_min_probability(&self, probability: f32) -> impl Iterator<Item = (u32, f32)> + '_ {
        let (sorted, new) = self.words.split_at(self.sorted);
        let likely = move |(_, other): &&(u32, f32)| *other >= probability;
        sorted.iter().take_while(likely).chain(new.iter().filter(likely)).copied()
    }
}
