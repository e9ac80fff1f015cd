//! Tracks which version of a shared catalog this server has in memory. `catalog_sync` brings the memory up to date.

use std::sync::atomic::AtomicI64;
use std::time::Instant;

use parking_lot::Mutex;

use crate::storage::CatalogPart;
use crate::store::StoreError;

/// The versions of the catalog that this server has in memory.
#[derive(Default)]
pub(super) struct CatalogSyncState {
    /// The last check of the catalog. One of several concurrent requests checks on behalf of all.
    pub(super) last_check: tokio::sync::Mutex<Option<CatalogCheck>>,
    pub(super) parts: [PartSyncState; CatalogPart::ALL.len()],
}

pub(super) struct CatalogCheck {
    pub(super) begun: Instant,
    pub(super) failure: Option<StoreError>,
}

/// The version of one part of the catalog in memory.
#[derive(Default)]
pub(super) struct PartSyncState {
    /// The version that is in memory.
    pub(super) version: AtomicI64,
    /// Held while the memory changes, and during changes that this server makes to the catalog, so that an older state of the
    /// catalog never replaces a newer one in memory.
    pub(super) applying: Mutex<()>,
}
