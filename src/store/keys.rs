//! The keys of the catalog: what they may do, and the hash of each secret.

use super::StoreError;
use super::catalog_session::{CatalogSession, Columns, catalog_json, values};
use super::catalog_storage::{CatalogPart, CatalogStorage, Within};
use crate::domain::{CollectionName, Key, KeyId, Scope};

/// A key with the SHA-256 of its secret.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredKey {
    pub key: Key,
    /// SHA-256 of the whole secret as it is sent.
    pub secret_sha256: [u8; 32],
}

impl dyn CatalogStorage {
    pub fn add_key(&self, stored: &StoredKey) -> Result<(), StoreError> {
        self.run_in(Within::ChangeOf(CatalogPart::Keys), "adding a key", |session| insert(session, stored))
    }

    /// Returns all keys, sorted by id.
    pub fn keys(&self) -> Result<Vec<StoredKey>, StoreError> {
        let sql = "select key, id, name, secret_sha256, scope, collections, created_at_ms, expires_at_ms from dragoman.api_keys
                   order by id";
        self.run_in(Within::Statements, "reading keys", |session| session.rows(sql, &[], read_key))
    }

    /// Removes a key. Returns whether it existed.
    pub fn remove_key(&self, id: &KeyId) -> Result<bool, StoreError> {
        let sql = "delete from dragoman.api_keys where id = $1";
        self.run_in(Within::ChangeOf(CatalogPart::Keys), "removing a key", |session| {
            Ok(session.execute(sql, values![id.as_str()])? > 0)
        })
    }
}

pub(super) fn insert(session: &mut dyn CatalogSession, stored: &StoredKey) -> Result<(), StoreError> {
    let sql = "insert into dragoman.api_keys (id, name, secret_sha256, scope, collections, created_at_ms, expires_at_ms)
               values ($1, $2, $3, $4, $5, $6, $7)";
    let key = &stored.key;
    let values = values![
        key.id.as_str(),
        key.name.as_str(),
        stored.secret_sha256.as_slice(),
        key.scope.name(),
        key.collections.as_deref().map(names_json),
        key.created_at_ms,
        key.expires_at_ms,
    ];
    session.execute(sql, values).map(drop)
}

pub(super) fn names_json(names: &[CollectionName]) -> String {
    catalog_json(&names.iter().map(CollectionName::as_str).collect::<Vec<_>>())
}

/// Reads a key from the columns number, id, name, hash, scope, collections, creation and expiry.
fn read_key(row: &dyn Columns) -> Result<StoredKey, StoreError> {
    let number = row.integer(0)?;
    let corrupt = |problem| StoreError::CorruptRow { table: "api_keys", row: number, problem };
    let (id, scope) = (row.text(1)?, row.text(4)?);
    let collections = match row.optional_text(5)? {
        None => None,
        Some(json) => {
            let names: Vec<String> = serde_json::from_str(&json).map_err(|_| corrupt("its collections are not a list"))?;
            let names = names.iter().map(|name| CollectionName::parse(name)).collect::<Result<_, _>>();
            Some(names.map_err(|_| corrupt("the name of one of its collections is not valid"))?)
        }
    };
    let key = Key {
        id: KeyId::parse(&id).map_err(|_| corrupt("its id is not valid"))?,
        name: row.text(2)?,
        scope: Scope::parse(&scope).ok_or_else(|| corrupt("its scope is unknown"))?,
        collections,
        created_at_ms: row.integer(6)?,
        expires_at_ms: row.optional_integer(7)?,
    };
    let hash: Result<[u8; 32], _> = row.optional_bytes(3)?.unwrap_or_default().try_into();
    Ok(StoredKey { key, secret_sha256: hash.map_err(|_| corrupt("its hash does not have 32 bytes"))? })
}
