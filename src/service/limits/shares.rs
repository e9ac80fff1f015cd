//! Limits over all requests, shared fairly: no caller gets more than what stays free for the others.
//!
//! A caller that already holds something may take more only if at least as much as it would then hold stays free. So a single
//! caller gets half of a limit, two callers get a third each, and a new caller always finds as much free as the largest share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::domain::QuotaOwner;

#[derive(Debug)]
pub struct SharedLimit {
    name: &'static str,
    limit: u64,
    used: Mutex<Used>,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Used {
    all: u64,
    by_owner: HashMap<QuotaOwner, u64>,
}

/// A caller's share of a limit. Dropping it releases it.
#[derive(Debug)]
pub struct LimitShare {
    bound: Arc<SharedLimit>,
    owner: QuotaOwner,
    amount: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    #[error("{name} ({limit}, shared by all callers) is used up; try again later")]
    Full { name: &'static str, limit: u64 },
    #[error("this caller already holds its share of {name} ({held} of {limit}, shared by all callers); try again later")]
    Share { name: &'static str, limit: u64, held: u64 },
}

impl SharedLimit {
    /// Creates an unused limit. `name` is the name of its setting.
    pub fn new(name: &'static str, limit: u64) -> Arc<Self> {
        Arc::new(Self { name, limit, used: Mutex::default(), refused: AtomicU64::new(0) })
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn used(&self) -> u64 {
        self.used.lock().all
    }

    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub fn empty_share(self: &Arc<Self>, owner: QuotaOwner) -> LimitShare {
        LimitShare { bound: Arc::clone(self), owner, amount: 0 }
    }

    pub fn acquire(self: &Arc<Self>, owner: QuotaOwner, amount: u64) -> Result<LimitShare, LimitExceeded> {
        let mut held = self.empty_share(owner);
        held.grow(amount)?;
        Ok(held)
    }

    /// Takes what was accepted before, even if that is more than the limit.
    pub fn acquire_accepted(self: &Arc<Self>, owner: QuotaOwner, amount: u64) -> LimitShare {
        self.used.lock().add(&owner, amount);
        LimitShare { bound: Arc::clone(self), owner, amount }
    }

    /// Returns how much more an owner that holds `held` may take.
    fn available(&self, used: &Used, held: u64) -> u64 {
        let free = self.limit.saturating_sub(used.all);
        if held == 0 { free } else { free.saturating_sub(held) / 2 }
    }

    fn refuse(&self, used: &Used, held: u64, amount: u64) -> LimitExceeded {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let (name, limit) = (self.name, self.limit);
        if used.all.saturating_add(amount) > limit {
            LimitExceeded::Full { name, limit }
        } else {
            LimitExceeded::Share { name, limit, held }
        }
    }
}

impl Used {
    fn add(&mut self, owner: &QuotaOwner, amount: u64) {
        self.all += amount;
        *self.by_owner.entry(owner.clone()).or_default() += amount;
    }

    fn remove(&mut self, owner: &QuotaOwner, amount: u64) {
        self.all = self.all.saturating_sub(amount);
        if let Some(held) = self.by_owner.get_mut(owner) {
            *held = held.saturating_sub(amount);
            if *held == 0 {
                self.by_owner.remove(owner);
            }
        }
    }
}

impl LimitShare {
    /// Takes `amount` more, or nothing.
    pub fn grow(&mut self, amount: u64) -> Result<(), LimitExceeded> {
        let mut used = self.bound.used.lock();
        let held = used.by_owner.get(&self.owner).copied().unwrap_or_default();
        if amount == 0 {
            return Ok(());
        }
        if amount > self.bound.available(&used, held) {
            return Err(self.bound.refuse(&used, held, amount));
        }
        used.add(&self.owner, amount);
        self.amount += amount;
        Ok(())
    }

    /// Takes up to `amount` more. Returns how much it got.
    pub fn grow_up_to(&mut self, amount: u64) -> u64 {
        let mut used = self.bound.used.lock();
        let held = used.by_owner.get(&self.owner).copied().unwrap_or_default();
        let amount = amount.min(self.bound.available(&used, held));
        if amount == 0 {
            return 0;
        }
        used.add(&self.owner, amount);
        self.amount += amount;
        amount
    }

    pub fn shrink(&mut self, amount: u64) {
        let amount = amount.min(self.amount);
        self.bound.used.lock().remove(&self.owner, amount);
        self.amount -= amount;
    }

    /// Returns the limit that this is a share of.
    pub fn limit(&self) -> u64 {
        self.bound.limit
    }

    pub fn owner(&self) -> &QuotaOwner {
        &self.owner
    }

    /// Counts a refusal and returns it.
    pub fn refusal(&self) -> LimitExceeded {
        let used = self.bound.used.lock();
        let held = used.by_owner.get(&self.owner).copied().unwrap_or_default();
        let left = self.bound.available(&used, held);
        self.bound.refuse(&used, held, left + 1)
    }

    pub fn amount(&self) -> u64 {
        self.amount
    }
}

impl Drop for LimitShare {
    fn drop(&mut self) {
        self.bound.used.lock().remove(&self.owner, self.amount);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn caller(number: u8) -> QuotaOwner {
        QuotaOwner::for_address(Some(IpAddr::from([192, 0, 2, number])))
    }

    /// Returns how much each caller gets if they take turns until none gets more.
    fn shares(limit: u64, callers: u8) -> Vec<u64> {
        let bound = SharedLimit::new("requests_max", limit);
        let mut held: Vec<LimitShare> = (0..callers).map(|number| bound.empty_share(caller(number))).collect();
        while held.iter_mut().filter_map(|held| held.grow(1).ok()).count() > 0 {}
        held.iter().map(LimitShare::amount).collect()
    }

    #[test]
    fn no_caller_gets_more_than_is_left_for_the_others() {
        assert_eq!(shares(100, 1), [50]);
        let three = shares(100, 3);
        assert!(three.iter().all(|share| (24..=26).contains(share)), "{three:?}");
        assert!(shares(100, 99).iter().all(|share| *share >= 1), "every caller gets a share");
    }

    #[test]
    fn a_caller_holding_nothing_can_take_the_entire_limit() {
        let bound = SharedLimit::new("requests_max", 1);
        let first = bound.acquire(caller(1), 1).unwrap();
        assert_eq!(bound.acquire(caller(1), 1).unwrap_err(), LimitExceeded::Full { name: "requests_max", limit: 1 });
        assert_eq!(bound.acquire(caller(2), 1).unwrap_err(), LimitExceeded::Full { name: "requests_max", limit: 1 });
        drop(first);
        assert!(bound.acquire(caller(2), 1).is_ok());
        assert_eq!((bound.used(), bound.refused()), (0, 2));
        assert!(bound.used.lock().by_owner.is_empty(), "callers that hold nothing are forgotten");
    }

    #[test]
    fn a_greedy_caller_leaves_room_for_a_new_one() {
        let bound = SharedLimit::new("memory", 100);
        let mut greedy = bound.empty_share(caller(1));
        assert_eq!(greedy.grow_up_to(40), 40);
        assert_eq!(greedy.grow_up_to(100), 10);
        assert_eq!(greedy.grow(1), Err(LimitExceeded::Share { name: "memory", limit: 100, held: 50 }));
        let other = bound.acquire(caller(2), 50).unwrap();
        assert_eq!(other.amount(), 50);
        greedy.shrink(30);
        assert_eq!((greedy.amount(), bound.used()), (20, 70));
    }
}
