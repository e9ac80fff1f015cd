//! The real program with its store on a database server that fails over to its replica.

use std::path::Path;

use super::import::{accepted, create, lines};
use super::postgres_server::Database;
use super::program::{Client, Program, command};
use serde_json::json;

const LINES: usize = 6_000;

/// Changes a setting of a database server.
fn configure(database: &Database, setting: &str) {
    let mut client = database.client();
    client.batch_execute(&format!("alter system set {setting}")).unwrap();
    client.batch_execute("select pg_reload_conf()").unwrap();
}

/// The host of a database server in a URL.
fn host(database: &Database) -> String {
    database.url("").trim_start_matches("postgres://postgres@").trim_end_matches('/').to_owned()
}

/// Starts a server whose store is on both; the replica comes first, and takes no writes yet. Returns the server with a client
/// that has created a collection.
fn serve(data: &Path, primary: &Database, replica: &Database) -> (Program, Client) {
    let mut command = command(data, "fake:64");
    command.env("DRAGOMAN_STORE", format!("postgres://postgres@{},{}/postgres", host(replica), host(primary)));
    let server = Program::run(command);
    let client = create(&server);
    (server, client)
}

/// Starts an import and waits until some lines are stored. Returns the job's path.
fn begin_import(client: &Client) -> String {
    let line = |n: usize| json!({ "id": format!("d{n}"), "text": format!("number {n} speaks of w{n}") }).to_string();
    let job = accepted(client.post_lines("/v1/collections/news/import", lines(LINES, line)));
    wait_for_lines(client, &job, 0);
    job
}

/// Waits until the import has stored more than this number of lines.
fn wait_for_lines(client: &Client, job: &str, stored: u64) {
    client.wait_until("more lines are stored", |client| client.get(job).1["details"]["lines"].as_u64() > Some(stored));
}

/// Replaces the primary by its replica and checks that the import stores all lines there.
fn check_import_after_failover(client: &Client, job: &str, primary: &Database, replica: &Database) {
    primary.kill();
    replica.client().batch_execute("select pg_promote()").unwrap();
    let has_ended = |client: &Client| client.try_get(job).is_ok_and(|(_, job)| job["finished_at"].is_string());
    client.wait_until("the import ends", has_ended);
    let (_, ended) = client.get(job);
    assert_eq!(ended["details"], json!({ "lines": LINES, "created": LINES, "updated": 0, "failed": 0 }), "{ended}");
    assert_eq!(client.get_text(&format!("{job}/results")).lines().count(), LINES);
    assert_eq!(client.get_text("/v1/collections/news/export").lines().count(), LINES);
}

#[test]
fn an_import_continues_on_the_replica_that_replaces_its_database() {
    let primary = Database::start();
    let replica = primary.replica();
    configure(&primary, "synchronous_standby_names = '*'");
    let data = tempfile::tempdir().unwrap();
    let (_server, client) = serve(data.path(), &primary, &replica);
    let job = begin_import(&client);
    check_import_after_failover(&client, &job, &primary, &replica);
}

#[test]
fn an_import_stores_again_what_an_asynchronous_replica_lacks() {
    let primary = Database::start();
    let replica = primary.replica();
    let data = tempfile::tempdir().unwrap();
    let (_server, client) = serve(data.path(), &primary, &replica);
    let job = begin_import(&client);
    configure(&replica, "primary_conninfo = ''");
    let following = || primary.client().query_one("select count(*) from pg_stat_replication", &[]).unwrap().get::<_, i64>(0);
    client.wait_until("the replica no longer follows", |_| following() == 0);
    let stored = client.get(&job).1["details"]["lines"].as_u64().unwrap();
    wait_for_lines(&client, &job, stored);
    check_import_after_failover(&client, &job, &primary, &replica);
}
