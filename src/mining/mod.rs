//! Mining of translation pairs from two sets of sentences (EMS, 2024, section V-C), and clusters of near-duplicates. Pure
//! computation: it does not read texts, compute embeddings or search an index.
//!
//! Memory per sentence with k neighbors: the lists of both directions take 8k + 1 bytes, the means 8, `propose` 13, and the
//! groups of equal texts 4. At k = 4 these are 58 bytes per sentence, at k = 16 they are 154: `bytes_needed`.

pub mod blocks;
pub mod candidates;
pub mod duplicates;
pub mod error;
pub mod loaded;
pub mod margin;
pub mod neighbors;
mod rounded;
pub mod texts;
pub mod threshold;

pub use blocks::{BLOCK_SENTENCES, Block, Comparison, Nearest};
pub use candidates::{Strategy, bytes_needed, one_to_one, propose};
pub use duplicates::{Clusters, DuplicateRule, cluster};
pub use error::MiningError;
pub use loaded::LoadedSet;
pub use margin::{Candidate, Margin, MarginScores};
pub use neighbors::NeighborLists;
pub use texts::TextGroups;
pub use threshold::{KnownPairs, PairQuality, best_threshold, evaluate};
