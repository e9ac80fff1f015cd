//! Makes the ids that the server generates.

use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::{ClockSequence, ContextV7, NoContext, Timestamp, Uuid};

/// The earliest time in an id. With 0, uuid would not start its counter at a random number.
const TIME_MIN: Duration = Duration::from_millis(1);

/// Orders the ids of this process.
static ORDER: Mutex<ContextV7> = Mutex::new(ContextV7::new());

/// Makes a UUIDv7 that is greater than those before it. `Uuid::now_v7` would panic while the clock shows a time before 1970.
pub(crate) fn new_uuid() -> Uuid {
    uuid_ordered_by(&ORDER, SystemTime::now())
}

/// Makes a UUIDv7 with the clock's time, even if that is earlier than the time in those before it.
pub(crate) fn new_dated_uuid() -> Uuid {
    uuid_ordered_by(NoContext, SystemTime::now())
}

fn uuid_ordered_by(order: impl ClockSequence<Output = impl Into<u128>>, time: SystemTime) -> Uuid {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default().max(TIME_MIN);
    Uuid::new_v7(Timestamp::from_unix(order, since_epoch.as_secs(), since_epoch.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_can_be_made_before_1970_and_is_greater_than_those_before_it() {
        let times = [UNIX_EPOCH + Duration::from_secs(1), UNIX_EPOCH - Duration::from_secs(86_400), UNIX_EPOCH];
        let ids = times.map(|time| uuid_ordered_by(&ORDER, time));
        assert!(ids.is_sorted() && ids.iter().all(|id| id.get_version_num() == 7), "{ids:?}");
    }

    #[test]
    fn a_dated_id_has_the_time_of_a_clock_that_was_set_back() {
        let clock_s = [2_000, 1_000];
        let id_at = |s| uuid_ordered_by(NoContext, UNIX_EPOCH + Duration::from_secs(s));
        let ids = clock_s.map(id_at);
        assert_eq!(ids.map(|id| id.get_timestamp().unwrap().to_unix().0), clock_s);
        assert_ne!(ids[0], id_at(clock_s[0]));
    }
}
