//! Passes the caller of a request from the auth middleware, which identifies it, to the log line.

use std::sync::{Arc, OnceLock};

use crate::domain::Caller;

/// Travels in the extensions of a request; clones share what is recorded.
#[derive(Debug, Clone, Default)]
pub struct CallerRecord(Arc<OnceLock<Caller>>);

impl CallerRecord {
    pub fn set(&self, caller: &Caller) {
        let _ = self.0.set(caller.clone());
    }

    /// `anyone`, `operator` or `key`; `None` before the caller is known.
    pub fn kind(&self) -> Option<&'static str> {
        self.0.get().map(|caller| match caller {
            Caller::Anyone => "anyone",
            Caller::Operator => "operator",
            Caller::Holder(_) => "key",
        })
    }

    pub fn key(&self) -> Option<&str> {
        Some(self.0.get()?.key()?.id.as_str())
    }
}
