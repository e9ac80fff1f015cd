//! Embeddings from a running server over HTTP: `POST /v1/embeddings`, which has the shape of OpenAI's.
//!
//! Texts go out in batches below the limits that a server starts with (`openapi/openapi.json`). A server that is full or not
//! ready yet (429, 503) is asked again after the time that it names, a bounded number of times. Everything else ends the
//! measurement.

use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Response;

use crate::error::Error;
use dragoman::evaluation::{Embeddings, EvaluationError, SentenceEncoder};

/// Texts per request; servers have a default limit of 2,048.
const BATCH_TEXTS_MAX: usize = 512;
/// Bytes of all texts per request; servers have a default limit of 32 MiB for the body. One text always fits.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Maximum attempts per request.
const ATTEMPTS: usize = 6;
/// The default wait before another attempt, and the longest wait.
const WAIT_S: u64 = 1;
const WAIT_MAX_S: u64 = 30;
/// Longest time that one answer may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// Bytes of one answer: numbers in decimal take up to some 16 bytes each.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// A server that embeds.
pub struct ServerEncoder {
    agent: Agent,
    url: String,
    model: Option<String>,
}

/// The relevant part of a response.
#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}

impl ServerEncoder {
    /// Asks the server at `server`, such as `http://127.0.0.1:7700`, for embeddings of `model`, or of its own model.
    pub fn new(server: &str, model: Option<String>) -> Result<Self, Error> {
        if !server.starts_with("http://") {
            let problem = format!("expected an address that begins with http://, got {server}");
            return Err(Error::Setting { setting: "server", problem });
        }
        let url = format!("{}/v1/embeddings", server.trim_end_matches('/'));
        let config = Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE)).build();
        Ok(Self { agent: config.into(), url, model })
    }

    /// Embeddings of one batch as documents, or as what `input_type` says, in order.
    fn ask(&self, texts: &[String], input_type: Option<&str>) -> Result<Vec<Vec<f32>>, Error> {
        let mut body = json!({ "input": texts, "encoding_format": "float" });
        if let Some(input_type) = input_type {
            body["input_type"] = json!(input_type);
        }
        if let Some(model) = &self.model {
            body["model"] = json!(model);
        }
        let mut answer = self.send(&body)?;
        let read = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_json::<Answer>();
        let mut items = read.map_err(|error| self.fail(format!("expected embeddings as JSON, got {error}")))?.data;
        items.sort_by_key(|item| item.index);
        if !items.iter().map(|item| item.index).eq(0..texts.len()) {
            return Err(self.fail(format!("expected one embedding for each of {} texts, got {}", texts.len(), items.len())));
        }
        Ok(items.into_iter().map(|item| item.embedding).collect())
    }

    /// Embeddings of all texts, one after the other, and their dimension.
    fn all(&self, texts: &[String], input_type: Option<&str>) -> Result<(Vec<f32>, usize), Error> {
        let mut values = Vec::new();
        let mut dimension = None;
        for numbers in batches(texts) {
            for embedding in self.ask(&texts[numbers], input_type)? {
                let expected = *dimension.get_or_insert(embedding.len());
                if embedding.len() != expected || expected == 0 {
                    return Err(self.fail(format!("expected embeddings of {expected} values, got one of {}", embedding.len())));
                }
                values.extend(embedding);
            }
        }
        Ok((values, dimension.unwrap_or(1)))
    }

    /// Sends `body` until it succeeds or fails for good.
    fn send(&self, body: &Value) -> Result<Response<ureq::Body>, Error> {
        let mut attempt = 1;
        loop {
            let sent = self.agent.post(&self.url).send_json(body);
            let mut answer = sent.map_err(|error| self.fail(format!("no answer: {error}; is it running?")))?;
            let status = answer.status().as_u16();
            if status == 200 {
                return Ok(answer);
            }
            if ![429, 503].contains(&status) || attempt == ATTEMPTS {
                let times = if attempt > 1 { format!(" {attempt} times") } else { String::new() };
                let text = answer.body_mut().read_to_string().unwrap_or_default();
                return Err(self.fail(format!("expected 200, got {status}{times}: {}", reason(&text))));
            }
            std::thread::sleep(wait(&answer));
            attempt += 1;
        }
    }

    fn fail(&self, problem: String) -> Error {
        Error::Server { url: self.url.clone(), problem }
    }
}

impl SentenceEncoder for ServerEncoder {
    fn encode(&mut self, texts: &[String]) -> Result<Embeddings, EvaluationError> {
        let (values, dimension) = self.all(texts, None).map_err(EvaluationError::measured)?;
        Embeddings::normalized(values, dimension)
    }

    fn encode_questions(&mut self, questions: &[String]) -> Result<Embeddings, EvaluationError> {
        let (values, dimension) = self.all(questions, Some("query")).map_err(EvaluationError::measured)?;
        Embeddings::normalized(values, dimension)
    }
}

/// Ranges of texts that are sent together: in order, within both limits, at least one.
fn batches(texts: &[String]) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (number, text) in texts.iter().enumerate() {
        bytes += text.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH_TEXTS_MAX && bytes <= BATCH_BYTES_MAX => batch.end = number + 1,
            _ => {
                bytes = text.len();
                batches.push(number..number + 1);
            }
        }
    }
    batches
}

/// The wait that the response asks for, in seconds; dates are not supported.
fn wait(answer: &Response<ureq::Body>) -> Duration {
    let named = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Duration::from_secs(named.unwrap_or(WAIT_S).min(WAIT_MAX_S))
}

/// The message of an error response: OpenAI's message, the detail of RFC 9457, or the text as it is.
fn reason(text: &str) -> String {
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let (code, message) = match body.get("error") {
        Some(error) => (error.get("code"), error.get("message")),
        None => (body.get("code"), body.get("detail")),
    };
    match (code.and_then(Value::as_str), message.and_then(Value::as_str)) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (None, Some(message)) => message.to_owned(),
        _ => text.chars().take(200).collect(),
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
