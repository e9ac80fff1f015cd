//! An estimate of what ten billion passages would need on a sharded PostgreSQL, extrapolated from measurements on a small one.
//!
//! Assumed, not measured: the work of a graph search grows with the logarithm of the number of passages; every query goes to
//! each shard; the graph stays in memory, because otherwise every step of a search waits for a disk.

/// The measurements.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Passages in the database.
    pub passages: usize,
    /// Bytes per passage in the embedding index.
    pub graph_bytes: f64,
    /// Bytes per passage in all tables and indexes.
    pub stored_bytes: f64,
    /// CPU milliseconds of the database per dense search.
    pub database_ms: f64,
    /// CPU milliseconds of the server per dense search.
    pub server_ms: f64,
    /// Bytes per passage in a server's memory, for the default search.
    pub server_bytes: f64,
}

const PASSAGES: f64 = 1e10;
/// Bytes of memory per machine.
const MEMORY: f64 = 512e9;
/// The share of it that is available for the graph.
const FOR_GRAPH: f64 = 0.7;
const CORES: f64 = 64.0;
/// Machines per shard: one that takes writes, and replicas.
const COPIES: f64 = 3.0;
/// Average CPU utilization at which answers need not wait.
const BUSY: f64 = 0.5;

/// Prints it.
pub fn print(measured: &Measured) {
    let Measured { passages, graph_bytes, stored_bytes, database_ms, server_ms, server_bytes } = *measured;
    let shards = (PASSAGES * graph_bytes / (MEMORY * FOR_GRAPH)).ceil();
    let each = PASSAGES / shards;
    let grown = each.ln() / (passages as f64).ln();
    let shard_ms = database_ms * grown;
    let question_ms = shards * shard_ms + server_ms;
    let rate = COPIES * CORES * BUSY / (shard_ms / 1e3);
    println!("| ten billion passages, extrapolated | | derived from |\n|---|---:|---|");
    let row = |name: &str, value: String, from: String| println!("| {name} | {value} | {from} |");
    row(
        "the graph, in memory",
        format!("{:.1} TB", PASSAGES * graph_bytes / 1e12),
        format!("{graph_bytes:.0} bytes of a passage"),
    );
    row("on disk", format!("{:.1} TB", PASSAGES * stored_bytes / 1e12), format!("{stored_bytes:.0} bytes of a passage"));
    row("shards", format!("{shards:.0}"), format!("{:.0} GB of memory each, {FOR_GRAPH} of it for the graph", MEMORY / 1e9));
    row("passages of a shard", format!("{:.0} million", each / 1e6), String::new());
    row("database machines", format!("{:.0}", shards * COPIES), format!("{COPIES:.0} copies of each shard"));
    let from = format!("{database_ms:.2} ms among {passages}, times {grown:.2} (logarithm)");
    row("computing of one shard for a dense question", format!("{shard_ms:.2} ms"), from);
    let from = format!("all shards, and {server_ms:.2} ms of a server");
    row("computing for a dense question in all", format!("{question_ms:.0} ms"), from);
    row("dense questions/s", format!("{rate:.0}"), format!("{CORES:.0} cores a machine, {BUSY} of them busy"));
    let servers = (rate * server_ms / 1e3 / (CORES * BUSY)).ceil();
    row("servers for them", format!("{servers:.0}"), String::new());
    let from = format!("{server_bytes:.0} bytes of a passage in the memory of each server");
    row("memory of a server for the default search", format!("{:.1} TB", PASSAGES * server_bytes / 1e12), from);
    println!(
        "\nSo at that size a search must say `dense`, `lexical` or `hybrid`, or the passages must be spread over collections that are \
         searched by servers of their own: the default search keeps the tokens of a whole collection in memory."
    );
}
