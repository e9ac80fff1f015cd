//! Controls the fake encoder: holds it, makes it fail and inspects its batches.

#![allow(dead_code, reason = "each test target uses its part")]

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use dragoman::embed::{EmbedError, Embedder, FakeOptions};

/// Dropping the last clone releases the encoder.
#[derive(Clone)]
pub struct FakeControl(Arc<ControlHandle>);

struct ControlHandle(Arc<Gate>);

#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    held: bool,
    /// How many batches pass although it is held.
    passing: usize,
    /// A batch is waiting at the gate.
    blocked: bool,
    fail_on: Option<String>,
    broken: bool,
    panic_on: Option<String>,
    batches: Vec<Vec<usize>>,
}

/// Starts a fake encoder with these options.
pub fn start(options: &FakeOptions) -> (Embedder, FakeControl) {
    let gate = Arc::new(Gate::default());
    let at_gate = Arc::clone(&gate);
    let embedder = Embedder::fake_with(options, Box::new(move |batch| at_gate.pass(batch)));
    (embedder, FakeControl(Arc::new(ControlHandle(gate))))
}

impl FakeControl {
    /// Holds the next batch and all later ones until `resume` is called.
    pub fn pause(&self) {
        self.lock().held = true;
    }

    pub fn resume(&self) {
        self.0.0.resume();
    }

    /// Lets one batch pass, and holds the next.
    pub fn pass_one(&self) {
        self.lock().passing += 1;
        self.0.0.changed.notify_all();
    }

    /// Blocks until a batch is held. Everything submitted after that waits in the queue.
    pub fn wait_until_blocked(&self) {
        let waiting = self.0.0.changed.wait_while(self.lock(), |state| !state.blocked);
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
    }

    /// Makes every batch fail that has this word in one of its texts.
    pub fn fail_on(&self, word: &str) {
        self.lock().fail_on = Some(word.to_lowercase());
    }

    /// Makes every batch fail if `broken`, and none otherwise.
    pub fn set_broken(&self, broken: bool) {
        self.lock().broken = broken;
    }

    /// Makes the encoder panic on every batch that has this word in one of its texts.
    pub fn panic_on(&self, word: &str) {
        self.lock().panic_on = Some(word.to_lowercase());
    }

    /// The token counts of the texts in each batch that passed the gate, in order.
    pub fn batches(&self) -> Vec<Vec<usize>> {
        self.lock().batches.clone()
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.0.0.lock()
    }
}

impl Drop for ControlHandle {
    fn drop(&mut self) {
        self.0.resume();
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resume(&self) {
        self.lock().held = false;
        self.changed.notify_all();
    }

    /// Waits while the gate is held. Then panics or fails if the batch has a word that was named for that.
    fn pass(&self, batch: &[Vec<String>]) -> Result<(), EmbedError> {
        let mut state = self.lock();
        while state.held && state.passing == 0 {
            state.blocked = true;
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.blocked = false;
        state.passing = state.passing.saturating_sub(1);
        state.batches.push(batch.iter().map(Vec::len).collect());
        let has = |word: &Option<String>| word.as_ref().is_some_and(|word| batch.iter().any(|text| text.contains(word)));
        assert!(!has(&state.panic_on), "the fake encoder was told to panic");
        if state.broken || has(&state.fail_on) {
            let source = Arc::new(std::io::Error::other("the fake encoder was told to fail"));
            return Err(EmbedError::Forward { texts: batch.len(), source });
        }
        Ok(())
    }
}
