//! Trains the EMS sentence encoder (EMS, 2024) and exports it as a bundle for the server.

#![allow(rustdoc::broken_intra_doc_links, reason = "documentation writes the shapes of tensors in brackets")]

/// Atomic checkpoints and exact resume.
pub mod checkpoint;
/// The subcommands.
pub mod commands;
/// Hyper-parameters.
pub mod config;
/// From text files to batches.
pub mod data;
/// Errors.
pub mod error;
/// Evaluations of an encoder.
pub mod eval;
/// From weights to a bundle.
pub mod export;
/// From published weights to a bundle.
pub mod import;
/// The language head.
pub mod language;
/// The encoder and its heads.
pub mod model;
/// Losses.
pub mod objective;
/// Adam and the learning-rate schedule.
pub mod optim;
/// Weights split into small files.
pub mod pack;
/// Log lines and the loss curve.
pub mod progress;
/// The relevance weights of search.
pub mod relevance;
/// The training loop.
pub mod train;
/// Word translations learned from parallel text.
pub mod translations;
