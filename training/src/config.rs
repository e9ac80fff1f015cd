//! Every hyper-parameter of a run. Configuration files are complete: no inheritance, and unknown keys are an error.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;

mod check;
mod stage;

pub use stage::*;

/// The configuration of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the bundle to write.
    pub name: String,
    /// Seed of all randomness. The same seed, data, threads and configuration give the same weights.
    pub seed: u64,
    /// The tokenizer.
    pub tokenizer: TokenizerConfig,
    /// Weights of the corpora.
    pub corpora: CorporaConfig,
    /// How pairs are drawn.
    pub sampling: SamplingConfig,
    /// The encoder.
    pub model: ModelConfig,
    /// The stages, in order; each starts from the weights of the one before.
    pub stages: Vec<StageConfig>,
}

/// The Unigram tokenizer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerConfig {
    /// Number of pieces, including special ones; at most 65,535 (the paper: 60,000).
    pub vocabulary: u32,
    /// Characters of text drawn per language.
    pub characters_per_language: usize,
    /// Maximum characters per piece.
    pub piece_characters_max: usize,
    /// Character coverage: the share of all character occurrences that get a piece of their own, most frequent characters
    /// first, 0 to 1; the rest are unknown.
    pub character_coverage: f64,
    /// Minimum count for a substring of a word to become a candidate.
    pub candidate_count_min: u64,
}

/// How often the segments of a corpus are drawn, relative to a corpus with weight 1. A name may end in `*`; the longest name that
/// matches applies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorporaConfig {
    /// Weight of corpora that are not named.
    pub default: f64,
    /// Weight by name.
    pub weights: BTreeMap<String, f64>,
}

/// How pairs are drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplingConfig {
    /// A language pair's mass is its weighted number of pairs to this power: 1 keeps the proportions, 0 makes all equal.
    pub pair_exponent: f64,
    /// Share of the pairs with English on one side, 0 to 1 (the paper: 1).
    pub english_share: f64,
    /// Number of pairs of the same two languages and the same corpus that are drawn consecutively; at least 1.
    pub run_pairs: usize,
    /// Maximum number of times that the run sees a text, averaged over each corpus; no limit if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub views_max: Option<f64>,
    /// Codes of the languages of the pairs, at least one; all languages if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub languages: Option<Vec<String>>,
    /// Corpora with a fixed share of the pairs. All other corpora divide the rest by the rules above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupConfig>,
}

/// Corpora with a fixed share of the pairs, such as questions with their passages, or words among sentences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// Names of corpora. A name may begin or end with `*`; a corpus belongs to the first group that matches it.
    pub corpora: Vec<String>,
    /// Share of all pairs, above 0; the groups' shares must add up to less than 1.
    pub share: f64,
    /// Like `sampling.pair_exponent`, for the language pairs of this group.
    pub pair_exponent: f64,
    /// Whether the first text of a pair is a question and the second its passage; the sides then keep their order.
    pub directed: bool,
}

/// The encoder's size (EMS, section IV-C: 1,024 wide, 6 layers, 16 heads, 4,096 feed-forward, 120 tokens).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Width d, which is also the number of values per embedding.
    pub dimension: i64,
    /// Transformer layers.
    pub layers: i64,
    /// Attention heads; divides the dimension.
    pub heads: i64,
    /// Width of the feed-forward part.
    pub feed_forward: i64,
    /// Maximum tokens to read of one text.
    pub tokens_max: i64,
    /// Position of the layer normalization.
    pub norm: Norm,
    /// Activation of the feed-forward part. The paper names none; the authors' published weights have Swish.
    #[serde(default, skip_serializing_if = "Activation::is_gelu")]
    pub activation: Activation,
    /// Width of the target-language embedding d_la (EMS, eq. 2; the paper: 128).
    pub language_dimension: i64,
    /// Width d_cntrs of the contrastive projection (EMS, eq. 10; the paper: 128).
    pub projection_dimension: i64,
}

/// Position of the layer normalization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// After each residual connection, and after the embeddings, as in the paper.
    Post,
    /// Before each sublayer, with none at the end and output projections initialized to zero: the untrained encoder equals the
    /// bag of its tokens, so a stage that adds layers to a trained token table starts with the quality of that table.
    Pre,
}

/// Activation of the feed-forward part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// x Φ(x), by the error function.
    #[default]
    Gelu,
    /// x σ(x), also called SiLU.
    Swish,
}

impl Activation {
    /// Its name, as in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gelu => "GELU",
            Self::Swish => "Swish",
        }
    }

    fn is_gelu(&self) -> bool {
        *self == Self::Gelu
    }
}

impl Config {
    /// Reads a configuration file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
        let config: Self =
            toml::from_str(&text).map_err(|error| Error::Content { path: path.to_owned(), problem: error.to_string() })?;
        config.check()?;
        Ok(config)
    }

    /// Rejects configurations that cannot be trained.
    pub fn check(&self) -> Result<(), Error> {
        check::check(self)
    }
}

impl SamplingConfig {
    /// The group that the corpus `name` belongs to, if any.
    pub fn group_of(&self, name: &str) -> Option<usize> {
        let fits = |pattern: &String| match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
            (Some(ending), _) => name.ends_with(ending),
            (None, Some(beginning)) => name.starts_with(beginning),
            (None, None) => name == pattern,
        };
        self.groups.iter().position(|group| group.corpora.iter().any(fits))
    }
}

impl CorporaConfig {
    /// The weight of the corpus `name`.
    pub fn weight(&self, name: &str) -> f64 {
        let fits = |pattern: &&String| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern.as_str(),
        };
        let best = self.weights.keys().filter(fits).max_by_key(|pattern| pattern.len());
        best.map_or(self.default, |pattern| self.weights[pattern])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_matching_pattern_decides_a_weight() {
        let weights = [("mw-*".to_owned(), 0.3), ("mw-core2".to_owned(), 0.2), ("bible*".to_owned(), 0.1)].into();
        let corpora = CorporaConfig { default: 1.0, weights };
        for (name, weight) in [("mw-echo", 0.3), ("mw-core2", 0.2), ("bible", 0.1), ("bible-pd", 0.1), ("ntrex", 1.0)] {
            assert_eq!(corpora.weight(name), weight, "{name}");
        }
    }

    #[test]
    fn a_corpus_belongs_to_the_first_matching_group() {
        let group = |corpora: &[&str]| GroupConfig {
            corpora: corpora.iter().map(|&name| name.to_owned()).collect(),
            share: 0.2,
            pair_exponent: 0.5,
            directed: true,
        };
        let groups = vec![group(&["*.q"]), group(&["species", "wof-*", "wof-q.q"])];
        let sampling =
            SamplingConfig { pair_exponent: 0.6, english_share: 0.5, run_pairs: 1, views_max: None, languages: None, groups };
        for (name, expect) in
            [("tydi.q", Some(0)), ("wof-q.q", Some(0)), ("wof-places", Some(1)), ("species", Some(1)), ("specie", None)]
        {
            assert_eq!(sampling.group_of(name), expect, "{name}");
        }
    }

    #[test]
    fn unknown_keys_are_refused() {
        assert!(toml::from_str::<SamplingConfig>("pair_exponent = 0.6\nenglish_share = 0.5\nspeed = 9").is_err());
    }
}
