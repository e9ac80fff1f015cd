//! A bundle small enough to write by hand: a word tokenizer, and an ONNX graph that sums one table row per token. It runs
//! through the real session, so that the embedder is tested without the trained model.

use std::path::Path;

use dragoman::bundle::{Bundle, FORMAT, LANGUAGE_HEAD, MODEL_INT8, Manifest, Preprocessing, QUESTIONS_INT8, TOKENIZER};

/// Values per embedding.
pub const DIMENSION: usize = 4;
/// Tokens that the model reads.
pub const TOKENS_MAX: usize = 8;

/// The tokens, and the row of the table that each has.
pub const TABLE: [(&str, [f32; DIMENSION]); 6] = [
    ("<unk>", [0.0, 0.0, 0.0, 1.0]),
    ("north", [1.0, 0.0, 0.0, 0.0]),
    ("east", [0.0, 1.0, 0.0, 0.0]),
    ("south", [-1.0, 0.0, 0.0, 0.0]),
    ("up", [0.0, 0.0, 1.0, 0.0]),
    ("nowhere", [f32::NAN, 0.0, 0.0, 0.0]),
];

/// Deliberate faults and options of a bundle.
pub struct BundleOptions {
    /// Name of the first input.
    pub input: &'static str,
    /// Name of the output.
    pub output: &'static str,
    /// Dimension in the manifest.
    pub manifest_dimension: usize,
    /// The preprocessing that the manifest requires.
    pub preprocessing: Option<Preprocessing>,
}

impl Default for BundleOptions {
    fn default() -> Self {
        Self { input: "input_ids", output: "sentence_embedding", manifest_dimension: DIMENSION, preprocessing: None }
    }
}

/// Writes the bundle into `folder`.
pub fn write(folder: &Path, shape: &BundleOptions) -> Bundle {
    std::fs::write(folder.join(MODEL_INT8), model(shape, |row| row)).expect("the folder takes a file");
    std::fs::write(folder.join(TOKENIZER), tokenizer()).expect("the folder takes a file");
    let manifest = Manifest {
        format: FORMAT,
        name: "tiny".to_owned(),
        version: "1.0.0".to_owned(),
        text_version: dragoman::text::TEXT_VERSION,
        preprocessing: shape.preprocessing,
        dimension: shape.manifest_dimension,
        tokens_max: TOKENS_MAX,
        languages: vec!["en".to_owned()],
        relevance: None,
        files: Default::default(),
        training: serde_json::Value::Null,
        quality: [("made_up".to_owned(), 0.5)].into(),
    };
    Bundle::seal(folder, manifest, &[MODEL_INT8, TOKENIZER]).expect("the bundle is whole")
}

/// Adds the language head `head` to the bundle, valid or not.
pub fn add_language_head(bundle: &Bundle, head: &[u8]) -> Bundle {
    std::fs::write(bundle.path(LANGUAGE_HEAD), head).expect("the folder takes a file");
    Bundle::seal(&bundle.folder, bundle.manifest.clone(), &[MODEL_INT8, TOKENIZER, LANGUAGE_HEAD]).expect("the bundle is whole")
}

/// Adds a query encoder to the bundle that rotates the axes: north becomes east, east becomes up, up becomes the axis of
/// unknown tokens.
pub fn add_query_encoder(bundle: &Bundle) -> Bundle {
    let turned = |[a, b, c, d]: [f32; DIMENSION]| [d, a, b, c];
    std::fs::write(bundle.path(QUESTIONS_INT8), model(&BundleOptions::default(), turned)).expect("the folder takes a file");
    Bundle::seal(&bundle.folder, bundle.manifest.clone(), &[MODEL_INT8, TOKENIZER, QUESTIONS_INT8]).expect("the bundle is whole")
}

fn tokenizer() -> String {
    let vocabulary: serde_json::Map<_, _> =
        TABLE.iter().enumerate().map(|(id, (token, _))| ((*token).to_owned(), id.into())).collect();
    serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    })
    .to_string()
}

/// sentence_embedding = ReduceSum(Gather(table, input_ids) * Unsqueeze(Cast(attention_mask)), axis 1).
fn model(shape: &BundleOptions, turn: impl Fn([f32; DIMENSION]) -> [f32; DIMENSION]) -> Vec<u8> {
    let table: Vec<u8> = TABLE.iter().flat_map(|(_, row)| turn(*row)).flat_map(f32::to_le_bytes).collect();
    let nodes = [
        node("Gather", &["table", shape.input], "rows", None),
        // ONNX's number for float32.
        node("Cast", &["attention_mask"], "mask", Some(("to", 1))),
        node("Unsqueeze", &["mask", "last"], "column", None),
        node("Mul", &["rows", "column"], "masked", None),
        node("ReduceSum", &["masked", "middle"], shape.output, Some(("keepdims", 0))),
    ];
    let initializers = [
        tensor("table", &[TABLE.len() as u64, DIMENSION as u64], 1, &table),
        tensor("last", &[1], 7, &(-1i64).to_le_bytes()),
        tensor("middle", &[1], 7, &1i64.to_le_bytes()),
    ];
    let inputs = [
        value(shape.input, 7, [Side::Named("batch"), Side::Named("length")]),
        value("attention_mask", 7, [Side::Named("batch"), Side::Named("length")]),
    ];
    let output = value(shape.output, 1, [Side::Named("batch"), Side::Fixed(DIMENSION as u64)]);
    let graph = [
        nodes.iter().flat_map(|node| bytes(1, node)).collect(),
        bytes(2, b"tiny"),
        initializers.iter().flat_map(|tensor| bytes(5, tensor)).collect(),
        inputs.iter().flat_map(|input| bytes(11, input)).collect(),
        bytes(12, &output),
    ]
    .concat();
    // ModelProto: ir_version, graph, and version 17 of the default operator set.
    [number(1, 8), bytes(7, &graph), bytes(8, &[bytes(1, b""), number(2, 17)].concat())].concat()
}

/// NodeProto.
fn node(operator: &str, inputs: &[&str], output: &str, attribute: Option<(&str, u64)>) -> Vec<u8> {
    let inputs = inputs.iter().flat_map(|input| bytes(1, input.as_bytes()));
    let mut node: Vec<u8> = inputs.collect();
    node.extend(bytes(2, output.as_bytes()));
    node.extend(bytes(4, operator.as_bytes()));
    if let Some((name, value)) = attribute {
        // AttributeProto: name, i, and the type INT.
        node.extend(bytes(5, &[bytes(1, name.as_bytes()), number(3, value), number(20, 2)].concat()));
    }
    node
}

/// TensorProto with raw data.
fn tensor(name: &str, sides: &[u64], element: u64, raw: &[u8]) -> Vec<u8> {
    let sides = sides.iter().flat_map(|side| number(1, *side)).collect();
    [sides, number(2, element), bytes(8, name.as_bytes()), bytes(9, raw)].concat()
}

enum Side {
    Named(&'static str),
    Fixed(u64),
}

/// ValueInfoProto of a tensor.
fn value(name: &str, element: u64, sides: [Side; 2]) -> Vec<u8> {
    let dimension = |side: Side| match side {
        Side::Fixed(size) => number(1, size),
        Side::Named(name) => bytes(2, name.as_bytes()),
    };
    let shape: Vec<u8> = sides.into_iter().flat_map(|side| bytes(1, &dimension(side))).collect();
    let tensor = [number(1, element), bytes(2, &shape)].concat();
    [bytes(1, name.as_bytes()), bytes(2, &bytes(1, &tensor))].concat()
}

/// A protobuf field with a number.
fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A protobuf field with bytes, a string or a message.
fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}
