//! Search quality on this repository's judged sets, `tests/relevance/`, `tests/names/` and `tests/everyday/`: the real program with
//! the shipped model, measured by `dragoman eval search`, must score about as high as when the floors were set.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "support/program.rs"]
mod program;

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use dragoman::evaluation::judged::{self, ReadOptions};
use dragoman::evaluation::relevance::Item;
use program::Program;
use serde_json::{Value, json};

const MODEL: &str = "models/ems-small";
const SET: &str = "tests/relevance";
const NAMES: &str = "tests/names";
const EVERYDAY: &str = "tests/everyday";

/// The minimum scores of a mode in percent: over all documents, over those in the query's language, over the others.
struct Floor {
    mode: &'static str,
    scope: &'static str,
    success_at_1: f64,
    mrr_at_10: f64,
    ndcg_at_10: f64,
}

/// Each is about three points below the measured value. To add a mode, add its rows.
const FLOORS: [Floor; 12] = [
    floor("full", "all", [83.0, 86.0, 86.0]),
    floor("full", "same", [87.0, 90.0, 92.0]),
    floor("full", "other", [76.0, 80.0, 80.0]),
    floor("dense", "all", [37.0, 45.0, 47.0]),
    floor("dense", "same", [67.0, 75.0, 79.0]),
    floor("dense", "other", [17.0, 26.0, 29.0]),
    floor("lexical", "all", [45.0, 49.0, 48.0]),
    floor("lexical", "same", [80.0, 86.0, 88.0]),
    floor("lexical", "other", [3.0, 4.0, 4.0]),
    floor("hybrid", "all", [44.0, 49.0, 50.0]),
    floor("hybrid", "same", [78.0, 85.0, 88.0]),
    floor("hybrid", "other", [16.0, 23.0, 26.0]),
];

/// Those of questions whose pages write the name in another script or spelling.
const NAMES_FLOORS: [Floor; 2] = [floor("full", "all", [81.0, 87.0, 89.0]), floor("full", "other", [88.0, 92.0, 93.0])];

/// Those of everyday queries in many languages.
const EVERYDAY_FLOORS: [Floor; 3] = [
    floor("full", "all", [59.0, 68.0, 72.0]),
    floor("full", "same", [79.0, 85.0, 88.0]),
    floor("full", "other", [63.0, 71.0, 75.0]),
];

const fn floor(mode: &'static str, scope: &'static str, [success_at_1, mrr_at_10, ndcg_at_10]: [f64; 3]) -> Floor {
    Floor { mode, scope, success_at_1, mrr_at_10, ndcg_at_10 }
}

#[test]
fn the_judged_set_matches_its_readme() {
    let reading = ReadOptions { documents: true, judged: true, split: "test".to_owned() };
    let set = judged::read(Path::new(SET), &reading).unwrap();
    let languages: HashMap<&str, _> = set.documents.iter().map(|page| (page.id.as_str(), page.language.unwrap())).collect();
    let mut pages = HashMap::new();
    languages.values().for_each(|language| *pages.entry(*language).or_insert(0) += 1);
    assert_eq!((pages.len(), set.documents.len(), set.queries.len()), (12, 300, 150));
    assert!(pages.values().all(|count| *count == 25), "{pages:?}");
    assert!(set.documents.iter().all(|page| page.title.is_some()));
    let mut own = 0;
    for query in &set.queries {
        let responses: Vec<_> =
            set.gains[&query.id].iter().filter(|(_, grade)| **grade == 2.0).map(|(id, _)| id.as_str()).collect();
        assert!(!responses.is_empty(), "nothing answers {}", query.id);
        own += usize::from(responses.iter().any(|id| languages[id] == query.language.unwrap()));
    }
    assert_eq!((own, set.queries.len() - own), (84, 66), "questions answered in their language, and only in others");
}

#[test]
fn every_name_question_has_one_answer_in_another_language() {
    let reading = ReadOptions { documents: true, judged: true, split: "test".to_owned() };
    let set = judged::read(Path::new(NAMES), &reading).unwrap();
    assert_eq!((set.documents.len(), set.queries.len()), (96, 120));
    let languages: HashMap<&str, _> = set.documents.iter().map(|page| (page.id.as_str(), page.language.unwrap())).collect();
    for query in &set.queries {
        let responses: Vec<_> = set.gains[&query.id].keys().collect();
        assert!(
            responses.len() == 1 && languages[responses[0].as_str()] != query.language.unwrap(),
            "{}: {responses:?}",
            query.id
        );
    }
}

#[test]
fn every_everyday_query_has_one_answer() {
    let reading = ReadOptions { documents: true, judged: true, split: "test".to_owned() };
    let set = judged::read(Path::new(EVERYDAY), &reading).unwrap();
    let languages: HashMap<&str, _> = set.documents.iter().map(|page| (page.id.as_str(), page.language.unwrap())).collect();
    let own = set.queries.iter().filter(|query| {
        let answers: Vec<_> = set.gains[&query.id].keys().collect();
        assert_eq!(answers.len(), 1, "{}", query.id);
        languages[answers[0].as_str()] == query.language.unwrap()
    });
    assert_eq!((set.documents.len(), own.count(), set.queries.len()), (120, 62, 195));
}

#[test]
fn everyday_queries_are_answered_in_many_languages() {
    check_floors(EVERYDAY, &EVERYDAY_FLOORS);
}

#[test]
fn every_mode_meets_its_quality_floors() {
    check_floors(SET, &FLOORS);
}

#[test]
fn names_are_found_in_other_scripts() {
    check_floors(NAMES, &NAMES_FLOORS);
}

/// Measures a set in the modes of the floors.
fn check_floors(set: &str, floors: &[Floor]) {
    if !Path::new(MODEL).join("manifest.json").exists() {
        println!("skipped: there is no {MODEL}/manifest.json");
        return;
    }
    let (_folder, server) = Program::fresh(MODEL);
    let mut modes: Vec<&str> = floors.iter().map(|floor| floor.mode).collect();
    modes.dedup();
    let modes = modes.join(",");
    let mut command = Command::new(env!("CARGO_BIN_EXE_dragoman"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DRAGOMAN_")) {
        command.env_remove(name);
    }
    command.args(["eval", "search", "--json", "--data", set, "--mode", &modes, "--server", server.client().url()]);
    let output = command.env("NO_PROXY", "127.0.0.1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for row in report["results"].as_array().unwrap() {
        println!("{} in {}: {}", row["configuration"], row["scope"], row["all"]);
    }
    let missed: Vec<String> = floors.iter().flat_map(|floor| missed(floor, &report)).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

/// A small candidate list finds what a large one finds, with the same relevance per passage: the estimates that select
/// candidates are not visible. Of a page far down, the small list may have another passage.
#[test]
fn few_candidates_find_nearly_the_same_hits_as_many() {
    if !Path::new(MODEL).join("manifest.json").exists() {
        println!("skipped: there is no {MODEL}/manifest.json");
        return;
    }
    let (_folder, server) = Program::fresh(MODEL);
    let client = server.client();
    let set = judged::read(Path::new(SET), &ReadOptions { documents: true, judged: true, split: "test".to_owned() }).unwrap();
    let page =
        |page: &Item| json!({ "id": page.id, "title": page.title, "text": page.text, "language": page.language.unwrap().code() });
    let pages: Vec<Value> = set.documents.iter().map(page).collect();
    add_collection(&server, "pages", &pages);
    let (mut found, mut wanted) = (0, 0);
    for query in set.queries.iter().step_by(3) {
        let hits = |candidates: usize| -> HashMap<(String, u64), Value> {
            let search = json!({ "query": query.text, "candidates": candidates, "include": ["passage"] });
            let hits = client.hits("pages", &search).into_iter();
            let passage = |hit: &Value| (hit["id"].as_str().unwrap().to_owned(), hit["passage"]["start"].as_u64().unwrap());
            hits.map(|hit| (passage(&hit), hit["score"].clone())).collect()
        };
        let (few, many) = (hits(20), hits(10_000));
        wanted += many.len();
        for (passage, score) in many {
            if let Some(other) = few.get(&passage) {
                assert_eq!(other, &score, "{passage:?} for {:?}", query.text);
                found += 1;
            }
        }
    }
    println!("{found} of {wanted} hits");
    assert!(f64::from(found) >= 0.95 * wanted as f64, "{found} of {wanted}");
}

/// Words that no translation table lists are found in other languages by their parts.
#[test]
fn compounds_and_inflected_words_are_found_in_other_languages() {
    if !Path::new(MODEL).join("manifest.json").exists() {
        println!("skipped: there is no {MODEL}/manifest.json");
        return;
    }
    let (_folder, server) = Program::fresh(MODEL);
    let client = server.client();
    let pages = [
        ("workshop", "The bicycle workshop repairs brakes and wheels on Saturdays."),
        ("library", "The library lends novels, maps and records for four weeks."),
        ("snow", "The town clears snow from the main roads first, then from the side streets."),
        ("lighthouse", "The keeper of the lighthouse lives on the island all year."),
        ("wool", "They spin wool from their own sheep and dye it with plants."),
    ];
    let documents: Vec<Value> = pages.iter().map(|(id, text)| json!({ "id": id, "text": text, "language": "en" })).collect();
    add_collection(&server, "town", &documents);
    let queries = [
        ("Fahrradwerkstatt", "workshop"),
        ("cykelverkstad", "workshop"),
        ("kütüphanemizden", "library"),
        ("וספריות", "library"),
        ("Straßenräumung", "snow"),
        ("Leuchtturmwärter", "lighthouse"),
        ("polkupyöräkorjaamo", "workshop"),
        ("велосипедсервис", "workshop"),
    ];
    for (query, expect) in queries {
        let hits = client.hits("town", &json!({ "query": query, "explain": true, "include": [] }));
        assert_eq!(hits[0]["id"], expect, "{query}: {hits:?}");
        assert!(hits[0]["explanation"]["translated"]["score"].as_f64() > Some(0.05), "{query}: {hits:?}");
    }
}

/// Creates a collection of documents, and waits until they are indexed.
fn add_collection(server: &Program, name: &str, documents: &[Value]) {
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({ "name": name })).0, 201);
    let path = format!("/v1/collections/{name}/documents?wait=indexed");
    let (status, added) = client.post(&path, &json!({ "documents": documents }));
    assert_eq!((status, &added["failed"]), (200, &json!(0)), "{added}");
}

/// The metrics that are below a floor.
fn missed(floor: &Floor, report: &Value) -> Vec<String> {
    let rows = report["results"].as_array().unwrap();
    let row = rows.iter().find(|row| row["configuration"] == floor.mode && row["scope"] == floor.scope);
    let row = row.unwrap_or_else(|| panic!("{} is not measured in {}", floor.mode, floor.scope));
    let floors = [("success_at_1", floor.success_at_1), ("mrr_at_10", floor.mrr_at_10), ("ndcg_at_10", floor.ndcg_at_10)];
    let below = floors.into_iter().filter(|(measure, least)| row["all"][measure].as_f64().unwrap() < *least);
    below
        .map(|(measure, least)| {
            format!("{} in {}: {measure} of {} is below {least}", floor.mode, floor.scope, row["all"][measure])
        })
        .collect()
}
