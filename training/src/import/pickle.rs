//! Reads what `torch.save` pickles without running code. A pickle is a program; this reader knows only the instructions and the
//! few functions that a state dict needs, and refuses everything else by name and byte offset. This file defines what a pickle
//! may contain; `machine.rs` runs the instructions.

use std::rc::Rc;

use super::machine;

/// What is wrong with a pickle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {problem}")]
pub struct PickleError {
    /// Byte offset of the instruction.
    pub offset: usize,
    /// Expected and got.
    pub problem: String,
}

/// A value. Containers and tensors are `Object`s of the pickle, which several values may share.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    None,
    Bool(bool),
    /// An integer of up to 64 bits.
    Int(i64),
    Float(f64),
    Text(Rc<str>),
    /// Bytes; their content is not needed here.
    Bytes,
    /// A class or function, by its name.
    Global(Global),
    /// The index of a `Pickle::object`.
    Object(usize),
}

impl Value {
    /// The entry of `objects` that the value refers to.
    pub(super) fn object_in<'a>(&self, objects: &'a [Object]) -> Option<&'a Object> {
        match self {
            Self::Object(number) => objects.get(*number),
            _ => None,
        }
    }
}

/// A container or a tensor.
#[derive(Debug, Clone, PartialEq)]
pub enum Object {
    Tuple(Vec<Value>),
    List(Vec<Value>),
    /// A dict or OrderedDict, in insertion order.
    Dict(Vec<(Value, Value)>),
    /// The numbers of one or more tensors, in a separate file.
    Storage(Storage),
    /// A view of a storage.
    Tensor(StoredTensor),
}

/// The number types that a storage may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    Double,
    Float,
    Half,
    BFloat16,
    /// An integer or boolean of this many bytes; never a weight.
    Integer(usize),
}

impl Element {
    pub fn bytes(self) -> usize {
        match self {
            Self::Double => 8,
            Self::Float => 4,
            Self::Half | Self::BFloat16 => 2,
            Self::Integer(bytes) => bytes,
        }
    }
}

/// A file of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// Name of its file within the archive's folder `data`.
    pub key: Rc<str>,
    pub element: Element,
    /// Number of numbers in it.
    pub numbers: usize,
}

/// A tensor as a view of a storage; not validated yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTensor {
    pub storage: Storage,
    /// Index of the first value in it.
    pub offset: i64,
    pub shape: Vec<i64>,
    /// Step of each dimension, in numbers.
    pub strides: Vec<i64>,
}

/// The classes and functions that a pickle may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Global {
    /// `collections.OrderedDict`.
    OrderedDict,
    /// `torch._utils._rebuild_tensor_v2`.
    RebuildTensor,
    /// `torch._utils._rebuild_parameter`.
    RebuildParameter,
    /// `torch.FloatStorage` and the like.
    Storage(Element),
}

impl Global {
    /// The function or class `module.name`, if a state dict needs it.
    pub(super) fn of(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2") => Self::RebuildTensor,
            ("torch._utils", "_rebuild_parameter") => Self::RebuildParameter,
            ("torch", "DoubleStorage") => Self::Storage(Element::Double),
            ("torch", "FloatStorage") => Self::Storage(Element::Float),
            ("torch", "HalfStorage") => Self::Storage(Element::Half),
            ("torch", "BFloat16Storage") => Self::Storage(Element::BFloat16),
            ("torch", "LongStorage") => Self::Storage(Element::Integer(8)),
            ("torch", "IntStorage") => Self::Storage(Element::Integer(4)),
            ("torch", "ShortStorage") => Self::Storage(Element::Integer(2)),
            ("torch", "CharStorage" | "ByteStorage" | "BoolStorage") => Self::Storage(Element::Integer(1)),
            _ => return None,
        })
    }
}

/// The content of a pickle.
#[derive(Debug, Clone, PartialEq)]
pub struct Pickle {
    /// The pickled value.
    pub root: Value,
    objects: Vec<Object>,
}

impl Pickle {
    /// Reads a pickle to its end.
    pub fn read(bytes: &[u8]) -> Result<Self, PickleError> {
        let (root, objects) = machine::run(bytes)?;
        Ok(Self { root, objects })
    }

    /// The object that a value refers to.
    pub fn object(&self, value: &Value) -> Option<&Object> {
        value.object_in(&self.objects)
    }

    /// The entries of a dict whose keys are strings.
    pub fn entries<'a>(&'a self, value: &Value) -> Option<impl Iterator<Item = (&'a str, &'a Value)>> {
        let Object::Dict(entries) = self.object(value)? else { return None };
        Some(entries.iter().filter_map(|(key, value)| match key {
            Value::Text(key) => Some((&**key, value)),
            _ => None,
        }))
    }
}

#[cfg(test)]
#[path = "pickle_tests.rs"]
mod tests;
