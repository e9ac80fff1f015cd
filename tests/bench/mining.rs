//! Mining through the API compared with exact computation offline, on the same embeddings, in one run: the pairs found, and the
//! time.
//!
//! Two collections of caller-supplied vectors contain translations hidden among distractors: a quarter of the second side are
//! near-duplicates of sentences of the first. `SENTENCES=10000,100000` sets the sentences per side; with `FIRST=de.npy
//! SECOND=fr.npy` (as written by `dragoman embed`) real text embeddings are used instead. Offline, everything is in memory and
//! nothing is read or written; one pass over all pairs on all cores yields both directions. "Dot products" is the plain blocked
//! loop, measured on a part of the sentences and scaled; "products of matrices" are the blocks that mining itself uses.

#![expect(clippy::unwrap_used, reason = "a measurement fails by panicking")]

mod clusters;
mod npy;
#[path = "../support/program.rs"]
mod program;

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clusters::{Clusters, Random};
use dragoman::domain::embedding::dot;
use dragoman::mining::{BLOCK_SENTENCES, Block, Comparison, Margin, MarginScores, Nearest, NeighborLists, Strategy, propose};
use program::{Client, Program};
use serde_json::{Value, json};

const SENTENCES: &str = "10000,100000";
const DIMENSION: usize = 256;
const NEIGHBORS: usize = 4;
/// One sentence of the second side in this many is the translation of one of the first.
const TRANSLATED: usize = 4;
/// The noise in a value of a translation, as a fraction of the value's size.
const NOISE: f32 = 0.3;
/// Documents per request.
const BATCH: usize = 500;
/// The part of the first side on which the dot products are measured.
const DOTS_PART: usize = 20;

type Rows = Vec<Vec<f32>>;

fn main() {
    let given = (std::env::var("FIRST"), std::env::var("SECOND"));
    let sizes = std::env::var("SENTENCES").unwrap_or_else(|_| SENTENCES.to_owned());
    println!(
        "| sentences per side | method | total | neighbors | relative to dot products | relative to matrix products | agreement of pairs |"
    );
    println!("|---:|---|---:|---:|---:|---:|---:|");
    for size in sizes.split(',') {
        let size = size.trim().parse().expect("a number of sentences");
        match &given {
            (Ok(first), Ok(second)) => {
                measure(npy::read(Path::new(first), DIMENSION, size), npy::read(Path::new(second), DIMENSION, size))
            }
            _ => {
                let (first, second) = hidden(size);
                measure(first, second);
            }
        }
    }
}

fn measure(first: Rows, second: Rows) {
    let size = first.len();
    let dots = dots(&first, &second);
    println!("| {size} | offline, dot products (scaled) | {dots:.1?} | {dots:.1?} | 1 | | |");
    let started = Instant::now();
    let (forward, backward) = products(&first, &second);
    let compared = started.elapsed();
    let scores = MarginScores::new(&forward, &backward, Margin::Ratio).unwrap();
    let exact: HashSet<(String, String)> =
        propose(Strategy::MaxScore, &scores).into_iter().map(|pair| (pair.first.to_string(), pair.second.to_string())).collect();
    let offline = started.elapsed();
    let against = |time: Duration| (dots.as_secs_f64() / time.as_secs_f64(), offline.as_secs_f64() / time.as_secs_f64());
    println!("| {size} | offline, matrix products | {offline:.1?} | {compared:.1?} | {:.1} | 1 | 1 |", against(offline).0);

    let (_folder, server) = Program::fresh(&format!("fake:{DIMENSION}"));
    let client = server.client();
    fill(&client, "first", &first);
    fill(&client, "second", &second);
    for (name, choice) in [("default", None), ("exact", Some(true)), ("through the indexes", Some(false))] {
        let started = Instant::now();
        let (job, pairs) = mined(&client, choice);
        let all = started.elapsed();
        let (to_dots, to_products) = against(all);
        let found = pairs.intersection(&exact).count();
        let agreement = 2.0 * found as f64 / (pairs.len() + exact.len()) as f64;
        let neighbors = Duration::from_millis(job["details"]["neighbors_ms"].as_u64().unwrap());
        println!("| {size} | API, {name} | {all:.1?} | {neighbors:.1?} | {to_dots:.1} | {to_products:.2} | {agreement:.4} |");
        println!("<!-- {} -->", job["details"]);
    }
}

/// Both sides of clustered vectors, with translations at random positions of the second.
fn hidden(size: usize) -> (Rows, Rows) {
    let data = Clusters::new(size, size, DIMENSION, 7);
    let (first, mut second) = (data.stored, data.queries);
    let mut random = Random(11);
    let deviation = NOISE / (DIMENSION as f32).sqrt();
    for (number, row) in second.iter_mut().enumerate().filter(|(number, _)| number % TRANSLATED == 0) {
        // 7,919 is a prime: as long as it does not divide the size, no sentence is translated twice.
        let original = &first[number * 7_919 % size];
        *row = original.iter().map(|value| value + deviation * random.normal()).collect();
    }
    (first, second)
}

/// The nearest in both directions by a plain loop over all pairs, for a part of the first side, scaled to all of it.
fn dots(first: &[Vec<f32>], second: &[Vec<f32>]) -> Duration {
    const FIRSTS: usize = 32;
    const SECONDS: usize = 256;
    let part = first.len() / DOTS_PART;
    let started = Instant::now();
    on_all_cores(part.div_ceil(FIRSTS), |at| {
        let rows = at * FIRSTS..part.min((at + 1) * FIRSTS);
        let mut bars = vec![[f32::NEG_INFINITY; NEIGHBORS]; rows.len()];
        let mut back = vec![[f32::NEG_INFINITY; NEIGHBORS]; second.len()];
        for begin in (0..second.len()).step_by(SECONDS) {
            for number in rows.clone() {
                for other in begin..second.len().min(begin + SECONDS) {
                    let cosine = dot(&first[number], &second[other]);
                    keep(&mut bars[number - rows.start], cosine);
                    keep(&mut back[other], cosine);
                }
            }
        }
        std::hint::black_box((bars, back));
    });
    started.elapsed().mul_f64(first.len() as f64 / part as f64)
}

fn keep(best: &mut [f32; NEIGHBORS], cosine: f32) {
    if cosine > best[NEIGHBORS - 1] {
        let at = best.partition_point(|known| *known >= cosine);
        best.copy_within(at..NEIGHBORS - 1, at + 1);
        best[at] = cosine;
    }
}

/// The nearest in both directions by block products.
fn products(first: &[Vec<f32>], second: &[Vec<f32>]) -> (NeighborLists, NeighborLists) {
    let blocks = |rows: &[Vec<f32>]| -> Vec<(Block, Mutex<Nearest>)> {
        let made = |(at, part): (usize, &[Vec<f32>])| {
            let numbered = ((at * BLOCK_SENTENCES) as u32..).zip(part.iter().map(Vec::as_slice));
            (Block::new(DIMENSION, numbered).unwrap(), Mutex::new(Nearest::new(part.len(), NEIGHBORS).unwrap()))
        };
        rows.chunks(BLOCK_SENTENCES).enumerate().map(made).collect()
    };
    let (ones, others) = (blocks(first), blocks(second));
    on_all_cores(ones.len(), |at| {
        let (one, of_one) = &ones[at];
        let (mut of_one, mut comparison) = (of_one.lock().unwrap(), Comparison::new(one).unwrap().without_rounding());
        for turn in 0..others.len() {
            let (other, of_other) = &others[(turn + at) % others.len()];
            comparison.compare_with(&mut of_one, (other, &mut of_other.lock().unwrap()), |_, _| false).unwrap();
        }
    });
    (lists(&ones, second.len()), lists(&others, first.len()))
}

fn lists(blocks: &[(Block, Mutex<Nearest>)], others: usize) -> NeighborLists {
    let sentences = blocks.iter().map(|(block, _)| block.len()).sum();
    let mut lists = NeighborLists::new(sentences, others, NEIGHBORS).unwrap();
    for (block, nearest) in blocks {
        let nearest = nearest.lock().unwrap();
        let numbers: Range<usize> = 0..block.len();
        numbers.for_each(|place| lists.put(block.numbers()[place], nearest.of(place)).unwrap());
    }
    lists
}

fn fill(client: &Client, name: &str, rows: &[Vec<f32>]) {
    assert_eq!(client.post("/v1/collections", &json!({"name": name, "dimension": DIMENSION})).0, 201);
    let started = Instant::now();
    for (batch, rows) in rows.chunks(BATCH).enumerate() {
        let document = |(at, row): (usize, &Vec<f32>)| {
            let number = batch * BATCH + at;
            json!({"id": number.to_string(), "text": format!("Sentence {number} of {name}."), "vector": row})
        };
        let documents: Vec<Value> = rows.iter().enumerate().map(document).collect();
        let (status, body) = client.post(&format!("/v1/collections/{name}/documents"), &json!({"documents": documents}));
        assert_eq!(status, 200, "{body}");
    }
    println!("<!-- {name}: {} sentences stored and indexed in {:.1?} -->", rows.len(), started.elapsed());
}

fn mined(client: &Client, exact: Option<bool>) -> (Value, HashSet<(String, String)>) {
    let mut request = json!({"first": {"collection": "first"}, "second": {"collection": "second"}, "neighbors": NEIGHBORS});
    if let Some(exact) = exact {
        request["exact"] = json!(exact);
    }
    let (status, job) = client.post("/v1/mine", &request);
    assert_eq!(status, 202, "{job}");
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    let job = loop {
        let job = client.get(&path).1;
        if job["status"] == "succeeded" {
            break job;
        }
        assert!(job["status"] == "queued" || job["status"] == "running", "{job}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let id = |side: &Value| side["id"].as_str().unwrap().to_owned();
    let pair = |line: &str| {
        let pair: Value = serde_json::from_str(line).unwrap();
        (id(&pair["first"]), id(&pair["second"]))
    };
    (job, client.get_text(&format!("{path}/pairs")).lines().map(pair).collect())
}

fn on_all_cores(parts: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let part = next.fetch_add(1, Ordering::Relaxed);
                    if part >= parts {
                        break;
                    }
                    work(part);
                }
            });
        }
    });
}
