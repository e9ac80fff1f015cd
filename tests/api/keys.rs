//! `/v1/keys`, and what a request with or without a key may do.

use axum::body::Body;
use axum::http::{Method, Request};
use dragoman::domain::{Limits, Scope};
use dragoman::http;
use dragoman::http::middleware::access::{Access, CollectionAccess};
use dragoman::http::settings::Settings;
use serde_json::{Value, json};

use crate::example;
use crate::merged;
use crate::server::{ADMIN_KEY, Response, Server};

/// Creates a key and returns its secret.
async fn make(server: &Server, scope: &str, collections: Option<&[&str]>) -> String {
    let mut body = json!({"name": scope, "scope": scope});
    if let Some(collections) = collections {
        body["collections"] = json!(collections);
    }
    let response = server.post("/v1/keys", &body).await;
    assert_eq!(response.status, 201, "{response:?}");
    response.body["secret"].as_str().expect("a secret").to_owned()
}

async fn keys(server: &Server) -> Vec<Value> {
    let response = server.get("/v1/keys").await;
    assert_eq!(response.status, 200, "{response:?}");
    response.body["keys"].as_array().expect("keys").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_key_is_created_listed_and_revoked() {
    let server = Server::with_admin_key();
    let made = server.post("/v1/keys", &example("create_key.request")).await;
    assert_eq!(made.status, 201, "{made:?}");
    let (key, secret) = (&made.body["key"], made.body["secret"].as_str().expect("a secret"));
    let id = key["id"].as_str().expect("an id");
    assert!(secret.starts_with(&format!("dgm_{id}_")) && secret.len() == 101, "{secret}");
    assert_eq!(
        (&key["scope"], &key["collections"], &key["expires_at"]),
        (&json!("read"), &json!(["news"]), &json!("2100-01-01T00:00:00.000Z"))
    );
    assert_eq!(keys(&server).await, std::slice::from_ref(key));
    assert!(!server.get("/v1/keys").await.text.contains(&secret[37..]), "a secret is shown once");
    assert_eq!(server.with_key(secret).get("/v1/models").await.status, 200);

    assert_eq!(server.delete(&format!("/v1/keys/{id}")).await.status, 204);
    server.with_key(secret).get("/v1/models").await.assert_error(401, "unauthorized", "", &["does not know"]);
    server.delete(&format!("/v1/keys/{id}")).await.assert_error(404, "key_not_found", "", &[id]);
    server.delete("/v1/keys/nonsense").await.assert_error(422, "invalid_request", "key", &["hexadecimal", "nonsense"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn key_creation_refuses_invalid_members() {
    let server = Server::with_admin_key();
    let check = async |change: Value, place: &str, words: &[&str]| {
        let body = merged(json!({"name": "a", "scope": "read"}), &change);
        server.post("/v1/keys", &body).await.assert_error(422, "invalid_request", place, words);
    };
    check(json!({"name": " "}), "/name", &["not be blank"]).await;
    check(json!({"name": "x".repeat(257)}), "/name", &["256", "257"]).await;
    check(json!({"scope": "root"}), "/scope", &["root", "admin"]).await;
    check(json!({"collections": []}), "/collections", &["left out"]).await;
    check(json!({"collections": ["news", "a b"]}), "/collections/1", &["' '"]).await;
    check(json!({"expires_at": "tomorrow"}), "/expires_at", &["RFC 3339", "tomorrow"]).await;
    check(json!({"expires_at": "2001-01-01T00:00:00Z"}), "/expires_at", &["in the future"]).await;
    check(json!({"scopes": ["read"]}), "/scopes", &["scopes", "unknown"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_keys_is_limited_and_keys_are_listed_in_pages() {
    let limits = Limits { keys_max: 3, ..Limits::default() };
    let server = Server::with_settings(limits, Settings::default(), Some(ADMIN_KEY)).with_key(ADMIN_KEY);
    for _ in 0..3 {
        make(&server, "read", None).await;
    }
    let refused = server.post("/v1/keys", &json!({"name": "a", "scope": "read"})).await;
    refused.assert_error(409, "too_many_keys", "", &["3", "keys_max"]);
    let all = keys(&server).await;
    let first = server.get("/v1/keys?limit=2").await;
    let cursor = first.body["next_cursor"].as_str().expect("a next page");
    let second = server.get(&format!("/v1/keys?limit=2&cursor={cursor}")).await;
    assert_eq!(first.body["keys"], json!(all[..2]));
    assert_eq!((&second.body["keys"], &second.body["next_cursor"]), (&json!(all[2..]), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_key_locks_the_server_and_can_create_more_keys() {
    let server = Server::start();
    assert_eq!(server.get("/v1/collections").await.status, 200);
    for body in [
        json!({"name": "a", "scope": "read"}),
        json!({"name": "a", "scope": "admin", "collections": ["news"]}),
        json!({"name": "a", "scope": "admin", "expires_at": "2100-01-01T00:00:00Z"}),
    ] {
        server.post("/v1/keys", &body).await.assert_error(422, "invalid_request", "", &["first key"]);
    }
    let admin = server.with_key(&make(&server, "admin", None).await);
    server.get("/v1/collections").await.assert_error(401, "unauthorized", "", &["Bearer"]);
    assert_eq!(admin.get("/v1/collections").await.status, 200);

    let id = keys(&admin).await[0]["id"].as_str().expect("an id").to_owned();
    admin.delete(&format!("/v1/keys/{id}")).await.assert_error(409, "last_admin_key", "", &["another"]);
    let second = admin.with_key(&make(&admin, "admin", None).await);
    assert_eq!(second.delete(&format!("/v1/keys/{id}")).await.status, 204);
    admin.get("/v1/collections").await.assert_error(401, "unauthorized", "", &[]);
    assert_eq!(second.get("/v1/collections").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_valid_key_is_unauthorized() {
    let server = Server::with_admin_key();
    let secret = make(&server, "read", None).await;
    let wrong = format!("{}{}", &secret[..100], if secret.ends_with('0') { '1' } else { '0' });
    let check = async |header: Option<&str>, status: u16| {
        let mut request = Request::get("/v1/models");
        if let Some(header) = header {
            request = request.header("authorization", header);
        }
        let response = server.send(request.body(Body::empty()).expect("a request")).await;
        assert_eq!(response.status, status, "{header:?}: {response:?}");
        assert_eq!(response.header("www-authenticate"), (status == 401).then_some("Bearer realm=\"dragoman\""));
        assert!(!response.text.contains(&secret[40..]), "the response does not repeat the key");
    };
    check(Some(&format!("Bearer {secret}")), 200).await;
    check(Some(&format!("bearer {secret}")), 200).await;
    check(Some(&format!("Bearer {ADMIN_KEY}")), 200).await;
    check(None, 401).await;
    check(Some(&format!("Bearer {wrong}")), 401).await;
    check(Some(&secret), 401).await;
    check(Some("Basic dXNlcjpwYXNz"), 401).await;
    check(Some("Bearer "), 401).await;
    check(Some(&format!("Bearer {}", &ADMIN_KEY[1..])), 401).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_key_is_refused() {
    let server = Server::with_admin_key();
    let key_that_expires = async |expires_in_ms: i64| {
        let expires_at = timestamp_in_ms(expires_in_ms);
        let made = server.post("/v1/keys", &json!({"name": "a", "scope": "read", "expires_at": expires_at})).await;
        server.with_key(made.body["secret"].as_str().expect("a secret"))
    };
    let (short, long) = (key_that_expires(1_000).await, key_that_expires(86_400_000).await);
    assert_eq!(long.get("/v1/models").await.status, 200);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while short.get("/v1/models").await.status == 200 {
        assert!(std::time::Instant::now() < deadline, "the key does not expire");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    short.get("/v1/models").await.assert_error(401, "unauthorized", "", &["has expired"]);
    assert_eq!(keys(&server).await.len(), 2, "it is still listed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_key_makes_room_for_another() {
    let limits = Limits { keys_max: 2, ..Limits::default() };
    let server = Server::with_settings(limits, Settings::default(), Some(ADMIN_KEY)).with_key(ADMIN_KEY);
    make(&server, "read", None).await;
    let body = json!({"name": "short", "scope": "read", "expires_at": timestamp_in_ms(1_000)});
    let short = server.post("/v1/keys", &body).await.body["key"]["id"].clone();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let made = server.post("/v1/keys", &json!({"name": "next", "scope": "read"})).await;
        if made.status == 201 {
            break;
        }
        made.assert_error(409, "too_many_keys", "", &["2 valid keys", "keys_max"]);
        assert!(std::time::Instant::now() < deadline, "the key does not expire");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let listed = keys(&server).await;
    assert!(listed.len() == 2 && listed.iter().all(|key| key["id"] != short), "{listed:?}");
    server.post("/v1/keys", &json!({"name": "one more", "scope": "read"})).await.assert_error(409, "too_many_keys", "", &["2"]);
}

/// The time this many milliseconds from now, as RFC 3339.
fn timestamp_in_ms(ms: i64) -> String {
    (jiff::Timestamp::now() + jiff::SignedDuration::from_millis(ms)).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn unauthorized_embedding_requests_get_the_openai_error_format() {
    let response = Server::with_admin_key().with_key("wrong").post("/v1/embeddings", &json!({"input": "hello"})).await;
    assert_eq!(response.status, 401);
    assert_eq!(response.header("www-authenticate"), Some("Bearer realm=\"dragoman\""));
    let error = &response.body["error"];
    assert_eq!(
        (&error["type"], &error["code"], &error["param"]),
        (&json!("authentication_error"), &json!("unauthorized"), &Value::Null)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_key_accesses_only_its_own_collections() {
    let server = Server::with_admin_key();
    for name in ["blog", "news", "shop"] {
        server.create(json!({"name": name})).await;
    }
    let names = |response: Response| -> Vec<String> {
        let all = response.body["collections"].as_array().expect("collections").iter();
        all.map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    };
    let reader = server.with_key(&make(&server, "read", Some(&["news", "shop", "later"])).await);
    assert_eq!(names(reader.get("/v1/collections").await), ["news", "shop"]);
    let page = reader.get("/v1/collections?limit=1").await;
    let cursor = page.body["next_cursor"].as_str().expect("a next page").to_owned();
    assert_eq!(names(page), ["news"]);
    assert_eq!(names(reader.get(&format!("/v1/collections?limit=1&cursor={cursor}")).await), ["shop"]);
    assert_eq!(reader.get("/v1/collections/news").await.status, 200);
    reader.get("/v1/collections/later").await.assert_error(404, "collection_not_found", "", &[]);
    reader.get("/v1/collections/blog").await.assert_error(403, "forbidden", "", &["collections other than"]);
    reader.get("/v1/collections/none").await.assert_error(403, "forbidden", "", &["collections other than"]);
    reader.get("/v1/collections/%62log").await.assert_error(403, "forbidden", "", &[]);
    assert_eq!(reader.get("/v1/collections/n%65ws").await.status, 200);
    reader.get("/v1/collections/%ff").await.assert_error(403, "forbidden", "", &[]);

    let admin = server.with_key(&make(&server, "admin", Some(&["later"])).await);
    admin.post("/v1/collections", &json!({"name": "elsewhere"})).await.assert_error(403, "forbidden", "", &["elsewhere"]);
    admin.create(json!({"name": "later"})).await;
    let metrics =
        Request::get("/metrics").header("authorization", format!("Bearer {}", make(&server, "read", Some(&["news"])).await));
    let metrics = server.send_unchecked(metrics.body(Body::empty()).expect("a request")).await;
    assert_eq!((metrics.status, metrics.code()), (403, Some("forbidden")), "metrics reveal collection names");
    admin.get("/v1/keys").await.assert_error(403, "forbidden", "", &["restricted"]);
    assert_eq!(admin.delete("/v1/collections/later").await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_restricted_to_an_alias_sees_its_import_to_that_alias() {
    let server = Server::with_admin_key();
    server.create(json!({"name": "news"})).await;
    assert_eq!(server.put("/v1/aliases/latest", &json!({"collection": "news"})).await.status, 200);
    let writer = server.with_key(&make(&server, "write", Some(&["latest"])).await);
    let request = Request::post("/v1/collections/latest/import").header("content-type", "application/x-ndjson");
    let request = request.header("authorization", format!("Bearer {}", make(&server, "write", Some(&["latest"])).await));
    let accepted = server.send_unchecked(request.body(Body::from("{\"text\":\"Il pleut.\"}")).expect("a request")).await;
    assert_eq!((accepted.status, &accepted.body["collection"]), (202, &json!("news")), "{}", accepted.text);
    let job = writer.finished(&accepted).await;
    assert_eq!((&job["status"], &job["details"]["created"]), (&json!("succeeded"), &json!(1)));
    assert_eq!(writer.get("/v1/jobs").await.body["jobs"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_canceled_by_those_who_may_start_one() {
    let server = Server::with_admin_key();
    server.create(json!({"name": "news"})).await;
    let job = server.finished(&server.post("/v1/snapshots", &json!({})).await).await;
    let cancel = format!("/v1/jobs/{}/cancel", job["id"].as_str().expect("an id"));
    let writer = server.with_key(&make(&server, "write", None).await);
    writer.post(&cancel, &json!(null)).await.assert_error(403, "forbidden", "", &["scope write", "snapshot", "admin"]);
    server.post(&cancel, &json!(null)).await.assert_error(409, "job_finished", "", &[]);
}

/// Every operation of the OpenAPI document: its method, its path with the parameters filled in, and its id.
fn operations() -> Vec<(Method, String, String)> {
    let document = http::document();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        let filled = path.replace("{collection}", "news").replace("{key}", &"0".repeat(32));
        let filled = filled.split('/').map(|part| if part.starts_with('{') { "a" } else { part }).collect::<Vec<_>>().join("/");
        for (method, operation) in item.as_object().expect("a path item") {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
            let id = operation["operationId"].as_str().expect("an id").to_owned();
            found.push((method, filled.clone(), id));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_requires_the_access_its_route_declares() {
    let server = Server::with_admin_key();
    server.create(json!({"name": "news"})).await;
    let stranger = Server { key: None, ..server.clone() };
    let mut by_scope = Vec::new();
    for scope in Scope::ALL {
        by_scope.push((scope, server.with_key(&make(&server, scope.name(), None).await)));
    }
    let elsewhere = server.with_key(&make(&server, "admin", Some(&["blog"])).await);
    for (method, path, id) in operations() {
        let call = async |server: &Server| server.call(method.clone(), &path, Body::from("{}")).await.status;
        let Access::Key(needed, collections) = http::description().operations.get(&id).expect("an operation").access else {
            assert_ne!(call(&stranger).await, 401, "{id} needs no key");
            continue;
        };
        assert_eq!(call(&stranger).await, 401, "{id} without a key");
        for (scope, holder) in &by_scope {
            let status = call(holder).await;
            assert_ne!(status, 401, "{id} with scope {}", scope.name());
            assert_eq!(status == 403, *scope < needed, "{id} with scope {} answers {status}", scope.name());
        }
        let closed = matches!(collections, CollectionAccess::Path | CollectionAccess::Everything);
        assert_eq!(call(&elsewhere).await == 403, closed, "{id} with a key for another collection");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_documentation_routes_need_no_key() {
    let stranger = Server::with_settings(Limits::default(), Settings::default(), Some(ADMIN_KEY));
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs/", "/docs/errors"] {
        assert_eq!(stranger.get(path).await.status, 200, "{path}");
    }
    assert_eq!(stranger.get("/nothing").await.status, 404);
    let method = Request::patch("/v1/collections").body(Body::empty()).expect("a request");
    assert_eq!(stranger.send_unchecked(method).await.status, 401, "an unsupported method also needs a key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_with_an_unread_body_announces_connection_close() {
    let server = Server::with_admin_key().with_key("no key of this server");
    let (read, written) = (server.get("/v1/collections").await, server.post("/v1/collections", &json!({"name": "news"})).await);
    assert_eq!((read.status, read.header("connection")), (401, None));
    assert_eq!((written.status, written.header("connection")), (401, Some("close")));
}
