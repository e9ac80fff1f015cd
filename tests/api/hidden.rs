//! What a key restricted to some collections does not learn about the others.

use serde_json::{Value, json};

use crate::server::Server;

/// A server with the collections `news` and `salaries`, called with the admin key.
async fn two_collections() -> Server {
    let server = Server::with_admin_key();
    for (collection, labels) in [("news", ["public", "open"]), ("salaries", ["underpaid", "overpaid"])] {
        server.create(json!({"name": collection})).await;
        let document = |n: usize| {
            let label = labels[n % 2];
            json!({"id": format!("d{n}"), "text": format!("{label} sentence {n}"), "metadata": {"label": label}})
        };
        let documents: Vec<Value> = (0..8).map(document).collect();
        let path = format!("/v1/collections/{collection}/documents");
        assert_eq!(server.post(&path, &json!({"documents": documents})).await.status, 200);
        let source = json!({"collection": collection, "field": "label"});
        let made = server.post("/v1/classifiers", &json!({"name": collection, "kind": "knn", "source": source})).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let job = format!("/v1/jobs/{}", made.body["job"].as_str().expect("a job"));
        assert_eq!(server.ended_job(&job).await["status"], "succeeded");
    }
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_shows_labels_only_to_keys_with_access_to_the_training_data() {
    let server = two_collections().await;
    let news = server.with_key_for("write", "news").await;
    let documents = json!({"documents": {"collection": "news", "field": "label"}});
    let evaluate = async |classifier: &str| {
        let job = server.finished(&server.post(&format!("/v1/classifiers/{classifier}/evaluations"), &documents).await).await;
        assert_eq!(job["status"], "succeeded", "{job}");
        format!("/v1/jobs/{}", job["id"].as_str().expect("an id"))
    };
    let foreign = evaluate("salaries").await;
    let seen = server.get(&format!("{foreign}/evaluation")).await;
    assert!(seen.text.contains("underpaid"), "{}", seen.text);
    for part in ["", "/evaluation", "/events", "/results"] {
        let refused = news.get(&format!("{foreign}{part}")).await;
        refused.assert_error(403, "forbidden", "", &["the job is about others"]);
        assert!(!refused.text.contains("paid") && !refused.text.contains("salaries"), "{}", refused.text);
    }
    let own = evaluate("news").await;
    assert_eq!(news.get(&format!("{own}/evaluation")).await.status, 200);
    let listed = news.get("/v1/jobs?type=evaluate").await.body;
    let ids: Vec<&str> = listed["jobs"].as_array().expect("jobs").iter().filter_map(|job| job["id"].as_str()).collect();
    assert_eq!(ids, [own.trim_start_matches("/v1/jobs/")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_snapshot_with_aliases_and_classifiers_is_hidden_from_restricted_keys() {
    let server = two_collections().await;
    let news = server.with_key_for("write", "news").await;
    assert_eq!(server.delete("/v1/collections/salaries").await.status, 204);
    let restored = async |snapshot: Value, restore: Value| {
        let made = server.finished(&server.post("/v1/snapshots", &snapshot).await).await;
        let id = made["details"]["snapshot"].as_str().expect("an id");
        let job = server.finished(&server.post(&format!("/v1/snapshots/{id}/restore"), &restore).await).await;
        assert_eq!(job["status"], "succeeded", "{job}");
        format!("/v1/jobs/{}", job["id"].as_str().expect("an id"))
    };
    let whole = restored(json!({}), json!({"replace": true})).await;
    let refused = news.get(&whole).await;
    refused.assert_error(403, "forbidden", "", &["restricted to certain collections"]);
    assert!(!refused.text.contains("salaries"), "{}", refused.text);
    let own = restored(json!({"collections": ["news"]}), json!({"replace": true})).await;
    assert_eq!(news.get(&own).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn mining_jobs_with_texts_are_hidden_from_other_restricted_keys() {
    let server = two_collections().await;
    let (one, other) = (server.with_key_for("write", "news").await, server.with_key_for("write", "news").await);
    let texts: Vec<String> = (0..4).map(|n| format!("my secret sentence {n}")).collect();
    let request = json!({"first": {"collection": "news"}, "second": {"texts": texts}});
    let job = one.finished(&one.post("/v1/mine", &request).await).await;
    let mining = async |server: &Server| server.get("/v1/jobs?type=mine").await.body["jobs"].as_array().map(Vec::len);
    assert_eq!((mining(&one).await, mining(&server).await), (Some(1), Some(1)), "{job}");
    assert_eq!(mining(&other).await, Some(0), "jobs that the key may not read are not listed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_key_cannot_tell_which_classifiers_exist() {
    let server = two_collections().await;
    let news = server.with_key_for("write", "news").await;
    let make = async |name: &str| {
        let examples = json!([{"text": "a", "labels": ["x"]}, {"text": "b", "labels": ["y"]}]);
        news.post("/v1/classifiers", &json!({"name": name, "kind": "knn", "examples": examples})).await
    };
    for name in ["salaries", "nothing"] {
        let response = make(name).await;
        response.assert_error(
            403,
            "forbidden",
            "/name",
            &["must be named after one of the key's collections", "news.topics", name],
        );
        let gone = news.get(&format!("/v1/classifiers/{name}")).await;
        gone.assert_error(404, "classifier_not_found", "", &[]);
        assert_eq!(gone.body["detail"], format!("there is no classifier {name}"));
    }
    assert_eq!(make("news.topics").await.status, 201);
    make("news.topics").await.assert_error(409, "classifier_exists", "", &["news.topics"]);

    let source = json!({"collection": "salaries", "field": "label"});
    let made = server.post("/v1/classifiers", &json!({"name": "news.pay", "kind": "knn", "source": source})).await;
    assert_eq!(made.status, 201);
    let refused = make("news.pay").await;
    refused.assert_error(403, "forbidden", "/name", &["may not use this name"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_with_an_alias_does_not_reveal_its_collection() {
    let server = two_collections().await;
    assert_eq!(server.put("/v1/aliases/current", &json!({"collection": "salaries"})).await.status, 200);
    let made = server.post("/v1/keys", &json!({"name": "k", "scope": "admin", "collections": ["current"]})).await;
    let holder = server.with_key(made.body["secret"].as_str().expect("a secret"));
    for refused in [
        holder.post("/v1/collections", &json!({"name": "current"})).await,
        holder.put("/v1/collections/current", &json!({})).await,
        holder.delete("/v1/collections/current").await,
    ] {
        refused.assert_error(409, "alias_exists", "", &["current is an alias"]);
        assert!(!refused.text.contains("salaries"), "{}", refused.text);
    }
    let response = server.delete("/v1/collections/current").await;
    response.assert_error(409, "alias_exists", "", &["current is an alias of collection salaries"]);
}
