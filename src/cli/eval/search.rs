//! `dragoman eval search`: stores documents in a collection of its own, searches it in each mode, and judges the hits by what is
//! known to be relevant.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use super::scratch::Scratch;
use super::{DataArgs, Measured, failed};
use crate::cli::client::Call;
use crate::cli::error::CliError;
use crate::cli::output::Unit;
use crate::evaluation::relevance::{DEPTH, Item, Relevance, RelevanceScore, judge, read};

/// Documents of one request.
const BATCH_DOCUMENTS: usize = 200;
/// Searches of one request.
const BATCH_SEARCHES: usize = 50;

/// Relevance of search.
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Which files, and where the numbers go.
    #[command(flatten)]
    pub data: DataArgs,
    /// How documents are found, each measured by itself.
    #[arg(long, value_enum, value_name = "MODE,…", value_delimiter = ',', default_value = "dense,lexical,hybrid")]
    pub mode: Vec<Mode>,
    /// In which documents each query is asked, each measured by itself: those of all languages, of its own, of the others. Queries
    /// without a relevant document there are left out.
    #[arg(long, value_enum, value_name = "SCOPE,…", value_delimiter = ',', default_value = "all,same,other")]
    pub languages: Vec<Scope>,
    /// Lets languages take turns.
    #[arg(long)]
    pub balance_languages: bool,
    /// Compares with all embeddings instead of asking the index.
    #[arg(long)]
    pub exact: bool,
}

/// How documents are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// By meaning.
    Dense,
    /// By shared words.
    Lexical,
    /// By both.
    Hybrid,
}

/// Documents that a query is asked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All documents.
    All,
    /// Documents in the query's language.
    Same,
    /// Documents in other languages.
    Other,
}

/// All that was measured.
#[derive(Debug, Serialize)]
struct SearchReport {
    documents: usize,
    balance_languages: bool,
    results: Vec<ModeScore>,
}

#[derive(Debug, Serialize)]
struct ModeScore {
    scope: Scope,
    mode: Mode,
    all: RelevanceScore,
    /// By language of the query.
    languages: BTreeMap<&'static str, RelevanceScore>,
}

/// A query and what is relevant to it in the documents that it is asked in.
struct Asked<'a> {
    query: &'a Item,
    gains: HashMap<String, f64>,
}

/// Searches of one collection.
struct Searches<'a> {
    measured: &'a Measured,
    collection: &'a str,
    args: &'a SearchArgs,
    /// The languages of its documents.
    languages: BTreeSet<&'static str>,
}

/// Measures and tells.
pub fn run(measured: &Measured, args: SearchArgs) -> Result<(), CliError> {
    let set = read(&args.data.data).map_err(failed)?;
    let collection = Scratch::collection(&measured.client, &measured.output)?;
    store(measured, &collection.name, &set.documents)?;
    let languages = set.documents.iter().map(|item| item.language.code()).collect();
    let searches = Searches { measured, collection: &collection.name, args: &args, languages };
    let mut results = Vec::new();
    for scope in &args.languages {
        let asked = asked(&set, *scope);
        for mode in &args.mode {
            let scores = searches.judge(*scope, *mode, &asked)?;
            let by_language = asked.iter().map(|asked| asked.query.language.code()).zip(scores.iter().copied());
            let languages = RelevanceScore::by(by_language);
            results.push(ModeScore { scope: *scope, mode: *mode, all: RelevanceScore::mean(&scores), languages });
        }
    }
    drop(collection);
    let report = SearchReport { documents: set.documents.len(), balance_languages: args.balance_languages, results };
    measured.tell(&args.data, &report)
}

fn store(measured: &Measured, collection: &str, documents: &[Item]) -> Result<(), CliError> {
    let Measured { client, output } = measured;
    let bar = output.progress(Some(documents.len() as u64), Unit::Items("documents"));
    for batch in documents.chunks(BATCH_DOCUMENTS) {
        let document = |item: &Item| json!({ "id": item.id, "language": item.language.code(), "text": item.text });
        let body = json!({ "documents": batch.iter().map(document).collect::<Vec<_>>() });
        let call = Call::post(&["v1", "collections", collection, "documents"]).repeatable();
        let answer = client.send(&call.json(&body))?;
        if answer.status != 200 {
            let first = answer.body["results"].as_array().into_iter().flatten().find(|result| result["error"].is_object());
            let detail = first.map_or(Value::Null, |result| json!({ "id": result["id"], "error": result["error"]["detail"] }));
            return Err(CliError::Input(format!("a document is refused: {detail}")));
        }
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

/// The queries that have a relevant document in their scope.
fn asked(set: &Relevance, scope: Scope) -> Vec<Asked<'_>> {
    let languages: HashMap<&str, _> = set.documents.iter().map(|item| (item.id.as_str(), item.language)).collect();
    let mut asked = Vec::new();
    for query in &set.queries {
        let within = |id: &str| match scope {
            Scope::All => true,
            Scope::Same => languages.get(id) == Some(&query.language),
            Scope::Other => languages.get(id) != Some(&query.language),
        };
        let gains = set.gains.get(&query.id).into_iter().flatten().filter(|(id, _)| within(id));
        let gains: HashMap<String, f64> = gains.map(|(id, gain)| (id.clone(), *gain)).collect();
        if !gains.is_empty() {
            asked.push(Asked { query, gains });
        }
    }
    asked
}

impl Searches<'_> {
    /// The score of each query.
    fn judge(&self, scope: Scope, mode: Mode, asked: &[Asked<'_>]) -> Result<Vec<RelevanceScore>, CliError> {
        let client = &self.measured.client;
        let mut scores = Vec::with_capacity(asked.len());
        for batch in asked.chunks(BATCH_SEARCHES) {
            let requests: Vec<Value> = batch.iter().map(|asked| self.request(scope, mode, asked.query)).collect();
            let call = Call::post(&["v1", "collections", self.collection, "search", "batch"]).repeatable();
            let answer = client.send(&call.json(&json!({ "searches": requests })))?.body;
            let results = answer["results"].as_array().filter(|results| results.len() == batch.len());
            let results = results.ok_or_else(|| client.misunderstood("it has not one result per search".to_owned()))?;
            for (asked, result) in batch.iter().zip(results) {
                let hits = result["hits"].as_array().into_iter().flatten();
                scores.push(judge(hits.filter_map(|hit| hit["id"].as_str()), &asked.gains));
            }
        }
        Ok(scores)
    }

    fn request(&self, scope: Scope, mode: Mode, query: &Item) -> Value {
        let own = query.language.code();
        let languages: Vec<&str> = match scope {
            Scope::All => Vec::new(),
            Scope::Same => vec![own],
            Scope::Other => self.languages.iter().copied().filter(|code| *code != own).collect(),
        };
        let mut search = json!({ "query": query.text, "mode": mode, "languages": languages, "limit": DEPTH, "include": [] });
        if self.args.balance_languages {
            search["balance_languages"] = json!(true);
        }
        if self.args.exact && mode != Mode::Lexical {
            search["exact"] = json!(true);
        }
        search
    }
}

impl fmt::Display for SearchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let turns = if self.balance_languages { ", languages in turns" } else { "" };
        writeln!(f, "Search of {} documents{turns}, in percent:\n", self.documents)?;
        writeln!(f, "| documents | mode    | queries | nDCG@10 | recall@10 | MRR@10 |")?;
        writeln!(f, "|-----------|---------|--------:|--------:|----------:|-------:|")?;
        for ModeScore { scope, mode, all, .. } in &self.results {
            let scope = match scope {
                Scope::All => "all",
                Scope::Same => "own lang.",
                Scope::Other => "others",
            };
            let mode = match mode {
                Mode::Dense => "dense",
                Mode::Lexical => "lexical",
                Mode::Hybrid => "hybrid",
            };
            let (ndcg, recall, mrr) = (all.ndcg_at_10, all.recall_at_10, all.mrr_at_10);
            writeln!(f, "| {scope:9} | {mode:7} | {:>7} | {ndcg:>7.1} | {recall:>9.1} | {mrr:>6.1} |", all.queries)?;
        }
        Ok(())
    }
}
