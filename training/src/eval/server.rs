//! Embeddings from a running server over HTTP, by the OpenAI-compatible `POST /v1/embeddings`.
//!
//! Texts are sent in batches below a server's default limits (`openapi/openapi.json`). If a server is overloaded or not ready
//! yet (429, 503), the request is repeated after the time that the server asks for, a bounded number of times. Any other error
//! ends the evaluation.

use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Response;

use crate::error::Error;
use dragoman::evaluation::{Embeddings, EvaluationError, SentenceEncoder};

/// Maximum texts per request; a server's default limit is 2,048.
const BATCH_TEXTS_MAX: usize = 512;
/// Maximum bytes of all texts per request; a server's default body limit is 32 MiB. One text always fits.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Maximum attempts per request.
const ATTEMPTS: usize = 6;
/// Default delay before another attempt; `WAIT_MAX_S` is the longest.
const WAIT_S: u64 = 1;
const WAIT_MAX_S: u64 = 30;
/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum bytes of one response; a number in decimal takes up to about 16 bytes.
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
    /// Uses the server at `server`, such as `http://127.0.0.1:7700`, with `model` or its default model.
    pub fn new(server: &str, model: Option<String>) -> Result<Self, Error> {
        if !server.starts_with("http://") {
            let problem = format!("expected an address that begins with http://, got {server}");
            return Err(Error::Setting { setting: "server", problem });
        }
        let url = format!("{}/v1/embeddings", server.trim_end_matches('/'));
        let config = Agent::config_builder().http_status_as_error(false).timeout_global(Some(REQUEST_TIMEOUT)).build();
        Ok(Self { agent: config.into(), url, model })
    }

    /// Embeddings of one batch in order, as documents unless `input_type` says otherwise.
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

    /// Embeddings of all texts, concatenated, and their dimension.
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

    /// Sends `body`, with retries, until it succeeds or fails permanently.
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

/// Splits texts into batches for one request each: in order, within both limits, at least one text.
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

/// The delay that the response asks for; seconds only, dates are not supported.
fn wait(answer: &Response<ureq::Body>) -> Duration {
    let named = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Duration::from_secs(named.unwrap_or(WAIT_S).min(WAIT_MAX_S))
}

/// The message of an error response: OpenAI's message, the RFC 9457 detail, or the raw text.
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
