//! `import-ems` on files laid out like the EMS authors', up to a bundle that is opened and run as by the server, compared with
//! the same encoder computed in plain loops.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use dragoman::bundle::{Bundle, MANIFEST, MODEL_CARD, MODEL_FP16, MODEL_INT8, Preprocessing};
use dragoman::domain::PassageBounds;
use dragoman::text::{Tokenizer, split_passages};
use dragoman_training::config::Activation;
use dragoman_training::error::Error;
use dragoman_training::eval::{OnnxEncoder, TokenEncoder as _};
use dragoman_training::export::fp32_graph;
use dragoman_training::import::checkpoint::Checkpoint;
use dragoman_training::import::encoder::{self, EncoderOptions, ImportedEncoder};
use prost::Message as _;

#[path = "support/ems.rs"]
mod ems;
#[path = "support/torch_file.rs"]
mod torch_file;

use torch_file::{Numbers, Python, TorchFile, View};

const ENGLISH: &str = "The children don't read the old books.";
const CHINESE: &str = "我们明天去图书馆看书。";
const JAPANESE: &str = "図書館で本を読む。";

const UNSAID: EncoderOptions = EncoderOptions { heads: ems::HEADS, activation: Activation::Swish };

/// Lines with different letters that the pieces cover.
const LINES: [&str; 8] = [
    "the red fox jumps over a lazy dog",
    "we bought bread, milk and six apples",
    "my sister plays the violin every evening",
    "snow fell quietly on the old bridge",
    "he lost his keys near the railway station",
    "this recipe needs two cups of flour",
    "the museum opens at nine on sundays",
    "a cold wind blew from the northern hills",
];

fn write_inputs(folder: &Path, tensors: &ems::Tensors) {
    ems::write_checkpoint(&folder.join("ems.pt"), tensors);
    ems::write_pieces(&folder.join("pieces.model"));
    std::fs::create_dir_all(folder.join("evaluation")).unwrap();
    for language in ["en", "fr"] {
        std::fs::write(folder.join(format!("evaluation/flores.{language}.txt")), LINES.join("\n")).unwrap();
    }
}

/// Runs the program on the inputs in `folder`; returns the bundle's folder, or the error output.
fn import(folder: &Path) -> Result<PathBuf, String> {
    let out = folder.join("models/ems-tiny");
    let output = Command::new(env!("CARGO_BIN_EXE_dragoman-train"))
        .current_dir(folder)
        .args(["import-ems", "--checkpoint", "ems.pt", "--sentencepiece", "pieces.model", "--out", "models/ems-tiny"])
        .args(["--bundle-version", "1.0.0", "--heads", "4", "--licence", "MIT", "--evaluation", "evaluation"])
        .env("OMP_NUM_THREADS", "1")
        .output()
        .unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(out) } else { Err(said(&output.stderr) + &said(&output.stdout)) }
}

fn read(path: &Path) -> Result<ImportedEncoder, Error> {
    encoder::read(&mut Checkpoint::open(path)?, UNSAID)
}

/// Saves `root` and reads it as an encoder; returns the error.
fn refusal(file: &TorchFile, root: &Python) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ems.pt");
    file.save(&path, root);
    read(&path).map(|_| ()).unwrap_err().to_string()
}

/// The maximum difference of a value, and the minimum cosine, between `embedded` and the plain computation.
fn distance(tensors: &ems::Tensors, ids: &[Vec<u32>], encoder: &mut OnnxEncoder) -> (f64, f64) {
    let embedded = encoder.embed(ids).unwrap();
    let (mut error, mut cosine) = (0.0_f64, 1.0_f64);
    for (ids, row) in ids.iter().zip(embedded.rows()) {
        let expect = ems::embed(tensors, ids);
        let row: Vec<f64> = row.iter().map(|&value| f64::from(value)).collect();
        error = row.iter().zip(&expect).fold(error, |error, (a, b)| error.max((a - b).abs()));
        cosine = cosine.min(ems::dot(&row, &expect));
    }
    (error, cosine)
}

fn pieces_of(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
    let ids = tokenizer.encode(text, usize::MAX).unwrap().ids;
    ids.into_iter().map(|id| tokenizer.token(id).unwrap()).collect()
}

#[test]
fn an_imported_bundle_reproduces_the_embeddings_of_the_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let tensors = ems::tensors(true);
    write_inputs(folder.path(), &tensors);
    let bundle = Bundle::open(&import(folder.path()).unwrap()).unwrap();
    let manifest = &bundle.manifest;
    assert_eq!((manifest.name.as_str(), manifest.version.as_str()), ("ems-tiny", "1.0.0"));
    assert_eq!((manifest.dimension, manifest.tokens_max), (ems::WIDTH, ems::POSITIONS - 1));
    assert_eq!(manifest.preprocessing, Some(Preprocessing::MosesJieba));
    assert!(std::fs::read_to_string(bundle.path(MANIFEST)).unwrap().contains("\"preprocessing\": \"moses-jieba\""));
    assert!(manifest.quality["flores_p_at_1_english"] > 99.0, "{:?}", manifest.quality);

    let tokenizer = Tokenizer::open(&bundle).unwrap();
    let ids: Vec<Vec<u32>> =
        [ENGLISH, CHINESE, JAPANESE].iter().map(|text| tokenizer.encode(text, manifest.tokens_max).unwrap().ids).collect();
    // The lengths differ, so the shorter texts are padded.
    assert!(ids[0].len() > ids[1].len() && ids[1].len() > ids[2].len(), "{ids:?}");
    let (error, _) = distance(&tensors, &ids, &mut OnnxEncoder::open(&bundle.path(MODEL_FP16), 1).unwrap());
    assert!(error < 5e-3, "fp16 is off by {error}");
    let (_, cosine) = distance(&tensors, &ids, &mut OnnxEncoder::open(&bundle.path(MODEL_INT8), 1).unwrap());
    assert!(cosine > 0.99, "int8 has the cosine {cosine}");

    let card = std::fs::read_to_string(bundle.path(MODEL_CARD)).unwrap();
    for part in ["# ems-tiny 1.0.0", "`ems.pt`, SHA-256", "licence: MIT", "Juman++", "feed-forward 64 with Swish", "| int8 |"] {
        assert!(card.contains(part), "{part:?} is not in\n{card}");
    }
    assert!(!folder.path().join("models/ems-tiny.tokenizer.json").exists());
}

#[test]
fn texts_are_preprocessed_as_in_the_original_training() {
    let folder = tempfile::tempdir().unwrap();
    write_inputs(folder.path(), &ems::tensors(true));
    let bundle = Bundle::open(&import(folder.path()).unwrap()).unwrap();
    let tokenizer = Tokenizer::open(&bundle).unwrap();
    let check = |text: &str, expect: &str| assert_eq!(pieces_of(&tokenizer, text).join(" "), expect, "{text}");
    check(ENGLISH, "▁the ▁ c h i l d r e n ▁ d o n ▁ ' t ▁ r e a d ▁the ▁ o l d ▁ b o o k s ▁ .");
    check(CHINESE, "▁我们 ▁ 明 天 ▁ 去 ▁ 图 书 馆 ▁ 看 书 ▁ 。");
    check(JAPANESE, "▁ 図書館 ▁ で ▁ 本 ▁ を ▁ 読 む ▁ 。");
    // Passages are split in the original text.
    let text = "The children read! We jump over it.";
    let passages = split_passages(&tokenizer, text, PassageBounds::adjacent(18)).unwrap();
    assert_eq!(
        passages.iter().map(|cut| &text[cut.range.clone()]).collect::<Vec<_>>(),
        ["The children read!", "We jump over it."]
    );
}

#[test]
fn the_fp32_graph_is_exact_with_and_without_an_embedding_norm() {
    let folder = tempfile::tempdir().unwrap();
    let ids = vec![vec![4, 5, 6, 7, 40, 41, 12], vec![58], vec![1, 13, 30]];
    for embedding_norm in [true, false] {
        let tensors = ems::tensors(embedding_norm);
        write_inputs(folder.path(), &tensors);
        let read = read(&folder.path().join("ems.pt")).unwrap();
        assert_eq!(read.skipped_tensors, 2);
        let graph = fp32_graph(&read.weights).unwrap().encode_to_vec();
        let (error, _) = distance(&tensors, &ids, &mut OnnxEncoder::from_bytes(&graph, 1).unwrap());
        assert!(error < 2e-6, "embedding norm {embedding_norm}: off by {error}");
        // The whole import, including parity with libtorch.
        import(folder.path()).unwrap();
    }
}

#[test]
fn a_state_dict_is_found_under_every_supported_key_and_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ems.pt");
    let tensors = ems::tensors(true);
    for prefix in ["module.model.bert.", "model.bert.", "bert."] {
        for place in [None, Some("state_dict"), Some("model"), Some("model_state_dict")] {
            let mut file = TorchFile::default();
            let weights = ems::state_dict(&mut file, prefix, &tensors);
            let root = match place {
                Some(place) => Python::Dict(vec![(Python::Text(place.to_owned()), weights)]),
                None => weights,
            };
            file.save(&path, &root);
            let shape = read(&path).unwrap().weights.shape;
            assert_eq!((shape.layers, shape.dimension, shape.feed_forward), (ems::LAYERS, ems::WIDTH, ems::INNER), "{prefix}");
        }
    }
}

#[test]
fn missing_unknown_and_misshapen_tensors_are_named() {
    let check = |change: &dyn Fn(&mut ems::Tensors), expect: &str| {
        let mut tensors = ems::tensors(true);
        change(&mut tensors);
        let mut file = TorchFile::default();
        let root = ems::state_dict(&mut file, "model.bert.", &tensors);
        let error = refusal(&file, &root);
        assert!(error.contains(expect), "{error}");
    };
    let key = "encoder.layer.1.attention.self_attention.key.weight";
    check(&|tensors| drop(tensors.remove(key)), "layers.1.attention.key.weight is missing");
    check(&|tensors| tensors.get_mut(key).unwrap().0 = vec![16, 64], "layers.1.attention.key.weight has the shape [16, 64]");
    let gamma = "encoder.layer.0.attention.output.LayerNorm.gamma";
    check(
        &|tensors| drop(tensors.insert(gamma.to_owned(), (vec![1], vec![1.0]))),
        "LayerNorm.gamma is an unknown part of the encoder",
    );
    let far = "encoder.layer.18446744073709551615.output.dense.bias";
    check(&|tensors| drop(tensors.insert(far.to_owned(), (vec![1], vec![1.0]))), "layers.2.attention.query.weight is missing");
    check(&|tensors| drop(tensors.remove("embedding.layer_norm.bias")), "only one of");
    check(&|tensors| drop(tensors.remove("embedding.position_embedding.position_embeddings.weight")), "is missing");
    let root = Python::Dict(vec![(Python::Text("weights".to_owned()), Python::Dict(Vec::new()))]);
    let error = refusal(&TorchFile::default(), &root);
    assert!(error.contains("embedding.word_embedding.embedding.weight") && error.contains("[\"weights\"]"), "{error}");
}

#[test]
fn tensors_beyond_their_storage_or_of_integers_are_refused() {
    let with = |numbers, values: usize, view: View| {
        let mut file = TorchFile::default();
        file.storage(numbers, vec![0.5; values]);
        let name = "embedding.word_embedding.embedding.weight".to_owned();
        refusal(&file, &Python::Ordered(vec![(name, Python::Tensor(view))], false))
    };
    let view =
        |offset, shape: &[usize]| View { storage: 0, offset, shape: shape.to_vec(), strides: torch_file::contiguous(shape) };
    let error = with(Numbers::Float, 10, view(3, &[2, 4]));
    assert!(
        error.contains("embedding.weight: shape [2, 4] with strides [4, 1] from 3 does not fit its storage of 10"),
        "{error}"
    );
    let error = with(Numbers::Long, 8, view(0, &[2, 4]));
    assert!(error.contains("expected floating-point numbers"), "{error}");
}

#[test]
fn a_truncated_or_corrupted_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ems.pt");
    ems::write_checkpoint(&path, &ems::tensors(true));
    let whole = std::fs::read(&path).unwrap();
    let check = |bytes: &[u8], expect: &str| {
        std::fs::write(&path, bytes).unwrap();
        let error = read(&path).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("ems.pt") && error.contains(expect), "{error}");
    };
    check(&whole[..whole.len() / 2], "expected the zip archive");
    check(b"\x80\x02}q\x00.", "expected the zip archive");
    check(b"", "expected the zip archive");
    // Flips a bit of a tensor. Each tensor's storage is an entry with a checksum.
    let name = b"archive/data/1";
    let at = whole.windows(name.len()).position(|window| window == name).unwrap() + name.len() + 100;
    let mut flipped = whole.clone();
    flipped[at] ^= 1;
    check(&flipped, "entry archive/data/1: Invalid checksum");
}

#[test]
fn unsafe_and_truncated_pickles_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ems.pt");
    let check = |pickle: &[u8], expect: &str| {
        TorchFile::default().save_pickle(&path, pickle);
        let error = read(&path).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("ems.pt") && error.contains(expect), "{error}");
    };
    check(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.", "archive/data.pkl, byte 2: the pickle names os.system");
    check(b"\x80\x02}", "archive/data.pkl, byte 3: cut off");
    // A storage whose key points outside the folder.
    let tensor = b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x0b\x00\x00\x00../data.pklX\x03\x00\x00\x00cpuK\x01tQK\x00K\x01\x85K\x01\x85\x89NtR";
    let name = b"X\x29\x00\x00\x00embedding.word_embedding.embedding.weight";
    let pickle = [b"\x80\x02}".as_slice(), name, tensor, b"s."].concat();
    check(&pickle, "expected a storage named by letters and digits, got \"../data.pkl\"");
}

#[test]
fn a_piece_count_that_differs_from_the_token_table_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut tensors = ems::tensors(true);
    let table = tensors.get_mut("embedding.word_embedding.embedding.weight").unwrap();
    table.0[0] -= 1;
    table.1.truncate(table.0[0] * ems::WIDTH);
    write_inputs(folder.path(), &tensors);
    let said = import(folder.path()).unwrap_err();
    let pieces = ems::pieces().len();
    assert!(said.contains(&format!("has {pieces} pieces, but the token table of the checkpoint has {}", pieces - 1)), "{said}");
    assert!(!folder.path().join("models/ems-tiny").exists());
}
