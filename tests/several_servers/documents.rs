//! Documents: writes, searches right after them, preconditions, idempotency keys, expiry.

use serde_json::{Value, json};

use crate::{Servers, at_once, create, put};

const DOCUMENTS: &str = "/v1/collections/news/documents";

#[test]
fn a_search_finds_what_another_server_just_stored() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    create(&one, "news");
    for round in 0..10 {
        let (id, text) = (format!("d{round}"), format!("Satz w{round} von x{round}"));
        put(&one, "news", &id, &text);
        for mode in ["full", "dense", "lexical", "hybrid"] {
            let hits = other.hits("news", &json!({"query": text, "mode": mode, "limit": 1}));
            assert_eq!(hits[0]["id"], json!(id), "{mode}");
        }
        assert_eq!(other.get("/v1/collections/news").1["documents"], 1, "only the last one");
        let other_text = format!("ganz anders y{round}");
        put(&one, "news", &id, &other_text);
        for mode in ["full", "lexical"] {
            let hits = other.hits("news", &json!({"query": other_text, "mode": mode, "limit": 1}));
            assert_eq!(hits[0]["passage"]["text"], json!(other_text), "{mode}");
        }
        assert_eq!(one.try_delete(&format!("{DOCUMENTS}/{id}")).unwrap().0, 204);
        assert_eq!(other.hits("news", &json!({"query": other_text, "mode": "full"})), [] as [Value; 0]);
    }
}

#[test]
fn only_one_of_two_writes_with_the_same_precondition_succeeds() {
    let servers = Servers::start(2);
    let clients = servers.clients::<2>();
    create(&clients[0], "news");
    put(&clients[0], "news", "a", "Anfang");
    for round in 0..10 {
        let version = clients[round % 2].get(&format!("{DOCUMENTS}/a")).1["version"].to_string();
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let write = |at: usize| {
                let (client, etag) = (clients[at].clone(), format!("\"{version}\""));
                let body = json!({"text": format!("Satz {round} von {at}")});
                move || client.try_send("PUT", &format!("{DOCUMENTS}/a"), &[("if-match", &etag)], &body).unwrap().0
            };
            let writing = [0, 1].map(|at| scope.spawn(write(at)));
            writing.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let won = statuses.iter().position(|status| *status == 200).unwrap();
        assert_eq!(statuses[1 - won], 412, "{statuses:?}");
        let read = clients[1 - won].get(&format!("{DOCUMENTS}/a")).1;
        assert_eq!(read["text"], json!(format!("Satz {round} von {won}")));
    }
}

#[test]
fn concurrent_writes_with_one_idempotency_key_are_applied_once() {
    let servers = Servers::start(2);
    let clients = servers.clients::<2>();
    create(&clients[0], "news");
    for round in 0..10 {
        let body = json!({"documents": [{"id": format!("d{round}"), "text": "Il pleut."}]});
        let key = format!("k{round}");
        let responses = at_once(&clients, DOCUMENTS, &[("idempotency-key", &key)], &body);
        assert!(responses.iter().all(|(status, _)| *status == 200), "{responses:?}");
        let results = responses.iter().map(|(_, response)| response["results"][0].clone()).collect::<Vec<_>>();
        assert_eq!((&results[0]["status"], &results[0]), (&json!("created"), &results[1]), "one version");
    }
}

#[test]
fn each_passage_is_embedded_exactly_once() {
    let servers = Servers::start(2);
    let clients = servers.clients::<2>();
    create(&clients[0], "news");
    for round in 0..20 {
        let documents: Vec<Value> = (0..20)
            .map(|number| json!({"id": format!("{round}-{number}"), "text": format!("Satz {number} in {round}")}))
            .collect();
        let (status, response) = clients[round % 2].post(&format!("{DOCUMENTS}?wait=stored"), &json!({ "documents": documents }));
        assert_eq!(status, 200, "{response}");
    }
    clients[0].wait_until("all is embedded", |client| client.get("/v1/collections/news").1["passages_pending"] == 0);
    let sql = "select sequence from dragoman.collections";
    let changes: i64 = servers.database().query_one(sql, &[]).unwrap().get(0);
    assert_eq!(changes, 2 * 400, "each document takes two changes: one stores it, one its embedding");
}

#[test]
fn a_time_to_live_counts_by_the_clock_of_the_database() {
    for hours in [2, -2] {
        let mut servers = Servers::start(0);
        servers.skew_clock(hours);
        servers.add();
        let [client] = servers.clients();
        create(&client, "news");
        let path = format!("{DOCUMENTS}/a");
        let check = |(status, response): (u16, Value), done_by: &str| {
            assert_eq!(status, 200, "{done_by}, {hours} hours: {response}");
            let stored = client.get(&path).1;
            let time = |member: &str| stored[member].as_str().and_then(dragoman::domain::timestamps::parse).unwrap();
            let lives_ms = time("expires_at") - time("updated_at");
            assert!((500_000..700_000).contains(&lives_ms), "{done_by}, {hours} hours: {stored}");
        };
        let one = json!({"id": "a", "text": "Il pleut.", "ttl_seconds": 600});
        check(client.post(DOCUMENTS, &json!({"documents": [one]})), "a batch");
        check(client.put(&path, &json!({"text": "Il neige.", "ttl_seconds": 601})), "PUT");
        check(client.send("PATCH", &path, &json!({"ttl_seconds": 602})), "PATCH");
        check(client.post(&format!("{DOCUMENTS}/update"), &json!({"ids": ["a"], "ttl_seconds": 603})), "an update");
        let line = json!({"id": "a", "text": "Il vente.", "ttl_seconds": 604}).to_string();
        let (status, job) = client.post_lines("/v1/collections/news/import", std::io::Cursor::new(line.into_bytes()));
        assert_eq!(status, 202, "{job}");
        let job = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
        client.wait_until("the import has ended", |client| client.get(&job).1["status"] == "succeeded");
        check(client.get(&job), "an import");
        let short = json!({"id": "b", "text": "Il gèle.", "ttl_seconds": 1});
        assert_eq!(client.post(DOCUMENTS, &json!({"documents": [short]})).0, 200);
        wait_for_count(&servers, 1);
        assert_eq!([client.get(&path).0, client.get(&format!("{DOCUMENTS}/b")).0], [200, 404]);
    }
}

/// Waits until the database has this number of documents.
#[track_caller]
fn wait_for_count(servers: &Servers, expect: i64) {
    let (mut database, started) = (servers.database(), std::time::Instant::now());
    let sql = "select count(*) from dragoman.documents";
    while database.query_one(sql, &[]).unwrap().get::<_, i64>(0) != expect {
        assert!(started.elapsed() < crate::program::PATIENCE, "expired documents are not removed");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_document_expires_on_all_servers_even_if_its_writer_is_killed() {
    let mut servers = Servers::start(2);
    let [one, other] = servers.clients();
    create(&one, "news");
    let store = |client: &crate::Client, id: &str, seconds: u32| {
        let document = json!({"documents": [{"id": id, "text": "Il pleut.", "ttl_seconds": seconds}]});
        assert_eq!(client.post(DOCUMENTS, &document).0, 200);
    };
    store(&one, "a", 1);
    other.wait_until("it has expired", |client| client.get(&format!("{DOCUMENTS}/a")).0 == 404);
    store(&one, "b", 3);
    assert_eq!(other.get(&format!("{DOCUMENTS}/b")).0, 200);
    servers.kill(0);
    other.wait_until("the other server has removed it", |client| client.get(&format!("{DOCUMENTS}/b")).0 == 404);
    wait_for_count(&servers, 0);
}
