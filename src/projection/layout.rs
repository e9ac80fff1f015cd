//! Points of a fuzzy graph moved until near ones are near (UMAP, section 3.2, algorithm 5): those that belong together attract
//! each other, and drawn ones repel, with a step that grows smaller from epoch to epoch.

use super::Point;
use super::graph::{Edge, FuzzyGraph};
use crate::classify::random::Random;

/// The curve 1 / (1 + a·d^(2b)), fitted by least squares to definition 11: 1 up to a distance of 0.1 (min_dist), then falling
/// exponentially, for distances up to 3.
const A: f32 = 1.576_943_5;
const B: f32 = 0.895_060_9;
/// Drawn points that repel a point whenever one attracts it.
const REPELLING: usize = 5;
/// How far a point moves in one step, at most, along each axis.
const MOVE_MAX: f32 = 4.0;
/// Keeps the repulsion of points in one place finite.
const REPULSION_MIN: f32 = 1e-3;
/// Points start within this distance of the middle, along each axis.
const START: f32 = 10.0;
/// Sets points apart that start in one place.
const JITTER: f32 = 1e-3;
const SEED: u64 = 2;

/// Points that move.
pub struct Layout {
    points: Vec<Point>,
    /// Their weights relative to the largest one: the part of the epochs in which they attract.
    edges: Vec<Edge>,
    epochs: usize,
    epoch: usize,
    random: Random,
}

/// Epochs that so many points take.
pub fn epochs(points: usize) -> usize {
    if points <= 10_000 { 500 } else { 200 }
}

impl Layout {
    /// Begins with the points of the graph at `start`, scaled.
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
        // The others would never have their turn.
        edges.retain(|edge| edge.weight * epochs as f32 >= 1.0);
        Self { points, edges, epochs, epoch: 0, random }
    }

    /// Does one epoch; says whether there are more.
    pub fn step(&mut self) -> bool {
        let Self { points, edges, epochs, epoch, random } = self;
        if *epoch >= *epochs {
            return false;
        }
        let (before, rate) = (*epoch as f32, 1.0 - *epoch as f32 / *epochs as f32);
        for edge in edges {
            // So often in all, evenly over the epochs.
            if (edge.weight * before).floor() == (edge.weight * (before + 1.0)).floor() {
                continue;
            }
            for (one, other) in [edge.ends, (edge.ends.1, edge.ends.0)] {
                let (one, other) = (one as usize, other as usize);
                let pull = attraction(points[one], points[other]);
                for axis in 0..2 {
                    points[one][axis] -= rate * pull[axis];
                    points[other][axis] += rate * pull[axis];
                }
                for _ in 0..REPELLING {
                    // Which of so few points it is is hardly less likely for some than for others.
                    let drawn = ((random.next() >> 32) * points.len() as u64 >> 32) as usize;
                    let push = repulsion(points[one], points[drawn]);
                    for axis in 0..2 {
                        points[one][axis] += rate * push[axis];
                    }
                }
            }
        }
        *epoch += 1;
        *epoch < *epochs
    }

    /// The points, scaled alike along both axes so that they lie between -1 and 1 and the longer side fills that.
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

/// How far `one` is to move away from where it is, toward `other`: the slope of the curve's logarithm.
fn attraction(one: Point, other: Point) -> Point {
    let (difference, squared) = difference(one, other);
    if squared == 0.0 {
        return [0.0; 2];
    }
    let power = squared.powf(B);
    let factor = 2.0 * A * B * power / squared / (1.0 + A * power);
    difference.map(|value| (factor * value).clamp(-MOVE_MAX, MOVE_MAX))
}

/// How far `one` is to move away from `drawn`: the slope of the logarithm of what the curve leaves to 1.
fn repulsion(one: Point, drawn: Point) -> Point {
    let (difference, squared) = difference(one, drawn);
    // Itself, or one in its place, to which every direction is away.
    if squared == 0.0 {
        return [0.0; 2];
    }
    let factor = 2.0 * B / ((REPULSION_MIN + squared) * (1.0 + A * squared.powf(B)));
    difference.map(|value| (factor * value).clamp(-MOVE_MAX, MOVE_MAX))
}

fn difference(one: Point, other: Point) -> (Point, f32) {
    let difference = [one[0] - other[0], one[1] - other[1]];
    (difference, difference[0] * difference[0] + difference[1] * difference[1])
}
