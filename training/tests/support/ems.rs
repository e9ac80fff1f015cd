//! A small made-up checkpoint and SentencePiece model laid out like the EMS authors', and the output of that encoder, computed
//! in plain loops over the checkpoint's own tensors.

use std::collections::BTreeMap;
use std::path::Path;

use dragoman_training::import::sentencepiece_proto::{Kind, Method, ModelProto, Piece, TrainerSpec};
use prost::Message as _;

use super::torch_file::{Numbers, Python, TorchFile, View};

pub const WIDTH: usize = 32;
pub const HEADS: usize = 4;
pub const INNER: usize = 64;
pub const LAYERS: usize = 2;
/// Rows of the position table: padding, and 48 tokens.
pub const POSITIONS: usize = 49;

/// Shape and values by the authors' name, without a prefix.
pub type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// The pieces; those made by merging have scores that determine the order of merges.
pub fn pieces() -> Vec<Piece> {
    let piece = |text: &str, score: f32, kind: Kind| Piece {
        piece: Some(text.to_owned()),
        score: Some(score),
        r#type: Some(kind as i32),
    };
    let mut pieces = vec![piece("<pad>", 0.0, Kind::Control), piece("<unk>", 0.0, Kind::Unknown)];
    pieces.extend(["<MASK>", "<2en>"].map(|text| piece(text, 0.0, Kind::Control)));
    let joined = ["th", "the", "▁the", "▁我", "▁我们", "図書", "図書館"];
    let letters = "▁abcdefghijklmnopqrstuvwxyz'.,我们明天去图书馆看。図書館で本を読む";
    let texts = joined.iter().map(|text| (*text).to_owned()).chain(letters.chars().map(String::from));
    pieces.extend((0..).zip(texts).map(|(rank, text)| piece(&text, -(rank as f32), Kind::Normal)));
    pieces
}

/// Writes the pieces as a `.model` file.
pub fn write_pieces(path: &Path) {
    let trainer_spec = Some(TrainerSpec { model_type: Some(Method::Bpe as i32), ..Default::default() });
    let model = ModelProto { pieces: pieces(), trainer_spec, normalizer_spec: None };
    std::fs::write(path, model.encode_to_vec()).unwrap();
}

/// Made-up weights, multiples of 1/64 below 2, which float16 and bfloat16 hold exactly.
pub fn tensors(embedding_norm: bool) -> Tensors {
    let mut state = 7_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % 65) as f32 / 64.0 - 0.5
    };
    let mut tensors = Tensors::new();
    let mut add = |name: String, shape: &[usize], scale: f32, middle: f32| {
        let values = (0..shape.iter().product()).map(|_| middle + (next() * scale * 64.0).round() / 64.0).collect();
        tensors.insert(name, (shape.to_vec(), values));
    };
    add("embedding.word_embedding.embedding.weight".to_owned(), &[pieces().len(), WIDTH], 3.0, 0.0);
    add("embedding.position_embedding.position_embeddings.weight".to_owned(), &[POSITIONS, WIDTH], 1.0, 0.0);
    let mut norms = Vec::new();
    if embedding_norm {
        norms.push("embedding.layer_norm".to_owned());
    }
    for layer in 0..LAYERS {
        let layer = format!("encoder.layer.{layer}");
        for (name, output, input) in [
            ("attention.self_attention.query", WIDTH, WIDTH),
            ("attention.self_attention.key", WIDTH, WIDTH),
            ("attention.self_attention.value", WIDTH, WIDTH),
            ("attention.output.dense", WIDTH, WIDTH),
            ("intermediate.dense", INNER, WIDTH),
            ("output.dense", WIDTH, INNER),
        ] {
            add(format!("{layer}.{name}.weight"), &[output, input], 0.75, 0.0);
            add(format!("{layer}.{name}.bias"), &[output], 0.5, 0.0);
        }
        norms.extend(["attention.output.LayerNorm", "output.LayerNorm"].map(|name| format!("{layer}.{name}")));
    }
    for norm in norms {
        add(format!("{norm}.weight"), &[WIDTH], 0.5, 1.0);
        add(format!("{norm}.bias"), &[WIDTH], 0.5, 0.0);
    }
    tensors
}

/// The state dict of `tensors` with `prefix`, covering every way a tensor can be stored in the file, plus heads that only
/// training has.
pub fn state_dict(file: &mut TorchFile, prefix: &str, tensors: &Tensors) -> Python {
    let mut entries = Vec::new();
    // Weight and bias of a normalization in one storage, after three unrelated numbers.
    let shared = "encoder.layer.0.output.LayerNorm";
    let [weight, bias] = ["weight", "bias"].map(|part| tensors[&format!("{shared}.{part}")].1.clone());
    let storage = file.storage(Numbers::Float, [vec![9.0; 3], weight, bias].concat());
    for (name, (shape, values)) in tensors {
        let tensor = match (name.as_str(), shape.as_slice()) {
            (name, _) if name.starts_with(shared) => {
                let offset = if name.ends_with("weight") { 3 } else { 3 + WIDTH };
                Python::Tensor(View { storage, offset, shape: shape.clone(), strides: vec![1] })
            }
            (name, &[rows, columns]) if name.contains("self_attention.key") => {
                file.transposed(Numbers::Float, [rows, columns], values)
            }
            (name, _) if name.contains("intermediate") => file.tensor(Numbers::Half, shape, values.clone()),
            (name, _) if name.contains("self_attention.value") => file.tensor(Numbers::BFloat16, shape, values.clone()),
            _ => file.tensor(Numbers::Float, shape, values.clone()),
        };
        entries.push((format!("{prefix}{name}"), tensor));
    }
    let head = file.tensor(Numbers::Float, &[2, 3], vec![0.5; 6]);
    entries.push((prefix.replace("bert.", "decoder.decoder.weight"), head));
    let counter = file.tensor(Numbers::Long, &[], vec![3.0]);
    entries.push(("module.counter".to_owned(), counter));
    Python::Ordered(entries, true)
}

/// A checkpoint of a resumable training run: the state dict beside the optimizer's state.
pub fn write_checkpoint(path: &Path, tensors: &Tensors) {
    let mut file = TorchFile::default();
    let weights = state_dict(&mut file, "module.model.bert.", tensors);
    let text = |text: &str| Python::Text(text.to_owned());
    let moment = file.tensor(Numbers::Float, &[2], vec![0.25, 0.5]);
    let state = Python::Dict(vec![(text("step"), Python::Int(12)), (text("exp_avg"), moment)]);
    let betas = Python::Tuple(vec![Python::Float(0.9), Python::Float(0.999)]);
    let group = Python::Dict(vec![(text("betas"), betas), (text("params"), Python::List(vec![Python::Int(0)]))]);
    let optimizer = Python::Dict(vec![
        (text("state"), Python::Dict(vec![(Python::Int(0), state)])),
        (text("param_groups"), Python::List(vec![group])),
    ]);
    let root = Python::Dict(vec![
        (text("epoch"), Python::Int(3)),
        (text("model_name"), text("EMS")),
        (text("state_dict"), weights),
        (text("best_loss"), Python::Float(1.25)),
        (text("optimizer"), optimizer),
        (text("scheduler"), Python::None),
    ]);
    file.save(path, &root);
}

/// The encoder's output for `ids`: a unit vector, computed in f64 one number at a time, with Swish in the feed-forward part.
pub fn embed(tensors: &Tensors, ids: &[u32]) -> Vec<f64> {
    let get = |name: &str| &tensors[name].1;
    let row =
        |name: &str, row: usize| get(name)[row * WIDTH..][..WIDTH].iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
    let mut hidden: Vec<Vec<f64>> = Vec::new();
    for (place, &id) in ids.iter().enumerate() {
        let token = row("embedding.word_embedding.embedding.weight", id as usize);
        let position = row("embedding.position_embedding.position_embeddings.weight", place + 1);
        hidden.push(add(&token, &position));
    }
    if tensors.contains_key("embedding.layer_norm.weight") {
        hidden = hidden.iter().map(|x| norm(tensors, "embedding.layer_norm", x)).collect();
    }
    for layer in 0..LAYERS {
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        let project = |part: &str| hidden.iter().map(|x| linear(tensors, &name(part), x)).collect::<Vec<_>>();
        let attention = ["query", "key", "value"].map(|part| project(&format!("attention.self_attention.{part}")));
        hidden = (0..ids.len())
            .map(|at| {
                let mixed = linear(tensors, &name("attention.output.dense"), &attend(&attention, at));
                let attended = norm(tensors, &name("attention.output.LayerNorm"), &add(&mixed, &hidden[at]));
                let inner = linear(tensors, &name("intermediate.dense"), &attended);
                let inner: Vec<f64> = inner.iter().map(|x| x / (1.0 + (-x).exp())).collect();
                let outer = linear(tensors, &name("output.dense"), &inner);
                norm(tensors, &name("output.LayerNorm"), &add(&outer, &attended))
            })
            .collect();
    }
    let mean: Vec<f64> = (0..WIDTH).map(|column| hidden.iter().map(|x| x[column]).sum::<f64>() / ids.len() as f64).collect();
    let length = mean.iter().map(|x| x * x).sum::<f64>().sqrt();
    mean.iter().map(|x| x / length).collect()
}

/// The softmax-weighted values that position `at` attends to, head by head.
fn attend([query, key, value]: &[Vec<Vec<f64>>; 3], at: usize) -> Vec<f64> {
    let size = WIDTH / HEADS;
    let mut mixed = vec![0.0; WIDTH];
    for head in 0..HEADS {
        let part = |x: &[f64]| x[head * size..][..size].to_vec();
        let scores: Vec<f64> = key.iter().map(|key| dot(&part(&query[at]), &part(key)) / (size as f64).sqrt()).collect();
        let total: f64 = scores.iter().map(|score| score.exp()).sum();
        for (score, value) in scores.iter().zip(value) {
            for (out, value) in mixed[head * size..].iter_mut().zip(part(value)) {
                *out += score.exp() / total * value;
            }
        }
    }
    mixed
}

fn linear(tensors: &Tensors, name: &str, x: &[f64]) -> Vec<f64> {
    let (matrix, bias) = (&tensors[&format!("{name}.weight")].1, &tensors[&format!("{name}.bias")].1);
    let row = |row: &[f32]| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum::<f64>();
    matrix.chunks_exact(x.len()).zip(bias).map(|(weights, bias)| row(weights) + f64::from(*bias)).collect()
}

fn norm(tensors: &Tensors, name: &str, x: &[f64]) -> Vec<f64> {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
    let (weight, bias) = (&tensors[&format!("{name}.weight")].1, &tensors[&format!("{name}.bias")].1);
    let scaled = |x: &f64| (x - mean) / (variance + 1e-12).sqrt();
    x.iter().zip(weight).zip(bias).map(|((x, w), b)| scaled(x) * f64::from(*w) + f64::from(*b)).collect()
}

fn add(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
