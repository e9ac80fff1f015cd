//! The open connections: a bounded number, of which idle ones give way.
//!
//! A connection works from the head of a request until its response is handed over; otherwise it is idle. When few places are
//! free, one of those that have been idle the longest is closed, of the address with the most connections: whoever opens
//! thousands pays with their own. One whose next request has arrived meanwhile stays, and the next one is asked. A place is free
//! once the socket is closed, so the bound holds for files too. Some places are cleared ahead of need, so a new connection does
//! not wait until another one is closed. Requests have limits of their own below this one, so there is always one that is idle.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::http::settings::ConnectionMeter;

/// Number of idle connections to choose from: any caller may make the server choose.
const LOOKED_AT: usize = 64;
/// Places to keep free for new connections: at most this many, and at most this share of all.
const FREE_MAX: usize = 64;
const FREE_SHARE: usize = 16;

/// All connections.
pub(super) struct Connections {
    max: usize,
    /// Places to keep free by closing idle connections ahead of need.
    free: usize,
    meter: ConnectionMeter,
    open: Mutex<Open>,
    /// Notified when a place may have become free.
    changed: Notify,
}

#[derive(Default)]
struct Open {
    /// The last number assigned: to a connection, and to the moment when one became idle.
    last: u64,
    by_id: HashMap<u64, Entry>,
    /// The idle ones, by when they became idle.
    idle: BTreeMap<u64, u64>,
    by_address: HashMap<IpAddr, usize>,
    /// Connections that were told to give way and are not closed yet.
    giving_way: usize,
}

struct Entry {
    address: IpAddr,
    /// Unanswered requests.
    working: usize,
    /// Its key among the idle ones.
    idle_since: u64,
    gives_way: bool,
    close: Arc<Notify>,
}

/// The place of one connection; dropping it makes room.
pub(super) struct Place {
    connections: Arc<Connections>,
    close: Arc<Notify>,
    id: u64,
}

/// An unanswered request.
pub(super) struct Working {
    connections: Arc<Connections>,
    id: u64,
}

impl Connections {
    pub(super) fn new(max: usize, meter: ConnectionMeter) -> Arc<Self> {
        meter.limit.store(max as u64, Ordering::Relaxed);
        let free = FREE_MAX.min(max / FREE_SHARE);
        Arc::new(Self { max, free, meter, open: Mutex::default(), changed: Notify::new() })
    }

    /// A place for one more connection of `address`. Waits while none is free: all open ones work, or one that gives way is still
    /// being closed.
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
        let mut open = self.open.lock();
        while open.by_id.len() + 1 + self.free > self.max + open.giving_way && open.ask_to_give_way() {
            self.meter.gave_way.fetch_add(1, Ordering::Relaxed);
        }
        if open.by_id.len() >= self.max {
            return None;
        }
        let (id, close) = (open.next(), Arc::new(Notify::new()));
        let entry = Entry { address, working: 0, idle_since: id, gives_way: false, close: Arc::clone(&close) };
        open.by_id.insert(id, entry);
        open.idle.insert(id, id);
        *open.by_address.entry(address).or_default() += 1;
        self.meter.open.store(open.by_id.len() as u64, Ordering::Relaxed);
        Some(Place { connections: Arc::clone(self), close, id })
    }
}

impl Open {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Of the connections that have been idle the longest, the first one of the address with the most connections.
    fn victim(&self) -> Option<u64> {
        let oldest = self.idle.values().take(LOOKED_AT).enumerate();
        let count = |id: &u64| self.by_id.get(id).and_then(|entry| self.by_address.get(&entry.address)).copied();
        oldest.max_by_key(|&(place, id)| (count(id), Reverse(place))).map(|(_, id)| *id)
    }

    /// Tells an idle connection to close; returns whether there is one.
    fn ask_to_give_way(&mut self) -> bool {
        let Some(entry) = self.victim().and_then(|victim| self.by_id.get_mut(&victim)) else { return false };
        entry.gives_way = true;
        entry.close.notify_one();
        let since = entry.idle_since;
        self.idle.remove(&since);
        self.giving_way += 1;
        true
    }

    fn remove(&mut self, id: u64) {
        let Some(entry) = self.by_id.remove(&id) else { return };
        self.idle.remove(&entry.idle_since);
        self.giving_way -= usize::from(entry.gives_way);
        if let Some(count) = self.by_address.get_mut(&entry.address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&entry.address);
            }
        }
    }
}

impl Place {
    /// Waits until another connection needs the place; `must_go` says whether it gets it.
    pub(super) async fn given_away(&self) {
        self.close.notified().await;
    }

    /// Whether the connection is still idle, so that another one gets its place. It is not if a request has arrived since it was
    /// chosen, even if it is `unread`: nobody who sent one is cut off without a response.
    pub(super) fn must_go(&self, unread: bool) -> bool {
        let mut open = self.connections.open.lock();
        let now = open.next();
        let Some(entry) = open.by_id.get_mut(&self.id) else { return true };
        if entry.working == 0 && !unread {
            return true;
        }
        entry.gives_way = false;
        if entry.working == 0 {
            entry.idle_since = now;
            open.idle.insert(now, self.id);
        }
        open.giving_way -= 1;
        drop(open);
        self.connections.changed.notify_one();
        false
    }

    /// A request has arrived.
    pub(super) fn work(&self) -> Working {
        Working::begin(&self.connections, self.id)
    }

    /// The same for what does not hold the place.
    pub(super) fn worker(&self) -> impl Fn() -> Working + use<> {
        let (connections, id) = (Arc::clone(&self.connections), self.id);
        move || Working::begin(&connections, id)
    }
}

impl Working {
    fn begin(connections: &Arc<Connections>, id: u64) -> Self {
        let mut open = connections.open.lock();
        if let Some(entry) = open.by_id.get_mut(&id) {
            entry.working += 1;
            let since = entry.idle_since;
            open.idle.remove(&since);
        }
        Self { connections: Arc::clone(connections), id }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.remove(self.id);
        self.connections.meter.open.store(open.by_id.len() as u64, Ordering::Relaxed);
        drop(open);
        self.connections.changed.notify_one();
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        let now = open.next();
        if let Some(entry) = open.by_id.get_mut(&self.id) {
            entry.working = entry.working.saturating_sub(1);
            if entry.working == 0 && !entry.gives_way {
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

    fn is_closed(place: &Place) -> bool {
        place.given_away().now_or_never().is_some()
    }

    #[test]
    fn the_longest_idle_connection_of_the_greediest_address_gives_way() {
        let connections = Connections::new(4, ConnectionMeter::default());
        let enter = |last| connections.try_enter(address(last)).unwrap();
        let honest = enter(1);
        let greedy = [enter(2), enter(2), enter(2)];
        assert!(connections.try_enter(address(3)).is_none(), "the place is not free yet");
        assert!(is_closed(&greedy[0]) && !is_closed(&greedy[1]) && !is_closed(&honest));
        assert!(connections.try_enter(address(3)).is_none() && !is_closed(&greedy[1]), "one gives way to one");
        let [first, _second, _third] = greedy;
        drop(first);
        let _next = enter(3);
        assert_eq!(connections.meter.gave_way.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn places_are_cleared_before_the_last_one_is_taken() {
        let connections = Connections::new(32, ConnectionMeter::default());
        let enter = || connections.try_enter(address(1)).unwrap();
        let mut open: Vec<Place> = (0..30).map(|_| enter()).collect();
        assert!(!open.iter().any(is_closed), "two places are free");
        open.extend([enter(), enter()]);
        assert!(is_closed(&open[0]) && is_closed(&open[1]) && !is_closed(&open[2]), "the next two come in without waiting");
        assert!(connections.try_enter(address(1)).is_none(), "never more than the bound");
    }

    #[test]
    fn a_connection_that_works_keeps_its_place() {
        let connections = Connections::new(2, ConnectionMeter::default());
        let (one, two) = (connections.try_enter(address(1)).unwrap(), connections.try_enter(address(1)).unwrap());
        let (working, busy) = (one.work(), two.work());
        assert!(connections.try_enter(address(2)).is_none(), "all work");
        drop(working);
        assert!(connections.try_enter(address(2)).is_none());
        assert!(is_closed(&one) && !is_closed(&two));
        drop(one);
        assert!(connections.try_enter(address(2)).is_some());
        drop((busy, two));
        assert_eq!(connections.meter.open.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_connection_whose_request_has_come_stays_and_the_next_one_is_asked() {
        let connections = Connections::new(2, ConnectionMeter::default());
        let (one, two) = (connections.try_enter(address(1)).unwrap(), connections.try_enter(address(1)).unwrap());
        assert!(connections.try_enter(address(2)).is_none() && is_closed(&one));
        assert!(!one.must_go(true), "its request is unread");
        assert!(connections.try_enter(address(2)).is_none() && is_closed(&two) && !is_closed(&one));
        let working = two.work();
        assert!(!two.must_go(false), "its request is being answered");
        drop(working);
        assert!(connections.try_enter(address(2)).is_none() && is_closed(&one));
        assert!(one.must_go(false));
        drop(one);
        assert!(connections.try_enter(address(2)).is_some());
        drop(two);
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
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(is_closed(&first));
        drop(first);
        waits.await;
    }
}
