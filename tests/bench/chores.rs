//! Occasional work alongside the requests of `load`: jobs of all types, snapshots that are restored and deleted, collections
//! and classifiers that are created and deleted, connections that are opened and dropped. Each chore removes what it created.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::clusters::Random;
use super::load::{Caller, Load, SENTENCES, TEXTS, TOPICS};

/// Time between two chores.
const PAUSE: Duration = Duration::from_secs(2);
/// Time between two abandoned connections.
const CONNECTION_PAUSE: Duration = Duration::from_millis(250);
/// Time between two polls of a job.
const POLL: Duration = Duration::from_millis(50);

type Chore = fn(&Chores<'_>);

/// The chores, executed in turn.
const ALL: &[(&str, Chore)] = &[
    ("mine", |chores| chores.mine()),
    ("duplicates", |chores| chores.duplicates()),
    ("snapshot", |chores| chores.snapshot()),
    ("import", |chores| chores.import()),
    ("train", |chores| chores.train()),
    ("apply", |chores| chores.apply()),
    ("collection", |chores| chores.collection()),
    ("alias", |chores| chores.alias()),
    ("cancel", |chores| chores.cancel()),
];

/// Runs chores until the load is stopped.
pub fn run(load: &Load, base: &str) {
    let chores = Chores { load, caller: Caller::to(base) };
    for (_, chore) in ALL.iter().cycle() {
        std::thread::sleep(PAUSE);
        while load.is_paused() && !load.is_stopped() {
            std::thread::sleep(PAUSE);
        }
        if load.is_stopped() {
            return;
        }
        chore(&chores);
    }
}

/// Opens connections that end in the middle of a request, after one, or before one.
pub fn drop_connections(load: &Load, address: &str) {
    let mut random = Random(3);
    while !load.is_stopped() {
        std::thread::sleep(CONNECTION_PAUSE);
        if load.is_paused() {
            continue;
        }
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        let started = match random.below(3) {
            0 => {
                stream.write_all(b"POST /v1/collections/news/search HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
            }
            1 => {
                let sent = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
                sent.and_then(|()| stream.read_to_end(&mut Vec::new()).map(drop))
            }
            _ => Ok(()),
        };
        load.note("connection", if started.is_ok() { 200 } else { 0 }, &[200], "");
    }
}

struct Chores<'l> {
    load: &'l Load,
    caller: Caller,
}

impl Chores<'_> {
    /// Sends a request and counts it; returns the response, or nothing if the request was refused.
    fn ask(&self, name: &str, method: &'static str, path: &str, body: Option<Value>) -> Option<Value> {
        let body = body.map(|body| body.to_string());
        let (status, response) = self.caller.call(method, path, body.as_deref());
        self.load.note(name, status, &[200, 201, 202, 204], &response);
        (200..300).contains(&status).then(|| serde_json::from_str(&response).unwrap_or(Value::Null))
    }

    /// Waits for a job to end, and counts its outcome as 200 or 500.
    fn finish(&self, name: &str, job: &Value) {
        let id = job["id"].as_str().or_else(|| job["job"].as_str()).unwrap_or_default().to_owned();
        loop {
            let (status, response) = self.caller.call("GET", &format!("/v1/jobs/{id}"), None);
            let job: Value = serde_json::from_str(&response).unwrap_or(Value::Null);
            match job["status"].as_str() {
                Some("queued" | "running") => std::thread::sleep(POLL),
                Some("succeeded" | "canceled") => return self.load.note(&format!("{name}, job"), 200, &[200], ""),
                _ => return self.load.note(&format!("{name}, job"), if status == 200 { 500 } else { status }, &[200], &response),
            }
        }
    }

    fn mine(&self) {
        let side = |language: &str| json!({"collection": "news", "languages": [language]});
        let body = json!({"first": side("de"), "second": side("fr"), "threshold": 1.0});
        let Some(job) = self.ask("mine", "POST", "/v1/mine", Some(body)) else { return };
        self.finish("mine", &job);
        self.ask("mine, pairs", "GET", &format!("/v1/jobs/{}/pairs", job["id"].as_str().unwrap_or_default()), None);
    }

    fn duplicates(&self) {
        let body = json!({"score_min": 0.9});
        let Some(job) = self.ask("duplicates", "POST", "/v1/collections/news/duplicates", Some(body)) else { return };
        self.finish("duplicates", &job);
        let path = format!("/v1/jobs/{}/clusters.tsv", job["id"].as_str().unwrap_or_default());
        self.ask("duplicates, clusters", "GET", &path, None);
    }

    fn snapshot(&self) {
        let body = json!({"collections": ["news", "points"]});
        let Some(job) = self.ask("snapshot", "POST", "/v1/snapshots", Some(body)) else { return };
        self.finish("snapshot", &job);
        let path = format!("/v1/snapshots/{}", job["details"]["snapshot"].as_str().unwrap_or_default());
        self.ask("snapshot, download", "GET", &format!("{path}/archive"), None);
        let body = json!({"collection": "news", "rename_to": "copy"});
        if let Some(job) = self.ask("restore", "POST", &format!("{path}/restore"), Some(body)) {
            self.finish("restore", &job);
            self.ask("restore, delete", "DELETE", "/v1/collections/copy", None);
        }
        self.ask("snapshot, delete", "DELETE", &path, None);
    }

    fn import(&self) {
        let line = |number: usize| {
            let (language, sentences) = SENTENCES[number % SENTENCES.len()];
            let metadata = json!({"topic": TOPICS[number % 4], "year": 2000, "bucket": number % 50});
            json!({"id": format!("t{}", number % TEXTS), "text": sentences[number % 4], "language": language, "metadata": metadata})
        };
        let lines: String = (0..200).map(|number| format!("{}\n", line(number))).collect();
        let (status, response) = self.caller.call("POST", "/v1/collections/news/import", Some(&lines));
        self.load.note("import", status, &[202], &response);
        if status == 202 {
            let job = serde_json::from_str(&response).unwrap_or(Value::Null);
            self.finish("import", &job);
            self.ask("import, results", "GET", &format!("/v1/jobs/{}/results", job["id"].as_str().unwrap_or_default()), None);
        }
    }

    fn train(&self) {
        let examples: Vec<Value> = SENTENCES
            .iter()
            .flat_map(|(_, sentences)| sentences.iter().zip(TOPICS))
            .map(|(text, topic)| json!({"text": text, "labels": [topic]}))
            .collect();
        let body = json!({"name": "trained", "kind": "mlp", "examples": examples, "mlp": {"runs": 1}});
        let Some(classifier) = self.ask("train", "POST", "/v1/classifiers", Some(body)) else { return };
        self.finish("train", &json!({"id": classifier["job"]}));
        let body = json!({"texts": [SENTENCES[0].1[0]]});
        self.ask("train, predict", "POST", "/v1/classifiers/trained/predict", Some(body));
        self.ask("train, delete", "DELETE", "/v1/classifiers/trained", None);
    }

    fn apply(&self) {
        let filter = json!({"field": "year", "gte": 2015});
        let body = json!({"collection": "news", "field": "predicted", "filter": filter});
        if let Some(job) = self.ask("apply", "POST", "/v1/classifiers/topics/apply", Some(body)) {
            self.finish("apply", &job);
        }
    }

    fn collection(&self) {
        if self.ask("collection, create", "POST", "/v1/collections", Some(json!({"name": "brief"}))).is_none() {
            return;
        }
        let document = |(language, sentences): &(&str, [&str; 4])| json!({"text": sentences.join(" "), "language": language});
        let documents: Vec<Value> = SENTENCES.iter().map(document).collect();
        let body = json!({ "documents": documents });
        self.ask("collection, fill", "POST", "/v1/collections/brief/documents", Some(body));
        self.ask("collection, search", "POST", "/v1/collections/brief/search", Some(json!({"query": "soup", "mode": "hybrid"})));
        self.ask("collection, delete", "DELETE", "/v1/collections/brief", None);
    }

    fn alias(&self) {
        self.ask("alias, put", "PUT", "/v1/aliases/current", Some(json!({"collection": "news"})));
        self.ask("alias, search", "POST", "/v1/collections/current/search", Some(json!({"query": "night train"})));
        self.ask("alias, delete", "DELETE", "/v1/aliases/current", None);
    }

    /// A job may end before it is canceled.
    fn cancel(&self) {
        let body = json!({"score_min": 0.8});
        let Some(job) = self.ask("cancel", "POST", "/v1/collections/news/duplicates", Some(body)) else { return };
        let path = format!("/v1/jobs/{}/cancel", job["id"].as_str().unwrap_or_default());
        let (status, response) = self.caller.call("POST", &path, None);
        self.load.note("cancel", status, &[200, 409], &response);
        self.finish("cancel", &job);
        self.ask("jobs", "GET", "/v1/jobs?limit=20", None);
    }
}
