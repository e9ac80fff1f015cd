//! Malformed requests: the example of every operation with a JSON body, randomly mutated. No request causes a server error,
//! each response matches the OpenAPI document, each refusal names the faulty member, and all responses arrive in bounded time.
//!
//! `DRAGOMAN_TEST_REQUESTS` sets how many are sent to each operation, `DRAGOMAN_TEST_SEED` repeats a run,
//! `DRAGOMAN_TEST_LAST_REQUEST` names a file to which each body is written before it is sent.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Method;
use dragoman::domain::Limits;
use dragoman::http::settings::Settings;
use serde_json::{Value, json};

use crate::server::{ADMIN_KEY, Response, Server};

const REQUESTS: u64 = 24;
/// The longest that one answer may take, on a machine that is also busy with other work.
const PATIENCE: Duration = Duration::from_secs(10);
/// Marks a string in a body that is replaced by raw JSON or by invalid JSON.
const MARK: char = '\u{e000}';

/// A random number generator: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// Replacement values, raw, because some of them are not valid JSON.
#[rustfmt::skip]
const RAW: &[&str] = &[
    "null", "true", "-1", "0", "1", "1.5", "-0", "4294967296", "2147483648", "9007199254740993",
    "18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809", "1e308", "1e999",
    "-1e999", "1e-400", "3.4e39", "NaN", "Infinity", "-Infinity", "\"NaN\"", "\"1\"", "\"\"", "\" \"", "\"\\n\"",
    "[]", "{}", "[[]]", "[{}]", "[null]", "{\"\":{}}", "{\"a\":1,\"a\":2}", "\"\\u0000\"", "\"\\ud800\"",
    "\"\\udc00\\ud800\"", "\"\\ud83d\\ude00\"", "\"\\ufeff\"", "\"\\uffff\"", "\"\\u202e\\u200d\\u0301\"",
    "\"../../etc/passwd\"", "\"'; drop table documents; --\"", "\"%00\"", "\"*\"", "\"\\\"\"", "\"a.b.c\"", "\"$.a\"",
    "\"NEAR(a b)\"", "\"zz\"", "\"0198c0de-7a11-7000-8000-2f1de5c0ffee\"", "\"9999-12-31T23:59:59Z\"", "\"-1\"", "01",
    "+1", "1.", ".5", "0x10", "'a'", "tru", "[1,]", "{\"a\"}", "\"\u{7f}\"", "\"\u{1}\"", "[1e40,1e40]", "[0,0,0]",
    "[1,\"1\",null,{}]",
];

/// The same, with larger values.
fn raw_values() -> Vec<String> {
    let mut values: Vec<String> = RAW.iter().map(|&raw| raw.to_owned()).collect();
    values.extend([
        format!("\"{}\"", "a".repeat(100_000)),
        format!("\"{}\"", "é\u{301}".repeat(5_000)),
        format!("\"{}\"", "字".repeat(20_000)),
        format!("{}1{}", "[".repeat(100), "]".repeat(100)),
        format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000)),
        format!("{}1{}", "{\"and\":[".repeat(60), "]}".repeat(60)),
        format!("{}1{}", "{\"not\":".repeat(120), "}".repeat(120)),
        format!("[{}1]", "1,".repeat(20_000)),
        format!("[{}\"a\"]", "\"a\",".repeat(5_000)),
        format!(
            "{{{}\"z\":1}}",
            (0..2_000).fold(String::new(), |mut all, n| write!(all, "\"k{n}\":{n},").map(|()| all).unwrap_or_default())
        ),
        format!("1{}", "0".repeat(400)),
        format!("0.{}1", "0".repeat(400)),
    ]);
    values
}

/// The JSON pointers of all values in a document.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| {
                places(member, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found)
            });
        }
        Value::Array(elements) => {
            elements.iter().enumerate().for_each(|(index, element)| places(element, &format!("{at}/{index}"), found));
        }
        _ => (),
    }
}

/// Changes a body in one or two places; returns it as text.
fn mutated(example: &Value, raw: &[String], dice: &mut Random) -> String {
    let mut body = example.clone();
    for _ in 0..1 + dice.below(2) {
        let mut found = Vec::new();
        places(&body, "", &mut found);
        let Some(place) = body.pointer_mut(&found[dice.below(found.len())]) else { continue };
        let other = || json!(MARK);
        match (dice.below(8), place) {
            (0, Value::Object(members)) if !members.is_empty() => {
                let name = members.keys().nth(dice.below(members.len())).cloned().unwrap_or_default();
                members.remove(&name);
            }
            (1, Value::Object(members)) => drop(members.insert("surprise".to_owned(), other())),
            (2, Value::Object(members)) if !members.is_empty() => {
                let name = members.keys().nth(dice.below(members.len())).cloned().unwrap_or_default();
                let member = members.remove(&name).unwrap_or_default();
                members.insert(format!("{name}\u{200b}"), member);
            }
            (0, Value::Array(elements)) => elements.clear(),
            (1, Value::Array(elements)) if !elements.is_empty() => {
                let (one, times) = (elements[dice.below(elements.len())].clone(), [2, 300][dice.below(2)]);
                elements.extend(std::iter::repeat_n(one, times));
            }
            (_, place) => *place = other(),
        }
    }
    let mut text = body.to_string();
    let marked = format!("\"{MARK}\"");
    while let Some(at) = text.find(&marked) {
        text.replace_range(at..at + marked.len(), &raw[dice.below(raw.len())]);
    }
    text
}

/// Changes a body as bytes.
fn garbled(example: &Value, dice: &mut Random) -> Vec<u8> {
    let text = example.to_string().into_bytes();
    match dice.below(7) {
        0 => Vec::new(),
        1 => [b"\xef\xbb\xbf".to_vec(), text].concat(),
        2 => text[..dice.below(text.len())].to_vec(),
        3 => [text, b" {}".to_vec()].concat(),
        4 => b"\xff\xfe\x00".to_vec(),
        5 => text.iter().flat_map(|byte| [*byte, 0]).collect(),
        _ => {
            let (mut text, at) = (text.clone(), dice.below(text.len()));
            text[at] ^= 1 << dice.below(8);
            text
        }
    }
}

/// An operation with a JSON body.
struct Target {
    id: String,
    method: Method,
    path: String,
    example: Value,
}

fn targets(document: &Value, parameters: &[(&str, String)]) -> Vec<Target> {
    let mut found = Vec::new();
    for (template, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let example = &operation["requestBody"]["content"]["application/json"]["example"];
            if example.is_null() {
                continue;
            }
            let mut path = template.clone();
            for (name, value) in parameters {
                path = path.replace(&format!("{{{name}}}"), value);
            }
            assert!(!path.contains('{'), "{path} has a parameter that this test does not know");
            let id = operation["operationId"].as_str().expect("an id").to_owned();
            let method = method.to_uppercase().parse().expect("a method");
            found.push(Target { id, method, path, example: example.clone() });
        }
    }
    found
}

/// The targets of the requests: a collection, an alias, a classifier and a snapshot, with a key.
async fn attacked() -> (Server, String) {
    let limits = Limits { jobs_queued_max: 20, ..Limits::default() };
    let server = Server::with_settings(limits, Settings::default(), Some(ADMIN_KEY)).with_key(ADMIN_KEY);
    server.create(json!({"name": "news"})).await;
    let documents = json!([
        {"id": "a", "text": "Le chat dort.", "language": "fr", "metadata": {"year": 2026, "tags": ["x"], "topic": "cats"}},
        {"id": "b", "text": "The dog barks.", "metadata": {"year": 2020, "topic": "dogs"}},
    ]);
    let stored = server.post("/v1/collections/news/documents", &json!({"documents": documents})).await;
    assert_eq!(stored.status, 200, "{}", stored.text);
    assert_eq!(server.put("/v1/aliases/current", &json!({"collection": "news"})).await.status, 200);
    let labels = json!([{"name": "cats"}, {"name": "dogs"}]);
    let made = server.post("/v1/classifiers", &json!({"name": "topics", "kind": "prototype", "labels": labels})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let job = server.finished(&server.post("/v1/snapshots", &json!({})).await).await;
    (server, job["details"]["snapshot"].as_str().expect("an id").to_owned())
}

/// Refusals of well-formed requests, because of the server's state or because of the body as a whole: they name no location.
const WITHOUT_PLACE: [&str; 4] =
    ["after the change", "no labeled examples to evaluate with", "are the same sentences", "expected an object"];

/// Describes what is wrong with a response, if anything. Its schema was already checked.
fn problem(response: &Response, took: Duration) -> Option<String> {
    if took > PATIENCE {
        return Some(format!("took {took:?}"));
    }
    if response.status >= 500 && response.status != 503 {
        return Some("is a failure of the server".to_owned());
    }
    if response.status < 400 {
        return None;
    }
    if response.code().is_none() {
        return Some("has no code".to_owned());
    }
    let detail = response.body["detail"].as_str().or_else(|| response.body["error"]["message"].as_str()).unwrap_or_default();
    if detail.is_empty() || detail.len() > 4_096 {
        return Some(format!("has a detail of {} bytes", detail.len()));
    }
    // Errors in OpenAI's format give the location in another member.
    let placed = !response.places().is_empty() || !response.body["error"]["param"].is_null();
    // That format cannot say that the location is the whole body.
    let whole =
        response.body["error"].is_object() && (detail.starts_with("missing field `") || detail.starts_with("invalid type: "));
    let placed = placed || whole || WITHOUT_PLACE.iter().any(|words| detail.contains(words));
    (response.code() == Some("invalid_request") && !placed).then(|| "names no place".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_causes_a_server_error() {
    let number = |name: &str, usual: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (requests, seed) = (number("DRAGOMAN_TEST_REQUESTS", REQUESTS), number("DRAGOMAN_TEST_SEED", 0x5eed));
    let (server, snapshot) = attacked().await;
    let parameters = [
        ("collection", "news".to_owned()),
        ("alias", "current".to_owned()),
        ("id", "a".to_owned()),
        ("snapshot", snapshot),
        ("classifier", "topics".to_owned()),
    ];
    let raw = raw_values();
    let mut dice = Random(seed.max(1));
    let (mut sent, mut refused, mut slowest) = (0, 0, (Duration::ZERO, String::new()));
    let mut problems = Vec::new();
    for target in targets(&server.document, &parameters) {
        for turn in 0..requests {
            let body = match turn % 6 {
                5 => garbled(&target.example, &mut dice),
                _ => mutated(&target.example, &raw, &mut dice).into_bytes(),
            };
            if let Ok(path) = std::env::var("DRAGOMAN_TEST_LAST_REQUEST") {
                // After a stack overflow, this file is the only record of the request.
                std::fs::write(path, [target.id.as_bytes(), b"\n", &body].concat()).expect("written");
            }
            let started = Instant::now();
            let response = server.call(target.method.clone(), &target.path, Body::from(body.clone())).await;
            let took = started.elapsed();
            (sent, refused) = (sent + 1, refused + u64::from(response.status >= 400));
            if took > slowest.0 {
                slowest = (took, target.id.clone());
            }
            if let Some(problem) = problem(&response, took) {
                let short = |text: &str| text.chars().take(300).collect::<String>();
                let body = String::from_utf8_lossy(&body).into_owned();
                problems.push(format!(
                    "{} {problem}: {} {}\n  to {}",
                    target.id,
                    response.status,
                    short(&response.text),
                    short(&body)
                ));
            }
        }
    }
    println!("{sent} requests, {refused} refused, slowest {:?} ({}), seed {seed}", slowest.0, slowest.1);
    assert!(problems.is_empty(), "seed {seed}: {} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(refused * 2 > sent, "only {refused} of {sent} were refused");
    let hits = server.get("/v1/collections/news/documents/b").await;
    assert!([200, 404].contains(&hits.status), "the server still answers: {}", hits.text);
}
