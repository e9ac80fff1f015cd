//! Principal component analysis: the first two principal components of vectors, by orthogonal iteration (Golub and Van Loan,
//! Matrix Computations, section 8.2.4). It never builds a matrix of dimension × dimension.

use ndarray::{Array1, Array2, ArrayView2, Axis};

use super::{Point, Vectors};
use crate::classify::random::Random;
use crate::mining::MiningError;

/// Maximum iterations. Components of nearly equal variance may need more, but then any plane they span is good enough.
const ROUNDS_MAX: usize = 24;
/// The iteration has converged when the cosine of each direction with the previous one is this close to 1.
const CONVERGENCE_TOLERANCE: f32 = 1e-5;
const SEED: u64 = 1;

/// Projects each vector onto the principal plane, with the mean at the origin. Ends early, with a less accurate plane, once
/// `stop` returns true.
pub fn principal_plane(vectors: &Vectors, stop: impl Fn() -> bool) -> Result<Vec<Point>, MiningError> {
    let mean = mean(vectors)?;
    let mut random = Random::new(SEED);
    let mut directions = Array2::from_shape_simple_fn((vectors.dimension(), 2), || random.within(1.0));
    orthonormalize(&mut directions);
    for _ in 0..ROUNDS_MAX {
        if stop() {
            break;
        }
        let mut next = Array2::zeros((vectors.dimension(), 2));
        for block in vectors.blocks() {
            let block = view(block, vectors.dimension())?;
            let projected = coordinates(&block, &mean, &directions);
            // [dimension, rows] · [rows, 2], with the mean subtracted from the vectors.
            next += &block.t().dot(&projected);
            let sums = projected.sum_axis(Axis(0));
            next -= &mean.view().insert_axis(Axis(1)).dot(&sums.view().insert_axis(Axis(0)));
        }
        orthonormalize(&mut next);
        let settled =
            (0..2).all(|column| 1.0 - next.column(column).dot(&directions.column(column)).abs() < CONVERGENCE_TOLERANCE);
        directions = next;
        if settled {
            break;
        }
    }
    let mut points = Vec::with_capacity(vectors.len());
    for block in vectors.blocks() {
        let projected = coordinates(&view(block, vectors.dimension())?, &mean, &directions);
        points.extend(projected.rows().into_iter().map(|point| [point[0], point[1]]));
    }
    Ok(points)
}

/// Returns the coordinates of vectors along the directions, [rows, 2].
fn coordinates(block: &ArrayView2<'_, f32>, mean: &Array1<f32>, directions: &Array2<f32>) -> Array2<f32> {
    block.dot(directions) - mean.dot(directions)
}

fn mean(vectors: &Vectors) -> Result<Array1<f32>, MiningError> {
    let mut mean = Array1::zeros(vectors.dimension());
    for block in vectors.blocks() {
        mean += &view(block, vectors.dimension())?.sum_axis(Axis(0));
    }
    Ok(mean / vectors.len().max(1) as f32)
}

fn view(block: &[f32], dimension: usize) -> Result<ArrayView2<'_, f32>, MiningError> {
    let rows = block.len() / dimension.max(1);
    ArrayView2::from_shape((rows, dimension), block).map_err(|_| MiningError::Shape)
}

/// Orthonormalizes the two columns by Gram–Schmidt. A column that vanishes, as for vectors on a line, becomes zero.
fn orthonormalize(directions: &mut Array2<f32>) {
    let longest = directions.iter().fold(0.0_f32, |longest, value| longest.max(value.abs()));
    let unit = |column: Array1<f32>| {
        let length = column.dot(&column).sqrt();
        if length > longest * 1e-6 { column / length } else { Array1::zeros(column.len()) }
    };
    let first = unit(directions.column(0).to_owned());
    let mut second = directions.column(1).to_owned();
    // The second pass removes rounding errors of the first.
    for _ in 0..2 {
        second = &second - &(&first * first.dot(&second));
    }
    let second = unit(second);
    directions.column_mut(0).assign(&first);
    directions.column_mut(1).assign(&second);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_principal_plane_spans_the_axes_of_largest_variance() {
        // A large variance along one axis, a smaller one along another, hardly any along the rest, and a mean far from the
        // origin.
        let mut random = Random::new(3);
        let mut vectors = Vectors::new(6);
        let mut expect = Vec::new();
        for _ in 0..700 {
            let (first, second) = (random.within(0.4), random.within(0.1));
            let mut row = [0.0; 6].map(|_: f32| random.within(0.005));
            row[0] += 1.0;
            row[2] += first;
            row[4] += second;
            let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
            vectors.push(&row);
            expect.push([first / length, second / length]);
        }
        let points = principal_plane(&vectors, || false).unwrap();
        for axis in 0..2 {
            let correlation = correlation(points.iter().zip(&expect).map(|(point, expect)| (point[axis], expect[axis])));
            assert!(correlation.abs() > 0.99, "{axis}: {correlation}");
        }
        assert_eq!(points, principal_plane(&vectors, || false).unwrap());
    }

    #[test]
    fn collinear_and_equal_vectors_get_finite_points() {
        let mut line = Vectors::new(2);
        (0..40).for_each(|n| line.push(&[1.0, n as f32]));
        let mut equal = Vectors::new(3);
        (0..40).for_each(|_| equal.push(&[1.0, 2.0, 3.0]));
        for points in [principal_plane(&line, || false).unwrap(), principal_plane(&equal, || false).unwrap()] {
            assert_eq!(points.len(), 40);
            assert!(points.iter().flatten().all(|value| value.is_finite()));
        }
    }

    fn correlation(pairs: impl Iterator<Item = (f32, f32)> + Clone) -> f32 {
        let count = pairs.clone().count() as f32;
        let (one, other) = pairs.clone().fold((0.0, 0.0), |sums, pair| (sums.0 + pair.0, sums.1 + pair.1));
        let (one, other) = (one / count, other / count);
        let [mut both, mut ones, mut others] = [0.0; 3];
        for pair in pairs {
            let (first, second) = (pair.0 - one, pair.1 - other);
            both += first * second;
            ones += first * first;
            others += second * second;
        }
        both / (ones * others).sqrt()
    }
}
