//! Accounts for the memory of requests: their bodies, and their answers until they are sent. The memory is bounded per answer
//! and over all requests together.
//!
//! Each request has a `RequestMemory`. The service gets it from the task that runs the request, not as an argument.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::shares::{LimitExceeded, LimitShare, SharedLimit};
use crate::domain::QuotaOwner;
use crate::service::error::Error;

/// Bytes that every request may hold without being counted, so that small answers succeed even when large ones have used up the
/// limit. The limit on the number of requests bounds their total.
const UNCOUNTED_BYTES: u64 = 256 << 10;
/// Memory is taken in multiples of this many bytes.
const STEP_BYTES: u64 = 256 << 10;

tokio::task_local! {
    static CURRENT: RequestMemory;
}

/// The memory of one request. Clones share it. Dropping the last one releases it.
#[derive(Debug, Clone)]
pub struct RequestMemory(Arc<Mutex<Account>>);

#[derive(Debug)]
struct Account {
    held: LimitShare,
    /// Bytes of the body, both as received and as parsed.
    body: u64,
    answer: u64,
}

impl RequestMemory {
    pub(crate) fn new(bound: &Arc<SharedLimit>, owner: QuotaOwner) -> Self {
        Self(Arc::new(Mutex::new(Account { held: bound.empty_share(owner), body: 0, answer: 0 })))
    }

    /// Returns the memory of the request that this task runs. Outside of requests, returns a new one without a shared limit.
    pub fn current() -> Self {
        CURRENT.try_with(Clone::clone).unwrap_or_else(|_| Self::new(&SharedLimit::new("", u64::MAX), QuotaOwner::Others))
    }

    /// Runs a request with this memory.
    pub async fn scope<F: Future>(self, request: F) -> F::Output {
        CURRENT.scope(self, request).await
    }

    /// Runs a part of a request with this memory on a thread for blocking work.
    pub fn scope_blocking<T>(self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self, work)
    }

    pub fn owner(&self) -> QuotaOwner {
        self.0.lock().held.owner().clone()
    }

    /// Returns the most that one caller can get.
    pub fn bytes_max(&self) -> u64 {
        self.0.lock().held.limit() / 2 + UNCOUNTED_BYTES
    }

    /// Returns the refusal for lack of memory, and counts it.
    fn refusal(&self) -> LimitExceeded {
        self.0.lock().held.refusal()
    }

    pub fn add_body(&self, bytes: u64) -> Result<(), LimitExceeded> {
        self.0.lock().add(bytes, |account| &mut account.body)
    }

    pub fn remove_body(&self, bytes: u64) {
        let mut account = self.0.lock();
        account.body = account.body.saturating_sub(bytes);
        account.release_excess();
    }

    pub fn release_body(&self) {
        self.remove_body(u64::MAX);
    }

    pub fn add_answer(&self, bytes: u64) -> Result<(), LimitExceeded> {
        self.0.lock().add(bytes, |account| &mut account.answer)
    }

    /// Takes bytes, if needed, until the response has at least this many.
    pub fn answer_at_least(&self, bytes: u64) -> Result<(), LimitExceeded> {
        let mut account = self.0.lock();
        let missing = bytes.saturating_sub(account.answer);
        account.add(missing, |account| &mut account.answer)
    }

    /// Takes up to this many bytes for the response. Returns how many it got.
    fn add_answer_up_to(&self, bytes: u64) -> u64 {
        let mut account = self.0.lock();
        let spare = (account.held.amount() + UNCOUNTED_BYTES).saturating_sub(account.body + account.answer);
        let got = if bytes <= spare { bytes } else { spare + account.held.grow_up_to(bytes - spare) };
        account.answer += got;
        got
    }

    fn remove_answer(&self, bytes: u64) {
        let mut account = self.0.lock();
        account.answer = account.answer.saturating_sub(bytes);
        account.release_excess();
    }
}

impl Account {
    /// Adds to a part if the bytes can be taken.
    fn add(&mut self, bytes: u64, part: fn(&mut Self) -> &mut u64) -> Result<(), LimitExceeded> {
        *part(self) += bytes;
        self.acquire_missing().inspect_err(|_| *part(self) -= bytes)
    }

    /// Returns how many bytes must be held of the limit.
    fn needed(&self) -> u64 {
        (self.body + self.answer).saturating_sub(UNCOUNTED_BYTES)
    }

    fn acquire_missing(&mut self) -> Result<(), LimitExceeded> {
        let missing = self.needed().saturating_sub(self.held.amount());
        if missing == 0 {
            return Ok(());
        }
        self.held.grow(missing)?;
        self.held.grow_up_to(missing.next_multiple_of(STEP_BYTES) - missing);
        Ok(())
    }

    fn release_excess(&mut self) {
        self.held.shrink(self.held.amount().saturating_sub(self.needed()));
    }
}

/// Bounds the bytes of all parts of a response, which may be computed in parallel.
#[derive(Debug)]
pub(crate) struct AnswerBudget {
    limit: usize,
    charged: AtomicU64,
    memory: RequestMemory,
    refusal: OnceLock<LimitExceeded>,
}

impl AnswerBudget {
    /// Creates the budget of a response to the request that this task runs.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, charged: AtomicU64::new(0), memory: RequestMemory::current(), refusal: OnceLock::new() }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// Charges bytes. Returns whether enough were left.
    pub(crate) fn charge(&self, bytes: u64) -> bool {
        if self.charged.fetch_add(bytes, Ordering::Relaxed) + bytes > self.limit as u64 {
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

    /// Returns the error if the server ran out of memory, or `None` if the response itself is too large.
    pub(crate) fn refusal(&self) -> Option<Error> {
        self.refusal.get().copied().map(Error::Refused)
    }

    /// Returns the error that the response is too large, unless the server ran out of memory first.
    pub(crate) fn too_large(&self, advice: &'static str) -> Error {
        let too_large = || Error::AnswerTooLarge { bytes: self.charged(), limit: self.limit, advice };
        self.refusal().unwrap_or_else(too_large)
    }

    /// Reserves up to this many bytes for work that can end early. Returns how many it got. The caller must call `settle`
    /// afterwards.
    pub(crate) fn reserve(&self, wanted: u64) -> u64 {
        self.memory.add_answer_up_to(wanted.min((self.limit as u64).saturating_sub(self.charged())))
    }

    pub(crate) fn memory_refusal(&self) -> LimitExceeded {
        self.memory.refusal()
    }

    /// Replaces a reservation by the bytes that were actually needed.
    pub(crate) fn settle(&self, reserved: u64, bytes: u64) -> Result<(), Error> {
        self.charged.fetch_add(bytes, Ordering::Relaxed);
        self.memory.remove_answer(reserved.saturating_sub(bytes));
        Ok(self.memory.add_answer(bytes.saturating_sub(reserved))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn memory(bound: &Arc<SharedLimit>) -> RequestMemory {
        RequestMemory::new(bound, QuotaOwner::Operator)
    }

    #[test]
    fn a_small_request_does_not_count_against_the_limit() {
        let bound = SharedLimit::new("in_flight_bytes_max", 0);
        let small = memory(&bound);
        small.add_body(1_000).unwrap();
        small.add_answer(UNCOUNTED_BYTES - 1_000).unwrap();
        assert!(small.add_answer(1).is_err());
    }

    #[test]
    fn a_large_request_counts_against_the_limit_until_it_ends() {
        let bound = SharedLimit::new("in_flight_bytes_max", 10 * MIB);
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

    #[test]
    fn a_refused_size_of_the_answer_counts_nothing() {
        let bound = SharedLimit::new("in_flight_bytes_max", 2 * MIB);
        let request = memory(&bound);
        assert!(request.answer_at_least(4 * MIB).is_err());
        request.answer_at_least(UNCOUNTED_BYTES).unwrap();
        assert_eq!(bound.used(), 0);
        request.answer_at_least(UNCOUNTED_BYTES + 1).unwrap();
        assert!(bound.used() > 0);
    }

    #[tokio::test]
    async fn a_response_budget_is_charged_to_its_request() {
        let bound = SharedLimit::new("in_flight_bytes_max", 10 * MIB);
        let request = memory(&bound);
        let budget = request.clone().scope(async { AnswerBudget::new(64 << 20) }).await;
        assert!(budget.charge(4 * MIB) && !budget.charge(4 * MIB));
        assert!(matches!(budget.refusal(), Some(Error::Refused(LimitExceeded::Share { .. }))));
        assert!(AnswerBudget::new(100 << 20).charge(99 << 20), "outside a request, only the budget's own limit applies");
    }

    #[tokio::test]
    async fn a_reservation_is_capped_at_the_remaining_memory() {
        let bound = SharedLimit::new("in_flight_bytes_max", MIB);
        let budget = memory(&bound).scope(async { AnswerBudget::new(64 << 20) }).await;
        assert_eq!(budget.reserve(8 * MIB), MIB + UNCOUNTED_BYTES);
        budget.settle(MIB + UNCOUNTED_BYTES, 2 * UNCOUNTED_BYTES).unwrap();
        assert_eq!((bound.used(), budget.charged()), (UNCOUNTED_BYTES, 2 * UNCOUNTED_BYTES));
    }
}
