//! The bounded queue of the encoder. It groups waiting texts into batches.
//!
//! Callers tokenize texts and submit them. Each encoder has its own thread, which takes as many waiting texts as the token
//! budget allows. A batch consists of the texts that arrived while the previous batches were running, so a lone query runs at
//! once. Queries go ahead of bulk work, but not forever, because callers wait for bulk work too.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::{EmbedError, EmbedMeter};
use crate::domain::{Embedded, Embedding, panic_text, with_causes};
use crate::text::Tokens;

/// After this many query batches in a row, one batch of waiting bulk work runs.
const QUERY_BATCHES_IN_A_ROW: usize = 4;

/// Waiting texts are sorted by length in groups of this many token budgets. Larger groups need less padding, but their first
/// text may wait longer.
const BUDGETS_SORTED_TOGETHER: usize = 4;

/// Turns token ids into embeddings. A thread of the queue owns it.
pub trait Encode: Send {
    /// Returns one embedding per text, in the same order, or `None` where the model's output has no direction.
    fn encode(&mut self, batch: &[Tokens]) -> Result<Vec<Option<Embedding>>, EmbedError>;
}

/// The priority of texts in the queue. Queries go ahead of bulk work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// A user is waiting for the result.
    Query,
    /// Bulk work.
    Ingest,
}

#[derive(Debug, Clone, Copy)]
pub struct QueueBounds {
    /// Maximum of a batch's number of texts times the tokens of its longest text.
    pub batch_tokens_max: usize,
    /// Maximum number of waiting texts, not counting the running batches.
    pub texts_max: usize,
}

/// The queue with its threads. Dropping it answers waiting texts with `EmbedError::Stopping` and waits for the running batches.
pub struct Queue {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

pub struct Pending(oneshot::Receiver<Result<Vec<Embedded>, EmbedError>>);

impl Queue {
    /// Starts a thread for each of `encoders`, which must be equivalent. `meter` counts their work.
    pub fn start(encoders: Vec<impl Encode + 'static>, bounds: QueueBounds, meter: EmbedMeter) -> Result<Self, EmbedError> {
        let shared = Arc::new(Shared { bounds, state: Mutex::default(), wake: Condvar::new(), meter });
        // If a thread cannot be started, dropping the queue stops those that already run.
        let mut queue = Self { shared, threads: Vec::with_capacity(encoders.len()) };
        for mut encoder in encoders {
            let worker = Closing(Arc::clone(&queue.shared));
            let work = move || {
                // Moves the whole guard into the thread, so that it closes the queue however the thread ends.
                let worker = worker;
                while let Some(batch) = worker.0.take() {
                    run(&mut encoder, batch, &worker.0.meter);
                }
            };
            let spawned = std::thread::Builder::new().name("embedder".to_owned()).spawn(work);
            queue.threads.push(spawned.map_err(|error| EmbedError::Thread(Arc::new(error)))?);
        }
        Ok(queue)
    }

    /// Checks whether the queue would accept this many more texts now, so that callers do not tokenize texts in vain.
    pub fn check_room(&self, texts: usize) -> Result<(), EmbedError> {
        self.shared.state.lock().check_room(texts, &self.shared.bounds)
    }

    /// Queues texts that are answered together, in their order.
    pub fn submit(&self, texts: Vec<Tokens>, priority: Priority) -> Result<Pending, EmbedError> {
        let (sender, receiver) = oneshot::channel();
        let embedded = texts.iter().map(|_| None).collect();
        let submission = Submission { left: texts.len(), embedded, reply: Some(sender) };
        let mut state = self.shared.state.lock();
        state.check_room(texts.len(), &self.shared.bounds)?;
        if texts.is_empty() {
            submission.reply.map(|sender| sender.send(Ok(Vec::new())));
            return Ok(Pending(receiver));
        }
        let submission = Arc::new(Mutex::new(submission));
        state.waiting += texts.len();
        let since = Instant::now();
        let tickets = (0..texts.len()).map(|index| Ticket { submission: Arc::clone(&submission), index, since });
        let lane = match priority {
            Priority::Query => &mut state.queries,
            Priority::Ingest => &mut state.ingest,
        };
        lane.waiting.extend(texts.into_iter().zip(tickets));
        drop(state);
        // The new texts may be enough for a batch for every encoder.
        self.shared.wake.notify_all();
        Ok(Pending(receiver))
    }

    /// Returns the number of waiting texts.
    pub fn depth(&self) -> usize {
        self.shared.state.lock().waiting
    }

    pub fn meter(&self) -> &EmbedMeter {
        &self.shared.meter
    }

    /// Accepts no more texts and answers waiting ones with `EmbedError::Stopping`.
    pub fn stop(&self) {
        self.shared.close();
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.stop();
        // ONNX Runtime must not be computing while the process unloads its library.
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Pending {
    /// Waits for the result. If the future is dropped, the queue skips the texts that still wait.
    pub async fn wait(self) -> Result<Vec<Embedded>, EmbedError> {
        self.0.await.unwrap_or(Err(EmbedError::Stopping))
    }
}

struct Shared {
    bounds: QueueBounds,
    state: Mutex<State>,
    wake: Condvar,
    meter: EmbedMeter,
}

#[derive(Default)]
struct State {
    queries: Lane,
    ingest: Lane,
    /// Number of waiting texts in both lanes.
    waiting: usize,
    /// Number of query batches since the last batch of bulk work.
    query_batches: usize,
    stopping: bool,
}

type Waiting = (Tokens, Ticket);

/// The waiting texts of one priority.
#[derive(Default)]
struct Lane {
    /// Texts in order of arrival.
    waiting: VecDeque<Waiting>,
    /// The texts that arrived first, already grouped into batches.
    planned: VecDeque<Vec<Waiting>>,
}

/// One text's index in its submission.
struct Ticket {
    submission: Arc<Mutex<Submission>>,
    index: usize,
    /// When the text was submitted.
    since: Instant,
}

/// Texts that are answered together, either with all embeddings or with the first error.
struct Submission {
    left: usize,
    embedded: Vec<Option<Embedded>>,
    /// `None` once the submission is answered.
    reply: Option<oneshot::Sender<Result<Vec<Embedded>, EmbedError>>>,
}

/// Closes the queue when its thread ends, even by a panic, so that no caller waits for a thread that is gone.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Shared {
    /// Waits for texts and returns the next batch, or `None` once the queue is closed.
    fn take(&self) -> Option<Vec<Waiting>> {
        let mut state = self.state.lock();
        loop {
            if state.stopping {
                return None;
            }
            match state.next_batch(self.bounds.batch_tokens_max) {
                Some(batch) if batch.is_empty() => {}
                Some(batch) => return Some(batch),
                None => self.wake.wait(&mut state),
            }
        }
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        state.waiting = 0;
        let lanes = (std::mem::take(&mut state.queries), std::mem::take(&mut state.ingest));
        drop(state);
        // Dropping the last ticket of a submission drops its sender. The receiver reads this as `Stopping`.
        drop(lanes);
        self.wake.notify_all();
    }
}

impl State {
    fn check_room(&self, texts: usize, bounds: &QueueBounds) -> Result<(), EmbedError> {
        let limit = bounds.texts_max;
        if self.stopping {
            Err(EmbedError::Stopping)
        } else if texts > limit {
            Err(EmbedError::TooManyTexts { texts, limit })
        } else if self.waiting + texts > limit {
            Err(EmbedError::QueueFull { waiting: self.waiting, limit })
        } else {
            Ok(())
        }
    }

    /// Returns the next batch, or `None` if no text waits. Leaves out texts whose callers are gone, so the batch may be empty.
    fn next_batch(&mut self, tokens_max: usize) -> Option<Vec<Waiting>> {
        let turn_of_ingest = self.query_batches >= QUERY_BATCHES_IN_A_ROW && !self.ingest.is_empty();
        let queries = if turn_of_ingest { None } else { self.queries.next_batch(tokens_max) };
        self.query_batches = if queries.is_some() { self.query_batches + 1 } else { 0 };
        let mut batch = queries.or_else(|| self.ingest.next_batch(tokens_max))?;
        self.waiting -= batch.len();
        batch.retain(|(_, ticket)| ticket.is_wanted());
        Some(batch)
    }
}

impl Lane {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.planned.is_empty()
    }

    fn next_batch(&mut self, tokens_max: usize) -> Option<Vec<Waiting>> {
        if self.planned.is_empty() {
            let mut tokens = 0;
            let first_comers = self.waiting.iter().take_while(|(text, _)| {
                let fits = tokens < tokens_max.saturating_mul(BUDGETS_SORTED_TOGETHER);
                tokens += text.ids.len();
                fits
            });
            let count = first_comers.count();
            self.planned = batches(self.waiting.drain(..count).collect(), |(text, _)| text.ids.len(), tokens_max);
        }
        self.planned.pop_front()
    }
}

/// Groups texts into batches of similar length, short texts first. In each batch, the number of texts times the longest length
/// is at most `tokens_max`. A text that exceeds this on its own gets its own batch.
fn batches<T>(mut texts: Vec<T>, length: impl Fn(&T) -> usize, tokens_max: usize) -> VecDeque<Vec<T>> {
    texts.sort_by_key(&length);
    let mut batches: VecDeque<Vec<T>> = VecDeque::new();
    for text in texts {
        match batches.back_mut() {
            // The texts are sorted, so this one is the longest so far.
            Some(batch) if (batch.len() + 1) * length(&text) <= tokens_max => batch.push(text),
            _ => batches.push_back(vec![text]),
        }
    }
    batches
}

/// Runs one batch and answers all of its texts, even if the encoder fails or panics.
fn run(encoder: &mut impl Encode, batch: Vec<Waiting>, meter: &EmbedMeter) {
    let (texts, tickets): (Vec<Tokens>, Vec<Ticket>) = batch.into_iter().unzip();
    let started = Instant::now();
    tickets.iter().for_each(|ticket| meter.wait_s.observe((started - ticket.since).as_secs_f64()));
    let error = match catch_unwind(AssertUnwindSafe(|| encoder.encode(&texts))) {
        Ok(Ok(embeddings)) if embeddings.len() == texts.len() => {
            meter.record_batch(texts.len(), texts.iter().map(|text| text.ids.len()).sum(), started.elapsed());
            for ((ticket, text), embedding) in tickets.iter().zip(texts).zip(embeddings) {
                match embedding {
                    Some(embedding) => {
                        ticket.fill(Embedded { embedding, tokens: text.ids, truncated: text.truncated });
                    }
                    None => ticket.fail(EmbedError::NotFinite),
                }
            }
            return;
        }
        Ok(Ok(embeddings)) => EmbedError::Contract {
            expected: format!("{} embeddings for a batch of as many texts", texts.len()),
            got: format!("{} embeddings", embeddings.len()),
        },
        Ok(Err(error)) => error,
        Err(panic) => EmbedError::Panicked { message: panic_text(&*panic).unwrap_or("no message").to_owned() },
    };
    meter.failures.inc();
    tracing::error!(texts = texts.len(), error = with_causes(&error), "a batch failed");
    for ticket in &tickets {
        ticket.fail(error.clone());
    }
}

impl Ticket {
    /// Returns whether a caller still waits for the result.
    fn is_wanted(&self) -> bool {
        self.submission.lock().reply.as_ref().is_some_and(|sender| !sender.is_closed())
    }

    fn fill(&self, embedded: Embedded) {
        let mut submission = self.submission.lock();
        submission.embedded[self.index] = Some(embedded);
        submission.left -= 1;
        if submission.left == 0 {
            let embedded = submission.embedded.drain(..).flatten().collect();
            submission.send(Ok(embedded));
        }
    }

    fn fail(&self, error: EmbedError) {
        self.submission.lock().send(Err(error));
    }
}

impl Submission {
    fn send(&mut self, reply: Result<Vec<Embedded>, EmbedError>) {
        if let Some(sender) = self.reply.take() {
            // The caller may be gone.
            let _ = sender.send(reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(lengths: &[usize], tokens_max: usize, expect: &[&[usize]]) {
        assert_eq!(batches(lengths.to_vec(), |length| *length, tokens_max), expect, "{lengths:?} under {tokens_max}");
    }

    #[test]
    fn texts_of_similar_length_share_a_batch() {
        check(&[], 8, &[]);
        check(&[3], 8, &[&[3]]);
        check(&[4, 1, 4, 1], 8, &[&[1, 1], &[4, 4]]);
        check(&[2, 2, 2, 2, 2], 8, &[&[2, 2, 2, 2], &[2]]);
    }

    #[test]
    fn a_text_longer_than_the_budget_runs_alone() {
        check(&[9, 1, 9], 8, &[&[1], &[9], &[9]]);
        check(&[5, 5], 0, &[&[5], &[5]]);
    }

    /// An encoder that waits in each batch until a second batch runs, but not forever.
    struct Meeting(Arc<(Mutex<usize>, Condvar)>);

    impl Encode for Meeting {
        fn encode(&mut self, batch: &[Tokens]) -> Result<Vec<Option<Embedding>>, EmbedError> {
            let (inside, wake) = &*self.0;
            let mut inside = inside.lock();
            *inside += 1;
            wake.notify_all();
            let patience = std::time::Duration::from_secs(10);
            wake.wait_while_for(&mut inside, |inside| *inside < 2, patience);
            Ok(batch.iter().map(|_| Embedding::normalized(vec![*inside as f32, 0.0])).filter(|_| *inside >= 2).collect())
        }
    }

    #[test]
    fn each_encoder_runs_its_own_batch() {
        let meeting = Arc::new((Mutex::new(0), Condvar::new()));
        let bounds = QueueBounds { batch_tokens_max: 1, texts_max: 10 };
        let queue = Queue::start(vec![Meeting(Arc::clone(&meeting)), Meeting(meeting)], bounds, EmbedMeter::default()).unwrap();
        let texts = vec![Tokens { ids: vec![7], truncated: false }; 2];
        let pending = queue.submit(texts, Priority::Ingest).unwrap();
        let embedded = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(pending.wait());
        assert_eq!(embedded.unwrap().len(), 2);
    }

    proptest! {
        #[test]
        fn batches_hold_each_text_once_and_stay_within_the_budget(
            lengths in proptest::collection::vec(1usize..130, 0..300),
            tokens_max in 1usize..4_000,
        ) {
            let texts: Vec<(usize, usize)> = lengths.iter().copied().enumerate().collect();
            let batches = batches(texts, |(_, length)| *length, tokens_max);
            for batch in &batches {
                let longest = batch.iter().map(|(_, length)| *length).max().unwrap();
                prop_assert!(batch.len() == 1 || batch.len() * longest <= tokens_max);
            }
            let mut indexes: Vec<usize> = batches.iter().flatten().map(|(index, _)| *index).collect();
            indexes.sort_unstable();
            prop_assert_eq!(indexes, (0..lengths.len()).collect::<Vec<_>>());
        }
    }
}
