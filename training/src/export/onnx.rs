//! The encoder as an ONNX graph: `input_ids` and `attention_mask`, int64 [batch, len], to `sentence_embedding`, float32
//! [batch, dimension], of unit length. Padding may be anywhere and changes nothing.
//!
//! Both graphs of a bundle share one token table in a separate file, in bytes (`tokens`). fp32 is the reference. fp16 halves
//! the weights and computes in float16, except that sums over a sentence and the final normalization stay in float32. int8 is
//! for CPUs: tables and matrices in signed bytes with a scale per row, activations in unsigned bytes with the ranges of
//! `calibrate`.

use dragoman::bundle::TOKEN_TABLE;

use super::calibrate::Ranges;
use super::graph::{Attribute, GraphWriter, MICROSOFT, Value};
use super::proto::{DataType, ModelProto};
use super::quantize::quantize_rows;
use super::tokens::TableFile;
use super::weights::EncoderWeights;
use crate::config::{Activation, Norm};
use crate::error::Error;
use crate::model::encoder::{EMBEDDING_NORM_BIAS, EMBEDDING_NORM_WEIGHT, POSITIONS, TOKENS};

/// Epsilon of every layer normalization.
const NORM_EPSILON: f32 = 1e-12;
/// Added to the attention scores of padding; representable in float16, and its exponential is 0.
const MASKED: f32 = -1e4;
/// Minimum norm that an embedding is divided by.
const LENGTH_MIN: f32 = 1e-12;

/// The number format of storage and computation.
enum Mode<'a> {
    Fp32,
    Fp16,
    Int8(&'a Ranges),
}

/// Writes the float32 graph, the reference.
pub fn fp32_graph(weights: &EncoderWeights) -> Result<ModelProto, Error> {
    Ok(encoder(weights, Mode::Fp32, None)?.graph.finish("encoder"))
}

/// Writes the float16 graph. Its token table is `table`, in a file next to it.
pub fn fp16_graph(weights: &EncoderWeights, table: &TableFile) -> Result<ModelProto, Error> {
    Ok(encoder(weights, Mode::Fp16, Some(table))?.graph.finish("encoder"))
}

/// Writes the int8 graph, with the activation ranges found by `calibrate`. Its token table is `table`, in a file next to it;
/// without `table`, the graph contains it.
pub fn int8_graph(weights: &EncoderWeights, ranges: &Ranges, table: Option<&TableFile>) -> Result<ModelProto, Error> {
    Ok(encoder(weights, Mode::Int8(ranges), table)?.graph.finish("encoder"))
}

/// Writes the float32 graph with the inputs of its matrix products as additional outputs; also returns (product, output) pairs.
pub fn observed_graph(weights: &EncoderWeights) -> Result<(ModelProto, Vec<(String, String)>), Error> {
    let mut encoder = encoder(weights, Mode::Fp32, None)?;
    for (_, input, width) in &encoder.products {
        encoder.graph.output(input, &["batch", "len"], *width);
    }
    let observed = encoder.products.into_iter().map(|(product, input, _)| (product, input)).collect();
    Ok((encoder.graph.finish("observed encoder"), observed))
}

fn encoder<'a>(weights: &'a EncoderWeights, mode: Mode<'a>, table: Option<&'a TableFile>) -> Result<EncoderWriter<'a>, Error> {
    let mut encoder = EncoderWriter { graph: GraphWriter::default(), weights, mode, table, products: Vec::new() };
    let ids = encoder.graph.input("input_ids", &["batch", "len"]);
    let mask = encoder.graph.input("attention_mask", &["batch", "len"]);
    let float_mask = encoder.cast("mask", &mask, DataType::Float);
    let mut hidden = encoder.embeddings(&ids, &mask)?;
    if weights.shape.layers > 0 {
        let attention_mask = encoder.attention_mask(&float_mask);
        for layer in 0..weights.shape.layers {
            hidden = encoder.layer(layer, &hidden, &attention_mask)?;
        }
    }
    encoder.pool(&hidden, &float_mask);
    Ok(encoder)
}

struct EncoderWriter<'a> {
    graph: GraphWriter,
    weights: &'a EncoderWeights,
    mode: Mode<'a>,
    table: Option<&'a TableFile>,
    /// Matrix products: name, input, width of the input.
    products: Vec<(String, Value, usize)>,
}

impl<'a> EncoderWriter<'a> {
    /// Token vectors plus positions, normalized if the model has that normalization.
    fn embeddings(&mut self, ids: &str, mask: &str) -> Result<Value, Error> {
        let mut hidden = self.lookup("tokens", TOKENS, ids)?; // [batch, len, d]
        if self.weights.find(POSITIONS).is_some() {
            let axis = self.graph.integers("positions.axis", &[], &[1]);
            let counted = self.graph.node("CumSum", "positions.counted", &[mask, &axis], &[]);
            let positions = self.graph.node("Mul", "positions", &[&counted, mask], &[]); // [batch, len], padding 0
            let vectors = self.lookup("position_vectors", POSITIONS, &positions)?;
            hidden = self.graph.node("Add", "embeddings.sum", &[&hidden, &vectors], &[]);
        }
        if self.weights.find(EMBEDDING_NORM_WEIGHT).is_some() {
            hidden = self.norm("embeddings.norm", &hidden, EMBEDDING_NORM_WEIGHT, EMBEDDING_NORM_BIAS)?;
        }
        Ok(hidden)
    }

    /// Looks up rows of a table.
    fn lookup(&mut self, name: &str, table: &str, ids: &str) -> Result<Value, Error> {
        let weight = self.weights.get(table)?;
        let file = self.table.filter(|_| table == TOKENS);
        if file.is_none() && !matches!(self.mode, Mode::Int8(_)) {
            let table = self.constant(table)?;
            return Ok(self.graph.node("Gather", name, &[&table, ids], &[]));
        }
        let [rows, width] = [weight.shape[0], weight.shape[1]];
        let (values_name, scales_name) = (format!("{table}.values"), format!("{table}.scales"));
        let (values, scales) = if let Some(file) = file {
            let values = self.graph.external(&values_name, DataType::Int8, &[rows, width], TOKEN_TABLE, file.rows);
            (values, self.graph.external(&scales_name, DataType::Float, &[rows, 1], TOKEN_TABLE, file.scales))
        } else {
            let quantized = quantize_rows(&weight.values, width);
            let values = self.graph.signed_bytes(&values_name, &[rows, width], &quantized.values);
            (values, self.graph.floats(&scales_name, &[rows, 1], &quantized.scales))
        };
        let values = self.graph.node("Gather", &format!("{name}.values"), &[&values, ids], &[]);
        let values = self.cast(&format!("{name}.floats"), &values, DataType::Float);
        let values = self.cast_to_compute_type(&format!("{name}.computed"), values); // [batch, len, d]
        let scales = self.graph.node("Gather", &format!("{name}.scales"), &[&scales, ids], &[]);
        let scales = self.cast_to_compute_type(&format!("{name}.scales.computed"), scales); // [batch, len, 1]
        Ok(self.graph.node("Mul", name, &[&values, &scales], &[]))
    }

    /// 0 for a token, `MASKED` for padding. // [batch, 1, 1, len]
    fn attention_mask(&mut self, mask: &str) -> Value {
        let one = self.graph.floats("one", &[], &[1.0]);
        let masked = self.graph.floats("masked", &[], &[-MASKED]);
        let axes = self.graph.integers("attention_mask.axes", &[2], &[1, 2]);
        let below = self.graph.node("Sub", "attention_mask.below", &[mask, &one], &[]);
        let scaled = self.graph.node("Mul", "attention_mask.scaled", &[&below, &masked], &[]);
        let scaled = self.cast_to_compute_type("attention_mask.compute", scaled);
        self.graph.node("Unsqueeze", "attention_mask.added", &[&scaled, &axes], &[])
    }

    fn layer(&mut self, layer: usize, input: &str, mask: &str) -> Result<Value, Error> {
        let attended = self.sublayer(layer, "attention", input, |this, x| this.attention(layer, x, mask))?;
        self.sublayer(layer, "feed_forward", &attended, |this, x| this.feed_forward(layer, x))
    }

    /// A sublayer with its residual connection, and its layer normalization if the model has one.
    fn sublayer(
        &mut self,
        layer: usize,
        part: &str,
        input: &str,
        inner: impl FnOnce(&mut Self, &str) -> Result<Value, Error>,
    ) -> Result<Value, Error> {
        let name = format!("layers.{layer}.{part}");
        let (weight, bias) = (format!("{name}.norm.weight"), format!("{name}.norm.bias"));
        match self.weights.shape.norm {
            Norm::Post => {
                let made = inner(self, input)?;
                let sum = self.graph.node("Add", &format!("{name}.sum"), &[&made, input], &[]);
                self.norm(&format!("{name}.norm"), &sum, &weight, &bias)
            }
            Norm::Pre => {
                let normed = self.norm(&format!("{name}.norm"), input, &weight, &bias)?;
                let made = inner(self, &normed)?;
                Ok(self.graph.node("Add", &format!("{name}.sum"), &[&made, input], &[]))
            }
        }
    }

    /// Scaled dot-product attention. Queries, keys and values come from one product with the three stacked matrices; the scale
    /// is folded into the query's weights.
    fn attention(&mut self, layer: usize, input: &str, mask: &str) -> Result<Value, Error> {
        let (d, heads) = (self.weights.shape.dimension, self.weights.shape.heads);
        let name = format!("layers.{layer}.attention");
        let (mut matrix, mut bias) = (Vec::with_capacity(3 * d * d), Vec::with_capacity(3 * d));
        let scale = ((d / heads) as f32).sqrt().recip();
        for (part, scale) in [("query", scale), ("key", 1.0), ("value", 1.0)] {
            matrix.extend(self.weights.get(&format!("{name}.{part}.weight"))?.values.iter().map(|value| value * scale));
            bias.extend(self.weights.get(&format!("{name}.{part}.bias"))?.values.iter().map(|value| value * scale));
        }
        let projected = self.linear(&format!("{name}.projected"), input, &Linear { matrix: &matrix, bias: &bias, inputs: d })?;
        let parts = ["query", "key", "value"].map(|part| format!("{name}.{part}"));
        let outputs = parts.each_ref().map(String::as_str);
        self.graph.push(
            "",
            "Split",
            &outputs,
            &[&projected],
            &[("axis", Attribute::Int(-1)), ("num_outputs", Attribute::Int(3))],
        );
        let query = self.heads(outputs[0], &[0, 2, 1, 3]); // [batch, heads, len, d / heads]
        let key = self.heads(outputs[1], &[0, 2, 3, 1]); // [batch, heads, d / heads, len]
        let value = self.heads(outputs[2], &[0, 2, 1, 3]); // [batch, heads, len, d / heads]
        let scores = self.graph.node("MatMul", &format!("{name}.scores"), &[&query, &key], &[]); // [batch, heads, len, len]
        let scores = self.graph.node("Add", &format!("{name}.masked"), &[&scores, mask], &[]);
        let shares = self.graph.node("Softmax", &format!("{name}.shares"), &[&scores], &[("axis", Attribute::Int(-1))]);
        let mixed = self.graph.node("MatMul", &format!("{name}.mixed"), &[&shares, &value], &[]);
        let mixed = self.transpose(&format!("{name}.mixed.turned"), &mixed, &[0, 2, 1, 3]);
        let shape = self.graph.integers(&format!("{name}.merged.shape"), &[3], &[0, 0, d as i64]);
        let merged = self.graph.node("Reshape", &format!("{name}.merged"), &[&mixed, &shape], &[]);
        self.named_linear(&format!("{name}.output"), &merged)
    }

    /// Splits [batch, len, d] into heads, [batch, len, heads, d / heads], and transposes that with `perm`.
    fn heads(&mut self, input: &str, perm: &[i64]) -> Value {
        let (d, heads) = (self.weights.shape.dimension, self.weights.shape.heads);
        let shape = self.graph.integers(&format!("{input}.shape"), &[4], &[0, 0, heads as i64, (d / heads) as i64]);
        let split = self.graph.node("Reshape", &format!("{input}.split"), &[input, &shape], &[]);
        self.transpose(&format!("{input}.turned"), &split, perm)
    }

    fn transpose(&mut self, name: &str, input: &str, perm: &[i64]) -> Value {
        self.graph.node("Transpose", name, &[input], &[("perm", Attribute::Ints(perm))])
    }

    fn feed_forward(&mut self, layer: usize, input: &str) -> Result<Value, Error> {
        let name = format!("layers.{layer}.feed_forward");
        let up = self.named_linear(&format!("{name}.up"), input)?;
        let active = match self.weights.shape.activation {
            Activation::Gelu => self.graph.node("Gelu", &format!("{name}.active"), &[&up], &[]),
            Activation::Swish => {
                let gate = self.graph.node("Sigmoid", &format!("{name}.gate"), &[&up], &[]);
                self.graph.node("Mul", &format!("{name}.active"), &[&up, &gate], &[])
            }
        };
        self.named_linear(&format!("{name}.down"), &active)
    }

    fn named_linear(&mut self, name: &str, input: &str) -> Result<Value, Error> {
        let weights = self.weights;
        let matrix = weights.get(&format!("{name}.weight"))?;
        let bias = weights.get(&format!("{name}.bias"))?;
        self.linear(name, input, &Linear { matrix: &matrix.values, bias: &bias.values, inputs: matrix.shape[1] })
    }

    /// y = x W^T + b.
    fn linear(&mut self, name: &str, input: &str, linear: &Linear<'_>) -> Result<Value, Error> {
        let (inputs, outputs) = (linear.inputs, linear.bias.len());
        self.products.push((name.to_owned(), input.to_owned(), inputs));
        if let Mode::Int8(ranges) = self.mode {
            let quantized = quantize_rows(linear.matrix, inputs);
            let values =
                self.graph.signed_bytes(&format!("{name}.matrix"), &[inputs, outputs], &transposed(&quantized.values, inputs));
            let scales = self.graph.floats(&format!("{name}.scales"), &[outputs], &quantized.scales);
            let bias = self.graph.floats(&format!("{name}.bias"), &[outputs], linear.bias);
            let range = ranges
                .get(name)
                .ok_or_else(|| Error::Setting { setting: "calibration", problem: format!("{name} has no range") })?;
            let step = self.graph.floats(&format!("{name}.step"), &[], &[range.scale]);
            let zero = self.graph.bytes(&format!("{name}.zero"), &[], vec![range.zero_point]);
            let bytes = self.graph.node("QuantizeLinear", &format!("{name}.bytes"), &[input, &step, &zero], &[]);
            self.graph.push(
                MICROSOFT,
                "MatMulIntegerToFloat",
                &[name],
                &[&bytes, &values, &step, &scales, &zero, "", &bias],
                &[],
            );
            return Ok(name.to_owned());
        }
        let matrix = self.values(&format!("{name}.matrix"), &[inputs, outputs], &transposed(linear.matrix, inputs));
        let bias = self.values(&format!("{name}.bias"), &[outputs], linear.bias);
        let product = self.graph.node("MatMul", &format!("{name}.product"), &[input, &matrix], &[]);
        Ok(self.graph.node("Add", name, &[&product, &bias], &[]))
    }

    fn norm(&mut self, name: &str, input: &str, weight: &str, bias: &str) -> Result<Value, Error> {
        if matches!(self.mode, Mode::Int8(_)) {
            return self.decomposed_layer_norm(name, input, weight, bias);
        }
        let (weight, bias) = (self.constant(weight)?, self.constant(bias)?);
        let attributes = [("axis", Attribute::Int(-1)), ("epsilon", Attribute::Float(NORM_EPSILON))];
        Ok(self.graph.node("LayerNormalization", name, &[input, &weight, &bias], &attributes))
    }

    /// A layer normalization made of operators that ONNX Runtime's CPU provider vectorizes; its fused operator works value by
    /// value and took a third of the whole forward pass. (x - m) / |x - m| has the variance 1 / d.
    fn decomposed_layer_norm(&mut self, name: &str, input: &str, weight: &str, bias: &str) -> Result<Value, Error> {
        let d = self.weights.shape.dimension as f32;
        let part = |part: &str| format!("{name}.{part}");
        let scaled: Vec<f32> = self.weights.get(weight)?.values.iter().map(|value| value * d.sqrt()).collect();
        let scaled = self.graph.floats(&part("scaled_weight"), &[scaled.len()], &scaled);
        let bias = self.constant(bias)?;
        let length_min = self.graph.floats(&part("least"), &[], &[(d * NORM_EPSILON).sqrt()]);
        let last = self.graph.integers(&part("axis"), &[1], &[-1]);
        let mean = self.graph.node("ReduceMean", &part("mean"), &[input, &last], &[]); // [batch, len, 1]
        let centered = self.graph.node("Sub", &part("centered"), &[input, &mean], &[]);
        let length = self.graph.node("ReduceL2", &part("length"), &[&centered, &last], &[]); // [batch, len, 1]
        let length = self.graph.node("Max", &part("length.safe"), &[&length, &length_min], &[]);
        let unit = self.graph.node("Div", &part("unit"), &[&centered, &length], &[]);
        let weighted = self.graph.node("Mul", &part("weighted"), &[&unit, &scaled], &[]);
        Ok(self.graph.node("Add", name, &[&weighted, &bias], &[]))
    }

    /// The direction of the mean over the sentence's own tokens, which is the direction of their sum.
    fn pool(&mut self, hidden: &str, mask: &str) {
        let hidden = match self.mode {
            Mode::Fp16 => self.cast("pooled.floats", hidden, DataType::Float),
            Mode::Fp32 | Mode::Int8(_) => hidden.to_owned(),
        };
        let middle = self.graph.integers("pooled.axis", &[1], &[1]);
        let last = self.graph.integers("length.axis", &[1], &[-1]);
        let length_min = self.graph.floats("length.least", &[], &[LENGTH_MIN]);
        let mask = self.graph.node("Unsqueeze", "pooled.mask", &[mask, &middle], &[]); // [batch, 1, len]
        let sum = self.graph.node("MatMul", "pooled.sum", &[&mask, &hidden], &[]); // [batch, 1, d]
        let sum = self.graph.node("Squeeze", "pooled", &[&sum, &middle], &[]); // [batch, d]
        let length = self.graph.node("ReduceL2", "length", &[&sum, &last], &[("keepdims", Attribute::Int(1))]);
        let length = self.graph.node("Max", "length.safe", &[&length, &length_min], &[]);
        let embedding = self.graph.node("Div", "sentence_embedding", &[&sum, &length], &[]);
        self.graph.output(&embedding, &["batch"], self.weights.shape.dimension);
    }

    fn cast(&mut self, name: &str, input: &str, kind: DataType) -> Value {
        self.graph.node("Cast", name, &[input], &[("to", Attribute::Int(kind as i64))])
    }

    /// Casts floats to the layers' computation type.
    fn cast_to_compute_type(&mut self, name: &str, input: Value) -> Value {
        match self.mode {
            Mode::Fp16 => self.cast(name, &input, DataType::Float16),
            Mode::Fp32 | Mode::Int8(_) => input,
        }
    }

    fn constant(&mut self, name: &str) -> Result<Value, Error> {
        let weights = self.weights;
        let weight = weights.get(name)?;
        Ok(self.values(name, &weight.shape, &weight.values))
    }

    fn values(&mut self, name: &str, shape: &[usize], values: &[f32]) -> Value {
        match self.mode {
            Mode::Fp16 => self.graph.halves(name, shape, values),
            Mode::Fp32 | Mode::Int8(_) => self.graph.floats(name, shape, values),
        }
    }
}

/// A linear layer: W [outputs, inputs], b [outputs].
struct Linear<'a> {
    matrix: &'a [f32],
    bias: &'a [f32],
    inputs: usize,
}

/// Turns [rows, width] into [width, rows].
pub(crate) fn transposed<T: Copy>(values: &[T], width: usize) -> Vec<T> {
    (0..width).flat_map(|column| values.iter().skip(column).step_by(width).copied()).collect()
}
