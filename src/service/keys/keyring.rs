//! The server's keys in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

use crate::domain::{Key, KeyId};
use crate::storage::CatalogStorage;
use crate::store::{StoreError, StoredKey};

pub(crate) type Sha = [u8; 32];

pub(crate) struct Keyring {
    /// With the hashes of their secrets.
    pub(super) keys: RwLock<BTreeMap<KeyId, (Arc<Key>, Sha)>>,
    /// Hash of the admin key from the configuration. It is not stored anywhere.
    pub(crate) operator: OnceLock<Sha>,
    /// Held while a key is created or revoked, so that the catalog and `keys` change together.
    pub(crate) changing: Arc<tokio::sync::Mutex<()>>,
}

impl Keyring {
    pub(crate) fn load(catalog: &dyn CatalogStorage) -> Result<Self, StoreError> {
        let keyring = Self { keys: RwLock::default(), operator: OnceLock::new(), changing: Arc::default() };
        keyring.reload(catalog)?;
        Ok(keyring)
    }

    pub(crate) fn reload(&self, catalog: &dyn CatalogStorage) -> Result<(), StoreError> {
        let keys =
            catalog.keys()?.into_iter().map(|StoredKey { key, secret_sha256 }| (key.id.clone(), (Arc::new(key), secret_sha256)));
        *self.keys.write() = keys.collect();
        Ok(())
    }
}
