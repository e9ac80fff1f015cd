//! Whether a server grows: the real program with the shipped model under a steady mixed load on a bounded set of documents; its
//! memory, threads, open files and data directory over time.
//!
//! A quarter of the time is warm-up. Then the load pauses, runs for the other three quarters, and pauses again. A line through
//! the measurements under load gives the growth per hour; the two pauses show what remains when the server is idle.
//!
//! `DRAGOMAN_BENCH_SECONDS` sets the time (120), `DRAGOMAN_BENCH_RATE` the requests per second (30), `DRAGOMAN_MODEL` the
//! bundle, `DRAGOMAN_BENCH_PROGRAM` another build of the program, `DRAGOMAN_BENCH_SAMPLES` a file for all measurements.

#![expect(clippy::unwrap_used, reason = "a measurement fails by panicking")]

mod chores;
mod clusters;
mod load;
mod process;
#[path = "../support/program.rs"]
mod program;
mod trend;

use std::path::Path;
use std::time::{Duration, Instant};

use load::Load;
use program::Program;
use trend::{Growth, median};

const SECONDS: u64 = 120;
const RATE: f64 = 30.0;
/// Threads that send requests.
const SENDERS: u64 = 4;
/// How long the load pauses.
const REST: Duration = Duration::from_secs(15);
/// The last part of a pause, whose measurements count.
const REST_COUNTED: f64 = 5.0;
/// Growth per hour below this fraction is negligible.
const NEGLIGIBLE: f64 = 0.01;
/// Data that is kept up to a limit gets a low limit, so that a short run reaches it.
const SETTINGS: [&str; 4] = ["--jobs-kept-max", "20", "--index-save-changes", "1000"];

/// The measured values, and their units.
const VALUES: [(&str, &str); 6] = [
    ("private memory", "MB"),
    ("mapped files, resident", "MB"),
    ("threads", ""),
    ("open files", ""),
    ("data directory", "MB"),
    ("of it write-ahead logs", "MB"),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    WarmUp,
    IdleBefore,
    Load,
    IdleAfter,
}

struct Sample {
    phase: Phase,
    at_s: f64,
    values: [f64; VALUES.len()],
}

struct Watched<'p> {
    process: u32,
    data: &'p Path,
    started: Instant,
    period: Duration,
    samples: Vec<Sample>,
}

fn main() {
    let seconds = setting("DRAGOMAN_BENCH_SECONDS", SECONDS);
    let rate = setting("DRAGOMAN_BENCH_RATE", RATE);
    let model = std::env::var("DRAGOMAN_MODEL").unwrap_or_else(|_| "models/ems-small".to_owned());
    let folder = tempfile::tempdir().unwrap();
    let mut command = program::command(folder.path(), &model);
    if let Some(other) = std::env::var_os("DRAGOMAN_BENCH_PROGRAM") {
        command = program::command_of(Path::new(&other), folder.path(), &model);
    }
    command.args(SETTINGS);
    let server = Program::run(command);
    let client = server.client();
    let load = Load::new(client.url());
    let started = Instant::now();
    load.prepare();
    println!("{} documents with texts and {} with vectors stored in {:.1?}", load::TEXTS, load::VECTORS, started.elapsed());

    let total = Duration::from_secs(seconds);
    let period = (total / 300).clamp(Duration::from_millis(500), Duration::from_secs(5));
    let mut watched = Watched { process: server.id(), data: folder.path(), started: Instant::now(), period, samples: Vec::new() };
    std::thread::scope(|scope| {
        let sender_period = Duration::from_secs_f64(SENDERS as f64 / rate);
        for seed in 0..SENDERS {
            let load = &load;
            scope.spawn(move || load.run(seed, sender_period));
        }
        scope.spawn(|| chores::run(&load, client.url()));
        scope.spawn(|| chores::drop_connections(&load, client.address()));
        watched.sample(Phase::WarmUp, total / 4);
        load.pause(true);
        watched.sample(Phase::IdleBefore, REST);
        load.pause(false);
        watched.sample(Phase::Load, total * 3 / 4);
        load.pause(true);
        watched.sample(Phase::IdleAfter, REST);
        load.stop();
    });
    let samples = watched.samples;
    if let Some(path) = std::env::var_os("DRAGOMAN_BENCH_SAMPLES") {
        write_samples(Path::new(&path), &samples);
    }
    report(&samples, seconds);
    assert!(server.terminate_within(REST * 20).success());
    report_requests(&load, seconds);
}

fn setting<T: std::str::FromStr>(variable: &str, otherwise: T) -> T {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

impl Watched<'_> {
    /// Measures every `period` for a given time.
    fn sample(&mut self, phase: Phase, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            std::thread::sleep(self.period.min(until.saturating_duration_since(Instant::now())));
            let memory = process::memory(self.process);
            assert!(memory.anonymous > 0, "the server is gone");
            let megabytes = |bytes: u64| bytes as f64 / 1e6;
            let values = [
                megabytes(memory.anonymous),
                megabytes(memory.file),
                process::threads(self.process) as f64,
                process::descriptors(self.process) as f64,
                megabytes(process::folder_bytes(self.data, &|_| true)),
                megabytes(process::folder_bytes(self.data, &|name| name.ends_with("-wal"))),
            ];
            let at_s = self.started.elapsed().as_secs_f64();
            if self.samples.len().is_multiple_of(60) {
                println!("{at_s:.0} s, {phase:?}: {:.1} MB of private memory, {:.1} MB of data", values[0], values[4]);
            }
            self.samples.push(Sample { phase, at_s, values });
        }
    }
}

/// Prints each value: first and last quarter under load, the growth per hour with its confidence interval, and the two pauses.
fn report(samples: &[Sample], seconds: u64) {
    let under_load: Vec<&Sample> = samples.iter().filter(|sample| sample.phase == Phase::Load).collect();
    let quarter = under_load.len() / 4;
    println!("\n{seconds} s, of these {} under load after the warm-up", seconds * 3 / 4);
    println!("| | first quarter | last quarter | growth per hour, 95% | idle before | idle after |");
    println!("|---|---:|---:|---:|---:|---:|");
    let mut verdicts = Vec::new();
    for (place, (name, unit)) in VALUES.iter().enumerate() {
        let of = |samples: &[&Sample]| median(samples.iter().map(|sample| sample.values[place]).collect());
        let (first, last) = (of(&under_load[..quarter]), of(&under_load[under_load.len() - quarter..]));
        let points = under_load.iter().map(|sample| (sample.at_s / 3_600.0, sample.values[place]));
        let growth = Growth::of(&points.collect::<Vec<_>>());
        let (before, after) = (of(&rest(samples, Phase::IdleBefore)), of(&rest(samples, Phase::IdleAfter)));
        println!(
            "| {name}{}{unit} | {first:.1} | {last:.1} | {:+.1} ± {:.1} | {before:.1} | {after:.1} |",
            if unit.is_empty() { "" } else { ", " },
            growth.per_hour,
            growth.bound
        );
        if growth.per_hour - growth.bound > NEGLIGIBLE * first {
            verdicts.push(format!("{name}: at least {:+.1} {unit} per hour", growth.per_hour - growth.bound));
        }
    }
    match &verdicts[..] {
        [] => println!("Nothing grows."),
        verdicts => println!("These grow:\n    {}", verdicts.join("\n    ")),
    }
}

/// The last seconds of a pause: background work from its start has finished by then.
fn rest(samples: &[Sample], phase: Phase) -> Vec<&Sample> {
    let end = samples.iter().filter(|sample| sample.phase == phase).map(|sample| sample.at_s).fold(0.0, f64::max);
    samples.iter().filter(|sample| sample.phase == phase && sample.at_s >= end - REST_COUNTED).collect()
}

fn write_samples(path: &Path, samples: &[Sample]) {
    let names: Vec<&str> = VALUES.iter().map(|(name, _)| *name).collect();
    let mut text = format!("seconds\tphase\t{}\n", names.join("\t"));
    for Sample { phase, at_s, values } in samples {
        let values: Vec<String> = values.iter().map(|value| format!("{value:.3}")).collect();
        text.push_str(&format!("{at_s:.1}\t{phase:?}\t{}\n", values.join("\t")));
    }
    std::fs::write(path, text).unwrap();
}

/// Prints how many requests got which answer; unexpected answers end the benchmark.
fn report_requests(load: &Load, seconds: u64) {
    let outcomes = load.outcomes();
    let total: u64 = outcomes.values().sum();
    println!("\n{total} requests, {:.1} a second, with these answers:", total as f64 / seconds as f64);
    let named: Vec<String> = outcomes.iter().map(|((name, status), count)| format!("{name} {status}: {count}")).collect();
    println!("    {}", named.join("; "));
    let unexpected = load.unexpected();
    assert!(
        unexpected.is_empty(),
        "{} answers are wrong:\n{}",
        unexpected.len(),
        unexpected[..unexpected.len().min(20)].join("\n")
    );
}
