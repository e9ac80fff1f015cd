//! A minimal client for a Dragoman server: calls, jobs, streams of lines, and errors with their codes.

use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use ureq::http::Response;

/// A server.
pub struct Dragoman {
    agent: Agent,
    url: String,
    key: Option<String>,
}

/// Why a call failed.
#[derive(Debug)]
pub struct CallError {
    /// The server's code (docs/errors.md), or `unreachable`.
    pub code: String,
    /// What was expected and what came.
    pub detail: String,
}

impl std::fmt::Display for CallError {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}: {}", self.code, self.detail)
    }
}

impl std::error::Error for CallError {}

impl Dragoman {
    /// Uses the server at DRAGOMAN_SERVER and the key in DRAGOMAN_KEY.
    pub fn from_environment() -> Self {
        let url = std::env::var("DRAGOMAN_SERVER").unwrap_or_else(|_| "http://127.0.0.1:7700".to_owned());
        let agent = Agent::config_builder().http_status_as_error(false).timeout_global(Some(Duration::from_secs(300))).build();
        Self { agent: agent.into(), url, key: std::env::var("DRAGOMAN_KEY").ok() }
    }

    /// A GET request.
    pub fn get(&self, path: &str) -> Result<Value, CallError> {
        value(self.read(path)?)
    }

    /// A POST request with a body of JSON.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        let request = self.agent.post(format!("{}{path}", self.url)).header("authorization", self.authorization());
        value(accepted(request.send_json(body))?)
    }

    /// A DELETE request.
    pub fn delete(&self, path: &str) -> Result<(), CallError> {
        let request = self.agent.delete(format!("{}{path}", self.url)).header("authorization", self.authorization());
        accepted(request.call()).map(drop)
    }

    /// Imports lines of JSON as documents; returns the job that stores them.
    pub fn import(&self, collection: &str, lines: String) -> Result<Value, CallError> {
        let request = self.agent.post(format!("{}/v1/collections/{collection}/import", self.url));
        let request = request.header("authorization", self.authorization()).header("content-type", "application/x-ndjson");
        value(accepted(request.send(lines))?)
    }

    /// Waits until a job has succeeded; returns its final state.
    pub fn finished(&self, job: &Value) -> Result<Value, CallError> {
        let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap_or_default());
        loop {
            let job = self.get(&path)?;
            match job["status"].as_str() {
                Some("queued" | "running") => std::thread::sleep(Duration::from_millis(200)),
                Some("succeeded") => return Ok(job),
                _ => return Err(problem(&job["error"])),
            }
        }
    }

    /// An answer that is a stream of JSON, one value per line.
    pub fn lines(&self, path: &str) -> Result<Vec<Value>, CallError> {
        let lines = BufReader::new(self.read(path)?.into_body().into_reader()).lines();
        lines.map(|line| serde_json::from_str(&line.map_err(unreachable)?).map_err(unreachable)).collect()
    }

    fn read(&self, path: &str) -> Result<Response<ureq::Body>, CallError> {
        accepted(self.agent.get(format!("{}{path}", self.url)).header("authorization", self.authorization()).call())
    }

    /// A server without keys ignores it.
    fn authorization(&self) -> String {
        format!("Bearer {}", self.key.as_deref().unwrap_or("none"))
    }
}

fn accepted(answer: Result<Response<ureq::Body>, ureq::Error>) -> Result<Response<ureq::Body>, CallError> {
    let mut answer = answer.map_err(unreachable)?;
    if answer.status().is_success() {
        return Ok(answer);
    }
    Err(problem(&answer.body_mut().read_json().map_err(unreachable)?))
}

fn value(mut answer: Response<ureq::Body>) -> Result<Value, CallError> {
    answer.body_mut().read_json().map_err(unreachable)
}

fn problem(body: &Value) -> CallError {
    let member = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    CallError { code: member("code"), detail: member("detail") }
}

fn unreachable(error: impl std::fmt::Display) -> CallError {
    CallError { code: "unreachable".to_owned(), detail: error.to_string() }
}
