//! Margin scoring of translation candidates (Artetxe and Schwenk, 2019, "Margin-based parallel corpus mining", equations 1 and 2
//! with the margin "ratio"; DuEAM, section 6.2; EMS, sections V-C and V-D).
//!
//! A cosine alone says little across sentences: some are near to everything. So the cosine of a pair is divided by how near the
//! neighbors of both are on the average:
//!
//! score(x, y) = cos(x, y) / (Σ cos(x, z) / 2k over the k nearest z of x + Σ cos(y, z) / 2k over the k nearest z of y)
//!
//! Neighbors are looked for in the other language. Where it has fewer than k sentences, k is their number.

use super::neighbors::Neighbors;

/// k, as Artetxe and Schwenk have it.
pub const NEIGHBORS: usize = 4;

/// A candidate pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Number in the first language.
    pub first: usize,
    /// Number in the second language.
    pub second: usize,
    /// Score; above 1 when the two are nearer to each other than to their neighbors.
    pub score: f64,
}

/// For each sentence of the first language, the one among its nearest neighbors that scores highest; of equal ones the nearest.
pub fn best_forward(forward: &Neighbors, backward: &Neighbors) -> Vec<Pair> {
    best(forward, backward).map(|(first, second, score)| Pair { first, second, score }).collect()
}

/// As `best_forward`, for each sentence of the second language.
pub fn best_backward(forward: &Neighbors, backward: &Neighbors) -> Vec<Pair> {
    best(backward, forward).map(|(second, first, score)| Pair { first, second, score }).collect()
}

fn best(queries: &Neighbors, candidates: &Neighbors) -> impl Iterator<Item = (usize, usize, f64)> {
    let candidate_means: Vec<f64> = (0..candidates.len()).map(|number| candidates.mean_cosine(number)).collect();
    (0..queries.len()).map(move |query| {
        let query_mean = queries.mean_cosine(query);
        let mut best = (query, 0, f64::NEG_INFINITY);
        for neighbor in queries.of(query) {
            let score = ratio(f64::from(neighbor.cosine), query_mean, candidate_means[neighbor.number]);
            if score > best.2 {
                best = (query, neighbor.number, score);
            }
        }
        best
    })
}

/// The margin "ratio". Where the neighborhoods point away from both sentences there is nothing to compare with: 0.
fn ratio(cosine: f64, first_mean: f64, second_mean: f64) -> f64 {
    let neighborhood = (first_mean + second_mean) / 2.0;
    if neighborhood > 0.0 { cosine / neighborhood } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::Embeddings;
    use crate::eval::neighbors::both_ways;

    fn side(rows: &[[f32; 2]]) -> Embeddings {
        Embeddings::normalized(rows.concat(), 2).unwrap()
    }

    #[track_caller]
    fn check(pairs: &[Pair], expect: &[(usize, usize, f64)]) {
        assert_eq!(pairs.len(), expect.len());
        for (pair, &(first, second, score)) in pairs.iter().zip(expect) {
            assert_eq!((pair.first, pair.second), (first, second), "{pairs:?}");
            assert!((pair.score - score).abs() < 1e-6, "{pairs:?}");
        }
    }

    #[test]
    fn scores_are_cosines_over_the_mean_of_both_neighborhoods() {
        //          b0=(1,0)  b1=(0.6,0.8)     mean
        // a0=(1,0)    1        0.6             0.8
        // a1=(0.8,.6) 0.8      0.96            0.88
        // mean        0.9      0.78
        // a0-b0: 1 / ((0.8 + 0.9) / 2) = 1.1764706;   a0-b1: 0.6 / 0.79 = 0.7594937
        // a1-b0: 0.8 / 0.89 = 0.8988764;              a1-b1: 0.96 / 0.83 = 1.1566265
        let (first, second) = (side(&[[1.0, 0.0], [0.8, 0.6]]), side(&[[1.0, 0.0], [0.6, 0.8]]));
        let (forward, backward) = both_ways(&first, &second, 2).unwrap();
        check(&best_forward(&forward, &backward), &[(0, 0, 1.176_470_6), (1, 1, 1.156_626_5)]);
        check(&best_backward(&forward, &backward), &[(0, 0, 1.176_470_6), (1, 1, 1.156_626_5)]);
    }

    #[test]
    fn a_candidate_that_is_near_to_everything_loses_to_a_less_near_one() {
        //             b0=(0.96,0.28)  b1=(0.6,0.8)    mean
        // a0=(0.8,0.6)    0.936          0.96          0.948
        // a1=(0.6,0.8)    0.8            1             0.9
        // a2=(0.28,0.96)  0.5376         0.936         0.7368
        // mean            0.7578667      0.9653333
        // By cosine a0 goes to b1 (0.96 > 0.936). By margin to b0:
        // 0.936 / ((0.948 + 0.7578667) / 2) = 1.0973894 > 0.96 / ((0.948 + 0.9653333) / 2) = 1.0034843.
        let first = side(&[[0.8, 0.6], [0.6, 0.8], [0.28, 0.96]]);
        let (forward, backward) = both_ways(&first, &side(&[[0.96, 0.28], [0.6, 0.8]]), 3).unwrap();
        assert_eq!(forward.of(0).next().unwrap().number, 1);
        let pairs = best_forward(&forward, &backward);
        check(&pairs[..1], &[(0, 0, 1.097_389_4)]);
    }

    #[test]
    fn only_the_nearest_are_candidates() {
        let (forward, backward) = both_ways(&side(&[[1.0, 0.0]]), &side(&[[0.6, 0.8], [0.8, 0.6]]), 1).unwrap();
        // The neighborhood of a0 is b1 alone, that of b0 and b1 is a0. a0-b1: 0.8 / ((0.8 + 0.8) / 2) = 1;
        // a0-b0: 0.6 / ((0.8 + 0.6) / 2) = 0.8571429.
        check(&best_forward(&forward, &backward), &[(0, 1, 1.0)]);
        check(&best_backward(&forward, &backward), &[(0, 0, 0.857_142_9), (0, 1, 1.0)]);
    }

    #[test]
    fn neighborhoods_that_point_away_score_nothing() {
        assert_eq!(ratio(-0.5, -0.5, -0.5), 0.0);
        assert_eq!(ratio(0.5, 0.5, 0.0), 2.0);
    }
}
