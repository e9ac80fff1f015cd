//! A private copy of a bundle's weights. ONNX Runtime maps some of the files into memory. If another program truncated or
//! overwrote such a file in place while the server runs, the server would crash, or would store embeddings of an unverified
//! model.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;

use super::EmbedError;
use crate::bundle::{Bundle, BundleError, TOKEN_TABLE, sha256_file};

/// Files of weights to open sessions from. Dropping this removes the copy; open sessions keep what they have mapped.
pub struct Weights<'a> {
    bundle: &'a Bundle,
    /// `None` if there is no room for a copy.
    folder: Option<TempDir>,
}

impl<'a> Weights<'a> {
    /// Copies those of the `graphs` that the bundle has, and their token table, to the folder for temporary files. Fails if a
    /// file is no longer the one that the manifest names.
    pub fn copy(bundle: &'a Bundle, graphs: &[&str]) -> Result<Self, EmbedError> {
        let files = graphs.iter().copied().chain([TOKEN_TABLE]);
        let files: Vec<(&str, &String)> = files.filter_map(|file| Some((file, bundle.manifest.files.get(file)?))).collect();
        let folder = tempfile::Builder::new().prefix("dragoman-weights-").tempdir().ok();
        let has_all = |folder: &TempDir| {
            let copy = |file: &str| std::fs::copy(bundle.path(file), folder.path().join(file));
            files.iter().all(|(file, _)| copy(file).is_ok())
        };
        let weights = Self { bundle, folder: folder.filter(has_all) };
        for (file, expected) in files {
            let path = bundle.path(file);
            let failed = |error: BundleError| EmbedError::Model { path: path.clone(), source: Arc::new(error) };
            let got = sha256_file(&weights.path(file)).map_err(failed)?;
            if got != *expected {
                return Err(failed(BundleError::Checksum { path: path.clone(), expected: expected.clone(), got }));
            }
        }
        if weights.folder.is_none() {
            let folder = std::env::temp_dir();
            tracing::warn!(
                folder = %folder.display(),
                "no room for a copy of the model's weights: do not change the model's files in place while the server runs"
            );
        }
        Ok(weights)
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.as_ref().map_or_else(|| self.bundle.path(file), |folder| folder.path().join(file))
    }

    /// Returns the path of an optional file, or `None` if the bundle does not have it.
    pub fn optional(&self, file: &str) -> Option<PathBuf> {
        self.bundle.optional(file).map(|_| self.path(file))
    }
}
