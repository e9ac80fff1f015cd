//! Runs the calls in README.md and the other documents against the real program with the shipped model, and compares the
//! answers. The other documents build on the state that the README's calls left.
//!
//! A shell block with curl calls is followed by the responses, one JSON value per call whose answer is shown, in order. `JOB`
//! stands for the job of the previous answer, which is waited for. Times, server-generated ids, the last digits of scores,
//! and members that a shown object omits with `"…"` are not compared.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "support/postgres.rs"]
mod postgres_server;
#[path = "support/program.rs"]
mod program;

use std::collections::HashMap;

use postgres_server::Database;
use program::{Client, Program};
use serde_json::Value;

/// Maximum difference from the score shown: other CPUs round int8 products differently.
const SCORE_TOLERANCE: f64 = 0.02;

/// Members that differ in every run.
const VOLATILE: [&str; 7] = ["took_ms", "created_at", "started_at", "finished_at", "trained_at", "job", "version"];
/// The member that depends on the store: a database server compares a query with all passages if there are few.
const OF_THE_STORE: &str = "method";

/// In this order, because each builds on what the previous ones stored.
const DOCUMENTS: [&str; 6] =
    ["README.md", "docs/search.md", "docs/mining.md", "docs/map.md", "docs/classifiers.md", "docs/mcp.md"];

#[test]
fn documented_responses_match_the_server() {
    let (_folder, server) = Program::fresh("models/ems-small");
    check_all(&server.client(), &VOLATILE);
}

#[test]
fn documented_responses_match_a_server_with_a_database_store() {
    let (database, folder) = (Database::start(), tempfile::tempdir().unwrap());
    let mut command = program::command(folder.path(), "models/ems-small");
    command.env("DRAGOMAN_STORE", database.url("postgres"));
    let server = Program::run(command);
    check_all(&server.client(), &[&VOLATILE[..], &[OF_THE_STORE]].concat());
}

fn check_all(client: &Client, volatile: &[&str]) {
    let wrong: Vec<String> = DOCUMENTS.iter().flat_map(|document| check(document, client, volatile)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Runs a document's calls, and returns the responses that differ from those it shows.
fn check(document: &str, client: &Client, volatile: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    let text = std::fs::read_to_string(document).unwrap();
    let (mut variables, mut job, mut responses, mut compared) = (HashMap::new(), String::new(), Vec::new(), 0);
    for (language, block) in blocks(&text) {
        match language.as_str() {
            "sh" => responses = run(client, &block, &mut variables, &mut job),
            "json" => {
                for shown in serde_json::Deserializer::from_str(&block).into_iter::<Value>() {
                    let shown = shown.unwrap_or_else(|error| panic!("{document}: {error}\n{block}"));
                    assert!(!responses.is_empty(), "{document}: no call gives {shown}");
                    let response = responses.remove(0);
                    if !same(&shown, &response, volatile) {
                        wrong.push(format!("{document} shows\n{shown}\nthe server answers\n{response}"));
                    }
                    compared += 1;
                }
            }
            _ => {}
        }
    }
    assert!(compared > 0, "{document} shows no response");
    wrong
}

/// The fenced blocks with their languages.
fn blocks(markdown: &str) -> Vec<(String, String)> {
    let mut fences = markdown.split("\n```");
    let mut blocks = Vec::new();
    fences.next();
    while let (Some(block), _after) = (fences.next(), fences.next()) {
        let (language, text) = block.split_once('\n').unwrap();
        blocks.push((language.to_owned(), text.to_owned()));
    }
    blocks
}

/// Runs the calls of a shell block, which must all succeed, and returns every JSON value in the responses.
fn run(client: &Client, block: &str, variables: &mut HashMap<String, String>, job: &mut String) -> Vec<Value> {
    let mut responses = Vec::new();
    for words in commands(block) {
        let words: Vec<String> = words.iter().map(|word| expand(word, variables)).collect();
        match words.first().map(String::as_str) {
            Some("curl") => {
                let response = call(client, &words, job);
                assert!(response.iter().all(|value| value.get("code").is_none()), "{words:?} answers {response:?}");
                let started = response.first().filter(|value| value["status"] == "queued" || value["job"].is_string());
                if let Some(id) = started.and_then(|value| value["job"].as_str().or(value["id"].as_str())) {
                    *job = id.to_owned();
                }
                responses.extend(response);
            }
            Some(word) if words.len() == 1 && word.contains('=') => {
                let (name, value) = word.split_once('=').unwrap();
                variables.insert(name.to_owned(), value.to_owned());
            }
            _ => {}
        }
    }
    responses
}

/// Runs one call: a GET, or a POST if it has data or says so.
fn call(client: &Client, words: &[String], job: &str) -> Vec<Value> {
    let path = words.iter().find_map(|word| word.strip_prefix("http://127.0.0.1:7700")).unwrap();
    if path.contains("JOB") {
        client.wait_until("the job has succeeded", |client| client.get(&format!("/v1/jobs/{job}")).1["status"] == "succeeded");
    }
    let data = words.iter().position(|word| word == "-d").map(|at| &words[at + 1]);
    match data {
        Some(data) => vec![client.post(path, &serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"))).1],
        None if words.iter().any(|word| word == "POST") => vec![client.post(path, &Value::Null).1],
        None => {
            let text = client.get_text(&path.replace("JOB", job));
            serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect()
        }
    }
}

/// The words of each command, with quotes, line continuations, and comments as in a shell.
fn commands(block: &str) -> Vec<Vec<String>> {
    let (mut all, mut words, mut word, mut quote) = (Vec::new(), Vec::new(), None::<String>, None);
    let mut characters = block.chars().chain(['\n']).peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '\\') if characters.peek() == Some(&'\n') => drop(characters.next()),
            (None, '#') if word.is_none() => while characters.next_if(|next| *next != '\n').is_some() {},
            (None, ' ' | '\n' | ';') => {
                words.extend(word.take());
                if character != ' ' && !words.is_empty() {
                    all.push(std::mem::take(&mut words));
                }
            }
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    all
}

/// Substitutes variables.
fn expand(word: &str, variables: &HashMap<String, String>) -> String {
    variables.iter().fold(word.to_owned(), |word, (name, value)| word.replace(&format!("${name}"), value))
}

/// Whether a response matches what is shown.
fn same(shown: &Value, response: &Value, volatile: &[&str]) -> bool {
    match (shown, response) {
        (Value::Number(shown), Value::Number(response)) if shown.is_f64() => {
            (shown.as_f64().unwrap() - response.as_f64().unwrap()).abs() < SCORE_TOLERANCE
        }
        (Value::Array(shown), Value::Array(response)) => {
            shown.len() == response.len() && shown.iter().zip(response).all(|(shown, response)| same(shown, response, volatile))
        }
        (Value::Object(shown), Value::Object(response)) => {
            let cut = shown.contains_key("…");
            let is_job = response.contains_key("progress");
            let differs = |name: &str| volatile.contains(&name) || (is_job && name == "id");
            (cut || response.keys().all(|name| shown.contains_key(name)))
                && shown.iter().filter(|(name, _)| *name != "…").all(|(name, value)| {
                    response.get(name).is_some_and(|response| differs(name) || same(value, response, volatile))
                })
        }
        _ => shown == response,
    }
}
