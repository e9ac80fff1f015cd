//! `dragoman mine`, `duplicates`, `similarity` and `detect`.

use std::fs;

use serde_json::{Value, json};

use super::{Script, dragoman, run, run_with};

const ID: &str = "0199d1a0-0000-7000-8000-000000000001";

fn job(kind: &str, status: &str, more: &str) -> String {
    format!(
        r#"{{"id": "{ID}", "type": "{kind}", "status": "{status}", "created_at": "2026-01-02T03:04:05.678Z",
        "progress": {{"done": 50, "total": 100, "unit": "sentences"}}{more}}}"#
    )
    .replace('\n', " ")
}

fn body(request: &str) -> Value {
    serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn mine_sends_its_options_follows_the_job_and_writes_the_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("fr.txt"), "Le train est en retard.\nIl pleut.\n").unwrap();
    fs::write(path("known.tsv"), "de-7\t0\nde-9\t1\n").unwrap();
    let accepted = job("mine", "queued", "");
    let ended = job(
        "mine",
        "succeeded",
        r#", "details": {"pairs": 1200, "threshold": 1.0625, "precision": 0.9, "recall": 0.75, "f1": 0.8182}"#,
    );
    let events = format!("data: {}\n\ndata: {ended}\n\n", job("mine", "running", ""));
    let table =
        "score\tfirst_id\tsecond_id\tfirst_text\tsecond_text\n1.3\tde-7\t0\tDer Zug hat Verspätung.\tLe train est en retard.\n";
    let script = Script::of(&[
        ("202 Accepted", &accepted),
        ("200 OK\r\ncontent-type: text/event-stream", &events),
        ("200 OK\r\ncontent-type: text/tab-separated-values", table),
    ]);
    let file = format!("@{}", path("fr.txt"));
    let filter = r#"{"field": "year", "gte": 2020}"#;
    let (known, output) = (path("known.tsv"), path("pairs.tsv"));
    let run = run(
        &script.url,
        &[
            "mine",
            "news",
            &file,
            "--first-languages",
            "de,nl",
            "--first-filter",
            filter,
            "--known",
            &known,
            "--known-complete",
            "-k",
            "3",
            "--margin",
            "distance",
            "--strategy",
            "max-score",
            "--one-to-one",
            "--keep-copies",
            "--keep-identical",
            "--unit",
            "document",
            "--exact",
            "-o",
            &output,
        ],
    );
    assert_eq!(run.expect(0), "");
    let quality = "1,200 pairs with threshold 1.0625; by the known pairs, precision 0.900, recall 0.750, F1 0.818\n";
    assert!(run.err.ends_with(quality), "{}", run.err);
    assert_eq!(fs::read_to_string(&output).unwrap(), table);
    let requests = script.requests();
    assert!(requests[0].starts_with("POST /v1/mine HTTP/1.1\r\n"), "{requests:?}");
    assert_eq!(
        body(&requests[0]),
        json!({
            "first": {"collection": "news", "languages": ["de", "nl"], "filter": {"field": "year", "gte": 2020}},
            "second": {"texts": ["Le train est en retard.", "Il pleut."]},
            "known_pairs": [{"first": "de-7", "second": "0"}, {"first": "de-9", "second": "1"}],
            "known_pairs_complete": true, "neighbors": 3, "margin": "distance", "strategy": "max_score", "one_to_one": true,
            "deduplicate": false, "skip_identical": false, "unit": "document", "exact": true,
        })
    );
    assert!(requests[2].starts_with(&format!("GET /v1/jobs/{ID}/pairs.tsv ")), "{requests:?}");
}

#[test]
fn sentences_of_a_file_with_blank_lines_go_by_their_line_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("de.txt"), "\nDer Zug hat Verspätung.\n \nEs regnet.\n").unwrap();
    fs::write(path("known.tsv"), "3\tfr-2\n\n1\tfr-1\n").unwrap();
    let ended = job("mine", "succeeded", r#", "details": {"pairs": 2}"#);
    let table = |one, other| format!("score\tfirst_id\tsecond_id\n1.3\t{one}\t0\n1.25\t{other}\tfr-1\n");
    let line = |id| {
        format!("{{\"score\":1.31,\"first\":{{\"id\":\"{id}\",\"text\":\"x\"}},\"second\":{{\"id\":\"0\",\"text\":\"y\"}}}}\n")
    };
    let script =
        Script::of(&[("202 Accepted", &ended), ("200 OK", &table(1, 0)), ("202 Accepted", &ended), ("200 OK", &line(1))]);
    let (file, known) = (format!("@{}", path("de.txt")), path("known.tsv"));
    assert_eq!(run(&script.url, &["mine", &file, "news", "--known", &known]).expect(0), table(3, 1));
    assert_eq!(run(&script.url, &["mine", &file, "news", "--json"]).expect(0), line(3));
    let sent = body(&script.requests()[0]);
    assert_eq!(sent["first"], json!({"texts": ["Der Zug hat Verspätung.", "Es regnet."]}));
    assert_eq!(sent["known_pairs"], json!([{"first": "1", "second": "fr-2"}, {"first": "0", "second": "fr-1"}]));

    fs::write(&known, "1\tfr-1\n2\tfr-2\n").unwrap();
    let blank = run("http://127.0.0.1:1", &["mine", &file, "news", "--known", &known]);
    assert_eq!(blank.code, 2, "{blank:?}");
    assert!(blank.err.contains(&format!("line 2 of {known} has the id \"2\", which is not")), "{}", blank.err);
}

#[test]
fn pairs_are_written_as_a_translation_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("de.txt"), "\nEs regnet & stürmt.\n").unwrap();
    let ended = job("mine", "succeeded", r#", "details": {"pairs": 2}"#);
    let pairs = [
        json!({"score": 1.31, "first": {"id": "0", "text": "Es regnet & stürmt."}, "second": {"id": "fr-1", "language": "fr", "text": "Il pleut."}}),
        json!({"score": 1.2, "first": {"id": "0", "text": "Es regnet & stürmt."}, "second": {"id": "x\"y", "text": "1 < 2"}}),
    ];
    let script = Script::of(&[("202 Accepted", &ended), ("200 OK", &format!("{}\n{}\n", pairs[0], pairs[1]))]);
    let (file, output) = (format!("@{}", path("de.txt")), path("pairs.tmx"));
    run(&script.url, &["mine", &file, "news", "--first-languages", "de-CH", "-o", &output]).expect(0);
    let unit = |score: &str, second: &str| {
        format!(
            "<tu><prop type=\"x-score\">{score}</prop>\n<tuv xml:lang=\"de-CH\"><prop type=\"x-id\">1</prop>\
             <seg>Es regnet &amp; stürmt.</seg></tuv>\n{second}\n</tu>\n"
        )
    };
    let memory = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<tmx version=\"1.4\">\n<header creationtool=\"dragoman\" \
         creationtoolversion=\"{}\" segtype=\"block\" o-tmf=\"dragoman\" adminlang=\"en\" srclang=\"de-CH\" \
         datatype=\"plaintext\"/>\n<body>\n{}{}</body>\n</tmx>\n",
        env!("CARGO_PKG_VERSION"),
        unit("1.31", "<tuv xml:lang=\"fr\"><prop type=\"x-id\">fr-1</prop><seg>Il pleut.</seg></tuv>"),
        unit("1.2", "<tuv xml:lang=\"und\"><prop type=\"x-id\">x&quot;y</prop><seg>1 &lt; 2</seg></tuv>"),
    );
    assert_eq!(fs::read_to_string(&output).unwrap(), memory);
    let requests = script.requests();
    assert_eq!(body(&requests[0])["first"], json!({"texts": ["Es regnet & stürmt."]}));
    assert!(requests[1].starts_with(&format!("GET /v1/jobs/{ID}/pairs ")), "{requests:?}");
}

#[test]
fn a_translation_memory_needs_the_language_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("de.txt").to_str().unwrap().to_owned();
    fs::write(&path, "Es regnet.\n").unwrap();
    let file = format!("@{path}");
    let refuse = |args: &[&str], words: &str| {
        let run = run("http://127.0.0.1:1", args);
        assert!(run.code == 2 && run.err.contains(words), "{run:?}");
    };
    let missing = format!("TMX names the language of each sentence: give the one of {path} with --first-languages");
    refuse(&["mine", &file, "news", "--format", "tmx"], &missing);
    refuse(&["mine", &file, "news", "--format", "tmx", "--first-languages", "de,fr"], &missing);
    refuse(&["mine", &file, "news", "--format", "tmx", "--first-languages", "not a tag"], "--first-languages must be");
    refuse(&["duplicates", "news", "-o", "clusters.tmx"], "clusters cannot be written as TMX");
}

#[test]
fn a_detached_job_does_not_know_of_blank_lines_and_a_note_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, lines: &str| {
        let path = folder.path().join(name);
        fs::write(&path, lines).unwrap();
        (path.to_str().unwrap().to_owned(), format!("@{}", path.display()))
    };
    let ((gaps, with_gaps), (_, without)) = (file("gaps.txt", "\nEs regnet.\n"), file("whole.txt", "Il pleut.\n\n"));
    let queued = job("mine", "queued", "");
    let script = Script::of(&[("202 Accepted", queued.as_str()); 3]);
    let detached = |first: &str, second: &str| {
        let run = run(&script.url, &["mine", first, second, "--detach", "--json"]);
        assert_eq!((run.code, &run.json()[0]["id"]), (0, &json!(ID)), "{run:?}");
        run.err
    };
    let note = format!("{gaps} has blank lines, which were not sent: the job's ids count only its other lines\n");
    assert_eq!(detached(&with_gaps, &without), note);
    assert_eq!(detached(&with_gaps, &with_gaps), note);
    assert_eq!(detached(&without, "news"), "", "blank lines at the end change no id");
}

#[test]
fn a_refused_line_of_a_file_is_reported_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("de.txt"), "\nEs regnet.\n").unwrap();
    fs::write(path("known.tsv"), "1\tfr-1\n\n1\tfr-9\n").unwrap();
    let refusal = |place: &str| {
        let detail = "must be short";
        json!({"status": 422, "code": "invalid_request", "detail": format!("{place}: {detail}"),
            "errors": [{"pointer": place, "detail": detail}]})
        .to_string()
    };
    let (file, known) = (format!("@{}", path("de.txt")), path("known.tsv"));
    let check = |place: &str, expect: &str| {
        let script = Script::of(&[("422 Unprocessable Entity", &refusal(place))]);
        let run = run(&script.url, &["mine", &file, "news", "--known", &known]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.err.starts_with(&format!("error: invalid_request: {expect}: must be short")), "{}", run.err);
    };
    check("/known_pairs/1/second", &format!("line 3 of {known}, second"));
    check("/first/texts/0", &format!("line 2 of {}", path("de.txt")));
    check("/first/texts", &path("de.txt"));
    check("/neighbors", "/neighbors");
}

#[test]
fn a_failed_job_is_reported_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("pairs.ndjson");
    let failed =
        job("mine", "failed", r#", "error": {"code": "invalid_request", "detail": "none of the known pairs is proposed"}"#);
    let script = Script::of(&[("202 Accepted", &failed)]);
    let run = run(&script.url, &["mine", "one", "other", "-o", output.to_str().unwrap()]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("none of the known pairs is proposed"), "{}", run.err);
    assert!(!output.exists());
}

#[test]
fn invalid_arguments_are_reported_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let known = folder.path().join("known");
    fs::write(&known, "a\tb\nc d\n").unwrap();
    let known = known.to_str().unwrap();
    for (arguments, code, words) in [
        (vec!["mine", "one", "a/b"], 2, "@FILE"),
        (vec!["mine", "one", "@/nowhere/at/all"], 1, "/nowhere/at/all"),
        (vec!["mine", "one", "other", "--known", known], 2, "line 2 of"),
        (vec!["mine", "one", "other", "--known", known, "--threshold", "1"], 2, "cannot be used with"),
        (vec!["mine", "one", "other", "--known-complete"], 2, "--known"),
        (vec!["mine", "one", "other", "-o", "pairs.csv"], 2, "cannot be written as .csv"),
        (vec!["duplicates", "one", "-o", "clusters.JSON"], 2, "cannot be written as .json"),
        (vec!["similarity", "one"], 2, "SECOND"),
    ] {
        let run = run("http://127.0.0.1:1", &arguments);
        assert_eq!(run.code, code, "{run:?}");
        assert!(run.err.contains(words), "{words}: {}", run.err);
    }
}

#[test]
fn the_name_of_a_file_in_place_of_a_collection_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("german.txt"), "Es regnet.\n").unwrap();
    let problem = r#"{"status": 404, "detail": "there is no collection german.txt", "code": "collection_not_found"}"#;
    let script = Script::of(&[("404 Not Found", problem)]);
    let mut command = dragoman(&script.url, &["mine", "german.txt", "news"]);
    command.current_dir(folder.path());
    let refused = run_with(command, b"");
    assert_eq!(refused.code, 2, "{refused:?}");
    assert_eq!(refused.err, "error: there is no collection german.txt; to read the file, write @german.txt\n");
}

#[test]
fn duplicates_are_printed_as_json_lines_with_the_json_flag() {
    let ended = job("duplicates", "succeeded", r#", "details": {"clusters": 1}"#);
    let line =
        "{\"size\":2,\"representative\":\"a\",\"members\":[{\"id\":\"a\",\"text\":\"x\"},{\"id\":\"b\",\"text\":\"x\"}]}\n";
    let script = Script::of(&[("202 Accepted", &ended), ("200 OK", line), ("202 Accepted", &ended)]);
    let arguments = [
        "duplicates",
        "news",
        "--score-min",
        "0.8",
        "--pairs",
        "different",
        "-l",
        "de,fr",
        "--size-max",
        "9",
        "--unit",
        "document",
        "--json",
    ];
    assert_eq!(run(&script.url, &arguments).expect(0), line);
    let detached = run(&script.url, &["duplicates", "news", "--detach", "--json"]).json();
    assert_eq!(detached[0]["id"], ID);
    let requests = script.requests();
    assert!(requests[0].starts_with("POST /v1/collections/news/duplicates "), "{requests:?}");
    let expect = json!({"score_min": 0.8, "pairs": "different", "languages": ["de", "fr"], "size_max": 9, "unit": "document"});
    assert_eq!(body(&requests[0]), expect);
    assert!(requests[1].starts_with(&format!("GET /v1/jobs/{ID}/clusters ")), "{requests:?}");
}

#[test]
fn similarity_compares_two_texts_or_lines_of_pairs() {
    let one = r#"{"results": [{"score": 0.8125}]}"#;
    let two = r#"{"results": [{"score": 0.5}, {"score": 1, "truncated": true}]}"#;
    let script = Script::of(&[("200 OK", one), ("200 OK", two), ("200 OK", one)]);
    let output = run(&script.url, &["similarity", "Es regnet.", "雨が降る。"]);
    assert_eq!(output.expect(0), "0.8125\tEs regnet.\t雨が降る。\n");
    let lines = run_with(dragoman(&script.url, &["similarity", "--json"]), "a\tb\r\nc\td\n".as_bytes()).json();
    assert_eq!(lines[1], json!({"score": 1, "truncated": true, "first": "c", "second": "d"}));
    assert_eq!(body(&script.requests()[1]), json!({"pairs": [{"first": "a", "second": "b"}, {"first": "c", "second": "d"}]}));
    let gap = run_with(dragoman(&script.url, &["similarity"]), b"\na\tb\n");
    assert_eq!(gap.expect(0), "\t\t\n0.8125\ta\tb\n");
    for broken in ["a b\n", "a\tb\tc\n"] {
        let run = run_with(dragoman(&script.url, &["similarity", "--file", "-"]), broken.as_bytes());
        assert_eq!(run.code, 2);
        assert!(run.err.contains("line 1 of standard input must have two texts"), "{}", run.err);
    }
}

#[test]
fn detect_reports_the_languages_of_arguments_and_input_lines() {
    let response = r#"{"detections": [{"language": "de", "confidence": 0.96875}, {}]}"#;
    let script = Script::of(&[("200 OK", response), ("200 OK", response), ("200 OK", r#"{"detections": []}"#)]);
    let output = run(&script.url, &["detect", "Es regnet.", "123"]);
    assert_eq!(output.expect(0), "de\t0.9688\tEs regnet.\n\t\t123\n");
    let lines = run_with(dragoman(&script.url, &["detect", "--json"]), "Es regnet.\n\n123\n".as_bytes()).json();
    let expect =
        [json!({"language": "de", "confidence": 0.96875, "text": "Es regnet."}), json!({"text": ""}), json!({"text": "123"})];
    assert_eq!(lines, expect);
    assert_eq!(body(&script.requests()[1]), json!({"texts": ["Es regnet.", "123"]}));
    assert_eq!(run(&script.url, &["detect", "x"]).code, 1);
}

#[test]
fn a_single_cluster_is_counted_in_the_singular() {
    let ended = |clusters: u64| job("duplicates", "succeeded", &format!(r#", "details": {{"clusters": {clusters}}}"#));
    let (one, two) = (ended(1), ended(2));
    let script = Script::of(&[("202 Accepted", &one), ("200 OK", "cluster\n"), ("202 Accepted", &two), ("200 OK", "cluster\n")]);
    for expect in ["\n1 cluster\n", "\n2 clusters\n"] {
        let output = run(&script.url, &["duplicates", "news"]);
        assert_eq!(output.expect(0), "cluster\n");
        assert!(output.err.ends_with(expect), "{}", output.err);
    }
}
