//! `dragoman eval search`: runs queries in several configurations, on a temporary collection of the documents or on an existing
//! one, and evaluates the hits with relevance judgments. Runs of other programs can be compared.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};

use super::configuration::{Configuration, MODES};
use super::data::{DataArgs, to_cli_error};
use super::scratch::Scratch;
use super::search_report::{Bootstrap, QueryScores, Row, Scope, SearchReport};
use crate::cli::client::{Call, Client};
use crate::cli::error::CliError;
use crate::cli::files::{Sink, Target};
use crate::cli::output::{Unit, plural};
use crate::cli::request_body::{any_whole_number, request_members};
use crate::domain::{CollectionName, Language, TITLE_CHARS_MAX};
use crate::evaluation::judged::{self, ReadOptions};
use crate::evaluation::relevance::{DEPTH_MAX, Gains, Item, TestCollection, score_ranking};
use crate::evaluation::runs::{self, Scored};
use crate::evaluation::significance::{RESAMPLES, SEED};

const BATCH_DOCUMENTS: usize = 200;
const BATCH_SEARCHES: usize = 50;
/// Placeholder for the configuration's name in a file name.
const NAME: &str = "{name}";

#[derive(Debug, Args)]
pub struct SearchArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Search modes to evaluate: any mode of the server, or `default` to send no mode. Defaults to full,dense,lexical,hybrid if
    /// --config and --from-run are omitted too.
    #[arg(long, value_name = "MODE,…", value_delimiter = ',')]
    pub mode: Vec<String>,
    /// Additional configuration: a name and members of the search request, such as 'wide={"mode": "hybrid", "exact": true}'.
    /// Can be repeated.
    // The id `config` is reserved for the settings file: `crate::config` recognizes commands that take one by it.
    #[arg(id = "configuration", long = "config", value_name = "NAME={…}", value_parser = Configuration::parse)]
    pub config: Vec<Configuration>,
    /// Run of another program to compare, in TREC format. Can be repeated.
    #[arg(long, value_name = "NAME=FILE", value_parser = parse_named_file)]
    pub from_run: Vec<(String, PathBuf)>,
    /// Searches this existing collection instead of a temporary one with the documents in the files.
    #[arg(long, value_name = "NAME")]
    pub collection: Option<CollectionName>,
    /// Split of BEIR's judgments, `qrels/SPLIT.tsv`.
    #[arg(long, value_name = "SPLIT", default_value = "test")]
    pub split: String,
    /// Documents to search for each query, by language: all, the query's own (same), or the others. Each is evaluated
    /// separately. Skips queries that have no relevant document in the scope and, except for all, queries whose language is
    /// unknown. A scope without queries has no rows.
    #[arg(long, value_enum, value_name = "SCOPE,…", value_delimiter = ',', default_value = "all,same,other")]
    pub languages: Vec<Scope>,
    /// Searches with balance_languages, which alternates the languages of hits.
    #[arg(long)]
    pub balance_languages: bool,
    /// Compares the query with every embedding instead of using the approximate index.
    #[arg(long)]
    pub exact: bool,
    /// Number of bootstrap resamples for the significance test of differences.
    #[arg(long, value_name = "COUNT", default_value_t = RESAMPLES, value_parser = any_whole_number::<usize>)]
    pub resamples: usize,
    /// Seed of the bootstrap.
    #[arg(long, value_name = "NUMBER", default_value_t = SEED, value_parser = any_whole_number::<u64>)]
    pub seed: u64,
    /// Writes the hits among all documents as TREC runs, one file per configuration. `{name}` is replaced by the
    /// configuration's name, and is optional if there is only one. Judgments are optional then.
    #[arg(long, value_name = "FILE")]
    pub run: Option<PathBuf>,
}

struct ScopedQuery<'a> {
    query: &'a Item,
    gains: Gains,
}

struct Searches<'a> {
    client: &'a Client,
    collection: &'a str,
    languages: BTreeSet<String>,
    documents: u64,
}

pub fn run(client: &Client, args: SearchArgs) -> Result<(), CliError> {
    let configurations = configurations_of(&args)?;
    check_run(&args, &configurations)?;
    if configurations.is_empty() && args.data.model.is_some() {
        return Err(CliError::Usage("--model: expected a mode or a configuration to search with, got only runs".to_owned()));
    }
    let mut lists = Vec::new();
    for (name, path) in &args.from_run {
        lists.push((name.as_str(), runs::read(path).map_err(to_cli_error)?));
    }
    let documents = args.collection.is_none() && !configurations.is_empty();
    let reading = ReadOptions { documents, judged: args.run.is_none(), split: args.split.clone() };
    let set = judged::read(&args.data.data, &reading).map_err(to_cli_error)?;
    let bootstrap = Bootstrap { resamples: args.resamples, seed: args.seed };
    let mut report = SearchReport {
        collection: args.collection.as_ref().map(ToString::to_string),
        documents: None,
        queries: set.queries.len(),
        queries_unjudged: set.queries.iter().filter(|query| !set.gains.contains_key(&query.id)).count(),
        bootstrap,
        results: Vec::new(),
    };
    if !configurations.is_empty() {
        measure(client, &args, &set, &configurations, &mut report)?;
    }
    let queries = scoped_queries(&set, &HashMap::new(), Scope::All);
    for (name, lists) in lists {
        let ranked = |scoped: &ScopedQuery<'_>| lists.get(&scoped.query.id).into_iter().flatten().map(String::as_str);
        let by_query = queries.iter().map(|scoped| QueryScores::new(scoped.query, score_ranking(ranked(scoped), &scoped.gains)));
        add(&mut report, Scope::All, name, by_query.collect(), None);
    }
    // The sort is stable, so rows of a scope stay in the order of the configurations.
    report.results.sort_by_key(|row| row.scope);
    if set.gains.is_empty() {
        return Ok(());
    }
    args.data.write_report(client, &report)
}

/// Returns all configurations to search with, in the order of the report.
fn configurations_of(args: &SearchArgs) -> Result<Vec<Configuration>, CliError> {
    let nothing_said = args.mode.is_empty() && args.config.is_empty() && args.from_run.is_empty();
    let modes: Vec<&str> = if nothing_said { MODES.to_vec() } else { args.mode.iter().map(String::as_str).collect() };
    let mut configurations: Vec<Configuration> = modes.into_iter().map(Configuration::mode).collect();
    configurations.extend(args.config.iter().cloned());
    for Configuration { name, request, .. } in &mut configurations {
        if args.balance_languages {
            request.entry("balance_languages").or_insert(json!(true));
        }
        if args.exact && request.get("mode") != Some(&json!("lexical")) {
            let exact = *request.entry("exact").or_insert(json!(true)) == json!(true);
            if exact && request.contains_key("ef_search") {
                return Err(CliError::Usage(format!("--exact searches without ef_search, which configuration {name} sets")));
            }
        }
    }
    let mut names: Vec<&str> = configurations.iter().map(|configuration| configuration.name.as_str()).collect();
    names.extend(args.from_run.iter().map(|(name, _)| name.as_str()));
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(CliError::Usage(format!("expected each configuration to have a unique name, got {} twice", twice[0]))),
        None => Ok(configurations),
    }
}

fn parse_named_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.trim().is_empty() && !path.is_empty() => Ok((name.trim().to_owned(), PathBuf::from(path))),
        _ => Err("expected NAME=FILE".to_owned()),
    }
}

/// Checks that each configuration has its own file.
fn check_run(args: &SearchArgs, configurations: &[Configuration]) -> Result<(), CliError> {
    let Some(path) = &args.run else { return Ok(()) };
    let wrong = |what: String| Err(CliError::Usage(format!("--run: {what}")));
    if configurations.len() != 1 && !path.to_string_lossy().contains(NAME) {
        return wrong(format!("expected {NAME} in {} for {} configurations", path.display(), configurations.len()));
    }
    if !args.languages.contains(&Scope::All) {
        return wrong("expected all in --languages, got none".to_owned());
    }
    if let Some(Configuration { name, .. }) =
        configurations.iter().find(|configuration| !runs::is_valid_name(&configuration.name))
    {
        return wrong(format!("expected names without white space, got {name}"));
    }
    configurations.iter().try_for_each(|configuration| Sink::check(Some(&run_path(path, configuration))))
}

fn measure(
    client: &Client,
    args: &SearchArgs,
    set: &TestCollection,
    configurations: &[Configuration],
    report: &mut SearchReport,
) -> Result<(), CliError> {
    let model = args.data.model.as_deref();
    let scratch = match &args.collection {
        Some(_) => None,
        None => Some(Scratch::collection(client, model)?),
    };
    let collection = scratch.as_ref().map(|scratch| scratch.name.clone());
    let collection = collection.or_else(|| report.collection.clone()).unwrap_or_default();
    let judged = set.queries.iter().find(|query| set.gains.contains_key(&query.id));
    let mut searches = Searches::new(client, &collection, model)?;
    searches.check(configurations, judged.or(set.queries.first()))?;
    if scratch.is_some() {
        store(client, &collection, &set.documents)?;
        searches = Searches::new(client, &collection, model)?;
    }
    report.documents = Some(searches.documents);
    let languages = searches.languages_of(set, scratch.is_none())?;
    for scope in &args.languages {
        // Without judgments, it only writes runs.
        let queries = if !set.gains.is_empty() {
            scoped_queries(set, &languages, *scope)
        } else if *scope == Scope::All {
            set.queries.iter().map(|query| ScopedQuery { query, gains: Gains::new() }).collect()
        } else {
            Vec::new()
        };
        for configuration in configurations.iter().filter(|_| !queries.is_empty()) {
            let lists = searches.run_queries(*scope, configuration, &queries)?;
            if let (Scope::All, Some(path)) = (scope, &args.run) {
                write_run(path, configuration, &queries, &lists)?;
            }
            let score =
                |scoped: &ScopedQuery<'_>, list: &[Scored]| score_ranking(list.iter().map(|(id, _)| id.as_str()), &scoped.gains);
            let by_query = queries.iter().zip(&lists).map(|(scoped, list)| QueryScores::new(scoped.query, score(scoped, list)));
            add(report, *scope, &configuration.name, by_query.collect(), Some(configuration.request.clone()));
        }
    }
    Ok(())
}

/// Adds a row and compares it with the first row of its scope.
fn add(report: &mut SearchReport, scope: Scope, name: &str, by_query: Vec<QueryScores>, request: Option<Map<String, Value>>) {
    let first = report.results.iter().find(|row| row.scope == scope);
    let row = Row::new(scope, name, by_query, first, report.bootstrap);
    report.results.push(Row { request, ..row });
}

fn run_path(path: &Path, configuration: &Configuration) -> PathBuf {
    PathBuf::from(path.to_string_lossy().replace(NAME, &configuration.name))
}

fn write_run(
    path: &Path,
    configuration: &Configuration,
    queries: &[ScopedQuery<'_>],
    lists: &[Vec<Scored>],
) -> Result<(), CliError> {
    let ids = queries.iter().map(|scoped| &scoped.query.id).chain(lists.iter().flatten().map(|(id, _)| id));
    if let Some(id) = ids.into_iter().find(|id| !runs::is_valid_name(id)) {
        return Err(CliError::Failed(format!(
            "--run: expected ids without white space, which separates the fields of a run, got {id}"
        )));
    }
    let mut target = Target::create(&run_path(path, configuration))?;
    for (scoped, list) in queries.iter().zip(lists) {
        let failed = target.write_error();
        runs::write(&mut target, &configuration.name, &scoped.query.id, list).map_err(failed)?;
    }
    target.finish()
}

fn document(item: &Item) -> Value {
    let (title, language) = (item.title.as_deref().map(kept_title), item.language.map(Language::code));
    request_members(&json!({ "id": item.id, "text": item.text, "title": title, "language": language })).into()
}

/// Returns as much of a title as the server accepts.
fn kept_title(title: &str) -> &str {
    title.char_indices().nth(TITLE_CHARS_MAX).map_or(title, |(end, _)| &title[..end])
}

fn store(client: &Client, collection: &str, documents: &[Item]) -> Result<(), CliError> {
    let uploaded: Vec<&Item> = documents.iter().filter(|item| !item.text.is_empty()).collect();
    if uploaded.len() < documents.len() {
        let (blank, all) = (documents.len() - uploaded.len(), plural(documents.len() as u64, "document"));
        client.output.note(&format!("left out {blank} of {all}: neither a title nor a text"));
    }
    let cut =
        uploaded.iter().filter(|item| item.title.as_deref().is_some_and(|title| kept_title(title).len() < title.len())).count();
    if cut > 0 {
        client.output.note(&format!("cut {} at {TITLE_CHARS_MAX} characters", plural(cut as u64, "title")));
    }
    let bar = client.output.progress(Some(uploaded.len() as u64), Unit::Items("documents"));
    for batch in uploaded.chunks(BATCH_DOCUMENTS) {
        let body = json!({ "documents": batch.iter().map(|item| document(item)).collect::<Vec<_>>() });
        let call = Call::post(&["collections", collection, "documents"]).repeatable();
        let response = client.send(&call.json(body))?;
        let mut results = response["results"].as_array().into_iter().flatten();
        if let Some(result) = results.find(|result| result["error"].is_object()) {
            let detail = json!({ "id": result["id"], "error": result["error"]["detail"] });
            return Err(CliError::Failed(format!("the server refused a document: {detail}")));
        }
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Returns the queries that have a relevant document in the scope.
fn scoped_queries<'a>(set: &'a TestCollection, languages: &HashMap<String, Language>, scope: Scope) -> Vec<ScopedQuery<'a>> {
    let mut scoped = Vec::new();
    for query in &set.queries {
        let within = |id: &str| match (scope, query.language, languages.get(id)) {
            (Scope::All, _, _) => true,
            (Scope::Same, Some(code), Some(language)) => code == *language,
            (Scope::Other, Some(code), Some(language)) => code != *language,
            (Scope::Same | Scope::Other, _, _) => false,
        };
        let gains = set.gains.get(&query.id).into_iter().flatten().filter(|(id, _)| within(id));
        let gains: Gains = gains.map(|(id, gain)| (id.clone(), *gain)).collect();
        if !gains.is_empty() {
            scoped.push(ScopedQuery { query, gains });
        }
    }
    scoped
}

impl<'a> Searches<'a> {
    /// Prepares to search an existing collection, which must use `model` if one is given.
    fn new(client: &'a Client, collection: &'a str, model: Option<&str>) -> Result<Self, CliError> {
        let about = client.send(&Call::get(&["collections", collection]))?;
        let collection_model = about["model"].as_str();
        if let Some(model) = model.filter(|model| collection_model != Some(*model)) {
            let expected = match collection_model {
                Some(name) => format!("{name}, the model of {collection}"),
                None => format!("none, because {collection} has no model"),
            };
            return Err(CliError::Failed(format!("--model: expected {expected}, got {model}")));
        }
        let counts = about["languages"].as_array().into_iter().flatten();
        let languages = counts.filter_map(|count| count["language"].as_str().map(str::to_owned)).collect();
        Ok(Self { client, collection, languages, documents: about["documents"].as_u64().unwrap_or_default() })
    }

    /// Returns the languages of the relevant documents, from the files or otherwise from the server. With `check`, requests all
    /// of them from the server, to verify that the collection has these documents.
    fn languages_of(&self, set: &TestCollection, check: bool) -> Result<HashMap<String, Language>, CliError> {
        let known = set.documents.iter().filter_map(|item| Some((item.id.clone(), item.language?)));
        let mut languages: HashMap<String, Language> = known.collect();
        let mut relevant: BTreeSet<&String> = set.gains.values().flat_map(HashMap::keys).collect();
        // Blank documents were not stored.
        for blank in set.documents.iter().filter(|item| item.text.is_empty()) {
            relevant.remove(&blank.id);
        }
        for id in relevant.into_iter().filter(|id| check || !languages.contains_key(*id)).collect::<Vec<_>>() {
            let path = ["collections", self.collection, "documents", id];
            let document = match self.client.send(&Call::get(&path)) {
                Err(error) if error.code() == Some("document_not_found") => {
                    let expected = format!("an id of a document of {}", self.collection);
                    return Err(CliError::Failed(format!("qrels: document id: expected {expected}, got {id}")));
                }
                response => response?,
            };
            if let Some(language) = document["language"].as_str().and_then(Language::parse) {
                languages.insert(id.clone(), language);
            }
        }
        Ok(languages)
    }

    /// Checks that the server accepts every configuration, before documents are stored for it.
    fn check(&self, configurations: &[Configuration], query: Option<&Item>) -> Result<(), CliError> {
        let path = ["collections", self.collection, "search"];
        for (configuration, query) in configurations.iter().filter_map(|configuration| Some((configuration, query?))) {
            let request = self.request(Scope::All, configuration, query);
            self.client.send(&Call::post(&path).repeatable().json(request))?;
        }
        Ok(())
    }

    fn run_queries(
        &self,
        scope: Scope,
        configuration: &Configuration,
        queries: &[ScopedQuery<'_>],
    ) -> Result<Vec<Vec<Scored>>, CliError> {
        let bar = self.client.output.progress(Some(queries.len() as u64), Unit::Items("searches"));
        let mut lists = Vec::with_capacity(queries.len());
        for batch in queries.chunks(BATCH_SEARCHES) {
            let requests: Vec<Value> = batch.iter().map(|scoped| self.request(scope, configuration, scoped.query)).collect();
            let call = Call::post(&["collections", self.collection, "search", "batch"]).repeatable();
            let call = call.json(json!({ "searches": requests }));
            for result in self.client.rows(&call, "results", batch.len(), "one result per search")? {
                let hits = result["hits"].as_array().into_iter().flatten();
                let scored = |hit: &Value| Some((hit["id"].as_str()?.to_owned(), hit["score"].as_f64()?));
                lists.push(hits.filter_map(scored).collect());
            }
            bar.inc(batch.len() as u64);
        }
        bar.finish_and_clear();
        Ok(lists)
    }

    fn request(&self, scope: Scope, configuration: &Configuration, query: &Item) -> Value {
        let code_of_query = query.language.map(Language::code);
        let languages: Vec<&str> = match scope {
            Scope::All => Vec::new(),
            Scope::Same => code_of_query.into_iter().collect(),
            Scope::Other => self.languages.iter().map(String::as_str).filter(|code| Some(*code) != code_of_query).collect(),
        };
        let mut search = configuration.request.clone();
        search.insert("query".to_owned(), json!(query.text));
        // The queries were not written for this server, so quotes and hyphens in them are not operators.
        search.entry("operators").or_insert(json!(false));
        search.insert("languages".to_owned(), json!(languages));
        search.insert("limit".to_owned(), json!(DEPTH_MAX));
        search.insert("include".to_owned(), json!([]));
        Value::Object(search)
    }
}
