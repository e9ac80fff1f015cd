//! The store in the data directory compared with PostgreSQL, the latter with one, two and three servers over one database:
//! indexing and search, alternating within one run on real text.
//!
//! Servers, database and clients share the cores, so more servers show their overhead, not what they would gain on separate
//! machines. `DOCUMENTS` sets the number of passages, `TEXTS` and `QUERIES` the texts (`passages.rs`).

mod at_scale;
mod clusters;
#[path = "../support/postgres.rs"]
mod database;
mod measure;
mod passages;
mod process;
mod searching;
mod server;
mod wire;

use std::path::Path;
use std::time::{Duration, Instant};

use at_scale::Measured;
use database::Database;
use measure::{median, median_rate};
use passages::Passage;
use searching::{COLLECTION, LIMIT, fill, ids, question};
use serde_json::{Value, json};
use server::{Cores, Server};
use wire::{Connection, post, rate_over};

const MODEL: &str = "models/ems-small";
const DOCUMENTS: usize = 20_000;
const QUESTIONS: usize = 500;
/// Connections that query at once.
const CLIENTS: usize = 8;
const SERVERS_MAX: usize = 3;
const ROUNDS: usize = 3;
/// Queries of one round for one store.
const ROUND_S: f64 = 3.0;
/// Queries that are timed one at a time.
const TIMED: usize = 200;
/// Queries whose nearest passages are compared with the exact ones.
const JUDGED: usize = 100;

/// One of the compared stores: its servers and their data directories.
struct Store {
    name: String,
    servers: Vec<Server>,
    /// Passages per second.
    filled: f64,
    _folder: tempfile::TempDir,
}

impl Store {
    /// Starts the servers and stores all passages through them.
    fn filled(name: &str, servers: usize, url: Option<&str>, passages: &[Passage]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let data = |number: usize| folder.path().join(number.to_string());
        let start = |number| Server::start_on(Path::new(MODEL), &data(number), Cores::All, url);
        let servers: Vec<Server> = (0..servers).map(start).collect();
        let mut store = Self { name: name.to_owned(), servers, filled: 0.0, _folder: folder };
        store.filled = passages.len() as f64 / fill(&store.addresses(), passages).as_secs_f64();
        store
    }

    fn addresses(&self) -> Vec<&str> {
        self.servers.iter().map(Server::address).collect()
    }
}

/// A kind of query.
struct Kind {
    name: &'static str,
    mode: &'static str,
    filter: Option<Value>,
}

impl Kind {
    fn body(&self, text: &str) -> Value {
        let mut body = question(text, self.mode);
        if let Some(filter) = &self.filter {
            body["filter"] = filter.clone();
        }
        body
    }

    fn requests(&self, questions: &[String]) -> Vec<Vec<u8>> {
        questions.iter().map(|text| post(&format!("{COLLECTION}/search"), &self.body(text))).collect()
    }
}

fn main() {
    let documents = std::env::var("DOCUMENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(DOCUMENTS);
    let (passages, questions) = (passages::passages(documents), passages::questions(QUESTIONS));
    let database = Database::start();
    let mut stores = vec![Store::filled("data directory", 1, None, &passages)];
    let mut url = String::new();
    for servers in 1..=SERVERS_MAX {
        url = database.own().url;
        let name = format!("PostgreSQL, {servers} server{}", if servers == 1 { "" } else { "s" });
        stores.push(Store::filled(&name, servers, Some(&url), &passages));
    }
    println!("{} passages, {} questions\n", passages.len(), questions.len());
    let names: Vec<&str> = stores.iter().map(|store| store.name.as_str()).collect();
    println!("| | {} |\n|---|{}", names.join(" | "), "---:|".repeat(names.len()));
    row("stored and searchable, passages/s", &stores.iter().map(|store| store.filled).collect::<Vec<_>>());
    let kinds = kinds(&passages);
    for kind in &kinds {
        row(&format!("{}, questions/s of {CLIENTS} clients", kind.name), &rates(&stores, &kind.requests(&questions)));
    }
    for kind in &kinds {
        let times: Vec<f64> = stores.iter().map(|store| milliseconds(store, &kind.requests(&questions))).collect();
        row(&format!("{}, median ms of one client", kind.name), &times);
    }
    for kind in kinds.iter().filter(|kind| kind.mode == "dense") {
        let recalls: Vec<String> = stores.iter().map(|store| format!("{:.4}", recall(store, kind, &questions))).collect();
        println!("| {}, recall@{LIMIT} | {} |", kind.name, recalls.join(" | "));
    }
    let memory: Vec<String> = stores.iter().map(|store| resident_mb(store).to_string()).collect();
    println!("| resident MB of the servers | {} |\n", memory.join(" | "));
    let (graph_bytes, stored_bytes) = sizes(&url, passages.len());
    let one = &stores[1];
    let (server_ms, database_ms) = computed(one, &database, &kinds[1].requests(&questions));
    let server_bytes = memory_of_tokens(&url, passages.len());
    at_scale::print(&Measured { passages: passages.len(), graph_bytes, stored_bytes, database_ms, server_ms, server_bytes });
}

fn kinds(passages: &[Passage]) -> Vec<Kind> {
    let plain = |name, mode| Kind { name, mode, filter: None };
    let filtered = |name, filter| Kind { name, mode: "dense", filter: Some(filter) };
    vec![
        plain("full", "full"),
        plain("dense", "dense"),
        plain("hybrid", "hybrid"),
        plain("lexical", "lexical"),
        filtered("dense, half", json!({"field": "half", "eq": 0})),
        filtered("dense, a thousandth", json!({"field": "thousandth", "eq": 0})),
        filtered("dense, one language", json!({"field": "language", "eq": passages[0].language})),
    ]
}

/// Numbers of all stores, each with its ratio to the first.
fn row(name: &str, numbers: &[f64]) {
    let digits = if numbers[0] < 100.0 { 2 } else { 0 };
    let cells: Vec<String> = numbers.iter().map(|number| format!("{number:.digits$} ({:.2})", number / numbers[0])).collect();
    println!("| {name} | {} |", cells.join(" | "));
}

/// Queries per second of several clients, alternating between the stores.
fn rates(stores: &[Store], requests: &[Vec<u8>]) -> Vec<f64> {
    let mut rates = vec![Vec::new(); stores.len()];
    for _ in 0..ROUNDS {
        for (store, rates) in stores.iter().zip(&mut rates) {
            let addresses = store.addresses();
            let guess = rate_over(&addresses, requests, 10 * CLIENTS, CLIENTS);
            let total = ((guess * ROUND_S) as usize).clamp(10 * CLIENTS, 50_000);
            rates.push(rate_over(&addresses, requests, total, CLIENTS));
        }
    }
    rates.into_iter().map(median_rate).collect()
}

fn milliseconds(store: &Store, requests: &[Vec<u8>]) -> f64 {
    let mut connection = Connection::open(store.servers[0].address());
    let timed = |request: &Vec<u8>| -> Duration {
        let started = Instant::now();
        connection.exchange(request);
        started.elapsed()
    };
    median(requests.iter().take(TIMED).map(timed).collect()).as_secs_f64() * 1e3
}

/// Recall of a search, compared with an exhaustive one.
fn recall(store: &Store, kind: &Kind, questions: &[String]) -> f64 {
    let mut connection = Connection::open(store.servers[0].address());
    let path = format!("{COLLECTION}/search");
    let (mut hits, mut all) = (0, 0);
    for text in questions.iter().take(JUDGED) {
        let mut body = kind.body(text);
        let found = ids(&connection.call(&path, &body));
        body["exact"] = true.into();
        let exact = ids(&connection.call(&path, &body));
        hits += exact.iter().filter(|id| found.contains(id)).count();
        all += exact.len();
    }
    hits as f64 / all.max(1) as f64
}

fn resident_mb(store: &Store) -> u64 {
    store.servers.iter().map(Server::resident_mb).sum()
}

/// CPU milliseconds of the server and of the database per query.
fn computed(store: &Store, database: &Database, requests: &[Vec<u8>]) -> (f64, f64) {
    let mut connection = Connection::open(store.servers[0].address());
    requests.iter().take(TIMED).for_each(|request| drop(connection.exchange(request)));
    let now = || (store.servers[0].computed(), process::computed_by_children(database.watcher()));
    let before = now();
    requests.iter().take(TIMED).for_each(|request| drop(connection.exchange(request)));
    let after = now();
    let ms = |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64() * 1e3 / TIMED as f64;
    (ms(before.0, after.0), ms(before.1, after.1))
}

/// Bytes per passage that a server keeps in memory after its first default search.
fn memory_of_tokens(url: &str, passages: usize) -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start_on(Path::new(MODEL), folder.path(), Cores::All, Some(url));
    let mut connection = Connection::open(server.address());
    let mut ask = |mode| drop(connection.call(&format!("{COLLECTION}/search"), &question("warm", mode)));
    (0..TIMED).for_each(|_| ask("dense"));
    let before = server.resident_mb();
    ask("full");
    (server.resident_mb().saturating_sub(before) << 20) as f64 / passages as f64
}

/// Bytes per passage in the database's tables and indexes: those of the embedding index, and the total.
fn sizes(url: &str, passages: usize) -> (f64, f64) {
    let mut client = postgres::Client::connect(url, postgres::NoTls).expect("the database answers");
    let sql = "select t.name,
                   (select coalesce(sum(pg_table_size(c.oid)), 0)::bigint from pg_class c join pg_namespace n on n.oid = c.relnamespace
                    where n.nspname = 'dragoman' and c.relkind = 'r' and c.relname ~ ('^' || t.name || '_[0-9]+$')),
                   (select coalesce(sum(pg_indexes_size(c.oid)), 0)::bigint from pg_class c join pg_namespace n on n.oid = c.relnamespace
                    where n.nspname = 'dragoman' and c.relkind = 'r' and c.relname ~ ('^' || t.name || '_[0-9]+$'))
               from (values ('documents'), ('passages'), ('passage_tokens'), ('terms')) t (name)";
    println!("| bytes per passage in the database | table | its indexes |\n|---|---:|---:|");
    let mut all = 0;
    for row in client.query(sql, &[]).expect("sizes") {
        let (name, table, indexes): (&str, i64, i64) = (row.get(0), row.get(1), row.get(2));
        println!("| `{name}` | {} | {} |", table / passages as i64, indexes / passages as i64);
        all += table + indexes;
    }
    let sql =
        "select sum(pg_relation_size(c.oid))::bigint from pg_class c join pg_am a on a.oid = c.relam where a.amname = 'hnsw'";
    let graph: i64 = client.query_one(sql, &[]).expect("a size").get(0);
    println!("| the embedding index alone | | {} |\n", graph / passages as i64);
    (graph as f64 / passages as f64, all as f64 / passages as f64)
}
