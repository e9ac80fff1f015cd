//! Scroll, count, delete by filter, facets.

use dragoman::domain::Limits;
use serde_json::{Value, json};

use crate::example;
use crate::server::{Response, Server};

const DOCUMENTS: &str = "/v1/collections/news/documents";
const FACETS: &str = "/v1/collections/news/facets";

fn ids(response: &Response) -> Vec<String> {
    assert_eq!(response.status, 200, "{}", response.text);
    let documents = response.body["documents"].as_array().expect("documents").iter();
    documents.map(|one| one["id"].as_str().expect("an id").to_owned()).collect()
}

async fn numbered(count: usize) -> Server {
    let document = |n: usize| json!({"id": format!("d{n:03}"), "text": "Il pleut.", "metadata": {"n": n, "even": usize::is_multiple_of(n, 2)}});
    Server::with_documents(json!((0..count).map(document).collect::<Vec<_>>())).await
}

/// The document ids of each page of a scroll, in order.
async fn pages(server: &Server, mut body: Value) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    loop {
        let response = server.post(&format!("{DOCUMENTS}/scroll"), &body).await;
        pages.push(ids(&response));
        match response.body.get("next_cursor") {
            Some(cursor) => body["cursor"] = cursor.clone(),
            None => return pages,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scroll_pages_are_complete_in_every_order() {
    let server = numbered(5).await;
    // Stored later, so it is last by time.
    server.post(DOCUMENTS, &json!({"documents": [{"id": "a", "text": "Es regnet.", "metadata": {"even": true}}]})).await;
    let even = json!({"field": "even", "eq": true});
    let check = async |order: &str, descending: bool, expect: &[&[&str]]| {
        let body = json!({"filter": even, "order": order, "descending": descending, "limit": 2});
        assert_eq!(pages(&server, body).await, expect, "{order} {descending}");
    };
    check("id", false, &[&["a", "d000"], &["d002", "d004"]]).await;
    check("id", true, &[&["d004", "d002"], &["d000", "a"]]).await;
    for time in ["created_at", "updated_at"] {
        let all = pages(&server, json!({"order": time, "limit": 2})).await.concat();
        let mut sorted = all.clone();
        sorted.sort();
        assert_eq!(
            (all.len(), sorted),
            (6, vec!["a", "d000", "d001", "d002", "d003", "d004"].into_iter().map(str::to_owned).collect())
        );
        let mut turned = pages(&server, json!({"order": time, "descending": true, "limit": 4})).await.concat();
        turned.reverse();
        assert_eq!(turned, all);
    }
    assert_eq!(pages(&server, json!({"filter": {"or": []}})).await, [Vec::<String>::new()]);
}

/// One document per kind of value, in the order that `order_by` documents.
const VALUES: [(&str, &str); 10] = [
    ("h", "-1.5"),
    ("e", "0.1"),
    ("d", "true"),
    ("a", "2"),
    ("f", "10"),
    ("b", "\"B\""),
    ("j", "[\"x\"]"),
    ("c", "\"a\""),
    ("g", "null"),
    ("i", ""),
];

#[tokio::test(flavor = "multi_thread")]
async fn order_by_puts_numbers_before_strings_and_missing_values_last() {
    let document = |(id, value): &(&str, &str)| {
        let metadata = if value.is_empty() { "{}".to_owned() } else { format!("{{\"a\": {{\"v\": {value}}}}}") };
        json!({"id": id, "text": "Il pleut.", "metadata": serde_json::from_str::<Value>(&metadata).expect("JSON")})
    };
    let server = Server::with_documents(VALUES.iter().map(document).collect()).await;
    let ascending: Vec<&str> = VALUES.iter().map(|(id, _)| *id).collect();
    let mut descending: Vec<&str> = ascending[..8].iter().rev().copied().collect();
    descending.extend(["i", "g"]);
    for indexes in [json!([]), json!(["a.v"])] {
        let indexed = server.patch("/v1/collections/news", &json!({ "metadata_indexes": indexes })).await;
        assert_eq!(indexed.status, 200, "{}", indexed.text);
        for limit in 1..=11 {
            for (direction, expect) in [("asc", &ascending), ("desc", &descending)] {
                let body = json!({"order_by": {"field": "a.v", "direction": direction}, "limit": limit});
                assert_eq!(pages(&server, body).await.concat(), *expect, "{indexes} {direction} {limit}");
            }
        }
        let some = json!({"order_by": {"field": "a.v"}, "filter": {"field": "a.v", "gt": 0}});
        assert_eq!(pages(&server, some).await, [["e", "a", "f"]], "{indexes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ties_are_ordered_by_id_and_cursors_survive_deletions() {
    let document = |n: usize| json!({"id": format!("d{n}"), "text": "Il pleut.", "metadata": {"third": n / 3}});
    let server = Server::with_documents((0..7).map(document).collect()).await;
    let scroll = format!("{DOCUMENTS}/scroll");
    let mut body = json!({"order_by": {"field": "third", "direction": "desc"}, "limit": 2});
    let first = server.post(&scroll, &body).await;
    assert_eq!(ids(&first), ["d6", "d5"]);
    server.delete(&format!("{DOCUMENTS}/d5")).await;
    server.post(DOCUMENTS, &json!({"documents": [{"id": "d9", "text": "Il neige.", "metadata": {"third": 9}}]})).await;
    body["cursor"] = first.body["next_cursor"].clone();
    assert_eq!(
        pages(&server, body).await,
        [["d4", "d3"], ["d2", "d1"]].map(Vec::from).into_iter().chain([vec!["d0"]]).collect::<Vec<_>>()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn order_by_a_document_field_equals_the_named_order() {
    let server = numbered(4).await;
    for field in ["id", "created_at", "updated_at"] {
        for (direction, descending) in [("asc", false), ("desc", true)] {
            let named = pages(&server, json!({"order": field, "descending": descending, "limit": 3})).await;
            let by = json!({"order_by": {"field": field, "direction": direction}, "limit": 3});
            assert_eq!(pages(&server, by).await, named, "{field} {direction}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_order_reports_all_error_locations() {
    let server = numbered(1).await;
    let check = async |body: Value, places: &[&str], words: &[&str]| {
        let response = server.post(&format!("{DOCUMENTS}/scroll"), &body).await;
        response.assert_error(422, "invalid_request", places[0], words);
        assert_eq!(response.places(), places, "{}", response.text);
    };
    check(json!({"order_by": {"field": "language"}}), &["/order_by/field"], &["metadata path", "language"]).await;
    check(json!({"order_by": {"field": "a..b"}}), &["/order_by/field"], &["single dots"]).await;
    check(json!({"order_by": {"field": "n", "direction": "up"}}), &["/order_by/direction"], &["`asc`"]).await;
    check(json!({"order_by": {"direction": "asc"}}), &["/order_by/field"], &["missing field"]).await;
    check(json!({"order_by": "n"}), &["/order_by"], &["expected an object"]).await;
    let several = json!({"limit": 0, "order": "id", "descending": true, "order_by": {"field": "language"}});
    check(several, &["/limit", "/order", "/descending", "/order_by/field"], &[]).await;
    let first = server.post(&format!("{DOCUMENTS}/scroll"), &json!({"order_by": {"field": "n"}})).await;
    assert_eq!(ids(&first), ["d000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn updating_a_document_moves_it_to_the_end_of_the_updated_at_order() {
    let server = numbered(3).await;
    tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    server.post(DOCUMENTS, &json!({"documents": [{"id": "d000", "text": "Il neige."}]})).await;
    assert_eq!(pages(&server, json!({"order": "updated_at"})).await, [["d001", "d002", "d000"]]);
    assert_eq!(pages(&server, json!({"order": "created_at"})).await, [["d000", "d001", "d002"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_is_only_valid_with_its_filter_and_order() {
    let server = numbered(3).await;
    let scroll = format!("{DOCUMENTS}/scroll");
    let first = server.post(&scroll, &json!({"limit": 1, "filter": {"field": "n", "gte": 0}})).await;
    let cursor = &first.body["next_cursor"];
    let check = async |body: Value| {
        server.post(&scroll, &body).await.assert_error(422, "invalid_cursor", "/cursor", &["same filter and order"]);
    };
    check(json!({"cursor": cursor})).await;
    check(json!({"cursor": cursor, "filter": {"field": "n", "gte": 1}})).await;
    check(json!({"cursor": cursor, "filter": {"field": "n", "gte": 0}, "order": "created_at"})).await;
    check(json!({"cursor": cursor, "filter": {"field": "n", "gte": 0}, "descending": true})).await;
    check(json!({"cursor": "x"})).await;
    server.post(&scroll, &json!({"limit": 0})).await.assert_error(422, "invalid_request", "/limit", &["from 1 to 1000"]);
    server.post(&scroll, &json!({"order": "text"})).await.assert_error(422, "invalid_request", "/order", &["`created_at`"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_counted_with_and_without_a_filter() {
    let server = numbered(5).await;
    let count = format!("{DOCUMENTS}/count");
    assert_eq!(server.post(&count, &json!({})).await.body, json!({"documents": 5}));
    assert_eq!(server.post(&count, &json!({"filter": {"field": "even", "eq": true}})).await.body, json!({"documents": 3}));
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_by_filter_deletes_all_matching_documents() {
    let server = numbered(1_000).await;
    // More documents than one transaction deletes.
    server.post(DOCUMENTS, &json!({"documents": (1_000..1_700).map(|n| json!({"id": format!("e{n}"), "text": "Il neige.", "metadata": {"even": usize::is_multiple_of(n, 2)}})).collect::<Vec<_>>()})).await;
    let delete = format!("{DOCUMENTS}/delete");
    let even = json!({"filter": {"field": "even", "eq": true}});
    assert_eq!(server.post(&delete, &even).await.body, json!({"deleted": 850}));
    assert_eq!(server.post(&delete, &even).await.body, json!({"deleted": 0}));
    assert_eq!(server.get("/v1/collections/news").await.body["documents"], 850);
    let found = server.post("/v1/collections/news/search", &json!({"query": "Il pleut.", "limit": 1000})).await;
    let hits = found.body["hits"].as_array().expect("hits");
    assert!(hits.len() == 850 && hits.iter().all(|hit| hit["metadata"]["even"] == false));
    server.post(&delete, &json!({})).await.assert_error(422, "invalid_request", "", &["exactly one of filter and ids"]);
    assert_eq!(server.post(&delete, &json!({"filter": {"and": []}})).await.body, json!({"deleted": 850}));
    assert_eq!(server.get("/v1/collections/news").await.body["passages"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_deleted_by_their_ids() {
    let documents = json!([{"id": "a", "text": "un"}, {"id": "b/ü", "text": "deux"}, {"id": "c", "text": "trois"}]);
    let server = Server::with_documents(documents).await;
    let delete = format!("{DOCUMENTS}/delete");
    assert_eq!(server.post(&delete, &json!({"ids": ["a", "b/ü", "none", "a"]})).await.body, json!({"deleted": 2}));
    assert_eq!(server.post(&delete, &json!({"ids": ["a"]})).await.body, json!({"deleted": 0}));
    assert_eq!(server.get(&format!("{DOCUMENTS}/c")).await.status, 200);
    let check = async |body: Value, place: &str, words: &[&str]| {
        server.post(&delete, &body).await.assert_error(422, "invalid_request", place, words);
    };
    check(json!({"ids": []}), "/ids", &["1 to 10000 ids", "got 0"]).await;
    check(json!({"ids": vec!["c"; 10_001]}), "/ids", &["1 to 10000 ids", "got 10001"]).await;
    check(json!({"ids": ["c", "a\n"]}), "/ids/1", &["control"]).await;
    check(json!({"ids": "c"}), "/ids", &["expected an array"]).await;
    check(json!({"ids": ["c"], "filter": {"and": []}}), "", &["exactly one of filter and ids", "got both"]).await;
    assert_eq!(server.get("/v1/collections/news").await.body["documents"], 1);
    let key = ("idempotency-key", "once");
    for _ in 0..2 {
        let response = server.send_with(axum::http::Method::POST, &delete, key, &json!({"ids": ["c"]})).await;
        assert_eq!(response.body, json!({"deleted": 1}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_deletions_count_each_document_once() {
    let server = numbered(900).await;
    let (delete, all) = (format!("{DOCUMENTS}/delete"), json!({"filter": {"and": []}}));
    let (one, other) = tokio::join!(server.post(&delete, &all), server.post(&delete, &all));
    let deleted = |response: &Response| response.body["deleted"].as_u64().expect("a number");
    assert_eq!(deleted(&one) + deleted(&other), 900);
}

#[tokio::test(flavor = "multi_thread")]
async fn facets_count_values_by_type_and_array_elements_separately() {
    let documents = json!([
        {"id": "a", "text": "un", "language": "fr", "metadata": {"tag": ["x", "x", 1, true, null, {"y": 1}], "in": {"n": 1}}},
        {"id": "b", "text": "deux", "language": "fr", "metadata": {"tag": ["1", 1.0, "x"], "in": {"n": 1.5}}},
        {"id": "c", "text": "drei", "language": "de", "metadata": {"tag": "x", "in": {"n": 1}}},
        {"id": "d", "text": "0123456789", "metadata": {"tag": [], "in": {"n": false}}},
        {"id": "e", "text": "9876543210", "metadata": {"tag": null}},
    ]);
    let server = Server::with_documents(documents).await;
    let facets = json!([{"field": "tag"}, {"field": "in.n"}, {"field": "language", "limit": 1}, {"field": "nothing"}]);
    let response = server.post(FACETS, &json!({ "facets": facets })).await;
    assert_eq!((response.status, &response.body["documents"]), (200, &json!(5)), "{}", response.text);
    let value = |value: Value, documents: u64| json!({"value": value, "documents": documents});
    let facet = |field: &str, values: Value, missing: u64| json!({"field": field, "values": values, "missing": missing});
    let expect = json!([
        facet("tag", json!([value(json!("x"), 3), value(json!(1), 2), value(json!("1"), 1), value(json!(true), 1)]), 1),
        facet("in.n", json!([value(json!(1), 2), value(json!(false), 1), value(json!(1.5), 1)]), 1),
        facet("language", json!([value(json!("fr"), 2)]), 2),
        facet("nothing", json!([]), 5),
    ]);
    assert_eq!(response.body["facets"], expect);
    let german = json!({"filter": {"field": "language", "eq": "de"}, "facets": [{"field": "tag"}]});
    let response = server.post(FACETS, &german).await;
    assert_eq!(response.body, json!({"documents": 1, "facets": [facet("tag", json!([value(json!("x"), 1)]), 0)]}));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openapi_facets_example_returns_the_documented_counts() {
    let server = Server::with_news().await;
    server.post(DOCUMENTS, &example("upsert_documents.request")).await;
    assert_eq!(server.post(FACETS, &example("count_facets.request")).await.body, example("count_facets.200"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_facet_reports_its_location() {
    let server = Server::with_news().await;
    let check = async |facets: Value, place: &str, words: &[&str]| {
        server.post(FACETS, &json!({ "facets": facets })).await.assert_error(422, "invalid_request", place, words);
    };
    check(json!([]), "/facets", &["1 to 20", "got 0"]).await;
    check(json!([{"field": "id"}]), "/facets/0/field", &["language or a metadata path", "\"id\""]).await;
    check(json!([{"field": "year"}, {"field": "a..b"}]), "/facets/1/field", &["single dots"]).await;
    check(json!([{"field": "year", "limit": 0}]), "/facets/0/limit", &["from 1 to 1000"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_limit_is_capped_by_the_server_limit() {
    let server = Server::with_limits(Limits { page_max: 2, ..Limits::default() });
    server.create(json!({"name": "news"})).await;
    let documents: Vec<Value> =
        (0..3).map(|n| json!({"id": format!("d{n}"), "text": "Il pleut.", "metadata": {"n": n}})).collect();
    for document in documents {
        assert_eq!(server.post(DOCUMENTS, &json!({"documents": [document]})).await.status, 200);
    }
    assert_eq!(ids(&server.post(&format!("{DOCUMENTS}/scroll"), &json!({})).await), ["d0", "d1"]);
    let facets = server.post(FACETS, &json!({"facets": [{"field": "n"}]})).await;
    assert_eq!(facets.body["facets"][0]["values"].as_array().map(Vec::len), Some(2), "{}", facets.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn facets_beyond_the_response_size_limit_are_refused() {
    let server = Server::with_limits(Limits { answer_bytes_max: 3_000, ..Limits::default() });
    server.create(json!({"name": "news"})).await;
    let document = |n: usize| json!({"id": format!("d{n}"), "text": "Il pleut.", "metadata": {"n": n, "blob": format!("{n}").repeat(1_000)}});
    let documents: Vec<Value> = (0..4).map(document).collect();
    assert_eq!(server.post(DOCUMENTS, &json!({ "documents": documents })).await.status, 200);
    let search = "/v1/collections/news/search";
    for (facets, words) in [
        (json!([{"field": "blob"}]), ["4000 bytes", "at most 3000"]),
        (json!([{"field": "blob", "limit": 2}, {"field": "n"}, {"field": "blob", "limit": 2}]), ["4000 bytes", "limit"]),
    ] {
        server.post(FACETS, &json!({ "facets": facets })).await.assert_error(422, "answer_too_large", "", &words);
        let asked = json!({"query": "a", "limit": 1, "include": [], "facets": facets});
        server.post(search, &asked).await.assert_error(422, "answer_too_large", "", &words);
    }
    let few = json!([{"field": "blob", "limit": 3}]);
    assert_eq!(server.post(FACETS, &json!({ "facets": few })).await.status, 200);
    let along = json!({"query": "a", "limit": 1, "include": ["text"], "facets": few});
    server.post(search, &along).await.assert_error(422, "answer_too_large", "", &["3009 bytes"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn scroll_count_delete_and_facets_of_an_unknown_collection_return_404() {
    let server = Server::start();
    for path in [format!("{DOCUMENTS}/scroll"), format!("{DOCUMENTS}/count")] {
        server.post(&path, &json!({})).await.assert_error(404, "collection_not_found", "", &["news"]);
    }
    let all = json!({"filter": {"and": []}});
    server.post(&format!("{DOCUMENTS}/delete"), &all).await.assert_error(404, "collection_not_found", "", &["news"]);
    let facets = json!({"facets": [{"field": "year"}]});
    server.post(FACETS, &facets).await.assert_error(404, "collection_not_found", "", &["news"]);
}
