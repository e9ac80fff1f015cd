//! Snapshots of the whole server: aliases and classifiers can be restored on another server, and existing names are protected.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::archives::{parts, sqlite};
use crate::server::{Response, Server};
use crate::snapshots::{restore, snapshot};

const PATH: &str = "/v1/snapshots";

fn documents() -> Value {
    let one = |id: &str, text: &str, topic: &str| json!({"id": id, "text": text, "language": "en", "metadata": {"topic": topic}});
    json!([
        one("w0", "rain storm", "weather"),
        one("w1", "rain cloud", "weather"),
        one("w2", "rain flood", "weather"),
        one("s0", "goal keeper", "sports"),
        one("s1", "goal match", "sports"),
        one("s2", "goal team", "sports"),
    ])
}

/// A server with a collection, an alias, a classifier of each kind, a key, and a classifier whose training failed.
async fn full() -> Server {
    let server = Server::with_documents(documents()).await;
    assert_eq!(server.put("/v1/aliases/current", &json!({"collection": "news"})).await.status, 200);
    let examples: Vec<Value> = documents()
        .as_array()
        .expect("documents")
        .iter()
        .map(|one| json!({"text": one["text"], "labels": [one["metadata"]["topic"]]}))
        .collect();
    let mlp = json!({"learning_rate": 0.02, "epochs_max": 60, "runs": 1, "validation_share": 0.34, "dropout": 0.0});
    train(&server, json!({"name": "network", "kind": "mlp", "examples": examples, "mlp": mlp})).await;
    train(&server, json!({"name": "votes", "kind": "knn", "source": {"collection": "current", "field": "topic"}})).await;
    let labels =
        json!([{"name": "weather", "descriptions": ["rain", "rain wind"]}, {"name": "sports", "descriptions": ["goal"]}]);
    train(&server, json!({"name": "words", "kind": "prototype", "labels": labels})).await;
    server
}

async fn train(server: &Server, body: Value) {
    let made = server.post("/v1/classifiers", &body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let job = format!("/v1/jobs/{}", made.body["job"].as_str().expect("a job"));
    for _ in 0..10_000 {
        match server.get(&job).await.body["status"].as_str() {
            Some("queued" | "running") => tokio::time::sleep(std::time::Duration::from_millis(3)).await,
            status => return assert_eq!(status, Some("succeeded")),
        }
    }
    panic!("{job} does not end");
}

/// Sends a snapshot's archive from one server to another.
async fn send(from: &Server, id: &str, to: &Server) -> Response {
    let archive = from.get(&format!("{PATH}/{id}/archive")).await.bytes;
    let request = Request::put(format!("{PATH}/{id}/archive")).header("content-type", "application/zstd");
    to.send(request.body(Body::from(archive)).expect("a request")).await
}

async fn predictions(server: &Server) -> Vec<Value> {
    let mut all = Vec::new();
    for name in ["network", "votes", "words"] {
        let asked = json!({"texts": ["rain noon", "goal winner"], "scores": 2});
        let response = server.post(&format!("/v1/classifiers/{name}/predict"), &asked).await;
        assert_eq!(response.status, 200, "{}", response.text);
        all.push(response.body["predictions"].clone());
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_restores_aliases_and_equally_predicting_classifiers() {
    let server = full().await;
    let before = predictions(&server).await;
    let id = snapshot(&server, json!({})).await;
    let shown = server.get(&format!("{PATH}/{id}")).await.body;
    assert_eq!(shown["aliases"], json!([{"alias": "current", "collection": "news"}]));
    let names: Vec<_> = shown["classifiers"].as_array().expect("classifiers").iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["network", "votes", "words"]);

    let other = Server::start();
    let taken = send(&server, &id, &other).await;
    assert_eq!((taken.status, &taken.body), (201, &shown));
    let job = restore(&other, &id, json!({})).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    assert_eq!(
        (&job["details"]["aliases"], &job["details"]["classifiers"]),
        (&json!(["current"]), &json!(["network", "votes", "words"]))
    );
    assert_eq!(predictions(&other).await, before);
    assert_eq!(other.get("/v1/aliases").await.body, server.get("/v1/aliases").await.body);
    let hits = other.post("/v1/collections/current/search", &json!({"query": "goal keeper"})).await.body;
    assert_eq!(hits["hits"][0]["id"], "s0");
    let made = other.get("/v1/classifiers/network").await.body;
    let was = server.get("/v1/classifiers/network").await.body;
    assert_eq!((&made["training"], &made["created_at"]), (&was["training"], &was["created_at"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_unselected_parts_are_not_included() {
    let server = full().await;
    let named = snapshot(&server, json!({"collections": ["news"]})).await;
    let shown = server.get(&format!("{PATH}/{named}")).await.body;
    assert_eq!((&shown["aliases"], &shown["classifiers"]), (&json!([]), &json!([])));
    let archive = server.get(&format!("{PATH}/{named}/archive")).await.bytes;
    // An archive of collections only keeps the format that older servers read.
    assert_eq!(parts(&archive).manifest()["format"], 1);

    let id = snapshot(&server, json!({})).await;
    let key = server.post("/v1/keys", &json!({"name": "operator", "scope": "admin"})).await;
    let server = server.with_key(key.body["secret"].as_str().expect("a secret"));
    let with_keys = snapshot(&server, json!({})).await;
    for id in [&id, &with_keys] {
        let archive = parts(&server.get(&format!("{PATH}/{id}/archive")).await.bytes);
        assert_eq!(archive.manifest()["format"], 2);
        sqlite(archive.bytes("catalog.sqlite"), |catalog| {
            for (table, rows) in [("api_keys", 0), ("jobs", 0), ("idempotency_records", 0), ("aliases", 1), ("classifiers", 3)] {
                let sql = format!("select count(*) from {table}");
                let found: i64 = catalog.query_row(&sql, [], |row| row.get(0)).expect("a count");
                assert_eq!(found, rows, "{table}");
            }
        });
    }
    // A single collection can be restored from it.
    let other = Server::start();
    assert_eq!(send(&server, &id, &other).await.status, 201);
    assert_eq!(restore(&other, &id, json!({"collection": "news"})).await["status"], "succeeded");
    assert_eq!(other.get("/v1/aliases").await.body["aliases"], json!([]));
    assert_eq!(other.get("/v1/classifiers").await.body["classifiers"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn restoring_over_existing_names_is_refused_or_replaces_them() {
    let server = full().await;
    let id = snapshot(&server, json!({})).await;
    let path = format!("{PATH}/{id}/restore");
    let other = Server::start();
    assert_eq!(send(&server, &id, &other).await.status, 201);
    let create = async |name: &str| other.create(json!({"name": name})).await;

    create("blog").await;
    assert_eq!(other.put("/v1/aliases/current", &json!({"collection": "blog"})).await.status, 200);
    other.post(&path, &json!({})).await.assert_error(409, "alias_exists", "", &["current", "blog"]);
    other.delete("/v1/aliases/current").await;
    let labels = json!([{"name": "yes"}, {"name": "no"}]);
    train(&other, json!({"name": "words", "kind": "prototype", "labels": labels})).await;
    other.post(&path, &json!({})).await.assert_error(409, "classifier_exists", "", &["words"]);
    assert_eq!(other.get("/v1/collections").await.body["collections"].as_array().map(Vec::len), Some(1), "nothing was restored");

    // No collection replaces an alias, and no alias a collection, even with `replace`.
    create("current").await;
    other.post(&path, &json!({"replace": true})).await.assert_error(409, "collection_exists", "", &["current"]);
    assert_eq!(other.delete("/v1/collections/current").await.status, 204);
    assert_eq!(other.put("/v1/aliases/news", &json!({"collection": "blog"})).await.status, 200);
    other.post(&path, &json!({"replace": true})).await.assert_error(409, "alias_exists", "", &["news", "blog"]);
    assert_eq!(other.delete("/v1/aliases/news").await.status, 204);

    create("news").await;
    assert_eq!(other.put("/v1/aliases/today", &json!({"collection": "news"})).await.status, 200);
    assert_eq!(other.put("/v1/aliases/current", &json!({"collection": "blog"})).await.status, 200);
    let job = restore(&other, &id, json!({"replace": true})).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    assert_eq!(predictions(&other).await, predictions(&server).await);
    let aliases = json!([{"alias": "current", "collection": "news"}, {"alias": "today", "collection": "news"}]);
    assert_eq!(other.get("/v1/aliases").await.body["aliases"], aliases);
    // What is in memory must also be on disk for the next start; only the database shows that.
    let catalog = rusqlite::Connection::open(other._folder.path().join("catalog.sqlite")).expect("the catalog");
    let sql = "select count(*) from aliases a join collections c on c.id = a.collection where c.name = 'news'";
    assert_eq!(catalog.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a count"), 2);
}
