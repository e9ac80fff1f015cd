//! Adam with decoupled weight decay (Kingma and Ba, 2015; Loshchilov and Hutter, 2019) and the learning-rate schedule.
//!
//! Implemented here because tch cannot save the state of libtorch's optimizer, which exact resume needs, and does not offer its
//! fused version.

use std::collections::BTreeMap;

use tch::{Kind, Tensor};

use crate::config::StageConfig;
use crate::model::encoder::{LATE_TOKENS, LATE_WEIGHTS, TOKEN_WEIGHTS, TOKENS};
use crate::model::parameters::{Parameters, RowGradient};

/// Averaged weights.
pub mod average;

const BETA_1: f64 = 0.9;
const BETA_2: f64 = 0.98;
const EPSILON: f64 = 1e-8;

/// The optimizer's state within one stage.
#[derive(Debug, Default)]
pub struct Adam {
    /// Steps taken.
    pub steps: u64,
    /// Per weight: the decaying sums of gradients and of squared gradients, not yet scaled by 1 - beta.
    pub moments: BTreeMap<String, (Tensor, Tensor)>,
}

impl Adam {
    /// Takes a step with the gradients in `parameters`, and clears them. Weights without a gradient do not change.
    ///
    /// A token table is updated only in the rows of `tables` (lazy Adam); the moments of other rows stay unchanged too. A batch
    /// reads a fifth of the rows. With dense updates, a rare token would keep moving by its last gradient; and when it occurs
    /// again, its second moment would have decayed, so that it would take a far too large step.
    /// Returns the gradient's norm before clipping; it is read only when it is logged, because reading it waits for the device.
    pub fn step(&mut self, parameters: &Parameters, tables: &[RowGradient], rate: f64, stage: &StageConfig) -> Tensor {
        self.steps += 1;
        let steps = self.steps as i32;
        let correct = (1.0 - BETA_1.powi(steps), 1.0 - BETA_2.powi(steps));
        tch::no_grad(|| {
            let by_rows: Vec<&RowGradient> =
                tables.iter().filter(|table| table.values.defined() && !add_to_whole(parameters, table)).collect();
            let dense = parameters.iter().map(|(_, weight)| weight.grad()).filter(Tensor::defined);
            let gradients: Vec<Tensor> = dense.chain(by_rows.iter().map(|table| table.values.shallow_clone())).collect();
            let norm = norm(&gradients);
            let scale = (stage.gradient_norm_max > 0.0)
                .then(|| (norm.clamp_min(1e-12).reciprocal() * stage.gradient_norm_max).clamp_max(1.0).to_kind(Kind::Float));
            for (name, weight) in parameters.iter() {
                let rows = by_rows.iter().find(|table| table.table == name);
                let mut gradient = rows.map_or_else(|| weight.grad(), |table| table.values.shallow_clone());
                if !gradient.defined() {
                    // A question encoder has no gradient if a batch has no question. Its moments move it nevertheless, as in a
                    // run that was not resumed, whose gradient is then zero.
                    if tables.iter().any(|table| table.table == name) || !self.moments.contains_key(name) {
                        continue;
                    }
                    gradient = weight.detach().zeros_like();
                }
                if let Some(scale) = &scale {
                    let _ = gradient.g_mul_(scale);
                }
                let of_table = [TOKENS, TOKEN_WEIGHTS, LATE_TOKENS, LATE_WEIGHTS].contains(&name);
                let rate = if of_table { rate * stage.token_rate_scale } else { rate };
                let decay = if decays(name, weight) { rate * stage.weight_decay } else { 0.0 };
                let moments = self.moments.entry(name.to_owned()).or_insert_with(|| (weight.zeros_like(), weight.zeros_like()));
                let mut weight = weight.shallow_clone().detach();
                match rows.map(|table| &table.ids) {
                    None => update(&mut weight, &gradient, moments, Update { rate, decay, correct }),
                    Some(ids) => {
                        let mut part = weight.index_select(0, ids);
                        let mut part_moments = (moments.0.index_select(0, ids), moments.1.index_select(0, ids));
                        update(&mut part, &gradient, &mut part_moments, Update { rate, decay, correct });
                        let _ = weight.index_copy_(0, ids, &part);
                        let _ = moments.0.index_copy_(0, ids, &part_moments.0);
                        let _ = moments.1.index_copy_(0, ids, &part_moments.1);
                    }
                }
                let _ = gradient.zero_();
            }
            norm
        })
    }
}

/// Settings of one update.
#[derive(Debug, Clone, Copy)]
struct Update {
    rate: f64,
    /// The share of the weight that decay removes.
    decay: f64,
    /// Bias corrections of the moments, which start at zero.
    correct: (f64, f64),
}

fn update(weight: &mut Tensor, gradient: &Tensor, (first, second): &mut (Tensor, Tensor), step: Update) {
    let Update { rate, decay, correct } = step;
    let _ = first.g_mul_scalar_(BETA_1).g_add_(gradient);
    let _ = second.g_mul_scalar_(BETA_2).addcmul_(gradient, gradient);
    let spread = (second.sqrt() * ((1.0 - BETA_2) / correct.1).sqrt()).g_add_scalar_(EPSILON);
    if decay > 0.0 {
        let _ = weight.g_mul_scalar_(1.0 - decay);
    }
    let _ = weight.addcdiv_(&(&*first * (-rate * (1.0 - BETA_1) / correct.0)), &spread);
}

/// If an objective reads the whole table (`shared_embedding`), adds the rows' gradient to the table's; returns whether it did.
fn add_to_whole(parameters: &Parameters, table: &RowGradient) -> bool {
    let mut dense = parameters.get(table.table).grad();
    if !dense.defined() {
        return false;
    }
    let _ = dense.index_add_(0, &table.ids, &table.values);
    true
}

/// The learning rate of `step`, from 0: linear warm-up, then constant, then linear to zero over the stage's last `decay_share`.
pub fn learning_rate(stage: &StageConfig, step: u64) -> f64 {
    let (step, steps) = (step as f64, stage.steps as f64);
    let warm = (step + 1.0) / (stage.warmup_steps as f64).max(1.0);
    let decay = (steps - step) / (steps * stage.decay_share).max(1.0);
    stage.learning_rate * warm.min(decay).min(1.0)
}

fn decays(name: &str, weight: &Tensor) -> bool {
    weight.dim() > 1 && !name.contains("embeddings.")
}

fn norm(gradients: &[Tensor]) -> Tensor {
    let square = |gradient: &Tensor| gradient.flatten(0, -1).dot(&gradient.flatten(0, -1));
    let squares: Vec<Tensor> = gradients.iter().map(square).collect();
    if squares.is_empty() { Tensor::from(0.0) } else { Tensor::stack(&squares, 0).sum(Kind::Double).sqrt() }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    fn stage() -> StageConfig {
        let mut config: crate::config::Config = toml::from_str(include_str!("../configs/smoke.toml")).unwrap();
        let mut stage = config.stages.remove(0);
        (stage.token_rate_scale, stage.gradient_norm_max) = (1.0, 0.0);
        stage
    }

    fn table(rows: i64) -> Parameters {
        let mut parameters = Parameters::new(Device::Cpu);
        parameters.constant(TOKENS, &[rows, 2], 1.0);
        parameters
    }

    fn gradient(ids: &[i64], values: &[f32]) -> RowGradient {
        RowGradient { table: TOKENS, ids: Tensor::from_slice(ids), values: Tensor::from_slice(values).view([-1, 2]) }
    }

    fn values(parameters: &Parameters) -> Vec<f32> {
        Vec::try_from(parameters.get(TOKENS).detach().flatten(0, -1)).unwrap()
    }

    #[test]
    fn rows_without_a_gradient_stay_and_a_first_step_equals_the_rate() {
        let (parameters, mut adam) = (table(3), Adam::default());
        let _ = adam.step(&parameters, &[gradient(&[2, 0], &[0.5, -0.5, 2.0, 2.0])], 0.1, &stage());
        let near = |got: f32, expect: f32| assert!((got - expect).abs() < 1e-5, "{got}, expected {expect}");
        values(&parameters).into_iter().zip([0.9, 0.9, 1.0, 1.0, 0.9, 1.1]).for_each(|(got, expect)| near(got, expect));
        let before = values(&parameters);
        let _ = adam.step(&parameters, &[gradient(&[1], &[1.0, 1.0])], 0.1, &stage());
        assert_eq!((&values(&parameters)[..2], &values(&parameters)[4..]), (&before[..2], &before[4..]));
    }

    #[test]
    fn row_gradients_give_the_same_step_as_partly_dense_gradients() {
        let (rows, dense) = (table(2), table(2));
        let (mut adam, mut other) = (Adam::default(), Adam::default());
        for step in 1..4 {
            let values = [0.3 * step as f32, -1.0, 0.2, 0.7];
            let _ = adam.step(&rows, &[gradient(&[0, 1], &values)], 0.1, &stage());
            // As with an objective that reads the whole table: half of the gradient is dense, half is by rows.
            (dense.get(TOKENS) * Tensor::from_slice(&values).view([2, 2]) * 0.5).sum(Kind::Float).backward();
            let _ = other.step(&dense, &[gradient(&[0, 1], &values.map(|value| 0.5 * value))], 0.1, &stage());
        }
        let differences = values(&rows).into_iter().zip(values(&dense)).map(|(a, b)| (a - b).abs());
        assert!(differences.clone().all(|difference| difference < 1e-6), "{:?}", differences.collect::<Vec<_>>());
    }
}
