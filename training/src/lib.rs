//! Trains the EMS sentence encoder (EMS, 2024) and exports it as a bundle for the server.

#![allow(rustdoc::broken_intra_doc_links, reason = "documentation writes the shapes of tensors in brackets")]

/// Atomic checkpoints and exact resume.
pub mod checkpoint;
/// What `eval`, `export` and `plot` do.
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
/// From others' weights to a bundle.
pub mod import;
/// The language head.
pub mod language;
/// The encoder and its heads.
pub mod model;
/// Losses.
pub mod objective;
/// Adam and the schedule.
pub mod optim;
/// Weights in pieces.
pub mod pack;
/// Curves as SVG.
pub mod plot;
/// Log lines and the loss curve.
pub mod progress;
/// Weights of the evidence of a search.
pub mod relevance;
/// The loop.
pub mod train;
/// The meanings of words in other languages.
pub mod translations;
