//! Clusters of near-duplicates and of translations, from scored pairs.

use super::MiningError;
use super::error::{check_below, check_range};
use super::neighbors::SENTENCES_MAX;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DuplicateRule {
    pub score_min: f32,
    /// Maximum sentences per cluster, at least 2. Near-duplicates can form chains whose ends are not similar. A pair that would
    /// make a cluster larger than this is ignored.
    pub size_max: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster<'a> {
    /// The representative: the sentence with the highest sum of scores with the others, or the lowest in a tie.
    pub representative: u32,
    /// All sentences, ascending; at least 2.
    pub members: &'a [u32],
}

/// All clusters, in the order of their lowest members. They take 4 bytes per member and 12 per cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Clusters {
    members: Vec<u32>,
    /// [clusters + 1] The start of each cluster.
    starts: Vec<usize>,
    /// [clusters]
    representatives: Vec<u32>,
    /// Number of pairs that would have made a cluster too large.
    pub refused: usize,
}

impl Clusters {
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Cluster<'_>> {
        let members = self.starts.windows(2).map(|bounds| &self.members[bounds[0]..bounds[1]]);
        self.representatives.iter().zip(members).map(|(&representative, members)| Cluster { representative, members })
    }
}

/// Clusters `sentences` sentences by pairs (one, other, score), in any order. A pair may occur twice, also reversed.
///
/// Sentences are numbered from 0 across all sets: those of a second language follow those of the first. Pairs are joined in
/// descending order of score, then by lower numbers, so their input order does not matter. Takes 12 bytes per pair that counts,
/// up to 36 while their list grows, and 20 per sentence.
pub fn cluster(
    sentences: usize,
    pairs: impl IntoIterator<Item = (u32, u32, f32)>,
    rule: &DuplicateRule,
) -> Result<Clusters, MiningError> {
    check_range("sentences", sentences, 0, SENTENCES_MAX)?;
    check_range("size_max", rule.size_max as usize, 2, u32::MAX as usize)?;
    let mut joined = Vec::new();
    for (first, second, score) in pairs {
        check_below("sentence", first.max(second), sentences)?;
        if !score.is_finite() {
            return Err(MiningError::NotFinite { first, second });
        }
        if first != second && score >= rule.score_min {
            joined.push((first.min(second), first.max(second), score));
        }
    }
    joined.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(b.2.total_cmp(&a.2)));
    joined.dedup_by_key(|pair| (pair.0, pair.1));
    joined.sort_unstable_by(|a, b| b.2.total_cmp(&a.2).then((a.0, a.1).cmp(&(b.0, b.1))));
    let mut forest = Forest::new(sentences);
    let refused = joined.iter().filter(|pair| !forest.join(pair.0, pair.1, rule.size_max)).count();
    let mut centrality = vec![0.0_f64; sentences];
    for &(first, second, score) in &joined {
        // A refused pair connects two clusters, so it does not count toward the centrality in either.
        if forest.root(first) == forest.root(second) {
            centrality[first as usize] += f64::from(score);
            centrality[second as usize] += f64::from(score);
        }
    }
    Ok(collect(&mut forest, &centrality, refused))
}

fn collect(forest: &mut Forest, centrality: &[f64], refused: usize) -> Clusters {
    let sentences = centrality.len() as u32;
    // Cluster numbers by root, in the order of the lowest members.
    let mut cluster_of = vec![u32::MAX; centrality.len()];
    let mut sizes = Vec::new();
    for sentence in 0..sentences {
        let root = forest.root(sentence) as usize;
        if forest.sizes[root] > 1 && cluster_of[root] == u32::MAX {
            cluster_of[root] = sizes.len() as u32;
            sizes.push(forest.sizes[root] as usize);
        }
    }
    let mut starts = vec![0; sizes.len() + 1];
    for (number, size) in sizes.iter().enumerate() {
        starts[number + 1] = starts[number] + size;
    }
    let mut members = vec![0; starts[sizes.len()]];
    let (mut filled, mut representatives) = (starts.clone(), vec![u32::MAX; sizes.len()]);
    for sentence in 0..sentences {
        let cluster = cluster_of[forest.root(sentence) as usize] as usize;
        let Some(next) = filled.get_mut(cluster) else { continue };
        members[*next] = sentence;
        *next += 1;
        let best = &mut representatives[cluster];
        if *best == u32::MAX || centrality[sentence as usize] > centrality[*best as usize] {
            *best = sentence;
        }
    }
    Clusters { members, starts, representatives, refused }
}

/// Union-find with union by size and path halving: 8 bytes per sentence.
struct Forest {
    parents: Vec<u32>,
    /// Sizes of the trees, at their roots.
    sizes: Vec<u32>,
}

impl Forest {
    fn new(sentences: usize) -> Self {
        Self { parents: (0..sentences as u32).collect(), sizes: vec![1; sentences] }
    }

    fn root(&mut self, mut sentence: u32) -> u32 {
        while self.parents[sentence as usize] != sentence {
            let grandparent = self.parents[self.parents[sentence as usize] as usize];
            self.parents[sentence as usize] = grandparent;
            sentence = grandparent;
        }
        sentence
    }

    /// Joins the trees of two sentences. Returns whether they are in one tree afterwards.
    fn join(&mut self, one: u32, other: u32, size_max: u32) -> bool {
        let (one, other) = (self.root(one), self.root(other));
        if one == other {
            return true;
        }
        let sizes = &mut self.sizes;
        let together = u64::from(sizes[one as usize]) + u64::from(sizes[other as usize]);
        if together > u64::from(size_max) {
            return false;
        }
        let (large, small) = if sizes[one as usize] >= sizes[other as usize] { (one, other) } else { (other, one) };
        sizes[large as usize] = together as u32;
        self.parents[small as usize] = large;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULE: DuplicateRule = DuplicateRule { score_min: 0.8, size_max: 100 };

    #[track_caller]
    fn check(pairs: &[(u32, u32, f32)], rule: &DuplicateRule, expect: &[(u32, &[u32])]) -> usize {
        let clusters = cluster(10, pairs.iter().copied(), rule).unwrap();
        assert_eq!(clusters.iter().map(|cluster| (cluster.representative, cluster.members)).collect::<Vec<_>>(), expect);
        clusters.refused
    }

    #[test]
    fn connected_sentences_form_one_cluster() {
        // 7 has 0.9 + 0.85, more than 2 and 4. The score of 5-6 is too low. 9 and 1 have equal sums, so the lower one
        // represents them.
        let pairs = [(7, 2, 0.9), (4, 7, 0.85), (5, 6, 0.79), (9, 1, 0.8), (3, 3, 1.0)];
        check(&pairs, &RULE, &[(1, &[1, 9]), (7, &[2, 4, 7])]);
        check(&[], &RULE, &[]);
    }

    #[test]
    fn a_pair_given_twice_counts_once_with_its_higher_score() {
        // 1 has 0.9 + 0.85, 0 has 0.9 and 2 has 0.85. Counting 0-1 twice would not change the center, but counting 2-3 twice
        // would.
        let pairs = [(0, 1, 0.9), (1, 0, 0.81), (1, 2, 0.85), (2, 3, 0.8), (3, 2, 0.82), (2, 3, 0.81)];
        // 1: 1.75; 2: 0.85 + 0.82 = 1.67.
        check(&pairs, &RULE, &[(1, &[0, 1, 2, 3])]);
    }

    #[test]
    fn clusters_stop_growing_at_the_maximum_size() {
        // 1-2 joins first, then 3-4. 2-3 would make four, but the maximum is three. 0-1 makes three.
        let pairs = [(0, 1, 0.81), (2, 3, 0.85), (1, 2, 0.99), (3, 4, 0.9)];
        let refused = check(&pairs, &DuplicateRule { size_max: 3, ..RULE }, &[(1, &[0, 1, 2]), (3, &[3, 4])]);
        assert_eq!(refused, 1);
        assert_eq!(check(&pairs, &RULE, &[(2, &[0, 1, 2, 3, 4])]), 0);
    }

    #[test]
    fn bad_pairs_and_sizes_are_refused() {
        let refused = |pair, rule: &DuplicateRule| cluster(2, [pair], rule).unwrap_err().to_string();
        assert_eq!(refused((0, 2, 0.9), &RULE), "sentence: expected less than 2, got 2");
        assert_eq!(refused((0, 1, f32::NAN), &RULE), "the score of 0 and 1 is not finite");
        assert_eq!(refused((0, 1, 0.9), &DuplicateRule { size_max: 1, ..RULE }), "size_max: expected 2 to 4294967295, got 1");
        assert!(cluster(0, [(0, 0, 1.0)], &RULE).is_err());
    }

    proptest! {
        #[test]
        fn clusters_do_not_depend_on_the_order_of_pairs(
            pairs in prop::collection::vec((0_u32..12, 0_u32..12, 6_u8..10), 0..30).prop_flat_map(|pairs| (Just(pairs.clone()), Just(pairs).prop_shuffle())),
            size_max in 2_u32..6,
        ) {
            let rule = DuplicateRule { size_max, ..RULE };
            let found = |pairs: &[(u32, u32, u8)]| {
                cluster(12, pairs.iter().map(|&(a, b, tenths)| (a, b, f32::from(tenths) / 10.0)), &rule).unwrap()
            };
            let clusters = found(&pairs.0);
            let swapped: Vec<(u32, u32, u8)> = pairs.1.iter().map(|&(a, b, tenths)| (b, a, tenths)).collect();
            prop_assert_eq!(&clusters, &found(&swapped));
            let mut seen = std::collections::BTreeSet::new();
            for cluster in clusters.iter() {
                prop_assert!((2..=size_max as usize).contains(&cluster.members.len()));
                prop_assert!(cluster.members.is_sorted() && cluster.members.contains(&cluster.representative));
                prop_assert!(cluster.members.iter().all(|member| seen.insert(*member)));
            }
            // If clusters may be large enough, both sentences of a pair that counts are in one cluster.
            let all = cluster(12, pairs.0.iter().map(|&(a, b, tenths)| (a, b, f32::from(tenths) / 10.0)), &RULE).unwrap();
            for &(a, b, tenths) in pairs.0.iter().filter(|pair| pair.0 != pair.1 && f32::from(pair.2) / 10.0 >= RULE.score_min) {
                prop_assert!(all.iter().any(|cluster| cluster.members.contains(&a) && cluster.members.contains(&b)), "{} {} {}", a, b, tenths);
            }
        }
    }
}
