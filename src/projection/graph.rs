//! The fuzzy graph of neighbors (UMAP, sections 3.1 and 4.1, algorithms 2 and 3): how surely two points belong together, measured
//! for each point by how far its own neighbors are, so that dense and thin regions count alike.

use crate::mining::NeighborLists;

/// What is nearer counts as equal: rounding alone makes such distances.
const EQUAL: f32 = 1e-6;
/// Halvings of the range in which the width lies.
const HALVINGS: usize = 64;
/// How well the width must fit.
const TOLERANCE: f64 = 1e-5;
/// The least width of a point, as a part of the mean distance of its neighbors.
const WIDTH_MIN: f64 = 1e-3;

/// Which points belong together, and how surely.
#[derive(Debug, Clone, PartialEq)]
pub struct FuzzyGraph {
    pub(super) points: usize,
    pub(super) edges: Vec<Edge>,
}

/// Two points, the one of the lower number first, and how surely they belong together: above 0, at most 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Edge {
    pub(super) ends: (u32, u32),
    pub(super) weight: f32,
}

/// How a point looks at distances (algorithm 3).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scale {
    /// The distance of the nearest one that is not equal, ρ: that far, others belong to it for sure.
    near: f64,
    /// Beyond that, how slowly the surety falls, σ.
    width: f64,
}

impl FuzzyGraph {
    /// Of neighbors with their cosines.
    pub fn of(lists: &NeighborLists) -> Self {
        let all = (0..lists.len()).flat_map(|point| lists.of(point)).map(|(_, cosine)| f64::from(distance(cosine)));
        let mean_of_all = all.sum::<f64>() / lists.filled().max(1) as f64;
        let mut edges = Vec::with_capacity(lists.filled());
        for point in 0..lists.len() {
            let distances: Vec<f32> = lists.of(point).map(|(_, cosine)| distance(cosine)).collect();
            let scale = Scale::of(&distances, mean_of_all);
            for ((other, _), distance) in lists.of(point).zip(&distances) {
                let point = point as u32;
                edges.push(Edge { ends: (point.min(other), point.max(other)), weight: scale.surety(*distance) as f32 });
            }
        }
        edges.sort_unstable_by_key(|edge| edge.ends);
        // The union of what the two points say (section 3.1): one of them is right, or the other.
        edges.dedup_by(|next, kept| {
            let same = next.ends == kept.ends;
            if same {
                kept.weight = kept.weight + next.weight - kept.weight * next.weight;
            }
            same
        });
        Self { points: lists.len(), edges }
    }
}

impl Scale {
    /// Of a point with these distances, nearest first: the sureties of its neighbors add up to the binary logarithm of their
    /// number.
    fn of(distances: &[f32], mean_of_all: f64) -> Self {
        let near = distances.iter().copied().find(|distance| *distance > 0.0).map_or(0.0, f64::from);
        let target = (distances.len().max(1) as f64).log2();
        let mut scale = Self { near, width: 1.0 };
        let (mut low, mut high) = (0.0, f64::INFINITY);
        for _ in 0..HALVINGS {
            let sum: f64 = distances.iter().map(|distance| scale.surety(*distance)).sum();
            if (sum - target).abs() < TOLERANCE {
                break;
            }
            if sum > target {
                high = scale.width;
            } else {
                low = scale.width;
            }
            scale.width = if high.is_finite() { f64::midpoint(low, high) } else { scale.width * 2.0 };
        }
        let mean = distances.iter().map(|distance| f64::from(*distance)).sum::<f64>() / distances.len().max(1) as f64;
        scale.width = scale.width.max(WIDTH_MIN * if near > 0.0 { mean } else { mean_of_all });
        scale
    }

    fn surety(self, distance: f32) -> f64 {
        let beyond = f64::from(distance) - self.near;
        if beyond <= 0.0 { 1.0 } else { (-beyond / self.width).exp() }
    }
}

fn distance(cosine: f32) -> f32 {
    let distance = 1.0 - cosine;
    if distance < EQUAL { 0.0 } else { distance }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sureties_of_neighbors_add_up_to_the_logarithm_of_their_number() {
        for distances in [vec![0.1_f32, 0.2, 0.3, 0.4], vec![0.0, 0.0, 0.05, 0.9, 1.0, 1.1, 1.2, 1.3], vec![0.5; 8]] {
            let scale = Scale::of(&distances, 0.3);
            let sum: f64 = distances.iter().map(|distance| scale.surety(*distance)).sum();
            let equal = distances.iter().filter(|distance| f64::from(**distance) <= scale.near).count() as f64;
            let target = (distances.len() as f64).log2().max(equal);
            assert!((sum - target).abs() < 1e-3, "{distances:?}: {sum} {target}");
        }
        // Worked by hand: of two neighbors the nearer one is enough. After five halvings the other one adds e⁻¹⁶, which is nothing.
        assert_eq!(Scale::of(&[0.25, 0.75], 0.3), Scale { near: 0.25, width: 0.031_25 });
        assert_eq!(Scale::of(&[0.0, 0.0], 0.4), Scale { near: 0.0, width: 0.4e-3 });
    }

    #[test]
    fn two_points_belong_together_when_either_says_so() {
        let mut lists = NeighborLists::new(3, 3, 2).unwrap();
        lists.put(0, &[(1, 0.9), (2, 0.8)]).unwrap();
        lists.put(1, &[(0, 0.9), (2, 0.5)]).unwrap();
        lists.put(2, &[(0, 0.8), (1, 0.5)]).unwrap();
        let graph = FuzzyGraph::of(&lists);
        let ends: Vec<(u32, u32)> = graph.edges.iter().map(|edge| edge.ends).collect();
        assert_eq!((graph.points, ends), (3, vec![(0, 1), (0, 2), (1, 2)]));
        // 0 and 1 are the nearest of each other; 2 is sure of 0, which then counts whatever 0 thinks of 2.
        assert!((graph.edges[0].weight - 1.0).abs() < 1e-5 && (graph.edges[1].weight - 1.0).abs() < 1e-5, "{graph:?}");
        assert!(graph.edges[2].weight < 1e-4, "{graph:?}");
    }

    #[test]
    fn equal_points_are_surely_together() {
        let mut lists = NeighborLists::new(3, 3, 2).unwrap();
        for point in 0..3 {
            let others: Vec<(u32, f32)> = (0..3).filter(|other| *other != point).map(|other| (other, 0.999_999_9)).collect();
            lists.put(point, &others).unwrap();
        }
        assert!(FuzzyGraph::of(&lists).edges.iter().all(|edge| edge.weight == 1.0));
    }
}
