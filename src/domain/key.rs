//! API keys and what they permit. Their secrets do not occur here; below the API, only hashes exist.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ids::text_id;
use super::names::names;
use super::{CollectionName, InvalidId, timestamps};

/// `read`: search, read, predict labels, embed texts. `write`: also write and delete documents and classifiers, and mine.
/// `admin`: also create, change and delete collections and, unless the key is restricted to `collections`, everything else.
// Each scope includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[cfg_attr(feature = "server", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
#[schema(as = KeyScope)]
pub enum Scope {
    /// Search, read, predict labels, embed texts.
    Read,
    /// Also write, import and delete documents, create and delete classifiers, mine, and cancel such jobs.
    Write,
    /// Also create, change and delete collections and, unless the key is restricted to `collections`, everything else.
    Admin,
}

text_id! {
    /// The public part of a key: 32 lower-case hexadecimal digits. Later keys sort after earlier ones.
    KeyId, |text| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if text.len() == 32 && digits {
            return Ok(());
        }
        Err(InvalidId { what: "key id", problem: format!("must be 32 lower-case hexadecimal digits, got {text:?}") })
    }
}

/// A key, without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = KeyInfo)]
pub struct Key {
    /// The id, which is also the public part of the secret.
    #[schema(value_type = String)]
    pub id: KeyId,
    /// What the key is for.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// The collections that it may access; omitted if it may access all.
    // Compared with the name in the path. A key without restriction may also use server-wide operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub collections: Option<Vec<CollectionName>>,
    /// When it was created.
    // In milliseconds since the Unix epoch, like `expires_at_ms`.
    #[serde(rename = "created_at", serialize_with = "timestamps::serialize")]
    #[schema(value_type = String, format = DateTime)]
    pub created_at_ms: i64,
    /// When it expires; omitted if never.
    #[serde(rename = "expires_at", skip_serializing_if = "Option::is_none", serialize_with = "timestamps::serialize_some")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at_ms: Option<i64>,
}

/// A key to create.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[cfg_attr(feature = "server", derive(clap::Args))]
#[serde(deny_unknown_fields)]
pub struct CreateKeyRequest {
    /// A description of what the key is for, 1 to 256 bytes.
    #[schema(min_length = 1, max_length = 256)]
    pub name: String,
    /// What it may do.
    #[cfg_attr(feature = "server", arg(long, value_enum))]
    pub scope: Scope,
    /// The collections that it may access, by the names that its requests will use; they need not exist yet. By default all
    /// collections and the server-wide operations.
    #[cfg_attr(feature = "server", arg(long, value_name = "NAME", value_delimiter = ','))]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 1000)]
    pub collections: Option<Vec<String>>,
    /// When the key expires; by default never.
    #[cfg_attr(feature = "server", arg(long, value_name = "TIME"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
}

/// Who sent a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Caller {
    /// Anyone, on a server without keys.
    Anyone,
    /// The holder of the admin key in the server's configuration.
    Operator,
    /// The holder of a key.
    Holder(Arc<Key>),
}

names!(Scope { Read = "read", Write = "write", Admin = "admin" });

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
    /// The caller's key, if it has one.
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Anyone | Self::Operator => None,
            Self::Holder(key) => Some(key),
        }
    }

    /// What the caller may do.
    pub fn scope(&self) -> Scope {
        self.key().map_or(Scope::Admin, |key| key.scope)
    }

    /// The collections that the caller may access; `None` means all, and the server-wide operations.
    pub fn collections(&self) -> Option<&[CollectionName]> {
        self.key()?.collections.as_deref()
    }

    /// Whether the caller may access the collection.
    pub fn may_access(&self, collection: &CollectionName) -> bool {
        self.collections().is_none_or(|names| names.contains(collection))
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
    fn a_key_expires_at_its_expiry_time() {
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
