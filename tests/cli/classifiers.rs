//! `dragoman classifiers` against a server.

use std::fs;

use serde_json::json;

use super::program::Program;
use super::{Script, dragoman, run, run_with};

const EXAMPLES: &str = "weather\theavy rain tomorrow\nweather\train and wind\n\nsports\tlate goal decides\n\
    {\"text\": \"a goal in the rematch\", \"labels\": [\"sports\"], \"language\": \"en\"}\n";

#[test]
fn a_classifier_is_trained_used_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Program::start(&folder.path().join("data"), "fake:64");
    let client = server.client();
    let url = client.url();
    let none = run(url, &["classifiers", "list"]);
    assert_eq!((none.expect(0), none.err.as_str()), ("", "there are no classifiers\n"));
    let file = folder.path().join("examples.tsv");
    fs::write(&file, EXAMPLES).unwrap();
    let file = file.to_str().unwrap();
    let settings = r#"{"knn": {"neighbors": 1}}"#;
    let train = ["classifiers", "train", "topics", "--kind", "knn", "--examples", file, "--settings", settings];
    let trained = run(url, &[&train[..], &["--json"]].concat()).json();
    assert_eq!((&trained[0]["state"], &trained[0]["training"]["examples"]), (&json!("ready"), &json!(4)));
    let listed = run(url, &["classifiers", "list"]);
    assert!(listed.expect(0).lines().nth(1).unwrap().starts_with("topics  knn   ready       2         4"), "{}", listed.out);
    assert!(run(url, &["classifiers", "show", "topics"]).expect(0).contains("\nknn.neighbors"));

    let output = run(url, &["classifiers", "predict", "topics", "rain and wind", "late goal decides", "--explain", "1"]);
    let lines: Vec<&str> = output.expect(0).lines().collect();
    assert_eq!(lines[0], "weather\t100.0%\train and wind");
    assert!(lines[1].starts_with("  1.0000\t") && lines[1].ends_with("\tweather\train and wind"), "{lines:?}");
    assert_eq!((lines[2], lines.len()), ("sports\t100.0%\tlate goal decides", 4));
    let piped = run_with(dragoman(url, &["classifiers", "predict", "topics", "--json"]), b"rain and wind\n\ngoal\n").json();
    assert_eq!((piped.len(), &piped[0]["text"], &piped[2]["labels"]), (3, &json!("rain and wind"), &json!(["sports"])));
    assert_eq!(piped[1], json!({"text": ""}), "the output lines up with the input");
    let rows = run_with(dragoman(url, &["classifiers", "predict", "topics"]), b"rain and wind\n \ngoal\n");
    assert_eq!(rows.expect(0).lines().nth(1).map(str::trim), Some(""), "{rows:?}");

    let judged = run(url, &["classifiers", "evaluate", "topics", "--examples", file]);
    assert!(judged.expect(0).contains("accuracy           100.0%"), "{}", judged.out);
    assert!(judged.out.contains("\nLABEL    PRECISION  RECALL      F1  EXAMPLES\nsports      100.0%"), "{}", judged.out);
    assert!(judged.out.contains("\nLABEL      1  2\n1 sports   2  0\n2 weather  0  2"), "{}", judged.out);

    assert_eq!(client.post("/v1/collections", &json!({"name": "news"})).0, 201);
    let body = json!({"documents": [{"id": "a", "text": "rain and wind"}, {"id": "b", "text": "late goal decides"}]});
    assert_eq!(client.post("/v1/collections/news/documents", &body).0, 200);
    let apply = ["classifiers", "apply", "topics", "news", "--field", "topic", "--probability-field", "sure"];
    let applied = run(url, &apply);
    assert_eq!(applied.expect(0), "");
    assert!(applied.err.ends_with("classify succeeded: labeled 2 of 2 documents\n"), "{}", applied.err);
    let (_, document) = client.get("/v1/collections/news/documents/b");
    assert_eq!(document["metadata"], json!({"topic": "sports", "sure": 1.0}));

    let judged = run(url, &["classifiers", "evaluate", "topics", "--collection", "news", "--field", "topic"]);
    assert!(
        judged.expect(0).contains("examples           2") && judged.out.contains("accuracy           100.0%"),
        "{}",
        judged.out
    );
    let nothing = run(url, &["classifiers", "evaluate", "topics", "--collection", "news", "--field", "mood"]);
    assert_eq!(nothing.code, 1, "{nothing:?}");
    let retrained = run(url, &["classifiers", "retrain", "topics", "--json"]).json();
    assert_eq!((&retrained[0]["state"], &retrained[0]["version"]), (&json!("ready"), &json!(2)));

    let again = run(url, &train);
    assert_eq!(again.code, 1);
    assert!(again.err.starts_with("error: classifier_exists: "), "{}", again.err);
    let unasked = run(url, &["classifiers", "delete", "topics"]);
    assert_eq!((unasked.code, client.get("/v1/classifiers/topics").0), (2, 200), "{unasked:?}");
    run(url, &["classifiers", "delete", "topics", "--yes"]).expect(0);
    assert_eq!(client.get("/v1/classifiers/topics").0, 404);
}

#[test]
fn prototype_labels_are_sent_with_their_descriptions() {
    let script = Script::of(&[("201 Created", r#"{"name": "topics", "state": "training", "job": "x"}"#)]);
    let labels = ["--label", "sports=goals", "--label", "weather", "--label", "sports=matches"];
    let train =
        [&["classifiers", "train", "topics", "--kind", "prototype", "--detach", "--threshold", "0.5"][..], &labels].concat();
    assert!(run(&script.url, &train).expect(0).contains("training"));
    let request = &script.requests()[0];
    let body: serde_json::Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    let labels = json!([{"name": "sports", "descriptions": ["goals", "matches"]}, {"name": "weather"}]);
    assert_eq!(body, json!({"name": "topics", "kind": "prototype", "threshold": 0.5, "labels": labels}));
}

#[test]
fn a_failed_training_job_and_an_invalid_example_line_are_reported() {
    let job = |status: &str, more: &str| format!(r#"{{"id": "x", "type": "train", "status": "{status}"{more}}}"#);
    let made = r#"{"name": "topics", "state": "training", "job": "x"}"#;
    let failed = job("failed", r#", "error": {"code": "model_mismatch", "detail": "another model"}"#);
    let script = Script::of(&[("201 Created", made), ("200 OK", &failed)]);
    let source = ["--collection", "news", "--field", "topic", "--filter", r#"{"field": "year", "eq": 2026}"#];
    let train = [&["classifiers", "train", "topics", "--kind", "mlp"][..], &source].concat();
    let output = run(&script.url, &train);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("the job failed: model_mismatch: another model"), "{}", output.err);
    assert!(
        script.requests()[0].contains(r#""source":{"collection":"news","field":"topic","filter":{"field":"year","eq":2026}}"#)
    );
    let wrong =
        run_with(dragoman("http://127.0.0.1:1", &["classifiers", "train", "a", "--kind", "knn", "--examples", "-"]), b"x\n");
    assert_eq!(wrong.code, 1);
    assert!(wrong.err.contains("line 1 of standard input: expected LABEL, a tab and TEXT"), "{}", wrong.err);
    assert_eq!(run("http://127.0.0.1:1", &["classifiers", "evaluate", "a", "--collection", "news"]).code, 2);
}

#[test]
fn an_example_that_the_server_refuses_is_reported_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("examples.tsv");
    fs::write(&file, "weather\train\n\nsports\t \n").unwrap();
    let file = file.to_str().unwrap();
    let check = |place: &str, expect: &str| {
        let detail = "must be short";
        let refusal = json!({"status": 422, "code": "invalid_request", "detail": format!("{place}: {detail}"),
            "errors": [{"pointer": place, "detail": detail}]})
        .to_string();
        for action in [&["train", "topics", "--kind", "knn"][..], &["evaluate", "topics"]] {
            let script = Script::of(&[("422 Unprocessable Entity", &refusal)]);
            let output = run(&script.url, &[&["classifiers"][..], action, &["--examples", file]].concat());
            assert_eq!(output.code, 1, "{output:?}");
            assert!(output.err.starts_with(&format!("error: invalid_request: {expect}: must be short")), "{}", output.err);
        }
    };
    check("/examples/1/text", &format!("line 3 of {file}, text"));
    check("/examples/1", &format!("line 3 of {file}"));
    check("/examples", "/examples");
}
