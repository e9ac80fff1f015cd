//! The layout of a fuzzy graph on the plane (UMAP, section 3.2, algorithm 5): connected points attract each other, and randomly
//! sampled points repel each other, with a step size that decreases with each epoch.

use super::Point;
use super::graph::{Edge, FuzzyGraph};
use crate::classify::random::Random;

/// The parameters of the curve 1 / (1 + a·d^(2b)), fitted by least squares to definition 11: 1 up to a distance of 0.1
/// (min_dist), then exponential decay, for distances up to 3.
const A: f32 = 1.576_943_5;
const B: f32 = 0.895_060_9;
/// Negative samples: the number of random points that repel a point each time an edge attracts it.
const NEGATIVE_SAMPLES: usize = 5;
/// Maximum distance that a point moves along each axis in one step.
const MOVE_MAX: f32 = 4.0;
/// Keeps the repulsion of coincident points finite.
const REPULSION_MIN: f32 = 1e-3;
/// Points start within this distance of the origin along each axis.
const START: f32 = 10.0;
/// Separates points that start at the same position.
const JITTER: f32 = 1e-3;
const SEED: u64 = 2;

/// A layout in progress.
pub struct Layout {
    points: Vec<Point>,
    /// Edges with their weights relative to the largest: the share of epochs in which an edge attracts.
    edges: Vec<Edge>,
    epochs: usize,
    epoch: usize,
    random: Random,
}

/// Returns the number of epochs for this number of points.
pub fn epochs(points: usize) -> usize {
    if points <= 10_000 { 500 } else { 200 }
}

impl Layout {
    /// Initializes the points of the graph to `start`, scaled.
    pub fn new(graph: FuzzyGraph, start: &[Point]) -> Self {
        debug_assert_eq!(graph.points, start.len(), "each point has a place");
        let mut random = Random::new(SEED);
        let widest = start.iter().flatten().fold(0.0_f32, |widest, value| widest.max(value.abs()));
        let scale = if widest > 0.0 { START / widest } else { 0.0 };
        let points = start.iter().map(|point| point.map(|value| value * scale + random.within(JITTER))).collect();
        let epochs = epochs(graph.points);
        let heaviest = graph.edges.iter().fold(0.0_f32, |heaviest, edge| heaviest.max(edge.weight));
        let mut edges = graph.edges;
        edges.iter_mut().for_each(|edge| edge.weight /= heaviest);
        // Lighter edges would never attract.
        edges.retain(|edge| edge.weight * epochs as f32 >= 1.0);
        Self { points, edges, epochs, epoch: 0, random }
    }

    /// Runs one epoch. Returns whether there are more.
    pub fn step(&mut self) -> bool {
        let Self { points, edges, epochs, epoch, random } = self;
        if *epoch >= *epochs {
            return false;
        }
        let rate = 1.0 - *epoch as f32 / *epochs as f32;
        for edge in edges {
            if !is_due(edge.weight, *epoch) {
                continue;
            }
            for (end, other_end) in [edge.ends, (edge.ends.1, edge.ends.0)] {
                let (end, other_end) = (end as usize, other_end as usize);
                let pull = attraction(points[end], points[other_end]);
                shift(&mut points[end], pull, -rate);
                shift(&mut points[other_end], pull, rate);
                for _ in 0..NEGATIVE_SAMPLES {
                    // The sampling is nearly uniform, because there are far fewer than 2³² points.
                    let drawn = (((random.next() >> 32) * points.len() as u64) >> 32) as usize;
                    let push = repulsion(points[end], points[drawn]);
                    shift(&mut points[end], push, rate);
                }
            }
        }
        *epoch += 1;
        *epoch < *epochs
    }

    /// Returns the points, scaled equally along both axes to between -1 and 1, so that the longer side fills this range.
    pub fn into_points(self) -> Vec<Point> {
        let mut points = self.points;
        let range = |axis: usize| {
            let values = points.iter().map(|point| point[axis]);
            values.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
        };
        let ranges = [range(0), range(1)];
        let half = ranges.iter().fold(0.0_f32, |half, (low, high)| half.max((high - low) / 2.0));
        for point in &mut points {
            for (value, (low, high)) in point.iter_mut().zip(ranges) {
                let centered = *value - f32::midpoint(low, high);
                *value = if half > 0.0 { (centered / half).clamp(-1.0, 1.0) } else { 0.0 };
            }
        }
        points
    }
}

/// Whether an edge with this weight attracts in this epoch. It does in its share of the epochs, evenly distributed.
fn is_due(weight: f32, epoch: usize) -> bool {
    let before = epoch as f32;
    (weight * before).floor() != (weight * (before + 1.0)).floor()
}

/// Returns the attraction between `point` and `other`: the gradient of the logarithm of the curve, with reversed sign.
fn attraction(point: Point, other: Point) -> Point {
    let (difference, squared) = difference(point, other);
    if squared == 0.0 {
        return [0.0; 2];
    }
    let power = squared.powf(B);
    let factor = 2.0 * A * B * power / squared / (1.0 + A * power);
    difference.map(|value| (factor * value).clamp(-MOVE_MAX, MOVE_MAX))
}

/// Returns the displacement of `point` away from `drawn`: the gradient of the logarithm of 1 minus the curve.
fn repulsion(point: Point, drawn: Point) -> Point {
    let (difference, squared) = difference(point, drawn);
    // The point itself, or one at the same position: the direction is undefined.
    if squared == 0.0 {
        return [0.0; 2];
    }
    let factor = 2.0 * B / ((REPULSION_MIN + squared) * (1.0 + A * squared.powf(B)));
    difference.map(|value| (factor * value).clamp(-MOVE_MAX, MOVE_MAX))
}

fn shift(point: &mut Point, by: Point, rate: f32) {
    point.iter_mut().zip(by).for_each(|(value, by)| *value += rate * by);
}

fn difference(one: Point, other: Point) -> (Point, f32) {
    let difference = [one[0] - other[0], one[1] - other[1]];
    (difference, difference[0] * difference[0] + difference[1] * difference[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_constants_minimize_the_squared_error() {
        let error = |a: f64, b: f64| -> f64 {
            let loss_at = |step: u32| {
                let distance = f64::from(step) * 3.0 / 299.0;
                let wanted = if distance <= 0.1 { 1.0 } else { (0.1 - distance).exp() };
                (1.0 / (1.0 + a * distance.powf(2.0 * b)) - wanted).powi(2)
            };
            (0..300).map(loss_at).sum()
        };
        let (a, b) = (f64::from(A), f64::from(B));
        for change in [1e-3, -1e-3] {
            assert!(error(a, b) < error(a + change, b) && error(a, b) < error(a, b + change));
        }
    }

    #[test]
    fn attraction_and_repulsion_match_finite_difference_gradients() {
        // Compares with finite differences of ln(1 / (1 + a·d^(2b))) and of ln(1 - 1 / (1 + a·d^(2b))) along the first axis.
        let curve = |x: f64| 1.0 / (1.0 + f64::from(A) * (x * x + 0.25).powf(f64::from(B)));
        let slope = |of: &dyn Fn(f64) -> f64, x: f64| (of(x + 1e-5) - of(x - 1e-5)) / 2e-5;
        for x in [-1.5, -0.2, 0.3, 0.9, 2.5] {
            let (one, other) = ([x as f32, 0.5], [0.0, 0.0]);
            let pull = slope(&|x| -curve(x).ln(), x);
            assert!((f64::from(attraction(one, other)[0]) - pull).abs() < 1e-3, "{x}: {pull}");
            let push = slope(&|x| (1.0 - curve(x)).ln(), x);
            let got = f64::from(repulsion(one, other)[0]);
            // `REPULSION_MIN` makes it weaker.
            assert!((got - push).abs() < 5e-3 * (1.0 + push.abs()), "{x}: {got} {push}");
        }
        assert_eq!((attraction([0.1; 2], [0.1; 2]), repulsion([0.1; 2], [0.1; 2])), ([0.0; 2], [0.0; 2]));
        assert_eq!(repulsion([0.01, 0.0], [0.0, 0.0])[0], MOVE_MAX);
    }

    #[test]
    fn a_new_layout_rescales_weights_and_points_and_drops_light_edges() {
        let edge = |other: u32, weight: f32| Edge { ends: (0, other), weight };
        let graph = FuzzyGraph { points: 4, edges: vec![edge(1, 0.5), edge(2, 0.25), edge(3, 0.000_5)] };
        let layout = Layout::new(graph, &[[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]);
        assert_eq!(layout.edges.iter().map(|edge| edge.weight).collect::<Vec<_>>(), [1.0, 0.5]);
        assert!(layout.points.iter().flatten().all(|value| value.abs() < START + 2.0 * JITTER));
        assert!((layout.points[2][1] - START).abs() < 2.0 * JITTER);
    }

    #[test]
    fn an_edge_is_due_in_its_share_of_the_epochs_evenly_distributed() {
        let due = |weight: f32| (0..500).filter(|epoch| is_due(weight, *epoch)).collect::<Vec<_>>();
        assert_eq!((due(1.0).len(), due(0.5).len(), due(0.01).len()), (500, 250, 5));
        assert!(due(0.25).windows(2).all(|pair| pair[1] - pair[0] == 4));
    }
}
