//! Jobs: visible and cancelable through another server, and taken over when their server is gone. Each server runs one at a
//! time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Client, Servers, at_once, create};

/// Fills a collection that a classifier can be trained on.
fn fill(client: &Client) {
    create(client, "news");
    let document = |number: usize| {
        let topic = if number.is_multiple_of(2) { "even" } else { "odd" };
        json!({"id": format!("d{number}"), "text": format!("w{number} x{}", number % 7), "metadata": {"topic": topic}})
    };
    let documents: Vec<Value> = (0..40).map(document).collect();
    let (status, response) = client.post("/v1/collections/news/documents", &json!({ "documents": documents }));
    assert_eq!(status, 200, "{response}");
}

/// Starts a training; returns its job's path.
fn train(client: &Client, name: &str, network: &Value) -> String {
    let source = json!({"collection": "news", "field": "topic"});
    let (status, made) = client.post("/v1/classifiers", &json!({"name": name, "kind": "mlp", "source": source, "mlp": network}));
    assert_eq!(status, 201, "{made}");
    format!("/v1/jobs/{}", made["job"].as_str().unwrap())
}

/// Starts a training that does not end during a test.
fn train_endlessly(client: &Client) -> String {
    let job = train(client, "endless", &json!({"hidden": 64, "epochs_max": 10_000, "patience": 10_000, "runs": 100}));
    wait_for(client, &job, "running");
    job
}

/// Starts a training that takes a moment.
fn train_soon(client: &Client, name: &str) -> String {
    train(client, name, &json!({"hidden": 4, "epochs_max": 3, "patience": 3, "runs": 1}))
}

fn wait_for(client: &Client, job: &str, status: &str) -> Value {
    client.wait_until(status, |client| client.get(job).1["status"] == status);
    client.get(job).1
}

fn cancel(client: &Client, job: &str) {
    let (status, asked) = client.send("POST", &format!("{job}/cancel"), &json!({}));
    assert_eq!((status, &asked["cancel_requested"]), (200, &json!(true)), "{asked}");
    wait_for(client, job, "canceled");
}

/// Checks that a classifier was trained once.
fn check_trained(client: &Client, name: &str) {
    let shown = client.get(&format!("/v1/classifiers/{name}")).1;
    assert_eq!((&shown["state"], &shown["version"]), (&json!("ready"), &json!(1)), "{shown}");
}

fn number(servers: &Servers, sql: &str) -> i64 {
    servers.database().query_one(sql, &[]).unwrap().get(0)
}

const AGAIN: &str = "0198c0de-0000-7000-8000-000000000001";

/// Stores the only job a second time, as new and with another id.
fn store_again(servers: &Servers, owner: &str) {
    let stored = format!(
        "insert into dragoman.jobs (id, type, status, collection, request, details, done, total, unit, created_at_ms, owner)
         select $1, type, 'queued', collection, request, details, 0, total, unit, created_at_ms, {owner} from dragoman.jobs"
    );
    assert_eq!(servers.database().execute(&stored, &[&AGAIN]).unwrap(), 1);
}

#[test]
fn results_are_read_from_the_server_that_ran_the_job() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    create(&one, "news");
    let documents = json!({"documents": [{"id": "a", "text": "gleich"}, {"id": "b", "text": "gleich"}]});
    one.post("/v1/collections/news/documents?wait=indexed", &documents);
    let (status, job) = one.post("/v1/collections/news/duplicates", &json!({"score_min": 0.9}));
    assert_eq!(status, 202, "{job}");
    let job = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    wait_for(&one, &job, "succeeded");
    assert_eq!(one.get(&format!("{job}/clusters")).0, 200);
    let (status, refused) = other.get(&format!("{job}/clusters"));
    assert_eq!((status, &refused["code"]), (409, &json!("no_results")), "{refused}");
}

#[test]
fn a_job_can_be_read_and_watched_through_another_server() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    fill(&one);
    let endless = train_endlessly(&one);
    let job = train_soon(&one, "soon");
    assert_eq!(other.get(&job).1["status"], "queued");
    assert_eq!(other.get("/v1/jobs").1["jobs"].as_array().unwrap().len(), 2);
    let events = std::thread::scope(|scope| {
        let watching = scope.spawn(|| other.get_text(&format!("{job}/events")));
        cancel(&one, &endless);
        watching.join().unwrap()
    });
    let last = events.trim_end().rsplit("\n\n").find(|block| block.contains("data:")).unwrap();
    assert!(last.contains("event: end") && last.contains("\"succeeded\""), "{events}");
    assert_eq!(other.get(&job), one.get(&job));
}

#[test]
fn running_and_queued_jobs_can_be_canceled_through_another_server() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    fill(&one);
    let (running, waiting) = (train_endlessly(&one), train_soon(&one, "soon"));
    let started = Instant::now();
    cancel(&other, &waiting);
    cancel(&other, &running);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    for name in ["soon", "endless"] {
        assert_eq!(one.get(&format!("/v1/classifiers/{name}")).1["state"], "failed");
    }
}

#[test]
fn jobs_of_a_killed_server_continue_elsewhere_and_complete_once() {
    let mut servers = Servers::start(3);
    let [one, other, third] = servers.clients();
    fill(&one);
    let endless = train_endlessly(&one);
    let soon = ["a", "b"].map(|name| (train_soon(&one, name), name));
    servers.kill(0);
    let started = Instant::now();
    let orphans = "select count(*) from dragoman.jobs where owner not in (select id from dragoman.servers)";
    other.wait_until("the dead server is known to be dead", |_| number(&servers, "select count(*) from dragoman.servers") == 2);
    other.wait_until("its jobs are taken over", |_| number(&servers, orphans) == 0);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!(number(&servers, "select count(distinct owner) from dragoman.jobs"), 1);
    cancel(&third, &endless);
    for (job, name) in soon {
        wait_for(&other, &job, "succeeded");
        check_trained(&third, name);
    }
}

#[test]
fn a_job_waits_for_files_of_a_killed_server_and_can_be_canceled() {
    let mut servers = Servers::start(2);
    let [one, other] = servers.clients();
    fill(&one);
    let endless = train_endlessly(&one);
    let imports = ["a", "b"].map(|id| {
        let line = json!({"id": id, "text": "tide"}).to_string();
        let (status, job) = one.post_lines("/v1/collections/news/import", std::io::Cursor::new(line.into_bytes()));
        assert_eq!(status, 202, "{job}");
        format!("/v1/jobs/{}", job["id"].as_str().unwrap())
    });
    let data = servers.kill(0);
    let taken = "select count(*) from dragoman.jobs where owner in (select id from dragoman.servers)";
    other.wait_until("the job without files is taken over", |_| number(&servers, taken) == 1);
    cancel(&other, &imports[1]);
    assert_eq!(other.get(&imports[0]).1["status"], "queued");
    cancel(&other, &endless);
    servers.add_with(data);
    wait_for(&other, &imports[0], "succeeded");
    let found = ["a", "b"].map(|id| other.get(&format!("/v1/collections/news/documents/{id}")).0);
    assert_eq!(found, [200, 404]);
}

#[test]
fn jobs_of_a_cleanly_stopped_server_continue_elsewhere() {
    let mut servers = Servers::start(2);
    let [one, other] = servers.clients();
    fill(&one);
    let (endless, soon) = (train_endlessly(&one), train_soon(&one, "soon"));
    servers.stop(0);
    cancel(&other, &endless);
    wait_for(&other, &soon, "succeeded");
    check_trained(&other, "soon");
}

#[test]
fn a_starting_server_leaves_the_jobs_of_others_alone() {
    let mut servers = Servers::start(1);
    let [one] = servers.clients();
    fill(&one);
    let (endless, soon) = (train_endlessly(&one), train_soon(&one, "soon"));
    servers.add();
    servers.add();
    let [_, other, _] = servers.clients();
    assert_eq!(other.get(&soon).1["status"], "queued");
    cancel(&other, &endless);
    wait_for(&other, &soon, "succeeded");
    check_trained(&other, "soon");
    assert_eq!(number(&servers, "select count(distinct owner) from dragoman.jobs"), 1);
}

#[test]
fn a_running_job_that_changes_owner_completes_once() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    fill(&one);
    let (endless, soon) = (train_endlessly(&one), train_soon(&one, "soon"));
    // As if their server had been declared dead: no server has this number, so any server may take the jobs over, the first one
    // too.
    let taken = "with taken as (update dragoman.jobs set owner = 1 where finished_at_ms is null returning 1)
                 select count(*) from taken";
    for _ in 0..3 {
        assert_eq!(number(&servers, taken), 2);
        let left = "select count(*) from dragoman.jobs where owner = 1";
        other.wait_until("they are taken over", |_| number(&servers, left) == 0);
    }
    cancel(&other, &endless);
    wait_for(&other, &soon, "succeeded");
    check_trained(&one, "soon");
}

#[test]
fn a_job_whose_server_was_not_told_that_it_is_stored_runs() {
    let servers = Servers::start(2);
    let [one, other] = servers.clients();
    fill(&one);
    let (status, job) = one.post("/v1/collections/news/projections", &json!({}));
    assert_eq!(status, 202, "{job}");
    wait_for(&one, &format!("/v1/jobs/{}", job["id"].as_str().unwrap()), "succeeded");
    // As if the connection had broken at the commit.
    store_again(&servers, "owner");
    wait_for(&other, &format!("/v1/jobs/{AGAIN}"), "succeeded");
}

#[test]
fn an_import_that_the_database_commits_after_a_restart_has_its_file() {
    let mut servers = Servers::start(1);
    let [one] = servers.clients();
    create(&one, "news");
    let line = json!({"id": "a", "text": "tide"}).to_string();
    let (status, job) = one.post_lines("/v1/collections/news/import", std::io::Cursor::new(line.clone().into_bytes()));
    assert_eq!(status, 202, "{job}");
    wait_for(&one, &format!("/v1/jobs/{}", job["id"].as_str().unwrap()), "succeeded");
    // What a killed server leaves of an upload that it has not acknowledged.
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("jobs").join(AGAIN);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("source"), line).unwrap();
    servers.add_with(data);
    // No living server has this number.
    store_again(&servers, "1");
    wait_for(&one, &format!("/v1/jobs/{AGAIN}"), "succeeded");
}

#[test]
fn an_import_continues_after_the_database_ended_its_transaction() {
    let servers = Servers::start(1);
    let [one] = servers.clients();
    create(&one, "news");
    // As the database ends the transactions of a process that was suspended for a minute. The sequence counts those, too.
    let hang = "create sequence public.hung;
        create function public.hang() returns trigger language plpgsql as $$ begin
            if nextval('public.hung') <= 2 then raise exception 'idle' using errcode = '25P03'; end if;
            return new;
        end $$;
        create trigger hang before update on dragoman.collections for each row execute function public.hang()";
    servers.database().batch_execute(hang).unwrap();
    let line = json!({"id": "a", "text": "tide"}).to_string();
    let (status, job) = one.post_lines("/v1/collections/news/import", std::io::Cursor::new(line.into_bytes()));
    assert_eq!(status, 202, "{job}");
    let job = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    one.wait_until("it ends", |client| !["queued", "running"].contains(&client.get(&job).1["status"].as_str().unwrap()));
    assert_eq!(one.get(&job).1["status"], "succeeded", "{}", one.get(&job).1);
    assert_eq!(one.get("/v1/collections/news/documents/a").0, 200);
}

#[test]
fn concurrent_requests_with_one_idempotency_key_create_one_job() {
    let servers = Servers::start(2);
    let clients = servers.clients::<2>();
    fill(&clients[0]);
    for round in 0..5 {
        let key = format!("k{round}");
        let responses = at_once(&clients, "/v1/collections/news/duplicates", &[("idempotency-key", &key)], &json!({}));
        assert!(responses.iter().all(|(status, _)| *status == 202), "{responses:?}");
        assert_eq!(responses[0].1["id"], responses[1].1["id"]);
    }
    assert_eq!(clients[1].get("/v1/jobs?type=duplicates&limit=100").1["jobs"].as_array().unwrap().len(), 5);
}
