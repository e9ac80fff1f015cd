//! Creates, lists, revokes and recognizes keys.
//!
//! All keys are in memory, so authenticating a request takes one SHA-256 and one constant-time comparison. A secret has 256
//! random bits and is shown once. With that much entropy a fast hash is enough. Slow hashes (bcrypt, Argon2) are for passwords
//! that people choose.

pub(super) mod keyring;

use std::ops::Bound;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::blocking::blocking;
use super::error::Error;
use super::state::Service;
use crate::domain::{Caller, CollectionName, Key, KeyId, Page, Scope, hex};
use crate::new_id::new_uuid;
use crate::storage::CatalogPart;
use crate::store::StoredKey;
use crate::store::system_clock as now_ms;
use keyring::Sha;

/// The prefix of every secret, so that scanners can recognize leaked ones.
const SECRET_PREFIX: &str = "dgm";
/// How long an expired key stays listed, unless its place is needed.
const EXPIRED_KEPT_MS: i64 = 30 * 24 * 60 * 60 * 1_000;

impl Service {
    /// Sets `secret` as the admin key from the configuration. Only the first call has an effect.
    pub fn set_admin_key(&self, secret: &str) {
        let _ = self.state.keyring.operator.set(sha256(secret));
    }

    /// Whether requests need a key. They do as soon as there is a key, even if all keys have expired.
    pub fn requires_key(&self) -> bool {
        self.state.keyring.operator.get().is_some() || !self.state.keyring.keys.read().is_empty()
    }

    pub fn authenticate(&self, secret: &str) -> Result<Caller, Error> {
        let keyring = &self.state.keyring;
        let hash = sha256(secret);
        if keyring.operator.get().is_some_and(|operator| bool::from(operator.ct_eq(&hash))) {
            return Ok(Caller::Operator);
        }
        // Ids are not secret, so the time it takes to find one reveals nothing.
        let id = parse_key_id(secret).ok_or(Error::UnknownKey)?;
        let (key, expected) = keyring.keys.read().get(&id).cloned().ok_or(Error::UnknownKey)?;
        if !bool::from(expected.ct_eq(&hash)) {
            return Err(Error::UnknownKey);
        }
        if key.is_expired(self.now_ms()) {
            return Err(Error::KeyExpired { id });
        }
        Ok(Caller::Holder(key))
    }

    /// Creates a key and its secret, which cannot be read again. The key is durable when this returns.
    ///
    /// The first key locks out callers without a key, so it must be able to create other keys and must never expire.
    pub async fn create_key(
        &self,
        name: String,
        scope: Scope,
        collections: Option<Vec<CollectionName>>,
        expires_at_ms: Option<i64>,
    ) -> Result<(Key, String), Error> {
        self.check_running()?;
        let id = KeyId::parse(&new_uuid().simple().to_string())?;
        let key = Key { id, name, scope, collections, created_at_ms: now_ms(), expires_at_ms };
        let changing = Arc::clone(&self.state.keyring.changing).lock_owned().await;
        let secret = new_secret(&key.id)?;
        let stored = StoredKey { secret_sha256: sha256(&secret), key };
        let service = self.clone();
        blocking(move || {
            let _changing = changing;
            let outdated = service.state.change_catalog(CatalogPart::Keys, || service.add_key(&stored))?;
            tracing::info!(key = %stored.key.id, scope = stored.key.scope.name(), "key created");
            // After the new key is stored, because a server without keys is open to everybody.
            service.remove_outdated(&outdated);
            Ok((stored.key, secret))
        })
        .await
    }

    /// Adds a key, and returns the expired ones to remove.
    fn add_key(&self, stored: &StoredKey) -> Result<Vec<KeyId>, Error> {
        let StoredKey { key, secret_sha256 } = stored;
        if !self.requires_key() && !key.is_permanent_admin() {
            return Err(Error::FirstKey);
        }
        self.state.check_emergency_space()?;
        let now_ms = self.state.read_clock()?;
        let keys = self.state.keyring.keys.read();
        let outdated = outdated_keys(keys.values().map(|(key, _)| &**key), self.state.limits.keys_max, now_ms);
        drop(keys);
        let outdated = outdated?;
        self.state.catalog.add_key(stored)?;
        self.state.keyring.keys.write().insert(key.id.clone(), (Arc::new(key.clone()), *secret_sha256));
        Ok(outdated)
    }

    /// Removes expired keys. If that fails, the next new key tries again.
    fn remove_outdated(&self, expired: &[KeyId]) {
        if expired.is_empty() {
            return;
        }
        let remove = || -> Result<(), Error> {
            for id in expired {
                self.state.catalog.remove_key(id)?;
                self.state.keyring.keys.write().remove(id);
            }
            Ok(())
        };
        match self.state.change_catalog(CatalogPart::Keys, remove) {
            Ok(()) => tracing::info!(keys = expired.len(), "expired keys removed"),
            Err(error) => tracing::warn!(cause = error.chain(), "expired keys cannot be removed"),
        }
    }

    /// Lists keys, oldest first. Also returns the last id on the page if there is a next page.
    pub fn list_keys(&self, page: Page<KeyId>) -> (Vec<Key>, Option<KeyId>) {
        let keys = self.state.keyring.keys.read();
        let after = page.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let rest = keys.range((after, Bound::Unbounded)).map(|(_, (key, _))| Key::clone(key));
        page.take(rest, |key| &key.id)
    }

    /// Revokes a key. Requests with it are refused from now on.
    ///
    /// Refuses to revoke the last key that can create others, unless the configuration has one. Without it, no one could manage
    /// keys, or the server would be open to everybody again.
    pub async fn revoke_key(&self, id: &KeyId) -> Result<(), Error> {
        self.check_running()?;
        let changing = Arc::clone(&self.state.keyring.changing).lock_owned().await;
        let (service, id) = (self.clone(), id.clone());
        blocking(move || {
            let _changing = changing;
            let remove = || service.state.emergency_space.retry_on_full_disk(|| service.remove_key(&id));
            service.state.change_catalog(CatalogPart::Keys, remove)?;
            tracing::info!(key = %id, "key revoked");
            Ok(())
        })
        .await
    }

    fn remove_key(&self, id: &KeyId) -> Result<(), Error> {
        let keyring = &self.state.keyring;
        {
            let keys = keyring.keys.read();
            if !keys.contains_key(id) {
                return Err(Error::KeyNotFound { id: id.clone() });
            }
            let another = keys.values().any(|(key, _)| key.id != *id && key.is_permanent_admin());
            if keyring.operator.get().is_none() && !another {
                return Err(Error::LastAdminKey);
            }
        }
        self.state.catalog.remove_key(id)?;
        keyring.keys.write().remove(id);
        Ok(())
    }
}

/// Returns the expired keys to remove when a key is added: those that expired long ago, and as many others as there must be room
/// for, the earliest expired first. Refuses another key if as many as allowed are still valid.
fn outdated_keys<'a>(keys: impl Iterator<Item = &'a Key>, limit: usize, now_ms: i64) -> Result<Vec<KeyId>, Error> {
    let (expired, valid): (Vec<&Key>, Vec<&Key>) = keys.partition(|key| key.is_expired(now_ms));
    if valid.len() >= limit {
        return Err(Error::TooManyKeys { limit });
    }
    let mut expired: Vec<(Option<i64>, &KeyId)> = expired.into_iter().map(|key| (key.expires_at_ms, &key.id)).collect();
    expired.sort_unstable();
    let long_ago = expired.partition_point(|(expired_at, _)| *expired_at <= Some(now_ms - EXPIRED_KEPT_MS));
    let too_many = (expired.len() + valid.len() + 1).saturating_sub(limit);
    Ok(expired.into_iter().take(long_ago.max(too_many)).map(|(_, id)| id.clone()).collect())
}

/// Makes a secret: `dgm_<id>_<64 hexadecimal digits>`.
fn new_secret(id: &KeyId) -> Result<String, Error> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| Error::Random(error.to_string()))?;
    Ok(format!("{SECRET_PREFIX}_{id}_{}", hex(&random)))
}

/// Returns the id in a secret, which is its public part.
fn parse_key_id(secret: &str) -> Option<KeyId> {
    let (id, _) = secret.strip_prefix(SECRET_PREFIX)?.strip_prefix('_')?.split_once('_')?;
    KeyId::parse(id).ok()
}

fn sha256(secret: &str) -> Sha {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_expired_long_ago_or_take_needed_room_are_removed_and_valid_ones_count() {
        let id = |number: usize| KeyId::parse(&format!("{number:032x}")).unwrap();
        let key = |(number, expires_at_ms): (usize, &Option<i64>)| {
            let (name, scope, collections) = (String::new(), Scope::Read, None);
            Key { id: id(number), name, scope, collections, created_at_ms: 0, expires_at_ms: *expires_at_ms }
        };
        let check = |expiries: &[Option<i64>], limit: usize, expect: Option<&[usize]>| {
            let keys: Vec<Key> = expiries.iter().enumerate().map(key).collect();
            let found = outdated_keys(keys.iter(), limit, EXPIRED_KEPT_MS * 2).ok();
            assert_eq!(found, expect.map(|numbers| numbers.iter().map(|number| id(*number)).collect()), "{expiries:?}");
        };
        let [long_ago, earlier, later] = [0, 1, 2].map(|later_ms| Some(EXPIRED_KEPT_MS + later_ms));
        let valid = [None, Some(i64::MAX)];
        check(&valid, 2, None);
        check(&valid, 3, Some(&[]));
        check(&[None, later, earlier], 9, Some(&[]));
        check(&[None, later, long_ago, earlier], 9, Some(&[2]));
        check(&[None, later, earlier], 3, Some(&[2]));
        check(&[None, later, earlier], 2, Some(&[2, 1]));
        check(&[None, later, earlier], 1, None);
    }

    #[test]
    fn generated_secrets_differ_and_contain_the_key_id() {
        let id = KeyId::parse(&"0f".repeat(16)).unwrap();
        let (one, two) = (new_secret(&id).unwrap(), new_secret(&id).unwrap());
        assert_ne!(one, two);
        assert_eq!(one.len(), 3 + 1 + 32 + 1 + 64);
        assert_eq!(parse_key_id(&one), Some(id));
        for bad in ["", "dgm", "dgm_", "dgm__", "dgm_x_y", "sk-0123456789"] {
            assert_eq!(parse_key_id(bad), None, "{bad:?}");
        }
    }
}
