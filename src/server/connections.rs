//! Limits the number of open connections by closing idle ones.
//!
//! A connection is busy from the head of a request until its response is handed over; otherwise it is idle. When few slots
//! are free, one of the connections that have been idle the longest is closed: the one whose address has the most
//! connections, so a client that opens thousands loses its own. If its next request has arrived in the meantime, it stays,
//! and another one is chosen. A slot is free once the socket is closed, so the limit also bounds open files. Some slots are
//! freed in advance, so a new connection does not wait until another one is closed. The limits on requests are lower than
//! this one, so some connection is always idle.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::http::settings::ConnectionMeter;

/// Number of idle connections to choose from. It is bounded because any caller can trigger the choice.
const EVICTION_CANDIDATES_MAX: usize = 64;
/// Slots to keep free for new connections: at most this many, and at most this fraction of all.
const FREE_MAX: usize = 64;
const FREE_SHARE: usize = 16;

pub(super) struct Connections {
    max: usize,
    /// Slots to keep free by closing idle connections in advance.
    free: usize,
    meter: ConnectionMeter,
    open: Mutex<Open>,
    /// Notified when a slot may have become free.
    changed: Notify,
}

#[derive(Default)]
struct Open {
    /// The last number assigned to a connection, or to the moment when one became idle.
    last: u64,
    by_id: HashMap<u64, Entry>,
    /// The idle connections, by when they became idle.
    idle: BTreeMap<u64, u64>,
    by_address: HashMap<IpAddr, usize>,
    /// Connections that were told to close and are still open.
    close_pending: usize,
}

struct Entry {
    address: IpAddr,
    /// Unanswered requests.
    working: usize,
    /// Its key in `idle`.
    idle_since: u64,
    close_requested: bool,
    close: Arc<Notify>,
}

/// The slot of one connection; dropping it frees the slot.
pub(super) struct ConnectionSlot {
    connections: Arc<Connections>,
    close: Arc<Notify>,
    id: u64,
}

/// An unanswered request.
pub(super) struct ActiveRequest {
    connections: Arc<Connections>,
    id: u64,
}

impl Connections {
    pub(super) fn new(max: usize, meter: ConnectionMeter) -> Arc<Self> {
        meter.limit.store(max as u64, Ordering::Relaxed);
        let free = FREE_MAX.min(max / FREE_SHARE);
        Arc::new(Self { max, free, meter, open: Mutex::default(), changed: Notify::new() })
    }

    /// A slot for a new connection of `address`. Waits while none is free, because every open connection is busy or still
    /// closing.
    pub(super) async fn enter(self: &Arc<Self>, address: IpAddr) -> ConnectionSlot {
        loop {
            let changed = self.changed.notified();
            if let Some(slot) = self.try_enter(address) {
                return slot;
            }
            changed.await;
        }
    }

    fn try_enter(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        let mut open = self.open.lock();
        while open.by_id.len() + 1 + self.free > self.max + open.close_pending && open.request_close() {
            self.meter.evicted.fetch_add(1, Ordering::Relaxed);
        }
        if open.by_id.len() >= self.max {
            return None;
        }
        let (id, close) = (open.next(), Arc::new(Notify::new()));
        let entry = Entry { address, working: 0, idle_since: id, close_requested: false, close: Arc::clone(&close) };
        open.by_id.insert(id, entry);
        open.idle.insert(id, id);
        *open.by_address.entry(address).or_default() += 1;
        self.meter.open.store(open.by_id.len() as u64, Ordering::Relaxed);
        Some(ConnectionSlot { connections: Arc::clone(self), close, id })
    }
}

impl Open {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Of the connections that have been idle the longest, the first one of the address with the most connections.
    fn victim(&self) -> Option<u64> {
        let oldest = self.idle.values().take(EVICTION_CANDIDATES_MAX).enumerate();
        let count = |id: &u64| self.by_id.get(id).and_then(|entry| self.by_address.get(&entry.address)).copied();
        oldest.max_by_key(|&(order, id)| (count(id), Reverse(order))).map(|(_, id)| *id)
    }

    /// Tells an idle connection to close; returns whether there was one.
    fn request_close(&mut self) -> bool {
        let Some(entry) = self.victim().and_then(|victim| self.by_id.get_mut(&victim)) else { return false };
        entry.close_requested = true;
        entry.close.notify_one();
        let since = entry.idle_since;
        self.idle.remove(&since);
        self.close_pending += 1;
        true
    }

    fn remove(&mut self, id: u64) {
        let Some(entry) = self.by_id.remove(&id) else { return };
        self.idle.remove(&entry.idle_since);
        self.close_pending -= usize::from(entry.close_requested);
        if let Some(count) = self.by_address.get_mut(&entry.address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&entry.address);
            }
        }
    }
}

impl ConnectionSlot {
    /// Waits until another connection needs the slot; `must_close` decides whether to give it up.
    pub(super) async fn wait_for_close_request(&self) {
        self.close.notified().await;
    }

    /// Whether the connection is still idle and gives its slot to another one. It is not if a request has arrived since it was
    /// chosen, even an `unread` one: no client that has sent a request is cut off without a response.
    pub(super) fn must_close(&self, unread: bool) -> bool {
        let mut open = self.connections.open.lock();
        let now = open.next();
        let Some(entry) = open.by_id.get_mut(&self.id) else { return true };
        if entry.working == 0 && !unread {
            return true;
        }
        entry.close_requested = false;
        if entry.working == 0 {
            entry.idle_since = now;
            open.idle.insert(now, self.id);
        }
        open.close_pending -= 1;
        drop(open);
        self.connections.changed.notify_one();
        false
    }

    /// Returns a function that marks the connection as busy with a request that has arrived.
    pub(super) fn request_starter(&self) -> impl Fn() -> ActiveRequest + use<> {
        let (connections, id) = (Arc::clone(&self.connections), self.id);
        move || {
            let mut open = connections.open.lock();
            if let Some(entry) = open.by_id.get_mut(&id) {
                entry.working += 1;
                let since = entry.idle_since;
                open.idle.remove(&since);
            }
            ActiveRequest { connections: Arc::clone(&connections), id }
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.remove(self.id);
        self.connections.meter.open.store(open.by_id.len() as u64, Ordering::Relaxed);
        drop(open);
        self.connections.changed.notify_one();
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        let now = open.next();
        if let Some(entry) = open.by_id.get_mut(&self.id) {
            entry.working = entry.working.saturating_sub(1);
            if entry.working == 0 && !entry.close_requested {
                entry.idle_since = now;
                open.idle.insert(now, self.id);
            }
        }
        drop(open);
        self.connections.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn is_asked_to_close(slot: &ConnectionSlot) -> bool {
        slot.wait_for_close_request().now_or_never().is_some()
    }

    #[test]
    fn the_address_with_the_most_connections_loses_its_longest_idle_one() {
        let connections = Connections::new(4, ConnectionMeter::default());
        let enter = |last| connections.try_enter(address(last)).unwrap();
        let honest = enter(1);
        let greedy = [enter(2), enter(2), enter(2)];
        assert!(connections.try_enter(address(3)).is_none(), "the idle connection has not closed yet");
        assert!(is_asked_to_close(&greedy[0]) && !is_asked_to_close(&greedy[1]) && !is_asked_to_close(&honest));
        assert!(
            connections.try_enter(address(3)).is_none() && !is_asked_to_close(&greedy[1]),
            "only one idle connection is asked to close at a time"
        );
        let [first, _second, _third] = greedy;
        drop(first);
        let _next = enter(3);
        assert_eq!(connections.meter.evicted.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn idle_connections_are_closed_before_slots_run_out() {
        let connections = Connections::new(32, ConnectionMeter::default());
        let enter = || connections.try_enter(address(1)).unwrap();
        let mut open: Vec<ConnectionSlot> = (0..30).map(|_| enter()).collect();
        assert!(!open.iter().any(is_asked_to_close), "two slots are still free");
        open.extend([enter(), enter()]);
        assert!(
            is_asked_to_close(&open[0]) && is_asked_to_close(&open[1]) && !is_asked_to_close(&open[2]),
            "two are asked to close, so that the next two callers need not wait"
        );
        assert!(connections.try_enter(address(1)).is_none(), "there are never more connections than the maximum");
    }

    #[test]
    fn a_busy_connection_keeps_its_slot() {
        let connections = Connections::new(2, ConnectionMeter::default());
        let (one, two) = (connections.try_enter(address(1)).unwrap(), connections.try_enter(address(1)).unwrap());
        let (working, busy) = (one.request_starter()(), two.request_starter()());
        assert!(connections.try_enter(address(2)).is_none(), "all connections are busy");
        drop(working);
        assert!(connections.try_enter(address(2)).is_none());
        assert!(is_asked_to_close(&one) && !is_asked_to_close(&two));
        drop(one);
        assert!(connections.try_enter(address(2)).is_some());
        drop((busy, two));
        assert_eq!(connections.meter.open.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_connection_with_a_new_request_stays_open_and_another_must_close() {
        let connections = Connections::new(2, ConnectionMeter::default());
        let (one, two) = (connections.try_enter(address(1)).unwrap(), connections.try_enter(address(1)).unwrap());
        assert!(connections.try_enter(address(2)).is_none() && is_asked_to_close(&one));
        assert!(!one.must_close(true), "it has a request that has not been read");
        assert!(connections.try_enter(address(2)).is_none() && is_asked_to_close(&two) && !is_asked_to_close(&one));
        let working = two.request_starter()();
        assert!(!two.must_close(false), "its request is being answered");
        drop(working);
        assert!(connections.try_enter(address(2)).is_none() && is_asked_to_close(&one));
        assert!(one.must_close(false));
        drop(one);
        assert!(connections.try_enter(address(2)).is_some());
        drop(two);
    }

    #[tokio::test]
    async fn a_connection_without_a_slot_waits_for_one() {
        let connections = Connections::new(1, ConnectionMeter::default());
        let first = connections.enter(address(1)).await;
        let working = first.request_starter()();
        let waits = connections.enter(address(2));
        let mut waits = std::pin::pin!(waits);
        assert!(waits.as_mut().now_or_never().is_none());
        drop(working);
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(is_asked_to_close(&first));
        drop(first);
        waits.await;
    }
}
