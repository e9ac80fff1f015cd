//! Precomputes the near tokens of a whole vocabulary, so that the server answers a question in new words as fast as one in
//! words that it has seen before.
//!
//! A thread starts with the server if there are passages, and otherwise at the first question. It computes a fifth of the
//! time, so that it hardly delays anything. It ends when it has computed all tokens (for the shipped table, after about a
//! minute), when they fill their part of the memory, or when the table is dropped.

use std::sync::{Arc, Once, Weak};
use std::time::{Duration, Instant};

use super::rows::{Rows, STORED_MAX};

/// How long the thread computes at a time.
const TURN: Duration = Duration::from_millis(1);
/// How many times as long as that it pauses.
const PAUSE: u32 = 4;

/// Maximum number of near tokens to precompute. A larger table leaves the rest of `STORED_MAX` to the tokens of questions.
const PRECOMPUTED_MAX: usize = 10 << 20;
const _: () = assert!(PRECOMPUTED_MAX < STORED_MAX);

/// Starts the thread once.
pub(super) struct Precomputation(Once);

impl Default for Precomputation {
    fn default() -> Self {
        Self(Once::new())
    }
}

impl Precomputation {
    /// Starts the thread if this is the first call.
    pub(super) fn start(&self, rows: &Arc<Rows>) {
        self.0.call_once(|| {
            let rows = Arc::downgrade(rows);
            // Without the thread, questions find the near tokens of new words themselves.
            drop(std::thread::Builder::new().name("near-tokens".to_owned()).spawn(move || compute_all(&rows)));
        });
    }
}

/// Computes the near tokens of all tokens, in turns.
fn compute_all(rows: &Weak<Rows>) {
    let mut next = 0;
    while let Some(rows) = rows.upgrade() {
        let started = Instant::now();
        while started.elapsed() < TURN {
            let Ok(token) = u16::try_from(next) else { return };
            if next >= rows.len() || rows.stored_count() >= PRECOMPUTED_MAX {
                return;
            }
            rows.near_tokens(token);
            next += 1;
        }
        drop(rows);
        std::thread::sleep(PAUSE * started.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::super::TokenTable;
    use super::*;

    fn rows(tokens: usize) -> Arc<Rows> {
        let values = (0..tokens * 64).map(|n| (n * n % 251) as i8).collect();
        Arc::new(Rows::new(TokenTable { dimension: 64, rows: values, scales: vec![1.0; tokens], weights: vec![1.0; tokens] }))
    }

    #[test]
    fn all_tokens_are_precomputed() {
        let rows = rows(300);
        compute_all(&Arc::downgrade(&rows));
        assert_eq!(rows.searched_count(), 300);
    }

    #[test]
    fn precomputing_ends_after_the_table_is_dropped() {
        // Computing all of them takes thousands of turns, and the thread must end after the first one without a table.
        const TOKENS: usize = 20_000;
        let rows = rows(TOKENS);
        let weak = Arc::downgrade(&rows);
        let thread = std::thread::spawn({
            let weak = weak.clone();
            move || compute_all(&weak)
        });
        while rows.searched_count() == 0 && !thread.is_finished() {
            std::thread::yield_now();
        }
        drop(rows);
        let mut found = 0;
        while let Some(rows) = weak.upgrade() {
            found = rows.searched_count();
            drop(rows);
            std::thread::sleep(Duration::from_millis(5));
        }
        thread.join().unwrap();
        assert!(found < TOKENS, "the thread kept the table until it had computed all tokens");
    }
}
