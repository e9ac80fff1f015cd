//! The three inputs of a search: a text, a vector, or a document of the collection.

use serde_json::{Value, json};

use crate::search::{PATH, documents, ids};
use crate::server::{DIMENSION, Server};

/// The embedding of a document, as returned by a search.
async fn vector_of(server: &Server, id: &str) -> Value {
    let body = json!({"query": "x", "limit": 100, "include": ["vector"]});
    let response = server.post(PATH, &body).await;
    let hits = response.body["hits"].as_array().expect("hits");
    hits.iter().find(|hit| hit["id"] == id).expect("the document")["vector"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vector_search_finds_neighbors_regardless_of_magnitude() {
    let server = Server::with_documents(documents()).await;
    let vector = vector_of(&server, "ja").await;
    let response = server.post(PATH, &json!({"vector": vector})).await;
    assert_eq!(ids(&response)[0], "ja");
    assert!(response.body["hits"][0]["score"].as_f64().is_some_and(|score| score > 0.999), "{}", response.text);
    let longer: Vec<f64> =
        vector.as_array().expect("values").iter().map(|value| value.as_f64().expect("a number") * 7.0).collect();
    let again = server.post(PATH, &json!({"vector": longer, "languages": ["ja", "de"]})).await;
    assert_eq!(ids(&again), ["ja", "de"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn searching_like_a_document_finds_similar_ones_but_not_itself() {
    let server = Server::with_documents(json!([
        {"id": "a", "text": "The tram line opens in spring.", "language": "en"},
        {"id": "b", "text": "The tram line opens in summer.", "language": "en"},
        {"id": "c", "text": "Wir suchen einen Gärtner.", "language": "de"},
    ]))
    .await;
    let response = server.post(PATH, &json!({"like": "a"})).await;
    assert_eq!(ids(&response), ["b", "c"]);
    assert_eq!(ids(&server.post(PATH, &json!({"like": "a", "limit": 1})).await), ["b"]);
    assert_eq!(ids(&server.post(PATH, &json!({"like": "a", "languages": ["de"]})).await), ["c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn searching_like_a_long_document_ranks_its_main_topic_first() {
    let server = Server::with_news().await;
    let tram = "The tram line opens in spring and the whole town is waiting for it to come. ".repeat(3);
    let garden = "Wir suchen seit Wochen einen guten Gärtner für den alten Garten hinter dem Haus.";
    // The mean of all passages decides, whichever passage comes first.
    for text in [format!("{tram}{garden}"), format!("{garden} {tram}")] {
        let documents = json!({"documents": [
            {"id": "long", "text": text, "language": "en"},
            {"id": "tram", "text": "The tram line opens in spring.", "language": "en"},
            {"id": "garden", "text": "einen guten Gärtner für den Garten", "language": "de"},
        ]});
        assert_eq!(server.post("/v1/collections/news/documents", &documents).await.status, 200);
        assert_eq!(ids(&server.post(PATH, &json!({"like": "long"})).await), ["tram", "garden"], "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_vector_or_example_document_is_refused() {
    let server = Server::with_documents(documents()).await;
    let check = async |body: Value, status: u16, code: &str, place: &str, words: &[&str]| {
        server.post(PATH, &body).await.assert_error(status, code, place, words);
    };
    let values = |value: f64, count: usize| Value::from(vec![value; count]);
    let (few, zero) = (values(0.5, 3), values(0.0, DIMENSION));
    check(json!({"vector": few}), 422, "invalid_request", "/vector", &["must have 64 values", "got 3"]).await;
    check(json!({"vector": zero}), 422, "invalid_request", "/vector", &["all zeros"]).await;
    check(json!({"vector": []}), 422, "invalid_request", "/vector", &["64 values", "got 0"]).await;
    check(json!({"vector": [1.0, 1e39]}), 422, "invalid_request", "/vector/1", &["32-bit"]).await;
    check(json!({"vector": [1.0, "2"]}), 422, "invalid_request", "/vector/1", &["expected a number"]).await;
    check(json!({"vector": "1,2"}), 422, "invalid_request", "/vector", &["expected an array"]).await;
    check(json!({"like": ""}), 422, "invalid_request", "/like", &["1 to 512 bytes"]).await;
    check(json!({"like": "nobody"}), 404, "document_not_found", "", &["nobody"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn searching_like_a_pending_document_returns_503_with_retry_after() {
    let server = Server::paused_with_news().await;
    let body = json!({"documents": [{"id": "new", "text": "Ein neuer Text."}]});
    assert_eq!(server.post("/v1/collections/news/documents?wait=stored", &body).await.status, 200);
    let response = server.post(PATH, &json!({"like": "new"})).await;
    response.assert_error(503, "document_pending", "", &["document new", "waits for its embedding"]);
    assert_eq!(response.header("retry-after"), Some("1"));
}
