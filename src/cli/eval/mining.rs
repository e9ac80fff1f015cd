//! `dragoman eval mining`: mines pairs locally from the server's embeddings, and optionally on the server.

use std::io::{BufRead as _, BufReader};

use clap::Args;
use serde_json::{Value, json};

use super::data::{DataArgs, no_data, to_cli_error};
use super::encoder::ServerEncoder;
use crate::cli::client::{Call, Client};
use crate::cli::error::CliError;
use crate::cli::jobs;
use crate::cli::output::format_cell;
use crate::evaluation::mining::{Candidate, ExactMiner, MAX_SCORE, Miner, Proposals, measure};
use crate::evaluation::{EvaluationError, Report};

#[derive(Debug, Args)]
pub struct MiningArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Also mines on the server, with POST /v1/mine and the strategy max_score; reported as `server`.
    #[arg(long)]
    pub api: bool,
}

pub fn run(client: &Client, args: MiningArgs) -> Result<(), CliError> {
    let mut encoder = ServerEncoder::new(client, &args.data);
    let mut miner = LocalAndServerMiner { client, encoder: &mut encoder, api: args.api };
    let mining = measure(&args.data.data, &mut miner).map_err(to_cli_error)?;
    if mining.is_none() {
        return Err(no_data(&args.data.data));
    }
    drop(encoder);
    args.data.write_report(client, &Report { mining, ..Report::default() })
}

/// Mines locally, and on the server if requested.
struct LocalAndServerMiner<'a, 'b> {
    client: &'a Client,
    encoder: &'a mut ServerEncoder<'b>,
    api: bool,
}

impl Miner for LocalAndServerMiner<'_, '_> {
    fn mine(&mut self, first: &[String], second: &[String]) -> Result<Proposals, EvaluationError> {
        let mut proposals = ExactMiner(self.encoder).mine(first, second)?;
        if self.api {
            let pairs = mine_on_server(self.client, first, second).map_err(EvaluationError::measured)?;
            proposals.insert("server".to_owned(), pairs);
            // Only max-score can be compared with the server's pairs.
            proposals.retain(|name, _| name == MAX_SCORE || name == "server");
        }
        Ok(proposals)
    }
}

/// Returns all pairs that the server proposes, as sentence indexes, in descending order of score.
fn mine_on_server(client: &Client, first: &[String], second: &[String]) -> Result<Vec<Candidate>, CliError> {
    let body = json!({
        "first": { "texts": first }, "second": { "texts": second }, "neighbors": 4, "margin": "ratio", "strategy": "max_score",
        "deduplicate": false, "skip_identical": false,
    });
    let job = client.send(&Call::post(&["mine"]).json(body))?;
    let job = jobs::watch(client, job)?;
    if job["status"] != "succeeded" {
        return Err(CliError::Failed(format!(
            "mining {}: {}",
            format_cell(&job["status"]),
            format_cell(&job["error"]["detail"])
        )));
    }
    let content = client.open(&Call::get(&["jobs", &format_cell(&job["id"]), "pairs"]))?.content;
    let mut pairs = Vec::new();
    for line in BufReader::new(content).lines() {
        let line = line.map_err(CliError::io("read the pairs to their end"))?;
        let pair = candidate(&line).ok_or_else(|| client.unexpected_response(format!("it has no pair of numbers: {line}")))?;
        pairs.push(pair);
    }
    pairs.sort_by(|a, b| b.score.total_cmp(&a.score));
    Ok(pairs)
}

fn candidate(line: &str) -> Option<Candidate> {
    let pair: Value = serde_json::from_str(line).ok()?;
    let number = |corpus: &str| pair[corpus]["id"].as_str()?.parse().ok();
    Some(Candidate { first: number("first")?, second: number("second")?, score: pair["score"].as_f64()? as f32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mined_pairs_are_parsed_when_their_ids_are_numbers() {
        let line = r#"{"score": 1.25, "first": {"id": "7", "text": "Es regnet."}, "second": {"id": "0", "text": "Il pleut."}}"#;
        assert_eq!(candidate(line), Some(Candidate { first: 7, second: 0, score: 1.25 }));
        assert_eq!(candidate(r#"{"score": 1, "first": {"id": "de-1"}, "second": {"id": "0"}}"#), None);
        assert_eq!(candidate("pairs"), None);
    }
}
