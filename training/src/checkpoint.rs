//! Checkpoints: everything that a run needs to resume exactly where it stopped, in one safetensors file that is replaced
//! atomically.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tch::{Device, Kind, Tensor};

use crate::error::Error;
use crate::model::parameters::Parameters;
use crate::optim::Adam;
use crate::optim::average::Average;

/// The position of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Stage, from 0.
    pub stage: usize,
    /// Steps done in that stage.
    pub step: u64,
}

/// A run at a step: everything it needs to resume.
#[derive(Debug)]
pub struct State {
    /// Weights.
    pub parameters: Parameters,
    /// The optimizer of the stage.
    pub adam: Adam,
    /// The averaged weights of the stage.
    pub average: Average,
    /// Stage and step.
    pub position: Position,
}

impl State {
    /// A state without any weights.
    pub fn new(device: Device) -> Self {
        let (adam, average, position) = Default::default();
        Self { parameters: Parameters::new(device), adam, average, position }
    }
}

const WEIGHT: &str = "weight/";
const FIRST: &str = "first/";
const SECOND: &str = "second/";
const AVERAGE: &str = "average/";
const POSITION: &str = "position";

/// The checkpoint of the run in `folder`.
pub fn path(folder: &Path) -> PathBuf {
    folder.join("checkpoint.safetensors")
}

/// Writes `state` to `path`.
pub fn save(path: &Path, state: &State) -> Result<(), Error> {
    let mut named: Vec<(String, Tensor)> = Vec::new();
    for (name, tensor) in state.parameters.iter() {
        named.push((format!("{WEIGHT}{name}"), tensor.detach().to_device(Device::Cpu)));
    }
    for (name, (first, second)) in &state.adam.moments {
        named.push((format!("{FIRST}{name}"), first.to_device(Device::Cpu)));
        named.push((format!("{SECOND}{name}"), second.to_device(Device::Cpu)));
    }
    for (name, tensor) in &state.average.weights {
        named.push((format!("{AVERAGE}{name}"), tensor.to_device(Device::Cpu)));
    }
    let Position { stage, step } = state.position;
    let numbers = [stage as i64, step as i64, state.adam.steps as i64, state.average.steps as i64];
    named.push((POSITION.to_owned(), Tensor::from_slice(&numbers)));
    let partial = path.with_extension("partial");
    Tensor::write_safetensors(&named, &partial)?;
    let file = |source| Error::file(path, source);
    std::fs::File::open(&partial).and_then(|opened| opened.sync_all()).map_err(file)?;
    std::fs::rename(&partial, path).map_err(file)
}

impl State {
    /// The learned weights: averaged if the stage averages them, even if it has not finished.
    pub fn learned(self) -> Parameters {
        let Self { mut parameters, mut average, .. } = self;
        average.finish(&mut parameters);
        parameters
    }
}

/// Reads the output of `save`.
pub fn load(path: &Path, device: Device) -> Result<State, Error> {
    let broken = |problem: String| Error::Content { path: path.to_owned(), problem };
    let mut named: BTreeMap<String, Tensor> = Tensor::read_safetensors(path)?.into_iter().collect();
    let numbers = named.remove(POSITION).ok_or_else(|| broken("it has no position".to_owned()))?;
    let numbers: Vec<i64> = Vec::try_from(numbers)?;
    let (stage, step, adam_steps, average_steps) = match numbers[..] {
        // Written before weights could be averaged.
        [stage, step, adam_steps] => (stage, step, adam_steps, 0),
        [stage, step, adam_steps, average_steps] => (stage, step, adam_steps, average_steps),
        _ => return Err(broken(format!("position: expected 4 numbers, got {}", numbers.len()))),
    };
    let mut state = State::new(device);
    state.position = Position { stage: stage as usize, step: step as u64 };
    (state.adam.steps, state.average.steps) = (adam_steps as u64, average_steps as u64);
    let copy = |tensor: &Tensor| tensor.to_device(device).to_kind(Kind::Float).copy();
    for (name, tensor) in &named {
        if let Some(name) = name.strip_prefix(WEIGHT) {
            state.parameters.set(name, tensor);
        } else if let Some(name) = name.strip_prefix(FIRST) {
            let second =
                named.get(&format!("{SECOND}{name}")).ok_or_else(|| broken(format!("one of {name}'s two moments is missing")))?;
            state.adam.moments.insert(name.to_owned(), (copy(tensor), copy(second)));
        } else if let Some(name) = name.strip_prefix(AVERAGE) {
            state.average.weights.insert(name.to_owned(), copy(tensor));
        }
    }
    Ok(state)
}
