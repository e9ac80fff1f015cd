//! A mixed load of bounded size: the same documents are replaced, deleted and re-created over and over while searches run. What
//! it leaves behind does not depend on how long it runs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::clusters::{Clusters, Random};

/// Documents with a text.
pub const TEXTS: usize = 2_000;
/// Documents with a caller-supplied vector.
pub const VECTORS: usize = 2_000;
/// Dimension of these vectors.
pub const DIMENSION: usize = 256;
/// Values of the field `bucket`.
const BUCKETS: usize = 50;
/// Idempotency records that the server keeps in one collection.
const KEPT_ANSWERS: u64 = 1_000;
/// How long a response may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Topics of the documents.
pub const TOPICS: [&str; 4] = ["weather", "sports", "travel", "food"];

/// Languages, each with one sentence per topic: translations of each other.
pub const SENTENCES: [(&str, [&str; 4]); 5] = [
    (
        "en",
        [
            "Heavy rain is expected in the north tonight.",
            "The team won the final with a late goal.",
            "The night train to Vienna leaves from platform four.",
            "The soup needs two onions and a little salt.",
        ],
    ),
    (
        "de",
        [
            "Im Norden wird heute Nacht starker Regen erwartet.",
            "Die Mannschaft gewann das Finale durch ein spätes Tor.",
            "Der Nachtzug nach Wien fährt von Gleis vier ab.",
            "Für die Suppe braucht man zwei Zwiebeln und etwas Salz.",
        ],
    ),
    (
        "fr",
        [
            "De fortes pluies sont attendues dans le nord cette nuit.",
            "L’équipe a gagné la finale grâce à un but tardif.",
            "Le train de nuit pour Vienne part du quai numéro quatre.",
            "Pour la soupe, il faut deux oignons et un peu de sel.",
        ],
    ),
    (
        "es",
        [
            "Se esperan fuertes lluvias en el norte esta noche.",
            "El equipo ganó la final con un gol en los últimos minutos.",
            "El tren nocturno a Viena sale del andén cuatro.",
            "Para la sopa hacen falta dos cebollas y un poco de sal.",
        ],
    ),
    (
        "ja",
        [
            "今夜は北部で大雨が予想されています。",
            "チームは終盤のゴールで決勝に勝った。",
            "ウィーン行きの夜行列車は4番線から出ます。",
            "スープには玉ねぎ2個と塩少々が必要です。",
        ],
    ),
];

/// A request and the statuses that are acceptable.
struct Request {
    method: &'static str,
    path: String,
    body: Option<String>,
    /// An idempotency key.
    key: Option<String>,
    expected: &'static [u16],
}

type Operation = fn(&Load, &mut Random) -> Request;

/// The weight of each operation, its name, and the request that it sends.
const OPERATIONS: &[(usize, &str, Operation)] = &[
    (18, "upsert texts", |load, random| load.upsert_texts(random, 4, None)),
    (10, "upsert vectors", |load, random| load.upsert_vectors(random, 10)),
    (5, "upsert with a key", |load, random| load.upsert_once(random)),
    (6, "delete", |_, random| Request::new("DELETE", &document_path(random), &[204, 404])),
    (1, "delete by filter", |_, random| {
        let filter = json!({"field": "bucket", "eq": random.below(BUCKETS)});
        Request::post("/v1/collections/news/documents/delete", &json!({"filter": filter}))
    }),
    (3, "put", |_, random| {
        let mut document = text_document(random);
        document.as_object_mut().map(|document| document.remove("id"));
        Request { body: Some(document.to_string()), ..Request::new("PUT", &document_path(random), &[200, 201]) }
    }),
    (3, "patch", |_, random| {
        let body = json!({"metadata": {"year": 1990 + random.below(35)}}).to_string();
        Request { body: Some(body), ..Request::new("PATCH", &document_path(random), &[200, 404]) }
    }),
    (12, "search, text", |_, random| search("news", &json!({"query": text(random).2, "limit": 10}))),
    (10, "search, vector", |load, random| search("points", &json!({"vector": load.query(random), "limit": 10}))),
    (8, "search, filtered", |_, random| {
        let year = json!({"field": "year", "gte": 1990 + random.below(35)});
        let buckets = [random.below(BUCKETS), random.below(BUCKETS), random.below(BUCKETS)];
        let filter = json!({"and": [year, {"not": {"field": "bucket", "in": buckets}}]});
        search("news", &json!({"query": text(random).2, "limit": 10, "filter": filter}))
    }),
    (6, "search, hybrid", |_, random| search("news", &json!({"query": text(random).2, "mode": "hybrid"}))),
    (3, "search, lexical", |_, random| search("news", &json!({"query": text(random).2, "mode": "lexical"}))),
    (4, "get", |_, random| Request::new("GET", &document_path(random), &[200, 404])),
    (2, "scroll", |_, random| {
        let filter = json!({"field": "year", "lt": 1990 + random.below(35)});
        Request::post("/v1/collections/news/documents/scroll", &json!({"filter": filter, "order": "updated_at"}))
    }),
    (1, "facets", |_, _| {
        Request::post("/v1/collections/news/facets", &json!({"facets": [{"field": "topic"}, {"field": "language"}]}))
    }),
    (1, "export", |_, _| Request::new("GET", "/v1/collections/news/export", &[200])),
    (2, "embeddings", |_, random| Request::post("/v1/embeddings", &json!({"input": [text(random).2, text(random).2]}))),
    (1, "similarity", |_, random| {
        Request::post("/v1/similarity", &json!({"pairs": [{"first": text(random).2, "second": text(random).2}]}))
    }),
    (1, "detect", |_, random| Request::post("/v1/detect", &json!({"texts": [text(random).2]}))),
    (3, "predict", |_, random| {
        let body = json!({"texts": [text(random).2], "scores": 4, "explain": 2});
        Request::post("/v1/classifiers/topics/predict", &body)
    }),
    (1, "metrics", |_, _| Request::new("GET", "/metrics", &[200])),
    (5, "refused", refused),
];

/// The load and its outcomes.
pub struct Load {
    caller: Caller,
    vectors: Clusters,
    keys: AtomicU64,
    stopped: AtomicBool,
    paused: AtomicBool,
    outcomes: Mutex<BTreeMap<(String, u16), u64>>,
    unexpected: Mutex<Vec<String>>,
}

impl Load {
    pub fn new(base: &str) -> Self {
        Self {
            caller: Caller::to(base),
            vectors: Clusters::new(VECTORS, 500, DIMENSION, 11),
            keys: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            outcomes: Mutex::default(),
            unexpected: Mutex::default(),
        }
    }

    /// Creates and fills the collections, and fills the idempotency records up to their limit.
    pub fn prepare(&self) {
        let settle = |request: Request| {
            let (status, body) = self.caller.send(&request);
            assert!(request.expected.contains(&status), "{} {}: {status} {body}", request.method, request.path);
        };
        let create = |body: Value| Request { expected: &[201], ..Request::post("/v1/collections", &body) };
        settle(create(json!({"name": "news", "metadata_indexes": ["year"]})));
        settle(create(json!({"name": "points", "dimension": DIMENSION, "quantization": "i8"})));
        let mut random = Random(5);
        for start in (0..TEXTS).step_by(100) {
            let documents: Vec<Value> = (start..start + 100).map(|number| numbered_text(number, &mut random)).collect();
            settle(Request::post("/v1/collections/news/documents", &json!({ "documents": documents })));
        }
        for start in (0..VECTORS).step_by(100) {
            let documents: Vec<Value> = (start..start + 100).map(|number| self.numbered_vector(number, &mut random)).collect();
            settle(Request::post("/v1/collections/points/documents", &json!({ "documents": documents })));
        }
        (0..KEPT_ANSWERS).for_each(|_| settle(self.upsert_once(&mut random)));
        let source = json!({"collection": "news", "field": "topic"});
        let classifier = json!({"name": "topics", "kind": "knn", "source": source});
        settle(Request { expected: &[201], ..Request::post("/v1/classifiers", &classifier) });
        while !self.caller.call("GET", "/v1/classifiers/topics", None).1.contains("\"ready\"") {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends requests, at most one every `period`, until it is stopped.
    pub fn run(&self, seed: u64, period: Duration) {
        let mut random = Random(seed);
        let total: usize = OPERATIONS.iter().map(|(weight, ..)| weight).sum();
        while !self.stopped.load(Ordering::Relaxed) {
            let started = Instant::now();
            if !self.paused.load(Ordering::Relaxed) {
                let mut choice = random.below(total);
                let chosen = OPERATIONS.iter().find(|(weight, ..)| match choice.checked_sub(*weight) {
                    Some(rest) => {
                        choice = rest;
                        false
                    }
                    None => true,
                });
                let (_, name, build) = chosen.expect("the weights add up");
                let request = build(self, &mut random);
                let (status, body) = self.caller.send(&request);
                self.note(name, status, request.expected, &body);
            }
            std::thread::sleep(period.saturating_sub(started.elapsed()));
        }
    }

    /// Pauses or resumes the requests.
    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
    }

    /// Whether the requests pause.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Stops everything.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Counts a response. The server may report at any time that it is full.
    pub fn note(&self, name: &str, status: u16, expected: &[u16], body: &str) {
        *self.outcomes.lock().expect("no panic").entry((name.to_owned(), status)).or_default() += 1;
        if !expected.contains(&status) && status != 503 {
            let start: String = body.chars().take(300).collect();
            self.unexpected.lock().expect("no panic").push(format!("{name}: {status} {start}"));
        }
    }

    /// How often each operation got which status.
    pub fn outcomes(&self) -> BTreeMap<(String, u16), u64> {
        self.outcomes.lock().expect("no panic").clone()
    }

    /// Unexpected answers.
    pub fn unexpected(&self) -> Vec<String> {
        self.unexpected.lock().expect("no panic").clone()
    }

    fn upsert_texts(&self, random: &mut Random, count: usize, key: Option<String>) -> Request {
        // No id occurs twice in one request.
        let first = random.below(TEXTS);
        let documents: Vec<Value> = (first..first + count).map(|number| numbered_text(number % TEXTS, random)).collect();
        Request { key, ..Request::post("/v1/collections/news/documents", &json!({ "documents": documents })) }
    }

    fn upsert_once(&self, random: &mut Random) -> Request {
        let key = self.keys.fetch_add(1, Ordering::Relaxed);
        self.upsert_texts(random, 1, Some(format!("request-{key}")))
    }

    fn upsert_vectors(&self, random: &mut Random, count: usize) -> Request {
        let first = random.below(VECTORS);
        let numbers = (first..first + count).map(|number| number % VECTORS);
        let documents: Vec<Value> = numbers.map(|number| self.numbered_vector(number, random)).collect();
        Request::post("/v1/collections/points/documents", &json!({ "documents": documents }))
    }

    fn numbered_vector(&self, number: usize, random: &mut Random) -> Value {
        let vector = &self.vectors.stored[random.below(VECTORS)];
        json!({"id": format!("p{number}"), "vector": vector, "metadata": {"bucket": random.below(BUCKETS)}})
    }

    fn query(&self, random: &mut Random) -> &[f32] {
        &self.vectors.queries[random.below(self.vectors.queries.len())]
    }
}

impl Request {
    fn new(method: &'static str, path: &str, expected: &'static [u16]) -> Self {
        Self { method, path: path.to_owned(), body: None, key: None, expected }
    }

    fn post(path: &str, body: &Value) -> Self {
        Self { body: Some(body.to_string()), ..Self::new("POST", path, &[200]) }
    }
}

/// Calls the server. Clones share their connections.
#[derive(Clone)]
pub struct Caller {
    agent: ureq::Agent,
    base: String,
}

impl Caller {
    pub fn to(base: &str) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE)).build();
        Self { agent: config.into(), base: base.to_owned() }
    }

    /// Returns status and body; status 0 if there was no response.
    pub fn call(&self, method: &'static str, path: &str, body: Option<&str>) -> (u16, String) {
        let body = body.map(str::to_owned);
        self.send(&Request { body, ..Request::new(method, path, &[]) })
    }

    fn send(&self, request: &Request) -> (u16, String) {
        let Request { method, path, body, key, .. } = request;
        let mut builder = ureq::http::Request::builder().method(*method).uri(format!("{}{path}", self.base));
        if let Some(key) = key {
            builder = builder.header("idempotency-key", key);
        }
        let response = match body {
            Some(body) => {
                let media = if path.ends_with("/import") { "application/x-ndjson" } else { "application/json" };
                let request = builder.header("content-type", media).body(body.clone()).expect("a request");
                self.agent.run(request)
            }
            None => self.agent.run(builder.body(()).expect("a request")),
        };
        let read = |mut response: ureq::http::Response<ureq::Body>| {
            let body = response.body_mut().with_config().limit(1 << 30).read_to_vec()?;
            Ok((response.status().as_u16(), String::from_utf8_lossy(&body).into_owned()))
        };
        response.and_then(read).unwrap_or_else(|error: ureq::Error| (0, error.to_string()))
    }
}

/// Requests that must be refused, each for a different reason.
fn refused(_: &Load, random: &mut Random) -> Request {
    let news = "/v1/collections/news";
    let post =
        |path: String, body: &str, expected| Request { body: Some(body.to_owned()), ..Request::new("POST", &path, expected) };
    match random.below(8) {
        0 => post(format!("{news}/search"), "{\"query\": ", &[400]),
        1 => post(format!("{news}/search"), "{\"query\": \"rain\", \"limt\": 3}", &[400, 422]),
        2 => post(format!("{news}/documents"), "{\"documents\": [{\"id\": \"t1\", \"text\": \" \"}]}", &[400, 422]),
        3 => post("/v1/collections/points/search".to_owned(), "{\"vector\": [1, 2, 3]}", &[400, 422]),
        4 => post(format!("/v1/collections/none{}/search", random.below(1_000_000)), "{\"query\": \"rain\"}", &[404]),
        5 => Request::new("GET", &format!("/v1/nothing/{}", random.below(1_000_000)), &[404]),
        6 => Request::new("DELETE", "/v1/models", &[405]),
        _ => post(format!("{news}/documents/count"), "{\"filter\": {\"field\": \"year\", \"gt\": true}}", &[400, 422]),
    }
}

fn search(collection: &str, body: &Value) -> Request {
    Request::post(&format!("/v1/collections/{collection}/search"), body)
}

fn document_path(random: &mut Random) -> String {
    format!("/v1/collections/news/documents/t{}", random.below(TEXTS))
}

fn text_document(random: &mut Random) -> Value {
    let number = random.below(TEXTS);
    numbered_text(number, random)
}

fn numbered_text(number: usize, random: &mut Random) -> Value {
    let (language, topic, text) = text(random);
    let metadata = json!({"topic": topic, "year": 1990 + random.below(35), "bucket": number % BUCKETS});
    json!({"id": format!("t{number}"), "text": text, "language": language, "metadata": metadata})
}

/// A language, a topic, and one to three sentences, the first of them on the topic; often with a number, so that few are equal.
fn text(random: &mut Random) -> (&'static str, &'static str, String) {
    let (language, sentences) = SENTENCES[random.below(SENTENCES.len())];
    let topic = random.below(TOPICS.len());
    let mut text = sentences[topic].to_owned();
    for _ in 0..random.below(3) {
        text = format!("{text} {}", sentences[random.below(sentences.len())]);
    }
    if random.below(3) > 0 {
        text = format!("{text} ({})", random.below(100_000));
    }
    (language, TOPICS[topic], text)
}
