//! The fuzz corpus: one file per input, in one folder per target.

use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

fn folder(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(target)
}

/// All inputs of a target, in the order of their names.
pub fn load(target: &str) -> Vec<Vec<u8>> {
    let mut files: Vec<_> = std::fs::read_dir(folder(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let inputs: Vec<_> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(!inputs.is_empty(), "there is nothing to begin with in {}", folder(target).display());
    inputs
}

/// Writes an input; returns its file.
pub fn keep(target: &str, kind: &str, input: &[u8]) -> PathBuf {
    let name: String = Sha256::digest(input).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let path = folder(target).join(format!("{kind}-{name}"));
    std::fs::write(&path, input).unwrap();
    path
}
