//! Writes files like `torch.save`: a pickle of protocol 2, and one entry of numbers per storage.

use std::io::Write as _;
use std::path::Path;

use half::{bf16, f16};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Types of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    Float,
    Half,
    BFloat16,
    Long,
}

/// A tensor as a view of storage number `storage`.
#[derive(Debug, Clone)]
pub struct View {
    pub storage: usize,
    pub offset: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

/// A value to pickle.
#[derive(Debug, Clone)]
pub enum Python {
    None,
    Int(i32),
    Float(f64),
    Text(String),
    List(Vec<Python>),
    Tuple(Vec<Python>),
    Dict(Vec<(Python, Python)>),
    /// An OrderedDict; the flag gives it the attribute `_metadata`, as a module's state dict has.
    Ordered(Vec<(String, Python)>, bool),
    Tensor(View),
}

/// A file under construction.
#[derive(Debug, Clone, Default)]
pub struct TorchFile {
    storages: Vec<(Numbers, Vec<f32>)>,
}

impl TorchFile {
    /// Adds a storage.
    pub fn storage(&mut self, numbers: Numbers, values: Vec<f32>) -> usize {
        self.storages.push((numbers, values));
        self.storages.len() - 1
    }

    /// Adds a separate storage for a tensor whose last dimension is fastest.
    pub fn tensor(&mut self, numbers: Numbers, shape: &[usize], values: Vec<f32>) -> Python {
        let storage = self.storage(numbers, values);
        Python::Tensor(View { storage, offset: 0, shape: shape.to_vec(), strides: contiguous(shape) })
    }

    /// Adds a tensor of two dimensions whose first dimension is fastest, the layout of a transposed matrix.
    pub fn transposed(&mut self, numbers: Numbers, [rows, columns]: [usize; 2], values: &[f32]) -> Python {
        let turned = (0..columns).flat_map(|column| (0..rows).map(move |row| values[row * columns + column])).collect();
        let storage = self.storage(numbers, turned);
        Python::Tensor(View { storage, offset: 0, shape: vec![rows, columns], strides: vec![1, rows] })
    }

    /// Writes a file with `root` and the storages.
    pub fn save(&self, path: &Path, root: &Python) {
        self.save_pickle(path, &self.pickle(root));
    }

    /// Like `save`, with the given pickle.
    pub fn save_pickle(&self, path: &Path, pickle: &[u8]) {
        let mut archive = ZipWriter::new(std::fs::File::create(path).unwrap());
        let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        let mut entry = |name: &str, content: &[u8]| {
            archive.start_file(name, stored).unwrap();
            archive.write_all(content).unwrap();
        };
        entry("archive/data.pkl", pickle);
        entry("archive/byteorder", b"little");
        for (key, (numbers, values)) in self.storages.iter().enumerate() {
            entry(&format!("archive/data/{key}"), &bytes(*numbers, values));
        }
        entry("archive/version", b"3\n");
        archive.finish().unwrap();
    }

    /// The pickle of `root`.
    pub fn pickle(&self, root: &Python) -> Vec<u8> {
        let mut out = b"\x80\x02".to_vec();
        self.put(&mut out, root);
        out.push(b'.');
        out
    }

    fn put(&self, out: &mut Vec<u8>, value: &Python) {
        match value {
            Python::None => out.push(b'N'),
            Python::Int(value) => {
                out.push(b'J');
                out.extend(value.to_le_bytes());
            }
            Python::Float(value) => {
                out.push(b'G');
                out.extend(value.to_be_bytes());
            }
            Python::Text(text) => put_text(out, text),
            Python::List(items) => {
                out.extend(b"](");
                items.iter().for_each(|item| self.put(out, item));
                out.push(b'e');
            }
            Python::Tuple(items) => {
                out.push(b'(');
                items.iter().for_each(|item| self.put(out, item));
                out.push(b't');
            }
            Python::Dict(entries) => {
                out.extend(b"}(");
                for (key, value) in entries {
                    self.put(out, key);
                    self.put(out, value);
                }
                out.push(b'u');
            }
            Python::Ordered(entries, metadata) => {
                out.extend(b"ccollections\nOrderedDict\n)R(");
                for (key, value) in entries {
                    put_text(out, key);
                    self.put(out, value);
                }
                out.push(b'u');
                if *metadata {
                    self.put(
                        out,
                        &Python::Dict(vec![(Python::Text("_metadata".to_owned()), Python::Ordered(Vec::new(), false))]),
                    );
                    out.push(b'b');
                }
            }
            Python::Tensor(view) => self.put_tensor(out, view),
        }
    }

    fn put_tensor(&self, out: &mut Vec<u8>, view: &View) {
        let (numbers, values) = &self.storages[view.storage];
        let class = match numbers {
            Numbers::Float => "FloatStorage",
            Numbers::Half => "HalfStorage",
            Numbers::BFloat16 => "BFloat16Storage",
            Numbers::Long => "LongStorage",
        };
        out.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        put_text(out, "storage");
        out.extend(format!("ctorch\n{class}\n").bytes());
        put_text(out, &view.storage.to_string());
        put_text(out, "cuda:0");
        self.put(out, &Python::Int(values.len() as i32));
        out.extend(b"tQ");
        self.put(out, &Python::Int(view.offset as i32));
        for sizes in [&view.shape, &view.strides] {
            self.put(out, &Python::Tuple(sizes.iter().map(|&size| Python::Int(size as i32)).collect()));
        }
        out.push(0x89);
        self.put(out, &Python::Ordered(Vec::new(), false));
        out.extend(b"tR");
    }
}

/// Strides of a tensor whose last dimension is fastest.
pub fn contiguous(shape: &[usize]) -> Vec<usize> {
    (0..shape.len()).map(|dimension| shape[dimension + 1..].iter().product()).collect()
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'X');
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.bytes());
}

fn bytes(numbers: Numbers, values: &[f32]) -> Vec<u8> {
    let each = |value: &f32| match numbers {
        Numbers::Float => value.to_le_bytes().to_vec(),
        Numbers::Half => f16::from_f32(*value).to_le_bytes().to_vec(),
        Numbers::BFloat16 => bf16::from_f32(*value).to_le_bytes().to_vec(),
        Numbers::Long => (*value as i64).to_le_bytes().to_vec(),
    };
    values.iter().flat_map(each).collect()
}
