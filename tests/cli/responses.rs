//! How the client handles answers that a healthy server does not send: refusals, limits, and invalid responses.

use serde_json::Value;

use super::{Script, dragoman, run, run_with};

const REFUSED: &str = r#"{"type": "/docs/errors#unauthorized", "title": "No key", "status": 401, "detail": "the key is not known",
    "instance": "/v1/collections", "code": "unauthorized", "request_id": "req-1"}"#;
const EMPTY: &str = r#"{"collections": []}"#;

#[test]
fn the_key_is_sent_and_a_refused_key_is_reported_without_showing_it() {
    let script = Script::of(&[("401 Unauthorized\r\ncontent-type: application/problem+json", REFUSED)]);
    let mut command = dragoman(&script.url, &["collections", "list"]);
    command.env("DRAGOMAN_KEY", "open-sesame");
    let run = run_with(command, b"");
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
    assert_eq!(run.err, "error: unauthorized: the key is not known\n  request id: req-1\n");
    let requests = script.requests();
    assert!(requests[0].contains("authorization: Bearer open-sesame\r\n"), "{requests:?}");
}

#[test]
fn the_variable_for_a_missing_key_is_named() {
    let script = Script::of(&[("401 Unauthorized", REFUSED)]);
    let run = run(&script.url, &["collections", "list"]);
    assert!(run.err.contains("the key is not known; put a key into the variable DRAGOMAN_KEY\n"), "{run:?}");
}

#[test]
fn errors_are_json_with_the_json_flag() {
    let script = Script::of(&[("401 Unauthorized", REFUSED)]);
    let run = run(&script.url, &["collections", "list", "--json"]);
    let error: Value = serde_json::from_str(&run.err).unwrap();
    assert_eq!(run.code, 1);
    assert_eq!((&error["error"]["code"], &error["error"]["status"]), (&"unauthorized".into(), &401.into()), "{error}");
    assert_eq!(error["error"]["request_id"], "req-1");
}

#[test]
fn a_request_is_retried_after_429_and_503() {
    let busy = ("503 Service Unavailable\r\nretry-after: 1", "{}");
    let script = Script::of(&[busy, ("429 Too Many Requests\r\nretry-after: 1", "{}"), ("200 OK", EMPTY)]);
    let run = run(&script.url, &["collections", "list"]);
    run.expect(0);
    assert_eq!((script.requests().len(), run.err.as_str()), (3, "there are no collections\n"));
}

#[test]
fn a_delete_request_is_not_retried() {
    let script = Script::of(&[("503 Service Unavailable\r\nretry-after: 1", "{}"), ("204 No Content", "")]);
    let run = run(&script.url, &["collections", "delete", "news", "--yes"]);
    assert_eq!((run.code, script.requests().len()), (1, 1), "{run:?}");
}

#[test]
fn a_long_retry_after_fails_without_waiting() {
    let script = Script::of(&[("503 Service Unavailable\r\nretry-after: 3600", "{}")]);
    let run = run(&script.url, &["collections", "list"]);
    assert_eq!(run.code, 1, "{run:?}");
}

#[test]
fn invalid_responses_are_reported() {
    for (response, part) in [
        (("200 OK", "<html>"), "cannot understand the response of URL: it is not valid JSON"),
        (("200 OK", "{}"), "cannot understand the response of URL: it has no array \"collections\""),
        (("200 OK", "[]"), "cannot understand the response of URL: it has no array \"collections\""),
        (("302 Found\r\nlocation: http://127.0.0.1:1/", ""), "the server answered 302: without a text"),
        (("502 Bad Gateway", "upstream \u{1b}[2J gone"), "the server answered 502: upstream [2J gone"),
    ] {
        let script = Script::of(&[response]);
        let run = run(&script.url, &["collections", "list"]);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
        assert!(run.err.replace(&script.url, "URL").contains(part), "{part}: {}", run.err);
    }
}
