//! The index on disk: `index.usearch` beside `index.json`, which has its checksum, its parameters and the change sequence that it
//! reaches. Each is written under another name, synced and renamed, so that a crash leaves the old pair or a pair whose
//! checksum does not fit; then `load` refuses it and the index is rebuilt from the store.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::hnsw::QUANTIZATION;
use super::{Index, IndexError, IndexParameters};
use crate::domain::Sequence;

/// The version of `index.json` and of what it describes.
const FORMAT: u32 = 1;
const GRAPH: &str = "index.usearch";
const DESCRIPTION: &str = "index.json";

/// A saved index.
#[derive(Debug)]
pub struct Loaded {
    /// The index.
    pub index: Index,
    /// The change that it reaches.
    pub sequence: Sequence,
}

/// Saves `index` as reaching `sequence`: every change up to it must be in the index, later ones may.
pub fn save(index: &Index, folder: &Path, sequence: Sequence) -> Result<(), IndexError> {
    let (graph, graph_new) = (folder.join(GRAPH), folder.join("index.usearch.new"));
    let (description, description_new) = (folder.join(DESCRIPTION), folder.join("index.json.new"));
    let written = write_pair(index, sequence, &graph_new, &description_new);
    if written.is_err() {
        // What is half-written may be what filled the disk.
        let _ = std::fs::remove_file(&graph_new);
        let _ = std::fs::remove_file(&description_new);
        return written;
    }
    for (new, old) in [(&graph_new, &graph), (&description_new, &description)] {
        std::fs::rename(new, old).map_err(file_error(old))?;
    }
    sync(folder)
}

/// Loads the index saved in `folder`. An error names why it must be rebuilt: missing, torn, other parameters.
pub fn load(folder: &Path, parameters: &IndexParameters) -> Result<Loaded, IndexError> {
    let description = Description::read(&folder.join(DESCRIPTION))?;
    description.check_parameters(parameters)?;
    let path = folder.join(GRAPH);
    let (expected, got) = (description.bytes, length(&path)?);
    if got != expected {
        return Err(IndexError::Torn { path, expected, got });
    }
    let (expected, got) = (description.crc32, crc32_file(&path)?);
    if got != expected {
        return Err(IndexError::Checksum { path, expected, got });
    }
    let index = Index::read_from(&path, parameters)?;
    if index.len() != description.count {
        let (expected, got) = (description.count.to_string(), index.len().to_string());
        return Err(IndexError::Parameters { what: "count", expected, got });
    }
    Ok(Loaded { index, sequence: Sequence(description.sequence) })
}

/// `index.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    format: u32,
    sequence: u64,
    count: usize,
    dimension: usize,
    quantization: String,
    connectivity: usize,
    expansion_add: usize,
    /// Length of `index.usearch`.
    bytes: u64,
    /// CRC-32 of `index.usearch`.
    crc32: u32,
    /// CRC-32 of this description with 0 in this place: a flipped digit of `sequence` would lose documents from searches.
    description_crc32: u32,
}

impl Description {
    fn read(path: &Path) -> Result<Self, IndexError> {
        let bytes = std::fs::read(path).map_err(file_error(path))?;
        let description: Self = serde_json::from_slice(&bytes).map_err(json_error(path))?;
        let (expected, got) = (description.description_crc32, description.own_crc32(path)?);
        if got == expected { Ok(description) } else { Err(IndexError::Checksum { path: path.to_owned(), expected, got }) }
    }

    fn write(mut self, path: &Path) -> Result<(), IndexError> {
        self.description_crc32 = self.own_crc32(path)?;
        let mut bytes = serde_json::to_vec_pretty(&self).map_err(json_error(path))?;
        bytes.push(b'\n');
        File::create(path).and_then(|mut file| file.write_all(&bytes)).map_err(file_error(path))
    }

    fn own_crc32(&self, path: &Path) -> Result<u32, IndexError> {
        let bytes = serde_json::to_vec(&Self { description_crc32: 0, ..self.clone() }).map_err(json_error(path))?;
        Ok(crc32fast::hash(&bytes))
    }

    /// Refuses what shaped the graph. How wide a search looks is the reader's own choice.
    fn check_parameters(&self, parameters: &IndexParameters) -> Result<(), IndexError> {
        let wanted = [
            ("format", FORMAT.to_string(), self.format.to_string()),
            ("dimension", parameters.dimension.to_string(), self.dimension.to_string()),
            ("quantization", QUANTIZATION.to_owned(), self.quantization.clone()),
            ("connectivity", parameters.connectivity.to_string(), self.connectivity.to_string()),
            ("expansion_add", parameters.expansion_add.to_string(), self.expansion_add.to_string()),
        ];
        match wanted.into_iter().find(|(_, expected, got)| expected != got) {
            Some((what, expected, got)) => Err(IndexError::Parameters { what, expected, got }),
            None => Ok(()),
        }
    }
}

fn write_pair(index: &Index, sequence: Sequence, graph: &Path, description: &Path) -> Result<(), IndexError> {
    let count = index.write_to(graph)?;
    sync(graph)?;
    let parameters = index.parameters();
    let described = Description {
        format: FORMAT,
        sequence: sequence.0,
        count,
        dimension: parameters.dimension,
        quantization: QUANTIZATION.to_owned(),
        connectivity: parameters.connectivity,
        expansion_add: parameters.expansion_add,
        bytes: length(graph)?,
        crc32: crc32_file(graph)?,
        description_crc32: 0,
    };
    described.write(description)?;
    sync(description)
}

fn length(path: &Path) -> Result<u64, IndexError> {
    Ok(std::fs::metadata(path).map_err(file_error(path))?.len())
}

fn crc32_file(path: &Path) -> Result<u32, IndexError> {
    let mut file = File::open(path).map_err(file_error(path))?;
    let mut hash = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(file_error(path))? {
            0 => return Ok(hash.finalize()),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// Makes a file's content, or a folder's names, survive power loss.
fn sync(path: &Path) -> Result<(), IndexError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(file_error(path))
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> IndexError {
    let path = path.to_owned();
    move |source| match source.kind() {
        std::io::ErrorKind::NotFound => IndexError::Missing { path },
        _ => IndexError::File { path, source },
    }
}

fn json_error(path: &Path) -> impl FnOnce(serde_json::Error) -> IndexError {
    let path = path.to_owned();
    move |source| IndexError::Description { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Embedding, PassageId};

    const PARAMETERS: IndexParameters =
        IndexParameters { dimension: 8, connectivity: 16, expansion_add: 64, expansion_search: 64 };

    fn embedding(number: u64) -> Embedding {
        Embedding::normalized((0..8).map(|place| ((number * 7 + place * 3) % 11) as f32 + 1.0).collect()).unwrap()
    }

    fn index_of(keys: std::ops::Range<u64>) -> Index {
        let index = Index::create(&PARAMETERS).unwrap();
        for key in keys {
            index.add(PassageId(key), &embedding(key)).unwrap();
        }
        index
    }

    /// A folder with a saved index of 100 passages that reaches change 42.
    fn saved() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        save(&index_of(0..100), folder.path(), Sequence(42)).unwrap();
        folder
    }

    /// Says why `load` refuses the folder, without the paths.
    fn refusal(folder: &Path) -> String {
        match load(folder, &PARAMETERS) {
            Ok(loaded) => panic!("loaded {loaded:?}"),
            Err(error) => error.to_string().replace(folder.to_str().unwrap(), ""),
        }
    }

    fn flip(path: &Path, at: usize) {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[at] ^= 0x10;
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let folder = saved();
        let loaded = load(folder.path(), &PARAMETERS).unwrap();
        assert_eq!(loaded.sequence, Sequence(42));
        assert_eq!(loaded.index.len(), 100);
        assert_eq!(loaded.index.search(&embedding(3), 5).unwrap(), index_of(0..100).search(&embedding(3), 5).unwrap());
    }

    #[test]
    fn a_loaded_index_takes_more_and_forgets_what_was_removed() {
        let index = index_of(0..100);
        index.remove(PassageId(5)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        save(&index, folder.path(), Sequence(1)).unwrap();
        let loaded = load(folder.path(), &PARAMETERS).unwrap().index;
        assert_eq!(loaded.len(), 99);
        assert!(!loaded.remove(PassageId(5)).unwrap());
        for key in 200..500 {
            loaded.add(PassageId(key), &embedding(key)).unwrap();
        }
        assert_eq!(loaded.len(), 399);
    }

    #[test]
    fn an_empty_index_round_trips() {
        let folder = tempfile::tempdir().unwrap();
        save(&index_of(0..0), folder.path(), Sequence(0)).unwrap();
        let loaded = load(folder.path(), &PARAMETERS).unwrap().index;
        assert!(loaded.is_empty());
        loaded.add(PassageId(1), &embedding(1)).unwrap();
        assert_eq!(loaded.search(&embedding(1), 3).unwrap().len(), 1);
    }

    #[test]
    fn saving_again_replaces_the_pair_and_leaves_nothing_else() {
        let folder = saved();
        save(&index_of(0..7), folder.path(), Sequence(43)).unwrap();
        assert_eq!(load(folder.path(), &PARAMETERS).unwrap().sequence, Sequence(43));
        let mut names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [DESCRIPTION, GRAPH]);
    }

    #[test]
    fn either_file_missing_is_said() {
        for name in [GRAPH, DESCRIPTION] {
            let folder = saved();
            std::fs::remove_file(folder.path().join(name)).unwrap();
            assert_eq!(refusal(folder.path()), format!("there is no /{name}"));
        }
    }

    #[test]
    fn a_torn_graph_is_refused() {
        let folder = saved();
        let path = folder.path().join(GRAPH);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let expect = format!("/{GRAPH} has {} bytes, its description says {}", bytes.len() / 2, bytes.len());
        assert_eq!(refusal(folder.path()), expect);
    }

    #[test]
    fn a_flipped_bit_anywhere_in_the_graph_is_refused() {
        let folder = saved();
        let path = folder.path().join(GRAPH);
        let length = std::fs::metadata(&path).unwrap().len() as usize;
        for at in [0, length / 3, length - 1] {
            flip(&path, at);
            assert!(matches!(load(folder.path(), &PARAMETERS), Err(IndexError::Checksum { .. })), "byte {at}");
            flip(&path, at);
        }
    }

    #[test]
    fn a_changed_sequence_is_refused() {
        let folder = saved();
        let path = folder.path().join(DESCRIPTION);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\"sequence\": 42", "\"sequence\": 46")).unwrap();
        assert!(matches!(load(folder.path(), &PARAMETERS), Err(IndexError::Checksum { .. })));
    }

    #[test]
    fn a_torn_description_is_refused() {
        let folder = saved();
        let path = folder.path().join(DESCRIPTION);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert_eq!(refusal(folder.path()), format!("/{DESCRIPTION} does not describe an index"));
    }

    #[test]
    fn a_pair_of_two_saves_is_refused() {
        for (kept, length_differs) in [(GRAPH, true), (DESCRIPTION, true), (GRAPH, false), (DESCRIPTION, false)] {
            let folder = saved();
            let before = std::fs::read(folder.path().join(kept)).unwrap();
            let later = if length_differs { index_of(0..120) } else { index_of(1_000..1_100) };
            save(&later, folder.path(), Sequence(50)).unwrap();
            std::fs::write(folder.path().join(kept), before).unwrap();
            let error = load(folder.path(), &PARAMETERS).unwrap_err();
            assert!(matches!(error, IndexError::Torn { .. } | IndexError::Checksum { .. }), "{error}");
        }
    }

    #[test]
    fn other_parameters_are_refused_by_name() {
        let folder = saved();
        for (what, parameters) in [
            ("dimension", IndexParameters { dimension: 9, ..PARAMETERS }),
            ("connectivity", IndexParameters { connectivity: 32, ..PARAMETERS }),
            ("expansion_add", IndexParameters { expansion_add: 128, ..PARAMETERS }),
        ] {
            match load(folder.path(), &parameters) {
                Err(IndexError::Parameters { what: got, .. }) => assert_eq!(got, what),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_wider_search_needs_no_rebuild() {
        let folder = saved();
        assert!(load(folder.path(), &IndexParameters { expansion_search: 200, ..PARAMETERS }).is_ok());
    }

    #[test]
    fn a_folder_that_is_not_there_cannot_be_saved_to() {
        let folder = tempfile::tempdir().unwrap();
        let error = save(&index_of(0..3), &folder.path().join("gone"), Sequence(1)).unwrap_err();
        assert!(matches!(error, IndexError::Engine { .. } | IndexError::Missing { .. }), "{error}");
    }
}
