//! The error codes that an operation declares, and groups of codes that many operations share.

use crate::domain::Code;

/// An operation's id and the codes that it can return, in groups.
pub type OperationErrors = (&'static str, &'static [&'static [Code]]);

/// Codes of every operation that reads a JSON body, besides `invalid_request`.
pub const BODY_ERRORS: &[Code] = &[Code::MalformedJson, Code::BodyTooLarge, Code::UnsupportedMediaType];

/// Codes of every operation that reads the store.
pub const READ_ERRORS: &[Code] =
    &[Code::InvalidRequest, Code::Unavailable, Code::StorageUnavailable, Code::CollectionDamaged, Code::Internal];

/// Codes of every operation that reads a JSON body and writes to the store.
pub const WRITE_ERRORS: &[Code] = &[
    Code::MalformedJson,
    Code::BodyTooLarge,
    Code::UnsupportedMediaType,
    Code::InvalidRequest,
    Code::Overloaded,
    Code::Unavailable,
    Code::StorageUnavailable,
    Code::CollectionDamaged,
    Code::Internal,
];
