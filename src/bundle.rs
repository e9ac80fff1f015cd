//! A bundle: the folder of a model, and the contract between the trainer that writes it and the server that reads it.
//!
//! `manifest.json` lists every file with its SHA-256. `Bundle::open` verifies all of them before anything is loaded, so an
//! incomplete download or a hand-edited tokenizer is refused by name instead of giving wrong embeddings.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::domain::{Language, RelevanceWeights, hex};

/// The manifest's format that this program reads and writes.
pub const FORMAT: u32 = 1;
/// The version of the text pipeline, module `text`; it increases with every change that affects token ids. A bundle records the
/// version it was trained with, and bundles of other versions do not open.
pub const TEXT_VERSION: u32 = 1;
/// int8 weights, for CPUs.
pub const MODEL_INT8: &str = "model.onnx";
/// fp16 weights, for GPUs.
pub const MODEL_FP16: &str = "model.fp16.onnx";
/// The token table that both graphs read, and the tokens' weights in late interaction. Bundles older than 0.5.0 and those of
/// other encoders have none: their graphs contain their tables.
pub const TOKEN_TABLE: &str = "tokens.safetensors";
/// A separate token table for late interaction; without it, late interaction uses the model's. No embedding depends on it.
pub const LATE_TABLE: &str = "late.safetensors";
/// int8 weights of a separate encoder for questions. It reads the same token table as the encoder of passages. No stored
/// embedding depends on it.
pub const QUESTIONS_INT8: &str = "questions.onnx";
/// The same in fp16.
pub const QUESTIONS_FP16: &str = "questions.fp16.onnx";
/// The translation table: the meanings of words in all languages, for search. No embedding depends on it.
pub const TRANSLATIONS: &str = "translations.safetensors";
/// The tokenizer.
pub const TOKENIZER: &str = "tokenizer.json";
/// The language head; optional.
pub const LANGUAGE_HEAD: &str = "language.head";
/// Texts with the token ids and embeddings that the model must give for them.
pub const GOLDEN: &str = "golden.json";
/// The model card: where the model comes from and what it is good for.
pub const MODEL_CARD: &str = "MODEL_CARD.md";
/// The list of all other files.
pub const MANIFEST: &str = "manifest.json";

/// Why a bundle cannot be opened or written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants are")]
pub enum BundleError {
    #[error("cannot access {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{} is not a valid manifest", path.display())]
    Manifest { path: PathBuf, source: serde_json::Error },
    #[error("{what} is {got}, but this program supports {expected}")]
    Version { what: &'static str, expected: u32, got: u32 },
    #[error("{} has SHA-256 {got}, but the manifest says {expected}", path.display())]
    Checksum { path: PathBuf, expected: String, got: String },
    #[error("the manifest does not name {file}")]
    MissingFile { file: &'static str },
    #[error("the manifest lists the unknown language {code:?}")]
    UnknownLanguage { code: String },
}

/// What happens to a text before the tokenizer's own normalization. A bundle that names one unknown to this program
/// does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preprocessing {
    /// Lower case, then spaces between words: by jieba in Chinese, by a dictionary in Japanese, by the rules of the Moses
    /// tokenizer in every other language (EMS, 2024, section IV-B). For imported EMS weights.
    MosesJieba,
}

/// `manifest.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Format of this file, `FORMAT`.
    pub format: u32,
    /// Name of the bundle, which is also its folder's.
    pub name: String,
    /// Semantic version of the bundle.
    pub version: String,
    /// `TEXT_VERSION` at training time.
    pub text_version: u32,
    /// What happens to a text before the tokenizer; nothing if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preprocessing: Option<Preprocessing>,
    /// Values per embedding.
    pub dimension: usize,
    /// Maximum tokens that the encoder reads of one text.
    pub tokens_max: usize,
    /// ISO 639-1 codes of the languages that it was trained on.
    pub languages: Vec<String>,
    /// The weights of the evidence in search; if missing, those of the first models that had late interaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relevance: Option<RelevanceWeights>,
    /// File name to SHA-256 in hexadecimal.
    pub files: BTreeMap<String, String>,
    /// How it was trained: configuration, steps, corpora; for people.
    pub training: serde_json::Value,
    /// Measured quality, by the name of the measure.
    pub quality: BTreeMap<String, f64>,
}

/// One line of `golden.json`: a text and the model's output for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoldenText {
    /// ISO 639-1 code.
    pub language: String,
    /// The text.
    pub text: String,
    /// Its token ids, which must be equal.
    pub ids: Vec<u32>,
    /// The first eight values of its embedding by the int8 model, which must be close.
    pub embedding_head: Vec<f32>,
}

/// An opened bundle with all files verified.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// The folder.
    pub folder: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// The manifest's languages, parsed.
    pub languages: Vec<Language>,
}

impl Bundle {
    /// Opens the bundle in `folder` and verifies its files against the manifest.
    pub fn open(folder: &Path) -> Result<Self, BundleError> {
        let path = folder.join(MANIFEST);
        let bytes = std::fs::read(&path).map_err(|source| BundleError::File { path: path.clone(), source })?;
        let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|source| BundleError::Manifest { path, source })?;
        if manifest.format != FORMAT {
            return Err(BundleError::Version { what: "the bundle's format", expected: FORMAT, got: manifest.format });
        }
        if manifest.text_version != TEXT_VERSION {
            let (expected, got) = (TEXT_VERSION, manifest.text_version);
            return Err(BundleError::Version { what: "the bundle's text version", expected, got });
        }
        for file in [MODEL_INT8, TOKENIZER] {
            if !manifest.files.contains_key(file) {
                return Err(BundleError::MissingFile { file });
            }
        }
        for (file, expected) in &manifest.files {
            let path = folder.join(file);
            let got = sha256_file(&path)?;
            if got != *expected {
                return Err(BundleError::Checksum { path, expected: expected.clone(), got });
            }
        }
        let languages = manifest
            .languages
            .iter()
            .map(|code| Language::parse(code).ok_or_else(|| BundleError::UnknownLanguage { code: code.clone() }));
        let languages = languages.collect::<Result<_, _>>()?;
        Ok(Self { folder: folder.to_owned(), manifest, languages })
    }

    /// Writes `manifest` into `folder`, with the current checksums of the named files.
    pub fn seal(folder: &Path, mut manifest: Manifest, files: &[&str]) -> Result<Self, BundleError> {
        manifest.files.clear();
        for file in files {
            manifest.files.insert((*file).to_owned(), sha256_file(&folder.join(file))?);
        }
        let path = folder.join(MANIFEST);
        let mut bytes =
            serde_json::to_vec_pretty(&manifest).map_err(|source| BundleError::Manifest { path: path.clone(), source })?;
        bytes.push(b'\n');
        std::fs::write(&path, bytes).map_err(|source| BundleError::File { path, source })?;
        Self::open(folder)
    }

    /// The full path of a file of the bundle.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// The full path of an optional file; `None` if the bundle does not have it.
    pub fn optional(&self, file: &str) -> Option<PathBuf> {
        self.manifest.files.contains_key(file).then(|| self.path(file))
    }

    /// The token table for late interaction; `None` if the bundle has none.
    pub fn late_interaction_table(&self) -> Option<PathBuf> {
        [LATE_TABLE, TOKEN_TABLE].into_iter().find_map(|file| self.optional(file))
    }

    /// One SHA-256 over everything that determines an embedding: the text version, the preprocessing, the tokenizer and the
    /// weights. int8 and fp16 weights come from the same training and give embeddings of the same space, so the fingerprint
    /// does not depend on the device.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.manifest.text_version.to_le_bytes());
        hash.update(self.manifest.tokens_max.to_le_bytes());
        hash.update(match self.manifest.preprocessing {
            Some(Preprocessing::MosesJieba) => "moses-jieba",
            None => "",
        });
        // A missing file adds nothing, so the fingerprints of older bundles stay the same.
        for file in [TOKENIZER, MODEL_INT8, TOKEN_TABLE] {
            hash.update(self.manifest.files.get(file).map(String::as_bytes).unwrap_or_default());
        }
        hex(&hash.finalize())
    }
}

/// SHA-256 of a file's content in hexadecimal.
pub fn sha256_file(path: &Path) -> Result<String, BundleError> {
    let access = |source| BundleError::File { path: path.to_owned(), source };
    let mut file = std::fs::File::open(path).map_err(access)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(access)? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&buffer[..n]),
        }
    }
}
