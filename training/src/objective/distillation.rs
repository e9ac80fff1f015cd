//! Distillation of a larger encoder, the teacher, into a smaller one, the student, which EMS (2024), sections II and IV-D, and
//! the lightweight paper leave for future work. The student learns the teacher's embeddings, its similarities, or both.

use tch::{Kind, Tensor};

use super::contrastive::unit;

/// The mean over sentences of the squared distance of two embeddings (Reimers and Gurevych, 2020: the mean squared error, times
/// the number of values). Both [batch, d].
pub fn squared_distance_loss(student: &Tensor, teacher: &Tensor) -> Tensor {
    let kind = student.kind();
    (student - teacher.detach()).square().sum_dim_intlist(1i64, false, kind).mean(kind)
}

/// The mean over sentences of 1 - cosine. Both [batch, d].
pub fn cosine_distance_loss(student: &Tensor, teacher: &Tensor) -> Tensor {
    let kind = student.kind();
    1.0 - (unit(student) * unit(&teacher.detach())).sum_dim_intlist(1i64, false, kind).mean(kind)
}

/// Takes the distributions over the batch that a sentence's cosines with the sentences of the other side give at a temperature,
/// and returns D_KL(teacher || student), as a mean over the batch, summed over both directions.
///
/// `student` and `teacher` are the two sides' embeddings, [batch, d] each; the widths of student and teacher may differ.
pub fn similarity_distribution_loss(student: (&Tensor, &Tensor), teacher: (&Tensor, &Tensor), temperature: f64) -> Tensor {
    let cosines = |(left, right): (&Tensor, &Tensor)| unit(left).matmul(&unit(right).tr()) / temperature; // [batch, batch]
    let (student, teacher) = (cosines(student), cosines(teacher).detach());
    let divergence = |student: &Tensor, teacher: &Tensor| {
        let log_p = teacher.log_softmax(1, teacher.kind());
        let pointwise = log_p.exp() * (&log_p - student.log_softmax(1, student.kind()));
        pointwise.sum_dim_intlist(1i64, false, None::<Kind>).mean(None::<Kind>)
    };
    divergence(&student, &teacher) + divergence(&student.tr(), &teacher.tr())
}
