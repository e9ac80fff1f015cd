//! Power losses, simulated: `strace` records what a server writes and syncs while clients use it. From that, a simulated disk
//! builds what a loss of power at some moment could leave, and a new server starts with it. Everything acknowledged before that
//! moment is there, accepted jobs finish, and nothing is there in part.
//!
//! `DRAGOMAN_TEST_POWER_LOSSES` sets the number of losses, `DRAGOMAN_TEST_SEED` repeats a run's random choices.

mod simulated_disk;
mod trace;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::disk::wrap_command;
use super::program::{Client, PATIENCE, Program, command};
use super::{MODEL, text};
use simulated_disk::{Disk, Kept, Random};
use trace::Event;

const LOSSES: usize = 26;
/// The index is saved after this many changes, so that some losses hit a save.
const INDEX_SAVE_CHANGES: &str = "30";
/// What is left of data and of names. The losses take turns.
const KEPT: [(Kept, Kept); 8] = [
    (Kept::Nothing, Kept::Nothing),
    (Kept::Parts, Kept::Parts),
    (Kept::Nothing, Kept::Everything),
    (Kept::Everything, Kept::Nothing),
    (Kept::Shape, Kept::Everything),
    (Kept::Parts, Kept::Everything),
    (Kept::Everything, Kept::Parts),
    (Kept::Everything, Kept::Shape),
];

/// What clients know of a server.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Texts by collection and id.
    documents: BTreeMap<(String, String), String>,
    jobs: BTreeSet<String>,
    snapshots: BTreeSet<String>,
}

/// A client that remembers what the server has acknowledged: what was known after each response.
struct Recorder {
    client: Client,
    known: Vec<Known>,
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// The request id whose answer is the `number`th.
fn request_id(number: usize) -> String {
    format!("step-{number}")
}

impl Recorder {
    /// Sends a request that succeeds. `learn` adds what its response tells.
    fn send(&mut self, method: &str, path: &str, body: &Value, learn: impl FnOnce(&mut Known, &Value)) -> Value {
        let id = request_id(self.known.len());
        let headers = [("x-request-id", id.as_str())];
        let sent = match method {
            "DELETE" => self.client.try_delete_with(path, &headers),
            _ => self.client.try_send(method, path, &headers, body),
        };
        let (status, response) = sent.unwrap();
        assert!((200..300).contains(&status), "{method} {path}: {response}");
        let mut known = self.known.last().cloned().unwrap_or_default();
        learn(&mut known, &response);
        self.known.push(known);
        response
    }

    fn put(&mut self, collection: &str, ids: std::ops::Range<usize>, version: usize, wait: &str) {
        let texts: Vec<_> = ids.map(|id| (id.to_string(), text(id * 100 + version))).collect();
        let documents: Vec<_> = texts.iter().map(|(id, text)| json!({ "id": id, "text": text, "language": "en" })).collect();
        let path = format!("/v1/collections/{collection}/documents?wait={wait}");
        self.send("POST", &path, &json!({ "documents": documents }), |known, _| {
            known.documents.extend(texts.into_iter().map(|(id, text)| ((collection.to_owned(), id), text)));
        });
    }

    fn delete(&mut self, collection: &str, id: usize) {
        let key = (collection.to_owned(), id.to_string());
        self.send("DELETE", &format!("/v1/collections/{collection}/documents/{id}"), &Value::Null, |known, _| {
            known.documents.remove(&key);
        });
    }

    /// Starts a job and waits for its end. Returns its details.
    fn job(&mut self, path: &str, body: &Value, learn: impl FnOnce(&mut Known)) -> Value {
        let job = self.send("POST", path, body, |known, job| {
            known.jobs.insert(job["id"].as_str().unwrap().to_owned());
            learn(known);
        });
        let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
        self.client.wait_until("the job ends", |client| client.get(&path).1["status"] == "succeeded");
        self.client.get(&path).1["details"].clone()
    }

    /// Makes a snapshot, and points an alias to its collection once it is complete.
    fn snapshot(&mut self, body: &Value) -> String {
        let id = self.job("/v1/snapshots", body, |_| ())["snapshot"].as_str().unwrap().to_owned();
        self.send("PUT", "/v1/aliases/saved", &json!({ "collection": "news" }), |known, _| {
            known.snapshots.insert(id.clone());
        });
        id
    }
}

/// Uses a new server in every way that writes files.
fn use_server(client: Client) -> Vec<Known> {
    let mut clients = Recorder { client, known: vec![Known::default()] };
    clients.send("POST", "/v1/collections", &json!({ "name": "news" }), |_, _| ());
    clients.put("news", 0..3, 0, "stored");
    clients.put("news", 0..40, 1, "indexed");
    clients.put("news", 5..10, 2, "indexed");
    clients.delete("news", 7);
    clients.send("POST", "/v1/collections", &json!({ "name": "gone" }), |_, _| ());
    clients.put("gone", 0..5, 0, "indexed");
    clients.send("DELETE", "/v1/collections/gone", &Value::Null, |known, _| {
        known.documents.retain(|(collection, _), _| collection != "gone");
    });
    let texts = |from: usize| (from..from + 150).map(text).collect::<Vec<_>>();
    let mining = json!({ "first": { "texts": texts(0) }, "second": { "texts": texts(50) }, "neighbors": 2 });
    clients.job("/v1/mine", &mining, |_| ());
    clients.job("/v1/collections/news/duplicates", &json!({}), |_| ());
    let snapshot = clients.snapshot(&json!({ "collections": ["news"] }));
    clients.snapshot(&json!({}));
    let restored = |known: &mut Known| {
        let copied = known.documents.iter().map(|((_, id), text)| (("copy".to_owned(), id.clone()), text.clone()));
        let copied: Vec<_> = copied.collect();
        known.documents.extend(copied);
    };
    let restore = json!({ "collection": "news", "rename_to": "copy" });
    clients.job(&format!("/v1/snapshots/{snapshot}/restore"), &restore, restored);
    clients.send("DELETE", &format!("/v1/snapshots/{snapshot}"), &Value::Null, |known, _| {
        known.snapshots.remove(&snapshot);
    });
    let bounds = json!({ "passage_bounds": { "tokens_max": 12, "overlap_tokens": 2 } });
    clients.job("/v1/collections/news/reembed", &bounds, |_| ());
    clients.put("news", 0..2, 3, "indexed");
    clients.known
}

/// Starts a server whose calls are recorded in `file`, or returns `None` where that is not possible.
pub fn start_traced(server: Command, options: &[&str], file: &Path) -> Option<Program> {
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    if !traced.is_ok_and(|status| status.success()) {
        println!("skipped: there is no strace that may trace processes");
        return None;
    }
    let mut traced = Command::new("strace");
    // With -D, the server is the child of this process, and strace ends after it.
    traced.args(["-D", "-f"]).args(options).arg("-o").arg(file);
    Some(Program::run(wrap_command(&server, traced)))
}

/// Records a server from its first start to its end, or returns `None` where that is not possible.
fn record(data: &Path) -> Option<(Vec<Known>, Vec<Event>)> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut server = command(data, MODEL);
    server.args(["--index-save-changes", INDEX_SAVE_CHANGES]);
    let calls = format!("trace={}", trace::CALLS);
    let server = start_traced(server, &["-xx", "-s", "100000000", "-e", &calls], file.path())?;
    let (id, known) = (server.id(), use_server(server.client()));
    assert!(server.terminate().success());
    let last = format!("{id} +++ exited with 0 +++\n");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read_to_string(file.path()).unwrap();
        if text.lines().rev().take(100).any(|line| line.split_whitespace().eq(last.split_whitespace())) {
            return Some((known, trace::read(&text)));
        }
        assert!(Instant::now() < deadline, "the trace is incomplete");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a server with what is left, and compares it with what clients knew before the loss, and would have known after the
/// request that was running.
fn check(data: &Path, before: &Known, after: &Known) {
    let mut server = Program::run(command(data, MODEL));
    let client = server.client();
    assert_eq!(client.get("/readyz").1.get("damaged_collections"), None);
    let jobs = || client.get("/v1/jobs?limit=100").1["jobs"].as_array().unwrap().clone();
    client.wait_until("all jobs have ended", |_| jobs().iter().all(|job| job["finished_at"].is_string()));
    let jobs: BTreeMap<_, _> = jobs().into_iter().map(|job| (job["id"].as_str().unwrap().to_owned(), job)).collect();
    assert!(before.jobs.iter().all(|id| jobs.contains_key(id)), "an accepted job is lost");
    assert!(jobs.values().all(|job| job["status"] == "succeeded"), "{jobs:#?}");

    let mut found = BTreeMap::new();
    for collection in client.get("/v1/collections").1["collections"].as_array().unwrap() {
        let name = collection["name"].as_str().unwrap();
        assert_eq!(collection.get("damage"), None);
        for line in client.get_text(&format!("/v1/collections/{name}/export")).lines() {
            let document: Value = serde_json::from_str(line).unwrap();
            let [id, text] = ["id", "text"].map(|field| document[field].as_str().unwrap().to_owned());
            let query = json!({ "query": text, "limit": 3, "mode": "dense" });
            let is_found = |client: &Client| client.hits(name, &query).iter().any(|hit| hit["id"] == *id);
            client.wait_until(&format!("{name}/{id} is found"), is_found);
            found.insert((name.to_owned(), id), text);
        }
    }
    let ids: BTreeSet<_> = found.keys().chain(before.documents.keys()).chain(after.documents.keys()).collect();
    for id in ids {
        let got = found.get(id);
        assert!(got == before.documents.get(id) || got == after.documents.get(id), "{id:?} is {got:?}");
    }

    let snapshots = client.get("/v1/snapshots").1["snapshots"].as_array().unwrap().clone();
    for snapshot in &snapshots {
        let id = snapshot["id"].as_str().unwrap();
        let archive = data.join(format!("snapshots/{id}.tar.zst")).metadata();
        assert_eq!(archive.ok().map(|file| file.len()), snapshot["archive_bytes"].as_u64(), "the archive of {id}");
    }
    let kept = before.snapshots.intersection(&after.snapshots);
    let lost: Vec<_> = kept.filter(|id| !snapshots.iter().any(|snapshot| snapshot["id"] == ***id)).collect();
    assert!(lost.is_empty(), "the snapshots {lost:?} are lost");
    server.kill();
}

#[test]
fn a_data_directory_that_a_killed_process_has_just_created_is_made_durable() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("trace"));
    std::fs::create_dir(&data).unwrap();
    let options = ["-e", "trace=fsync", "-P", folder.path().to_str().unwrap()];
    let Some(server) = start_traced(command(&data, MODEL), &options, &file) else { return };
    let is_synced = |_: &Client| std::fs::read_to_string(&file).unwrap().lines().any(|line| line.ends_with(" = 0"));
    server.client().wait_until("the folder of the data directory is synced", is_synced);
}

#[test]
fn after_a_loss_of_power_everything_acknowledged_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("disk");
    std::fs::create_dir(&root).unwrap();
    let Some((known, events)) = record(&root.join("data")) else { return };
    let seed =
        number("DRAGOMAN_TEST_SEED").unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64);
    println!("DRAGOMAN_TEST_SEED={seed}");
    let mut random = Random(seed);
    let losses = number("DRAGOMAN_TEST_POWER_LOSSES").map_or(LOSSES, |losses| losses as usize);
    // Half of them come right after a response.
    let changes: Vec<usize> =
        (0..events.len()).filter(|at| !matches!(events[*at], Event::Answered(_) | Event::Close(_))).collect();
    let responses: Vec<usize> = (0..events.len()).filter(|at| matches!(events[*at], Event::Answered(_))).collect();
    let mut cuts: Vec<(usize, usize)> = (0..losses)
        .map(|loss| {
            let moments = if loss % 2 == 0 { &responses } else { &changes };
            (moments[random.below(moments.len())], loss / 2 % KEPT.len())
        })
        .collect();
    cuts.sort_unstable();

    let (mut disk, mut answered, mut cuts) = (Disk::new(&root), 0, cuts.into_iter().peekable());
    for (at, event) in events.iter().enumerate() {
        disk.apply(event);
        if matches!(event, Event::Answered(id) if *id == request_id(answered + 1)) {
            answered += 1;
        }
        while let Some((_, kept)) = cuts.next_if(|(cut, _)| *cut == at) {
            println!("after event {at}, {answered} answers: {:?} is left of {event:.200?}", KEPT[kept]);
            let image = folder.path().join("image");
            disk.write_remains(&image, KEPT[kept], &mut random);
            let after = &known[known.len().min(answered + 2) - 1];
            check(&image.join("data"), &known[answered], after);
            std::fs::remove_dir_all(&image).unwrap();
        }
    }
    assert_eq!(answered, known.len() - 1, "each response is in the trace");
}
