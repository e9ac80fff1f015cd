//! Clustered vectors, like embeddings of texts, and their exact neighbors. Among uniform random vectors of high dimension all
//! distances are nearly equal, so that no graph finds the nearest and recall means nothing.

#![allow(dead_code, reason = "each benchmark uses its part")]

#[path = "random.rs"]
mod random;

pub use random::Random;

/// Vectors per cluster, on average.
const PER_CLUSTER: usize = 100;
/// Length of the noise around a center, whose own length is about 1.
const SPREAD: f32 = 0.6;

/// Unit vectors around common centers: `count` to store and `queries` to search with.
pub struct Clusters {
    pub stored: Vec<Vec<f32>>,
    pub queries: Vec<Vec<f32>>,
}

impl Clusters {
    pub fn new(count: usize, queries: usize, dimension: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let centers = count.div_ceil(PER_CLUSTER).max(1);
        let deviation = 1.0 / (dimension as f32).sqrt();
        let centers: Vec<Vec<f32>> =
            (0..centers).map(|_| (0..dimension).map(|_| random.normal() * deviation).collect()).collect();
        let mut around = |many: usize| -> Vec<Vec<f32>> {
            let one = |_| {
                let center = &centers[random.below(centers.len())];
                let values: Vec<f32> = center.iter().map(|value| value + SPREAD * deviation * random.normal()).collect();
                let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
                values.iter().map(|value| value / length).collect()
            };
            (0..many).map(one).collect()
        };
        Self { stored: around(count), queries: around(queries) }
    }

    /// For each of the first `queries` queries, the exact `limit` nearest vectors for which `keep` holds.
    pub fn exact(&self, queries: usize, limit: usize, keep: impl Fn(usize) -> bool + Sync) -> Vec<Vec<usize>> {
        let nearest = |query: &Vec<f32>| {
            let mut scores: Vec<(f32, usize)> = (0..self.stored.len())
                .filter(|number| keep(*number))
                .map(|number| (self.stored[number].iter().zip(query).map(|(a, b)| a * b).sum(), number))
                .collect();
            scores.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
            scores.into_iter().take(limit).map(|(_, number)| number).collect()
        };
        self.queries.iter().take(queries).map(nearest).collect()
    }
}

/// The share of the exact neighbors that was found.
pub fn recall(exact: &[Vec<usize>], found: &[Vec<usize>]) -> f64 {
    let hits: usize =
        exact.iter().zip(found).map(|(exact, found)| exact.iter().filter(|number| found.contains(number)).count()).sum();
    hits as f64 / exact.iter().map(Vec::len).sum::<usize>().max(1) as f64
}
