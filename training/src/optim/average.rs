//! The average of a stage's weights over its steps (Polyak and Juditsky, 1992; as an exponential average, Tarvainen and Valpola,
//! 2017): smoother than the weights of any one step.

use std::collections::BTreeMap;

use tch::Tensor;

use crate::config::{Averaging, StageConfig};
use crate::model::parameters::Parameters;

/// The running average.
#[derive(Debug, Default)]
pub struct Average {
    /// Number of steps in it.
    pub steps: u64,
    /// The averages, by weight name.
    pub weights: BTreeMap<String, Tensor>,
}

impl Average {
    /// Adds the weights after `step` steps of the stage to the average, if the stage has one and the step is part of it.
    pub fn add(&mut self, parameters: &Parameters, stage: &StageConfig, step: u64) {
        let Some(averaging) = stage.averaging.filter(|averaging| begins(averaging, stage.steps) < step) else { return };
        let pace = pace(&averaging, self.steps);
        self.steps += 1;
        tch::no_grad(|| {
            for (name, weight) in parameters.iter() {
                match self.weights.get_mut(name) {
                    Some(average) => _ = average.lerp_(&weight.detach(), pace),
                    None => _ = self.weights.insert(name.to_owned(), weight.detach().copy()),
                }
            }
        });
    }

    /// Replaces the weights with their average, if there is one, and clears the average.
    pub fn finish(&mut self, parameters: &mut Parameters) {
        for (name, average) in std::mem::take(self).weights {
            parameters.set(&name, &average);
        }
    }
}

/// Number of the stage's first steps that are not averaged.
fn begins(averaging: &Averaging, steps: u64) -> u64 {
    match averaging {
        Averaging::Exponential { .. } => 0,
        Averaging::LastPart { share } => steps - ((steps as f64 * share).ceil() as u64).clamp(1, steps),
    }
}

/// How far the average moves towards the weights of the next step when it already has `steps` steps.
fn pace(averaging: &Averaging, steps: u64) -> f64 {
    let steps = steps as f64;
    match averaging {
        Averaging::Exponential { decay } => (1.0 - decay).max(9.0 / (10.0 + steps)),
        Averaging::LastPart { .. } => 1.0 / (1.0 + steps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    /// The average of one number whose value after each of `steps` steps is 1, 2, 3 ...
    fn averaged(averaging: Averaging, steps: u64) -> f64 {
        let mut config: crate::config::Config = toml::from_str(include_str!("../../configs/smoke.toml")).unwrap();
        let stage = &mut config.stages[0];
        (stage.steps, stage.averaging) = (steps, Some(averaging));
        let mut parameters = Parameters::new(Device::Cpu);
        let mut average = Average::default();
        for step in 1..=steps {
            parameters.set("x", &Tensor::from(step as f64).to_kind(Kind::Float));
            average.add(&parameters, stage, step);
        }
        average.finish(&mut parameters);
        assert_eq!(average.steps, 0);
        parameters.get("x").double_value(&[])
    }

    fn check(averaging: Averaging, steps: u64, expect: f64) {
        let got = averaged(averaging, steps);
        assert!((got - expect).abs() < 1e-6, "got {got}, expected {expect}");
    }

    #[test]
    fn steps_of_the_last_part_are_averaged_equally() {
        check(Averaging::LastPart { share: 1.0 }, 4, 2.5);
        check(Averaging::LastPart { share: 0.5 }, 4, 3.5);
        // A share that is less than a step counts as one step.
        check(Averaging::LastPart { share: 0.01 }, 4, 4.0);
    }

    #[test]
    fn the_exponential_average_moves_by_one_minus_its_decay() {
        // The first step is taken unchanged: 1. Then the rates are max(1 - 0.1, 9/11) = 0.9: 1 + 0.9 (2 - 1) = 1.9, and 1.9 +
        // 0.9 x 1.1 = 2.89.
        check(Averaging::Exponential { decay: 0.1 }, 3, 2.89);
    }

    #[test]
    fn an_exponential_average_moves_faster_in_its_first_steps() {
        // Rates 9/11 and 9/12: 1 + 9/11 = 20/11, then 20/11 + 3/4 (3 - 20/11) = 20/11 + 39/44 = 119/44 = 2.704545.
        check(Averaging::Exponential { decay: 0.999 }, 3, 119.0 / 44.0);
    }
}
