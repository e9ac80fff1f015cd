//! Exact nearest neighbors by cosine between two sets, in both directions at once.
//!
//! Each thread takes blocks of the first set and compares them with all blocks of the second. It keeps only the nearest neighbors
//! so far, so memory grows with the size of the sets, not with their product.

use std::ops::Range;

use super::encoder::Embeddings;
use super::error::EvaluationError;
use crate::mining::{BLOCK_SENTENCES, Block, LoadedSet, MiningError, NeighborLists};
use crate::parallel::{in_parallel, parallelism};

/// Finds the `count` nearest neighbors in `second` for each row of `first` and vice versa; fewer if a set is smaller.
pub fn bidirectional_neighbors(
    first: &Embeddings,
    second: &Embeddings,
    count: usize,
) -> Result<(NeighborLists, NeighborLists), EvaluationError> {
    by_blocks(first, second, count, parallelism(), BLOCK_SENTENCES)
}

fn by_blocks(
    first: &Embeddings,
    second: &Embeddings,
    count: usize,
    threads: usize,
    block: usize,
) -> Result<(NeighborLists, NeighborLists), EvaluationError> {
    if first.is_empty() || second.is_empty() || count == 0 || first.dimension() != second.dimension() {
        let problem = format!(
            "expected two sets of embeddings of the same dimension and at least one neighbor, got {} of {} values, {} of {}, {count}",
            first.len(),
            first.dimension(),
            second.len(),
            second.dimension()
        );
        return Err(EvaluationError::Unusable { problem });
    }
    let part = |start: usize| block_of(second, &(start..(start + block).min(second.len())));
    let seconds = (0..second.len()).step_by(block).map(part).collect::<Result<Vec<Block>, _>>()?;
    let seconds = LoadedSet::new(seconds, count, threads)?;
    let compare = |rows: Range<usize>| {
        let nearest = seconds.compare(rows.start / block, &block_of(first, &rows)?, |_, _| false)?;
        Ok::<_, MiningError>((rows, nearest))
    };
    let mut forward = NeighborLists::new(first.len(), second.len(), count)?;
    for (rows, nearest) in in_parallel(0..first.len(), block, threads, compare)? {
        nearest.put_into(&mut forward, rows.start as u32..rows.end as u32)?;
    }
    Ok((forward, seconds.lists(second.len(), first.len())?))
}

fn block_of(set: &Embeddings, rows: &Range<usize>) -> Result<Block, MiningError> {
    let dimension = set.dimension();
    let values = &set.values()[rows.start * dimension..rows.end * dimension];
    Block::new(dimension, (rows.start as u32..).zip(values.chunks_exact(dimension)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embeddings(rows: &[[f32; 2]]) -> Embeddings {
        Embeddings::normalized(rows.concat(), 2).unwrap()
    }

    fn numbers(neighbors: &NeighborLists, query: usize) -> Vec<u32> {
        neighbors.of(query).map(|(number, _)| number).collect()
    }

    #[test]
    fn the_nearest_come_first_in_both_directions() {
        //          b0=(1,0)  b1=(0.6,0.8)  b2=(0,1)
        // a0=(1,0)    1        0.6           0
        // a1=(0,1)    0        0.8           1
        let (first, second) = (embeddings(&[[1.0, 0.0], [0.0, 1.0]]), embeddings(&[[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]));
        let (forward, backward) = bidirectional_neighbors(&first, &second, 2).unwrap();
        assert_eq!([numbers(&forward, 0), numbers(&forward, 1)], [[0, 1], [2, 1]]);
        assert_eq!([0, 1, 2].map(|query| numbers(&backward, query)), [[0, 1], [1, 0], [1, 0]]);
        assert!((forward.mean_cosine(0) - 0.8).abs() < 1e-6 && (backward.mean_cosine(1) - 0.7).abs() < 1e-6);
    }

    #[test]
    fn a_set_smaller_than_the_neighbor_count_is_returned_whole() {
        let (forward, backward) =
            bidirectional_neighbors(&embeddings(&[[1.0, 0.0]]), &embeddings(&[[0.0, 1.0], [1.0, 0.0]]), 4).unwrap();
        assert_eq!(numbers(&forward, 0), [1, 0]);
        assert_eq!([numbers(&backward, 0), numbers(&backward, 1)], [[0], [0]]);
    }

    #[test]
    fn ties_go_to_the_lower_number_for_any_block_size() {
        let (first, second) = (embeddings(&[[1.0, 0.0]; 3]), embeddings(&[[2.0, 0.0]; 5]));
        for (threads, columns) in [(1, 1), (2, 2), (8, 8)] {
            let (forward, backward) = by_blocks(&first, &second, 3, threads, columns).unwrap();
            assert_eq!((numbers(&forward, 2), numbers(&backward, 4)), (vec![0, 1, 2], vec![0, 1, 2]), "{threads} x {columns}");
        }
    }

    #[test]
    fn thread_counts_and_block_sizes_do_not_change_the_result() {
        // Directions at 17 and 11 different angles, without ties.
        let fan = |count: usize, step: f32| {
            let angles = (0..count).map(|number| (number as f32 * step).to_radians());
            embeddings(&angles.map(|angle| [angle.cos(), angle.sin()]).collect::<Vec<_>>())
        };
        let (first, second) = (fan(17, 20.3), fan(11, 31.7));
        let found = |threads: usize, block: usize| {
            let (forward, backward) = by_blocks(&first, &second, 4, threads, block).unwrap();
            let forward: Vec<_> = (0..17).map(|query| numbers(&forward, query)).collect();
            (forward, (0..11).map(|query| numbers(&backward, query)).collect::<Vec<_>>())
        };
        let expected = found(1, 100);
        for (threads, block) in [(3, 4), (5, 3), (40, 1)] {
            assert_eq!(found(threads, block), expected, "{threads} x {block}");
        }
    }

    #[test]
    fn sets_of_different_dimensions_are_refused() {
        let wide = Embeddings::normalized(vec![1.0; 3], 3).unwrap();
        let error = bidirectional_neighbors(&embeddings(&[[1.0, 0.0]]), &wide, 4).unwrap_err().to_string();
        assert!(error.contains("got 1 of 2 values, 1 of 3"), "{error}");
    }
}
