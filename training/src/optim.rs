//! Adam with decoupled weight decay (Kingma and Ba, 2015; Loshchilov and Hutter, 2019) and the learning-rate schedule.
//!
//! Written here because tch neither saves the state of libtorch's optimizer, without which a resumed run is another run, nor
//! offers its fused one.

use std::collections::BTreeMap;

use tch::{Kind, Tensor};

use crate::config::StageConfig;
use crate::model::encoder::TOKENS;
use crate::model::parameters::Parameters;

/// Averaged weights.
pub mod average;

const BETA_1: f64 = 0.9;
const BETA_2: f64 = 0.98;
const EPSILON: f64 = 1e-8;

/// The optimizer's state of one stage.
#[derive(Debug, Default)]
pub struct Adam {
    /// Steps taken.
    pub steps: u64,
    /// Per weight: the decaying sums of gradients and of their squares, not yet scaled by 1 - beta.
    pub moments: BTreeMap<String, (Tensor, Tensor)>,
}

impl Adam {
    /// Takes a step with the gradients that `parameters` hold, and clears them. Weights without gradient stay.
    pub fn step(&mut self, parameters: &Parameters, rate: f64, stage: &StageConfig) -> f64 {
        self.steps += 1;
        let steps = self.steps as i32;
        let (correct_1, correct_2) = (1.0 - BETA_1.powi(steps), 1.0 - BETA_2.powi(steps));
        let mut norm = 0.0;
        tch::no_grad(|| {
            norm = gradient_norm(parameters);
            let scale = if stage.gradient_norm_max > 0.0 { (stage.gradient_norm_max / norm.max(1e-12)).min(1.0) } else { 1.0 };
            for (name, weight) in parameters.iter() {
                let mut gradient = weight.grad();
                if !gradient.defined() {
                    continue;
                }
                if scale < 1.0 {
                    let _ = gradient.g_mul_scalar_(scale);
                }
                let (first, second) =
                    self.moments.entry(name.to_owned()).or_insert_with(|| (weight.zeros_like(), weight.zeros_like()));
                let _ = first.g_mul_scalar_(BETA_1).g_add_(&gradient);
                let _ = second.g_mul_scalar_(BETA_2).addcmul_(&gradient, &gradient);
                let spread = (second.sqrt() * ((1.0 - BETA_2) / correct_2).sqrt()).g_add_scalar_(EPSILON);
                let rate = if name == TOKENS { rate * stage.token_rate_scale } else { rate };
                let mut weight = weight.shallow_clone().detach();
                if stage.weight_decay > 0.0 && decays(name, &weight) {
                    let _ = weight.g_mul_scalar_(1.0 - rate * stage.weight_decay);
                }
                let _ = weight.addcdiv_(&(&*first * (-rate * (1.0 - BETA_1) / correct_1)), &spread);
                let _ = gradient.zero_();
            }
        });
        norm
    }
}

/// The learning rate of `step`, from 0: linear warm-up, then level, then linear to zero over the stage's last `decay_share`.
pub fn learning_rate(stage: &StageConfig, step: u64) -> f64 {
    let (step, steps) = (step as f64, stage.steps as f64);
    let warm = (step + 1.0) / (stage.warmup_steps as f64).max(1.0);
    let decay = (steps - step) / (steps * stage.decay_share).max(1.0);
    stage.learning_rate * warm.min(decay).min(1.0)
}

fn decays(name: &str, weight: &Tensor) -> bool {
    weight.dim() > 1 && !name.starts_with("embeddings.")
}

fn gradient_norm(parameters: &Parameters) -> f64 {
    let squares: Vec<Tensor> = parameters
        .iter()
        .map(|(_, weight)| weight.grad())
        .filter(Tensor::defined)
        .map(|gradient| gradient.flatten(0, -1).dot(&gradient.flatten(0, -1)))
        .collect();
    if squares.is_empty() { 0.0 } else { Tensor::stack(&squares, 0).sum(Kind::Double).double_value(&[]).sqrt() }
}
