//! Makes the ids that the server generates.

use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::{ContextV7, Timestamp, Uuid};

/// The earliest time in an id. At 0, uuid would not begin its counter with a random number.
const TIME_MIN: Duration = Duration::from_millis(1);

/// Orders the ids of this process.
static ORDER: Mutex<ContextV7> = Mutex::new(ContextV7::new());

/// Makes a UUIDv7 that is greater than those before it. `Uuid::now_v7` would panic while the clock shows a time before 1970.
pub(crate) fn new_uuid() -> Uuid {
    uuid_at(SystemTime::now())
}

fn uuid_at(time: SystemTime) -> Uuid {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default().max(TIME_MIN);
    Uuid::new_v7(Timestamp::from_unix(&ORDER, since_epoch.as_secs(), since_epoch.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_can_be_made_before_1970_and_is_greater_than_those_before_it() {
        let ids = [UNIX_EPOCH + Duration::from_secs(1), UNIX_EPOCH - Duration::from_secs(86_400), UNIX_EPOCH].map(uuid_at);
        assert!(ids.is_sorted() && ids.iter().all(|id| id.get_version_num() == 7), "{ids:?}");
    }
}
