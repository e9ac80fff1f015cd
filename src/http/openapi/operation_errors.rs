//! Groups of error codes that operations share.

use crate::domain::Code;

/// Codes of every operation that reads a JSON body, besides `invalid_request`.
pub const BODY_ERRORS: &[Code] = &[Code::MalformedJson, Code::BodyTooLarge, Code::UnsupportedMediaType];

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

pub const SEARCH_ERRORS: &[Code] = &[
    Code::UnknownLanguage,
    Code::InvalidFilter,
    Code::CollectionNotFound,
    Code::DocumentNotFound,
    Code::DocumentPending,
    Code::NoModel,
    Code::ModelMismatch,
    Code::AnswerTooLarge,
    Code::Overloaded,
];

pub const CLASSIFIER_ERRORS: &[Code] = &[
    Code::ClassifierNotFound,
    Code::ClassifierNotReady,
    Code::CollectionNotFound,
    Code::ModelMismatch,
    Code::NoModel,
    Code::Overloaded,
];

pub const MINING_ERRORS: &[Code] =
    &[Code::UnknownLanguage, Code::InvalidFilter, Code::CollectionNotFound, Code::ModelMismatch, Code::IdempotencyConflict];
