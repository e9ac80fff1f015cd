//! The part of ONNX's protobuf messages that an exported encoder needs, written by hand with the field numbers of `onnx.proto`.
//!
//! Scalar fields that ONNX marks optional are `Option`, because readers distinguish an attribute with value 0 from a missing
//! one.

/// A model file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelProto {
    /// Version of the file format.
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    /// Program that wrote the file.
    #[prost(string, optional, tag = "2")]
    pub producer_name: Option<String>,
    /// Version of that program.
    #[prost(string, optional, tag = "3")]
    pub producer_version: Option<String>,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
}

/// An operator set and its version.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OperatorSetIdProto {
    /// Empty for ONNX's own.
    #[prost(string, optional, tag = "1")]
    pub domain: Option<String>,
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}

/// A computation: nodes in topological order, constants, inputs and outputs.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
}

/// One operation.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeProto {
    /// Names of the values it reads; an empty name is an absent optional input.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// Operator set; empty for ONNX's own.
    #[prost(string, optional, tag = "7")]
    pub domain: Option<String>,
}

/// A constant parameter of a node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AttributeProto {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Value of a `FLOAT`.
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    /// Value of an `INT`.
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// Values of an `INTS`.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// Which of the values is set.
    #[prost(enumeration = "AttributeType", optional, tag = "20")]
    pub r#type: Option<i32>,
}

/// What an attribute holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum AttributeType {
    Float = 1,
    Int = 2,
    Ints = 7,
}

/// A constant tensor, its values in `raw_data`, little-endian, the last dimension fastest.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorProto {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    #[prost(enumeration = "DataType", optional, tag = "2")]
    pub data_type: Option<i32>,
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub raw_data: Option<Vec<u8>>,
    /// Where the values are if they are in another file: its `location` next to the model, `offset` and `length`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 0 or nothing if the values are in this file, 1 if they are in another one.
    #[prost(int32, optional, tag = "14")]
    pub data_location: Option<i32>,
}

/// A name and its value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StringStringEntryProto {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// Kinds of tensor values, numbered as ONNX does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum DataType {
    Float = 1,
    Uint8 = 2,
    Int8 = 3,
    Int64 = 7,
    Float16 = 10,
}

/// Name and type of an input or output.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueInfoProto {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// Type of a value; here always a tensor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
}

/// Kind and shape of a tensor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorTypeProto {
    #[prost(enumeration = "DataType", optional, tag = "1")]
    pub elem_type: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// Shape of a tensor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// One dimension: a fixed size, or a name for a size that may differ from run to run.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DimensionProto {
    /// A known size.
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    /// The name of a variable size.
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[test]
    fn an_attribute_with_value_zero_is_encoded() {
        let zero = AttributeProto {
            name: Some("a".to_owned()),
            i: Some(0),
            r#type: Some(AttributeType::Int as i32),
            ..Default::default()
        };
        // name: field 1, length 1; i: field 3, varint 0; type: field 20, varint 2.
        assert_eq!(zero.encode_to_vec(), [0x0a, 1, b'a', 0x18, 0, 0xa0, 0x01, 2]);
    }

    #[test]
    fn a_tensor_is_encoded_with_the_onnx_field_numbers() {
        let tensor = TensorProto {
            dims: vec![2],
            data_type: Some(DataType::Uint8 as i32),
            name: Some("t".to_owned()),
            raw_data: Some(vec![7, 9]),
            ..Default::default()
        };
        assert_eq!(tensor.encode_to_vec(), [0x08, 2, 0x10, 2, 0x42, 1, b't', 0x4a, 2, 7, 9]);
    }
}
