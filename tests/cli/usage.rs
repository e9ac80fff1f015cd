//! Wrong arguments are refused with exit code 2, before any server is called.

use super::program::Program;
use super::{Script, dragoman, run, run_with};

/// An address where nothing listens: port 1 needs privileges that no test has.
const NOWHERE: &str = "http://127.0.0.1:1";

/// Runs the command and expects a refusal that contains `part`.
#[track_caller]
fn check(arguments: &[&str], part: &str) {
    let run = run(NOWHERE, arguments);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{arguments:?} {run:?}");
    assert!(run.err.contains(part), "{arguments:?}: {}", run.err);
}

#[test]
fn invalid_arguments_are_refused() {
    check(&["serach", "news", "x"], "unrecognized subcommand");
    check(&["search", "news"], "<QUERY>");
    check(&["search", "news", "x", "--like", "a"], "cannot be used with");
    check(&["search", "a/b", "x"], "invalid value 'a/b'");
    check(&["search", "news", "x", "--filter", "[]"], "expected a JSON object");
    let example = r#"in single quotes, such as '{"field": "topic", "eq": "art"}'"#;
    check(&["search", "news", "x", "--filter", "topic=art"], example);
    check(&["search", "news", "x", "--mode", "magic"], "possible values: full, dense, lexical, hybrid");
    check(&["search", "news", "x", "--limit", "ten"], "expected a whole number, such as 10");
    check(&["models", "--timeout-s", "soon"], "expected a whole number of at least 1 and at most 31536000");
    check(&["search", "news", "x", "--server", "localhost:7700"], "expected http://HOST:PORT");
    check(&["embed", "--format", "npy"], "--format npy needs --output");
    for name in ["news.csv", "news.tsv", "news.TSV.gz", "news.csv.zst"] {
        check(&["export", "news", "-o", name], "end it in .ndjson or .jsonl");
    }
    check(&["embed", "--device", "cpu"], "--model <FOLDER>");
    // JSON has no such numbers, so the server would never see them.
    for number in [&["search", "news", "x", "--score-min", "nan"][..], &["search", "news", "x", "--diversity", "inf"]] {
        check(number, "expected a finite number");
    }
    for command in [&["mine", "a", "b"][..], &["classifiers", "predict", "a", "x"]] {
        check(&[command, &["--threshold", "1e999"]].concat(), "expected a finite number");
    }
}

#[test]
fn destructive_commands_require_the_yes_flag() {
    check(&["snapshot", "delete", "0199d1a0-0000-7000-8000-000000000000"], "add --yes");
    check(&["snapshot", "restore", "0199d1a0-0000-7000-8000-000000000000", "--replace"], "add --yes");
}

#[test]
fn an_unreachable_server_is_named() {
    let run = run(NOWHERE, &["collections", "list"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
    assert!(run.err.starts_with("error: cannot reach the server at http://127.0.0.1:1: Connection refused"), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
}

#[test]
fn options_of_the_server_may_precede_the_command() {
    let run = run(NOWHERE, &["--server", "http://127.0.0.1:2", "--json", "collections", "list"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
    assert!(run.err.starts_with("{") && run.err.contains("http://127.0.0.1:2"), "{}", run.err);
    check(&["--server", "localhost:7700", "models"], "expected http://HOST:PORT");
    check(&["--server", "http://127.0.0.1:2", "serve"], "unexpected argument '--server'");
}

#[test]
fn https_to_a_server_without_tls_is_explained() {
    let (_folder, server) = Program::fresh("fake:8");
    let run = run(&format!("https://{}", server.client().address()), &["collections", "list"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.ends_with("; if it does not use TLS, its address begins with http://\n"), "{}", run.err);
}

#[test]
fn help_lists_exit_codes_and_never_shows_the_key() {
    let mut command = dragoman(NOWHERE, &["search", "--help"]);
    command.env("DRAGOMAN_KEY", "open-sesame");
    let run = run_with(command, b"");
    let help = run.expect(0);
    assert!(help.contains("Exit codes: 0 success; 1 failure; 2 wrong usage; 3 success, but some items failed."), "{help}");
    assert!(help.contains("DRAGOMAN_KEY") && !help.contains("open-sesame"), "{help}");
}

#[test]
fn a_key_that_is_not_a_valid_header_value_is_refused() {
    let mut command = dragoman(NOWHERE, &["collections", "list"]);
    command.env("DRAGOMAN_KEY", "open\nsesame");
    let run = run_with(command, b"");
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run:?}");
    assert!(run.err.contains("--key: ") && !run.err.contains("sesame"), "{}", run.err);
}

#[test]
fn an_empty_key_counts_as_none() {
    let script = Script::of(&[("200 OK", r#"{"collections": []}"#)]);
    let mut command = dragoman(&script.url, &["collections", "list"]);
    command.env("DRAGOMAN_KEY", "");
    run_with(command, b"").expect(0);
    let requests = script.requests.lock().unwrap();
    assert!(!requests[0].to_ascii_lowercase().contains("authorization"), "{requests:?}");
}

#[test]
fn a_missing_file_is_named() {
    for arguments in
        [&["embed", "no/such/file"][..], &["import", "news", "no/such/file"], &["documents", "upsert", "news", "no/such/file"]]
    {
        let run = run(NOWHERE, arguments);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.err.starts_with("error: cannot read no/such/file: "), "{}", run.err);
    }
    let run = run(NOWHERE, &["embed", "--model", "no/such/model", "Cargo.toml"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.starts_with("error: cannot use the model in no/such/model: "), "{}", run.err);
}
