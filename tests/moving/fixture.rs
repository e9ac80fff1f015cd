//! Test locations, the move command, the data that servers are filled with, and what they answer.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dragoman::storage::PostgresOptions;
use postgres::NoTls;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::postgres_server::Database;
use crate::program::{Client, Program, command};

/// The fake encoder, for tests where the quality of embeddings does not matter.
pub const FAKE: &str = "fake:64";

/// A data directory and a database that belong to one test.
pub struct Places {
    pub data: TempDir,
    pub database: PostgresOptions,
    /// The local data directory of servers that use the database.
    beside: TempDir,
}

impl Places {
    pub fn new() -> Self {
        let folder = || tempfile::tempdir().unwrap();
        Self { data: folder(), database: Database::shared().0.own(), beside: folder() }
    }

    /// The data directory as a command-line argument.
    pub fn folder(&self) -> &str {
        self.data.path().to_str().unwrap()
    }

    /// The database URL as a command-line argument.
    pub fn url(&self) -> &str {
        &self.database.url
    }

    /// A server on the data directory.
    pub fn serve_folder(&self, model: &str) -> Program {
        Program::run(command(self.data.path(), model))
    }

    /// A server on the database.
    pub fn serve_database(&self, model: &str) -> Program {
        let mut command = command(self.beside.path(), model);
        command.env("DRAGOMAN_STORE", self.url());
        Program::run(command)
    }

    /// A connection to the database.
    pub fn sql(&self) -> postgres::Client {
        postgres::Client::connect(self.url(), NoTls).unwrap()
    }

    /// A number that an SQL query returns.
    pub fn number(&self, sql: &str) -> i64 {
        self.sql().query_one(sql, &[]).unwrap().get(0)
    }

    /// The table of a collection, numbered in order of creation.
    pub fn table(&self, name: &str, place: usize) -> String {
        let keys = self.sql().query("select key from dragoman.collections order by key", &[]).unwrap();
        format!("dragoman.{name}_{}", keys[place].get::<_, i64>(0))
    }

    /// All rows of all tables.
    pub fn rows(&self) -> BTreeMap<String, String> {
        let mut client = self.sql();
        let tables = client.query("select tablename::text from pg_tables where schemaname = 'dragoman'", &[]).unwrap();
        let mut rows = |name: &str| -> String {
            let sql = format!("select coalesce(string_agg(t::text, e'\\n' order by t::text), '') from dragoman.{name} t");
            client.query_one(&sql, &[]).unwrap().get(0)
        };
        tables.iter().map(|row| row.get::<_, String>(0)).map(|name| (name.clone(), rows(&name))).collect()
    }
}

/// All files below a folder, with their content.
pub fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// The outcome of one run of the command.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// The command.
pub fn move_command(from: &str, to: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dragoman"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DRAGOMAN_")) {
        command.env_remove(name);
    }
    command.args(["move", "--from", from, "--to", to]).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the command to completion.
pub fn moved(from: &str, to: &str, more: &[&str]) -> Run {
    let output = move_command(from, to, more).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

impl Run {
    /// Checks that the command succeeded, and parses its output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.out).unwrap()
    }

    /// Checks that it failed and that its output contains these words.
    #[track_caller]
    pub fn fails(&self, words: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (1, ""), "{self:?}");
        assert!(words.iter().all(|word| self.err.contains(word)), "{words:?} {self:?}");
    }
}

/// Creates two collections: `news` with many documents, `blog` with one.
pub fn fill(client: &Client, documents: usize) {
    for name in ["news", "blog"] {
        assert_eq!(client.post("/v1/collections", &json!({ "name": name })).0, 201);
    }
    let line = |n: usize| json!({"id": format!("n{n}"), "text": format!("w{n} x{} y{}", n % 97, n / 7)}).to_string() + "\n";
    let lines: String = (0..documents).map(line).collect();
    let job = client.post_lines("/v1/collections/news/import", Cursor::new(lines)).1;
    let job = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    client.wait_until("the import ends", |client| client.get(&job).1["status"] == "succeeded");
    put(client, "blog", &json!({"id": "b", "text": "ein Zug"}));
    client.wait_until("everything is embedded", |client| client.get("/v1/collections/news").1["passages_pending"] == 0);
}

/// Stores a document.
pub fn put(client: &Client, collection: &str, document: &Value) {
    let stored = client.post(&format!("/v1/collections/{collection}/documents"), &json!({ "documents": [document] }));
    assert_eq!(stored.0, 200, "{stored:?}");
}

/// The number of documents of each collection, by name.
pub fn counts(client: &Client) -> Vec<(String, i64)> {
    let listed = client.get("/v1/collections").1;
    let count = |row: &Value| (row["name"].as_str().unwrap().to_owned(), row["documents"].as_i64().unwrap());
    listed["collections"].as_array().unwrap().iter().map(count).collect()
}
