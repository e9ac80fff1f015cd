//! The bytes of memory that requests hold: of their bodies, and of their answers until these are sent. Bounded for each answer, and
//! over all requests together.
//!
//! What one request holds is its `RequestMemory`. It reaches the use cases with the task that runs the request, not as an
//! argument of each: it belongs to the request, whatever it asks for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::shares::{Bound, Held, Refusal};
use crate::domain::Payer;
use crate::service::error::Error;

/// Bytes that every request may hold without asking, so that small answers are given also when large ones have taken all the rest.
/// They are bounded by the number of requests.
const UNCOUNTED_BYTES: u64 = 256 << 10;
/// Bytes that are taken at a time.
const STEP_BYTES: u64 = 256 << 10;

tokio::task_local! {
    static CURRENT: RequestMemory;
}

/// What one request holds. Clones share it; the last one to go gives it back.
#[derive(Debug, Clone)]
pub struct RequestMemory(Arc<Mutex<Account>>);

#[derive(Debug)]
struct Account {
    held: Held,
    /// Bytes of the body as they were sent and as they were read.
    body: u64,
    answer: u64,
}

impl RequestMemory {
    pub(crate) fn new(bound: &Arc<Bound>, payer: Payer) -> Self {
        Self(Arc::new(Mutex::new(Account { held: bound.nothing(payer), body: 0, answer: 0 })))
    }

    /// That of the request which the task runs; outside of requests one that is bounded by itself alone.
    pub fn current() -> Self {
        CURRENT.try_with(Clone::clone).unwrap_or_else(|_| Self::new(&Bound::new("", u64::MAX), Payer::Others))
    }

    /// Runs a request that holds this.
    pub async fn scope<F: Future>(self, request: F) -> F::Output {
        CURRENT.scope(self, request).await
    }

    /// Who pays.
    pub fn payer(&self) -> Payer {
        self.0.lock().held.payer().clone()
    }

    /// Says that there is no more.
    fn refusal(&self) -> Refusal {
        self.0.lock().held.refusal()
    }

    /// Holds so many more bytes of the request's body.
    pub fn add_body(&self, bytes: u64) -> Result<(), Refusal> {
        let mut account = self.0.lock();
        account.body += bytes;
        let settled = account.settle();
        account.body -= if settled.is_err() { bytes } else { 0 };
        settled
    }

    /// The body is done with.
    pub fn release_body(&self) {
        let mut account = self.0.lock();
        account.body = 0;
        account.give_back();
    }

    /// Holds so many more bytes of the answer.
    pub fn add_answer(&self, bytes: u64) -> Result<(), Refusal> {
        let mut account = self.0.lock();
        account.answer += bytes;
        let settled = account.settle();
        account.answer -= if settled.is_err() { bytes } else { 0 };
        settled
    }

    /// Holds at least so many bytes of the answer.
    pub fn answer_at_least(&self, bytes: u64) -> Result<(), Refusal> {
        let mut account = self.0.lock();
        account.answer = account.answer.max(bytes);
        account.settle()
    }

    /// Holds up to so many more bytes of the answer; gives how many it got.
    fn add_answer_up_to(&self, bytes: u64) -> u64 {
        let mut account = self.0.lock();
        let spare = (account.held.amount() + UNCOUNTED_BYTES).saturating_sub(account.body + account.answer);
        let got = if bytes <= spare { bytes } else { spare + account.held.grow_up_to(bytes - spare) };
        account.answer += got;
        got
    }

    /// The answer is smaller by so many bytes than was thought.
    fn remove_answer(&self, bytes: u64) {
        let mut account = self.0.lock();
        account.answer = account.answer.saturating_sub(bytes);
        account.give_back();
    }
}

impl Account {
    /// Bytes that are to be held beyond what is.
    fn missing(&self) -> u64 {
        (self.body + self.answer).saturating_sub(UNCOUNTED_BYTES).saturating_sub(self.held.amount())
    }

    fn settle(&mut self) -> Result<(), Refusal> {
        let missing = self.missing();
        if missing == 0 {
            return Ok(());
        }
        self.held.grow(missing)?;
        self.held.grow_up_to(missing.next_multiple_of(STEP_BYTES) - missing);
        Ok(())
    }

    fn give_back(&mut self) {
        let needed = (self.body + self.answer).saturating_sub(UNCOUNTED_BYTES);
        self.held.shrink(self.held.amount().saturating_sub(needed));
    }
}

/// Bounds the bytes of all parts of an answer, which may be made side by side.
#[derive(Debug)]
pub(crate) struct AnswerBudget {
    limit: usize,
    spent: AtomicU64,
    memory: RequestMemory,
    refusal: OnceLock<Refusal>,
}

impl AnswerBudget {
    /// That of the request which the task runs.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, spent: AtomicU64::new(0), memory: RequestMemory::current(), refusal: OnceLock::new() }
    }

    /// Bytes in all.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes taken so far.
    pub(crate) fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Takes so many bytes out of it; says whether they were there.
    pub(crate) fn spend(&self, bytes: u64) -> bool {
        if self.spent.fetch_add(bytes, Ordering::Relaxed) + bytes > self.limit as u64 {
            return false;
        }
        match self.memory.add_answer(bytes) {
            Ok(()) => true,
            Err(refusal) => {
                let _ = self.refusal.set(refusal);
                false
            }
        }
    }

    /// Why bytes were not there, unless the answer is too large by itself.
    pub(crate) fn refusal(&self) -> Option<Error> {
        self.refusal.get().copied().map(Error::Refused)
    }

    /// Takes up to so many bytes for something that can end early; gives how many there were. `settle` has to follow.
    pub(crate) fn reserve(&self, wanted: u64) -> u64 {
        self.memory.add_answer_up_to(wanted.min((self.limit as u64).saturating_sub(self.spent())))
    }

    /// Says that the server has no more memory for the request.
    pub(crate) fn memory_refusal(&self) -> Refusal {
        self.memory.refusal()
    }

    /// Takes `bytes` in place of those that were reserved.
    pub(crate) fn settle(&self, reserved: u64, bytes: u64) -> Result<(), Error> {
        self.spent.fetch_add(bytes, Ordering::Relaxed);
        self.memory.remove_answer(reserved.saturating_sub(bytes));
        Ok(self.memory.add_answer(bytes.saturating_sub(reserved))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn memory(bound: &Arc<Bound>) -> RequestMemory {
        RequestMemory::new(bound, Payer::Operator)
    }

    #[test]
    fn a_small_request_holds_nothing_of_the_bound() {
        let bound = Bound::new("in_flight_bytes_max", 0);
        let small = memory(&bound);
        small.add_body(1_000).unwrap();
        small.add_answer(UNCOUNTED_BYTES - 1_000).unwrap();
        assert!(small.add_answer(1).is_err());
    }

    #[test]
    fn a_large_request_holds_what_it_has_until_it_is_over() {
        let bound = Bound::new("in_flight_bytes_max", 10 * MIB);
        let large = memory(&bound);
        large.add_body(2 * MIB).unwrap();
        large.add_answer(MIB).unwrap();
        assert_eq!(bound.used(), 3 * MIB - UNCOUNTED_BYTES);
        large.release_body();
        assert_eq!(bound.used(), MIB - UNCOUNTED_BYTES);
        assert!(large.add_answer(9 * MIB).is_err(), "more than this caller's share");
        drop(large);
        assert_eq!(bound.used(), 0);
    }

    #[tokio::test]
    async fn an_answer_takes_from_the_request_that_it_belongs_to() {
        let bound = Bound::new("in_flight_bytes_max", 10 * MIB);
        let request = memory(&bound);
        let budget = request.clone().scope(async { AnswerBudget::new(64 << 20) }).await;
        assert!(budget.spend(4 * MIB) && !budget.spend(4 * MIB));
        assert!(matches!(budget.refusal(), Some(Error::Refused(Refusal::Share { .. }))));
        assert!(AnswerBudget::new(100 << 20).spend(99 << 20), "work of no request has no other bound than its own");
    }

    #[tokio::test]
    async fn what_can_end_early_takes_what_is_there() {
        let bound = Bound::new("in_flight_bytes_max", MIB);
        let budget = memory(&bound).scope(async { AnswerBudget::new(64 << 20) }).await;
        assert_eq!(budget.reserve(8 * MIB), MIB + UNCOUNTED_BYTES);
        budget.settle(MIB + UNCOUNTED_BYTES, 2 * UNCOUNTED_BYTES).unwrap();
        assert_eq!((bound.used(), budget.spent()), (UNCOUNTED_BYTES, 2 * UNCOUNTED_BYTES));
    }
}
