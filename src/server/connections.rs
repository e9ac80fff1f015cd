//! The connections that are open: a bounded number, of which the idle ones give way.
//!
//! A connection works from the head of a request until its answer is handed on; before, between and after it is idle. When there
//! is no place for one more, the connection that was idle for the longest is closed, of the address that has most of them: whoever opens
//! thousands pays with his own. Requests have bounds of their own below this one, so there is always one that is idle.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use crate::http::settings::ConnectionMeter;

/// All connections.
pub(super) struct Connections {
    max: usize,
    meter: ConnectionMeter,
    open: Mutex<Open>,
    /// Told when a place may have become free.
    changed: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    by_id: HashMap<u64, Arc<Entry>>,
}

struct Entry {
    address: IpAddr,
    state: Mutex<State>,
    close: Notify,
}

struct State {
    /// Requests that are not answered yet.
    working: usize,
    idle_since: Instant,
}

/// The place of one connection; dropping it makes room.
pub(super) struct Place {
    connections: Arc<Connections>,
    entry: Arc<Entry>,
    id: u64,
}

/// A request that is not answered yet.
pub(super) struct Working {
    connections: Arc<Connections>,
    entry: Arc<Entry>,
}

impl Connections {
    pub(super) fn new(max: usize, meter: ConnectionMeter) -> Arc<Self> {
        meter.limit.store(max as u64, Ordering::Relaxed);
        Arc::new(Self { max, meter, open: Mutex::default(), changed: Notify::new() })
    }

    /// A place for one more connection of `address`. Waits while all that are open work.
    pub(super) async fn enter(self: &Arc<Self>, address: IpAddr) -> Place {
        loop {
            let changed = self.changed.notified();
            if let Some(place) = self.try_enter(address) {
                return place;
            }
            changed.await;
        }
    }

    fn try_enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut open = lock(&self.open);
        if open.by_id.len() >= self.max {
            let id = open.longest_idle()?;
            let entry = open.by_id.remove(&id)?;
            entry.close.notify_one();
            self.meter.gave_way.fetch_add(1, Ordering::Relaxed);
        }
        let id = open.next;
        open.next += 1;
        let state = Mutex::new(State { working: 0, idle_since: Instant::now() });
        let entry = Arc::new(Entry { address, state, close: Notify::new() });
        open.by_id.insert(id, Arc::clone(&entry));
        self.meter.open.store(open.by_id.len() as u64, Ordering::Relaxed);
        Some(Place { connections: Arc::clone(self), entry, id })
    }
}

impl Open {
    /// The connection that was idle for the longest, of the address that has most idle ones.
    fn longest_idle(&self) -> Option<u64> {
        let mut by_address: HashMap<IpAddr, (usize, Instant, u64)> = HashMap::new();
        for (id, entry) in &self.by_id {
            let state = lock(&entry.state);
            if state.working > 0 {
                continue;
            }
            let (count, since, longest) = by_address.entry(entry.address).or_insert((0, state.idle_since, *id));
            *count += 1;
            if state.idle_since < *since {
                (*since, *longest) = (state.idle_since, *id);
            }
        }
        by_address.into_values().max_by_key(|(count, since, _)| (*count, std::cmp::Reverse(*since))).map(|(_, _, id)| id)
    }
}

impl Place {
    /// Waits until another connection needs the place.
    pub(super) async fn given_away(&self) {
        self.entry.close.notified().await;
    }

    /// A request has come.
    pub(super) fn work(&self) -> Working {
        lock(&self.entry.state).working += 1;
        Working { connections: Arc::clone(&self.connections), entry: Arc::clone(&self.entry) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = lock(&self.connections.open);
        open.by_id.remove(&self.id);
        self.connections.meter.open.store(open.by_id.len() as u64, Ordering::Relaxed);
        drop(open);
        self.connections.changed.notify_one();
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut state = lock(&self.entry.state);
        state.working = state.working.saturating_sub(1);
        state.idle_since = Instant::now();
        drop(state);
        self.connections.changed.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn is_closed(place: &Place) -> bool {
        place.given_away().now_or_never().is_some()
    }

    #[test]
    fn the_longest_idle_connection_of_the_greediest_address_gives_way() {
        let connections = Connections::new(4, ConnectionMeter::default());
        let enter = |last| connections.try_enter(address(last)).unwrap();
        let honest = enter(1);
        let greedy = [enter(2), enter(2), enter(2)];
        let next = enter(3);
        assert!(is_closed(&greedy[0]) && !is_closed(&greedy[1]) && !is_closed(&honest) && !is_closed(&next));
        assert_eq!(connections.meter.gave_way.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_connection_that_works_keeps_its_place() {
        let connections = Connections::new(2, ConnectionMeter::default());
        let (one, two) = (connections.try_enter(address(1)).unwrap(), connections.try_enter(address(1)).unwrap());
        let (working, busy) = (one.work(), two.work());
        assert!(connections.try_enter(address(2)).is_none(), "all work");
        drop(working);
        assert!(connections.try_enter(address(2)).is_some());
        assert!(is_closed(&one) && !is_closed(&two));
        drop((busy, one, two));
        assert_eq!(connections.meter.open.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn who_finds_no_place_waits_for_one() {
        let connections = Connections::new(1, ConnectionMeter::default());
        let first = connections.enter(address(1)).await;
        let working = first.work();
        let waits = connections.enter(address(2));
        let mut waits = std::pin::pin!(waits);
        assert!(waits.as_mut().now_or_never().is_none());
        drop(working);
        waits.await;
        assert!(is_closed(&first));
    }
}
