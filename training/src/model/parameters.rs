//! Named tensors, which are trained, saved and exported.

use std::collections::BTreeMap;

use tch::{Device, Kind, Tensor};

/// Weights by name. Names are those of the bundle's export; see `encoder.rs` for their shapes.
#[derive(Debug)]
pub struct Parameters {
    tensors: BTreeMap<String, Tensor>,
    device: Device,
}

impl Parameters {
    /// An empty set of weights.
    pub fn new(device: Device) -> Self {
        Self { tensors: BTreeMap::new(), device }
    }

    /// The device that the weights are on.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The weight `name`.
    ///
    /// # Panics
    /// If there is none: the model only asks for weights that its own constructor made.
    #[expect(clippy::panic, reason = "a missing weight is a bug of the model, not of its input")]
    pub fn get(&self, name: &str) -> &Tensor {
        match self.tensors.get(name) {
            Some(tensor) => tensor,
            None => panic!("no weight is named {name}"),
        }
    }

    /// Whether there is a weight `name`.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Adds or replaces a weight, in float32, to be trained.
    pub fn set(&mut self, name: &str, tensor: &Tensor) {
        let tensor = tensor.detach().to_device(self.device).to_kind(Kind::Float).copy().set_requires_grad(true);
        self.tensors.insert(name.to_owned(), tensor);
    }

    /// Adds a weight drawn from a normal distribution, unless it exists.
    pub fn normal(&mut self, name: &str, shape: &[i64], deviation: f64) {
        if !self.has(name) {
            self.set(name, &(Tensor::randn(shape, (Kind::Float, Device::Cpu)) * deviation));
        }
    }

    /// Adds a weight with one value everywhere, unless it exists.
    pub fn constant(&mut self, name: &str, shape: &[i64], value: f64) {
        if !self.has(name) {
            self.set(name, &Tensor::full(shape, value, (Kind::Float, Device::Cpu)));
        }
    }

    /// Interpolates linearly between `earlier`'s weights (`share` 0) and these (`share` 1); weights that `earlier` lacks stay.
    pub fn interpolate_from(&mut self, earlier: &Self, share: f64) {
        let common: Vec<String> = self.tensors.keys().filter(|name| earlier.has(name)).cloned().collect();
        for name in common {
            let between = earlier.get(&name).detach() * (1.0 - share) + self.get(&name).detach() * share;
            self.set(&name, &between);
        }
    }

    /// All weights in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// Total number of values of the weights whose names `count` accepts.
    pub fn numbers(&self, count: impl Fn(&str) -> bool) -> usize {
        self.iter().filter(|(name, _)| count(name)).map(|(_, tensor)| tensor.numel()).sum()
    }
}

/// The gradient of some rows of a table.
#[derive(Debug)]
pub struct RowGradient {
    /// The table's name.
    pub table: &'static str,
    /// The row indices, without repetitions. [rows]
    pub ids: Tensor,
    /// Their gradients; undefined if no objective has read them. [rows, d]
    pub values: Tensor,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpolation_changes_only_weights_present_in_both() {
        let of = |named: &[(&str, f64)]| {
            let mut parameters = Parameters::new(Device::Cpu);
            named.iter().for_each(|(name, value)| parameters.constant(name, &[2], *value));
            parameters
        };
        let mut later = of(&[("both", 5.0), ("own", 3.0)]);
        later.interpolate_from(&of(&[("both", 1.0), ("gone", 9.0)]), 0.25);
        let values = |name: &str| Vec::<f32>::try_from(later.get(name).detach()).unwrap();
        assert_eq!((values("both"), values("own"), later.has("gone")), (vec![2.0; 2], vec![3.0; 2], false));
        assert!(later.get("both").requires_grad());
    }
}
