//! Collections, aliases, keys and classifiers.

use serde_json::{Value, json};

use crate::{Servers, at_once, create, names, put};

#[test]
fn a_created_collection_is_immediately_visible_on_the_other_server() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    for round in 0..10 {
        let name = format!("c{round}");
        create(&one, &name);
        put(&other, &name, "a", "Il pleut.");
        assert_eq!(one.get(&format!("/v1/collections/{name}/documents/a")).1["text"], "Il pleut.");
        assert_eq!(other.post("/v1/collections", &json!({ "name": name })).0, 409, "the name is taken");
    }
    assert_eq!(names(&one, "collections"), names(&other, "collections"));
}

#[test]
fn a_database_without_the_last_changes_is_served_as_it_is() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    create(&one, "kept");
    create(&one, "lost");
    assert_eq!(names(&other, "collections"), ["kept", "lost"]);
    // As if a replica had become the primary before it had the last change.
    let back = "delete from dragoman.catalog where name = 'lost';
                update dragoman.catalog_state set version = version - 1, names = names - 1";
    servers.database().batch_execute(back).unwrap();
    assert_eq!([&one, &other].map(|client| names(client, "collections")), [["kept"], ["kept"]]);
    create(&other, "next");
    assert_eq!(names(&one, "collections"), ["kept", "next"]);
}

#[test]
fn a_change_that_replaces_a_lost_one_is_visible_on_the_server_that_made_the_lost_one() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    create(&one, "kept");
    let mut database = servers.database();
    let before = database.query_one("select version, names from dragoman.catalog_state", &[]).unwrap();
    let (version, known): (i64, i64) = (before.get(0), before.get(1));
    create(&one, "lost");
    // As if a replica had become the primary before it had the last change. The first server has no time to look at it.
    let back = format!(
        "delete from dragoman.catalog where name = 'lost'; update dragoman.catalog_state set version = {version}, names = {known}"
    );
    database.batch_execute(&back).unwrap();
    create(&other, "next");
    assert_eq!(names(&one, "collections"), ["kept", "next"]);
}

#[test]
fn a_deleted_collection_is_immediately_gone_on_the_other_server() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    for _ in 0..5 {
        create(&one, "news");
        put(&other, "news", "a", "Il pleut.");
        assert_eq!(one.try_delete("/v1/collections/news").unwrap().0, 204);
        assert_eq!(other.get("/v1/collections/news").0, 404);
        // A new collection with the same name is a different collection.
        create(&one, "news");
        assert_eq!(other.get("/v1/collections/news").1["documents"], 0);
        assert_eq!(other.get("/v1/collections/news/documents/a").0, 404);
        assert_eq!(other.try_delete("/v1/collections/news").unwrap().0, 204);
        assert_eq!(names(&one, "collections"), [""; 0]);
    }
}

#[test]
fn a_server_that_embeds_documents_of_a_collection_deleted_on_another_server_reports_no_error() {
    let mut servers = Servers::start(2);
    let [one, other] = servers.clients();
    for _ in 0..10 {
        create(&one, "news");
        let text = |number| json!({"id": format!("d{number}"), "text": "Il pleut."});
        let documents = json!({"documents": (0..500).map(text).collect::<Vec<_>>()});
        assert_eq!(one.post("/v1/collections/news/documents?wait=stored", &documents).0, 200);
        assert_eq!(other.try_delete("/v1/collections/news").unwrap().0, 204);
    }
    let log = servers.stop_and_read_log(0);
    let errors: Vec<_> = log.iter().filter(|line| line.contains("\"ERROR\"")).collect();
    assert_eq!(errors, [""; 0]);
}

#[test]
fn writes_during_a_deletion_on_another_server_end_in_not_found() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    for _ in 0..5 {
        create(&one, "news");
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for number in 0..10_000 {
                    let document = json!({"documents": [{"id": number.to_string(), "text": "Il pleut."}]});
                    let (status, response) = other.post("/v1/collections/news/documents", &document);
                    match status {
                        200 => (),
                        // The write and the deletion deadlocked, and the write was aborted.
                        503 => assert_eq!(response["code"], "unavailable", "{response}"),
                        _ => return Some((status, response)),
                    }
                }
                None
            });
            let deleted = one.try_delete("/v1/collections/news").unwrap();
            let (status, response) = writing.join().unwrap().unwrap();
            assert_eq!(
                (deleted.0, status, &response["code"]),
                (204, 404, &json!("collection_not_found")),
                "{deleted:?} {response}"
            );
        });
    }
}

#[test]
fn changed_settings_and_metadata_indexes_are_seen_on_the_other_server() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    create(&one, "news");
    assert_eq!(other.get("/v1/collections/news").0, 200);
    let change = json!({"description": "Weather", "default_languages": ["fr"], "metadata_indexes": ["year"]});
    assert_eq!(one.send("PATCH", "/v1/collections/news", &change).0, 200);
    let shown = other.get("/v1/collections/news").1;
    assert_eq!((&shown["description"], &shown["metadata_indexes"]), (&json!("Weather"), &json!(["year"])), "{shown}");
    // Each change keeps the other server's change.
    assert_eq!(other.send("PATCH", "/v1/collections/news", &json!({"metadata_indexes": ["month"]})).0, 200);
    let shown = one.get("/v1/collections/news").1;
    assert_eq!((&shown["description"], &shown["metadata_indexes"]), (&json!("Weather"), &json!(["month"])), "{shown}");
}

#[test]
fn an_alias_switches_on_all_servers_and_always_resolves() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    let point = |to: &str| assert_eq!(one.send("PUT", "/v1/aliases/current", &json!({ "collection": to })).0, 200);
    create(&one, "news-0");
    point("news-0");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut reads = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let (status, response) = other.get("/v1/collections/current");
                // A collection that is deleted between lookup and read is reported by its own name, not by the alias.
                let gone = status == 404 && !response["detail"].as_str().unwrap().contains("current");
                assert!(status == 200 || gone, "{response}");
                reads += 1;
            }
            reads
        });
        for round in 1..=20 {
            let name = format!("news-{round}");
            create(&one, &name);
            point(&name);
            assert_eq!(other.get("/v1/collections/current").1["name"], json!(name));
            assert_eq!(one.try_delete(&format!("/v1/collections/news-{}", round - 1)).unwrap().0, 204);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(reading.join().unwrap() > 0);
    });
    assert_eq!(other.try_delete("/v1/aliases/current").unwrap().0, 204);
    assert_eq!(one.get("/v1/collections/current").0, 404);
}

#[test]
fn only_one_of_two_concurrent_creations_of_a_name_succeeds() {
    let servers = Servers::start(2);
    let clients = servers.clients::<2>();
    for round in 0..5 {
        let responses = at_once(&clients, "/v1/collections", &[], &json!({"name": format!("c{round}")}));
        let mut statuses: Vec<u16> = responses.iter().map(|(status, _)| *status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409], "{responses:?}");
    }
}

#[test]
fn concurrent_requests_with_one_idempotency_key_create_one_collection() {
    let servers = Servers::start(2);
    let clients = servers.clients::<2>();
    for round in 0..5 {
        let (name, key) = (format!("c{round}"), format!("k{round}"));
        let responses = at_once(&clients, "/v1/collections", &[("idempotency-key", &key)], &json!({ "name": name }));
        assert!(responses.iter().all(|(status, _)| *status == 201), "{responses:?}");
        assert_eq!(responses[0].1["created_at"], responses[1].1["created_at"]);
    }
    let left: i64 = servers.database().query_one("select count(*) from dragoman.collections", &[]).unwrap().get(0);
    assert_eq!(left, 5, "nothing is left of the slower creation");
}

#[test]
fn a_key_is_valid_on_all_servers_from_creation_to_revocation() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    assert_eq!(other.get("/v1/collections").0, 200, "without keys, every request is allowed");
    let (status, made) = one.post("/v1/keys", &json!({"name": "first", "scope": "admin"}));
    assert_eq!(status, 201, "{made}");
    assert_eq!(other.get("/v1/collections").0, 401, "once a key exists, requests without one are refused");
    let admin = made["secret"].as_str().unwrap();
    let (one, other) = (one.with_key(admin), other.with_key(admin));
    for _ in 0..5 {
        let made = one.post("/v1/keys", &json!({"name": "reader", "scope": "read"})).1;
        let reader = other.with_key(made["secret"].as_str().unwrap());
        assert_eq!(reader.get("/v1/collections").0, 200);
        let id = made["key"]["id"].as_str().unwrap();
        assert_eq!(one.try_delete(&format!("/v1/keys/{id}")).unwrap().0, 204);
        assert_eq!(reader.get("/v1/collections").0, 401);
    }
}

#[test]
fn keys_expire_by_the_clock_of_the_database() {
    for (days, status, kept) in [(40, 401, &["admin", "another"][..]), (-40, 200, &["admin", "reader", "another"][..])] {
        let mut servers = Servers::start(0);
        servers.skew_clock(days * 24);
        servers.add();
        let [client] = servers.clients();
        let with_key = |made: (u16, Value)| {
            assert_eq!(made.0, 201, "{}", made.1);
            client.with_key(made.1["secret"].as_str().unwrap())
        };
        let admin = with_key(client.post("/v1/keys", &json!({"name": "admin", "scope": "admin"})));
        let tomorrow = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24)).to_string();
        let reader = with_key(admin.post("/v1/keys", &json!({"name": "reader", "scope": "read", "expires_at": tomorrow})));
        assert_eq!(reader.get("/v1/collections").0, status, "{days} days");
        with_key(admin.post("/v1/keys", &json!({"name": "another", "scope": "read"})));
        assert_eq!(names(&admin, "keys"), kept, "keys that expired long ago are removed; {days} days");
    }
}

#[test]
fn concurrent_revocations_keep_the_last_admin_key() {
    let servers = Servers::start(2);
    let clients = servers.clients::<2>();
    let first = clients[0].post("/v1/keys", &json!({"name": "0", "scope": "admin"})).1;
    let admin = clients[0].with_key(first["secret"].as_str().unwrap());
    let mut keys = vec![first.clone(), admin.post("/v1/keys", &json!({"name": "1", "scope": "admin"})).1];
    for _ in 0..5 {
        let revoked: Vec<u16> = std::thread::scope(|scope| {
            let revoke = |at: usize| {
                // Each client uses its own key and its own server.
                let client = clients[at].with_key(keys[at]["secret"].as_str().unwrap());
                let path = format!("/v1/keys/{}", keys[at]["key"]["id"].as_str().unwrap());
                move || client.try_delete(&path).unwrap().0
            };
            let revoking = [0, 1].map(|at| scope.spawn(revoke(at)));
            revoking.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let stays = revoked.iter().position(|status| *status != 204).unwrap();
        assert_eq!((revoked[stays], revoked[1 - stays]), (409, 204), "the last one stays");
        let client = clients[0].with_key(keys[stays]["secret"].as_str().unwrap());
        let (status, made) = client.post("/v1/keys", &json!({"name": "again", "scope": "admin"}));
        assert_eq!(status, 201, "{made}");
        keys = vec![keys[stays].clone(), made];
    }
}

fn classifier(name: &str, texts: [&str; 2]) -> Value {
    let labels: Vec<Value> = texts.iter().map(|text| json!({"name": text, "descriptions": [text]})).collect();
    json!({"name": name, "kind": "prototype", "labels": labels})
}

#[test]
fn a_recreated_classifier_predicts_its_new_labels_on_all_servers() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    let predict = || other.post("/v1/classifiers/topic/predict", &json!({"texts": ["rain"]}));
    for labels in [["rain", "goal"], ["rain", "tax"]] {
        assert_eq!(one.post("/v1/classifiers", &classifier("topic", labels)).0, 201);
        other.wait_until("it is trained", |client| client.get("/v1/classifiers/topic").1["state"] == "ready");
        let (status, response) = predict();
        assert_eq!(status, 200, "{response}");
        assert!(response.to_string().contains(labels[1]), "{response}");
        assert_eq!(one.try_delete("/v1/classifiers/topic").unwrap().0, 204);
        assert_eq!(predict().0, 404);
    }
}

#[test]
fn concurrent_requests_with_one_idempotency_key_create_one_classifier() {
    let servers = Servers::start(2);
    let clients = servers.clients::<2>();
    for round in 0..5 {
        let (name, key) = (format!("c{round}"), format!("k{round}"));
        let body = classifier(&name, ["rain", "goal"]);
        let responses = at_once(&clients, "/v1/classifiers", &[("idempotency-key", &key)], &body);
        assert!(responses.iter().all(|(status, _)| *status == 201), "{responses:?}");
        assert_eq!(responses[0].1["job"], responses[1].1["job"]);
    }
    let jobs = clients[0].get("/v1/jobs?type=train&limit=100").1["jobs"].as_array().unwrap().len();
    assert_eq!(jobs, 5);
}

#[test]
fn a_change_of_settings_interrupted_by_kill_9_leaves_nothing() {
    const NEWS: &str = "/v1/collections/news";
    let mut servers = Servers::start(1);
    let [one] = servers.clients();
    create(&one, "news");
    // Stops the change when it has declared the index.
    let mut database = servers.database();
    let mut busy = database.transaction().unwrap();
    busy.execute("select 1 from dragoman.catalog_state for update", &[]).unwrap();
    let waiting = "select count(*) from pg_stat_activity
                   where datname = current_database() and wait_event_type = 'Lock' and query like '%catalog_state%'";
    std::thread::scope(|scope| {
        let change = json!({"description": "new", "metadata_indexes": ["year"]});
        let changing = one.clone();
        scope.spawn(move || changing.try_send("PATCH", NEWS, &[], &change));
        let is_waiting = |_: &crate::Client| servers.database().query_one(waiting, &[]).unwrap().get::<_, i64>(0) > 0;
        one.wait_until("the change waits for the catalog", is_waiting);
        servers.kill(0);
    });
    drop(busy);
    servers.add();
    let [other] = servers.clients();
    let shown = other.get(NEWS).1;
    assert_eq!((&shown["description"], &shown["metadata_indexes"]), (&json!(null), &json!([])));
    let (status, changed) = other.try_send("PATCH", NEWS, &[], &json!({"metadata_indexes": ["year"]})).unwrap();
    assert_eq!((status, &changed["metadata_indexes"]), (200, &json!(["year"])));
}
