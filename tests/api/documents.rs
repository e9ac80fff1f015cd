//! `/v1/collections/{collection}/documents`.

use axum::body::Body;
use axum::http::Request;
use dragoman::domain::Limits;
use serde_json::{Value, json};

use crate::example;
use crate::server::Server;

const PATH: &str = "/v1/collections/news/documents";

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_created_then_updated() {
    let server = Server::with_news().await;
    let first = server.post(PATH, &example("upsert_documents.request")).await;
    assert_eq!((first.status, first.body), (200, example("upsert_documents.200")));
    let second = server.post(PATH, &example("upsert_documents.request")).await;
    let statuses = second.body["results"].as_array().expect("results").iter().map(|result| &result["status"]);
    assert!(second.status == 200 && statuses.clone().all(|status| status == "updated"), "{}", second.text);
    assert_eq!(server.get("/v1/collections/news").await.body["documents"], statuses.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_comes_back_as_it_was_sent() {
    let metadata = json!({"b": [1, {"c": null}], "a": 0.5, "été": "水"});
    let server = Server::with_documents(json!([{"id": "a", "text": " Ça va ?\n", "language": "fr", "metadata": metadata}])).await;
    let response = server.get(&format!("{PATH}/a")).await;
    assert_eq!(response.status, 200);
    assert_eq!((&response.body["text"], &response.body["metadata"]), (&json!(" Ça va ?\n"), &metadata));
    assert_eq!((&response.body["language"], response.body.get("language_confidence")), (&json!("fr"), None));
    assert_eq!((&response.body["indexed"], &response.body["passages"]), (&json!(true), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_numbers_keep_all_their_digits() {
    let server = Server::with_news().await;
    let numbers = "[0.1,31.245270191439438,-9007199254740993,18446744073709551615,2.2250738585072014e-308]";
    let body = Body::from(format!(r#"{{"text": "x", "metadata": {{"n": {numbers}}}}}"#));
    let request = Request::put(format!("{PATH}/n")).header("content-type", "application/json").body(body);
    assert_eq!(server.send(request.expect("a request")).await.status, 201);
    let found = server.get(&format!("{PATH}/n")).await;
    assert!(found.text.contains(numbers), "{}", found.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_keeps_created_at_and_increases_the_version() {
    let server = Server::with_documents(json!([{"id": "a", "text": "eins"}])).await;
    let before = server.get(&format!("{PATH}/a")).await.body;
    server.post(PATH, &json!({"documents": [{"id": "a", "text": "zwei"}]})).await;
    let after = server.get(&format!("{PATH}/a")).await.body;
    assert_eq!((&after["text"], &after["created_at"]), (&json!("zwei"), &before["created_at"]));
    assert!(after["version"].as_u64() > before["version"].as_u64());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_without_id_gets_a_uuid() {
    let server = Server::with_news().await;
    let response = server.post(PATH, &json!({"documents": [{"text": "Bonjour"}, {"text": "Bonsoir"}]})).await;
    let [id, later] = [0, 1].map(|index: usize| response.body["results"][index]["id"].as_str().expect("an id"));
    assert_eq!((id.len(), id.as_bytes()[14]), (36, b'7'), "{id}");
    assert!(id < later, "{id} {later}");
    assert_eq!(server.get(&format!("{PATH}/{id}")).await.body["text"], "Bonjour");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upsert_with_wait_stored_makes_the_document_readable() {
    let server = Server::paused_with_news().await;
    let response = server.post(&format!("{PATH}?wait=stored"), &json!({"documents": [{"id": "a", "text": "Bonjour"}]})).await;
    assert_eq!(response.status, 200);
    let read = server.get(&format!("{PATH}/a")).await;
    assert_eq!((read.status, &read.body["text"], &read.body["indexed"]), (200, &json!("Bonjour"), &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partly_failed_upsert_returns_207() {
    let server = Server::with_news().await;
    let documents =
        json!([{"id": "a", "text": "Bonjour"}, {"id": "b", "text": " \n"}, {"id": "c", "text": "x", "language": "xx"}]);
    let response = server.post(PATH, &json!({"documents": documents})).await;
    assert_eq!((response.status, &response.body["failed"]), (207, &json!(2)));
    let results = &response.body["results"];
    assert_eq!(results[0], json!({"id": "a", "status": "created", "version": 1}));
    assert_eq!((&results[1]["id"], &results[1]["status"]), (&json!("b"), &json!("failed")));
    assert_eq!(results[1]["error"]["pointer"], "/documents/1/text");
    assert_eq!(results[2]["error"]["code"], "unknown_language");
    assert_eq!(server.get("/v1/collections/news").await.body["documents"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upsert_whose_documents_all_fail_returns_422() {
    let server = Server::with_news().await;
    let response = server.post(PATH, &json!({"documents": [{"text": ""}, {"id": "", "text": "Bonjour"}]})).await;
    response.assert_error(422, "invalid_request", "/documents/0/text", &["not be blank", "1 more"]);
    assert_eq!(response.places(), ["/documents/0/text", "/documents/1/id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_documents_are_refused_with_the_offending_field() {
    let limits = Limits { text_bytes_max: 100, metadata_bytes_max: 200, metadata_depth_max: 3, ..Limits::default() };
    let server = Server::with_limits(limits);
    server.post("/v1/collections", &json!({"name": "news"})).await;
    let check = async |document: Value, code: &str, member: &str, words: &[&str]| {
        let response = server.post(PATH, &json!({"documents": [document]})).await;
        response.assert_error(422, code, &format!("/documents/0{member}"), words);
    };
    check(json!({"text": "\u{3000}\t"}), "invalid_request", "/text", &["not be blank"]).await;
    check(json!({"text": "語".repeat(34)}), "invalid_request", "/text", &["at most 100 bytes", "got 102"]).await;
    check(json!({"text": "a", "id": "a\nb"}), "invalid_request", "/id", &["control characters"]).await;
    check(json!({"text": "a", "id": "x".repeat(513)}), "invalid_request", "/id", &["1 to 512 bytes", "got 513"]).await;
    check(json!({"text": "a", "language": "is"}), "unknown_language", "/language", &["62", "\"is\""]).await;
    check(json!({"text": "a", "language": "french"}), "invalid_request", "/language", &["BCP 47", "\"french\""]).await;
    let deep = json!({"a": [{"b": {}}]});
    check(json!({"text": "a", "metadata": deep}), "invalid_request", "/metadata", &["at most 3 levels", "got 4"]).await;
    check(json!({"text": "a", "metadata": {"b": [{"a\0": 1}]}}), "invalid_request", "/metadata", &["U+0000"]).await;
    let reserved = json!({"b": [{"$serde_json::private::RawValue": "1"}]});
    check(json!({"text": "a", "metadata": reserved}), "invalid_request", "/metadata/b/0", &["is reserved"]).await;
    let large = json!({"a": "x".repeat(200)});
    check(json!({"text": "a", "metadata": large}), "invalid_request", "/metadata", &["at most 200 bytes", "got 208"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_upsert_request_stores_nothing() {
    let server = Server::with_limits(Limits { batch_documents_max: 2, ..Limits::default() });
    server.post("/v1/collections", &json!({"name": "news"})).await;
    let good = json!({"id": "a", "text": "Bonjour"});
    let check = async |body: Value, place: &str, words: &[&str]| {
        server.post(PATH, &body).await.assert_error(422, "invalid_request", place, words);
    };
    check(json!({"documents": []}), "/documents", &["1 to 2 documents", "got 0"]).await;
    check(json!({"documents": [good, good, good]}), "/documents", &["1 to 2 documents", "got 3"]).await;
    check(
        json!({"documents": [{"txt": "a"}]}),
        "/documents/0/txt",
        &["unknown field `txt`", "; other fields belong in `metadata`"],
    )
    .await;
    check(json!({"documents": [{"text": 1}]}), "/documents/0/text", &["integer `1`", "expected a string"]).await;
    check(json!({"documents": [{"text": "a", "metadata": []}]}), "/documents/0/metadata", &["expected an object"]).await;
    check(json!({"documents": [good], "wait": "stored"}), "/wait", &["unknown field `wait`"]).await;
    check(json!({"documents": good}), "/documents", &["expected an array"]).await;
    check(json!([[good]]), "", &["invalid type: array", "expected an object"]).await;
    check(json!({"documents": [["a", "Bonjour"]]}), "/documents/0", &["invalid type: array"]).await;
    assert_eq!(server.get(PATH).await.body, json!({"documents": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn json_nested_too_deeply_is_malformed() {
    let server = Server::with_news().await;
    let nested = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let response = server.post(PATH, &json!({"documents": [{"text": "a", "metadata": {"a": nested}}]})).await;
    response.assert_error(400, "malformed_json", "", &["at most 127 levels of objects and arrays, got more"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_query_parameters_of_an_upsert_are_refused() {
    let server = Server::with_news().await;
    let body = json!({"documents": [{"text": "Bonjour"}]});
    let check = async |query: &str, place: &str, words: &[&str]| {
        server.post(&format!("{PATH}?{query}"), &body).await.assert_error(422, "invalid_request", place, words);
    };
    check("wait=never", "wait", &["stored or indexed", "\"never\""]).await;
    check("wiat=stored", "wiat", &["unknown parameter `wiat`"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_documents_fail_without_failing_the_others() {
    let server = Server::with_news().await;
    let documents = json!([
        {"id": "a", "text": "Bonjour"},
        {"id": "b", "text": 1},
        ["c", "Bonjour"],
        {"id": "d", "text": "Bonjour", "language": null, "metadata": {"year": null}},
        {"id": "e", "txt": "Bonjour", "title": 7},
        {"id": "f\n", "text": " ", "language": "french"},
        {"id": "g", "text": "Bonsoir"},
    ]);
    let response = server.post(PATH, &json!({"documents": documents})).await;
    assert_eq!((response.status, &response.body["failed"]), (207, &json!(5)), "{}", response.text);
    let results = response.body["results"].as_array().expect("results");
    let statuses: Vec<&str> = results.iter().filter_map(|result| result["status"].as_str()).collect();
    assert_eq!(statuses, ["created", "failed", "failed", "failed", "failed", "failed", "created"]);
    let ids: Vec<Option<&str>> = results.iter().map(|result| result["id"].as_str()).collect();
    assert_eq!(ids, [Some("a"), Some("b"), None, Some("d"), Some("e"), None, Some("g")]);
    for (index, place, words) in [
        (1, "/documents/1/text", &["integer `1`", "expected a string"][..]),
        (2, "/documents/2", &["array", "expected an object"]),
        (3, "/documents/3/language", &["null", "leave it out"]),
        (4, "/documents/4/txt", &["unknown field `txt`", "/documents/4/title: invalid type: integer `7`"]),
        (5, "/documents/5/id", &["control", "/documents/5/text: must not be blank", "/documents/5/language: "]),
    ] {
        let error = &results[index]["error"];
        assert_eq!((&error["code"], &error["pointer"]), (&json!("invalid_request"), &json!(place)), "{error}");
        for word in words {
            assert!(error["detail"].as_str().is_some_and(|detail| detail.contains(word)), "{word:?} is not in {error}");
        }
    }
    let none = server.post(PATH, &json!({"documents": [{"text": 1}, {"text": " ", "language": "french"}]})).await;
    assert_eq!(none.status, 422);
    assert_eq!(none.places(), ["/documents/0/text", "/documents/1/text", "/documents/1/language"]);
    assert_eq!(server.get("/v1/collections/news").await.body["documents"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_with_special_characters_work_when_percent_encoded() {
    let server = Server::with_news().await;
    let cases = [
        ("a/b", "a%2Fb"),
        ("été 1", "%C3%A9t%C3%A9%201"),
        ("文書?#", "%E6%96%87%E6%9B%B8%3F%23"),
        ("100%", "100%25"),
        ("a.b", "a.b"),
    ];
    for (id, encoded) in cases {
        assert_eq!(server.post(PATH, &json!({"documents": [{"id": id, "text": "Bonjour"}]})).await.status, 200, "{id}");
        assert_eq!(server.get(&format!("{PATH}/{encoded}")).await.body["id"], id);
        assert_eq!(server.delete(&format!("{PATH}/{encoded}")).await.status, 204, "{id}");
        server.get(&format!("{PATH}/{encoded}")).await.assert_error(404, "document_not_found", "", &[id]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_listed_by_id_in_pages() {
    let documents: Vec<Value> = ["d", "b", "a", "c", "e"].iter().map(|id| json!({"id": id, "text": "Bonjour"})).collect();
    let server = Server::with_documents(json!(documents)).await;
    let first = server.get(&format!("{PATH}?limit=3")).await;
    let ids =
        |body: &Value| body["documents"].as_array().expect("a list").iter().map(|one| one["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&first.body), ["a", "b", "c"]);
    let cursor = first.body["next_cursor"].as_str().expect("a cursor");
    let second = server.get(&format!("{PATH}?limit=3&cursor={cursor}")).await;
    assert_eq!((ids(&second.body), second.body.get("next_cursor")), (vec![json!("d"), json!("e")], None));
    server.get(&format!("/v1/collections?cursor={cursor}")).await.assert_error(422, "invalid_cursor", "cursor", &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_collection_returns_404_with_its_name() {
    let server = Server::start();
    let body = json!({"documents": [{"text": "Bonjour"}]});
    for response in [server.post(PATH, &body).await, server.get(PATH).await, server.get(&format!("{PATH}/a")).await] {
        response.assert_error(404, "collection_not_found", "", &["news"]);
    }
    server.delete(&format!("{PATH}/a")).await.assert_error(404, "collection_not_found", "", &["news"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_an_unknown_document_returns_404() {
    let server = Server::with_news().await;
    server.delete(&format!("{PATH}/a")).await.assert_error(404, "document_not_found", "", &["a", "news"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_range_numbers_and_lone_surrogates_are_refused_with_a_reason() {
    let server = Server::with_news().await;
    for (metadata, why) in [(r#"{"n": 1e400}"#, "number out of range"), (r#"{"n": "\ud83d"}"#, "half of a surrogate pair")] {
        let body = format!(r#"{{"text": "x", "metadata": {metadata}}}"#);
        let request = Request::put(format!("{PATH}/n")).header("content-type", "application/json").body(Body::from(body));
        let refused = server.send(request.expect("a request")).await;
        refused.assert_error(422, "invalid_request", "/metadata/n", &[why]);
    }
}
