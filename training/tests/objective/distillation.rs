//! Distillation from a teacher.

use dragoman_training::objective::distillation::{cosine_distance_loss, similarity_distribution_loss, squared_distance_loss};

use super::{check_gradient, near, rows};

#[test]
fn the_squared_distance_is_the_mean_over_sentences() {
    // 1 + 4 = 5 and 0.
    let student = rows(&[1.0, 2.0, 3.0, 3.0], 2);
    let teacher = rows(&[0.0, 0.0, 3.0, 3.0], 2);
    near(&squared_distance_loss(&student, &teacher), 2.5);
}

#[test]
fn the_cosine_distance_ignores_vector_lengths() {
    // 45 degrees and 0: (1 - 0.707107 + 0) / 2 = 0.146447.
    let student = rows(&[3.0, 0.0, 0.5, 0.5], 2);
    let teacher = rows(&[1.0, 1.0, 7.0, 7.0], 2);
    near(&cosine_distance_loss(&student, &teacher), 0.146_446_6);
}

#[test]
fn a_teacher_of_another_width_can_teach_similarities() {
    // The student's cosines equal the teacher's in three dimensions.
    let (left, right) = (rows(&[1.0, 0.0, 0.0, 1.0], 2), rows(&[1.0, 1.0, 0.0, 1.0], 2));
    let (teacher_left, teacher_right) = (rows(&[1.0, 0.0, 0.0, 0.0, 1.0, 0.0], 3), rows(&[2.0, 2.0, 0.0, 0.0, 3.0, 0.0], 3));
    near(&similarity_distribution_loss((&left, &right), (&teacher_left, &teacher_right), 0.1), 0.0);
}

#[test]
fn similarity_loss_is_the_kl_divergence_from_the_teacher() {
    // Teacher cosines [[1, 0], [0, 1]] at temperature 0.5: p = (0.880797, 0.119203). The student's are all 1: q = (1/2, 1/2).
    // KL = 0.880797 ln(1.761594) + 0.119203 ln(0.238406) = 0.327813, in each direction.
    let teacher = rows(&[1.0, 0.0, 0.0, 1.0], 2);
    let student = rows(&[1.0, 0.0, 1.0, 0.0], 2);
    near(&similarity_distribution_loss((&student, &student), (&teacher, &teacher), 0.5), 2.0 * 0.327_813_3);
}

#[test]
fn the_distillation_gradients_match_finite_differences() {
    let student = rows(&[0.3, -0.8, 0.5, 1.0, 0.2, -0.4], 3);
    let other = rows(&[0.4, -0.5, 0.6, 0.8, 0.1, -0.9], 3);
    let teacher = rows(&[-0.2, 0.7, 0.3, 0.9, -0.6, 0.1], 3);
    check_gradient(&student, |student| squared_distance_loss(student, &teacher));
    check_gradient(&student, |student| cosine_distance_loss(student, &teacher));
    check_gradient(&student, |student| similarity_distribution_loss((student, &other), (&teacher, &other), 0.3));
    check_gradient(&other, |other| similarity_distribution_loss((&student, other), (&teacher, &student), 0.3));
}
