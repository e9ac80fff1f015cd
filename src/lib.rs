//! Dragoman: a vector-search database that embeds and searches text across 62 languages.
//!
//! Read the modules in this order; each imports only from those above it. The shared ones (`domain`, `bundle`, `text`,
//! `vectors`, `parallel`, `classify`, `mining`, `ranking`, `evaluation`, `projection`) compile alone, without the `server`
//! feature, and are what the training subproject uses.
//!
//! The training subproject reads `domain`, `bundle`, `text`, `ranking` and `evaluation`, so these must have a comment on every
//! public item. `tests/openapi.rs` asks for one on everything that crosses the wire.

#![allow(missing_docs, reason = "no other package reads the rooms that do not turn it on")]

/// Plain values: names, ids, languages, embeddings, documents, limits, error codes.
#[warn(missing_docs)]
pub mod domain;

/// A model folder: its manifest, its files and their checksums.
#[warn(missing_docs)]
pub mod bundle;
/// From raw text to token ids, for both the trainer and the server.
#[warn(missing_docs)]
pub mod text;

/// The SQLite databases, the source of truth: collections, documents, passages and their embeddings.
#[cfg(feature = "server")]
pub mod store;

/// Arithmetic on vectors that several modules need.
pub mod vectors;

/// Work on the parts of a range, on several threads.
pub(crate) mod parallel;

/// Decompression of files.
#[cfg(feature = "server")]
pub mod compression;

/// The ids that the server generates.
#[cfg(feature = "server")]
pub mod new_id;

#[cfg(feature = "server")]
pub(crate) mod table;

/// Whether the system lets the process start threads.
#[cfg(feature = "server")]
pub(crate) mod threads;

/// How much room a disk has left, and how to open only regular files.
#[cfg(feature = "server")]
pub mod disk;

/// The usearch index, derived from the databases: nearest neighbors of an embedding.
#[cfg(feature = "server")]
pub mod index;

/// The interface that the service uses for storage, with its engines: the embedded one over `store` and `index`, and
/// PostgreSQL.
#[cfg(feature = "server")]
pub mod storage;

/// Labels on frozen embeddings: training, prediction, evaluation.
pub mod classify;

/// Translation pairs and near-duplicates, from nearest neighbors.
pub mod mining;

/// How well a passage answers a question: late interaction of tokens.
#[warn(missing_docs)]
pub mod ranking;

/// Vectors as points on a plane: principal components, then UMAP.
pub mod projection;

/// The papers' evaluations of an encoder on files.
#[warn(missing_docs)]
pub mod evaluation;

/// The sentence encoder behind a bounded queue.
#[cfg(feature = "server")]
pub mod embed;

/// Folders and buckets that scheduled snapshots are copied to, and restored from.
#[cfg(feature = "server")]
pub mod targets;

/// Use cases: the only place where rows, index and embedder come together.
#[cfg(feature = "server")]
pub mod service;

/// The HTTP API: routes, requests, responses, errors, OpenAPI.
#[cfg(feature = "server")]
pub mod http;

/// The listener: connections, TLS, graceful shutdown.
#[cfg(feature = "server")]
pub mod server;

/// The command line for a running server, and for embedding texts locally.
#[cfg(feature = "server")]
pub mod cli;

/// Every setting, with unit and default, and its source.
#[cfg(feature = "server")]
pub mod config;

/// Logs and traces.
#[cfg(feature = "server")]
pub mod telemetry;

/// Composition root: start-up order, repair, shutdown.
#[cfg(feature = "server")]
pub mod app;
