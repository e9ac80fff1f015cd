//! Mining of translation pairs from two sets of sentences (EMS, 2024, section V-C), and clusters of near-duplicates. Pure
//! computation: texts, embeddings and the search for neighbors through an index belong to others.
//!
//! Memory for n sentences of the first language, m of the second and k neighbors: the lists of both directions take 8k + 1 bytes
//! per sentence and the means 8; `propose` takes 13 bytes per sentence, and the groups of equal texts 4. At k = 4 these are 58
//! bytes per sentence, at k = 16 they are 154: `bytes_needed`.

pub mod blocks;
pub mod candidates;
pub mod duplicates;
pub mod error;
pub mod margin;
pub mod neighbors;
mod rounded;
pub mod texts;
pub mod threshold;

pub use blocks::{BLOCK_SENTENCES, Block, Comparison, Nearest};
pub use candidates::{Strategy, bytes_needed, candidate_pairs, one_to_one, propose};
pub use duplicates::{Cluster, Clusters, DuplicateRule, cluster};
pub use error::MiningError;
pub use margin::{Candidate, Margin, MarginScores};
pub use neighbors::NeighborLists;
pub use texts::{TextGroups, deduplicate};
pub use threshold::{KnownPairs, PairQuality, ThresholdFit, best_threshold, evaluate};
