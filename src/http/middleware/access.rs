//! The access that a request needs, as each route in `crate::http` declares it.

use crate::domain::{Code, Scope};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// No key.
    Open,
    /// A key of at least this scope.
    Key(Scope, CollectionAccess),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectionAccess {
    /// No collection: a restricted key may call it.
    Server,
    /// The collection that the path names: a restricted key may call it for its own collections.
    Path,
    /// Collections that the request names elsewhere, or lists: the handler checks what the caller may access.
    Handler,
    /// All collections, or the keys: a restricted key may not call it.
    Everything,
}

/// Codes that every operation with this access can return, besides its own.
pub fn codes(access: Access) -> impl Iterator<Item = Code> {
    const KEYLESS: &[Code] = &[Code::InvalidHost];
    const ANY_KEY: &[Code] = &[
        Code::InvalidHost,
        Code::Unauthorized,
        Code::HostNotAllowed,
        Code::OriginNotAllowed,
        Code::RateLimited,
        Code::RequestTimeout,
        Code::Overloaded,
        Code::Unavailable,
    ];
    let (codes, of_scope) = match access {
        Access::Open => (KEYLESS, None),
        Access::Key(Scope::Read, CollectionAccess::Server) => (ANY_KEY, None),
        Access::Key(..) => (ANY_KEY, Some(Code::Forbidden)),
    };
    codes.iter().copied().chain(of_scope)
}
