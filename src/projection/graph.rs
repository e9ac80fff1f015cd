//! The fuzzy neighbor graph (UMAP, sections 3.1 and 4.1, algorithms 2 and 3). An edge's weight is the membership strength of
//! two points. Each point scales distances by those of its own neighbors, so dense and sparse regions are treated alike.

use crate::mining::NeighborLists;

/// Vectors closer than this count as equal, because rounding alone causes such distances.
const EQUAL: f32 = 1e-6;
/// Maximum bisection steps to find the width.
const HALVINGS: usize = 64;
/// Tolerance of the bisection.
const TOLERANCE: f64 = 1e-5;
/// Minimum width of a point, relative to the mean distance of its neighbors.
const WIDTH_MIN: f64 = 1e-3;

/// The edges between points, with their membership strengths.
#[derive(Debug, Clone, PartialEq)]
pub struct FuzzyGraph {
    pub(super) points: usize,
    pub(super) edges: Vec<Edge>,
}

/// Two points, the lower number first, and their membership strength: above 0, at most 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Edge {
    pub(super) ends: (u32, u32),
    pub(super) weight: f32,
}

/// The distance scale of a point (algorithm 3).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scale {
    /// ρ: the distance of the nearest neighbor that is not equal. Points up to this distance have membership strength 1.
    near: f64,
    /// σ: how slowly the membership strength falls beyond that.
    width: f64,
}

impl FuzzyGraph {
    /// Builds the graph from neighbor lists with cosines.
    pub fn of(lists: &NeighborLists) -> Self {
        let all = (0..lists.len()).flat_map(|point| lists.of(point)).map(|(_, cosine)| f64::from(distance(cosine)));
        let mean_of_all = all.sum::<f64>() / lists.neighbor_count().max(1) as f64;
        let mut edges = Vec::with_capacity(lists.neighbor_count());
        for point in 0..lists.len() {
            let distances: Vec<f32> = lists.of(point).map(|(_, cosine)| distance(cosine)).collect();
            let scale = Scale::of(&distances, mean_of_all);
            for ((other, _), distance) in lists.of(point).zip(&distances) {
                let point = point as u32;
                edges.push(Edge {
                    ends: (point.min(other), point.max(other)),
                    weight: scale.membership_strength(*distance) as f32,
                });
            }
        }
        edges.sort_unstable_by_key(|edge| edge.ends);
        // The probabilistic union of both directions (section 3.1).
        edges.dedup_by(|next, edge| {
            let same = next.ends == edge.ends;
            if same {
                edge.weight = edge.weight + next.weight - edge.weight * next.weight;
            }
            same
        });
        Self { points: lists.len(), edges }
    }
}

impl Scale {
    /// Finds the scale of a point with these distances, nearest first, so that the membership strengths of its neighbors sum to
    /// the binary logarithm of their number.
    fn of(distances: &[f32], mean_of_all: f64) -> Self {
        let near = distances.iter().copied().find(|distance| *distance > 0.0).map_or(0.0, f64::from);
        let target = (distances.len().max(1) as f64).log2();
        let mut scale = Self { near, width: 1.0 };
        let (mut low, mut high) = (0.0, f64::INFINITY);
        for _ in 0..HALVINGS {
            let sum: f64 = distances.iter().map(|distance| scale.membership_strength(*distance)).sum();
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

    fn membership_strength(self, distance: f32) -> f64 {
        let excess = f64::from(distance) - self.near;
        if excess <= 0.0 { 1.0 } else { (-excess / self.width).exp() }
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
    fn membership_strengths_sum_to_the_log_of_the_neighbor_count() {
        for distances in [vec![0.1_f32, 0.2, 0.3, 0.4], vec![0.0, 0.0, 0.05, 0.9, 1.0, 1.1, 1.2, 1.3], vec![0.5; 8]] {
            let scale = Scale::of(&distances, 0.3);
            let sum: f64 = distances.iter().map(|distance| scale.membership_strength(*distance)).sum();
            let equal = distances.iter().filter(|distance| f64::from(**distance) <= scale.near).count() as f64;
            let target = (distances.len() as f64).log2().max(equal);
            assert!((sum - target).abs() < 1e-3, "{distances:?}: {sum} {target}");
        }
        // Computed by hand: the nearer of two neighbors already contributes 1. After five bisection steps, the other one adds
        // only e⁻¹⁶.
        assert_eq!(Scale::of(&[0.25, 0.75], 0.3), Scale { near: 0.25, width: 0.031_25 });
        assert_eq!(Scale::of(&[0.0, 0.0], 0.4), Scale { near: 0.0, width: 0.4e-3 });
    }

    #[test]
    fn an_edge_is_strong_if_either_point_is_the_others_nearest() {
        let mut lists = NeighborLists::new(3, 3, 2).unwrap();
        lists.put(0, &[(1, 0.9), (2, 0.8)]).unwrap();
        lists.put(1, &[(0, 0.9), (2, 0.5)]).unwrap();
        lists.put(2, &[(0, 0.8), (1, 0.5)]).unwrap();
        let graph = FuzzyGraph::of(&lists);
        let ends: Vec<(u32, u32)> = graph.edges.iter().map(|edge| edge.ends).collect();
        assert_eq!((graph.points, ends), (3, vec![(0, 1), (0, 2), (1, 2)]));
        // 0 and 1 are each other's nearest. 0 is the nearest of 2, so their edge has weight 1, whatever the strength from 0 to
        // 2.
        assert!((graph.edges[0].weight - 1.0).abs() < 1e-5 && (graph.edges[1].weight - 1.0).abs() < 1e-5, "{graph:?}");
        assert!(graph.edges[2].weight < 1e-4, "{graph:?}");
    }

    #[test]
    fn equal_points_have_edges_of_weight_one() {
        let mut lists = NeighborLists::new(3, 3, 2).unwrap();
        for point in 0..3 {
            let others: Vec<(u32, f32)> = (0..3).filter(|other| *other != point).map(|other| (other, 0.999_999_9)).collect();
            lists.put(point, &others).unwrap();
        }
        assert!(FuzzyGraph::of(&lists).edges.iter().all(|edge| edge.weight == 1.0));
    }
}
