//! `dragoman search` against a server.

use serde_json::json;
use unicode_width::UnicodeWidthStr as _;

use super::program::Program;
use super::{Script, run};

fn server() -> (tempfile::TempDir, Program) {
    let (folder, server) = Program::fresh("fake:8");
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({ "name": "news" })).0, 201);
    let body = json!({ "documents": [
        { "id": "fr", "language": "fr", "text": "Le pain est\nencore chaud.", "metadata": { "topic": "food" } },
        { "id": "日本", "language": "ja", "text": "新しい図書館は駅の隣にあります。", "metadata": { "topic": "books" } },
        { "id": "he", "language": "he", "text": "המוזיאון מציג ציור.", "metadata": { "topic": "art" } },
    ] });
    assert_eq!(client.post("/v1/collections/news/documents", &body).0, 200);
    (folder, server)
}

#[test]
fn hits_are_printed_as_a_table_with_aligned_columns() {
    let (_folder, server) = server();
    let run = run(server.client().url(), &["search", "news", "הלחם חם"]);
    let lines: Vec<&str> = run.expect(0).lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    let column = lines[0].find("PASSAGE").unwrap();
    assert!(lines[0].starts_with("#   SCORE  LANG  ID"), "{lines:?}");
    for text in ["Le pain est encore chaud.", "新しい図書館は駅の隣にあります。", "המוזיאון מציג ציור."]
    {
        let line = lines.iter().find(|line| line.ends_with(text)).unwrap();
        assert_eq!(line[..line.len() - text.len()].width(), column, "{line}");
    }
    assert!(run.err.starts_with("3 hits in "), "{}", run.err);
}

#[test]
fn search_options_take_effect_on_the_server() {
    let (_folder, server) = server();
    let client = server.client();
    let url = client.url();
    let hits = |arguments: &[&str]| {
        let response = run(url, &[&["search", "news", "chaud", "--json"], arguments].concat()).json();
        let hits = response[0]["hits"].as_array().unwrap();
        hits.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(hits(&["--limit", "2"]).len(), 2);
    let mut both = hits(&["--languages", "fr,he"]);
    both.sort();
    assert_eq!(both, ["fr", "he"]);
    assert_eq!(hits(&["--filter", r#"{"field": "topic", "eq": "books"}"#]), ["日本"]);
    assert_eq!(hits(&["--mode", "dense", "--settings", r#"{"limit": 1}"#]).len(), 1);
    let api = client.hits("news", &json!({ "query": "chaud" }));
    assert_eq!(hits(&[]), api.iter().map(|hit| hit["id"].as_str().unwrap()).collect::<Vec<_>>());
}

#[test]
fn errors_name_the_offending_field() {
    let (_folder, server) = server();
    let wrong = run(server.client().url(), &["search", "news", "chaud", "--languages", "xx,fr,yy"]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.err.starts_with("error: unknown_language: /languages/0: must be one of"), "{}", wrong.err);
    let quiet = run(server.client().url(), &["search", "news", "chaud", "--quiet"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));
}

#[test]
fn search_options_are_sent_in_the_request_body() {
    let body = |arguments: &[&str]| {
        let script = Script::of(&[("200 OK", r#"{"hits": [], "took_ms": 1.25}"#)]);
        let run = run(&script.url, &[&["search", "news"], arguments].concat());
        assert_eq!((run.expect(0), run.err.as_str()), ("", "0 hits in 1.2 ms\n"));
        let request = script.requests().remove(0);
        assert!(request.starts_with("POST /v1/collections/news/search HTTP/1.1\r\n"), "{request}");
        serde_json::from_str::<serde_json::Value>(request.split("\r\n\r\n").nth(1).unwrap()).unwrap()
    };
    let options = [
        "хлеб",
        "-n",
        "3",
        "--offset",
        "2",
        "--score-min",
        "-0.5",
        "-l",
        "fr",
        "-m",
        "hybrid",
        "--boost",
        r#"{"filter": {"and": []}, "weight": 3}"#,
        "--boost",
        r#"{"field": "at", "decay": {"half_life": 7}}"#,
        "--diversity",
        "0.5",
        "--settings",
        r#"{"exact": true}"#,
    ];
    let boosts = json!([{"filter": {"and": []}, "weight": 3}, {"field": "at", "decay": {"half_life": 7}}]);
    let expect = json!({ "boosts": boosts, "diversity": 0.5, "exact": true, "query": "хлеб", "limit": 3, "offset": 2, "score_min": -0.5, "languages": ["fr"], "mode": "hybrid" });
    assert_eq!(body(&options), expect);
    assert_eq!(body(&["no", "trains", "-n", "3"]), json!({ "query": "no trains", "limit": 3 }));
    assert_eq!(body(&["--like", "a/b"]), json!({ "like": "a/b" }));
    assert_eq!(body(&["--settings", r#"{"vector": [1, 0]}"#]), json!({ "vector": [1, 0] }));
}
