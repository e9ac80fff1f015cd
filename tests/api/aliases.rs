//! `/v1/aliases`, and jobs that are started through an alias.

use serde_json::{Value, json};

use crate::server::Server;

async fn with_two() -> Server {
    let server = Server::start();
    for (name, text) in [("news-1", "Il pleut."), ("news-2", "Es regnet.")] {
        server.create(json!({ "name": name })).await;
        let documents = json!({"documents": [{"id": "a", "text": text}]});
        assert_eq!(server.post(&format!("/v1/collections/{name}/documents"), &documents).await.status, 200);
    }
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_an_alias_reach_its_current_collection() {
    let server = with_two().await;
    let set = async |collection: &str| server.put("/v1/aliases/current", &json!({ "collection": collection })).await;
    assert_eq!(set("news-1").await.body, json!({"alias": "current", "collection": "news-1"}));
    assert_eq!(server.get("/v1/collections/current").await.body["name"], "news-1");
    assert_eq!(server.get("/v1/collections/current/documents/a").await.body["text"], "Il pleut.");
    let found = server.post("/v1/collections/current/search", &json!({"query": "Il pleut."})).await;
    assert_eq!(found.body["hits"][0]["passage"]["text"], "Il pleut.");
    assert_eq!(set("news-2").await.status, 200);
    assert_eq!(server.get("/v1/collections/current/documents/a").await.body["text"], "Es regnet.");
    let written =
        server.post("/v1/collections/current/documents", &json!({"documents": [{"id": "b", "text": "Es schneit."}]})).await;
    assert_eq!(written.status, 200);
    assert_eq!(server.get("/v1/collections/news-2/documents/b").await.status, 200);
    assert_eq!(server.delete("/v1/aliases/current").await.status, 204);
    server.get("/v1/collections/current").await.assert_error(404, "collection_not_found", "", &["current"]);
    server.delete("/v1/aliases/current").await.assert_error(404, "alias_not_found", "", &["current"]);
    assert_eq!(server.get("/v1/collections/news-2").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alias_of_an_alias_is_refused_and_the_error_names_its_collection() {
    let server = with_two().await;
    server.put("/v1/aliases/current", &json!({"collection": "news-1"})).await;
    let refused = server.put("/v1/aliases/live", &json!({"collection": "current"})).await;
    refused.assert_error(404, "collection_not_found", "", &["current is not a collection but an alias of collection news-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_continues_at_the_same_id_when_its_alias_is_switched() {
    let server = with_two().await;
    for (name, text) in [("news-1", "Il neige."), ("news-2", "Es schneit.")] {
        let documents = json!({"documents": [{"id": "b", "text": text}]});
        assert_eq!(server.post(&format!("/v1/collections/{name}/documents"), &documents).await.status, 200);
    }
    let switch = async |collection: &str| server.put("/v1/aliases/current", &json!({ "collection": collection })).await.status;
    let texts =
        |page: &Value| page["documents"].as_array().expect("a list").iter().map(|one| one["text"].clone()).collect::<Vec<_>>();
    assert_eq!(switch("news-1").await, 200);
    let first = server.get("/v1/collections/current/documents?limit=1").await.body;
    assert_eq!(switch("news-2").await, 200);
    let cursor = first["next_cursor"].as_str().expect("a cursor");
    let second = server.get(&format!("/v1/collections/current/documents?cursor={cursor}")).await.body;
    assert_eq!((texts(&first), texts(&second)), (vec![json!("Il pleut.")], vec![json!("Es schneit.")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn aliases_are_listed_by_name_in_pages() {
    let server = with_two().await;
    for (alias, collection) in [("c", "news-1"), ("a", "news-2"), ("b", "news-1")] {
        server.put(&format!("/v1/aliases/{alias}"), &json!({ "collection": collection })).await;
    }
    let first = server.get("/v1/aliases?limit=2").await;
    let row = |alias: &str, collection: &str| json!({"alias": alias, "collection": collection});
    assert_eq!(first.body["aliases"], json!([row("a", "news-2"), row("b", "news-1")]));
    let second = server.get(&format!("/v1/aliases?cursor={}", first.body["next_cursor"].as_str().expect("a cursor"))).await;
    assert_eq!(second.body, json!({"aliases": [row("c", "news-1")]}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_restricted_to_aliases_lists_only_these() {
    let server = Server::with_admin_key();
    for name in ["news-1", "news-2"] {
        server.create(json!({ "name": name })).await;
    }
    for (alias, collection) in [("c", "news-1"), ("a", "news-2"), ("b", "news-1")] {
        assert_eq!(server.put(&format!("/v1/aliases/{alias}"), &json!({ "collection": collection })).await.status, 200);
    }
    let documents = json!({"documents": [{"id": "a", "text": "Il pleut."}]});
    assert_eq!(server.post("/v1/collections/news-1/documents", &documents).await.status, 200);
    let new = json!({"name": "k", "scope": "read", "collections": ["c", "b", "news-2", "later"]});
    let reader = server.with_key(server.post("/v1/keys", &new).await.body["secret"].as_str().expect("a secret"));

    let row = |alias: &str| json!({"alias": alias, "collection": "news-1"});
    let first = reader.get("/v1/aliases?limit=1").await;
    assert_eq!(first.body["aliases"], json!([row("b")]));
    let second = reader.get(&format!("/v1/aliases?cursor={}", first.body["next_cursor"].as_str().expect("a cursor"))).await;
    assert_eq!(second.body, json!({"aliases": [row("c")]}));
    assert_eq!(server.with_key_for("read", "news-1").await.get("/v1/aliases").await.body, json!({"aliases": []}));
    reader.delete("/v1/aliases/b").await.assert_error(403, "forbidden", "", &["admin"]);

    // The collections are listed under their aliases, in one order with the others.
    let listed = reader.get("/v1/collections?limit=2").await;
    let (b, c) = (&listed.body["collections"][0], &listed.body["collections"][1]);
    assert_eq!((&b["name"], &b["documents"], &c["name"]), (&json!("b"), &json!(1), &json!("c")));
    let cursor = listed.body["next_cursor"].as_str().expect("a cursor");
    let rest = reader.get(&format!("/v1/collections?cursor={cursor}")).await;
    let rest: Vec<&Value> = rest.body["collections"].as_array().expect("collections").iter().map(|one| &one["name"]).collect();
    assert_eq!(rest, ["news-2"]);
    let all = server.get("/v1/collections").await;
    assert_eq!(all.body["collections"].as_array().map(Vec::len), Some(2), "an unrestricted key lists no aliases");
}

#[tokio::test(flavor = "multi_thread")]
async fn aliases_and_collections_share_one_namespace() {
    let server = with_two().await;
    let set = async |alias: &str, collection: &str| {
        server.put(&format!("/v1/aliases/{alias}"), &json!({ "collection": collection })).await
    };
    set("news-1", "news-2").await.assert_error(409, "collection_exists", "", &["news-1"]);
    set("current", "blog").await.assert_error(404, "collection_not_found", "", &["blog"]);
    set("current", "a b").await.assert_error(422, "invalid_request", "/collection", &["ASCII"]);
    set("a%20b", "news-1").await.assert_error(422, "invalid_request", "alias", &["ASCII"]);
    assert_eq!(set("current", "news-1").await.status, 200);
    set("other", "current").await.assert_error(404, "collection_not_found", "", &["current"]);
    let create = server.post("/v1/collections", &json!({"name": "current"})).await;
    create.assert_error(409, "alias_exists", "", &["current", "news-1"]);
    server.delete("/v1/collections/current").await.assert_error(409, "alias_exists", "", &["news-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_collection_deletes_its_aliases() {
    let server = with_two().await;
    server.put("/v1/aliases/current", &json!({"collection": "news-1"})).await;
    assert_eq!(server.delete("/v1/collections/news-1").await.status, 204);
    assert_eq!(server.get("/v1/aliases").await.body, json!({"aliases": []}));
    server.get("/v1/collections/current").await.assert_error(404, "collection_not_found", "", &["current"]);
    server.create(json!({"name": "current"})).await;
}

/// The jobs that `start_jobs_by_alias` started.
struct StartedJobs {
    /// Jobs about the collection alone.
    of_collection: Vec<String>,
    /// Jobs that train or evaluate a classifier, whose source is the alias.
    of_classifier: Vec<String>,
}

/// Starts jobs of several types through the alias `current` of the collection `news-1`.
async fn start_jobs_by_alias(server: &Server) -> StartedJobs {
    let labeled = |label: &str| json!({"field": "label", "eq": label});
    let source = json!({"collection": "current", "field": "label"});
    let made = server.post("/v1/classifiers", &json!({"name": "labels", "kind": "knn", "source": source})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let training = made.body["job"].as_str().expect("a job").to_owned();
    let trained = server.ended_job(&format!("/v1/jobs/{training}")).await;
    assert_eq!((&trained["collection"], &trained["status"]), (&json!("news-1"), &json!("succeeded")), "{trained}");
    let mut started = StartedJobs { of_collection: Vec::new(), of_classifier: vec![training] };
    for (path, body) in [
        ("/v1/classifiers/labels/train", Value::Null),
        ("/v1/classifiers/labels/evaluations", json!({"documents": source})),
        ("/v1/classifiers/labels/apply", json!({"collection": "current", "field": "predicted"})),
        ("/v1/collections/current/duplicates", json!({})),
        ("/v1/collections/current/projections", json!({})),
        ("/v1/collections/current/reembed", json!({"passage_bounds": {"tokens_max": 12, "overlap_tokens": 0}})),
        (
            "/v1/mine",
            json!({"first": {"collection": "current", "filter": labeled("a")},
                   "second": {"collection": "news-1", "filter": labeled("b")}}),
        ),
    ] {
        let job = server.finished(&server.post(path, &body).await).await;
        assert_eq!((&job["collection"], &job["status"]), (&json!("news-1"), &json!("succeeded")), "{path}: {job}");
        let is_of_classifier = ["train", "evaluate"].contains(&job["type"].as_str().expect("a type"));
        let jobs = if is_of_classifier { &mut started.of_classifier } else { &mut started.of_collection };
        jobs.push(job["id"].as_str().expect("an id").to_owned());
    }
    started
}

/// Lists the ids of the jobs that match a filter, sorted.
async fn list_jobs(server: &Server, filter: &str) -> Vec<String> {
    let jobs = server.get(&format!("/v1/jobs?limit=100{filter}")).await.body["jobs"].clone();
    let jobs = jobs.as_array().expect("jobs").iter();
    sorted(jobs.map(|job| job["id"].as_str().expect("an id").to_owned()))
}

fn sorted(ids: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut ids: Vec<String> = ids.into_iter().collect();
    ids.sort();
    ids
}

/// Checks that the server's key may get these jobs.
async fn check_visible(server: &Server, jobs: &[String]) {
    for job in jobs {
        let response = server.get(&format!("/v1/jobs/{job}")).await;
        assert_eq!(response.status, 200, "{}", response.text);
    }
}

/// Checks that the server's key may not get any of these jobs.
async fn check_forbidden(server: &Server, jobs: &[String]) {
    for job in jobs {
        server.get(&format!("/v1/jobs/{job}")).await.assert_error(403, "forbidden", "", &["restricted"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_started_through_an_alias_belongs_to_the_aliased_collection() {
    let server = Server::with_admin_key();
    let document = |n: usize| {
        let label = ["a", "b"][n % 2];
        json!({"id": format!("d{n}"), "text": format!("{label} sentence {n}"), "metadata": {"label": label}})
    };
    let documents: Vec<Value> = (0..12).map(document).collect();
    for name in ["news-1", "news-2"] {
        server.create(json!({"name": name})).await;
    }
    assert_eq!(server.post("/v1/collections/news-1/documents", &json!({"documents": documents})).await.status, 200);
    let point = async |collection: &str| server.put("/v1/aliases/current", &json!({"collection": collection})).await.status;
    assert_eq!(point("news-1").await, 200);
    let StartedJobs { of_collection, of_classifier } = start_jobs_by_alias(&server).await;
    let all = sorted([of_collection.clone(), of_classifier.clone()].concat());

    let key_for = async |collection: &str| server.with_key_for("read", collection).await;
    let (own, alias, other) = (key_for("news-1").await, key_for("current").await, key_for("news-2").await);
    for filter in ["&collection=news-1", "&collection=current"] {
        assert_eq!(list_jobs(&server, filter).await, all, "{filter}");
    }
    for filter in ["", "&collection=current"] {
        assert_eq!(list_jobs(&alias, filter).await, all, "{filter}");
    }
    // A key for the collection alone cannot use a classifier whose source is the alias, so it does not see its jobs.
    assert_eq!(list_jobs(&own, "").await, sorted(of_collection.clone()));
    check_visible(&own, &of_collection).await;
    check_forbidden(&own, &of_classifier).await;
    check_visible(&alias, &all).await;
    check_forbidden(&other, &all).await;
    alias.get("/v1/jobs?collection=news-1").await.assert_error(403, "forbidden", "", &["restricted"]);

    assert_eq!(point("news-2").await, 200);
    assert!(list_jobs(&server, "&collection=current").await.is_empty());
    check_visible(&own, &of_collection).await;
    check_forbidden(&alias, &of_collection).await;
    check_forbidden(&other, &all).await;
    // The classifier's labels came from `news-1`, also when it is evaluated on the collection that the alias leads to now.
    assert_eq!(server.post("/v1/collections/news-2/documents", &json!({"documents": documents})).await.status, 200);
    let request = json!({"documents": {"collection": "news-2", "field": "label"}});
    let evaluation = server.finished(&server.post("/v1/classifiers/labels/evaluations", &request).await).await;
    let evaluation = [evaluation["id"].as_str().expect("an id").to_owned()];
    check_forbidden(&other, &evaluation).await;
}
