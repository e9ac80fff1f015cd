//! Tracks how much of a shared catalog this server has in memory. `following` brings the memory up to date.

use std::sync::atomic::AtomicI64;
use std::time::Instant;

use parking_lot::Mutex;

use crate::storage::CatalogPart;
use crate::store::StoreError;

/// How up to date the memory of this server is with the catalog.
#[derive(Default)]
pub(super) struct Following {
    /// The last look at the catalog. Among concurrent requests, one looks on behalf of all.
    pub(super) looked: tokio::sync::Mutex<Option<Look>>,
    pub(super) parts: [Followed; CatalogPart::ALL.len()],
}

/// A look at the catalog.
pub(super) struct Look {
    pub(super) begun: Instant,
    pub(super) failure: Option<StoreError>,
}

/// How up to date one part of the memory is.
#[derive(Default)]
pub(super) struct Followed {
    /// The version that the memory has.
    pub(super) version: AtomicI64,
    /// Held while the memory changes, and during changes that this server makes to the catalog, so that an older state of the
    /// catalog never replaces a newer one in memory.
    pub(super) applying: Mutex<()>,
}
