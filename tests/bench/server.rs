//! The real program as a child process of a benchmark.

#![allow(dead_code, reason = "each benchmark uses its part")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The quantization of the collections under test: `QUANTIZATION`, or `i8`.
pub fn quantization() -> String {
    std::env::var("QUANTIZATION").unwrap_or_else(|_| "i8".to_owned())
}

/// Which cores the program may use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// One core, if `taskset` exists.
    One,
    /// All cores.
    All,
}

/// The running program; killed on drop.
pub struct Server {
    child: Child,
    address: String,
}

impl Server {
    pub fn start(model: &Path, data: &Path, cores: Cores) -> Self {
        Self::start_on(model, data, cores, None)
    }

    /// Like `start`, with the store at the database URL `store`.
    pub fn start_on(model: &Path, data: &Path, cores: Cores, store: Option<&str>) -> Self {
        let program = env!("CARGO_BIN_EXE_dragoman");
        let one = cores == Cores::One;
        let pinned = one && Command::new("taskset").arg("--version").stdout(Stdio::null()).status().is_ok();
        let mut command = if pinned { Command::new("taskset") } else { Command::new(program) };
        if pinned {
            command.args(["--cpu-list", "0", program]);
        }
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--threads", if one { "1" } else { "0" }]);
        if let Some(store) = store {
            command.env("DRAGOMAN_STORE", store);
        }
        command.arg("--model").arg(model).arg("--data").arg(data).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("its log is read")).lines();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line).ok()?;
            (line["message"] == "listening").then(|| line["address"].as_str().map(str::to_owned))?
        });
        // Keeps reading the log, so that the program never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.expect("the program says where it listens") }
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn resident_mb(&self) -> u64 {
        resident_mb(self.child.id())
    }

    /// The CPU time of its threads, which other programs on the machine disturb less than elapsed time.
    pub fn computed(&self) -> Duration {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let statistics = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok());
        let nanoseconds = statistics.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok());
        Duration::from_nanos(nanoseconds.sum())
    }

    /// The CPU time of the process so far, with that of threads that have ended, in hundredths of a second.
    fn ticks(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // The name of the program, in parentheses, may contain spaces.
        let fields: Vec<&str> = status.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        fields.get(11..13).into_iter().flatten().filter_map(|field| field.parse::<u64>().ok()).sum()
    }

    /// Waits until it is nearly idle, for two minutes at most, so that start-up work is not measured.
    pub fn rest(&self) {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(120) {
            let before = self.ticks();
            std::thread::sleep(Duration::from_secs(1));
            if self.ticks() <= before + 1 {
                return;
            }
        }
    }
}

/// Resident memory of a process.
pub fn resident_mb(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or(0) / 1024
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
