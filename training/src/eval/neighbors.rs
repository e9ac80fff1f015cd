//! Exact search of nearest neighbors by cosine, between two sets and both ways at once.
//!
//! Similarities are computed block by block as matrix products, and of each block only what is among the nearest so far is kept:
//! memory grows with the sets, never with their product.

use std::ops::Range;

use rayon::prelude::*;
use tch::Tensor;

use super::encoder::Embeddings;
use crate::error::Error;

/// Embeddings of the first set in one block.
const ROWS: usize = 2_048;
/// Embeddings of the second set in one block: with `ROWS`, 64 MiB of similarities.
const COLUMNS: usize = 8_192;

/// The nearest embeddings of another set for each embedding of a set.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbors {
    /// Neighbors of each embedding.
    per_query: usize,
    /// [queries, per_query], nearest first.
    numbers: Vec<u32>,
    /// [queries, per_query]
    cosines: Vec<f32>,
}

/// One neighbor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbor {
    /// Its number in the other set.
    pub number: usize,
    /// Its cosine with the query.
    pub cosine: f32,
}

impl Neighbors {
    /// How many embeddings have neighbors here.
    pub fn len(&self) -> usize {
        self.numbers.len() / self.per_query
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The neighbors of embedding number `query`, nearest first; of equally near ones the lower number first.
    pub fn of(&self, query: usize) -> impl ExactSizeIterator<Item = Neighbor> {
        let place = query * self.per_query..(query + 1) * self.per_query;
        let both = self.numbers[place.clone()].iter().zip(&self.cosines[place]);
        both.map(|(&number, &cosine)| Neighbor { number: number as usize, cosine })
    }

    /// The mean cosine of the neighbors of embedding number `query`.
    pub fn mean_cosine(&self, query: usize) -> f64 {
        self.of(query).map(|neighbor| f64::from(neighbor.cosine)).sum::<f64>() / self.per_query as f64
    }

    fn unknown(queries: usize, per_query: usize) -> Self {
        let room = queries * per_query;
        Self { per_query, numbers: vec![0; room], cosines: vec![f32::NEG_INFINITY; room] }
    }

    /// Takes in a block of similarities. [queries from `query` on, `width` candidates from `candidate` on]
    fn take(&mut self, query: usize, candidate: usize, similarities: &[f32], width: usize) {
        let per_query = self.per_query;
        let place = query * per_query..(query + similarities.len() / width) * per_query;
        let kept = self.numbers[place.clone()].par_chunks_mut(per_query).zip(self.cosines[place].par_chunks_mut(per_query));
        kept.zip(similarities.par_chunks(width)).for_each(|((numbers, cosines), row)| {
            for (column, &cosine) in row.iter().enumerate() {
                if cosine > cosines[per_query - 1] {
                    let place = cosines.partition_point(|&kept| kept >= cosine);
                    numbers[place..].rotate_right(1);
                    cosines[place..].rotate_right(1);
                    (numbers[place], cosines[place]) = ((candidate + column) as u32, cosine);
                }
            }
        });
    }
}

/// Finds the `count` nearest of `second` for each of `first`, and of `first` for each of `second`; fewer where a set has fewer.
pub fn both_ways(first: &Embeddings, second: &Embeddings, count: usize) -> Result<(Neighbors, Neighbors), Error> {
    by_blocks(first, second, count, ROWS, COLUMNS)
}

fn by_blocks(
    first: &Embeddings,
    second: &Embeddings,
    count: usize,
    rows: usize,
    columns: usize,
) -> Result<(Neighbors, Neighbors), Error> {
    if first.is_empty() || second.is_empty() || count == 0 || first.dimension() != second.dimension() {
        let problem = format!(
            "expected two sets of equally wide embeddings and at least one neighbor, got {} of {} values, {} of {}, {count}",
            first.len(),
            first.dimension(),
            second.len(),
            second.dimension()
        );
        return Err(Error::Setting { setting: "evaluation", problem });
    }
    let mut forward = Neighbors::unknown(first.len(), count.min(second.len()));
    let mut backward = Neighbors::unknown(second.len(), count.min(first.len()));
    for row_block in blocks(first.len(), rows) {
        let left = matrix(first, &row_block)?; // [rows, d]
        for column_block in blocks(second.len(), columns) {
            let product = left.f_matmul(&matrix(second, &column_block)?.f_transpose(0, 1)?)?; // [rows, columns]
            forward.take(row_block.start, column_block.start, &values(&product)?, column_block.len());
            let turned = values(&product.f_transpose(0, 1)?)?; // [columns, rows]
            backward.take(column_block.start, row_block.start, &turned, row_block.len());
        }
    }
    Ok((forward, backward))
}

fn blocks(count: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(size).map(move |start| start..(start + size).min(count))
}

fn matrix(side: &Embeddings, numbers: &Range<usize>) -> Result<Tensor, Error> {
    let width = side.dimension();
    let values = &side.values()[numbers.start * width..numbers.end * width];
    Ok(Tensor::f_from_slice(values)?.f_view([numbers.len() as i64, width as i64])?)
}

fn values(tensor: &Tensor) -> Result<Vec<f32>, Error> {
    let flat = tensor.f_contiguous()?;
    let mut values = vec![0.0; flat.numel()];
    flat.f_copy_data(&mut values, flat.numel())?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(rows: &[[f32; 2]]) -> Embeddings {
        Embeddings::normalized(rows.concat(), 2).unwrap()
    }

    fn numbers(neighbors: &Neighbors, query: usize) -> Vec<usize> {
        neighbors.of(query).map(|neighbor| neighbor.number).collect()
    }

    #[test]
    fn the_nearest_come_first_in_both_directions() {
        //          b0=(1,0)  b1=(0.6,0.8)  b2=(0,1)
        // a0=(1,0)    1        0.6           0
        // a1=(0,1)    0        0.8           1
        let (first, second) = (side(&[[1.0, 0.0], [0.0, 1.0]]), side(&[[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]));
        let (forward, backward) = both_ways(&first, &second, 2).unwrap();
        assert_eq!([numbers(&forward, 0), numbers(&forward, 1)], [[0, 1], [2, 1]]);
        assert_eq!([0, 1, 2].map(|query| numbers(&backward, query)), [[0, 1], [1, 0], [1, 0]]);
        assert!((forward.mean_cosine(0) - 0.8).abs() < 1e-6 && (backward.mean_cosine(1) - 0.7).abs() < 1e-6);
    }

    #[test]
    fn a_set_smaller_than_the_number_of_neighbors_is_taken_whole() {
        let (forward, backward) = both_ways(&side(&[[1.0, 0.0]]), &side(&[[0.0, 1.0], [1.0, 0.0]]), 4).unwrap();
        assert_eq!(numbers(&forward, 0), [1, 0]);
        assert_eq!([numbers(&backward, 0), numbers(&backward, 1)], [[0], [0]]);
    }

    #[test]
    fn of_equally_near_ones_the_lower_number_comes_first_whatever_the_blocks() {
        let (first, second) = (side(&[[1.0, 0.0]; 3]), side(&[[2.0, 0.0]; 5]));
        for (rows, columns) in [(1, 1), (2, 2), (8, 8)] {
            let (forward, backward) = by_blocks(&first, &second, 3, rows, columns).unwrap();
            assert_eq!((numbers(&forward, 2), numbers(&backward, 4)), (vec![0, 1, 2], vec![0, 1, 2]), "{rows} x {columns}");
        }
    }

    #[test]
    fn blocks_do_not_change_what_is_found() {
        // Directions of 17 and 11 different angles, none equally near to any other.
        let fan = |count: usize, step: f32| {
            let angles = (0..count).map(|number| (number as f32 * step).to_radians());
            side(&angles.map(|angle| [angle.cos(), angle.sin()]).collect::<Vec<_>>())
        };
        let (first, second) = (fan(17, 20.3), fan(11, 31.7));
        let whole = by_blocks(&first, &second, 4, 100, 100).unwrap();
        let pieces = by_blocks(&first, &second, 4, 3, 4).unwrap();
        for (whole, pieces) in [(&whole.0, &pieces.0), (&whole.1, &pieces.1)] {
            assert_eq!(whole.numbers, pieces.numbers);
            assert!(whole.cosines.iter().zip(&pieces.cosines).all(|(a, b)| (a - b).abs() < 1e-6));
        }
    }

    #[test]
    fn sets_that_cannot_be_compared_are_refused() {
        let wide = Embeddings::normalized(vec![1.0; 3], 3).unwrap();
        let error = both_ways(&side(&[[1.0, 0.0]]), &wide, 4).unwrap_err().to_string();
        assert!(error.contains("got 1 of 2 values, 1 of 3"), "{error}");
    }
}
