//! Dragoman compared with Chroma, each as a separate server on loopback, in one run: indexing caller-supplied vectors with text
//! and metadata, and searching for the ten nearest, with and without a filter that keeps a tenth, from eight clients at once.
//!
//! Both get the same documents in the same batches from the same client code, and both must return text and metadata of each
//! hit. `CHROMA` names Chroma's program (`make bench` installs it into `.runtime/chroma`), `DOCUMENTS` sets the number of
//! documents. Dragoman answers a batch when it is durable and searchable. Chroma answers when it is in its log, and adds it to
//! its graph afterwards, so the time until the first response counts too.

mod chroma;
mod clusters;
mod measure;
mod server;
mod wire;

use std::path::Path;
use std::time::Instant;

use chroma::Chroma;
use clusters::{Clusters, recall};
use measure::median_rate;
use serde_json::{Value, json};
use server::{Cores, Server};
use wire::{Connection, post, rate};

/// The dimension of the shipped bundle.
const DIMENSION: usize = 256;
const DOCUMENTS: usize = 100_000;
const QUERIES: usize = 1_000;
/// Queries with a known exact answer.
const JUDGED: usize = 300;
const LIMIT: usize = 10;
const CLIENTS: usize = 8;
/// Documents per request.
const BATCH: usize = 500;
const WRITERS: usize = 4;
/// One document in this many matches the filter.
const BUCKETS: usize = 10;
const BUCKET: usize = 3;
const ROUNDS: usize = 3;
/// Queries of one round for one server.
const ROUND_S: f64 = 8.0;

fn main() {
    let Some(chroma) = chroma::program() else { return };
    let documents = std::env::var("DOCUMENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(DOCUMENTS);
    let data = Clusters::new(documents, QUERIES, DIMENSION, 1);
    let exact = data.exact(JUDGED, LIMIT, |_| true);
    let exact_filtered = data.exact(JUDGED, LIMIT, |number| number % BUCKETS == BUCKET);
    let folder = tempfile::tempdir().expect("a folder");

    let ours = Peer::dragoman(&folder.path().join("dragoman"));
    let ours_in = ours.fill(&data);
    let theirs = Peer::chroma(&chroma, &folder.path().join("chroma"));
    let theirs_in = theirs.fill(&data);
    println!("{documents} documents of {DIMENSION} values, in batches of {BATCH} from {WRITERS} clients");
    println!("| | Dragoman | Chroma | ratio |\n|---|---:|---:|---:|");
    row("documents/s until acknowledged", ours_in.acknowledged, theirs_in.acknowledged);
    row("documents/s until the first response", ours_in.answered, theirs_in.answered);
    let mut rates: [[Vec<f64>; 2]; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (place, peer) in [&ours, &theirs].into_iter().enumerate() {
            for (kind, filtered) in [false, true].into_iter().enumerate() {
                rates[kind][place].push(peer.queries_per_second(&data, filtered));
            }
        }
    }
    let [[plain_ours, plain_theirs], [filtered_ours, filtered_theirs]] = rates.map(|kind| kind.map(median_rate));
    row(&format!("queries/s, {CLIENTS} clients, top {LIMIT}"), plain_ours, plain_theirs);
    row(&format!("queries/s, the same, a filter that keeps 1 in {BUCKETS}"), filtered_ours, filtered_theirs);
    for (name, filtered, exact) in [("recall@10", false, &exact), ("recall@10, filtered", true, &exact_filtered)] {
        let [ours, theirs] = [&ours, &theirs].map(|peer| recall(exact, &peer.responses(&data, filtered)));
        println!("| {name} | {ours:.4} | {theirs:.4} | |");
    }
    println!("| resident MB | {} | {} | |", ours.resident_mb(), theirs.resident_mb());
    println!(
        "filtered relative to unfiltered: Dragoman {:.2}x the time, Chroma {:.2}x",
        plain_ours / filtered_ours,
        plain_theirs / filtered_theirs
    );
}

fn row(name: &str, ours: f64, theirs: f64) {
    println!("| {name} | {ours:.0} | {theirs:.0} | {:.1} |", ours / theirs);
}

/// Documents per second.
struct Filled {
    acknowledged: f64,
    answered: f64,
}

/// A server under test.
struct Peer {
    running: Running,
    address: String,
    write_path: String,
    search_path: String,
}

enum Running {
    Dragoman(Server),
    Chroma(Chroma),
}

impl Peer {
    fn dragoman(data: &Path) -> Self {
        let server = Server::start(Path::new("models/ems-small"), data, Cores::All);
        let address = server.address().to_owned();
        let mut connection = Connection::open(&address);
        connection
            .call("/v1/collections", &json!({"name": "bench", "dimension": DIMENSION, "quantization": server::quantization()}));
        Self {
            running: Running::Dragoman(server),
            address,
            write_path: "/v1/collections/bench/documents".to_owned(),
            search_path: "/v1/collections/bench/search".to_owned(),
        }
    }

    fn chroma(program: &Path, data: &Path) -> Self {
        let chroma = Chroma::start(program, data);
        let path = chroma.create();
        Self {
            address: chroma.address().to_owned(),
            running: Running::Chroma(chroma),
            write_path: format!("{path}/add"),
            search_path: format!("{path}/query"),
        }
    }

    fn is_ours(&self) -> bool {
        matches!(self.running, Running::Dragoman(_))
    }

    /// Writes all documents, and waits for the first response to a query.
    fn fill(&self, data: &Clusters) -> Filled {
        let numbers: Vec<usize> = (0..data.stored.len()).collect();
        let requests: Vec<Vec<u8>> =
            numbers.chunks(BATCH).map(|batch| post(&self.write_path, &self.batch(data, batch))).collect();
        let started = Instant::now();
        let per_second = rate(&self.address, &requests, requests.len(), WRITERS);
        let acknowledged = per_second * BATCH as f64;
        let query = self.query(&data.queries[0], false);
        Connection::open(&self.address).exchange(&query);
        Filled { acknowledged, answered: data.stored.len() as f64 / started.elapsed().as_secs_f64() }
    }

    fn batch(&self, data: &Clusters, numbers: &[usize]) -> Value {
        let metadata = |number: usize| json!({"bucket": number % BUCKETS, "year": 1990 + number % 35});
        let text = |number: usize| format!("Shelf {} of the archive holds letter {number}.", number % 977);
        if self.is_ours() {
            let document = |number: &usize| {
                let id = number.to_string();
                json!({"id": id, "text": text(*number), "language": "en", "metadata": metadata(*number), "vector": data.stored[*number]})
            };
            return json!({"documents": numbers.iter().map(document).collect::<Vec<_>>()});
        }
        json!({
            "ids": numbers.iter().map(usize::to_string).collect::<Vec<_>>(),
            "embeddings": numbers.iter().map(|number| &data.stored[*number]).collect::<Vec<_>>(),
            "documents": numbers.iter().map(|number| text(*number)).collect::<Vec<_>>(),
            "metadatas": numbers.iter().map(|number| metadata(*number)).collect::<Vec<_>>(),
        })
    }

    fn query(&self, values: &[f32], filtered: bool) -> Vec<u8> {
        let mut body = if self.is_ours() {
            json!({"vector": values, "limit": LIMIT})
        } else {
            json!({"query_embeddings": [values], "n_results": LIMIT, "include": ["documents", "metadatas", "distances"]})
        };
        match filtered {
            true if self.is_ours() => body["filter"] = json!({"field": "bucket", "eq": BUCKET}),
            true => body["where"] = json!({"bucket": BUCKET}),
            false => (),
        }
        post(&self.search_path, &body)
    }

    fn queries_per_second(&self, data: &Clusters, filtered: bool) -> f64 {
        let requests: Vec<Vec<u8>> = data.queries.iter().map(|query| self.query(query, filtered)).collect();
        // A first estimate of the rate, which also warms up, determines the number of queries per round.
        let guess = rate(&self.address, &requests, 10 * CLIENTS, CLIENTS);
        let total = ((guess * ROUND_S) as usize).clamp(20 * CLIENTS, 100_000);
        rate(&self.address, &requests, total, CLIENTS)
    }

    /// The documents that each evaluated query finds.
    fn responses(&self, data: &Clusters, filtered: bool) -> Vec<Vec<usize>> {
        let mut connection = Connection::open(&self.address);
        let mut one = |query: &Vec<f32>| {
            let response: Value = serde_json::from_slice(&connection.exchange(&self.query(query, filtered))).expect("JSON");
            let id = |id: &Value| id.as_str().and_then(|text| text.parse().ok()).expect("a number");
            if self.is_ours() {
                response["hits"].as_array().expect("hits").iter().map(|hit| id(&hit["id"])).collect()
            } else {
                response["ids"][0].as_array().expect("ids").iter().map(id).collect()
            }
        };
        data.queries.iter().take(JUDGED).map(&mut one).collect()
    }

    fn resident_mb(&self) -> u64 {
        match &self.running {
            Running::Dragoman(server) => server.resident_mb(),
            Running::Chroma(chroma) => chroma.resident_mb(),
        }
    }
}
