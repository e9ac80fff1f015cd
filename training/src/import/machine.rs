//! The stack machine of pickle protocols 2 to 4, as described by Python's `pickletools`, without the instructions that run
//! code.
//!
//! No allocation trusts a size that the file claims: sizes are checked against the remaining bytes. Containers are kept in one
//! list and refer to each other by index, so neither nesting nor cycles use the reader's own stack.

use std::collections::HashMap;
use std::rc::Rc;

use super::pickle::{Global, Object, PickleError, Storage, StoredTensor, Value};

/// Maximum dimensions of a tensor.
const DIMENSIONS_MAX: usize = 16;

/// Runs a pickle to its end; returns the pickled value and its objects.
pub(super) fn run(bytes: &[u8]) -> Result<(Value, Vec<Object>), PickleError> {
    let mut machine = Machine {
        bytes,
        position: 0,
        instruction_start: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        objects: Vec::new(),
        copied: 0,
    };
    loop {
        machine.instruction_start = machine.position;
        if let Some(root) = machine.step()? {
            return Ok((root, machine.objects));
        }
    }
}

/// The stack machine.
struct Machine<'a> {
    bytes: &'a [u8],
    position: usize,
    /// Byte offset of the current instruction.
    instruction_start: usize,
    stack: Vec<Value>,
    /// Stack heights at the marks.
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
    objects: Vec<Object>,
    /// Number of pairs copied from one container into another.
    copied: usize,
}

impl<'a> Machine<'a> {
    /// Runs one instruction; returns the result at the end of the program.
    fn step(&mut self) -> Result<Option<Value>, PickleError> {
        match self.byte()? {
            b'.' => return self.pop().map(Some),
            0x80 => self.protocol()?,
            // The length of a frame is only a hint for buffering.
            0x95 => self.take(8).map(|_| ())?,
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.since_mark()?),
            code @ (b'c' | 0x93) => self.global(code)?,
            b'R' => self.reduce()?,
            b'b' => self.build()?,
            b'Q' => self.storage()?,
            code @ (b'q' | b'r' | 0x94 | b'h' | b'j') => self.remember(code)?,
            code @ (b')' | b't' | 0x85..=0x87 | b']' | b'l' | b'}' | b'd') => self.container(code)?,
            code @ (b'a' | b'e' | b's' | b'u') => self.fill(code)?,
            code => {
                let value = self.constant(code)?;
                self.stack.push(value);
            }
        }
        Ok(None)
    }

    fn constant(&mut self, code: u8) -> Result<Value, PickleError> {
        Ok(match code {
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'K' => Value::Int(i64::from(self.byte()?)),
            b'M' => Value::Int(i64::from(u16::from_le_bytes(self.array()?))),
            b'J' => Value::Int(i64::from(i32::from_le_bytes(self.array()?))),
            0x8a => self.long()?,
            b'G' => Value::Float(f64::from_be_bytes(self.array()?)),
            // The string instructions of protocol 4, of protocol 2, and Python 2's two.
            0x8c | b'U' => {
                let length = usize::from(self.byte()?);
                self.text(length)?
            }
            b'X' | b'T' => {
                let length = self.length()?;
                self.text(length)?
            }
            b'C' => {
                let length = usize::from(self.byte()?);
                self.take(length).map(|_| Value::Bytes)?
            }
            b'B' => {
                let length = self.length()?;
                self.take(length).map(|_| Value::Bytes)?
            }
            _ => return self.refuse(format!("instruction {code:#04x} does not occur in a state dict")),
        })
    }

    fn protocol(&mut self) -> Result<(), PickleError> {
        match self.byte()? {
            2..=4 => Ok(()),
            version => self.refuse(format!("pickle protocol {version}, expected 2 to 4")),
        }
    }

    /// An integer of any number of bytes in two's complement, little-endian; at most eight bytes are accepted.
    fn long(&mut self) -> Result<Value, PickleError> {
        let length = usize::from(self.byte()?);
        let bytes = self.take(length)?;
        if length > 8 {
            return self.refuse(format!("an integer of {length} bytes, expected at most 8"));
        }
        let sign = if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xff } else { 0 };
        let mut padded = [sign; 8];
        padded[..length].copy_from_slice(bytes);
        Ok(Value::Int(i64::from_le_bytes(padded)))
    }

    fn text(&mut self, length: usize) -> Result<Value, PickleError> {
        match std::str::from_utf8(self.take(length)?) {
            Ok(text) => Ok(Value::Text(text.into())),
            Err(_) => self.refuse("a string that is not UTF-8".to_owned()),
        }
    }

    fn global(&mut self, code: u8) -> Result<(), PickleError> {
        let (module, name) = if code == b'c' {
            (self.line()?, self.line()?)
        } else {
            let name = self.pop()?;
            match (self.pop()?, name) {
                (Value::Text(module), Value::Text(name)) => (module.to_string(), name.to_string()),
                _ => return self.refuse("a name that is not a string".to_owned()),
            }
        };
        let Some(global) = Global::of(&module, &name) else {
            let accepted =
                "collections.OrderedDict, torch._utils._rebuild_tensor_v2, torch._utils._rebuild_parameter, torch.*Storage";
            return self.refuse(format!("the pickle names {module}.{name}; accepted are only {accepted}"));
        };
        self.stack.push(Value::Global(global));
        Ok(())
    }

    /// Calls one of the known functions with its tuple of arguments, both from the stack.
    fn reduce(&mut self) -> Result<(), PickleError> {
        let arguments = self.pop()?;
        let function = self.pop()?;
        let Some(Object::Tuple(arguments)) = self.resolve(&arguments).cloned() else {
            return self.refuse("a call without a tuple of arguments".to_owned());
        };
        let made = match (&function, arguments.as_slice()) {
            (Value::Global(Global::OrderedDict), []) => Object::Dict(Vec::new()),
            (Value::Global(Global::OrderedDict), [pairs]) => {
                let pairs = self.pairs(pairs)?;
                self.copied += pairs.len();
                // The same list may be referenced many times.
                if self.copied > self.bytes.len() {
                    return self.refuse("more pairs than the pickle has bytes".to_owned());
                }
                Object::Dict(pairs)
            }
            (Value::Global(Global::RebuildTensor), [storage, offset, shape, strides, ..]) => {
                let (shape, strides) = (self.integers(shape)?, self.integers(strides)?);
                match (self.resolve(storage), offset) {
                    (Some(Object::Storage(storage)), Value::Int(offset)) => {
                        Object::Tensor(StoredTensor { storage: storage.clone(), offset: *offset, shape, strides })
                    }
                    _ => return self.refuse("a tensor without storage and offset".to_owned()),
                }
            }
            (Value::Global(Global::RebuildParameter), [tensor, ..]) => {
                self.stack.push(tensor.clone());
                return Ok(());
            }
            (Value::Global(global), arguments) => {
                return self.refuse(format!("{global:?} with {} arguments", arguments.len()));
            }
            _ => return self.refuse("a call of something that is not a function".to_owned()),
        };
        self.make(made);
        Ok(())
    }

    /// Sets attributes of an object. Those of an OrderedDict are ignored (`_metadata` of a state dict); no other object may
    /// have any.
    fn build(&mut self) -> Result<(), PickleError> {
        self.pop()?;
        match self.stack.last().map(|top| self.resolve(top)) {
            Some(Some(Object::Dict(_))) => Ok(()),
            _ => self.refuse("attributes of something that is not an OrderedDict".to_owned()),
        }
    }

    /// A persistent id: ('storage', kind, key, device, numbers).
    fn storage(&mut self) -> Result<(), PickleError> {
        let id = self.pop()?;
        let Some(Object::Tuple(parts)) = self.resolve(&id) else {
            return self.refuse("a persistent id that is not a tuple".to_owned());
        };
        let [Value::Text(word), Value::Global(Global::Storage(element)), Value::Text(key), _, Value::Int(numbers)] =
            parts.as_slice()
        else {
            return self.refuse("a persistent id that is not a storage".to_owned());
        };
        let numbers = usize::try_from(*numbers).ok().filter(|_| &**word == "storage");
        let Some(numbers) = numbers else {
            return self.refuse("a storage whose size is negative or not a number".to_owned());
        };
        let storage = Storage { key: Rc::clone(key), element: *element, numbers };
        self.make(Object::Storage(storage));
        Ok(())
    }

    fn remember(&mut self, code: u8) -> Result<(), PickleError> {
        let number = match code {
            b'q' | b'h' => u32::from(self.byte()?),
            b'r' | b'j' => u32::from_le_bytes(self.array()?),
            _ => self.memo.len() as u32,
        };
        if matches!(code, b'h' | b'j') {
            return match self.memo.get(&number).cloned() {
                Some(value) => {
                    self.stack.push(value);
                    Ok(())
                }
                None => self.refuse(format!("nothing was stored under {number}")),
            };
        }
        let top = self.pop()?;
        self.memo.insert(number, top.clone());
        self.stack.push(top);
        Ok(())
    }

    fn container(&mut self, code: u8) -> Result<(), PickleError> {
        let made = match code {
            b')' => Object::Tuple(Vec::new()),
            b't' => Object::Tuple(self.since_mark()?),
            0x85..=0x87 => {
                let mut items = (0x85..=code).map(|_| self.pop()).collect::<Result<Vec<_>, _>>()?;
                items.reverse();
                Object::Tuple(items)
            }
            b']' => Object::List(Vec::new()),
            b'l' => Object::List(self.since_mark()?),
            b'}' => Object::Dict(Vec::new()),
            _ => Object::Dict(self.marked_pairs()?),
        };
        self.make(made);
        Ok(())
    }

    /// Adds the items at the top of the stack to the list or dict below them.
    fn fill(&mut self, code: u8) -> Result<(), PickleError> {
        let (items, pairs) = match code {
            b'a' => (vec![self.pop()?], Vec::new()),
            b'e' => (self.since_mark()?, Vec::new()),
            b's' => {
                let value = self.pop()?;
                (Vec::new(), vec![(self.pop()?, value)])
            }
            _ => (Vec::new(), self.marked_pairs()?),
        };
        let number = match self.stack.last() {
            Some(Value::Object(number)) => *number,
            _ => return self.refuse("nothing to put items into".to_owned()),
        };
        match (&mut self.objects[number], code) {
            (Object::List(list), b'a' | b'e') => list.extend(items),
            (Object::Dict(dict), b's' | b'u') => dict.extend(pairs),
            _ => return self.refuse("items for something that is not a list or dict".to_owned()),
        }
        Ok(())
    }

    fn marked_pairs(&mut self) -> Result<Vec<(Value, Value)>, PickleError> {
        let items = self.since_mark()?;
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() {
            return self.refuse("a key without a value".to_owned());
        }
        Ok(pairs.iter().map(|[key, value]| (key.clone(), value.clone())).collect())
    }

    fn pairs(&self, list: &Value) -> Result<Vec<(Value, Value)>, PickleError> {
        let items = match self.resolve(list) {
            Some(Object::List(items) | Object::Tuple(items)) => items,
            _ => return self.refuse("an OrderedDict of something that is not a list".to_owned()),
        };
        let pair = |item: &Value| match self.resolve(item) {
            Some(Object::Tuple(pair) | Object::List(pair)) if pair.len() == 2 => Ok((pair[0].clone(), pair[1].clone())),
            _ => self.refuse("an OrderedDict of items that are not pairs".to_owned()),
        };
        items.iter().map(pair).collect()
    }

    fn integers(&self, tuple: &Value) -> Result<Vec<i64>, PickleError> {
        let Some(Object::Tuple(items)) = self.resolve(tuple) else {
            return self.refuse("a size that is not a tuple".to_owned());
        };
        if items.len() > DIMENSIONS_MAX {
            return self.refuse(format!("{} dimensions, expected at most {DIMENSIONS_MAX}", items.len()));
        }
        let integer = |item: &Value| match item {
            Value::Int(value) => Ok(*value),
            _ => self.refuse("a size that is not an integer".to_owned()),
        };
        items.iter().map(integer).collect()
    }

    fn make(&mut self, object: Object) {
        self.stack.push(Value::Object(self.objects.len()));
        self.objects.push(object);
    }

    fn resolve(&self, value: &Value) -> Option<&Object> {
        value.object_in(&self.objects)
    }

    /// Pops the top of the stack, but nothing below the last mark.
    fn pop(&mut self) -> Result<Value, PickleError> {
        if self.stack.len() <= self.marks.last().copied().unwrap_or(0) {
            return self.refuse("the stack is empty".to_owned());
        }
        self.stack.pop().map_or_else(|| self.refuse("the stack is empty".to_owned()), Ok)
    }

    fn since_mark(&mut self) -> Result<Vec<Value>, PickleError> {
        match self.marks.pop() {
            Some(height) => Ok(self.stack.split_off(height)),
            None => self.refuse("no mark".to_owned()),
        }
    }

    fn byte(&mut self) -> Result<u8, PickleError> {
        self.array().map(|[byte]| byte)
    }

    fn length(&mut self) -> Result<usize, PickleError> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn line(&mut self) -> Result<String, PickleError> {
        let bytes = self.bytes;
        let rest = &bytes[self.position..];
        let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
            return self.refuse("a name without an end".to_owned());
        };
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        self.position += end + 1;
        Ok(line)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], PickleError> {
        let there = self.bytes.len() - self.position;
        if length > there {
            return self.refuse(format!("cut off: expected {length} more bytes, got {there}"));
        }
        self.position += length;
        let bytes = self.bytes;
        Ok(&bytes[self.position - length..self.position])
    }

    fn refuse<T>(&self, problem: String) -> Result<T, PickleError> {
        Err(PickleError { offset: self.instruction_start, problem })
    }
}
