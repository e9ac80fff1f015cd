//! Checkpoints: everything that a run needs to go on exactly where it stopped, in one safetensors file that is replaced
//! atomically.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tch::{Device, Kind, Tensor};

use crate::error::Error;
use crate::model::parameters::Parameters;
use crate::optim::Adam;

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Stage, from 0.
    pub stage: usize,
    /// Steps done in it.
    pub step: u64,
}

const WEIGHT: &str = "weight/";
const FIRST: &str = "first/";
const SECOND: &str = "second/";
const POSITION: &str = "position";

/// The checkpoint of the run in `folder`.
pub fn path(folder: &Path) -> PathBuf {
    folder.join("checkpoint.safetensors")
}

/// Writes weights, optimizer state and position.
pub fn save(path: &Path, parameters: &Parameters, adam: &Adam, position: Position) -> Result<(), Error> {
    let mut named: Vec<(String, Tensor)> = Vec::new();
    for (name, tensor) in parameters.iter() {
        named.push((format!("{WEIGHT}{name}"), tensor.detach().to_device(Device::Cpu)));
    }
    for (name, (first, second)) in &adam.moments {
        named.push((format!("{FIRST}{name}"), first.to_device(Device::Cpu)));
        named.push((format!("{SECOND}{name}"), second.to_device(Device::Cpu)));
    }
    let numbers = [position.stage as i64, position.step as i64, adam.steps as i64];
    named.push((POSITION.to_owned(), Tensor::from_slice(&numbers)));
    let partial = path.with_extension("partial");
    Tensor::write_safetensors(&named, &partial)?;
    let file = |source| Error::file(path, source);
    std::fs::File::open(&partial).and_then(|opened| opened.sync_all()).map_err(file)?;
    std::fs::rename(&partial, path).map_err(file)
}

/// Reads what `save` wrote.
pub fn load(path: &Path, device: Device) -> Result<(Parameters, Adam, Position), Error> {
    let broken = |problem: String| Error::Content { path: path.to_owned(), problem };
    let mut named: BTreeMap<String, Tensor> = Tensor::read_safetensors(path)?.into_iter().collect();
    let numbers = named.remove(POSITION).ok_or_else(|| broken("no position in it".to_owned()))?;
    let numbers: Vec<i64> = Vec::try_from(numbers)?;
    let [stage, step, adam_steps] = numbers[..] else { return Err(broken("its position is malformed".to_owned())) };
    let mut parameters = Parameters::new(device);
    let mut adam = Adam { steps: adam_steps as u64, moments: BTreeMap::new() };
    for (name, tensor) in &named {
        if let Some(name) = name.strip_prefix(WEIGHT) {
            parameters.set(name, tensor);
        } else if let Some(name) = name.strip_prefix(FIRST) {
            let second = named.get(&format!("{SECOND}{name}")).ok_or_else(|| broken(format!("half of {name}'s moments")))?;
            let copy = |tensor: &Tensor| tensor.to_device(device).to_kind(Kind::Float).copy();
            adam.moments.insert(name.to_owned(), (copy(tensor), copy(second)));
        }
    }
    Ok((parameters, adam, Position { stage: stage as usize, step: step as u64 }))
}
