//! The client commands: the real program against a real server with the fake encoder, and against a scripted server for answers
//! that a real one would not give.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod classifiers;
mod collections;
mod documents;
mod embed;
mod eval;
mod eval_search;
mod import_export;
mod jobs;
mod migration;
mod mining;
mod pipes;
mod projections;
mod responses;
mod search;
mod secure;
mod usage;

#[path = "../support/program.rs"]
mod program;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// The outcome of one run of the program.
#[derive(Debug)]
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Run {
    /// Checks the exit code and returns standard output.
    #[track_caller]
    fn expect(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{self:?}");
        &self.out
    }

    /// Checks the exit code and parses standard output as one JSON value per line.
    #[track_caller]
    fn json(&self) -> Vec<Value> {
        self.expect(0).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The program for the server at `url`, without the environment variables that it would read.
fn dragoman(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dragoman"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DRAGOMAN_")) {
        command.env_remove(name);
    }
    command.args(arguments).env("DRAGOMAN_SERVER", url).env("NO_PROXY", "127.0.0.1");
    command
}

/// Runs the program to completion with `input` on standard input.
fn run_with(mut command: Command, input: &[u8]) -> Run {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A program that fails early does not read its input.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn run(url: &str, arguments: &[&str]) -> Run {
    run_with(dragoman(url, arguments), b"")
}

/// A server that gives scripted answers, one per request, and records the requests.
struct Script {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Script {
    /// Answers with these status lines and bodies.
    fn of(responses: &[(&str, &str)]) -> Self {
        let whole =
            |(head, body): &(&str, &str)| format!("{head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        Self::raw(responses.iter().map(whole).collect())
    }

    /// Answers with these, complete except for the protocol at the start.
    fn raw(responses: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for (response, stream) in responses.into_iter().zip(listener.incoming()) {
                let mut stream = BufReader::new(stream.unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    assert!(stream.read_line(&mut head).unwrap() > 0, "the request ended in its head: {head}");
                }
                let length =
                    head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
                if head.contains("100-continue") {
                    stream.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
                }
                let mut body = vec![0; length.unwrap_or(0)];
                stream.read_exact(&mut body).unwrap();
                head.push_str(&String::from_utf8(body).unwrap());
                seen.lock().unwrap().push(head);
                stream.get_mut().write_all(format!("HTTP/1.1 {response}").as_bytes()).unwrap();
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}
