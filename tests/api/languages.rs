//! Languages in requests: any BCP 47 tag of one of the 62 languages, wherever a language is accepted.

use serde_json::{Value, json};

use crate::merged;
use crate::search::ids;
use crate::server::Server;

const NEWS: &str = "/v1/collections/news";

/// Documents whose languages are tagged in many ways. The language cannot be detected from any of their texts.
fn documents() -> Value {
    let tags = [
        ("br", "pt-BR"),
        ("pt", "PT_pt"),
        ("tw", "zh-Hant-TW"),
        ("latn", "sr-Latn"),
        ("old", "iw"),
        ("long", "deu"),
        ("no", "nn"),
    ];
    tags.iter().map(|(id, tag)| json!({"id": id, "text": format!("2026 {id}"), "language": tag})).collect()
}

async fn language(server: &Server, id: &str) -> Value {
    server.get(&format!("{NEWS}/documents/{id}")).await.body["language"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn document_language_tags_map_to_supported_languages() {
    let server = Server::with_documents(documents()).await;
    for (id, code) in [("br", "pt"), ("pt", "pt"), ("tw", "zh"), ("latn", "sr"), ("old", "he"), ("long", "de"), ("no", "nb")] {
        assert_eq!(language(&server, id).await, code, "{id}");
    }
    let stored = server.get(&format!("{NEWS}/documents/br")).await;
    assert_eq!(stored.body.get("language_confidence"), None, "the language was given, not detected");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_language_of_a_document_tagged_und_is_detected() {
    let server = Server::with_documents(json!([
        {"id": "fr", "text": "Le marché ouvre à sept heures et la bibliothèque ferme à midi.", "language": "und"},
        {"id": "none", "text": "2026-07-14 18:00", "language": "und"},
    ]))
    .await;
    assert_eq!(language(&server, "fr").await, "fr");
    assert_eq!(language(&server, "none").await, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_and_filters_accept_bcp_47_language_tags() {
    let server = Server::with_documents(documents()).await;
    let check = async |options: Value, expect: &[&str]| {
        let body = merged(json!({"query": "2026", "mode": "lexical"}), &options);
        let response = server.post(&format!("{NEWS}/search"), &body).await;
        let mut found = ids(&response);
        found.sort_unstable();
        assert_eq!(found, expect, "{options}: {}", response.text);
    };
    check(json!({"languages": ["pt-AO"]}), &["br", "pt"]).await;
    check(json!({"languages": ["no", "nb-NO", "zh-cn"]}), &["no", "tw"]).await;
    check(json!({"filter": {"field": "language", "eq": "he-IL"}}), &["old"]).await;
    check(json!({"filter": {"field": "language", "in": ["DE", "por"]}}), &["br", "long", "pt"]).await;
    check(json!({"filter": {"and": [{"field": "language", "ne": "pt-BR"}, {"field": "id", "lt": "m"}]}}), &["latn", "long"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_patches_and_imports_accept_bcp_47_language_tags() {
    let server = Server::with_documents(documents()).await;
    let patched = server.patch(NEWS, &json!({"default_languages": ["pt-BR", "por", "zh_TW"]})).await;
    assert_eq!(patched.body["default_languages"], json!(["pt", "zh"]));
    let patched = server.patch(&format!("{NEWS}/documents/br"), &json!({"language": "gl-ES"})).await;
    assert_eq!(patched.body["language"], "gl");
    let job = server.import("text/csv", "id,text,language\n1,2026,en-GB\n2,2026,is\n3,2026,Deutsch\n4,2026,und\n").await;
    assert_eq!(job["details"]["created"], 2, "{job}");
    assert_eq!((language(&server, "1").await, language(&server, "4").await), (json!("en"), Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_languages_and_malformed_tags_are_different_errors() {
    let server = Server::with_documents(documents()).await;
    let check = async |path: &str, body: Value, code: &str, place: &str, words: &[&str]| {
        server.post(&format!("{NEWS}{path}"), &body).await.assert_error(422, code, place, words);
    };
    let of = |tag: &str| json!({"documents": [{"text": "a", "language": tag}]});
    check("/documents", of("is-IS"), "unknown_language", "/documents/0/language", &["one of the 62", "\"is-IS\""]).await;
    check("/documents", of("islenska"), "invalid_request", "/documents/0/language", &["BCP 47", "\"islenska\""]).await;
    check("/documents", of(""), "invalid_request", "/documents/0/language", &["BCP 47"]).await;
    let of = |tag: &str| json!({"query": "a", "languages": ["fr", tag]});
    check("/search", of("yue"), "unknown_language", "/languages/1", &["\"yue\""]).await;
    check("/search", of("fr FR"), "invalid_request", "/languages/1", &["BCP 47", "\"fr FR\""]).await;
    check("/search", of("und"), "unknown_language", "/languages/1", &["language is unknown"]).await;
    let of = |tag: &str| json!({"query": "a", "filter": {"field": "language", "eq": tag}});
    check("/search", of("is"), "invalid_filter", "/filter/eq", &["one of the 62"]).await;
    check("/search", of("*"), "invalid_filter", "/filter/eq", &["BCP 47"]).await;
    let response = server.patch(&format!("{NEWS}/documents/br"), &json!({"language": "und"})).await;
    response.assert_error(422, "unknown_language", "/language", &["language is unknown"]);
}
