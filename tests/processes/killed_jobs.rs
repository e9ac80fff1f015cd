//! kill -9 in the middle of jobs and uploads, through the real program: each job resumes or restarts after the restart and
//! completes, nothing half-finished is visible, and no temporary files remain.
//!
//! `DRAGOMAN_TEST_KILLS` sets how often each kind of work is killed, `DRAGOMAN_TEST_SEED` repeats the moments.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use super::program::{Client, Program};
use serde_json::{Value, json};

const MODEL: &str = "fake:64";
const KILLS: u64 = 2;
const DOCUMENTS: usize = 1_500;
/// The projection file in its collection's folder.
const MAP: &str = "projection.none.json";
/// A kill comes after a random part of this duration; the work takes about as long.
const MOMENT_MS_MAX: u64 = 400;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Moments at which to kill.
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_millis(self.0 % MOMENT_MS_MAX)
    }
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Two collections of translations: the same words in a different order.
fn fill(client: &Client) {
    for (name, turned) in [("news", false), ("blog", true)] {
        assert_eq!(client.post("/v1/collections", &json!({ "name": name })).0, 201);
        let words = |n: usize| [format!("w{n}"), format!("x{}", n % 97), format!("y{}", n / 7), format!("z{n}")];
        let line = |n: usize| {
            let mut words = words(n);
            if turned {
                words.reverse();
            }
            let topic = if n.is_multiple_of(2) { "even" } else { "odd" };
            json!({ "id": format!("{name}{n}"), "text": words.join(" "), "metadata": { "topic": topic } }).to_string() + "\n"
        };
        let lines: String = (0..DOCUMENTS).map(line).collect();
        let job = client.post_lines(&format!("/v1/collections/{name}/import"), std::io::Cursor::new(lines));
        let job = format!("/v1/jobs/{}", job.1["id"].as_str().unwrap());
        client.wait_until("the import ends", |client| client.get(&job).1["status"] == "succeeded");
    }
}

/// Starts a job; returns its path.
fn started(client: &Client, path: &str, body: &Value) -> String {
    let (status, response) = client.post(path, body);
    assert!([201, 202].contains(&status), "{path}: {response}");
    let id = if status == 201 { &response["job"] } else { &response["id"] };
    format!("/v1/jobs/{}", id.as_str().unwrap())
}

/// Waits until a job has succeeded, and returns it.
fn succeeded(client: &Client, job: &str) -> Value {
    client.wait_until("the job ends", |client| !["queued", "running"].contains(&client.get(job).1["status"].as_str().unwrap()));
    let job = client.get(job).1;
    assert_eq!(job["status"], "succeeded", "{job}");
    job
}

/// Checks that the disk contains exactly what the API shows. A job's files, and the collection that a restore has replaced, may
/// be removed shortly after the job is seen to have ended.
fn check_disk(client: &Client, data: &Path) {
    let ids = |path: &str, member: &str| -> BTreeSet<String> {
        let rows = client.get(path).1[member].as_array().unwrap().clone();
        rows.iter().map(|row| row["id"].as_str().or(row["name"].as_str()).unwrap().to_owned()).collect()
    };
    let snapshots = ids("/v1/snapshots?limit=100", "snapshots");
    let files = snapshots.iter().flat_map(|id| [format!("{id}.json"), format!("{id}.tar.zst")]).collect::<BTreeSet<_>>();
    assert_eq!(names(&data.join("snapshots")), files);
    let collections = ids("/v1/collections?limit=100", "collections").len();
    client.wait_until("replaced collections are gone", |_| names(&data.join("collections")).len() == collections);
    for folder in names(&data.join("collections")) {
        let expect: BTreeSet<_> = [
            "documents.sqlite",
            "documents.sqlite-shm",
            "documents.sqlite-wal",
            "index.copies",
            "index.json",
            "index.usearch",
            MAP,
        ]
        .into();
        let strange: Vec<_> =
            names(&data.join("collections").join(folder)).into_iter().filter(|name| !expect.contains(&**name)).collect();
        assert_eq!(strange, [""; 0], "a collection's folder has unexpected files");
    }
    for job in names(&data.join("jobs")) {
        let shown = client.get(&format!("/v1/jobs/{job}")).1;
        assert_eq!(shown["status"], "succeeded", "a folder of {shown}");
        let is_result = |name: &String| name.ends_with(".ndjson") || name.ends_with(".results") || name.starts_with("results");
        client.wait_until("a job's files are gone", |_| names(&data.join("jobs").join(&job)).iter().all(is_result));
    }
}

/// Runs one kind of job, kills the server in the middle of it, and checks the outcome.
fn killed(
    name: &str,
    moments: &mut Moments,
    data: &Path,
    server: &mut Program,
    begin: &dyn Fn(&Client, u64) -> String,
    check: &dyn Fn(&Client, &Value),
) {
    for turn in 0..number("DRAGOMAN_TEST_KILLS", KILLS) {
        let job = begin(&server.client(), turn);
        // The second kill hits the job as it was resumed after the first one.
        for _ in 0..2 {
            let moment = moments.next();
            std::thread::sleep(moment);
            let status = server.client().get(&job).1["status"].clone();
            server.kill();
            println!("{name} {turn}: killed after {moment:?}, {status}");
            *server = Program::start(data, MODEL);
            assert!(server.client().get(&job).1["status"] != "canceled");
        }
        let client = server.client();
        let job = succeeded(&client, &job);
        check(&client, &job);
        check_disk(&client, data);
    }
}

#[test]
fn jobs_complete_after_kill_9_and_leave_no_temporary_files() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let seed = number("DRAGOMAN_TEST_SEED", std::process::id().into());
    println!("seed {seed}");
    let mut moments = Moments(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut server = Program::start(data, MODEL);
    fill(&server.client());
    let exported = server.client().get_text("/v1/collections/news/export");
    let documents = |client: &Client, name: &str| client.get(&format!("/v1/collections/{name}")).1["documents"].clone();
    let expect = documents(&server.client(), "news");

    let snapshot = |client: &Client, _| started(client, "/v1/snapshots", &json!({}));
    killed("snapshot", &mut moments, data, &mut server, &snapshot, &|client, job| {
        let id = job["details"]["snapshot"].as_str().unwrap();
        let shown = client.get(&format!("/v1/snapshots/{id}")).1;
        assert_eq!(shown["collections"].as_array().map(Vec::len), Some(2), "{shown}");
    });
    let id = server.client().get("/v1/snapshots?limit=1").1["snapshots"][0]["id"].as_str().unwrap().to_owned();
    let restore = |client: &Client, turn| {
        let body = json!({ "collection": "news", "rename_to": format!("copy-{turn}") });
        started(client, &format!("/v1/snapshots/{id}/restore"), &body)
    };
    killed("restore", &mut moments, data, &mut server, &restore, &|client, job| {
        let name = job["collection"].as_str().unwrap();
        assert_eq!(client.get_text(&format!("/v1/collections/{name}/export")), exported);
        assert_eq!(documents(client, name), expect);
        assert_eq!(client.hits(name, &json!({ "query": "w17 x17 y2 z17", "limit": 1 }))[0]["id"], "news17");
        assert_eq!(client.try_delete(&format!("/v1/collections/{name}")).unwrap().0, 204);
    });
    let replace = |client: &Client, _| started(client, &format!("/v1/snapshots/{id}/restore"), &json!({ "replace": true }));
    killed("replacing restore", &mut moments, data, &mut server, &replace, &|client, _| {
        assert_eq!(client.get_text("/v1/collections/news/export"), exported);
    });
    let sides = json!({ "first": { "collection": "news" }, "second": { "collection": "blog" } });
    killed("mine", &mut moments, data, &mut server, &|client, _| started(client, "/v1/mine", &sides), &|client, job| {
        let pairs = client.get_text(&format!("/v1/jobs/{}/pairs", job["id"].as_str().unwrap()));
        let first: BTreeSet<_> =
            pairs.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["first"]["id"].to_string()).collect();
        assert_eq!(first.len(), pairs.lines().count(), "each sentence is in one pair at most");
        assert!(first.len() > DOCUMENTS / 2, "{} pairs", first.len());
    });
    killed_over_one_collection(&mut moments, data, &mut server);
    // Disk space is freed: only the files of the listed collections and snapshots remain.
    assert_eq!(server.client().try_delete(&format!("/v1/snapshots/{id}")).unwrap().0, 204);
    check_disk(&server.client(), data);
}

/// Duplicates, projections, training and labels.
fn killed_over_one_collection(moments: &mut Moments, data: &Path, server: &mut Program) {
    let duplicates = |client: &Client, _| started(client, "/v1/collections/news/duplicates", &json!({}));
    killed("duplicates", moments, data, server, &duplicates, &|client, job| {
        let clusters = client.get_text(&format!("/v1/jobs/{}/clusters", job["id"].as_str().unwrap()));
        assert!(clusters.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "whole lines");
    });
    let path = "/v1/collections/news/projections";
    killed("project", moments, data, server, &|client, _| started(client, path, &json!({})), &|client, job| {
        let ids = client.get(&format!("{path}/none")).1["ids"].as_array().map(Vec::len);
        assert_eq!(ids, Some(DOCUMENTS), "{job}");
    });
    let network = json!({ "hidden": 16, "epochs_max": 4, "runs": 1, "patience": 4 });
    let train = |client: &Client, turn| {
        let source = json!({ "collection": "news", "field": "topic" });
        started(
            client,
            "/v1/classifiers",
            &json!({ "name": format!("parity-{turn}"), "kind": "mlp", "source": source, "mlp": network }),
        )
    };
    killed("train", moments, data, server, &train, &|client, job| {
        let name = job["details"]["classifier"].as_str().unwrap();
        assert_eq!(client.get(&format!("/v1/classifiers/{name}")).1["state"], "ready");
    });
    let body = json!({ "collection": "blog", "field": "label" });
    let apply = |client: &Client, _| started(client, "/v1/classifiers/parity-0/apply", &body);
    killed("apply", moments, data, server, &apply, &|client, job| {
        let exported = client.get_text("/v1/collections/blog/export");
        let labeled = exported.lines().filter(|line| line.contains("\"label\":")).count();
        assert_eq!(labeled, DOCUMENTS, "{job}");
    });
}

#[test]
fn an_upload_interrupted_by_kill_9_leaves_no_files() {
    let (folder, mut server) = Program::fresh(MODEL);
    let snapshots = folder.path().join("snapshots");
    for sent in [1, 100_000] {
        let mut stream = TcpStream::connect(server.client().address()).unwrap();
        let path = "/v1/snapshots/0198c0de-7a11-7000-8000-2f1de5c0ffee/archive";
        let head = format!(
            "PUT {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/zstd\r\ncontent-length: 1000000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![7; sent]).unwrap();
        server.client().wait_until("the upload has begun", |_| !names(&snapshots).is_empty());
        server.kill();
        assert_eq!(names(&snapshots).len(), 1);
        let _ = stream.read(&mut [0]);
        server = Program::start(folder.path(), MODEL);
        assert_eq!(names(&snapshots), BTreeSet::new());
    }
    assert_eq!(server.client().get("/v1/snapshots").1["snapshots"], json!([]));
}
