//! Every hyper-parameter of a run: complete files, no inheritance, unknown keys are an error.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the bundle that the run makes.
    pub name: String,
    /// Seed of everything random. The same seed, data, threads and configuration give the same weights.
    pub seed: u64,
    /// The tokenizer.
    pub tokenizer: TokenizerConfig,
    /// Weights of the corpora.
    pub corpora: CorporaConfig,
    /// How pairs are drawn.
    pub sampling: SamplingConfig,
    /// The encoder.
    pub model: ModelConfig,
    /// The stages, one after another; each starts from the weights of the one before.
    pub stages: Vec<StageConfig>,
}

/// The Unigram tokenizer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerConfig {
    /// Pieces, special ones included; at most 65,535 (the paper: 60,000).
    pub vocabulary: u32,
    /// Sentences drawn per language.
    pub sentences_per_language: usize,
    /// Characters of one piece at most.
    pub piece_characters_max: usize,
}

/// How often the segments of a corpus are drawn, relative to a corpus of weight 1. A name may end in `*`; the longest name that
/// fits decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorporaConfig {
    /// Weight of a corpus that is not named.
    pub default: f64,
    /// Weight by name.
    pub weights: BTreeMap<String, f64>,
}

/// How pairs are drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplingConfig {
    /// A language pair's mass is its weighted number of pairs to this power: 1 keeps the proportions, 0 makes all alike.
    pub pair_exponent: f64,
    /// Share of the pairs that have English on one side, 0 to 1 (the paper: 1).
    pub english_share: f64,
}

/// The encoder's size (EMS, section IV-C: 1,024 wide, 6 layers, 16 heads, 4,096 feed-forward, 120 tokens).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Width d; also values per embedding.
    pub dimension: i64,
    /// Transformer layers.
    pub layers: i64,
    /// Attention heads; divides the dimension.
    pub heads: i64,
    /// Width of the feed-forward part.
    pub feed_forward: i64,
    /// Tokens that are read of one text.
    pub tokens_max: i64,
    /// Where the layer normalization stands.
    pub norm: Norm,
    /// Width of the target-language embedding d_la (EMS, eq. 2; the paper: 128).
    pub language_dimension: i64,
    /// Width d_cntrs of the contrastive projection (EMS, eq. 10; the paper: 128).
    pub projection_dimension: i64,
}

/// Where the layer normalization stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// After each residual sum, and after the embeddings: the paper's.
    Post,
    /// Before each sublayer, none at the end, output projections from zero: the untrained encoder equals the bag of its tokens,
    /// so that a stage which adds layers to a trained table starts where the table stands.
    Pre,
}

/// One stage of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageConfig {
    /// Its name in logs.
    pub name: String,
    /// Whether the Transformer runs, or only the mean of the token vectors.
    pub encoder: EncoderKind,
    /// Optimizer steps.
    pub steps: u64,
    /// Sentence pairs per step (the paper: 152).
    pub batch_pairs: usize,
    /// Tokens that are read of one text in this stage; at most the model's.
    pub tokens_max: i64,
    /// Highest learning rate (the paper: 3e-4).
    pub learning_rate: f64,
    /// The token table's learning rate relative to the others': below 1 keeps what an earlier stage has taught it while new layers
    /// learn.
    pub token_rate_scale: f64,
    /// Steps of linear warm-up (the paper: 10,000).
    pub warmup_steps: u64,
    /// Last part of the stage over which the rate falls to zero, 0 to 1.
    pub decay_share: f64,
    /// Decoupled weight decay (the paper: 1e-5), not applied to biases, norms and the token table.
    pub weight_decay: f64,
    /// Dropout of hidden states and attention (the paper: 0.1).
    pub dropout: f64,
    /// Chance that a token is left out of a text.
    pub token_dropout: f64,
    /// Largest norm of the gradient; 0 means any.
    pub gradient_norm_max: f64,
    /// Matrix products in bfloat16, master weights in float32.
    pub bf16: bool,
    /// Weight of the contrastive objective (EMS, eq. 8) in the sum; the paper: 1.
    pub contrastive_weight: f64,
    /// Its temperature T (the paper: 0.1).
    pub temperature: f64,
    /// Whether it sees the sentence embedding through the two-layer projection (EMS, eq. 10 and 11; the paper: yes).
    pub projection: bool,
    /// Weight of XTR (EMS, eq. 6) in the sum; the paper: 1.
    pub xtr_weight: f64,
    /// Pairs of each batch that XTR sees, at most; the softmax over the vocabulary is the dearest part of a small model's step.
    pub xtr_pairs: usize,
}

/// What runs in a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EncoderKind {
    /// The mean of the token vectors.
    Bag,
    /// The Transformer.
    Transformer,
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

    /// Refuses what cannot be trained.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |setting, problem: String| Err(Error::Setting { setting, problem });
        if !(16..=65_535).contains(&self.tokenizer.vocabulary) {
            return refuse("tokenizer.vocabulary", format!("expected 16 to 65535, got {}", self.tokenizer.vocabulary));
        }
        let model = &self.model;
        if model.heads < 1 || model.dimension < 1 || model.dimension % model.heads != 0 {
            return refuse("model.heads", format!("must divide the dimension {}, got {}", model.dimension, model.heads));
        }
        if self.stages.is_empty() {
            return refuse("stages", "expected at least one".to_owned());
        }
        for stage in &self.stages {
            if stage.tokens_max < 1 || stage.tokens_max > model.tokens_max {
                return refuse("stages.tokens_max", format!("expected 1 to {}, got {}", model.tokens_max, stage.tokens_max));
            }
            if stage.batch_pairs < 2 {
                return refuse("stages.batch_pairs", format!("expected at least 2, got {}", stage.batch_pairs));
            }
            if stage.temperature <= 0.0 {
                return refuse("stages.temperature", format!("must be above 0, got {}", stage.temperature));
            }
            if stage.contrastive_weight == 0.0 && (stage.xtr_weight == 0.0 || stage.xtr_pairs == 0) {
                return refuse("stages.contrastive_weight", format!("stage {} has no objective", stage.name));
            }
        }
        Ok(())
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
    fn the_longest_fitting_name_decides_a_weight() {
        let weights = [("mw-*".to_owned(), 0.3), ("mw-core2".to_owned(), 0.2), ("bible*".to_owned(), 0.1)].into();
        let corpora = CorporaConfig { default: 1.0, weights };
        for (name, weight) in [("mw-echo", 0.3), ("mw-core2", 0.2), ("bible", 0.1), ("bible-pd", 0.1), ("ntrex", 1.0)] {
            assert_eq!(corpora.weight(name), weight, "{name}");
        }
    }

    #[test]
    fn unknown_keys_are_refused() {
        assert!(toml::from_str::<SamplingConfig>("pair_exponent = 0.6\nenglish_share = 0.5\nspeed = 9").is_err());
    }
}
