//! A bundle: the folder that holds a model, and the contract between the trainer that writes it and the server that reads it.
//!
//! `manifest.json` names every file with its SHA-256. `Bundle::open` checks all of them before anything is loaded, so that a
//! torn download or a hand-edited tokenizer is refused by name instead of giving wrong embeddings.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::domain::{Language, RelevanceWeights};

/// The manifest's format that this program reads and writes.
pub const FORMAT: u32 = 1;
/// The version of the text pipeline, module `text`; a change there that changes token ids counts it up. A bundle carries the
/// version it was trained with, and no other opens.
pub const TEXT_VERSION: u32 = 1;
/// int8 weights, for CPUs.
pub const MODEL_INT8: &str = "model.onnx";
/// fp16 weights, for GPUs.
pub const MODEL_FP16: &str = "model.fp16.onnx";
/// The token table that both graphs read, and the tokens' weights in late interaction. Bundles of before 0.5.0, and those of
/// other encoders, do without: their graphs hold their tables.
pub const TOKEN_TABLE: &str = "tokens.safetensors";
/// A token table that late interaction has of its own; without it, it reads the model's. No embedding depends on it.
pub const LATE_TABLE: &str = "late.safetensors";
/// int8 weights of an encoder of questions, which stands beside that of passages. It reads the same token table. No stored
/// embedding depends on it.
pub const QUESTIONS_INT8: &str = "questions.onnx";
/// The same in fp16.
pub const QUESTIONS_FP16: &str = "questions.fp16.onnx";
/// What words of all languages mean: the table that search translates words by. No embedding depends on it.
pub const TRANSLATIONS: &str = "translations.safetensors";
/// The tokenizer.
pub const TOKENIZER: &str = "tokenizer.json";
/// The head that recognizes languages; a bundle may do without.
pub const LANGUAGE_HEAD: &str = "language.head";
/// Texts with the token ids and embeddings that they must give.
pub const GOLDEN: &str = "golden.json";
/// Where the model comes from and what it is good for.
pub const MODEL_CARD: &str = "MODEL_CARD.md";
/// The list of everything else.
pub const MANIFEST: &str = "manifest.json";

/// An error of a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// A file cannot be read or written.
    #[error("cannot access {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The manifest is no manifest.
    #[error("{} is not a valid manifest", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The manifest was written for another version of something.
    #[error("{what} is {got}, but this program supports {expected}")]
    Version {
        /// What has a version.
        what: &'static str,
        /// The program's version.
        expected: u32,
        /// The bundle's version.
        got: u32,
    },
    /// A file's content is not what the manifest says.
    #[error("{} has SHA-256 {got}, but the manifest says {expected}", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// In the manifest.
        expected: String,
        /// On disk.
        got: String,
    },
    /// A file that must be there is not named in the manifest.
    #[error("the manifest does not name {file}")]
    MissingFile {
        /// The file's name.
        file: &'static str,
    },
    /// A language code that this program does not know.
    #[error("the manifest lists the unknown language {code:?}")]
    UnknownLanguage {
        /// The code.
        code: String,
    },
}

/// What is done to a text before it comes to the tokenizer's own normalization. A bundle that names one which this program does
/// not know does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preprocessing {
    /// Lower case, then spaces between words: by jieba in Chinese, by a dictionary in Japanese, by the rules of the Moses
    /// tokenizer in every other language (EMS, 2024, section IV-B). For imported EMS weights.
    MosesJieba,
}

impl Preprocessing {
    /// Its name in the manifest.
    pub fn name(self) -> &'static str {
        match self {
            Self::MosesJieba => "moses-jieba",
        }
    }
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
    /// What is done to a text before the tokenizer; absent means nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preprocessing: Option<Preprocessing>,
    /// Values per embedding.
    pub dimension: usize,
    /// Tokens that the encoder reads of one text.
    pub tokens_max: usize,
    /// ISO 639-1 codes of the languages that it was trained on.
    pub languages: Vec<String>,
    /// How search weighs its evidence; absent means as with the first models that had late interaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relevance: Option<RelevanceWeights>,
    /// File name to SHA-256 in hexadecimal.
    pub files: BTreeMap<String, String>,
    /// How it was trained: configuration, steps, corpora; for people.
    pub training: serde_json::Value,
    /// Measured quality: name of the measurement to value.
    pub quality: BTreeMap<String, f64>,
}

/// One line of `golden.json`: a text and what the model makes of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoldenText {
    /// ISO 639-1 code.
    pub language: String,
    /// The text.
    pub text: String,
    /// Its token ids: must be equal.
    pub ids: Vec<u32>,
    /// The first eight values of its embedding by the int8 model: must be near.
    pub embedding_head: Vec<f32>,
}

/// An opened bundle, every file of it checked.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// The folder.
    pub folder: PathBuf,
    /// What is in it.
    pub manifest: Manifest,
    /// The manifest's languages, parsed.
    pub languages: Vec<Language>,
}

impl Bundle {
    /// Opens the bundle in `folder` and checks its files against the manifest.
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

    /// Writes `manifest` into `folder`, with the checksums of the named files as they are there now.
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

    /// The full path of a file that the bundle may have; `None` when it has not.
    pub fn optional(&self, file: &str) -> Option<PathBuf> {
        self.manifest.files.contains_key(file).then(|| self.path(file))
    }

    /// The token table that late interaction reads; `None` when the bundle has none.
    pub fn late_interaction_table(&self) -> Option<PathBuf> {
        [LATE_TABLE, TOKEN_TABLE].into_iter().find_map(|file| self.optional(file))
    }

    /// What decides an embedding, as one SHA-256: the text version, the preprocessing, the tokenizer and the weights. int8 and
    /// fp16 weights come from the same training and give embeddings of the same space, so the fingerprint does not depend on the
    /// device.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.manifest.text_version.to_le_bytes());
        hash.update(self.manifest.tokens_max.to_le_bytes());
        hash.update(self.manifest.preprocessing.map_or("", Preprocessing::name));
        // A file that a bundle does not have adds nothing: the fingerprints of older bundles stay.
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
