//! The real program with its store on a database server that fails over to its replica.

use super::import::{accepted, create, lines};
use super::postgres_server::Database;
use super::program::{Client, Program, command};
use serde_json::json;

const LINES: usize = 6_000;

/// The host of a database server in a URL.
fn host(database: &Database) -> String {
    database.url("").trim_start_matches("postgres://postgres@").trim_end_matches('/').to_owned()
}

#[test]
fn an_import_continues_on_the_replica_that_replaces_its_database() {
    let primary = Database::start();
    let replica = primary.replica();
    primary.client().batch_execute("alter system set synchronous_standby_names = '*'").unwrap();
    primary.client().batch_execute("select pg_reload_conf()").unwrap();
    let data = tempfile::tempdir().unwrap();
    let mut command = command(data.path(), "fake:64");
    // The replica comes first, and takes no writes yet.
    command.env("DRAGOMAN_STORE", format!("postgres://postgres@{},{}/postgres", host(&replica), host(&primary)));
    let server = Program::run(command);
    let client = create(&server);
    let line = |n: usize| json!({ "id": format!("d{n}"), "text": format!("number {n} speaks of w{n}") }).to_string();
    let job = accepted(client.post_lines("/v1/collections/news/import", lines(LINES, line)));
    client.wait_until("some lines are stored", |client| client.get(&job).1["details"]["lines"].as_u64() > Some(0));
    primary.kill();
    replica.client().batch_execute("select pg_promote()").unwrap();
    let has_ended = |client: &Client| client.try_get(&job).is_ok_and(|(_, job)| job["finished_at"].is_string());
    client.wait_until("the import ends", has_ended);
    let (_, ended) = client.get(&job);
    assert_eq!(ended["details"], json!({ "lines": LINES, "created": LINES, "updated": 0, "failed": 0 }), "{ended}");
    assert_eq!(client.get_text(&format!("{job}/results")).lines().count(), LINES);
    assert_eq!(client.get_text("/v1/collections/news/export").lines().count(), LINES);
}
