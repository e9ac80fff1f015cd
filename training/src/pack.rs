//! Weights as half-precision files of limited size, for copying a finished stage from the machine that trained it to the one
//! that exports it if only small files can be transferred.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use tch::{Device, Kind, Tensor};

use crate::checkpoint::{self, State};
use crate::error::Error;

/// Writes the weights of a finished stage to `folder` as `weights.000`, `weights.001` and so on, in float16, each of at most
/// `piece_bytes`. Leaves out what the export does not use: heads and the optimizer's moments.
pub fn pack(weights: &Path, folder: &Path, piece_bytes: usize) -> Result<usize, Error> {
    if piece_bytes == 0 {
        return Err(Error::Setting { setting: "piece-mib", problem: "expected more than 0".to_owned() });
    }
    let learned = checkpoint::load(weights, Device::Cpu)?.learned();
    let exported = |name: &str| ["embeddings.", "layers.", "questions."].iter().any(|prefix| name.starts_with(prefix));
    let halves: Vec<(&str, Tensor)> = learned
        .iter()
        .filter(|(name, _)| exported(name))
        .map(|(name, tensor)| (name, tensor.detach().to_kind(Kind::Half)))
        .collect();
    std::fs::create_dir_all(folder).map_err(|source| Error::file(folder, source))?;
    // Files left over from before would be joined to these.
    for old in (0..).map(|number| piece(folder, number)).take_while(|path| path.is_file()) {
        std::fs::remove_file(&old).map_err(|source| Error::file(&old, source))?;
    }
    let joined = tempfile::NamedTempFile::new_in(folder).map_err(|source| Error::file(folder, source))?;
    Tensor::write_safetensors(&halves, joined.path())?;
    let mut joined = File::open(joined.path()).map_err(|source| Error::file(folder, source))?;
    let mut pieces = 0;
    loop {
        let mut bytes = Vec::new();
        (&mut joined).take(piece_bytes as u64).read_to_end(&mut bytes).map_err(|source| Error::file(folder, source))?;
        if bytes.is_empty() {
            return Ok(pieces);
        }
        let path = piece(folder, pieces);
        std::fs::write(&path, bytes).map_err(|source| Error::file(&path, source))?;
        pieces += 1;
    }
}

/// Joins the output of `pack` into weights in float32, which `eval` and `export` read.
pub fn unpack(folder: &Path, weights: &Path) -> Result<(), Error> {
    let parent = weights.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut joined = tempfile::NamedTempFile::new_in(parent).map_err(|source| Error::file(parent, source))?;
    let mut pieces = 0;
    while piece(folder, pieces).is_file() {
        let path = piece(folder, pieces);
        let bytes = std::fs::read(&path).map_err(|source| Error::file(&path, source))?;
        joined.write_all(&bytes).map_err(|source| Error::file(parent, source))?;
        pieces += 1;
    }
    if pieces == 0 {
        return Err(Error::NoData { path: folder.to_owned() });
    }
    joined.flush().map_err(|source| Error::file(parent, source))?;
    let mut state = State::new(Device::Cpu);
    for (name, tensor) in Tensor::read_safetensors(joined.path())? {
        state.parameters.set(&name, &tensor);
    }
    checkpoint::save(weights, &state)
}

fn piece(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("weights.{number:03}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_rounds_weights_to_half_precision_and_drops_heads() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = State::new(Device::Cpu);
        let table = [1.0f32, -0.5, 1.0 / 3.0, 2048.0];
        state.parameters.set("embeddings.token.weight", &Tensor::from_slice(&table).view([2, 2]));
        state.parameters.set("questions.layers.0.norm.bias", &Tensor::from_slice(&[0.25f32]));
        state.parameters.set("contrastive.inner.weight", &Tensor::from_slice(&[1.0f32]));
        let (weights, joined) = (folder.path().join("a.safetensors"), folder.path().join("b.safetensors"));
        checkpoint::save(&weights, &state).unwrap();
        let pieces = pack(&weights, &folder.path().join("pieces"), 40).unwrap();
        assert!(pieces > 1);
        unpack(&folder.path().join("pieces"), &joined).unwrap();
        let parameters = checkpoint::load(&joined, Device::Cpu).unwrap().parameters;
        let got: Vec<f32> = Vec::try_from(parameters.get("embeddings.token.weight").flatten(0, -1)).unwrap();
        // The nearest half-precision number to 1/3 is 1365 / 4096.
        assert_eq!(got, [1.0, -0.5, 1365.0 / 4096.0, 2048.0]);
        assert!(parameters.has("questions.layers.0.norm.bias") && !parameters.has("contrastive.inner.weight"));
    }

    #[test]
    fn packing_again_discards_the_previous_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let (weights, pieces) = (folder.path().join("a.safetensors"), folder.path().join("pieces"));
        for values in [vec![1.0f32; 400], vec![2.0f32; 4]] {
            let mut state = State::new(Device::Cpu);
            state.parameters.set("embeddings.token.weight", &Tensor::from_slice(&values));
            checkpoint::save(&weights, &state).unwrap();
            pack(&weights, &pieces, 100).unwrap();
        }
        unpack(&pieces, &weights).unwrap();
        let parameters = checkpoint::load(&weights, Device::Cpu).unwrap().parameters;
        assert_eq!(parameters.get("embeddings.token.weight").size(), [4]);
    }

    #[test]
    fn unpacking_a_folder_without_pieces_fails() {
        let folder = tempfile::tempdir().unwrap();
        let error = unpack(folder.path(), &folder.path().join("w.safetensors")).unwrap_err();
        assert!(matches!(error, Error::NoData { .. }));
    }
}
