//! The speed of a graph on one CPU core. Tokenization is left out, because it takes little time compared with a forward pass.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::encoder::TokenEncoder;
use super::session::OnnxEncoder;
use crate::error::Error;

/// Number of tokens of the query.
const QUERY_TOKENS: usize = 20;
/// Number of queries to take the median over.
const QUERIES: usize = 200;
/// How often all texts are embedded; the median time counts.
const ROUNDS: usize = 5;

/// The results. They depend on the machine and its load, so compare only numbers measured in the same run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Median milliseconds for one query of 20 tokens, alone.
    pub query_ms: f64,
    /// Texts per second, in batches of up to 4,096 tokens.
    pub texts_per_second: f64,
    /// Mean number of tokens per text.
    pub tokens_mean: f64,
}

/// Runs a graph file on one thread over `texts`, which must have at least 20 tokens in total.
pub fn measure(graph: &Path, texts: &[Vec<u32>]) -> Result<Speed, Error> {
    let mut encoder = OnnxEncoder::open(graph, 1)?;
    let tokens = texts.concat();
    let queries: Vec<Vec<u32>> = tokens.chunks_exact(QUERY_TOKENS).map(<[u32]>::to_vec).collect();
    if queries.is_empty() {
        let problem = format!("expected texts of at least {QUERY_TOKENS} tokens together, got {}", tokens.len());
        return Err(Error::Setting { setting: "evaluation", problem });
    }
    // The first passes allocate memory.
    encoder.embed(texts)?;
    encoder.embed(&queries[..1])?;
    let mut query_times = Vec::new();
    for query in queries.iter().cycle().take(QUERIES) {
        query_times.push(timed(|| encoder.embed(std::slice::from_ref(query)))?);
    }
    let mut round_times = Vec::new();
    for _ in 0..ROUNDS {
        round_times.push(timed(|| encoder.embed(texts))?);
    }
    Ok(Speed {
        query_ms: median(query_times).as_secs_f64() * 1e3,
        texts_per_second: texts.len() as f64 / median(round_times).as_secs_f64(),
        tokens_mean: tokens.len() as f64 / texts.len() as f64,
    })
}

fn timed<T>(run: impl FnOnce() -> Result<T, Error>) -> Result<Duration, Error> {
    let begun = Instant::now();
    run()?;
    Ok(begun.elapsed())
}

/// The median; for an even number of values, the later of the middle two.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_upper_middle_value() {
        assert_eq!(median([9, 1, 5].map(Duration::from_millis).to_vec()), Duration::from_millis(5));
        assert_eq!(median([4, 3, 2, 1].map(Duration::from_millis).to_vec()), Duration::from_millis(3));
    }
}
