//! P@1 of translation pairs, in percent: the share of texts whose most similar text in the other language is their translation
//! (the metric of EMS, tables IV to VII).

use super::encoder::Embeddings;
use super::error::EvaluationError;
use super::neighbors::bidirectional_neighbors;
use crate::mining::NeighborLists;

/// P@1 in both directions, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precision {
    /// Queries from the first side, candidates from the second.
    pub forward: f64,
    /// Queries from the second side, candidates from the first.
    pub backward: f64,
}

/// Measures P@1 between two sets whose rows are translations of each other. In a tie, the first candidate counts as found,
/// which is an error unless it is the correct one.
pub fn precision_at_1(first: &Embeddings, second: &Embeddings) -> Result<Precision, EvaluationError> {
    let count = first.len();
    if count == 0 || count != second.len() {
        let problem = format!("expected as many texts as translations, got {count} and {}", second.len());
        return Err(EvaluationError::Unusable { problem });
    }
    let (forward, backward) = bidirectional_neighbors(first, second, 1)?;
    Ok(Precision { forward: hit_rate(&forward), backward: hit_rate(&backward) })
}

/// Returns the share of queries whose nearest neighbor has the same index, in percent.
fn hit_rate(neighbors: &NeighborLists) -> f64 {
    let right = |query: &usize| neighbors.of(*query).next().is_some_and(|(nearest, _)| nearest as usize == *query);
    100.0 * (0..neighbors.len()).filter(right).count() as f64 / neighbors.len() as f64
}

/// Returns the mean, or 0 for an empty list.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = values.into_iter().fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embeddings(rows: &[[f32; 2]]) -> Embeddings {
        Embeddings::normalized(rows.concat(), 2).unwrap()
    }

    fn check(first: &[[f32; 2]], second: &[[f32; 2]], forward: f64, backward: f64) {
        assert_eq!(precision_at_1(&embeddings(first), &embeddings(second)).unwrap(), Precision { forward, backward });
    }

    #[test]
    fn translations_with_the_nearest_vectors_are_all_found() {
        check(&[[1.0, 0.0], [0.0, 1.0]], &[[5.0, 1.0], [1.0, 5.0]], 100.0, 100.0);
    }

    #[test]
    fn forward_and_backward_precision_can_differ() {
        //          b0=(1,0)  b1=(0.6,0.8)  b2=(0,-1)
        // a0=(1,0)    1        0.6            0       -> b0, right
        // a1=(0,1)    0        0.8           -1       -> b1, right
        // a2=(.8,.6)  0.8      0.96          -0.6     -> b1, wrong
        // Columns: b0 -> a0 right, b1 -> a2 wrong, b2 -> a0 wrong.
        check(&[[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]], &[[1.0, 0.0], [0.6, 0.8], [0.0, -1.0]], 200.0 / 3.0, 100.0 / 3.0);
    }

    #[test]
    fn only_the_first_of_tied_candidates_counts() {
        check(&[[1.0, 0.0], [1.0, 0.0]], &[[1.0, 0.0], [1.0, 0.0]], 50.0, 50.0);
    }

    #[test]
    fn sides_of_different_length_are_refused() {
        let error = precision_at_1(&embeddings(&[[1.0, 0.0]]), &embeddings(&[[1.0, 0.0], [0.0, 1.0]])).unwrap_err();
        assert!(error.to_string().contains("got 1 and 2"), "{error}");
    }

    #[test]
    fn the_mean_of_nothing_is_zero() {
        assert_eq!((mean([]), mean([1.0, 4.0])), (0.0, 2.5));
    }
}
