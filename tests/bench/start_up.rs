//! How soon a restarted server answers: with a saved index, with changes since the save, and without a saved index.
//!
//! `DRAGOMAN_BENCH_DOCUMENTS` and `DRAGOMAN_BENCH_DIMENSION` set the size, `DRAGOMAN_BENCH_PROGRAM` names another build of the
//! program. The documents are written directly into the database, with random embeddings around random centers, so that no
//! encoder is needed.

#![expect(clippy::unwrap_used, reason = "a measurement fails by panicking")]

#[path = "../support/program.rs"]
mod program;
mod random;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use dragoman::domain::{DocumentId, Embedding, Language, Metadata, Precondition};
use dragoman::embed::passage_terms;
use dragoman::store::{DocumentStore, PreparedDocument, StoreOptions, TermsOf};
use program::{Client, Program, command, command_of};
use random::Random;
use serde_json::json;

const DOCUMENTS: usize = 100_000;
const DIMENSION: usize = 256;
const BATCH: usize = 2_000;
const CENTERS: usize = 256;
/// How long a server may take to save a large index and stop.
const PATIENCE: Duration = Duration::from_secs(600);

/// From -1 to 1.
fn signed(random: &mut Random) -> f32 {
    2.0 * random.unit() - 1.0
}

fn main() {
    let documents = size("DRAGOMAN_BENCH_DOCUMENTS", DOCUMENTS);
    let dimension = size("DRAGOMAN_BENCH_DIMENSION", DIMENSION);
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path();
    let model = format!("fake:{dimension}");

    let server = Program::run(program_command(data, &model));
    assert_eq!(server.client().post("/v1/collections", &json!({ "name": "big" })).0, 201);
    assert!(server.terminate_within(PATIENCE).success());
    let collection = only_folder(data);

    let mut random = Random(7);
    let centers: Vec<Vec<f32>> = (0..CENTERS).map(|_| (0..dimension).map(|_| signed(&mut random)).collect()).collect();
    let started = Instant::now();
    fill(&collection, 0..documents, &centers, &mut random);
    println!("{documents} documents of {dimension} values stored in {:.1?}", started.elapsed());

    restart(data, &model, "without a saved index");
    for name in ["documents.sqlite", "index.usearch"] {
        println!("{name}: {} MB", collection.join(name).metadata().expect("a file").len() >> 20);
    }
    restart(data, &model, "from the saved index");
    forget_pages(&collection);
    restart(data, &model, "from the saved index, of whose files nothing is in memory");
    let store = open(&collection);
    let started = Instant::now();
    let damage = store.check(1).expect("the check runs");
    println!("a check of all pages, documents and embeddings: {:.1?}, {} findings", started.elapsed(), damage.len());
    store.close().expect("the store closes");
    for part in [100, 10] {
        let begin = documents * 2 + documents / part;
        fill(&collection, begin..begin + documents / part, &centers, &mut random);
        restart(data, &model, &format!("with {} documents since the save", documents / part));
    }
}

fn size(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn program_command(data: &Path, model: &str) -> Command {
    match std::env::var_os("DRAGOMAN_BENCH_PROGRAM") {
        Some(other) => command_of(Path::new(&other), data, model),
        None => command(data, model),
    }
}

/// Asks the system to drop its cached pages of a collection's files, as after a reboot.
fn forget_pages(collection: &Path) {
    for entry in std::fs::read_dir(collection).expect("a folder").flatten() {
        let file = std::fs::File::open(entry.path()).expect("a file");
        file.sync_all().expect("a file is synced");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice is taken");
    }
}

fn only_folder(data: &Path) -> PathBuf {
    let mut entries = std::fs::read_dir(data.join("collections")).expect("a folder");
    entries.next().expect("one collection").expect("an entry").path()
}

fn open(collection: &Path) -> DocumentStore {
    let options = StoreOptions {
        power_safe: false,
        write_queue_max: 8,
        readers_max: 1,
        terms_of: TermsOf::new(|text, language| passage_terms(text, language, |_| true)),
        slots: None,
    };
    DocumentStore::open(collection, &options).expect("the store opens")
}

fn fill(collection: &Path, numbers: std::ops::Range<usize>, centers: &[Vec<f32>], random: &mut Random) {
    let store = open(collection);
    let numbers: Vec<usize> = numbers.collect();
    for part in numbers.chunks(BATCH) {
        let documents = part.iter().map(|&number| document(number)).collect();
        let stored = store.upsert_if(documents, Precondition::None).expect("documents are stored");
        let mut embedding = |number: usize| {
            let center = &centers[number % centers.len()];
            Embedding::normalized(center.iter().map(|value| value + signed(random)).collect()).expect("a direction")
        };
        let pending =
            stored.iter().zip(part).flat_map(|(outcome, &number)| outcome.pending.iter().map(move |row| (row.id, number)));
        let embeddings = pending.map(|(id, number)| (id, embedding(number))).collect();
        store.set_embeddings(embeddings).expect("embeddings are stored");
    }
    store.close().expect("the store closes");
}

fn document(number: usize) -> PreparedDocument {
    let text = format!("Document {number} speaks of many things, {}.", "one after the other, at some length".repeat(8));
    let passages = vec![(0..text.len()).into()];
    let id = DocumentId::parse(&number.to_string()).expect("an id");
    PreparedDocument {
        id,
        title: None,
        language: Language::parse("en"),
        language_confidence: None,
        metadata: Metadata::new(),
        expires_at_ms: None,
        passages,
        text,
        embedding: None,
    }
}

/// Starts the server; measures until it listens, until it answers a search, and until it is ready; stops it cleanly.
fn restart(data: &Path, model: &str, what: &str) {
    let started = Instant::now();
    let server = Program::spawn(program_command(data, model));
    let listening = started.elapsed();
    let client = server.client();
    let mut responses = None;
    let mut progress = Vec::new();
    loop {
        if responses.is_none() && search(&client) {
            responses = Some(started.elapsed());
        }
        let (status, body) = client.get("/readyz");
        if status == 200 {
            break;
        }
        progress.extend(body["errors"][0]["detail"].as_str().map(str::to_owned));
        std::thread::sleep(Duration::from_millis(5));
    }
    let ready = started.elapsed();
    let responses = responses.unwrap_or(ready);
    println!("{what}: listens after {listening:.2?}, answers after {responses:.2?}, ready after {ready:.2?}");
    progress.dedup();
    let shown = progress.len().div_ceil(5).max(1);
    progress.iter().step_by(shown).for_each(|line| println!("    {line}"));
    let started = Instant::now();
    assert!(server.terminate_within(PATIENCE).success());
    println!("    stopped in {:.2?}", started.elapsed());
}

fn search(client: &Client) -> bool {
    client.try_post("/v1/collections/big/search", &json!({ "query": "many things" })).is_ok_and(|(status, _)| status == 200)
}
