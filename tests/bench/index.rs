//! The index compared with the bare usearch library, on clustered vectors of the shipped dimension, in one run: build time on
//! all cores, query time, recall@10 against an exact search; usearch by cosine and by dot product; exhaustive integer
//! comparison against graph search, by size; then memory and file size per vector for each quantization.
//!
//! `DOCUMENTS` sets the number of vectors (100,000), `QUANTIZATIONS=f16,i8` the quantizations. With `VECTORS=de.npy
//! QUERIES=fr.npy` (as written by `dragoman embed`), real text embeddings are used.

mod clusters;
mod measure;
mod npy;
mod server;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clusters::{Clusters, recall};
use dragoman::domain::{Embedding, Metric, PassageId, Quantization};
use dragoman::index::{Index, IndexParameters, search_exact};
use measure::median;
use usearch::{IndexOptions, MetricKind, ScalarKind};

const DOCUMENTS: usize = 100_000;
const DIMENSION: usize = 256;
const QUERIES: usize = 1_000;
const LIMIT: usize = 10;
const ROUNDS: usize = 5;
/// Passages of an index that is searched without the graph.
const SIZES: [usize; 6] = [4_000, 8_000, 16_000, 32_000, 64_000, 100_000];
const EXPANSIONS: [usize; 5] = [96, 128, 192, 256, 384];

const QUANTIZATIONS: [(&str, Quantization); 5] = [
    ("f32", Quantization::F32),
    ("bf16", Quantization::Bf16),
    ("f16", Quantization::F16),
    ("i8", Quantization::I8),
    ("b1", Quantization::B1),
];

fn main() {
    let documents = std::env::var("DOCUMENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(DOCUMENTS);
    let wanted = std::env::var("QUANTIZATIONS").unwrap_or_default();
    let data = match (std::env::var_os("VECTORS"), std::env::var_os("QUERIES")) {
        (Some(vectors), Some(queries)) => real(Path::new(&vectors), Path::new(&queries), documents),
        _ => Clusters::new(documents, QUERIES, DIMENSION, 7),
    };
    let exact = data.exact(QUERIES, LIMIT, |_| true);
    let embed = |values: &Vec<f32>| Embedding::normalized(values.clone()).expect("no zero vector");
    let stored: Vec<Embedding> = data.stored.iter().map(embed).collect();
    let queries: Vec<Embedding> = data.queries.iter().map(embed).collect();
    let (documents, asked) = (stored.len(), queries.len());
    println!("{documents} vectors of {DIMENSION} values, {asked} queries on one thread, top {LIMIT}");

    beside_usearch(&data, &stored, &queries, &exact);
    by_metric(&data, &exact);
    by_expansion(&stored, &queries, &exact);
    by_size(&data, &stored, &queries);
    println!(
        "| quantization | vectors/s added | query | recall@10, not rescored | memory, bytes per vector | file, bytes per vector |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for (name, quantization) in QUANTIZATIONS {
        if wanted.is_empty() || wanted.split(',').any(|wanted| wanted == name) {
            by_quantization(name, quantization, &stored, &queries, &exact);
        }
    }
}

/// Both with f16 values compared by dot product. Queries alternate, so that both see the same machine conditions.
fn beside_usearch(data: &Clusters, stored: &[Embedding], queries: &[Embedding], exact: &[Vec<usize>]) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (index, ours_built) = build(Quantization::F16, stored);
    let (alone, alone_built) = build_alone(ScalarKind::F16, MetricKind::IP, &data.stored);

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let (mut ours_found, mut theirs_found) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for (embedding, values) in queries.iter().zip(&data.queries) {
            let started = Instant::now();
            let found = index.search(embedding, LIMIT).expect("found");
            ours.push(started.elapsed());
            let started = Instant::now();
            let matches = alone.search(values, LIMIT).expect("found");
            theirs.push(started.elapsed());
            if round == 0 {
                ours_found.push(found.iter().map(|neighbor| neighbor.passage.0 as usize).collect::<Vec<_>>());
                theirs_found.push(matches.keys.iter().map(|key| *key as usize).collect::<Vec<_>>());
            }
        }
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!("| | Dragoman | usearch alone | ratio |\n|---|---:|---:|---:|");
    let ratio = |ours: Duration, theirs: Duration| ours.as_secs_f64() / theirs.as_secs_f64();
    println!("| built on {cores} cores | {ours_built:.1?} | {alone_built:.1?} | {:.2} |", ratio(ours_built, alone_built));
    println!("| query, median | {ours:.1?} | {theirs:.1?} | {:.2} |", ratio(ours, theirs));
    println!("| recall@10 | {:.4} | {:.4} | |\n", recall(exact, &ours_found), recall(exact, &theirs_found));
}

/// Vectors from one file, and queries from another.
fn real(vectors: &Path, queries: &Path, documents: usize) -> Clusters {
    let all = npy::read(queries, DIMENSION, usize::MAX);
    let step = (all.len() / QUERIES).max(1);
    let queries = all.into_iter().step_by(step).take(QUERIES).collect();
    Clusters { stored: npy::read(vectors, DIMENSION, documents), queries }
}

/// Recall and cost of a wider search, with one byte per value and as many candidates rescored as the service rescores.
fn by_expansion(stored: &[Embedding], queries: &[Embedding], exact: &[Vec<usize>]) {
    let (index, _) = build(Quantization::I8, stored);
    let candidates = (LIMIT as f32 * Quantization::I8.oversampling()) as usize;
    println!("| ef_search | query | recall@10, rescored |\n|---:|---:|---:|");
    for expansion in EXPANSIONS {
        let (mut times, mut found) = (Vec::new(), Vec::new());
        for query in queries {
            let started = Instant::now();
            let near = index.search_with_ef(query, candidates, expansion).expect("found");
            times.push(started.elapsed());
            let near = near.iter().map(|neighbor| (neighbor.passage, &stored[neighbor.passage.0 as usize]));
            let nearest = search_exact(Metric::Cosine, near, query, LIMIT);
            found.push(nearest.iter().map(|neighbor| neighbor.passage.0 as usize).collect::<Vec<_>>());
        }
        println!("| {expansion} | {:.1?} | {:.4} |", median(times), recall(exact, &found));
    }
    println!();
}

/// usearch alone, by cosine and by dot product, which are equal for vectors of unit length.
fn by_metric(data: &Clusters, exact: &[Vec<usize>]) {
    println!("| usearch alone | vectors/s added | query | recall@10 |\n|---|---:|---:|---:|");
    for (kind_name, kind) in [("f16", ScalarKind::F16), ("bf16", ScalarKind::BF16)] {
        for (metric_name, metric) in [("cosine", MetricKind::Cos), ("dot product", MetricKind::IP)] {
            let (index, built) = build_alone(kind, metric, &data.stored);
            let (mut times, mut found) = (Vec::new(), Vec::new());
            for values in &data.queries {
                let started = Instant::now();
                let matches = index.search(values, LIMIT).expect("found");
                times.push(started.elapsed());
                found.push(matches.keys.iter().map(|key| *key as usize).collect::<Vec<_>>());
            }
            let (rate, query) = (data.stored.len() as f64 / built.as_secs_f64(), median(times));
            println!("| {kind_name} by {metric_name} | {rate:.0} | {query:.1?} | {:.4} |", recall(exact, &found));
        }
    }
    println!();
}

fn build_alone(quantization: ScalarKind, metric: MetricKind, stored: &[Vec<f32>]) -> (usearch::Index, Duration) {
    let parameters = IndexParameters::new(DIMENSION, Metric::Cosine, Quantization::F16);
    let index = usearch::Index::new(&IndexOptions {
        dimensions: DIMENSION,
        metric,
        quantization,
        connectivity: parameters.hnsw.m,
        expansion_add: parameters.hnsw.ef_construction,
        expansion_search: parameters.hnsw.ef_search,
        multi: false,
    });
    let index = index.expect("an index");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    index.reserve_capacity_and_threads(stored.len(), cores).expect("memory");
    let started = Instant::now();
    on_all_cores(stored.len(), |number| index.add(number as u64, &stored[number]).expect("added"));
    (index, started.elapsed())
}

/// Exhaustive comparison on a small index, and graph searches that return more and more candidates.
fn by_size(data: &Clusters, stored: &[Embedding], queries: &[Embedding]) {
    println!("| passages | search | query | recall@10 |\n|---:|---|---:|---:|");
    for size in SIZES.into_iter().filter(|size| *size <= stored.len()) {
        let part = Clusters { stored: data.stored[..size].to_vec(), queries: data.queries.clone() };
        let exact = part.exact(queries.len(), LIMIT, |_| true);
        let (index, _) = build(Quantization::F16, &stored[..size]);
        let scan =
            |query: &Embedding| index.scan(query, LIMIT, dragoman::index::Among::All).expect("found").expect("a small index");
        scan(&queries[0]);
        let row = |search_name: &str, search: &dyn Fn(&Embedding) -> Vec<dragoman::index::Neighbor>| {
            let (mut times, mut found) = (Vec::new(), Vec::new());
            for query in queries {
                let started = Instant::now();
                let neighbors = search(query);
                times.push(started.elapsed());
                found.push(neighbors.iter().map(|neighbor| neighbor.passage.0 as usize).collect::<Vec<_>>());
            }
            println!("| {size} | {search_name} | {:.1?} | {:.4} |", median(times), recall(&exact, &found));
        };
        row("scan", &scan);
        for expansion in EXPANSIONS {
            row(&format!("graph, {expansion} candidates"), &|query| {
                index.search_with_ef(query, LIMIT, expansion).expect("found")
            });
        }
    }
    println!();
}

fn by_quantization(name: &str, quantization: Quantization, stored: &[Embedding], queries: &[Embedding], exact: &[Vec<usize>]) {
    let before = server::resident_mb(std::process::id());
    let (index, built) = build(quantization, stored);
    let memory = server::resident_mb(std::process::id()).saturating_sub(before) as f64 * 1_048_576.0;
    let (mut times, mut found) = (Vec::new(), Vec::new());
    for query in queries {
        let started = Instant::now();
        let neighbors = index.search(query, LIMIT).expect("found");
        times.push(started.elapsed());
        found.push(neighbors.iter().map(|neighbor| neighbor.passage.0 as usize).collect::<Vec<_>>());
    }
    let folder = tempfile::tempdir().expect("a folder");
    dragoman::index::save(&index, folder.path(), dragoman::domain::Sequence(1), "bench").expect("saved");
    let files = std::fs::read_dir(folder.path()).expect("a folder").flatten();
    let bytes: u64 = files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum();
    let count = stored.len() as f64;
    println!(
        "| {name} | {:.0} | {:.1?} | {:.4} | {:.0} | {:.0} |",
        count / built.as_secs_f64(),
        median(times),
        recall(exact, &found),
        memory / count,
        bytes as f64 / count
    );
}

fn build(quantization: Quantization, stored: &[Embedding]) -> (Index, Duration) {
    let parameters = IndexParameters::new(DIMENSION, Metric::Cosine, quantization);
    let index = Index::create(&parameters).expect("an index");
    let started = Instant::now();
    on_all_cores(stored.len(), |number| index.add(PassageId(number as u64), &stored[number]).expect("added"));
    (index, started.elapsed())
}

fn on_all_cores(count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    work(number);
                }
            });
        }
    });
}
