//! Reads a PyTorch checkpoint: the zip archive that `torch.save` writes since PyTorch 1.6, with the pickle `NAME/data.pkl` and
//! one file of numbers per storage, `NAME/data/KEY`. Only the requested storages are read.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use zip::ZipArchive;

use super::pickle::{Element, Object, Pickle, Storage, StoredTensor, Value};
use crate::error::Error;
use crate::export::Weight;

/// Where a state dict may be in the saved object: at the top, or under one of these keys.
const STATE_DICTS: [&str; 3] = ["state_dict", "model_state_dict", "model"];

/// An opened checkpoint.
pub struct Checkpoint {
    path: PathBuf,
    archive: ZipArchive<BufReader<File>>,
    /// The prefix `NAME/` of the entries.
    folder: String,
    pickle: Pickle,
}

impl Checkpoint {
    /// Opens the file and reads its pickle, but not the tensors' data.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|source| Error::file(path, source))?;
        let refuse = |problem: String| Error::Content { path: path.to_owned(), problem };
        let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| {
            refuse(format!("expected the zip archive that torch.save writes since PyTorch 1.6: {error}; torch.load and torch.save of a current PyTorch make one of an older file"))
        })?;
        let folder = folder_of(&archive).map_err(&refuse)?;
        let order = entry(&mut archive, &format!("{folder}byteorder"), None);
        if order.as_deref().is_ok_and(|order| order.trim_ascii() != b"little") {
            return Err(refuse("its numbers are not little-endian".to_owned()));
        }
        let name = format!("{folder}data.pkl");
        let bytes = entry(&mut archive, &name, None).map_err(&refuse)?;
        let pickle = Pickle::read(&bytes).map_err(|malformed| refuse(format!("{name}, {malformed}")))?;
        Ok(Self { path: path.to_owned(), archive, folder, pickle })
    }

    /// The tensors, by name, of the state dict that has a name ending with `landmark`: the saved object itself, or its entry
    /// `state_dict`, `model_state_dict` or `model`. Other contents (an optimizer's state, counters) are ignored.
    pub fn state_dict(&self, landmark: &str) -> Result<Vec<(String, StoredTensor)>, Error> {
        let within = |name: &str| self.pickle.entries(&self.pickle.root)?.find(|(key, _)| *key == name).map(|(_, value)| value);
        let candidates = [Some(&self.pickle.root)].into_iter().chain(STATE_DICTS.iter().map(|name| within(name)));
        for candidate in candidates.flatten() {
            let tensors = self.tensors(candidate);
            if tensors.iter().any(|(name, _)| name.ends_with(landmark)) {
                return Ok(tensors);
            }
        }
        let keys: Vec<&str> = match self.pickle.entries(&self.pickle.root) {
            Some(entries) => entries.map(|(key, _)| key).take(10).collect(),
            None => Vec::new(),
        };
        let names = STATE_DICTS.join(", ");
        Err(self.refuse(format!(
            "expected a state dict with a tensor …{landmark} at the top or under {names}, got the keys {keys:?}"
        )))
    }

    /// Reads a tensor's values as float32, whatever its storage type and layout.
    pub fn read(&mut self, name: &str, tensor: &StoredTensor) -> Result<Weight, Error> {
        let refuse = |problem: String| Error::Content { path: self.path.clone(), problem: format!("{name}: {problem}") };
        let layout = Layout::of(tensor).map_err(&refuse)?;
        let Storage { key, element, numbers } = &tensor.storage;
        if let Element::Integer(_) = element {
            return Err(refuse("expected floating-point numbers, got whole ones".to_owned()));
        }
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(refuse(format!("expected a storage named by letters and digits, got {key:?}")));
        }
        let bytes = numbers.checked_mul(element.bytes());
        let bytes = bytes.ok_or_else(|| refuse(format!("a storage of {numbers} numbers is larger than memory")))?;
        let data = entry(&mut self.archive, &format!("{}data/{key}", self.folder), Some(bytes)).map_err(&refuse)?;
        let values = layout.positions().map(|position| number(&data, *element, position)).collect();
        Ok(Weight { shape: layout.shape, values })
    }

    fn tensors(&self, dict: &Value) -> Vec<(String, StoredTensor)> {
        let entries = self.pickle.entries(dict).into_iter().flatten();
        let tensor = |(name, value): (&str, &Value)| match self.pickle.object(value) {
            Some(Object::Tensor(tensor)) => Some((name.to_owned(), tensor.clone())),
            _ => None,
        };
        entries.filter_map(tensor).collect()
    }

    fn refuse(&self, problem: String) -> Error {
        Error::Content { path: self.path.clone(), problem }
    }
}

/// A tensor's layout in its storage, checked to be within bounds.
struct Layout {
    shape: Vec<usize>,
    strides: Vec<usize>,
    offset: usize,
}

impl Layout {
    fn of(tensor: &StoredTensor) -> Result<Self, String> {
        let (shape, strides) = (&tensor.shape, &tensor.strides);
        let lengths = |values: &[i64]| values.iter().map(|&value| usize::try_from(value).ok()).collect::<Option<Vec<_>>>();
        let outside = || {
            let (offset, numbers) = (tensor.offset, tensor.storage.numbers);
            format!("shape {shape:?} with strides {strides:?} from {offset} does not fit its storage of {numbers} numbers")
        };
        let (Some(sizes), Some(steps), Ok(offset)) = (lengths(shape), lengths(strides), usize::try_from(tensor.offset)) else {
            return Err(outside());
        };
        let count = sizes.iter().try_fold(1_usize, |count, &size| count.checked_mul(size));
        let last = sizes
            .iter()
            .zip(&steps)
            .try_fold(offset, |last, (&size, &step)| last.checked_add(size.saturating_sub(1).checked_mul(step)?));
        // A view may repeat numbers, but no weight's tensor is larger than its storage.
        let fits = count.is_some_and(|count| count <= tensor.storage.numbers)
            && (count == Some(0) || last.is_some_and(|last| last < tensor.storage.numbers));
        if sizes.len() != steps.len() || !fits {
            return Err(outside());
        }
        Ok(Self { shape: sizes, strides: steps, offset })
    }

    /// The index in the storage of each value, last dimension fastest.
    fn positions(&self) -> impl Iterator<Item = usize> {
        (0..self.shape.iter().product()).map(|index: usize| {
            let (mut rest, mut position) = (index, self.offset);
            for (size, stride) in self.shape.iter().zip(&self.strides).rev() {
                position += rest % size * stride;
                rest /= size;
            }
            position
        })
    }
}

/// The prefix `NAME/` of the only entry `NAME/data.pkl`.
fn folder_of(archive: &ZipArchive<BufReader<File>>) -> Result<String, String> {
    let mut folders =
        archive.file_names().filter_map(Result::ok).filter_map(|name| name.strip_suffix("data.pkl").map(str::to_owned));
    match (folders.next(), folders.next()) {
        (Some(folder), None) if folder.ends_with('/') && folder.matches('/').count() == 1 => Ok(folder),
        (None, _) => Err("expected an entry NAME/data.pkl, got none".to_owned()),
        (Some(folder), _) => Err(format!("expected one entry NAME/data.pkl, got {folder}data.pkl or several")),
    }
}

/// The content of an entry, which `torch.save` never compresses; must have `expected` bytes, if given.
fn entry(archive: &mut ZipArchive<BufReader<File>>, name: &str, expected: Option<usize>) -> Result<Vec<u8>, String> {
    let entry = archive.by_name(name).map_err(|error| format!("entry {name}: {error}"))?;
    let size = entry.size();
    if expected.is_some_and(|expected| expected as u64 != size) {
        return Err(format!("entry {name}: expected {} bytes, got {size}", expected.unwrap_or_default()));
    }
    let mut bytes = Vec::new();
    // The checksum is verified only when reading past the end.
    entry.take(size.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| format!("entry {name}: {error}"))?;
    if bytes.len() as u64 != size {
        return Err(format!("entry {name}: expected {size} bytes, got {}", bytes.len()));
    }
    Ok(bytes)
}

/// The number at index `position` of little-endian `data`. `Layout` has checked that it exists.
fn number(data: &[u8], element: Element, position: usize) -> f32 {
    fn bytes_at<const N: usize>(data: &[u8], position: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&data[position * N..][..N]);
        bytes
    }
    match element {
        Element::Double => f64::from_le_bytes(bytes_at(data, position)) as f32,
        Element::Float => f32::from_le_bytes(bytes_at(data, position)),
        Element::Half => f16::from_le_bytes(bytes_at(data, position)).to_f32(),
        Element::BFloat16 => bf16::from_le_bytes(bytes_at(data, position)).to_f32(),
        Element::Integer(_) => f32::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(numbers: usize, offset: i64, shape: &[i64], strides: &[i64]) -> StoredTensor {
        let storage = Storage { key: "0".into(), element: Element::Float, numbers };
        StoredTensor { storage, offset, shape: shape.to_vec(), strides: strides.to_vec() }
    }

    #[test]
    fn strides_and_offset_determine_value_positions() {
        let check = |tensor: &StoredTensor, expect: &[usize]| {
            assert_eq!(Layout::of(tensor).unwrap().positions().collect::<Vec<_>>(), expect);
        };
        check(&tensor(6, 0, &[2, 3], &[3, 1]), &[0, 1, 2, 3, 4, 5]);
        // Transposed: [3, 2] from a matrix of two rows with three values.
        check(&tensor(6, 0, &[3, 2], &[1, 3]), &[0, 3, 1, 4, 2, 5]);
        check(&tensor(6, 4, &[2], &[1]), &[4, 5]);
        check(&tensor(3, 2, &[], &[]), &[2]);
        check(&tensor(3, 3, &[0, 5], &[5, 1]), &[]);
    }

    #[test]
    fn a_tensor_that_does_not_fit_its_storage_is_refused() {
        for (offset, shape, strides) in [
            (0, &[7][..], &[1][..]),
            (1, &[6], &[1]),
            (0, &[2, 3], &[4, 1]),
            (-1, &[1], &[1]),
            (0, &[-2], &[1]),
            (0, &[2], &[-1]),
            (0, &[2, 3], &[1]),
            // Sizes whose product overflows an index, and a single number that is repeated indefinitely.
            (0, &[1 << 40, 1 << 40], &[0, 0]),
            (0, &[1 << 40], &[0]),
            (i64::MAX, &[2], &[i64::MAX]),
        ] {
            let error = Layout::of(&tensor(6, offset, shape, strides)).map(|_| ()).unwrap_err();
            assert!(error.contains("does not fit its storage of 6 numbers"), "{error}");
        }
    }

    #[test]
    fn floats_of_every_width_are_converted_to_float32() {
        // 1.5 is 0x3ff8 0000 0000 0000, 0x3fc0 0000, 0x3e00 and 0x3fc0 (the upper half of the float32).
        let check = |element, bytes: &[u8]| assert_eq!(number(bytes, element, 1), 1.5, "{element:?}");
        check(Element::Double, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]);
        check(Element::Float, &[0, 0, 0, 0, 0, 0, 0xc0, 0x3f]);
        check(Element::Half, &[0, 0, 0x00, 0x3e]);
        check(Element::BFloat16, &[0, 0, 0xc0, 0x3f]);
    }
}
