//! The report of `dragoman eval search`: one row per scope and configuration, with its difference from the first configuration.

use std::collections::BTreeMap;
use std::fmt;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::cli::output::plural;
use crate::evaluation::relevance::{Item, MeanScores, Scores};
use crate::evaluation::significance::{Difference, paired_bootstrap};

/// Minimum number of queries for a significance test, because the bootstrap needs that many.
const QUERIES_MIN: usize = 10;
const NAME_COLUMNS_MIN: usize = 13;

/// The documents that a query searches.
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

#[derive(Debug, Serialize)]
pub struct SearchReport {
    /// The searched collection; omitted if it was temporary, or if nothing was searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// Number of searched documents; omitted if only runs were evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<u64>,
    /// Number of queries in the files.
    pub queries: usize,
    /// Number of queries without a relevant document, which are skipped.
    pub queries_unjudged: usize,
    pub bootstrap: Bootstrap,
    /// One row per scope and configuration.
    pub results: Vec<Row>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Bootstrap {
    pub resamples: usize,
    pub seed: u64,
}

/// One configuration in one scope.
#[derive(Debug, Serialize)]
pub struct Row {
    pub scope: Scope,
    pub configuration: String,
    /// The members that it adds to the request; omitted if its hits come from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Map<String, Value>>,
    /// The means over all queries.
    pub all: MeanScores,
    /// The difference of each mean from the first configuration; omitted for the first one and if there are too few queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differences: Option<BTreeMap<&'static str, Difference>>,
    /// The means by query language, where known.
    pub languages: BTreeMap<&'static str, MeanScores>,
    pub by_query: Vec<QueryScores>,
}

#[derive(Debug, Clone, Serialize)]
pub struct QueryScores {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<&'static str>,
    #[serde(flatten)]
    pub scores: Scores,
}

impl QueryScores {
    pub fn new(query: &Item, scores: Scores) -> Self {
        Self { id: query.id.clone(), language: query.language.map(|language| language.code()), scores }
    }
}

impl Row {
    /// Creates the row of a configuration, compared with the first row of the same scope.
    pub fn new(
        scope: Scope,
        configuration: &str,
        by_query: Vec<QueryScores>,
        first: Option<&Self>,
        bootstrap: Bootstrap,
    ) -> Self {
        let scores: Vec<Scores> = by_query.iter().map(|query| query.scores).collect();
        let with_language = by_query.iter().filter_map(|query| query.language.map(|language| (language, query.scores)));
        Self {
            scope,
            configuration: configuration.to_owned(),
            request: None,
            all: MeanScores::of(&scores),
            differences: first
                .filter(|_| scores.len() >= QUERIES_MIN)
                .map(|first| differences(&first.by_query, &by_query, bootstrap)),
            languages: MeanScores::by_group(with_language),
            by_query,
        }
    }
}

fn differences(first: &[QueryScores], second: &[QueryScores], bootstrap: Bootstrap) -> BTreeMap<&'static str, Difference> {
    let Bootstrap { resamples, seed } = bootstrap;
    let measures = Scores::default().by_metric();
    let values =
        |of: &[QueryScores], index: usize| of.iter().map(|query| query.scores.by_metric()[index].1).collect::<Vec<f64>>();
    let difference = |index: usize| paired_bootstrap(&values(first, index), &values(second, index), resamples, seed);
    measures.iter().enumerate().map(|(index, (name, _))| (*name, difference(index))).collect()
}

impl Scope {
    fn label(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Same => "own lang.",
            Self::Other => "others",
        }
    }
}

/// Formats the difference of nDCG@10, its interval and its p-value as cells.
fn difference_cells(row: &Row) -> [String; 3] {
    let Some(Difference { difference, low, high, p }) = row.differences.as_ref().and_then(|all| all.get("ndcg_at_10")) else {
        return ["", "", ""].map(str::to_owned);
    };
    let p = if *p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") };
    [format!("{difference:+.1}"), format!("{low:+.1} to {high:+.1}"), p]
}

impl fmt::Display for SearchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.collection.as_ref().map_or_else(String::new, |name| format!(" in {name}"));
        let searched = self.documents.map_or_else(String::new, |documents| format!(" of {}{of}", plural(documents, "document")));
        writeln!(f, "Search{searched}, in percent:\n")?;
        let names = self.results.iter().map(|row| row.configuration.chars().count());
        let width = names.max().unwrap_or_default().max(NAME_COLUMNS_MIN);
        writeln!(
            f,
            "| documents | {:width$} | queries | nDCG@10 | recall@10 | recall@100 | MRR@10 | success@1 | Δ nDCG@10 | 95% interval     |      p |",
            "configuration"
        )?;
        writeln!(
            f,
            "|-----------|-{:-<width$}-|--------:|--------:|----------:|-----------:|-------:|----------:|----------:|-----------------:|-------:|",
            ""
        )?;
        for row in &self.results {
            let (scope, name, MeanScores { queries, scores }) = (row.scope.label(), &row.configuration, row.all);
            let [(_, ndcg), (_, recall), (_, deep), (_, mrr), (_, success)] = scores.by_metric();
            let [difference, interval, p] = difference_cells(row);
            write!(f, "| {scope:9} | {name:width$} | {queries:>7} | {ndcg:>7.1} | {recall:>9.1} | {deep:>10.1} | {mrr:>6.1} ")?;
            writeln!(f, "| {success:>9.1} | {difference:>9} | {interval:>16} | {p:>6} |")?;
        }
        writeln!(f)?;
        if let Some(first) = self.results.first().filter(|_| self.results.iter().any(|row| row.differences.is_some())) {
            let Bootstrap { resamples, .. } = self.bootstrap;
            writeln!(
                f,
                "- Δ nDCG@10: difference from {}; paired bootstrap over the queries, {resamples} resamples",
                first.configuration
            )?;
        }
        if self.queries_unjudged > 0 {
            let (left_out, all) = (self.queries_unjudged, self.queries);
            writeln!(f, "- queries without a relevant document, which are left out: {left_out} of {all}")?;
        }
        Ok(())
    }
}
