//! A translation memory: learns which sentences of two files are translations of each other, and later finds translations of
//! similar sentences.
//!
//! translation-memory learn FIRST SECOND     mines pairs from two files with one sentence per line, and stores them
//! translation-memory find SENTENCE          shows the stored translations nearest in meaning, in any language
//! translation-memory forget                 deletes what was stored
//!
//! DRAGOMAN_SERVER is the server's address, DRAGOMAN_KEY an API key.

mod dragoman;

use std::error::Error;
use std::fs;

use dragoman::Dragoman;
use serde_json::{Value, json};

const COLLECTION: &str = "example-memory";
/// How many times better than the other candidates a pair must be. docs/mining.md uses about the same value.
const THRESHOLD: f64 = 1.2;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let server = Dragoman::from_environment();
    let done = match words.as_slice() {
        ["learn", first, second] => learn(&server, first, second),
        ["find", sentence] => find(&server, sentence),
        ["forget"] => server.delete(&format!("/v1/collections/{COLLECTION}")).map_err(Into::into),
        _ => Err("usage: translation-memory learn FIRST SECOND | find SENTENCE | forget".into()),
    };
    if let Err(error) = done {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn learn(server: &Dragoman, first: &str, second: &str) -> Result<(), Box<dyn Error>> {
    let request = json!({
        "first": { "texts": sentences(first)? }, "second": { "texts": sentences(second)? },
        "threshold": THRESHOLD, "one_to_one": true,
    });
    let job = server.finished(&server.post("/v1/mine", &request)?)?;
    let pairs = server.lines(&format!("/v1/jobs/{}/pairs", text(&job["id"])))?;

    match server.post("/v1/collections", &json!({ "name": COLLECTION })) {
        Err(error) if error.code == "collection_exists" => {}
        made => drop(made?),
    }
    // Each side of a pair is a document that carries its translation. The same pair learned twice is stored once.
    let lines: String = pairs
        .iter()
        .flat_map(|pair| [(&pair["first"], &pair["second"]), (&pair["second"], &pair["first"])])
        .map(|(one, other)| {
            let line = json!({
                "id": fingerprint(text(&one["text"]), text(&other["text"])),
                "text": one["text"], "metadata": { "translation": other["text"] },
            });
            format!("{line}\n")
        })
        .collect();
    let job = server.finished(&server.import(COLLECTION, lines)?)?;
    println!("{} pairs, {} documents new", pairs.len(), job["details"]["created"]);
    Ok(())
}

fn find(server: &Dragoman, sentence: &str) -> Result<(), Box<dyn Error>> {
    let request = json!({ "query": sentence, "limit": 3 });
    let found = server.post(&format!("/v1/collections/{COLLECTION}/search"), &request)?;
    for hit in found["hits"].as_array().into_iter().flatten() {
        let score = hit["score"].as_f64().unwrap_or_default();
        println!("{score:.2}\t{}\t{}", text(&hit["passage"]["text"]), text(&hit["metadata"]["translation"]));
    }
    Ok(())
}

/// An id that is always the same for the same pair, even if the sentences are longer than an id may be (FNV-1a).
fn fingerprint(one: &str, other: &str) -> String {
    let bytes = one.bytes().chain(*b"\n").chain(other.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

/// The lines of a file that are not blank.
fn sentences(path: &str) -> Result<Vec<String>, String> {
    let content = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(content.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
