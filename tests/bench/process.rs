//! Operating system statistics of a process and of a folder.

#![allow(dead_code, reason = "each benchmark uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// Resident bytes of a process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// Private memory: what it allocated and touched.
    pub anonymous: u64,
    /// File pages, which the system may reclaim: the program itself, libraries, a memory-mapped index.
    pub file: u64,
}

/// Resident memory of a process.
pub fn memory(process: u32) -> Memory {
    let status = status(process);
    let bytes = |name| number(&status, name) << 10;
    Memory { anonymous: bytes("RssAnon:"), file: bytes("RssFile:") }
}

/// Threads of a process.
pub fn threads(process: u32) -> u64 {
    number(&status(process), "Threads:")
}

/// Open file descriptors of a process.
pub fn descriptors(process: u32) -> u64 {
    std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, |entries| entries.count() as u64)
}

/// Bytes of the files below a folder whose names `counts` accepts. Files that vanish in the meantime are skipped.
pub fn folder_bytes(folder: &Path, counts: &dyn Fn(&str) -> bool) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let bytes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path(), counts),
        Ok(metadata) if counts(&entry.file_name().to_string_lossy()) => metadata.len(),
        _ => 0,
    });
    bytes.sum()
}

/// CPU time of a process's children and of their descendants.
pub fn computed_by_children(process: u32) -> Duration {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes: Vec<u32> = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let parents: BTreeMap<u32, u64> = processes.into_iter().map(|one| (one, number(&status(one), "PPid:"))).collect();
    let (mut family, mut found) = (BTreeSet::from([u64::from(process)]), 0);
    while family.len() > found {
        found = family.len();
        family.extend(
            parents.iter().filter(|(_, parent)| family.contains(parent)).map(|(one, _)| u64::from(*one)).collect::<Vec<_>>(),
        );
    }
    let computed = |one: &u64| {
        let statistics = std::fs::read_to_string(format!("/proc/{one}/schedstat")).ok()?;
        statistics.split(' ').next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(family.iter().filter_map(computed).sum())
}

fn status(process: u32) -> String {
    std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default()
}

fn number(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}
