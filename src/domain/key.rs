//! Keys: who may do what. The secret itself does not occur in this layer; below the API there is only its hash.

use std::fmt;
use std::sync::Arc;

use super::names::names;
use serde::Serialize;

use super::ids::deserialized_by_parse;
use super::{CollectionName, InvalidId};

/// What a key may do. Each scope includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Read and search.
    Read,
    /// Also write documents.
    Write,
    /// Also create and delete collections and, if the key is not restricted to some, manage the server.
    Admin,
}

/// The public part of a key: 32 lower-case hexadecimal digits. Later keys sort after earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct KeyId(String);

/// A key that was issued.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// The public part.
    pub id: KeyId,
    /// What it is for, in the caller's words.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// The collections that it may access, by the name in the path; `None` means all, and the server as a whole.
    pub collections: Option<Vec<CollectionName>>,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// The time when the key expires, in milliseconds since the Unix epoch; `None` means never.
    pub expires_at_ms: Option<i64>,
}

/// A key to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewKey {
    /// What it is for, in the caller's words.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// The collections that it may access; `None` means all.
    pub collections: Option<Vec<CollectionName>>,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<i64>,
}

/// Who sent a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Caller {
    /// Anybody, on a server that has no keys.
    Anyone,
    /// The holder of the admin key of the server's configuration.
    Operator,
    /// The holder of a key.
    Holder(Arc<Key>),
}

names!(Scope { Read = "read", Write = "write", Admin = "admin" });

impl KeyId {
    /// Accepts 32 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if text.len() == 32 && digits {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidId { what: "key id", problem: format!("must be 32 lower-case hexadecimal digits, got {text:?}") })
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Key {
    /// Whether it has expired at this time.
    pub fn is_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|at| at <= now_ms)
    }

    /// Whether it can create other keys and never expires.
    pub fn is_permanent_admin(&self) -> bool {
        self.scope == Scope::Admin && self.collections.is_none() && self.expires_at_ms.is_none()
    }
}

impl Caller {
    /// What the caller may do.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Anyone | Self::Operator => Scope::Admin,
            Self::Holder(key) => key.scope,
        }
    }

    /// The collections that the caller may access; `None` means all, and the server as a whole.
    pub fn collections(&self) -> Option<&[CollectionName]> {
        match self {
            Self::Anyone | Self::Operator => None,
            Self::Holder(key) => key.collections.as_deref(),
        }
    }

    /// Whether the caller may access the collection.
    pub fn reaches(&self, collection: &CollectionName) -> bool {
        self.collections().is_none_or(|names| names.contains(collection))
    }
}

deserialized_by_parse!(KeyId);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scope_includes_those_before_it() {
        assert!(Scope::Admin > Scope::Write && Scope::Write > Scope::Read);
        for scope in Scope::ALL {
            assert_eq!(Scope::parse(scope.name()), Some(scope));
        }
        assert_eq!(Scope::parse("root"), None);
    }

    #[test]
    fn key_ids_are_hexadecimal() {
        assert!(KeyId::parse("0198c0de00007000800000000000000a").is_ok());
        for bad in ["", "0198c0de", "0198C0DE00007000800000000000000A", "0198c0de-0000-7000-8000-00000000000a"] {
            assert!(KeyId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_key_expires_at_its_time() {
        let key = |expires_at_ms| Key {
            id: KeyId::parse(&"0".repeat(32)).unwrap(),
            name: String::new(),
            scope: Scope::Admin,
            collections: None,
            created_at_ms: 0,
            expires_at_ms,
        };
        assert!(key(Some(10)).is_expired(10) && !key(Some(10)).is_expired(9) && !key(None).is_expired(i64::MAX));
        assert!(key(None).is_permanent_admin() && !key(Some(10)).is_permanent_admin());
    }
}
