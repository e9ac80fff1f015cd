//! How far this server has followed a catalog that several share; `following` has it follow.

use std::sync::atomic::AtomicI64;
use std::time::Instant;

use parking_lot::Mutex;

use crate::storage::CatalogPart;
use crate::store::StoreError;

/// How far the memory of this server has followed the catalog.
#[derive(Default)]
pub(super) struct Following {
    /// Of concurrent requests one looks at the catalog for all.
    pub(super) looked: tokio::sync::Mutex<Option<Look>>,
    pub(super) parts: [Followed; CatalogPart::ALL.len()],
}

/// A look at the catalog.
pub(super) struct Look {
    pub(super) begun: Instant,
    pub(super) failure: Option<StoreError>,
}

/// How far a part has followed.
#[derive(Default)]
pub(super) struct Followed {
    /// What the memory has.
    pub(super) version: AtomicI64,
    /// Held while the memory changes, together with the catalog where this server changes that: an older state of the catalog never
    /// replaces a newer one.
    pub(super) applying: Mutex<()>,
}
