//! The weighted sum of a step's objectives.

use dragoman_training::objective::{Objective, Terms};
use tch::{Kind, Tensor};

use super::near;

#[test]
fn the_total_is_the_weighted_sum() {
    // Lightweight, equation 7, with its weights 1, 2, 2: 3 + 2 x 0.5 + 2 x 0.25 = 4.5.
    let mut terms = Terms::default();
    for (objective, weight, loss) in
        [(Objective::UnifiedGenerative, 1.0, 3.0), (Objective::Alignment, 2.0, 0.5), (Objective::Similarity, 2.0, 0.25)]
    {
        terms.add(objective, weight, Tensor::from(loss).to_kind(Kind::Double));
    }
    near(&terms.total(), 4.5);
    near(terms.get(Objective::Alignment).unwrap(), 0.5);
    assert!(terms.get(Objective::Contrastive).is_none());
}

#[test]
fn every_objective_has_a_unique_name() {
    let mut names: Vec<_> = Objective::ALL.iter().map(|objective| objective.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Objective::ALL.len());
}
