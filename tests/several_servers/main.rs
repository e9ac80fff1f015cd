//! Several real servers over one database: what one server acknowledges is true for all, and nothing is lost when it dies.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod catalog;
mod death;
mod documents;
mod jobs;
#[path = "../support/postgres.rs"]
mod postgres_server;
#[path = "../support/program.rs"]
mod program;
mod reembedding;

use std::path::Path;
use std::process::Command;

use postgres_server::Database;
use program::{Client, Program, command};
use serde_json::{Value, json};
use tempfile::TempDir;

const MODEL: &str = "fake:64";

/// Servers that share their own test database.
pub struct Servers {
    url: String,
    running: Vec<(Program, TempDir)>,
}

impl Servers {
    /// Starts `count` servers.
    pub fn start(count: usize) -> Self {
        Self::of(MODEL, count)
    }

    /// Starts `count` servers with this model.
    pub fn of(model: &str, count: usize) -> Self {
        let url = Database::shared().0.own().url;
        let mut servers = Self { url, running: Vec::new() };
        (0..count).for_each(|_| servers.add_of(model));
        servers
    }

    /// Starts another server.
    pub fn add(&mut self) {
        self.add_of(MODEL);
    }

    /// Starts another server with this model.
    pub fn add_of(&mut self, model: &str) {
        let data = tempfile::tempdir().unwrap();
        self.running.push((Program::run(self.command(data.path(), model)), data));
    }

    /// Starts another server on the data directory of one that has exited.
    pub fn add_with(&mut self, data: TempDir) {
        self.running.push((Program::run(self.command(data.path(), MODEL)), data));
    }

    fn command(&self, data: &Path, model: &str) -> Command {
        let mut command = command(data, model);
        command.env("DRAGOMAN_STORE", &self.url).env("DRAGOMAN_JOBS_RUNNING_MAX", "1");
        command
    }

    /// A client for each server.
    pub fn clients<const COUNT: usize>(&self) -> [Client; COUNT] {
        std::array::from_fn(|at| self.running[at].0.client())
    }

    /// Connects to their database.
    pub fn database(&self) -> postgres::Client {
        postgres::Client::connect(&self.url, postgres::NoTls).unwrap()
    }

    /// Makes the clock of the database differ from that of the servers, which have not started yet.
    pub fn skew_clock(&self, hours: i32) {
        let database = self.url.rsplit('/').next().unwrap();
        // The database finds these functions before those of PostgreSQL.
        let skew = format!(
            "create schema skew;
             create function skew.clock_timestamp() returns timestamptz volatile language sql
                 as $$ select pg_catalog.clock_timestamp() + interval '{hours} hours' $$;
             create function skew.statement_timestamp() returns timestamptz stable language sql
                 as $$ select pg_catalog.statement_timestamp() + interval '{hours} hours' $$;
             alter database {database} set search_path = skew, pg_catalog, public"
        );
        self.database().batch_execute(&skew).unwrap();
    }

    /// Kills the server at this position and returns its data directory; later servers move up.
    pub fn kill(&mut self, at: usize) -> TempDir {
        let (mut server, data) = self.running.remove(at);
        server.kill();
        data
    }

    /// Stops the server at this position cleanly, and returns its log.
    pub fn stop_and_read_log(&mut self, at: usize) -> Vec<String> {
        let (server, _data) = self.running.remove(at);
        server.stop_and_read_log()
    }

    /// Stops the server at this position cleanly.
    pub fn stop(&mut self, at: usize) {
        let (server, _) = self.running.remove(at);
        assert!(server.terminate().success());
    }
}

/// Creates a collection.
pub fn create(client: &Client, name: &str) {
    let (status, response) = client.post("/v1/collections", &json!({ "name": name }));
    assert_eq!(status, 201, "{response}");
}

/// Stores a document.
pub fn put(client: &Client, collection: &str, id: &str, text: &str) {
    let documents = json!({"documents": [{"id": id, "text": text}]});
    let (status, response) = client.post(&format!("/v1/collections/{collection}/documents"), &documents);
    assert_eq!(status, 200, "{response}");
}

/// The names on all pages of a list.
pub fn names(client: &Client, list: &str) -> Vec<String> {
    let first = format!("/v1/{list}?limit=100");
    let (mut names, mut path) = (Vec::new(), first.clone());
    loop {
        let (status, response) = client.get(&path);
        assert_eq!(status, 200, "{response}");
        names.extend(response[list].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()));
        let Some(cursor) = response["next_cursor"].as_str() else { return names };
        path = format!("{first}&cursor={cursor}");
    }
}

/// Sends the same request through each client at once.
pub fn at_once(clients: &[Client], path: &str, headers: &[(&str, &str)], body: &Value) -> Vec<(u16, Value)> {
    std::thread::scope(|scope| {
        let send = |client: &Client| client.try_send("POST", path, headers, body).unwrap();
        let sending: Vec<_> = clients.iter().map(|client| scope.spawn(move || send(client))).collect();
        sending.into_iter().map(|one| one.join().unwrap()).collect()
    })
}
