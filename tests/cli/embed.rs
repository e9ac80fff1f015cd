//! `dragoman embed`, on a server and with a local model.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::program::Program;
use super::{dragoman, run, run_with};

const MODEL: &str = "models/ems-small";
const TEXTS: [&str; 6] = [
    "The new library is next to the station.",
    "新しい図書館は駅の隣にあります。",
    "Новая библиотека находится рядом с вокзалом.",
    "المكتبة الجديدة بجانب المحطة.",
    "नया पुस्तकालय स्टेशन के बगल में है।",
    "La nueva biblioteca está al lado de la estación.",
];

/// Rows, columns and values of an array file.
fn read_npy(path: &Path) -> (usize, usize, Vec<f32>) {
    let file = fs::read(path).unwrap();
    assert_eq!(&file[..8], b"\x93NUMPY\x01\x00");
    let head_end = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
    let head = std::str::from_utf8(&file[10..head_end]).unwrap();
    assert!(head.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': ("), "{head}");
    let shape: Vec<usize> = head.split(['(', ')']).nth(1).unwrap().split(", ").map(|side| side.parse().unwrap()).collect();
    let values: Vec<f32> = file[head_end..].as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
    assert_eq!(values.len(), shape[0] * shape[1]);
    (shape[0], shape[1], values)
}

fn embeddings(body: &Value) -> Vec<f32> {
    let rows = body["data"].as_array().unwrap().iter();
    rows.flat_map(|row| row["embedding"].as_array().unwrap()).map(|value| value.as_f64().unwrap() as f32).collect()
}

#[test]
fn embed_returns_the_same_vectors_as_the_embeddings_api() {
    let (_folder, server) = Program::fresh("fake:8");
    let client = server.client();
    let run = run_with(dragoman(client.url(), &["embed"]), TEXTS.join("\r\n").as_bytes());
    let lines = run.json();
    let (_, body) = client.post("/v1/embeddings", &json!({ "input": TEXTS }));
    let got: Vec<f32> =
        lines.iter().flat_map(|line| line["embedding"].as_array().unwrap()).map(|x| x.as_f64().unwrap() as f32).collect();
    assert_eq!(got, embeddings(&body));
    assert!(lines.iter().enumerate().all(|(at, line)| line["line"] == at + 1), "{lines:?}");
    assert!(run.err.starts_with("6 texts, 8 values each, in "), "{}", run.err);
}

#[test]
fn lines_without_text_are_reported_in_the_output() {
    let (folder, server) = Program::fresh("fake:8");
    let input = "{\"id\": \"a\", \"text\": \"some words\"}\n{\"id\": \"b\", \"text\": \"\"}\nno json\n{\"text\": \"more\"}\n";
    let arguments = ["embed", "-", "--input", "ndjson"];
    let run = run_with(dragoman(server.client().url(), &arguments), input.as_bytes());
    let lines: Vec<Value> = run.expect(3).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["id"], lines[0]["embedding"].as_array().unwrap().len()), (&json!("a"), 8));
    assert_eq!(lines[1], json!({ "line": 2, "id": "b", "error": "must not be blank" }));
    assert!(lines[2]["error"].as_str().unwrap().starts_with("is not a JSON object with a text: "), "{lines:?}");
    assert!(lines[3]["embedding"].is_array() && lines[3].get("id").is_none(), "{lines:?}");
    assert!(run.err.contains("2 lines failed"), "{}", run.err);

    let path = folder.path().join("out.npy");
    let mut command = dragoman(server.client().url(), &["embed", "--input", "ndjson", "--output"]);
    command.arg(&path);
    let run = run_with(command, input.as_bytes());
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(run.err, "error: line 2: must not be blank; an array cannot leave out its row\n");
    assert!(!path.exists() && !folder.path().join("out.npy.partial").exists());
}

#[test]
fn a_blank_line_has_an_empty_result_and_no_row_in_an_array() {
    let (folder, server) = Program::fresh("fake:8");
    let lines = run_with(dragoman(server.client().url(), &["embed"]), b"some words\n \nmore\n").json();
    assert_eq!((lines.len(), &lines[1]), (3, &json!({ "line": 2 })));
    assert!(lines[2]["line"] == 3 && lines[2]["embedding"].is_array(), "{lines:?}");
    let mut command = dragoman(server.client().url(), &["embed", "--output"]);
    command.arg(folder.path().join("out.npy"));
    let run = run_with(command, b"some words\n\n");
    assert_eq!((run.code, run.err.as_str()), (1, "error: line 2: is blank; an array cannot leave out its row\n"));
}

#[test]
fn a_thousand_lines_are_embedded_in_order() {
    let (folder, server) = Program::fresh("fake:8");
    let texts: Vec<String> = (0..1_000).map(|number| format!("text number {number}")).collect();
    let input = folder.path().join("texts");
    fs::write(&input, texts.join("\n") + "\n").unwrap();
    let output = folder.path().join("out.npy");
    run(server.client().url(), &["embed", input.to_str().unwrap(), "-o", output.to_str().unwrap()]).expect(0);
    let (_, body) = server.client().post("/v1/embeddings", &json!({ "input": texts }));
    assert_eq!(read_npy(&output), (1_000, 8, embeddings(&body)));
}

#[test]
fn empty_input_returns_empty_output() {
    let (_folder, server) = Program::fresh("fake:8");
    assert_eq!(run(server.client().url(), &["embed"]).expect(0), "");
}

#[test]
fn a_local_model_embeds_like_a_server_with_the_same_model() {
    if !Path::new(MODEL).join("manifest.json").exists() {
        println!("skipped: there is no {MODEL}/manifest.json");
        return;
    }
    let (folder, server) = Program::fresh(MODEL);
    let (status, body) = server.client().post("/v1/embeddings", &json!({ "input": TEXTS }));
    assert_eq!(status, 200, "{body}");
    let path = folder.path().join("out.npy");
    let mut command = dragoman("http://127.0.0.1:1", &["embed", "--model", MODEL, "--device", "cpu", "-o"]);
    command.arg(&path);
    run_with(command, TEXTS.join("\n").as_bytes()).expect(0);
    let (rows, columns, values) = read_npy(&path);
    assert_eq!((rows, columns), (TEXTS.len(), 256));
    let expect = embeddings(&body);
    let apart = values.iter().zip(&expect).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(values.len() == expect.len() && apart <= 1e-6, "{apart}");
}
