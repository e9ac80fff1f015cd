//! Collections with caller-supplied vectors, and collection settings.

use serde_json::{Value, json};

use crate::example;
use crate::merged;
use crate::server::Server;

const PATH: &str = "/v1/collections/points/documents";

async fn with_points(settings: Value) -> Server {
    let server = Server::start();
    let body = merged(json!({"name": "points", "dimension": 3}), &settings);
    let response = server.post("/v1/collections", &body).await;
    assert_eq!(response.status, 201, "{response:?}");
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_shows_its_settings() {
    let settings = json!({
        "metric": "l2", "quantization": "bf16", "hnsw": {"m": 8, "ef_search": 200}, "default_languages": ["ja"],
    });
    let server = with_points(settings).await;
    let body = server.get("/v1/collections/points").await.body;
    assert_eq!((body.get("model"), body.get("model_fingerprint")), (None, None));
    assert_eq!((&body["dimension"], &body["metric"], &body["quantization"]), (&json!(3), &json!("l2"), &json!("bf16")));
    assert_eq!(body["hnsw"], json!({"m": 8, "ef_construction": 128, "ef_search": 200}));
    assert_eq!(body["default_languages"], json!(["ja"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_settings_are_refused() {
    let server = Server::start();
    let check = async |settings: Value, code: &str, place: &str, words: &[&str]| {
        let body = merged(json!({"name": "points"}), &settings);
        server.post("/v1/collections", &body).await.assert_error(422, code, place, words);
    };
    let invalid = "invalid_request";
    check(json!({"dimension": 0}), invalid, "/dimension", &["1 and 8192", "got 0"]).await;
    check(json!({"dimension": 9000}), invalid, "/dimension", &["1 and 8192", "got 9000"]).await;
    let both = ["left out with model \"fake\"", "got 3", "keep dimension and leave out model"];
    check(json!({"dimension": 3, "model": "fake"}), invalid, "/dimension", &both).await;
    check(json!({"metric": "dot"}), invalid, "/metric", &["must be cosine", "got dot"]).await;
    check(json!({"dimension": 3, "metric": "taxicab"}), invalid, "/metric", &["taxicab"]).await;
    check(json!({"dimension": 3, "metric": "l2", "quantization": "i8"}), invalid, "/quantization", &["f16", "got i8"]).await;
    check(json!({"dimension": 3, "metric": "dot", "quantization": "b1"}), invalid, "/quantization", &["got b1"]).await;
    check(json!({"quantization": "f8"}), invalid, "/quantization", &["f8"]).await;
    check(json!({"hnsw": {"m": 2}}), invalid, "/hnsw/m", &["4 and 128", "got 2"]).await;
    check(json!({"hnsw": {"ef_construction": 5000}}), invalid, "/hnsw/ef_construction", &["4096", "got 5000"]).await;
    check(json!({"hnsw": {"ef_search": 1}}), invalid, "/hnsw/ef_search", &["8", "got 1"]).await;
    check(json!({"hnsw": {"connectivity": 16}}), invalid, "/hnsw/connectivity", &["unknown field `connectivity`"]).await;
    check(json!({"default_languages": ["fr", "xx"]}), "unknown_language", "/default_languages/1", &["xx"]).await;
    assert_eq!(server.get("/v1/collections").await.body, json!({"collections": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_with_vectors_are_stored_with_or_without_text() {
    let server = with_points(json!({})).await;
    let documents = json!([
        {"id": "a", "vector": [1, 0, 0.5]},
        {"id": "b", "vector": [0, 2, 0], "text": "Le chat dort sur le vieux canapé du salon.", "metadata": {"k": 1}},
    ]);
    let response = server.post(PATH, &json!({"documents": documents})).await;
    assert_eq!((response.status, &response.body["failed"]), (200, &json!(0)), "{}", response.text);
    let read = server.get(&format!("{PATH}/a")).await.body;
    assert_eq!((&read["text"], &read["passages"], &read["indexed"]), (&json!(""), &json!(1), &json!(true)));
    assert_eq!(read.get("language"), None);
    let read = server.get(&format!("{PATH}/b")).await.body;
    assert_eq!((&read["language"], &read["passages"]), (&json!("fr"), &json!(1)));
    assert_eq!(server.get("/v1/collections/points").await.body["passages_pending"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_vectors_are_refused_per_document() {
    let server = with_points(json!({})).await;
    let check = async |document: Value, place: &str, words: &[&str]| {
        let response = server.post(PATH, &json!({"documents": [document]})).await;
        response.assert_error(422, "invalid_request", &format!("/documents/0{place}"), words);
    };
    check(json!({"id": "a", "vector": [1, 2]}), "/vector", &["3 values", "got 2"]).await;
    check(json!({"id": "a", "vector": [0, 0, 0]}), "/vector", &["zeros"]).await;
    check(json!({"id": "a", "vector": [1e300, 0, 0]}), "/vector", &["position 0"]).await;
    check(json!({"id": "a", "text": "only text"}), "/vector", &["expected 3 values"]).await;
    check(json!({"id": "a", "text": " ", "vector": [1, 2, 3]}), "/text", &["not be blank"]).await;
    let response = server.post(PATH, &json!({"documents": [{"vector": [1, 2]}, {"id": "b", "vector": [1, 2, 3]}]})).await;
    assert_eq!((response.status, &response.body["failed"]), (207, &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_with_a_model_accepts_only_texts() {
    let server = Server::with_news().await;
    let post = async |document: Value| server.post("/v1/collections/news/documents", &json!({"documents": [document]})).await;
    let response = post(json!({"text": "Bonjour", "vector": [1, 2]})).await;
    response.assert_error(422, "invalid_request", "/documents/0/vector", &["must be left out", "got 2 values"]);
    post(json!({"id": "a"})).await.assert_error(422, "invalid_request", "/documents/0/text", &["must be given"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_query_needs_a_collection_with_a_model() {
    let server = with_points(json!({})).await;
    let response = server.post("/v1/collections/points/search", &json!({"query": "chat"})).await;
    response.assert_error(422, "no_model", "", &["3 values"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_mutable_collection_settings_can_be_patched() {
    let server = Server::with_news().await;
    let response = server.patch("/v1/collections/news", &example("change_collection.request")).await;
    assert_eq!(response.status, 200, "{}", response.text);
    assert_eq!(response.body["description"], "News of the week");
    assert_eq!(response.body["metadata_indexes"], json!(["author.name", "topic"]));
    assert_eq!(response.body["hnsw"]["ef_search"], 200);
    assert_eq!(response.body["default_languages"], json!(["fr", "de"]));
    let response = server.patch("/v1/collections/news", &json!({"description": "", "default_languages": []})).await;
    assert_eq!((response.body.get("description"), &response.body["default_languages"]), (None, &json!([])));
    assert_eq!(server.get("/v1/collections/news").await.body["hnsw"]["ef_search"], 200);
    let check = async |body: Value, code: &str, place: &str, words: &[&str]| {
        server.patch("/v1/collections/news", &body).await.assert_error(422, code, place, words);
    };
    check(json!({"metric": "dot"}), "invalid_request", "/metric", &["unknown field `metric`"]).await;
    check(json!({"hnsw": {"m": 8}}), "invalid_request", "/hnsw/m", &["unknown field"]).await;
    check(json!({"hnsw": {"ef_search": 5000}}), "invalid_request", "/hnsw/ef_search", &["got 5000"]).await;
    check(json!({"default_languages": ["fr", "is"]}), "unknown_language", "/default_languages/1", &["is"]).await;
    let absent = server.patch("/v1/collections/absent", &json!({})).await;
    absent.assert_error(404, "collection_not_found", "", &["absent"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_document_can_be_put_with_its_vector() {
    let server = with_points(json!({})).await;
    let path = format!("{PATH}/a");
    let put = async |body: Value| server.put(&path, &body).await;
    assert_eq!(put(json!({"vector": [1, 0, 0]})).await.status, 201);
    assert_eq!(put(json!({"vector": [0, 1, 0], "text": "Der Mond scheint."})).await.status, 200);
    assert_eq!(server.get(&path).await.body["text"], "Der Mond scheint.");
    put(json!({"vector": [1, 2]})).await.assert_error(422, "invalid_request", "/vector", &["3 values", "got 2"]);
    put(json!({"text": "Der Mond"})).await.assert_error(422, "invalid_request", "/vector", &["must be given"]);
    let news = Server::with_news().await;
    let response = news.put("/v1/collections/news/documents/a", &json!({"vector": [1]})).await;
    response.assert_error(422, "invalid_request", "/text", &["must be given"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_are_exported_imported_and_restored() {
    let server = with_points(json!({"metric": "l2"})).await;
    let documents = json!([{"id": "a", "vector": [1, 0, 5]}, {"id": "b", "vector": [0, 2, 0], "text": "Bonne nuit."}]);
    server.post(PATH, &json!({"documents": documents})).await;
    let exported = async |name: &str| server.get(&format!("/v1/collections/{name}/export?include=vector")).await.text;
    let lines = exported("points").await;
    assert!(lines.starts_with("{\"id\":\"a\",\"vector\":[1.0,0.0,5.0]}\n"), "{lines}");

    server.post("/v1/collections", &json!({"name": "copy", "dimension": 3, "metric": "l2"})).await;
    let request = axum::http::Request::post("/v1/collections/copy/import").header("content-type", "application/x-ndjson");
    let job = server.send(request.body(format!("{lines}{{\"id\":\"c\",\"text\":\"x\"}}\n").into()).expect("a request")).await;
    let job = server.finished(&job).await;
    assert_eq!(job["details"], json!({"lines": 3, "created": 2, "updated": 0, "failed": 1}), "{job}");
    assert_eq!(exported("copy").await, lines);

    let job = server.finished(&server.post("/v1/snapshots", &json!({"collections": ["points"]})).await).await;
    let id = job["details"]["snapshot"].as_str().expect("an id").to_owned();
    let snapshot = server.get(&format!("/v1/snapshots/{id}")).await.body;
    assert_eq!(snapshot["collections"][0].get("model"), None, "{snapshot}");
    server.patch("/v1/collections/points", &json!({"description": "changed"})).await;
    let restore = json!({"collection": "points", "rename_to": "old"});
    let job = server.finished(&server.post(&format!("/v1/snapshots/{id}/restore"), &restore).await).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    assert_eq!(exported("old").await, lines);
    assert_eq!(server.get("/v1/collections/old").await.body["metric"], "l2");
}

#[tokio::test(flavor = "multi_thread")]
async fn passage_length_follows_the_collections_passage_bounds() {
    let server = Server::start();
    let text = "Un deux trois quatre cinq six. Sept huit neuf dix onze douze. Treize quatorze quinze seize dix-sept dix-huit.";
    let check = async |name: &str, settings: Value, shown: Value, passages: u64| {
        let body = merged(json!({"name": name}), &settings);
        let created = server.post("/v1/collections", &body).await;
        assert_eq!((created.status, &created.body["passage_bounds"]), (201, &shown), "{}", created.text);
        let documents = json!({"documents": [{"id": "a", "text": text}]});
        server.post(&format!("/v1/collections/{name}/documents"), &documents).await;
        let counted = server.get(&format!("/v1/collections/{name}")).await.body;
        assert_eq!((&counted["passages"], &counted["passage_bounds"]), (&json!(passages), &shown));
    };
    check("usual", json!({}), json!({"tokens_max": 16, "overlap_tokens": 0}), 2).await;
    check("short", json!({"passage_bounds": {"tokens_max": 8}}), json!({"tokens_max": 8, "overlap_tokens": 0}), 3).await;
    let settings = json!({"passage_bounds": {"overlap_tokens": 8}});
    check("overlapping", settings, json!({"tokens_max": 16, "overlap_tokens": 8}), 2).await;
    let refuse = async |settings: Value, place: &str, words: &[&str]| {
        let body = merged(json!({"name": "refused"}), &settings);
        server.post("/v1/collections", &body).await.assert_error(422, "invalid_request", place, words);
    };
    let (tokens, overlap) = ("/passage_bounds/tokens_max", "/passage_bounds/overlap_tokens");
    refuse(json!({"passage_bounds": {"tokens_max": 7}}), tokens, &["8 and 16", "got 7"]).await;
    refuse(json!({"passage_bounds": {"tokens_max": 17}}), tokens, &["8 and 16", "got 17"]).await;
    refuse(json!({"passage_bounds": {"tokens_max": 10, "overlap_tokens": 6}}), overlap, &["0 and 5", "got 6"]).await;
    refuse(json!({"passage_bounds": {"words": 9}}), "/passage_bounds/words", &["unknown field"]).await;
    refuse(json!({"dimension": 3, "passage_bounds": {}}), "/passage_bounds", &["must be left out"]).await;
    let changed = server.patch("/v1/collections/short", &json!({"passage_bounds": {"tokens_max": 16}})).await;
    changed.assert_error(422, "invalid_request", "/passage_bounds", &["unknown field"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn own_vectors_support_the_searches_that_need_no_model() {
    let server = with_points(json!({"metric": "l2"})).await;
    let documents = json!([
        {"id": "a", "vector": [1, 0, 0], "text": "Le chat dort sur le vieux canapé du salon.", "metadata": {"kind": "cat"}},
        {"id": "b", "vector": [3, 0, 0], "text": "Der Hund schläft heute Nacht im Garten hinter dem Haus.", "metadata": {"kind": "dog"}},
        {"id": "c", "vector": [9, 0, 0]},
    ]);
    server.post(PATH, &json!({"documents": documents})).await;
    let search = async |body: Value| server.post("/v1/collections/points/search", &body).await;
    let check = async |body: Value, expect: &[(&str, f64)]| {
        let response = search(body).await;
        assert_eq!(response.status, 200, "{}", response.text);
        let hits = response.body["hits"].as_array().expect("hits");
        let found: Vec<(&str, f64)> =
            hits.iter().map(|hit| (hit["id"].as_str().expect("an id"), hit["score"].as_f64().expect("a score"))).collect();
        assert_eq!(found.len(), expect.len(), "{found:?}");
        for (found, expect) in found.iter().zip(expect) {
            assert!(found.0 == expect.0 && (found.1 - expect.1).abs() < 1e-3, "{found:?} {expect:?}");
        }
    };
    check(json!({"vector": [2.5, 0, 0]}), &[("b", -0.5), ("a", -1.5), ("c", -6.5)]).await;
    check(json!({"vector": [0, 0, 0], "score_min": -3.5}), &[("a", -1.0), ("b", -3.0)]).await;
    check(json!({"like": "c"}), &[("b", -6.0), ("a", -8.0)]).await;
    check(json!({"vector": [0, 0, 0], "filter": {"field": "kind", "eq": "dog"}}), &[("b", -3.0)]).await;
    check(json!({"vector": [0, 0, 0], "exact": true, "languages": ["fr"]}), &[("a", -1.0)]).await;
    let by_words = search(json!({"query": "Hund", "mode": "lexical"})).await;
    assert_eq!((by_words.status, &by_words.body["hits"][0]["id"]), (200, &json!("b")), "{}", by_words.text);
    let examples = json!({"positive": {"ids": ["b"]}, "negative": {"ids": ["a"]}});
    let recommended = server.post("/v1/collections/points/recommend", &examples).await;
    // As far beyond b as b is from a: at 5.
    assert_eq!(recommended.body["hits"][0]["id"], "c", "{}", recommended.text);
    assert_eq!(recommended.body["hits"][0]["score"], -4.0);
    // The target would lie at almost three times the largest value that a vector may have.
    let far = json!({"positive": {"vectors": [[60_000, 0, 0]]}, "negative": {"vectors": [[-60_000, 0, 0]]}});
    let recommended = server.post("/v1/collections/points/recommend", &far).await;
    assert_eq!(recommended.body["hits"][0]["id"], "c", "{}", recommended.text);
    assert!(recommended.body["hits"][0]["score"].as_f64().is_some_and(|score| score < -60_000.0), "{}", recommended.text);

    let refuse = async |body: Value, code: &str, place: &str, words: &[&str]| {
        search(body).await.assert_error(422, code, place, words);
    };
    refuse(json!({"vector": [1, 2]}), "invalid_request", "/vector", &["must have 3 values", "got 2"]).await;
    let range = "must have numbers from -65504 to 65504 for the quantization f16, got -70000";
    refuse(json!({"vector": [1, 2, -70_000]}), "invalid_request", "/vector", &[range]).await;
    refuse(json!({"vector": [1, 2, 1e9]}), "invalid_request", "/vector", &["65504"]).await;
    refuse(json!({"query": "Hund", "mode": "hybrid"}), "no_model", "", &["3 values"]).await;
    refuse(json!({"vector": [1, 2, 3], "margin": {}}), "invalid_request", "/margin", &["cosine", "l2"]).await;
    let batch = json!({"searches": [{"vector": [1, 2, 3]}, {"query": "Hund"}]});
    server.post("/v1/collections/points/search/batch", &batch).await.assert_error(422, "no_model", "", &["/searches/1"]);
    let examples = json!({"positive": {"texts": ["Hund"]}});
    server.post("/v1/collections/points/recommend", &examples).await.assert_error(422, "no_model", "", &["3 values"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_can_set_ef_search_and_oversampling() {
    let server = with_points(json!({"metric": "cosine", "quantization": "b1"})).await;
    server.post(PATH, &json!({"documents": [{"id": "a", "vector": [1, 2, 3]}, {"id": "b", "vector": [3, 1, -1]}]})).await;
    let search = async |mut body: Value| {
        body["vector"] = json!([1, 2, 3]);
        server.post("/v1/collections/points/search", &body).await
    };
    let scores = async |body: Value| {
        let found = search(body).await.body;
        [0, 1].map(|place| found["hits"][place]["score"].as_f64().expect("a score"))
    };
    assert!((scores(json!({"ef_search": 8, "oversampling": 64})).await[1] - 2.0 / 154f64.sqrt()).abs() < 1e-5);
    // One of three signs differs: an angle of 60°, so the cosine is 0.5; nothing is rescored.
    assert!((scores(json!({"oversampling": 1})).await[1] - 0.5).abs() < 1e-5);
    assert!((scores(json!({"exact": true})).await[1] - 2.0 / 154f64.sqrt()).abs() < 1e-5);
    for (body, place, words) in [
        (json!({"ef_search": 7}), "/ef_search", ["8 to 4096", "got 7"]),
        (json!({"ef_search": 4097}), "/ef_search", ["8 to 4096", "got 4097"]),
        (json!({"oversampling": 0.5}), "/oversampling", ["1 to 64", "got 0.5"]),
        (json!({"oversampling": 65}), "/oversampling", ["1 to 64", "got 65"]),
    ] {
        search(body).await.assert_error(422, "invalid_request", place, &words);
    }
    let by_words = json!({"query": "a", "mode": "lexical", "oversampling": 2});
    let response = server.post("/v1/collections/points/search", &by_words).await;
    response.assert_error(422, "invalid_request", "/oversampling", &["lexical"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_without_languages_uses_the_collections_defaults() {
    let server = Server::start();
    server.post("/v1/collections", &json!({"name": "news", "default_languages": ["fr"]})).await;
    let documents: Vec<Value> =
        ["fr", "de", "ja"].map(|code| json!({"id": code, "text": "radio Paris", "language": code})).into();
    server.post("/v1/collections/news/documents", &json!({"documents": documents})).await;
    let ids = |hits: &Value| {
        let hits = hits.as_array().expect("hits").iter();
        let mut ids: Vec<_> = hits.map(|hit| hit["id"].as_str().expect("an id").to_owned()).collect();
        ids.sort();
        ids
    };
    for mode in ["dense", "lexical", "hybrid"] {
        for (languages, expect) in
            [(None, vec!["fr"]), (Some(json!([])), vec!["de", "fr", "ja"]), (Some(json!(["ja"])), vec!["ja"])]
        {
            let mut body = json!({"query": "radio Paris", "mode": mode});
            languages.into_iter().for_each(|languages| body["languages"] = languages);
            let response = server.post("/v1/collections/news/search", &body).await;
            assert_eq!(ids(&response.body["hits"]), expect, "{body}: {}", response.text);
            let batch = server.post("/v1/collections/news/search/batch", &json!({"searches": [body]})).await;
            assert_eq!(ids(&batch.body["results"][0]["hits"]), expect, "{body}: {}", batch.text);
        }
    }
    let recommended = server.post("/v1/collections/news/recommend", &json!({"positive": {"texts": ["radio"]}})).await;
    assert_eq!(ids(&recommended.body["hits"]), ["fr"]);
    let balanced = json!({"query": "radio Paris", "balance_languages": true});
    assert_eq!(ids(&server.post("/v1/collections/news/search", &balanced).await.body["hits"]), ["fr"]);
}
