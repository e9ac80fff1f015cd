//! Errors of commands, their display, and exit codes.

use std::error::Error;
use std::fmt::Write as _;
use std::io;

use serde::Serialize;
use serde_json::{Value, json};

use super::display::one_line;
use crate::domain::chain;

pub const FAILED: u8 = 1;
/// Exit code for wrong usage, also used by the argument parser.
pub const USAGE: u8 = 2;
/// Exit code of a command that succeeded although some of its items failed.
pub const SOME_FAILED: u8 = 3;

/// Explains the exit codes in each command's long help.
pub const EXIT_CODES: &str = "Exit codes: 0 success; 1 failure; 2 wrong usage; 3 success, but some items failed.";

const PROBLEMS_MAX: usize = 10;

/// The outcome of a command that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The command succeeded, but some of its items (lines, documents) failed and were reported.
    SomeFailed,
}

#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// An argument is not valid, or the arguments contradict each other.
    #[error("{0}")]
    Usage(String),
    #[error("cannot reach the server at {server}")]
    Unreachable { server: String, source: Box<dyn Error + Send + Sync> },
    #[error("{}", .0.summary())]
    Refused(Box<ErrorResponse>),
    /// The response is not one that a Dragoman server of this version sends.
    #[error("cannot understand the response of {server}: {detail}")]
    Answer { server: String, detail: String },
    #[error("cannot {what}")]
    Io { what: String, source: io::Error },
    #[error("{0}")]
    Failed(String),
    #[error("{what}")]
    Model { what: String, source: Box<dyn Error + Send + Sync> },
    /// The reader of standard output, such as `head`, closed the pipe. This is not an error.
    #[error("standard output was closed")]
    OutputClosed,
}

/// A refusal, in the form in which `--json` reports it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorResponse {
    pub status: u16,
    pub detail: String,
    /// The server's error code; `None` if something in front of it responded, such as a proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The id of the request in the server's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    #[serde(rename = "errors", skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    #[serde(skip)]
    pub retry_after_s: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Problem {
    #[serde(rename = "place")]
    pub location: String,
    pub detail: String,
}

impl ErrorResponse {
    /// Parses the body of an error response: problem+json, OpenAI's error object, or any text.
    pub fn read(status: u16, body: &str, request_id: Option<String>, retry_after_s: Option<u64>) -> Self {
        let json: Value = serde_json::from_str(body).unwrap_or(Value::Null);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let refusal = Self { status, code: None, detail: String::new(), problems: Vec::new(), request_id, retry_after_s };
        if let Some(detail) = text(&json["error"]["message"]) {
            return Self { code: text(&json["error"]["code"]), detail, ..refusal };
        }
        let Some(detail) = text(&json["detail"]) else {
            let body = one_line(body);
            let shown: String = body.chars().take(200).collect();
            return Self { detail: if shown.is_empty() { "without a text".to_owned() } else { shown }, ..refusal };
        };
        let problem = |error: &Value| {
            let location = text(&error["pointer"]).or(text(&error["parameter"])).unwrap_or_default();
            Problem { location, detail: text(&error["detail"]).unwrap_or_default() }
        };
        let problems = json["errors"].as_array().into_iter().flatten().map(problem).collect();
        let request_id = text(&json["request_id"]).or(refusal.request_id.clone());
        Self { code: text(&json["code"]), detail, problems, request_id, ..refusal }
    }

    fn summary(&self) -> String {
        match &self.code {
            Some(code) => format!("{code}: {}", self.detail),
            None => format!("the server answered {}: {}", self.status, self.detail),
        }
    }
}

impl CliError {
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::Io { what, source }
    }

    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.code.as_deref(),
            _ => None,
        }
    }

    /// Adds what the user can do to a refusal with this code.
    pub fn advise(mut self, code: &str, advice: &str) -> Self {
        if let Self::Refused(refusal) = &mut self
            && refusal.code.as_deref() == Some(code)
        {
            refusal.detail.push_str("; ");
            refusal.detail.push_str(advice);
        }
        self
    }

    /// Replaces the locations in a refusal that `replace` knows, such as parts of the request that came from a file.
    pub fn located(self, replace: impl Fn(&str) -> Option<String>) -> Self {
        let mut response = match self {
            Self::Refused(response) => response,
            other => return other,
        };
        for Problem { location, .. } in &mut response.problems {
            if let Some(found) = replace(location) {
                // The detail begins with the first location.
                if let Some(rest) = response.detail.strip_prefix(location.as_str()) {
                    response.detail = format!("{found}{rest}");
                }
                *location = found;
            }
        }
        Self::Refused(response)
    }

    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Usage(_)) { USAGE } else { FAILED }
    }

    /// Reports the error on standard error, as text or as one line of JSON.
    pub fn report(&self, as_json: bool) {
        let text = if as_json { json!({ "error": self.json() }).to_string() } else { self.text() };
        // If standard error is closed too, there is nowhere to report to.
        let _ = io::Write::write_all(&mut io::stderr(), format!("{text}\n").as_bytes());
    }

    fn json(&self) -> Value {
        match self {
            Self::Refused(refusal) => json!(refusal),
            _ => json!({ "detail": chain(self) }),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("error: {}", one_line(&chain(self)));
        if let Self::Refused(refusal) = self {
            // The detail already includes the first location.
            if refusal.problems.len() > 1 {
                for Problem { location, detail } in refusal.problems.iter().take(PROBLEMS_MAX) {
                    let _ = write!(text, "\n  {}: {}", one_line(location), one_line(detail));
                }
                if refusal.problems.len() > PROBLEMS_MAX {
                    let _ = write!(text, "\n  and {} more", refusal.problems.len() - PROBLEMS_MAX);
                }
            }
            if let Some(id) = &refusal.request_id {
                let _ = write!(text, "\n  request id: {}", one_line(id));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str) -> ErrorResponse {
        ErrorResponse::read(422, body, Some("header".to_owned()), None)
    }

    #[test]
    fn problem_responses_show_the_location_of_each_error() {
        let body = r#"{"type": "t", "title": "T", "status": 422, "detail": "/limit: too large; and 1 more", "instance": "/x",
            "code": "invalid_request", "request_id": "body", "errors": [{"pointer": "/limit", "detail": "too large"},
            {"parameter": "wait", "detail": "unknown"}]}"#;
        let text = CliError::Refused(Box::new(refusal(body))).text();
        assert_eq!(
            text,
            "error: invalid_request: /limit: too large; and 1 more\n  /limit: too large\n  wait: unknown\n  request id: body"
        );
    }

    #[test]
    fn openai_errors_show_the_request_id_from_the_header() {
        let body = r#"{"error": {"message": "/input: is blank", "type": "invalid_request_error", "param": "input", "code": "invalid_request"}}"#;
        let text = CliError::Refused(Box::new(refusal(body))).text();
        assert_eq!(text, "error: invalid_request: /input: is blank\n  request id: header");
    }

    #[test]
    fn error_responses_that_are_not_json_are_quoted() {
        let text = CliError::Refused(Box::new(refusal("<html>\u{1b}[31mBad\nGateway</html>"))).text();
        assert_eq!(text, "error: the server answered 422: <html>[31mBad Gateway</html>\n  request id: header");
    }

    #[test]
    fn the_number_of_error_locations_shown_is_bounded() {
        let problem = |n: usize| Problem { location: format!("/documents/{n}"), detail: "bad".to_owned() };
        let many = ErrorResponse { problems: (0..25).map(problem).collect(), ..refusal(r#"{"detail": "bad", "code": "c"}"#) };
        let text = CliError::Refused(Box::new(many)).text();
        assert_eq!((text.lines().count(), text.contains("and 15 more")), (1 + PROBLEMS_MAX + 1 + 1, true), "{text}");
    }
}
