//! Writes an ONNX graph node by node. Values are named after the operation that makes them, so that profiles of the graph are
//! readable.

use dragoman::ranking::token_table::TensorLocation;
use half::f16;

use super::proto::{
    AttributeProto, AttributeType, DataType, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};

/// ONNX's operator set; the first version with Gelu.
const OPSET: i64 = 20;
/// The matching version of the file format.
const IR_VERSION: i64 = 9;
/// ONNX's code for tensor values in another file.
const EXTERNAL: i32 = 1;
/// ONNX Runtime's own operators.
pub const MICROSOFT: &str = "com.microsoft";

/// The name of a value in the graph.
pub type Value = String;

/// A graph that is being written.
#[derive(Debug, Default)]
pub struct GraphWriter {
    graph: GraphProto,
}

/// A constant parameter of a node.
#[derive(Debug, Clone, Copy)]
pub enum Attribute<'a> {
    Int(i64),
    Ints(&'a [i64]),
    Float(f32),
}

impl GraphWriter {
    /// Adds an int64 input with the named dimensions.
    pub fn input(&mut self, name: &str, dimensions: &[&str]) -> Value {
        let dimensions = dimensions.iter().map(|name| DimensionProto { dim_value: None, dim_param: Some((*name).to_owned()) });
        self.graph.input.push(value_info(name, DataType::Int64, dimensions.collect()));
        name.to_owned()
    }

    /// Declares `name`, which some node must make, as a float32 output: the named dimensions and a last one of size `width`.
    pub fn output(&mut self, name: &str, dimensions: &[&str], width: usize) {
        let named = dimensions.iter().map(|name| DimensionProto { dim_value: None, dim_param: Some((*name).to_owned()) });
        let width = DimensionProto { dim_value: Some(width as i64), dim_param: None };
        self.graph.output.push(value_info(name, DataType::Float, named.chain([width]).collect()));
    }

    /// Adds a node of ONNX's own operator set with one output named `name`.
    pub fn node(&mut self, operator: &str, name: &str, inputs: &[&str], attributes: &[(&str, Attribute<'_>)]) -> Value {
        self.push("", operator, &[name], inputs, attributes);
        name.to_owned()
    }

    /// Adds a node of any operator set with any number of outputs.
    pub fn push(
        &mut self,
        domain: &str,
        operator: &str,
        outputs: &[&str],
        inputs: &[&str],
        attributes: &[(&str, Attribute<'_>)],
    ) {
        self.graph.node.push(NodeProto {
            input: inputs.iter().map(|&name| name.to_owned()).collect(),
            output: outputs.iter().map(|&name| name.to_owned()).collect(),
            name: outputs.first().map(|&name| name.to_owned()),
            op_type: Some(operator.to_owned()),
            attribute: attributes.iter().map(|&(name, value)| attribute(name, value)).collect(),
            domain: (!domain.is_empty()).then(|| domain.to_owned()),
        });
    }

    /// Adds a constant of float32.
    pub fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> Value {
        self.constant(name, DataType::Float, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// Adds a constant of float16, rounded from `values`.
    pub fn halves(&mut self, name: &str, shape: &[usize], values: &[f32]) -> Value {
        let bytes = values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect();
        self.constant(name, DataType::Float16, shape, bytes)
    }

    /// Adds a constant of int64.
    pub fn integers(&mut self, name: &str, shape: &[usize], values: &[i64]) -> Value {
        self.constant(name, DataType::Int64, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// Adds a constant of int8.
    pub fn signed_bytes(&mut self, name: &str, shape: &[usize], values: &[i8]) -> Value {
        self.constant(name, DataType::Int8, shape, values.iter().map(|&value| value as u8).collect())
    }

    /// Adds a constant of uint8.
    pub fn bytes(&mut self, name: &str, shape: &[usize], values: Vec<u8>) -> Value {
        self.constant(name, DataType::Uint8, shape, values)
    }

    fn constant(&mut self, name: &str, kind: DataType, shape: &[usize], bytes: Vec<u8>) -> Value {
        self.graph.initializer.push(TensorProto {
            dims: shape.iter().map(|&size| size as i64).collect(),
            data_type: Some(kind as i32),
            name: Some(name.to_owned()),
            raw_data: Some(bytes),
            ..Default::default()
        });
        name.to_owned()
    }

    /// Adds a constant whose values are in another file of the same folder, at `location`.
    pub fn external(&mut self, name: &str, kind: DataType, shape: &[usize], file: &str, location: TensorLocation) -> Value {
        let entry = |key: &str, value: String| StringStringEntryProto { key: Some(key.to_owned()), value: Some(value) };
        self.graph.initializer.push(TensorProto {
            dims: shape.iter().map(|&size| size as i64).collect(),
            data_type: Some(kind as i32),
            name: Some(name.to_owned()),
            external_data: vec![
                entry("location", file.to_owned()),
                entry("offset", location.offset.to_string()),
                entry("length", location.length.to_string()),
            ],
            data_location: Some(EXTERNAL),
            ..Default::default()
        });
        name.to_owned()
    }

    /// Finishes the graph and wraps it into a model.
    pub fn finish(mut self, name: &str) -> ModelProto {
        self.graph.name = Some(name.to_owned());
        let opset = |domain: &str, version| OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) };
        let mut opset_import = vec![opset("", OPSET)];
        if self.graph.node.iter().any(|node| node.domain.as_deref() == Some(MICROSOFT)) {
            opset_import.push(opset(MICROSOFT, 1));
        }
        ModelProto {
            ir_version: Some(IR_VERSION),
            producer_name: Some(env!("CARGO_PKG_NAME").to_owned()),
            producer_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            graph: Some(self.graph),
            opset_import,
        }
    }
}

fn attribute(name: &str, value: Attribute<'_>) -> AttributeProto {
    let mut attribute = AttributeProto { name: Some(name.to_owned()), ..Default::default() };
    match value {
        Attribute::Int(value) => {
            attribute.i = Some(value);
            attribute.r#type = Some(AttributeType::Int as i32);
        }
        Attribute::Ints(values) => {
            attribute.ints = values.to_vec();
            attribute.r#type = Some(AttributeType::Ints as i32);
        }
        Attribute::Float(value) => {
            attribute.f = Some(value);
            attribute.r#type = Some(AttributeType::Float as i32);
        }
    }
    attribute
}

fn value_info(name: &str, kind: DataType, dim: Vec<DimensionProto>) -> ValueInfoProto {
    let tensor_type = Some(TensorTypeProto { elem_type: Some(kind as i32), shape: Some(TensorShapeProto { dim }) });
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(TypeProto { tensor_type }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_onnx_runtime_operator_set_is_declared_only_when_used() {
        let domains =
            |graph: GraphWriter| graph.finish("g").opset_import.into_iter().filter_map(|opset| opset.domain).collect::<Vec<_>>();
        let mut graph = GraphWriter::default();
        graph.node("Identity", "out", &["in"], &[]);
        assert_eq!(domains(graph), [""]);
        let mut graph = GraphWriter::default();
        graph.push(MICROSOFT, "MatMulNBits", &["out"], &["in"], &[("K", Attribute::Int(1))]);
        assert_eq!(domains(graph), ["", MICROSOFT]);
    }

    #[test]
    fn constants_are_little_endian() {
        let mut graph = GraphWriter::default();
        graph.halves("h", &[2], &[1.0, -2.0]);
        graph.integers("i", &[1], &[258]);
        let graph = graph.finish("g").graph.unwrap();
        let raw = |index: usize| graph.initializer[index].raw_data.clone().unwrap();
        assert_eq!(raw(0), [0x00, 0x3c, 0x00, 0xc0]);
        assert_eq!(raw(1), [2, 1, 0, 0, 0, 0, 0, 0]);
    }
}
