//! Tests of all steps in sequence, on vectors with known clusters.

use super::*;
use crate::classify::random::Random;
use crate::domain::embedding::dot;

const DIMENSION: usize = 16;

fn directions(count: usize, length: f32, random: &mut Random) -> Vec<[f32; DIMENSION]> {
    (0..count).map(|_| [(); DIMENSION].map(|()| random.within(length))).collect()
}

fn rows(vectors: &Vectors) -> Vec<Vec<f32>> {
    vectors.blocks().flat_map(|block| block.chunks_exact(vectors.dimension())).map(<[f32]>::to_vec).collect()
}

fn vectors(rows: impl Iterator<Item = [f32; DIMENSION]>) -> Vectors {
    let mut vectors = Vectors::new(DIMENSION);
    rows.for_each(|row| vectors.push(&row));
    vectors
}

/// Returns vectors around the centers of `groups` groups, in round-robin order.
fn clusters(count: usize, groups: usize, spread: f32) -> Vectors {
    let mut random = Random::new(7);
    let centers = directions(groups, 1.0, &mut random);
    let mut noise = Random::new(8);
    vectors((0..count).map(|number| centers[number % groups].map(|value| value + noise.within(spread))))
}

fn project(vectors: Vectors, neighbors: usize) -> Vec<Point> {
    let plane = principal_plane(&vectors, || false).unwrap();
    let neighborhood = Neighborhood::new(vectors, neighbors).unwrap();
    let found = (0..neighborhood.parts()).map(|part| neighborhood.compare(part).unwrap()).collect();
    let lists = neighborhood.lists(found).unwrap();
    let mut layout = Layout::new(FuzzyGraph::of(&lists), &plane);
    let mut steps = 1;
    while layout.step() {
        steps += 1;
    }
    assert_eq!(steps, epochs(plane.len()));
    layout.into_points()
}

fn squared_distance(one: Point, other: Point) -> f32 {
    (one[0] - other[0]).powi(2) + (one[1] - other[1]).powi(2)
}

/// Returns for each of `count` points all others in descending order of `nearness`.
fn ranked(count: usize, nearness: impl Fn(usize, usize) -> f32) -> Vec<Vec<usize>> {
    let others = |one: usize| {
        let mut others: Vec<usize> = (0..count).filter(|other| *other != one).collect();
        others.sort_by(|a, b| nearness(one, *b).total_cmp(&nearness(one, *a)));
        others
    };
    (0..count).map(others).collect()
}

fn nearest_on_plane(points: &[Point]) -> Vec<Vec<usize>> {
    ranked(points.len(), |one, other| -squared_distance(points[one], points[other]))
}

/// Returns the share of the `nearest` nearest points on the plane for which `same` is true.
fn share(points: &[Point], nearest: usize, same: impl Fn(usize, usize) -> bool) -> f64 {
    let ranked = nearest_on_plane(points);
    let of = |(one, others): (usize, &Vec<usize>)| others[..nearest].iter().filter(|other| same(one, **other)).count();
    ranked.iter().enumerate().map(of).sum::<usize>() as f64 / (nearest * points.len()) as f64
}

/// Computes trustworthiness (Venna and Kaski, 2001, equation 1): 1 if all nearest points on the plane are also among the
/// nearest vectors; the others reduce it according to their ranks.
fn trustworthiness(rows: &[Vec<f32>], points: &[Point], nearest: usize) -> f64 {
    let count = rows.len();
    let among_vectors = ranked(count, |one, other| dot(&rows[one], &rows[other]));
    let mut penalty = 0;
    for (one, others) in nearest_on_plane(points).iter().enumerate() {
        let mut ranks = vec![0; count];
        among_vectors[one].iter().enumerate().for_each(|(rank, other)| ranks[*other] = rank + 1);
        penalty += others[..nearest].iter().map(|other| ranks[*other].saturating_sub(nearest)).sum::<usize>();
    }
    let (count, nearest) = (count as f64, nearest as f64);
    1.0 - 2.0 * penalty as f64 / (count * nearest * (2.0 * count - 3.0 * nearest - 1.0))
}

#[test]
fn two_clusters_stay_apart() {
    let points = project(clusters(200, 2, 0.5), 15);
    let (mut widest, mut gap) = (0.0_f32, f32::INFINITY);
    for (one, point) in points.iter().enumerate() {
        for (other, far) in points[..one].iter().enumerate() {
            let distance = squared_distance(*point, *far).sqrt();
            if one % 2 == other % 2 {
                widest = widest.max(distance);
            } else {
                gap = gap.min(distance);
            }
        }
    }
    assert!(gap > 2.0 * widest, "within a cluster up to {widest}, between them from {gap}");
}

#[test]
fn neighbors_on_the_plane_are_neighbors_in_the_vector_space() {
    let vectors = clusters(400, 8, 0.5);
    let rows = rows(&vectors);
    let plane = trustworthiness(&rows, &principal_plane(&vectors, || false).unwrap(), 5);
    let points = project(vectors, 15);
    let trust = trustworthiness(&rows, &points, 5);
    assert!(trust > 0.94 && trust > plane + 0.05, "trustworthiness: {trust}, of the principal plane: {plane}");
    let same = share(&points, 1, |one, other| one % 8 == other % 8);
    assert!(same > 0.99, "share of points whose nearest neighbor is in their group: {same}");
}

#[test]
fn centering_groups_points_by_topic_instead_of_language() {
    let (topics, languages, count) = (6, 4, 240);
    let mut random = Random::new(11);
    let topic_directions = directions(topics, 1.0, &mut random);
    let language_directions = directions(languages, 2.0, &mut random);
    let language = |number: usize| number / topics % languages;
    let row = |number: usize, random: &mut Random| {
        let (topic, language) = (topic_directions[number % topics], language_directions[language(number)]);
        std::array::from_fn(|axis| topic[axis] + language[axis] + random.within(0.3))
    };
    let mut vectors = vectors((0..count).map(|number| row(number, &mut random)));
    let same_topic = |one: usize, other: usize| one % topics == other % topics;
    let same_language = |one: usize, other: usize| language(one) == language(other);

    let points = project(vectors.clone(), 15);
    let islands = share(&points, 10, same_language);
    assert!(islands > 0.8, "{islands}");
    let groups: Vec<u32> = (0..count).map(|number| language(number) as u32).collect();
    vectors.center(&groups);
    let points = project(vectors, 15);
    let (topic, mixed) = (share(&points, 10, same_topic), share(&points, 10, same_language));
    assert!(
        topic > 0.95 && mixed < 0.65,
        "share of nearest points with the same topic: {topic}, with the same language: {mixed}"
    );
}

#[test]
fn the_same_vectors_give_the_same_points() {
    assert_eq!(project(clusters(120, 3, 0.5), 10), project(clusters(120, 3, 0.5), 10));
}

#[test]
fn points_fill_the_range_and_keep_their_proportions() {
    let points = project(clusters(200, 2, 0.5), 15);
    let extent = |axis: usize| {
        let values = points.iter().map(|point| point[axis]);
        (values.clone().fold(f32::INFINITY, f32::min), values.fold(f32::NEG_INFINITY, f32::max))
    };
    let extents = [extent(0), extent(1)];
    for (low, high) in extents {
        assert!((low + high).abs() < 1e-5 && high <= 1.0, "{extents:?}");
    }
    let mut highest = extents.map(|(_, high)| high);
    highest.sort_unstable_by(f32::total_cmp);
    assert!(highest[0] < 0.99 && highest[1] > 0.999, "{extents:?}");
}

#[test]
fn few_equal_or_zero_vectors_get_points_within_range() {
    for count in [1, 2, 3, 10] {
        let points = project(clusters(count, 2, 0.5), 15);
        assert_eq!(points.len(), count);
        assert!(points.iter().flatten().all(|value| value.abs() <= 1.0), "{points:?}");
    }
    for row in [[0.5; DIMENSION], [0.0; DIMENSION]] {
        let points = project(vectors((0..30).map(|_| row)), 15);
        assert!(points.iter().flatten().all(|value| value.abs() <= 1.0), "{points:?}");
    }
}
