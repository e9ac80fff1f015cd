//! `/v1/collections/{collection}/projections`: maps of a collection's documents.

use std::path::PathBuf;
use std::sync::Arc;

use axum::http::Method;
use dragoman::domain::Limits;
use dragoman::embed::FakeOptions;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::example;
use crate::server::{Response, Server};

const PATH: &str = "/v1/collections/points/projections";
const DOCUMENTS: &str = "/v1/collections/points/documents";

/// A server on this folder that runs one job at a time.
async fn server_on(folder: &Arc<TempDir>) -> Server {
    Server::on(folder, &FakeOptions::of(64), Limits { jobs_running_max: 1, ..Limits::default() }).await
}

/// A vector near one of two axes.
fn vector(number: usize) -> Vec<f64> {
    let noise = |at: usize| ((number * 31 + at * 17) % 13) as f64 / 40.0;
    (0..8).map(|at| f64::from(u8::from(at == number % 2)) + noise(at)).collect()
}

/// A document whose topic belongs to the axis that it is near; its language is unrelated.
fn document(number: usize) -> Value {
    let (topic, language) = (["sport", "money"][number % 2], ["de", "fr", "fr"][number % 3]);
    let metadata = json!({"topic": topic, "tags": [format!("t{}", number % 25)], "page": {"number": number % 4}});
    json!({"id": format!("d{number:02}"), "vector": vector(number), "language": language, "metadata": metadata})
}

/// Creates the collection `points` with this many documents.
async fn fill(server: &Server, documents: usize) {
    let new = json!({"name": "points", "dimension": 8, "metric": "l2"});
    assert_eq!(server.post("/v1/collections", &new).await.status, 201);
    let documents: Vec<Value> = (0..documents).map(document).collect();
    let response = server.post(DOCUMENTS, &json!({"documents": documents})).await;
    assert_eq!(response.status, 200, "{}", response.text);
}

async fn with_points(documents: usize) -> Server {
    let server = Server::start();
    fill(&server, documents).await;
    server
}

/// Computes a projection, and returns the finished job.
async fn project(server: &Server, request: Value) -> Value {
    let job = server.finished(&server.post(PATH, &request).await).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    job
}

async fn listed(server: &Server) -> Vec<Value> {
    let response = server.get(PATH).await;
    assert_eq!(response.status, 200, "{response:?}");
    response.body["projections"].as_array().expect("projections").clone()
}

fn numbers(column: &Value) -> Vec<f64> {
    column.as_array().expect("a column").iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn ids(response: &Response) -> Vec<&str> {
    response.body["ids"].as_array().expect("ids").iter().map(|id| id.as_str().expect("an id")).collect()
}

/// The projection files in the folder of the only collection.
fn files(server: &Server) -> Vec<PathBuf> {
    let folder = server._folder.path().join("collections");
    let folder = std::fs::read_dir(folder).expect("a folder").next().expect("a collection").expect("an entry").path();
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.to_string_lossy().contains("projection.")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_projection_is_computed_listed_and_read() {
    let server = with_points(60).await;
    assert_eq!(listed(&server).await, [json!(null); 0]);
    let job = project(&server, json!({})).await;
    assert_eq!((&job["type"], &job["collection"]), (&json!("project"), &json!("points")));
    let details = &job["details"];
    assert_eq!((&details["center"], &details["documents"], &details["sampled"]), (&json!("none"), &json!(60), &json!(false)));
    assert!(details["memory_bytes"].as_u64() > Some(60 * 8 * 5) && details["layout_ms"].is_u64(), "{details}");
    assert!(details.get("phase").is_none(), "{details}");
    assert_eq!((&job["progress"]["done"], &job["progress"]["unit"]), (&job["progress"]["total"], &json!("steps")));

    let [shown] = &listed(&server).await[..] else { panic!("there is one") };
    let expect = json!({"center": "none", "documents": 60, "sampled": false, "collection_documents": 60, "stale": false,
        "created_at": shown["created_at"]});
    assert_eq!(*shown, expect);

    let response = server.get(&format!("{PATH}/none?field=topic")).await;
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(ids(&response), (0..60).map(|number| format!("d{number:02}")).collect::<Vec<_>>());
    assert_eq!((&response.body["center"], &response.body["stale"]), (&json!("none"), &json!(false)));
    assert_eq!(response.body["created_at"], shown["created_at"]);
    assert_eq!(response.body["languages"], json!(["fr", "de"]), "the most frequent one first");
    let languages: Vec<i32> = (0..60).map(|number| [1, 0, 0][number % 3]).collect();
    assert_eq!(response.body["language"], json!(languages));
    assert_eq!(response.body["values"], json!(["money", "sport"]), "ties are listed in ascending order");
    let values: Vec<usize> = (0..60).map(|number| 1 - number % 2).collect();
    assert_eq!(response.body["value"], json!(values));

    let (x, y) = (numbers(&response.body["x"]), numbers(&response.body["y"]));
    assert_eq!((x.len(), y.len()), (60, 60));
    assert!(x.iter().chain(&y).all(|value| (-1.0..=1.0).contains(value)));
    assert!(x.iter().chain(&y).any(|value| *value > 0.999), "they fill the range");
    assert!(x.iter().all(|value| (value * 1e5 - (value * 1e5).round()).abs() < 0.02), "five digits: {x:?}");
    let distance = |one: usize, other: usize| (x[one] - x[other]).hypot(y[one] - y[other]);
    for one in 0..60 {
        let others = (0..60).filter(|other| *other != one);
        let nearest = others.min_by(|a, b| distance(one, *a).total_cmp(&distance(one, *b))).expect("another");
        assert_eq!(nearest % 2, one % 2, "{one} is beside {nearest}, of the other cluster");
    }
    let plain = server.get(&format!("{PATH}/none")).await;
    assert!(plain.body.get("values").is_none() && plain.body.get("value").is_none(), "{plain:?}");
    assert_eq!(plain.body["x"], response.body["x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_most_frequent_values_are_listed() {
    let server = with_points(50).await;
    project(&server, json!({})).await;
    let response = server.get(&format!("{PATH}/none?field=tags")).await;
    let values = response.body["values"].as_array().expect("values");
    assert_eq!((values.len(), &values[0], &values[18]), (19, &json!("t0"), &json!("t3")), "{values:?}");
    // Of 25 tags with two documents each, six are left out.
    let rare = numbers(&response.body["value"]).into_iter().filter(|value| *value < 0.0).count();
    assert_eq!(rare, 12);
    let response = server.get(&format!("{PATH}/none?field=page.number")).await;
    assert_eq!(response.body["values"], json!(["0", "1", "2", "3"]));
    let response = server.get(&format!("{PATH}/none?field=metadata.topic")).await;
    assert_eq!(response.body["values"], json!(["money", "sport"]));
    let response = server.get(&format!("{PATH}/none?field=page")).await;
    assert_eq!((&response.body["values"], &response.body["value"][0]), (&json!([]), &json!(-1)), "an object is no value");
    let response = server.get(&format!("{PATH}/none?field=absent")).await;
    assert_eq!(response.body["values"], json!([]));
    let small = Limits { answer_bytes_max: 1_000, ..Limits::default() };
    let server = Server::with_limits(small);
    fill(&server, 50).await;
    project(&server, json!({})).await;
    server.get(&format!("{PATH}/none")).await.assert_error(422, "answer_too_large", "", &["1000", "max_documents"]);
    assert_eq!(listed(&server).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_projection_requests_are_refused() {
    let server = with_points(9).await;
    let few = server.post(PATH, &json!({})).await;
    few.assert_error(409, "too_few_documents", "", &["at least 10", "points has 9"]);
    let tenth = server.post(DOCUMENTS, &json!({"documents": [document(9)]})).await;
    assert_eq!(tenth.status, 200, "{tenth:?}");
    let check = async |body: Value, place: &str, words: &[&str]| {
        server.post(PATH, &body).await.assert_error(422, "invalid_request", place, words);
    };
    check(json!({"max_documents": 0}), "/max_documents", &["1 to 50000", "got 0"]).await;
    check(json!({"max_documents": 50_001}), "/max_documents", &["50000", "50001"]).await;
    check(json!({"neighbors": 1}), "/neighbors", &["2 to 100", "got 1"]).await;
    check(json!({"neighbors": 101}), "/neighbors", &["101"]).await;
    let both = server.post(PATH, &json!({"max_documents": 0, "neighbors": 1})).await;
    let places: Vec<&Value> = both.body["errors"].as_array().expect("places").iter().map(|error| &error["pointer"]).collect();
    assert_eq!(places, ["/max_documents", "/neighbors"], "{both:?}");
    check(json!({"center": "topic"}), "/center", &["topic", "language"]).await;
    check(json!({"center": null}), "/center", &["null"]).await;
    check(json!({"centre": "none"}), "/centre", &["unknown"]).await;
    server.post("/v1/collections/absent/projections", &json!({})).await.assert_error(
        404,
        "collection_not_found",
        "",
        &["absent"],
    );

    let absent = ["points", "center none", "POST /v1/collections/points/projections"];
    server.get(&format!("{PATH}/none")).await.assert_error(404, "projection_not_found", "", &absent);
    project(&server, json!({"max_documents": 1})).await;
    assert_eq!(ids(&server.get(&format!("{PATH}/none")).await).len(), 1);
    project(&server, json!({"neighbors": 100})).await;
    assert_eq!(ids(&server.get(&format!("{PATH}/none")).await).len(), 10);
    server.get(&format!("{PATH}/language")).await.assert_error(404, "projection_not_found", "", &["center language"]);
    server.get(&format!("{PATH}/topic")).await.assert_error(422, "invalid_request", "center", &["none, language", "topic"]);
    server.get(&format!("{PATH}/none?fields=a")).await.assert_error(
        422,
        "invalid_request",
        "fields",
        &["unknown parameter `fields`", "`field`"],
    );
    server.get(&format!("{PATH}?limit=1")).await.assert_error(422, "invalid_request", "limit", &["unknown"]);
    for own in ["id", "language", "created_at", "a..b", ""] {
        let response = server.get(&format!("{PATH}/none?field={own}")).await;
        response.assert_error(422, "invalid_request", "field", &["must be"]);
    }
    server.get("/v1/collections/absent/projections").await.assert_error(404, "collection_not_found", "", &[]);
    server.get("/v1/collections/absent/projections/none").await.assert_error(404, "collection_not_found", "", &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sampling_draws_the_same_documents_every_time() {
    let server = with_points(60).await;
    let job = project(&server, json!({"max_documents": 20})).await;
    assert_eq!((&job["details"]["documents"], &job["details"]["sampled"]), (&json!(20), &json!(true)));
    let first = server.get(&format!("{PATH}/none")).await;
    project(&server, json!({"max_documents": 20})).await;
    let again = server.get(&format!("{PATH}/none")).await;
    assert_eq!(
        (&first.body["ids"], &first.body["x"], &first.body["y"]),
        (&again.body["ids"], &again.body["x"], &again.body["y"])
    );
    assert_eq!(ids(&first).len(), 20);
    let shown = listed(&server).await;
    assert_eq!(
        (&shown[0]["documents"], &shown[0]["sampled"], &shown[0]["collection_documents"]),
        (&json!(20), &json!(true), &json!(60))
    );
    project(&server, json!({"max_documents": 30})).await;
    let more = server.get(&format!("{PATH}/none")).await;
    assert!(ids(&first).iter().all(|id| ids(&more).contains(id)), "a smaller sample is a subset of a larger one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_projection_is_flagged_and_shows_current_document_values() {
    let server = with_points(30).await;
    project(&server, json!({})).await;
    project(&server, json!({"center": "language"})).await;
    let centers: Vec<Value> = listed(&server).await.iter().map(|shown| shown["center"].clone()).collect();
    assert_eq!(centers, ["none", "language"]);
    let before = server.get(&format!("{PATH}/none?field=topic")).await;
    assert_eq!(before.body["stale"], false);

    assert_eq!(server.delete(&format!("{DOCUMENTS}/d03")).await.status, 204);
    let patch = json!({"metadata": {"topic": "weather"}, "language": "el"});
    assert_eq!(server.patch(&format!("{DOCUMENTS}/d00"), &patch).await.status, 200);
    assert_eq!(server.post(DOCUMENTS, &json!({"documents": [document(70)]})).await.status, 200);
    let after = server.get(&format!("{PATH}/none?field=topic")).await;
    assert_eq!((&after.body["stale"], ids(&after).len()), (&json!(true), 29));
    assert!(!ids(&after).contains(&"d03") && !ids(&after).contains(&"d70"));
    let place = |name: &str, of: &str| after.body[of].as_array().expect("names").iter().position(|one| one == name);
    assert_eq!(after.body["value"][0].as_u64(), place("weather", "values").map(|place| place as u64));
    assert_eq!(after.body["language"][0].as_u64(), place("el", "languages").map(|place| place as u64));
    let without = |column: &str| {
        let mut column = numbers(&before.body[column]);
        column.remove(3);
        column
    };
    assert_eq!(
        (numbers(&after.body["x"]), numbers(&after.body["y"])),
        (without("x"), without("y")),
        "the other documents keep their places"
    );
    assert!(listed(&server).await.iter().all(|shown| shown["stale"] == true && shown["documents"] == 30));

    project(&server, json!({})).await;
    let stale: Vec<Value> = listed(&server).await.iter().map(|shown| shown["stale"].clone()).collect();
    assert_eq!(stale, [false, true], "the recomputed map is no longer stale");
    assert!(ids(&server.get(&format!("{PATH}/none")).await).contains(&"d70"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_projection_is_stale_once_embeddings_change_but_not_after_a_change_of_metadata_or_language() {
    let server = with_points(30).await;
    project(&server, json!({})).await;
    let is_stale = async || {
        let one = server.get(&format!("{PATH}/none")).await.body["stale"].clone();
        assert_eq!(listed(&server).await[0]["stale"], one);
        one
    };
    project(&server, json!({"center": "language"})).await;
    let patch = json!({"metadata": {"label": "sport"}, "language": "el"});
    assert_eq!(server.patch(&format!("{DOCUMENTS}/d00"), &patch).await.status, 200);
    assert_eq!(is_stale().await, false);
    let by_language = server.get(&format!("{PATH}/language")).await;
    assert_eq!(by_language.body["stale"], false, "a language does not count even where points depend on it");
    assert_eq!(server.delete(&format!("{DOCUMENTS}/d03")).await.status, 204);
    assert_eq!(is_stale().await, true, "a document is gone");
    project(&server, json!({})).await;
    assert_eq!(is_stale().await, false);
    let moved = json!({"documents": [{"id": "d00", "vector": vector(1)}]});
    assert_eq!(server.post(DOCUMENTS, &moved).await.status, 200);
    assert_eq!(is_stale().await, true, "a vector is another one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_projection_survives_a_restart_and_a_damaged_one_is_not_found() {
    let folder = Arc::new(tempfile::tempdir().expect("a folder"));
    let server = server_on(&folder).await;
    fill(&server, 30).await;
    project(&server, json!({"center": "language"})).await;
    let before = server.get(&format!("{PATH}/language")).await;
    drop(server);
    let server = server_on(&folder).await;
    let after = server.get(&format!("{PATH}/language")).await;
    assert_eq!((after.status, &after.body), (200, &before.body));

    let [file] = &files(&server)[..] else { panic!("one file") };
    let mut content = std::fs::read(file).expect("the file");
    let middle = content.len() / 2;
    content[middle] ^= 1;
    std::fs::write(file, content).expect("written");
    server.get(&format!("{PATH}/language")).await.assert_error(404, "projection_not_found", "", &[]);
    assert_eq!(listed(&server).await, [json!(null); 0]);
    project(&server, json!({"center": "language"})).await;
    assert_eq!(server.get(&format!("{PATH}/language")).await.body["x"], before.body["x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_projection_goes_with_its_collection_and_is_in_no_snapshot() {
    let server = with_points(20).await;
    project(&server, json!({})).await;
    assert_eq!(files(&server).len(), 1);
    let snapshot = server.finished(&server.post("/v1/snapshots", &json!({})).await).await;
    let id = snapshot["details"]["snapshot"].as_str().expect("an id").to_owned();
    assert_eq!(server.delete("/v1/collections/points").await.status, 204);
    server.get(PATH).await.assert_error(404, "collection_not_found", "", &[]);
    let restored = server.finished(&server.post(&format!("/v1/snapshots/{id}/restore"), &json!({})).await).await;
    assert_eq!(restored["status"], "succeeded", "{restored}");
    server.get(&format!("{PATH}/none")).await.assert_error(404, "projection_not_found", "", &[]);
    assert_eq!(files(&server), Vec::<PathBuf>::new());
    project(&server, json!({})).await;
    assert_eq!(ids(&server.get(&format!("{PATH}/none")).await).len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_job_at_a_time_computes_each_projection() {
    let folder = Arc::new(tempfile::tempdir().expect("a folder"));
    let server = server_on(&folder).await;
    fill(&server, 20).await;
    // The one running job waits for the encoder.
    server.control.pause();
    let texts = |word: &str| (0..4).map(|number| format!("{word} {number}")).collect::<Vec<_>>();
    let request = json!({"first": {"texts": texts("one")}, "second": {"texts": texts("other")}});
    let waiting = server.post("/v1/mine", &request).await;

    let keyed = async |body: &Value| server.send_with(Method::POST, PATH, ("idempotency-key", "k"), body).await;
    let body = json!({"neighbors": 5});
    let first = keyed(&body).await;
    assert_eq!((first.status, &first.body["status"]), (202, &json!("queued")), "{first:?}");
    let id = first.body["id"].as_str().expect("an id").to_owned();
    assert_eq!(keyed(&body).await.body["id"], id, "a repeated request returns the same job");
    keyed(&json!({"neighbors": 6})).await.assert_error(409, "idempotency_conflict", "", &[]);
    server.post(PATH, &json!({})).await.assert_error(409, "job_running", "", &["points", "center none", &id]);
    let other = server.post(PATH, &example("create_projection.request")).await;
    assert_eq!(other.status, 202, "another center is another map: {other:?}");
    let alias = json!({"collection": "points"});
    assert_eq!(server.put("/v1/aliases/map", &alias).await.status, 200);
    let by_alias = server.post("/v1/collections/map/projections", &json!({})).await;
    by_alias.assert_error(409, "job_running", "", &[&id]);

    let canceled = server.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).await;
    assert_eq!(canceled.body["status"], "canceled", "{canceled:?}");
    let again = server.post(PATH, &json!({})).await;
    assert_eq!(again.status, 202, "{again:?}");
    server.control.resume();
    assert_eq!(server.finished(&waiting).await["status"], "succeeded");
    for job in [&other, &again] {
        assert_eq!(server.finished(job).await["status"], "succeeded");
    }
    assert_eq!(server.get("/v1/collections/map/projections").await.body["projections"].as_array().map(Vec::len), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_fails_with_collection_not_found_if_its_collection_is_deleted() {
    let folder = Arc::new(tempfile::tempdir().expect("a folder"));
    let server = server_on(&folder).await;
    fill(&server, 20).await;
    server.control.pause();
    let texts = |word: &str| (0..4).map(|number| format!("{word} {number}")).collect::<Vec<_>>();
    let request = json!({"first": {"texts": texts("one")}, "second": {"texts": texts("other")}});
    server.post("/v1/mine", &request).await;
    let accepted = server.post(PATH, &json!({})).await;
    assert_eq!(server.delete("/v1/collections/points").await.status, 204);
    server.control.resume();
    let job = server.finished(&accepted).await;
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("collection_not_found")), "{job}");
}

#[tokio::test(flavor = "multi_thread")]
async fn computing_a_projection_needs_write_scope_and_access_to_its_collection() {
    let server = Server::with_admin_key();
    fill(&server, 20).await;
    server.create(json!({"name": "news"})).await;
    let key = async |scope: &str, collection: &str| {
        let body = json!({"name": scope, "scope": scope, "collections": [collection]});
        let made = server.post("/v1/keys", &body).await;
        server.with_key(made.body["secret"].as_str().expect("a secret"))
    };
    let (reader, writer, other) = (key("read", "points").await, key("write", "points").await, key("write", "news").await);
    reader.post(PATH, &json!({})).await.assert_error(403, "forbidden", "", &["read"]);
    let accepted = writer.post(PATH, &json!({})).await;
    let job = writer.finished(&accepted).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    let path = format!("/v1/jobs/{}", job["id"].as_str().expect("an id"));
    for allowed in [&reader, &writer] {
        assert_eq!(allowed.get(&path).await.status, 200);
        assert_eq!(allowed.get(PATH).await.body["projections"].as_array().map(Vec::len), Some(1));
        assert_eq!(allowed.get(&format!("{PATH}/none")).await.status, 200);
    }
    reader.post(&format!("{path}/cancel"), &json!({})).await.assert_error(403, "forbidden", "", &["write"]);
    other.post(PATH, &json!({})).await.assert_error(403, "forbidden", "", &["restricted to collections other than"]);
    for place in [PATH, &format!("{PATH}/none"), &path] {
        other.get(place).await.assert_error(403, "forbidden", "", &[]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_projection_skips_pending_documents_and_shows_long_ones_once() {
    let server = Server::with_news().await;
    let topics = [["harbor", "ship", "anchor", "sail"], ["bread", "oven", "flour", "yeast"]];
    let text = |number: usize| {
        let words = topics[number % 2];
        (0..60).map(|at| format!("{} {} w{number}. ", words[at % 4], words[(at + number) % 4])).collect::<String>()
    };
    let documents: Vec<Value> =
        (0..16).map(|number| json!({"id": format!("d{number:02}"), "text": text(number), "language": "en"})).collect();
    let stored = server.post("/v1/collections/news/documents", &json!({"documents": documents})).await;
    assert_eq!(stored.status, 200, "{stored:?}");
    assert!(server.get("/v1/collections/news").await.body["passages"].as_u64() > Some(16), "several passages each");
    let accepted = server.post("/v1/collections/news/projections", &json!({"neighbors": 5})).await;
    assert_eq!(server.finished(&accepted).await["status"], "succeeded");
    let response = server.get("/v1/collections/news/projections/none").await;
    assert_eq!(ids(&response).len(), 16, "each document once");
    let shown = server.get("/v1/collections/news/projections").await.body["projections"][0].clone();
    assert!(shown["model"].as_str().is_some_and(|model| !model.is_empty()), "{shown}");

    let paused = Server::paused_with_news().await;
    let waiting: Vec<Value> = (0..12).map(|number| json!({"text": text(number)})).collect();
    let stored = paused.post("/v1/collections/news/documents?wait=stored", &json!({"documents": waiting})).await;
    assert_eq!(stored.status, 200, "{stored:?}");
    let refused = paused.post("/v1/collections/news/projections", &json!({})).await;
    refused.assert_error(409, "too_few_documents", "", &["news has 0"]);
}
