//! Limits on traffic, shared fairly: how many requests run at once, how many event streams are open, how many requests a caller
//! may run at once, and each caller's rate.
//!
//! A caller is a key; without keys, or with a wrong one, the client's address (for IPv6 its /64, which belongs to one
//! subscriber).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::domain::{Code, QuotaOwner};
use crate::http::error::ApiError;
use crate::http::settings::{Rate, Settings};
use crate::service;
use crate::service::limits::shares::{LimitExceeded, LimitShare, SharedLimit};

/// Maximum callers with their own account. Further callers share one.
const ACCOUNTS_MAX: usize = 10_000;
/// How long to assume that all accounts are in use, after a search has found none to remove.
const RECHECK_AFTER: Duration = Duration::from_secs(1);

/// The address that a request came from; the listener adds it to the request's extensions.
#[derive(Debug, Clone, Copy)]
pub struct ClientAddress(pub IpAddr);

/// The accounts of all callers.
pub struct TrafficLimits {
    requests: Arc<SharedLimit>,
    event_streams: Arc<SharedLimit>,
    caller_running_max: Option<usize>,
    rate: Option<Rate>,
    accounts: Mutex<Accounts>,
}

#[derive(Default)]
struct Accounts {
    by_owner: HashMap<QuotaOwner, Account>,
    /// When the last search for an account to remove found none.
    full_at: Option<Instant>,
}

/// A request's permit within its caller's limits. Dropping it releases the permit.
pub struct Admission {
    traffic: Arc<TrafficLimits>,
    owner: Option<QuotaOwner>,
}

struct Account {
    tokens: f64,
    at: Instant,
    running: usize,
}

impl TrafficLimits {
    /// No requests are running, and every account is full.
    pub fn new(settings: &Settings) -> Arc<Self> {
        Arc::new(Self {
            requests: SharedLimit::new("requests_max", settings.requests_max as u64),
            event_streams: SharedLimit::new("event_streams_max", settings.event_streams_max as u64),
            caller_running_max: settings.caller_requests_max,
            rate: settings.rate,
            accounts: Mutex::default(),
        })
    }

    pub fn acquire_request(&self, owner: QuotaOwner) -> Result<LimitShare, ApiError> {
        self.requests.acquire(owner, 1).map_err(limit_error)
    }

    /// Acquires a permit for an event stream. Streams do little but last long, so they must not use up the permits for requests
    /// that work.
    pub fn acquire_event_stream(&self, owner: QuotaOwner) -> Result<LimitShare, ApiError> {
        self.event_streams.acquire(owner, 1).map_err(limit_error)
    }

    pub fn bounds(&self) -> [Arc<SharedLimit>; 2] {
        [Arc::clone(&self.requests), Arc::clone(&self.event_streams)]
    }

    /// Acquires a permit among the caller's own requests, and takes one token of its account.
    pub fn admit(self: &Arc<Self>, owner: QuotaOwner) -> Result<Admission, ApiError> {
        self.admit_at(owner, Instant::now())
    }

    fn admit_at(self: &Arc<Self>, owner: QuotaOwner, now: Instant) -> Result<Admission, ApiError> {
        if self.rate.is_none() && self.caller_running_max.is_none() {
            return Ok(Admission { traffic: Arc::clone(self), owner: None });
        }
        let mut accounts = self.accounts.lock();
        let owner = self.make_room_for(owner, &mut accounts, now);
        let accounts = &mut accounts.by_owner;
        let burst = self.rate.map_or(0.0, |rate| f64::from(rate.burst));
        let account = accounts.entry(owner.clone()).or_insert(Account { tokens: burst, at: now, running: 0 });
        if let Some(max) = self.caller_running_max.filter(|max| account.running >= *max) {
            let detail = format!("this caller already has {max} requests running, the maximum (caller_requests_max)");
            return Err(ApiError::new(Code::RateLimited, detail));
        }
        if let Some(rate) = self.rate {
            account.refill(rate, now);
            if account.tokens < 1.0 {
                let wait_s = (1.0 - account.tokens) / rate.per_second;
                let Rate { per_second, burst } = rate;
                let detail =
                    format!("a caller may send {per_second} requests per second (rate_per_s), and {burst} at once (rate_burst)");
                let error = ApiError::new(Code::RateLimited, detail);
                return Err(ApiError { retry_after_s: Some(wait_s.ceil().max(1.0) as u64), ..error });
            }
            account.tokens -= 1.0;
        }
        account.running += 1;
        Ok(Admission { traffic: Arc::clone(self), owner: Some(owner) })
    }

    /// Makes room by removing accounts that equal a new one. If a search finds none, the next search waits for
    /// `RECHECK_AFTER`, so that a flood of new addresses does not slow down every request.
    fn make_room_for(&self, owner: QuotaOwner, accounts: &mut Accounts, now: Instant) -> QuotaOwner {
        if accounts.by_owner.len() < ACCOUNTS_MAX || accounts.by_owner.contains_key(&owner) {
            return owner;
        }
        if accounts.full_at.is_some_and(|at| now.saturating_duration_since(at) < RECHECK_AFTER) {
            return QuotaOwner::Others;
        }
        accounts.by_owner.retain(|_, account| {
            let spent = self.rate.is_some_and(|rate| {
                account.refill(rate, now);
                account.tokens < f64::from(rate.burst)
            });
            account.running > 0 || spent
        });
        if accounts.by_owner.len() < ACCOUNTS_MAX {
            return owner;
        }
        accounts.full_at = Some(now);
        QuotaOwner::Others
    }
}

pub fn limit_error(refusal: LimitExceeded) -> ApiError {
    service::Error::from(refusal).into()
}

impl Account {
    fn refill(&mut self, rate: Rate, now: Instant) {
        let passed_s = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed_s * rate.per_second).min(f64::from(rate.burst));
        self.at = now;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let Some(owner) = self.owner.take() else { return };
        if let Some(account) = self.traffic.accounts.lock().by_owner.get_mut(&owner) {
            account.running = account.running.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(rate: Option<Rate>, caller_requests_max: Option<usize>) -> Arc<TrafficLimits> {
        TrafficLimits::new(&Settings { rate, caller_requests_max, ..Settings::default() })
    }

    fn address(text: &str) -> QuotaOwner {
        QuotaOwner::for_address(Some(text.parse().unwrap()))
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let traffic = traffic(Some(Rate { per_second: 0.5, burst: 3 }), None);
        let start = Instant::now();
        let admit_after = |seconds: f64| traffic.admit_at(address("10.0.0.1"), start + Duration::from_secs_f64(seconds)).err();
        assert!((0..3).all(|_| admit_after(0.0).is_none()));
        let refused = admit_after(0.0).unwrap();
        assert_eq!((refused.code, refused.retry_after_s), (Code::RateLimited, Some(2)));
        assert_eq!(admit_after(1.0).unwrap().retry_after_s, Some(1));
        assert!(admit_after(2.0).is_none());
        assert!(admit_after(2.1).is_some());
        assert!(
            (0..3).all(|_| admit_after(1_000.0).is_none()) && admit_after(1_000.0).is_some(),
            "a bucket holds its burst, not more"
        );
        assert!(traffic.admit_at(address("10.0.0.2"), start).is_ok(), "another caller has its own bucket");
    }

    #[test]
    fn a_finished_request_frees_its_slot_for_the_caller() {
        let traffic = traffic(None, Some(2));
        let (one, two) = (traffic.admit(QuotaOwner::Operator).unwrap(), traffic.admit(QuotaOwner::Operator).unwrap());
        assert_eq!(traffic.admit(QuotaOwner::Operator).err().unwrap().code, Code::RateLimited);
        drop(one);
        assert!(traffic.admit(QuotaOwner::Operator).is_ok());
        drop(two);
    }

    #[test]
    fn callers_beyond_the_account_limit_share_one_account() {
        let traffic = traffic(Some(Rate { per_second: 1.0, burst: 1 }), None);
        let start = Instant::now();
        let nth = |number: u32| QuotaOwner::Address(IpAddr::from(number.to_be_bytes()));
        for number in 0..ACCOUNTS_MAX as u32 {
            drop(traffic.admit_at(nth(number), start));
        }
        drop(traffic.admit_at(nth(u32::MAX), start).unwrap());
        assert!(
            traffic.accounts.lock().by_owner.contains_key(&QuotaOwner::Others),
            "no account is free, so further callers share one"
        );
        let soon = start + Duration::from_millis(100);
        assert!(
            traffic.admit_at(nth(u32::MAX), soon).is_err(),
            "the shared account is exhausted, and full accounts are not evicted again this soon"
        );
        drop(traffic.admit_at(nth(u32::MAX), start + Duration::from_secs(5)).unwrap());
        assert!(traffic.accounts.lock().by_owner.len() == 1, "full accounts are evicted");
    }
}
