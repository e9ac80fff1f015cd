//! One of several servers dies, and servers are replaced one by one.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Client, Servers, create, put};

const DOCUMENTS: &str = "/v1/collections/news/documents";

/// Sends a request to the servers in turn until one answers it; returns status and body.
fn send_with_retries(
    clients: &[Client],
    turn: &AtomicUsize,
    send: impl Fn(&Client) -> Result<(u16, Value), ureq::Error>,
) -> (u16, Value) {
    loop {
        let at = turn.fetch_add(1, Ordering::Relaxed) % clients.len();
        match send(&clients[at]) {
            Ok((503, _)) | Err(_) => std::thread::sleep(Duration::from_millis(5)),
            Ok(response) => return response,
        }
    }
}

/// Writes documents and searches for them until told to stop; returns the numbers of the acknowledged documents.
fn load(clients: &[Client], worker: usize, stop: &AtomicBool) -> Vec<usize> {
    let turn = AtomicUsize::new(worker);
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (id, text) = (format!("{worker}-{number}"), format!("Satz {number} von {worker}"));
        let body = json!({"documents": [{"id": id, "text": text}]});
        let (status, response) = send_with_retries(clients, &turn, |client| client.try_post(DOCUMENTS, &body));
        assert_eq!(status, 200, "{response}");
        acknowledged.push(number);
        let asked = json!({"query": text, "mode": "dense", "limit": 1});
        let (status, response) =
            send_with_retries(clients, &turn, |client| client.try_post("/v1/collections/news/search", &asked));
        assert_eq!((status, &response["hits"][0]["id"]), (200, &json!(id)), "{response}");
        let name = format!("c{worker}-{number}");
        if number % 10 == 0 {
            let (status, response) = send_with_retries(clients, &turn, |client| {
                client.try_send("PUT", &format!("/v1/collections/{name}"), &[], &json!({}))
            });
            assert!([200, 201].contains(&status), "{response}");
        }
    }
    acknowledged
}

fn check(client: &Client, acknowledged: &[Vec<usize>]) {
    let names: BTreeSet<String> = crate::names(client, "collections").into_iter().collect();
    for (worker, numbers) in acknowledged.iter().enumerate() {
        assert!(!numbers.is_empty());
        for number in numbers {
            let (status, document) = client.get(&format!("{DOCUMENTS}/{worker}-{number}"));
            assert_eq!((status, &document["text"]), (200, &json!(format!("Satz {number} von {worker}"))));
            let kept = number % 10 != 0 || names.contains(&format!("c{worker}-{number}"));
            assert!(kept, "c{worker}-{number} is lost");
        }
    }
}

#[test]
fn acknowledged_writes_survive_the_kill_of_one_of_three_servers() {
    let mut servers = Servers::start(3);
    let clients = servers.clients::<3>();
    create(&clients[0], "news");
    let stop = AtomicBool::new(false);
    let acknowledged: Vec<Vec<usize>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let (clients, stop) = (&clients, &stop);
                scope.spawn(move || load(clients, worker, stop))
            })
            .collect();
        let stored = |client: &Client| client.get("/v1/collections/news").1["documents"].as_u64().unwrap();
        for at_least in [20, 60] {
            clients[2].wait_until("there is load", |client| stored(client) >= at_least);
            if at_least == 20 {
                servers.kill(0);
            }
        }
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    check(&clients[1], &acknowledged);
    check(&clients[2], &acknowledged);
}

#[test]
fn a_rolling_restart_loses_no_request_of_a_retrying_client() {
    let mut servers = Servers::start(2);
    let first = servers.clients::<2>();
    create(&first[0], "news");
    // The clients of the load know only the first two servers and their replacements, so servers are added later.
    let stop = AtomicBool::new(false);
    let mut acknowledged: Vec<Vec<usize>> = Vec::new();
    for round in 0..2 {
        servers.add();
        let clients = servers.clients::<3>();
        stop.store(false, Ordering::Relaxed);
        let written: Vec<Vec<usize>> = std::thread::scope(|scope| {
            let (clients, stop) = (&clients, &stop);
            let workers: Vec<_> = (0..2).map(|worker| scope.spawn(move || load(clients, worker + 2 * round, stop))).collect();
            let stored = |client: &Client| client.get("/v1/collections/news").1["documents"].as_u64().unwrap();
            let before = stored(&clients[1]);
            clients[1].wait_until("there is load", |client| stored(client) >= before + 10);
            servers.stop(0);
            clients[1].wait_until("it goes on", |client| stored(client) >= before + 30);
            stop.store(true, Ordering::Relaxed);
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        acknowledged.extend(written);
    }
    servers.clients::<2>().iter().for_each(|client| check(client, &acknowledged));
}

#[test]
fn documents_stored_by_a_server_that_died_right_after_its_start_are_embedded() {
    let servers = Servers::start(1);
    let [one] = servers.clients();
    create(&one, "news");
    put(&one, "news", "a", "schon da");
    // Between two checks, a server has come, stored the document, and died.
    let sql = "update dragoman.passages set embedded_sequence = null, embedding = null, writer = 7;
               insert into dragoman.servers (id) values (7)";
    let mut database = servers.database();
    database.batch_execute(sql).unwrap();
    let pending = "select count(*) from dragoman.passages where embedding is null";
    let deadline = Instant::now() + Duration::from_secs(30);
    while database.query_one(pending, &[]).unwrap().get::<_, i64>(0) > 0 {
        assert!(Instant::now() < deadline, "nobody embeds the document");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(one.hits("news", &json!({"query": "schon da", "mode": "dense", "limit": 1}))[0]["id"], "a");
}

#[test]
fn another_server_embeds_documents_stored_by_a_killed_one() {
    let mut servers = Servers::start(1);
    let [one] = servers.clients();
    create(&one, "news");
    put(&one, "news", "a", "schon da");
    servers.add();
    let [_, other] = servers.clients();
    // The state that a server leaves when it is killed between storing and embedding.
    let sql = "update dragoman.passages set embedded_sequence = null, embedding = null";
    servers.database().execute(sql, &[]).unwrap();
    servers.kill(0);
    other.wait_until("it is embedded", |client| client.get("/v1/collections/news").1["passages_pending"] == 0);
    assert_eq!(other.hits("news", &json!({"query": "schon da", "limit": 1}))[0]["id"], "a");
}
