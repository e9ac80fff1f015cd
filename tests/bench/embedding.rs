//! How fast the shipped bundle embeds, and what the queue costs: the latency of one query, the bare ONNX session in batches,
//! and the same texts as concurrent requests. Ratios compare numbers measured side by side in this run.
//!
//! `DRAGOMAN_MODEL` names another bundle, `DRAGOMAN_THREADS` the threads of a forward pass (0: one per core).

mod measure;
mod session;
mod texts;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use dragoman::bundle::{Bundle, TOKENIZER};
use dragoman::embed::{Embedder, Priority};
use dragoman::text::{Tokenizer, Tokens};
use measure::{median, median_rate};

const QUERY_TOKENS: usize = 20;
const QUERIES: usize = 256;
const IN_FLIGHT: usize = 32;
const ROUNDS: usize = 7;

fn main() {
    let folder = std::env::var_os("DRAGOMAN_MODEL").map_or_else(|| PathBuf::from("models/ems-small"), PathBuf::from);
    if !folder.join("manifest.json").is_file() {
        println!("nothing measured: there is no bundle in {}", folder.display());
        return;
    }
    let bundle = Bundle::open(&folder).expect("the bundle opens");
    let threads = std::env::var("DRAGOMAN_THREADS").map_or(0, |text| text.parse().expect("DRAGOMAN_THREADS is a number"));
    let tokenizer = Tokenizer::load(&bundle.path(TOKENIZER)).expect("the tokenizer loads");
    let texts = texts::texts(&tokenizer, QUERY_TOKENS, QUERIES);
    let tokens: Vec<Tokens> = texts.iter().map(|text| tokenizer.encode(text, QUERY_TOKENS).expect("a text has tokens")).collect();
    let mean = tokens.iter().map(|text| text.ids.len()).sum::<usize>() as f64 / tokens.len() as f64;
    println!("{} {}, queries of {mean:.1} tokens", bundle.manifest.name, bundle.manifest.version);

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        latency(&bundle, &texts).await;
        throughput(&bundle, threads, &texts, &tokens).await;
    });
}

fn start(bundle: &Bundle, threads: usize) -> Embedder {
    Embedder::start(bundle, &session::options(threads)).expect("the embedder starts")
}

/// One query at a time, with one thread per forward pass: what the queue adds to the bare session.
async fn latency(bundle: &Bundle, texts: &[String]) {
    let embedder = start(bundle, 1);
    let mut times = Vec::new();
    for turn in 0..4 * texts.len() {
        let text = texts[turn % texts.len()].clone();
        let started = Instant::now();
        embedder.embed(vec![text], Priority::Query).await.expect("a query is embedded");
        times.push(started.elapsed());
    }
    let through_queue = median(times);
    let tokenizer = Tokenizer::load(&bundle.path(TOKENIZER)).expect("the tokenizer loads");
    let (mut tokenizing, mut running) = (Vec::new(), Vec::new());
    let mut bare_session = session::bare(bundle, 1);
    for turn in 0..4 * texts.len() {
        let started = Instant::now();
        let tokens = tokenizer.encode(&texts[turn % texts.len()], QUERY_TOKENS).expect("a text has tokens");
        tokenizing.push(started.elapsed());
        let started = Instant::now();
        session::run(&mut bare_session, &[tokens]);
        running.push(started.elapsed());
    }
    println!(
        "one query on one thread: median {through_queue:.2?} (tokenizing {:.2?}, bare session {:.2?})",
        median(tokenizing),
        median(running)
    );
}

/// The bare session in batches against equally many concurrent requests, alternating.
async fn throughput(bundle: &Bundle, threads: usize, texts: &[String], tokens: &[Tokens]) {
    let embedder = start(bundle, threads);
    let mut bare_session = session::bare(bundle, threads);
    let texts: Arc<[String]> = texts.into();
    let (mut bare, mut queued) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for batch in tokens.chunks(IN_FLIGHT) {
            session::run(&mut bare_session, batch);
        }
        bare.push(tokens.len() as f64 / started.elapsed().as_secs_f64());
        let (embedder, texts) = (embedder.clone(), Arc::clone(&texts));
        let request = move |number: usize| {
            let (embedder, text) = (embedder.clone(), texts[number % texts.len()].clone());
            async move {
                embedder.embed(vec![text], Priority::Query).await.expect("a query is embedded");
            }
        };
        queued.push(closed_loop(IN_FLIGHT, tokens.len(), request).await);
    }
    let (bare, queued) = (median_rate(bare), median_rate(queued));
    println!("bare session in batches of {IN_FLIGHT}: {bare:.0} texts/s");
    println!("{IN_FLIGHT} requests in flight: {queued:.0} texts/s, {:.0}% of the bare session", 100.0 * queued / bare);
}

/// Keeps `in_flight` requests running until `total` are answered; returns requests per second. `request` gets the request's
/// number.
async fn closed_loop<F, Response>(in_flight: usize, total: usize, request: F) -> f64
where
    F: Fn(usize) -> Response + Send + Sync + 'static,
    Response: Future<Output = ()> + Send,
{
    let (request, next) = (Arc::new(request), Arc::new(AtomicUsize::new(0)));
    let start = Instant::now();
    let callers: Vec<_> = (0..in_flight)
        .map(|_| {
            let (request, next) = (Arc::clone(&request), Arc::clone(&next));
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total {
                        break;
                    }
                    request(number).await;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("a request panicked");
    }
    total as f64 / start.elapsed().as_secs_f64()
}
