//! kill -9 in a loop: while many clients write, while the index is saved, while the collection is re-embedded, and while the
//! server starts. After each restart, every acknowledged change is there, every document is found by its own text, nothing
//! that was deleted or replaced is found, and every request was applied completely or not at all.
//!
//! `DRAGOMAN_TEST_KILLS` sets the number of kills, `DRAGOMAN_TEST_SEED` repeats a run's random choices.

mod clients;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::program::{Client, Program, command};
use clients::{COLLECTION, Documents, Namer, Random, Writer};
use serde_json::{Value, json};

/// Kills of a running server; kills during start-up are additional.
const KILLS: u64 = 10;
const WRITERS: usize = 8;
/// The models that the collection is re-embedded with, in turn.
const MODELS: [&str; 2] = ["fake:64", "fake:48"];
/// Acknowledged changes before a kill: minimum and maximum.
const CHANGES: (u64, u64) = (10, 160);
/// The index is saved after this many changes, so that many kills hit a save.
const INDEX_SAVE_CHANGES: &str = "15";
/// How long a kill waits at most for a save to begin.
const SAVE_PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two looks. A save takes some milliseconds.
const SAVE_POLL: Duration = Duration::from_micros(200);
/// Maximum lifetime of a server that is killed while it starts.
const START_MS_MAX: u64 = 250;
/// One in this many kills is followed by another during a re-embedding.
const REEMBEDDED_OF: u64 = 4;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn server(data: &Path, model: &str) -> Command {
    let mut command = command(data, model);
    command.args(["--index-save-changes", INDEX_SAVE_CHANGES]);
    command
}

fn start(data: &Path, model: &str) -> Program {
    Program::run(server(data, model))
}

/// Starts a server and kills it before, during or shortly after its recovery.
fn kill_while_starting(data: &Path, model: &str, random: &mut Random) {
    let mut child = server(data, model).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_millis(random.below(START_MS_MAX)));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Lets all clients write until `changes` changes are acknowledged, then kills the server: at once, or when a save of an index
/// has begun.
fn kill_while_writing(server: &mut Program, writers: &mut [Writer], namer: &mut Namer, changes: u64, saving_in: Option<&Path>) {
    let client = server.client();
    let (sender, acknowledged) = mpsc::channel();
    let save_began = thread::scope(|scope| {
        for writer in writers {
            let (client, sender) = (&client, sender.clone());
            scope.spawn(move || writer.write(client, &sender));
        }
        scope.spawn(|| namer.write(&client));
        drop(sender);
        assert_eq!(acknowledged.iter().take(changes as usize).count() as u64, changes, "the writers stopped early");
        let save_began = saving_in.is_none_or(wait_for_save);
        // The writers stop only when the server is gone.
        server.kill();
        save_began
    });
    assert!(save_began, "no save of an index began within {SAVE_PATIENCE:?} of writing");
}

/// Waits until an index is being saved. Returns whether that happened in time.
fn wait_for_save(data: &Path) -> bool {
    let started = Instant::now();
    while !is_saving(data) {
        if started.elapsed() > SAVE_PATIENCE {
            return false;
        }
        thread::sleep(SAVE_POLL);
    }
    true
}

/// Re-embeds the collection with another model; kills the server before, during or shortly after the swap.
fn kill_while_reembedding(data: &Path, model: &str, random: &mut Random) {
    let mut server = start(data, model);
    let client = server.client();
    let (status, job) = client.post(&format!("/v1/collections/{COLLECTION}/reembed"), &json!({}));
    assert_eq!(status, 202, "{job}");
    let job = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    let progress = |client: &Client| {
        let job = client.get(&job).1;
        if job["status"] == "succeeded" { u64::MAX } else { job["progress"]["done"].as_u64().unwrap_or(0) }
    };
    let wanted = random.below(2_000);
    client.wait_until("some of it is embedded", |client| {
        let done = progress(client);
        done >= wanted || done == u64::MAX
    });
    server.kill();
    let mut server = start(data, model);
    server.client().wait_until("the job ends", |client| progress(client) == u64::MAX);
    server.kill();
}

/// All documents of the collection on the server, page by page.
fn stored(client: &Client) -> Documents {
    let mut documents = Documents::new();
    let mut cursor = String::new();
    loop {
        let (status, page) = client.get(&format!("/v1/collections/{COLLECTION}/documents?limit=500{cursor}"));
        assert_eq!(status, 200, "{page}");
        for document in page["documents"].as_array().unwrap() {
            assert!(document["updated_at"].as_str() >= document["created_at"].as_str(), "{document}");
            let known = documents.insert(document["id"].as_str().unwrap().to_owned(), document.clone());
            assert!(known.is_none(), "{document} is listed twice");
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return documents,
        }
    }
}

/// Checks that the server has exactly what the writers expect, and finds it.
fn check(client: &Client, writers: &mut [Writer]) {
    let stored = stored(client);
    let expected: usize = writers.iter_mut().map(|writer| writer.check_stored(&stored)).sum();
    assert_eq!(stored.len(), expected, "there are documents that nobody wrote");
    assert!(stored.len() > 1_000, "{} are too few to search the graph", stored.len());
    thread::scope(|scope| writers.iter_mut().for_each(|writer| drop(scope.spawn(move || writer.check_found(client)))));
    let many = client.hits(COLLECTION, &json!({ "query": "anything", "limit": 1_000, "include": ["text"] }));
    let found: BTreeMap<&str, &Value> = many.iter().map(|hit| (hit["id"].as_str().unwrap(), &hit["text"])).collect();
    assert_eq!((found.len(), found.len()), (many.len(), stored.len().min(1_000)), "a document is found twice or not at all");
    assert!(found.iter().all(|(id, text)| stored[*id]["text"] == **text), "a hit differs from the stored document");
    let (_, collection) = client.get(&format!("/v1/collections/{COLLECTION}"));
    assert_eq!(collection["documents"], stored.len(), "{collection}");
    assert_eq!(collection["passages_pending"], 0, "{collection}");
    assert!(collection["damage"].is_null(), "{collection}");
}

/// Whether an index is being saved: then its temporary files exist.
fn is_saving(data: &Path) -> bool {
    let folders = std::fs::read_dir(data.join("collections")).unwrap();
    let mut files = folders.flatten().flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten()).flatten();
    files.any(|file| file.file_name().to_string_lossy().ends_with(".new"))
}

#[test]
fn kill_9_loses_no_acknowledged_write() {
    let kills = number("DRAGOMAN_TEST_KILLS").unwrap_or(KILLS);
    let given = number("DRAGOMAN_TEST_SEED");
    let seed = given.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64);
    println!("seed {seed}: set DRAGOMAN_TEST_SEED to repeat its choices");
    let mut random = Random::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let mut models = MODELS.into_iter().cycle();
    let mut model = models.next().unwrap();
    let mut server = start(data, model);
    let (status, body) = server.client().post("/v1/collections", &json!({ "name": COLLECTION }));
    assert_eq!(status, 201, "{body}");
    let mut writers: Vec<Writer> = (0..WRITERS).map(|number| Writer::new(number, random.next())).collect();
    writers.iter_mut().for_each(|writer| writer.begin(&server.client()));
    let mut namer = Namer::new(random.next());
    let started = Instant::now();
    let (mut changes, mut at_saves, mut while_starting, mut reembedded) = (0, 0, 0, 0);
    for round in 0..kills {
        let wanted = CHANGES.0 + random.below(CHANGES.1 - CHANGES.0);
        let saving_in = (random.below(2) == 0).then_some(data);
        kill_while_writing(&mut server, &mut writers, &mut namer, wanted, saving_in);
        changes += wanted;
        at_saves += u64::from(saving_in.is_some());
        for _ in 0..random.below(3) {
            kill_while_starting(data, model, &mut random);
            while_starting += 1;
        }
        if random.below(REEMBEDDED_OF) == 0 {
            model = models.next().unwrap();
            kill_while_reembedding(data, model, &mut random);
            reembedded += 1;
        }
        server = start(data, model);
        check(&server.client(), &mut writers);
        namer.check(&server.client(), data);
        if random.below(5) == 0 {
            assert!(server.terminate().success());
            server = start(data, model);
            check(&server.client(), &mut writers);
        }
        println!("{:.1?}: kill {} after {wanted} acknowledged changes", started.elapsed(), round + 1);
    }
    println!(
        "{kills} kills while writing ({at_saves} of them when a save of an index had begun), {while_starting} while starting and \
         twice {reembedded} while the collection was embedded anew, after {changes} acknowledged changes, in {:.1?}",
        started.elapsed()
    );
}

#[test]
fn a_change_of_settings_is_completed_after_kill_9() {
    const NEWS: &str = "/v1/collections/news";
    let (folder, mut server) = Program::fresh(MODELS[0]);
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({ "name": "news" })).0, 201);
    let shown = |server: &Program| {
        let news = server.client().get(NEWS).1;
        (news["description"].clone(), news["metadata_indexes"].clone())
    };
    // Stops the change between the two databases.
    let mut catalog = rusqlite::Connection::open(folder.path().join("catalog.sqlite")).unwrap();
    let busy = catalog.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    thread::scope(|scope| {
        let change = json!({"description": "new", "metadata_indexes": ["year"]});
        scope.spawn(move || client.try_send("PATCH", NEWS, &[], &change));
        server.client().wait_until("the index is declared", |_| shown(&server).1 == json!(["year"]));
        server.kill();
    });
    drop(busy);
    server = Program::start(folder.path(), MODELS[0]);
    assert_eq!(shown(&server), (json!("new"), json!(["year"])));
    assert_eq!(server.client().try_send("PATCH", NEWS, &[], &json!({"description": "later"})).unwrap().0, 200);
    server.kill();
    server = Program::start(folder.path(), MODELS[0]);
    assert_eq!(shown(&server), (json!("later"), json!(["year"])), "the change is not repeated");
}
