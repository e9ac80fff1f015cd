//! Titles: returned with documents and hits, searched with every passage, and limited in length.

use dragoman::domain::Limits;
use serde_json::{Value, json};

use crate::server::{Response, Server};

const DOCUMENTS: &str = "/v1/collections/news/documents";
const PATH: &str = "/v1/collections/news/documents/harbor";
const TEXT: &str = "The boats leave at dawn. The nets come back full.";

fn documents() -> Value {
    json!([
        {"id": "harbor", "title": "Fishing in Lervik", "text": TEXT, "language": "en"},
        {"id": "market", "text": "The market opens at seven and closes at noon.", "language": "en"},
    ])
}

async fn search(server: &Server, query: &str, mode: &str) -> Response {
    let response = server.post("/v1/collections/news/search", &json!({"query": query, "mode": mode, "limit": 1})).await;
    assert_eq!(response.status, 200, "{}", response.text);
    response
}

fn first(response: &Response) -> Option<&str> {
    response.body["hits"][0]["id"].as_str()
}

/// The document's score in a dense search for its title.
async fn title_score(server: &Server) -> f64 {
    let body = json!({"query": "Fishing in Lervik", "filter": {"field": "id", "eq": "harbor"}});
    server.post("/v1/collections/news/search", &body).await.body["hits"][0]["score"].as_f64().expect("a score")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_is_returned_as_written() {
    let server = Server::with_documents(documents()).await;
    assert_eq!(server.get(PATH).await.body["title"], "Fishing in Lervik");
    let listed = server.get(DOCUMENTS).await.body["documents"].clone();
    assert_eq!((&listed[0]["title"], listed[1].get("title")), (&json!("Fishing in Lervik"), None));
    let scrolled = server.post(&format!("{DOCUMENTS}/scroll"), &json!({})).await;
    assert_eq!(scrolled.body["documents"][0]["title"], "Fishing in Lervik");
    let put = server.put(PATH, &json!({"title": "Nets", "text": TEXT})).await;
    assert_eq!((put.status, &server.get(PATH).await.body["title"]), (200, &json!("Nets")));
    server.put(PATH, &json!({"text": TEXT})).await;
    assert_eq!(server.get(PATH).await.body.get("title"), None, "a put replaces the whole document");
}

#[tokio::test(flavor = "multi_thread")]
async fn title_words_find_the_document_in_dense_lexical_and_hybrid_mode() {
    let server = Server::with_documents(documents()).await;
    for mode in ["dense", "lexical", "hybrid"] {
        let response = search(&server, "Lervik fishing", mode).await;
        assert_eq!(first(&response), Some("harbor"), "{mode}: {}", response.text);
        let hit = &response.body["hits"][0];
        assert_eq!(hit["title"], "Fishing in Lervik");
        // The passage covers only the text.
        assert_eq!(hit["passage"], json!({"text": TEXT, "start": 0, "end": TEXT.chars().count(), "marks": []}));
    }
    assert_eq!(first(&search(&server, "Lervik", "lexical").await), Some("harbor"));
    assert_eq!(search(&server, "seven", "lexical").await.body["hits"][0].get("title"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn title_words_are_marked_in_every_mode() {
    let server = Server::with_documents(documents()).await;
    for mode in ["full", "dense", "lexical", "hybrid"] {
        let response = search(&server, "Lervik fishing", mode).await;
        let marks = json!([{"start": 0, "end": 7}, {"start": 11, "end": 17}]);
        assert_eq!((first(&response), &response.body["hits"][0]["title_marks"]), (Some("harbor"), &marks), "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_is_marked_like_a_passage() {
    let title_marks = async |title: &str, text: &str, query: &str| {
        let server = Server::with_documents(json!([{"id": "a", "title": title, "text": text, "language": "en"}])).await;
        let hit = search(&server, query, "lexical").await.body["hits"][0].clone();
        (hit["title_marks"].clone(), hit["passage"]["marks"].clone())
    };
    let same = "🌪️ Storms over the harbors";
    let (of_title, of_passage) = title_marks(same, same, "storm harbors").await;
    assert_eq!(of_title, of_passage);
    assert!(of_title.as_array().is_some_and(|marks| marks.contains(&json!({"start": 19, "end": 26}))), "{of_title}");
    let (of_title, _) = title_marks("a x ".repeat(250).trim_end(), "Bread", "a").await;
    assert_eq!(of_title.as_array().map(Vec::len), Some(100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hit_has_no_title_marks_without_its_title_or_a_match() {
    let server = Server::with_documents(documents()).await;
    let has_marks = async |body: Value| {
        let response = server.post("/v1/collections/news/search", &body).await;
        let hit = &response.body["hits"][0];
        assert_eq!(hit["id"], "harbor", "{}", response.text);
        hit.get("title_marks").is_some()
    };
    let including = |include: Value| json!({"query": "Lervik", "mode": "lexical", "include": include});
    assert!(has_marks(including(json!(["title"]))).await);
    assert!(!has_marks(including(json!(["passage", "text"]))).await);
    assert!(!has_marks(including(json!([]))).await);
    assert!(!has_marks(json!({"query": "boats", "mode": "lexical"})).await, "the word is in the text only");
    assert!(!has_marks(json!({"like": "market", "limit": 1})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_title_finds_a_document_with_several_passages() {
    let text = "The boats leave at dawn. ".repeat(20);
    let documents = json!([
        {"id": "harbor", "title": "Lervik", "text": text},
        {"id": "island", "title": "Bergen", "text": text},
    ]);
    let server = Server::with_documents(documents).await;
    let stored = server.get(PATH).await.body;
    let passages = stored["passages"].as_u64().expect("a number");
    assert!(passages > 1, "{stored}");
    for (title, id) in [("Lervik", "harbor"), ("Bergen", "island")] {
        let response = server.post("/v1/collections/news/search", &json!({"query": title, "mode": "lexical"})).await;
        assert_eq!((first(&response), response.body["hits"].as_array().map(Vec::len)), (Some(id), Some(1)), "{}", response.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_passage_is_searched_with_the_headings_above_it() {
    let text = |place: &str| {
        let walk = "Follow the path along the river until the old mill and cross the bridge. ".repeat(3);
        let boats = "Two boats a day carry cars and bicycles to the islands. ".repeat(3);
        format!("# {place}\n\n{walk}\n\n## Ferries\n\n{boats}")
    };
    let places = ["Lervik", "Tromvik", "Solvik"].map(|place| json!({"id": place.to_lowercase(), "text": text(place)}));
    // More documents, so that islands do not appear everywhere.
    let others =
        (0..6).map(|n| json!({"id": format!("bread-{n}"), "text": format!("Bread number {n} rises in a warm kitchen.")}));
    let server = Server::with_documents(places.into_iter().chain(others).collect()).await;
    let response = search(&server, "Tromvik islands", "lexical").await;
    assert_eq!(first(&response), Some("tromvik"));
    let passage = response.body["hits"][0]["passage"]["text"].as_str().expect("a passage");
    assert!(passage.contains("islands") && !passage.contains("Tromvik"), "{passage}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_include_option_controls_titles_in_hits() {
    let server = Server::with_documents(documents()).await;
    let parts = async |include: Value| {
        let body = json!({"query": "The boats leave", "limit": 1, "include": include});
        let hit = server.post("/v1/collections/news/search", &body).await.body["hits"][0].clone();
        hit.as_object()
            .expect("a hit")
            .keys()
            .filter(|key| !["id", "score", "language"].contains(&key.as_str()))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(parts(json!(["title"])).await, ["title"]);
    assert_eq!(parts(json!(["text"])).await, ["text"]);
    assert_eq!(parts(json!([])).await, [""; 0]);
    let like = json!({"positive": {"ids": ["market"]}, "limit": 1, "include": ["title"]});
    let recommended = server.post("/v1/collections/news/recommend", &like).await;
    assert_eq!(recommended.body["hits"][0]["title"], "Fishing in Lervik");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_sets_or_removes_a_title_and_reembeds_the_text() {
    let server = Server::with_documents(documents()).await;
    let titled = title_score(&server).await;
    let removed = server.patch(PATH, &json!({"title": null})).await;
    assert_eq!((removed.status, removed.body.get("title")), (200, None));
    assert_eq!((&removed.body["indexed"], &removed.body["text"]), (&json!(true), &json!(TEXT)));
    assert!(removed.body["version"].as_u64() > Some(2));
    assert!(title_score(&server).await < titled - 0.05, "the title no longer counts");
    assert_eq!(first(&search(&server, "Lervik", "lexical").await), None);

    let set = server.patch(PATH, &json!({"title": "Fishing in Lervik", "metadata": {"year": 2026}})).await;
    assert_eq!((&set.body["title"], &set.body["metadata"]), (&json!("Fishing in Lervik"), &json!({"year": 2026})));
    assert!((title_score(&server).await - titled).abs() < 1e-6);
    assert_eq!(first(&search(&server, "Lervik", "lexical").await), Some("harbor"));

    let same = server.patch(PATH, &json!({"title": "Fishing in Lervik"})).await;
    assert_eq!(same.body["version"], set.body["version"], "a patch that changes nothing keeps the version");
    let other = server.patch(PATH, &json!({"metadata": {"year": 2027}})).await;
    assert_eq!(other.body["title"], "Fishing in Lervik");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_title_is_refused_and_nothing_is_written() {
    let server = Server::with_documents(documents()).await;
    for (title, words) in [
        (json!("x".repeat(1_001)), &["at most 1000 characters", "got 1001"][..]),
        (json!("é".repeat(1_001)), &["at most 1000 characters", "got 1001"]),
        (json!(""), &["not be blank"]),
        (json!(" "), &["not be blank"]),
        (json!(" \u{3000}"), &["not be blank"]),
        (json!("two\nlines"), &["control characters", "got one at character 4"]),
        (json!("a\u{2028}b"), &["character 2"]),
        (json!("\0"), &["character 1"]),
        (json!(["a"]), &["string"]),
    ] {
        let body = json!({"documents": [{"id": "new", "title": title, "text": "Bread"}]});
        server.post(DOCUMENTS, &body).await.assert_error(422, "invalid_request", "/documents/0/title", words);
        server.put(PATH, &json!({"title": title, "text": "Bread"})).await.assert_error(422, "invalid_request", "/title", words);
        server.patch(PATH, &json!({"title": title})).await.assert_error(422, "invalid_request", "/title", words);
    }
    let null = json!({"documents": [{"id": "new", "title": null, "text": "Bread"}]});
    server.post(DOCUMENTS, &null).await.assert_error(422, "invalid_request", "/documents/0/title", &["must not be null"]);
    assert_eq!(server.get(PATH).await.body["title"], "Fishing in Lervik");
    assert_eq!(server.get(&format!("{DOCUMENTS}/new")).await.status, 404);
    for title in ["Fahrplan für Dezember – gültig ab 14.12.", "時刻表\u{200d}", &"é".repeat(1_000)] {
        assert_eq!(server.put(PATH, &json!({"title": title, "text": TEXT})).await.status, 200);
        assert_eq!(server.get(PATH).await.body["title"], title);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_with_its_own_vector_can_have_a_title() {
    let server = Server::with_limits(Limits::default());
    server.post("/v1/collections", &json!({"name": "points", "dimension": 2})).await;
    let path = "/v1/collections/points/documents";
    let body =
        json!({"documents": [{"id": "a", "title": "Lervik", "vector": [1, 0]}, {"id": "b", "vector": [0, 1], "text": "Bread"}]});
    assert_eq!(server.post(path, &body).await.status, 200);
    let by_words = async |query: &str| {
        let body = json!({"query": query, "mode": "lexical", "include": ["title", "vector"]});
        server.post("/v1/collections/points/search", &body).await.body["hits"][0].clone()
    };
    let hit = by_words("Lervik").await;
    assert_eq!((&hit["id"], &hit["title"], &hit["vector"]), (&json!("a"), &json!("Lervik"), &json!([1.0, 0.0])));
    // A new title changes the words, not the vector.
    assert_eq!(server.patch(&format!("{path}/a"), &json!({"title": "Ferries"})).await.status, 200);
    assert_eq!(by_words("Lervik").await, Value::Null);
    assert_eq!(by_words("Ferries").await["vector"], json!([1.0, 0.0]));
    let near = server.post("/v1/collections/points/search", &json!({"vector": [1, 0], "limit": 1})).await;
    assert_eq!((&near.body["hits"][0]["id"], &near.body["hits"][0]["score"]), (&json!("a"), &json!(1.0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn titles_are_exported_as_ndjson_and_imported_from_ndjson_and_csv() {
    let server = Server::with_documents(documents()).await;
    let lines = server.get("/v1/collections/news/export").await.text;
    assert!(lines.starts_with(r#"{"id":"harbor","title":"Fishing in Lervik","text":"#), "{lines}");
    server.delete("/v1/collections/news").await;
    server.post("/v1/collections", &json!({"name": "news"})).await;
    let job = server.import("application/x-ndjson", lines.clone()).await;
    assert_eq!(job["details"]["failed"], 0, "{job}");
    assert_eq!(server.get("/v1/collections/news/export").await.text, lines);
    assert_eq!(first(&search(&server, "Lervik", "lexical").await), Some("harbor"));
    let job = server.import("text/csv", "id,title,text,metadata.title\nharbor,Ferries,Two boats a day.,by hand\n").await;
    assert_eq!(job["details"]["updated"], 1, "{job}");
    let stored = server.get(PATH).await.body;
    assert_eq!((&stored["title"], &stored["metadata"]), (&json!("Ferries"), &json!({"title": "by hand"})));
    let job = server.import("application/x-ndjson", "{\"text\": \"Bread\", \"title\": \"a\\nb\"}\n").await;
    assert_eq!(job["details"]["failed"], 1, "{job}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_keeps_titles() {
    let server = Server::with_documents(documents()).await;
    let lines = server.get("/v1/collections/news/export").await.text;
    let job = server.finished(&server.post("/v1/snapshots", &json!({"collections": ["news"]})).await).await;
    let snapshot = job["details"]["snapshot"].as_str().expect("an id").to_owned();
    let path = format!("/v1/snapshots/{snapshot}/restore");
    let restoring = server.post(&path, &json!({"collection": "news", "rename_to": "march"})).await;
    assert_eq!(server.finished(&restoring).await["status"], "succeeded");
    assert_eq!(server.get("/v1/collections/march/export").await.text, lines);
    let body = json!({"query": "Lervik", "mode": "lexical", "limit": 1});
    assert_eq!(first(&server.post("/v1/collections/march/search", &body).await), Some("harbor"));
}
