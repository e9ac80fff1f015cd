//! Temporary collections and classifiers on the server, deleted when the evaluation ends, even if it fails.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::cli::client::{Call, Client};
use crate::cli::error::CliError;
use crate::cli::jobs;
use crate::cli::output::format_cell;

/// A temporary collection or classifier on the server. Dropping this deletes it.
pub struct Scratch<'a> {
    client: &'a Client,
    kind: &'static str,
    /// Its name, unique to this evaluation.
    pub name: String,
}

impl<'a> Scratch<'a> {
    /// Creates a collection that uses `model`, or the server's own model.
    pub fn collection(client: &'a Client, model: Option<&str>) -> Result<Self, CliError> {
        let body = model.map_or(json!({}), |model| json!({ "model": model }));
        Self::make(client, "collections", "relevance", body).map(|(scratch, _)| scratch)
    }

    /// Creates a classifier with the members of `body` and waits until it is trained.
    pub fn classifier(client: &'a Client, kind: &str, body: Value) -> Result<Self, CliError> {
        let (scratch, made) = Self::make(client, "classifiers", kind, body)?;
        let job = jobs::get(client, &format_cell(&made["job"]))?;
        let job = jobs::watch(client, job)?;
        match job["status"].as_str() {
            Some("succeeded") => Ok(scratch),
            _ => Err(CliError::Failed(format!("training failed: {}", format_cell(&job["error"]["detail"])))),
        }
    }

    fn make(client: &'a Client, kind: &'static str, what: &str, mut body: Value) -> Result<(Self, Value), CliError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("eval-{what}-{}-{}", now.as_millis(), std::process::id());
        body["name"] = json!(name);
        let made = client.send(&Call::post(&[kind]).json(body))?;
        Ok((Self { client, kind, name }, made))
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.client.send(&Call::delete(&[self.kind, &self.name])) {
            let what = format!("{} {} stays on the server", self.kind.trim_end_matches('s'), self.name);
            self.client.output.problem(&format!("{what}: {}", crate::cli::chain(&error)));
        }
    }
}
