//! Jobs: seen and canceled through another server, taken over when theirs is gone.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Client, Servers, at_once, create};

/// A collection that something can be learned from.
fn fill(client: &Client) {
    create(client, "news");
    let document = |number: usize| {
        let topic = if number.is_multiple_of(2) { "even" } else { "odd" };
        json!({"id": format!("d{number}"), "text": format!("w{number} x{} y{}", number % 7, number / 7), "metadata": {"topic": topic}})
    };
    let documents: Vec<Value> = (0..400).map(document).collect();
    let (status, answer) = client.post("/v1/collections/news/documents", &json!({ "documents": documents }));
    assert_eq!(status, 200, "{answer}");
}

/// Starts a training that takes long enough to be seen; gives its job's path.
fn train(client: &Client, name: &str, runs: u32) -> String {
    let network = json!({"hidden": 128, "epochs_max": 300, "runs": runs, "patience": 300});
    let source = json!({"collection": "news", "field": "topic"});
    let (status, made) = client.post("/v1/classifiers", &json!({"name": name, "kind": "mlp", "source": source, "mlp": network}));
    assert_eq!(status, 201, "{made}");
    format!("/v1/jobs/{}", made["job"].as_str().unwrap())
}

fn wait_for(client: &Client, job: &str, status: &str) -> Value {
    client.wait_until(status, |client| client.get(job).1["status"] == status);
    client.get(job).1
}

#[test]
fn a_job_is_seen_and_watched_through_another_server() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    fill(&one);
    let job = train(&one, "parity", 1);
    let events = other.get_text(&format!("{job}/events"));
    let last = events.trim_end().rsplit("\n\n").find(|block| block.contains("data:")).unwrap().to_owned();
    assert!(last.contains("event: end") && last.contains("\"succeeded\""), "{events}");
    assert_eq!(other.get(&job), one.get(&job));
    assert_eq!(other.get("/v1/jobs").1["jobs"].as_array().unwrap().len(), 1);
}

#[test]
fn a_job_is_canceled_through_another_server_within_a_moment() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    fill(&one);
    let job = train(&one, "parity", 100);
    wait_for(&other, &job, "running");
    let (status, asked) = other.send("POST", &format!("{job}/cancel"), &json!({}));
    assert_eq!((status, &asked["cancel_requested"]), (200, &json!(true)), "{asked}");
    let begun = Instant::now();
    wait_for(&other, &job, "canceled");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(one.get("/v1/classifiers/parity").1["state"], "failed");
}

#[test]
fn the_job_of_a_killed_server_goes_on_elsewhere_and_ends_once() {
    let mut servers = Servers::start(3);
    let [one, other, third] = servers.clients();
    fill(&one);
    let jobs: Vec<String> = ["a", "b", "c"].iter().map(|name| train(&one, name, 2)).collect();
    wait_for(&other, &jobs[0], "running");
    servers.kill(0);
    let begun = Instant::now();
    let mut database = servers.database();
    let mut waiting = || {
        let sql = "select count(*) from dragoman.jobs where finished_at_ms is null
                   and owner not in (select id from dragoman.servers)";
        database.query_one(sql, &[]).unwrap().get::<_, i64>(0)
    };
    while waiting() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody takes the jobs over");
        std::thread::sleep(Duration::from_millis(20));
    }
    for (job, name) in jobs.iter().zip(["a", "b", "c"]) {
        wait_for(&other, job, "succeeded");
        let shown = third.get(&format!("/v1/classifiers/{name}")).1;
        assert_eq!((&shown["state"], &shown["version"]), (&json!("ready"), &json!(1)), "trained once: {shown}");
    }
}

#[test]
fn the_jobs_of_a_server_that_stops_in_order_go_on_elsewhere() {
    let mut servers = Servers::start(2);
    let [one, other] = servers.clients();
    fill(&one);
    let job = train(&one, "parity", 2);
    wait_for(&other, &job, "running");
    servers.stop(0);
    wait_for(&other, &job, "succeeded");
}

#[test]
fn a_server_that_starts_leaves_the_jobs_of_others_alone() {
    let mut servers = Servers::start(1);
    let [one] = servers.clients();
    fill(&one);
    let job = train(&one, "parity", 2);
    wait_for(&one, &job, "running");
    servers.add();
    servers.add();
    assert_eq!(wait_for(&one, &job, "succeeded")["error"], Value::Null);
    let owners: i64 = servers.database().query_one("select count(distinct owner) from dragoman.jobs", &[]).unwrap().get(0);
    assert_eq!(owners, 1);
}

#[test]
fn a_repeated_request_that_both_servers_get_at_once_creates_one_job() {
    let servers = Servers::start(2);
    let clients = servers.clients::<2>();
    fill(&clients[0]);
    for round in 0..5 {
        let key = format!("k{round}");
        let answers = at_once(&clients, "/v1/collections/news/duplicates", &[("idempotency-key", &key)], &json!({}));
        assert!(answers.iter().all(|(status, _)| *status == 202), "{answers:?}");
        assert_eq!(answers[0].1["id"], answers[1].1["id"]);
    }
    assert_eq!(clients[1].get("/v1/jobs?type=duplicates&limit=100").1["jobs"].as_array().unwrap().len(), 5);
}
