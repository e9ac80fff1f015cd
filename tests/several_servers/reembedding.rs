//! Re-embedding over one database: writes continue through all servers, and the job completes even if its server is killed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Client, Servers, create};

const OLD: &str = "fake:64";
const NEW: &str = "fake:32";
const NEWS: &str = "/v1/collections/news";
const DOCUMENTS: &str = "/v1/collections/news/documents";

fn text(of: &str) -> String {
    format!("number {of} speaks of w{of}")
}

fn fill(client: &Client, documents: usize) {
    create(client, "news");
    let all: Vec<Value> = (0..documents).map(|n| json!({"id": format!("d{n}"), "text": text(&n.to_string())})).collect();
    for part in all.chunks(500) {
        let (status, response) = client.post(DOCUMENTS, &json!({ "documents": part }));
        assert_eq!(status, 200, "{response}");
    }
    assert_eq!(client.put("/v1/aliases/latest", &json!({"collection": "news"})).0, 200);
}

/// Starts the job and returns its path.
fn reembed(client: &Client) -> String {
    let (status, job) = client.post(&format!("{NEWS}/reembed"), &json!({}));
    assert_eq!(status, 202, "{job}");
    format!("/v1/jobs/{}", job["id"].as_str().unwrap())
}

/// Starts two servers with different models, fills the collection through the first, and starts its re-embedding through the
/// second. Returns them, their clients, and the path of the running job.
fn start_reembedding(documents: usize) -> (Servers, [Client; 2], String) {
    let mut servers = Servers::of(OLD, 1);
    servers.add_of(NEW);
    let [one, other] = servers.clients();
    fill(&one, documents);
    let job = reembed(&other);
    other.wait_until("it runs", |client| client.get(&job).1["progress"]["done"].as_u64() > Some(0));
    (servers, [one, other], job)
}

fn ended(client: &Client, job: &str) -> Value {
    let over = |client: &Client| !["queued", "running"].contains(&client.get(job).1["status"].as_str().unwrap_or("queued"));
    client.wait_until("the job ends", over);
    client.get(job).1
}

/// The acknowledged changes of the writers.
#[derive(Default)]
struct Acknowledged {
    stored: Vec<String>,
    rounds: usize,
    deleted: Vec<String>,
}

/// Stores documents through the server that has the collection's current model; the re-embedding changes which server that is.
/// Each stored document must be found by its words through both servers at once.
fn store(clients: &[Client; 2], over: &AtomicBool) -> Acknowledged {
    let mut done = Acknowledged::default();
    while !over.load(Ordering::Acquire) || done.stored.len() < 20 {
        let id = format!("new{}", done.stored.len());
        let body = json!({"documents": [{"id": id, "text": text(&id)}]});
        let stored = clients.iter().any(|client| {
            let (status, response) = client.post(DOCUMENTS, &body);
            assert!(status == 200 || response["code"] == "model_mismatch", "{status} {response}");
            status == 200
        });
        if !stored {
            // The model changed between the two requests.
            continue;
        }
        for client in clients {
            let found = client.hits("latest", &json!({"query": format!("w{id}"), "mode": "lexical", "limit": 1}));
            assert_eq!(found[0]["id"], json!(id));
        }
        done.stored.push(id);
    }
    done
}

/// Patches the metadata of some documents round by round and deletes others, alternating between the servers.
fn change(clients: &[Client; 2], over: &AtomicBool) -> Acknowledged {
    let mut done = Acknowledged::default();
    while !over.load(Ordering::Acquire) {
        let round = done.rounds + 1;
        for n in 0..10 {
            let client = &clients[(n + round) % 2];
            let patch = json!({"metadata": {format!("r{round}"): 1}});
            let (status, response) = client.try_send("PATCH", &format!("{DOCUMENTS}/d{n}"), &[], &patch).unwrap();
            assert_eq!(status, 200, "{response}");
        }
        done.rounds = round;
        if round < 8 {
            let id = format!("d{}", 10 + round);
            let (status, response) = clients[round % 2].try_delete(&format!("{DOCUMENTS}/{id}")).unwrap();
            assert_eq!(status, 204, "{response}");
            done.deleted.push(id);
        }
    }
    done
}

/// Searches for documents that nobody changes, until told to stop.
fn look(client: &Client, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        for n in (100..400).step_by(60) {
            let found = client.hits("latest", &json!({"query": format!("w{n}"), "mode": "lexical", "limit": 1}));
            assert_eq!(found[0]["id"], json!(format!("d{n}")));
            assert_eq!(client.get(&format!("{DOCUMENTS}/d{n}")).0, 200);
        }
    }
}

#[test]
fn writes_through_both_servers_during_reembedding_get_the_new_model() {
    const FILLED: usize = 1_500;
    let mut servers = Servers::of(OLD, 1);
    servers.add_of(NEW);
    let clients = servers.clients::<2>();
    let [one, other] = &clients;
    fill(one, FILLED);
    let over = AtomicBool::new(false);
    let (stored, changed) = std::thread::scope(|scope| {
        let storing = scope.spawn(|| store(&clients, &over));
        let changing = scope.spawn(|| change(&clients, &over));
        clients.iter().for_each(|client| drop(scope.spawn(|| look(client, &over))));
        let job = reembed(other);
        let (status, second) = one.post(&format!("{NEWS}/reembed"), &json!({}));
        assert!(status == 409, "{second}");
        let job = ended(other, &job);
        assert_eq!((&job["status"], &job["details"]["not_embedded"]), (&json!("succeeded"), &json!(0)), "{job}");
        over.store(true, Ordering::Release);
        (storing.join().unwrap(), changing.join().unwrap())
    });
    println!("{} stored, {} rounds of changes, {} deleted", stored.stored.len(), changed.rounds, changed.deleted.len());
    let whole = FILLED + stored.stored.len() - changed.deleted.len();
    other.wait_until("all is embedded", |client| client.get(NEWS).1["passages_pending"] == 0);
    for client in &clients {
        let news = client.get(NEWS).1;
        assert_eq!((&news["model_fingerprint"], &news["dimension"]), (&json!("fake-32"), &json!(32)));
        assert_eq!((&news["documents"], &news["passages"]), (&json!(whole), &json!(whole)));
        for n in 0..10 {
            let document = client.get(&format!("{DOCUMENTS}/d{n}")).1;
            // Each round adds its own metadata field, so that no round can hide another's lost update.
            assert_eq!(document["metadata"].as_object().unwrap().len(), changed.rounds, "{document}");
        }
        for id in &changed.deleted {
            assert_eq!(client.get(&format!("{DOCUMENTS}/{id}")).0, 404);
        }
    }
    for id in &stored.stored {
        let found = other.hits("latest", &json!({"query": text(id), "mode": "dense", "limit": 1}));
        assert_eq!(found[0]["id"], json!(id));
    }
    let (status, response) = one.post(&format!("{NEWS}/search"), &json!({"query": "w7"}));
    assert_eq!((status, &response["code"]), (409, &json!("model_mismatch")), "its model is another one");
    one.wait_until("the old rows are gone", |_| number(&servers, "select count(*) from dragoman.collections") == 1);
}

/// Stores documents through one server and finds them through the other one; no request may be refused.
fn store_and_find(clients: [&Client; 2], writer: usize, over: &AtomicBool) -> usize {
    let mut stored = 0;
    while !over.load(Ordering::Acquire) {
        let id = format!("w{writer}-{stored}");
        let body = json!({"documents": [{"id": id, "text": text(&id)}]});
        let (status, response) = clients[0].try_send("POST", DOCUMENTS, &[("idempotency-key", &id)], &body).unwrap();
        assert_eq!(status, 200, "{response}");
        let found = clients[1].hits("latest", &json!({"query": text(&id), "mode": "dense", "limit": 1}));
        assert_eq!(found[0]["id"], json!(id));
        stored += 1;
    }
    stored
}

#[test]
fn writes_and_imports_continue_while_older_splitting_rules_are_replaced() {
    const FILLED: usize = 1_000;
    const IMPORTED: usize = 1_500;
    let servers = Servers::of(OLD, 2);
    let clients = servers.clients::<2>();
    let [one, other] = &clients;
    fill(one, FILLED);
    servers.database().execute("update dragoman.collections set cutting_rules = 1", &[]).unwrap();
    crate::put(one, "news", "d0", &text("0"));
    assert_eq!(other.get(NEWS).1["cut_by_older_rules"], true);
    let lines: Vec<String> =
        (0..IMPORTED).map(|n| json!({"id": format!("i{n}"), "text": text(&format!("i{n}"))}).to_string()).collect();
    let over = AtomicBool::new(false);
    let stored: Vec<usize> = std::thread::scope(|scope| {
        let ways = [[one, other], [other, one], [other, other]];
        let writing: Vec<_> = (0..3)
            .map(|writer| {
                scope.spawn({
                    let over = &over;
                    move || store_and_find(ways[writer], writer, over)
                })
            })
            .collect();
        let (status, import) = one.post_lines(&format!("{NEWS}/import"), std::io::Cursor::new(lines.join("\n").into_bytes()));
        assert_eq!(status, 202, "{import}");
        let job = ended(other, &reembed(other));
        assert_eq!(job["status"], "succeeded", "{job}");
        let import = ended(other, &format!("/v1/jobs/{}", import["id"].as_str().unwrap()));
        assert_eq!((&import["status"], &import["details"]["created"]), (&json!("succeeded"), &json!(IMPORTED)), "{import}");
        over.store(true, Ordering::Release);
        writing.into_iter().map(|one| one.join().unwrap()).collect()
    });
    println!("{stored:?} stored");
    let whole = FILLED + IMPORTED + stored.iter().sum::<usize>();
    for client in &clients {
        let news = client.get(NEWS).1;
        assert_eq!((&news["documents"], &news["passages"], &news["passages_pending"]), (&json!(whole), &json!(whole), &json!(0)));
        assert_eq!(news["cut_by_older_rules"], Value::Null);
    }
    for (writer, stored) in stored.into_iter().enumerate() {
        for n in 0..stored {
            let id = format!("w{writer}-{n}");
            let body = json!({"documents": [{"id": id, "text": text(&id)}]});
            let (status, again) = one.try_send("POST", DOCUMENTS, &[("idempotency-key", &id)], &body).unwrap();
            assert_eq!((status, &again["results"][0]["status"]), (200, &json!("created")), "its record came along: {again}");
        }
    }
    assert_eq!(other.get(NEWS).1["documents"], json!(whole));
}

fn number(servers: &Servers, sql: &str) -> i64 {
    servers.database().query_one(sql, &[]).unwrap().get(0)
}

/// Checks that the collection uses a single model in everything that it reports and does.
fn check_whole(client: &Client, documents: usize, loaded: &str) {
    let search = format!("{NEWS}/search");
    // Retries until nothing changed between the requests.
    let (news, (status, response)) = loop {
        let before = client.get(NEWS).1;
        let response = client.post(&search, &json!({"query": text("17"), "mode": "dense", "limit": 1}));
        if client.get(NEWS).1["model_fingerprint"] == before["model_fingerprint"] {
            break (before, response);
        }
    };
    assert_eq!(
        (&news["documents"], &news["passages"], &news["passages_pending"]),
        (&json!(documents), &json!(documents), &json!(0))
    );
    match news["model_fingerprint"] == loaded.replace(':', "-") {
        true => assert_eq!((status, &response["hits"][0]["id"]), (200, &json!("d17")), "{response}"),
        false => assert_eq!((status, &response["code"]), (409, &json!("model_mismatch")), "{response}"),
    }
    let (status, response) = client.post(&search, &json!({"like": "d9", "limit": 3}));
    assert_eq!((status, response["hits"].as_array().unwrap().len()), (200, 3), "{response}");
    assert_eq!(client.hits("latest", &json!({"query": "w21", "mode": "lexical"}))[0]["id"], "d21");
}

#[test]
fn another_server_resumes_the_reembedding_of_a_killed_one() {
    const FILLED: usize = 3_000;
    let mut servers = Servers::of(OLD, 1);
    (0..2).for_each(|_| servers.add_of(NEW));
    let [old, first, second] = servers.clients();
    fill(&old, FILLED);
    let job = reembed(&first);
    let done = |client: &Client| client.get(&job).1["progress"]["done"].as_u64().unwrap_or(0);
    first.wait_until("some documents are embedded", |client| done(client) >= 700);
    // One of the other two has a different model, so it leaves the job alone.
    servers.kill(1);
    check_whole(&second, FILLED, NEW);
    second.wait_until("the job goes on", |client| client.get(&job).1["status"] == "running" && done(client) >= 700);
    let ended = ended(&second, &job);
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(second.get(NEWS).1["model_fingerprint"], "fake-32");
    check_whole(&second, FILLED, NEW);
    check_whole(&old, FILLED, OLD);
    second.wait_until("the old rows are gone", |_| number(&servers, "select count(*) from dragoman.collections") == 1);
}

#[test]
fn a_kill_around_the_swap_leaves_a_collection_with_a_single_model() {
    const FILLED: usize = 300;
    const ROUNDS: u64 = 6;
    let mut servers = Servers::of(OLD, 1);
    let [one] = servers.clients();
    fill(&one, FILLED);
    servers.stop(0);
    let (mut model, mut changed) = (NEW, 0);
    for round in 0..ROUNDS {
        (0..2).for_each(|_| servers.add_of(model));
        let [first, second] = servers.clients();
        let before = second.get(NEWS).1["model_fingerprint"].clone();
        let job = reembed(&first);
        first.wait_until("all is embedded", |client| {
            let job = client.get(&job).1;
            job["progress"]["done"] == FILLED || job["status"] == "succeeded"
        });
        std::thread::sleep(Duration::from_millis(round * 10));
        servers.kill(0);
        changed += u32::from(second.get(NEWS).1["model_fingerprint"] != before);
        check_whole(&second, FILLED, model);
        let ended = ended(&second, &job);
        assert_eq!(ended["status"], "succeeded", "{ended}");
        assert_ne!(second.get(NEWS).1["model_fingerprint"], before);
        check_whole(&second, FILLED, model);
        servers.stop(0);
        model = if model == NEW { OLD } else { NEW };
    }
    println!("of {ROUNDS} kills {changed} came after the change");
}

#[test]
fn a_reembedding_whose_replacement_the_database_has_lost_begins_again() {
    const FILLED: usize = 2_000;
    let (servers, [_, other], job) = start_reembedding(FILLED);
    // As if a replica had become the primary before it had the replacement.
    let lost = "do $$ declare lost bigint; begin
        select key into strict lost from dragoman.collections where id not in (select id from dragoman.catalog) for update;
        execute format('drop table dragoman.documents_%1$s, dragoman.passages_%1$s, dragoman.passage_tokens_%1$s, dragoman.terms_%1$s', lost);
        delete from dragoman.collections where key = lost;
        end $$";
    servers.database().batch_execute(lost).unwrap();
    let ended = ended(&other, &job);
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(other.get(NEWS).1["model_fingerprint"], "fake-32");
    check_whole(&other, FILLED, NEW);
}

#[test]
fn canceling_through_another_server_keeps_only_the_old_embeddings() {
    const FILLED: usize = 2_000;
    let (servers, [one, _], job) = start_reembedding(FILLED);
    assert_eq!(one.send("POST", &format!("{job}/cancel"), &json!({})).0, 200);
    let ended = ended(&one, &job);
    check_whole(&one, FILLED, OLD);
    if ended["status"] == "canceled" {
        assert_eq!(one.get(NEWS).1["model_fingerprint"], "fake-64");
        assert_eq!(number(&servers, "select count(*) from dragoman.collections"), 1);
    } else {
        // The request came too late.
        assert_eq!(ended["status"], "succeeded", "{ended}");
        assert_eq!(one.get(NEWS).1["model_fingerprint"], "fake-32");
    }
}

#[test]
fn a_collection_deleted_through_another_server_is_not_revived() {
    let (servers, [one, other], job) = start_reembedding(1_000);
    assert_eq!(one.try_delete(NEWS).unwrap().0, 204);
    create(&one, "news");
    let ended = ended(&other, &job);
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("failed"), &json!("collection_not_found")), "{ended}");
    for client in [&one, &other] {
        let news = client.get(NEWS).1;
        assert_eq!((&news["documents"], &news["model_fingerprint"]), (&json!(0), &json!("fake-64")));
    }
    assert_eq!(number(&servers, "select count(*) from dragoman.collections"), 1);
}
