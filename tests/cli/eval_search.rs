//! `dragoman eval search` against a server, over a few documents with known lexical hits: file layouts, several configurations
//! side by side, runs, and existing collections.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::program::Program;
use super::{Run, run};

const NOWHERE: &str = "http://127.0.0.1:1";

/// Two queries and four documents. In lexical mode, each query finds the document in its own language. The French document,
/// which is also relevant to the first query, contains none of its words.
const PLAIN: [(&str, &str); 3] = [
    ("queries.tsv", "q1\tde\tdie neue Straßenbahn\nq2\thi\tस्कूल बंद\n"),
    (
        "documents.tsv",
        "d1\tde\tDie neue Straßenbahn fährt ab Mai.\nd2\tfr\tLe nouveau tramway circule dès mai.\nd3\thi\tबारिश के कारण स्कूल बंद हैं।\nd4\tja\t図書館は駅の隣です。\n",
    ),
    ("qrels.tsv", "q1\td1\t2\nq1\td2\t1\nq2\td3\t1\n"),
];
/// A document that is found only by its title, and one without a given language.
const BEIR: [(&str, &str); 3] = [
    (
        "corpus.jsonl",
        "{\"_id\": \"d1\", \"title\": \"Straßenbahn\", \"text\": \"Sie fährt ab Mai.\", \"metadata\": {\"language\": \"de\"}}\n{\"_id\": \"d2\", \"title\": \"\", \"text\": \"図書館は駅の隣です。\"}\n",
    ),
    (
        "queries.jsonl",
        "{\"_id\": \"q1\", \"text\": \"Straßenbahn\", \"metadata\": {\"language\": \"de\"}}\n{\"_id\": \"q2\", \"text\": \"図書館\"}\n{\"_id\": \"q3\", \"text\": \"of another split\"}\n",
    ),
    ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n"),
];
const TREC: [(&str, &str); 3] =
    [("corpus.tsv", "d1\tred rain\nd2\tgreen sun\n"), ("topics.tsv", "301\train\n"), ("qrels.txt", "301 0 d1 1\n301 0 d2 0\n")];

/// The topic of each of twelve documents: enough queries to tell differences from chance.
const THINGS: [&str; 12] =
    ["apple", "bridge", "candle", "desert", "engine", "forest", "garden", "harbor", "island", "jacket", "kettle", "ladder"];

/// A query for each topic, and the one document that names it.
fn many() -> [(&'static str, String); 3] {
    let lines = |line: fn(usize, &str) -> String| THINGS.iter().enumerate().map(|(at, thing)| line(at, thing)).collect();
    [
        ("queries.tsv", lines(|at, thing| format!("q{at}\ten\twhere is the {thing}\n"))),
        ("documents.tsv", lines(|at, thing| format!("d{at}\ten\tHere you see a picture of my old {thing}.\n"))),
        ("qrels.tsv", lines(|at, _| format!("q{at}\td{at}\t1\n"))),
    ]
}

struct Measured {
    folder: tempfile::TempDir,
    server: Program,
}

impl Measured {
    fn start<'a>(files: impl IntoIterator<Item = &'a (&'a str, impl AsRef<str> + 'a)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join("files").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content.as_ref()).unwrap();
        }
        let server = Program::start(&folder.path().join("data"), "fake:64");
        Self { folder, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn eval(&self, arguments: &[&str]) -> Run {
        let data = self.path("files");
        run(self.server.client().url(), &[&["eval", "search"], arguments, &["--data", data.to_str().unwrap()]].concat())
    }

    /// The report as JSON.
    fn report(&self, arguments: &[&str]) -> Value {
        self.eval(&[arguments, &["--json"]].concat()).json().remove(0)
    }

    /// Checks that nothing created by a measurement remains.
    #[track_caller]
    fn check_nothing_left(&self) {
        assert_eq!(self.server.client().get("/v1/collections").1["collections"], json!([]));
    }
}

#[track_caller]
fn row(report: &Value, scope: &str, configuration: &str) -> Value {
    let results = report["results"].as_array().unwrap();
    let found = results.iter().find(|row| row["scope"] == scope && row["configuration"] == configuration);
    found.unwrap_or_else(|| panic!("no {configuration} in {scope}: {report}")).clone()
}

/// Five metrics with the same value.
fn scores(queries: usize, value: f64) -> Value {
    let [ndcg, recall, deep, mrr, success] = [value; 5];
    json!({
        "queries": queries, "ndcg_at_10": ndcg, "recall_at_10": recall, "recall_at_100": deep, "mrr_at_10": mrr, "success_at_1": success
    })
}

#[test]
fn search_is_scored_over_all_the_same_and_the_other_languages() {
    let measured = Measured::start(&PLAIN);
    let report = measured.report(&["--mode", "lexical,dense"]);
    let own = row(&report, "same", "lexical");
    assert_eq!(own["all"], scores(2, 100.0));
    assert_eq!(own["languages"]["hi"]["queries"], 1);
    assert_eq!(row(&report, "same", "dense")["differences"], Value::Null, "two queries are too few");
    assert_eq!(row(&report, "other", "lexical")["all"], scores(1, 0.0));
    // In dense mode every document is a hit, so the French one is among the ten.
    assert_eq!(row(&report, "other", "dense")["all"]["recall_at_10"], 100.0);
    let query = &row(&report, "all", "lexical")["by_query"][0];
    assert_eq!((&query["id"], &query["language"], &query["recall_at_10"]), (&json!("q1"), &json!("de"), &json!(50.0)));
    measured.check_nothing_left();
}

#[test]
fn by_default_every_mode_is_compared_with_full_mode() {
    let measured = Measured::start(&many());
    let output = measured.eval(&["--languages", "same", "--balance-languages", "--exact"]);
    assert!(output.expect(0).starts_with("Search of 12 documents, in percent:\n"), "{}", output.out);
    let first = |line: &str, cell: usize| line.split('|').nth(cell).unwrap().trim().to_owned();
    let rows: Vec<&str> = output.out.lines().filter(|line| line.starts_with("| own lang.")).collect();
    assert_eq!(rows.iter().map(|row| first(row, 2)).collect::<Vec<_>>(), ["full", "dense", "lexical", "hybrid"]);
    assert!(
        output.out.contains("- Δ nDCG@10: difference from full; paired bootstrap over the queries, 10000 resamples\n"),
        "{}",
        output.out
    );
    measured.check_nothing_left();
}

#[test]
fn configurations_extend_the_request_and_are_compared_with_the_first() {
    let measured = Measured::start(&many());
    let same = "again={\"mode\": \"lexical\"}";
    let nothing = "nothing={\"mode\": \"lexical\", \"score_min\": 1000}";
    let report = measured.report(&["--mode", "lexical,default", "--config", same, "--config", nothing, "--languages", "same"]);
    assert_eq!(row(&report, "same", "lexical")["differences"], Value::Null);
    let again = row(&report, "same", "again");
    assert_eq!(again["request"], json!({"mode": "lexical"}));
    assert_eq!(again["differences"]["mrr_at_10"], json!({"difference": 0.0, "low": 0.0, "high": 0.0, "p": 1.0}));
    let nothing = row(&report, "same", "nothing");
    assert_eq!(nothing["all"], scores(12, 0.0));
    let difference = &nothing["differences"]["ndcg_at_10"];
    assert_eq!((&difference["difference"], &difference["low"]), (&json!(-100.0), &json!(-100.0)));
    assert_eq!(row(&report, "same", "default")["request"], json!({}), "the server decides");
}

#[test]
fn unknown_modes_and_fields_are_refused_by_the_server() {
    let measured = Measured::start(&PLAIN);
    for arguments in [["--mode", "sideways"], ["--config", "a={\"sideways\": 1}"]] {
        let output = measured.eval(&arguments);
        assert_eq!((output.code, output.out.as_str()), (1, ""), "{output:?}");
        assert!(output.err.contains("sideways") && !output.err.contains("documents"), "before storing documents: {}", output.err);
        measured.check_nothing_left();
    }
}

#[test]
fn beir_is_evaluated_with_titles_and_optional_languages() {
    let measured = Measured::start(&BEIR);
    let report = measured.report(&["--mode", "lexical"]);
    assert_eq!((&report["queries"], &report["queries_unjudged"]), (&json!(3), &json!(1)));
    assert_eq!(row(&report, "all", "lexical")["all"], scores(2, 100.0));
    assert_eq!(row(&report, "same", "lexical")["all"]["queries"], 1, "a query without a language is not counted under 'same'");
    let output = measured.eval(&["--mode", "lexical"]);
    assert!(output.expect(0).contains("- queries without a relevant document, which are left out: 1 of 3\n"), "{}", output.out);
    let output = measured.eval(&["--split", "dev"]);
    assert_eq!(output.code, 1);
    assert!(output.err.contains("dev.tsv"), "{}", output.err);
}

#[test]
fn beir_documents_without_text_do_not_abort_the_evaluation() {
    let corpus = "{\"_id\": \"d1\", \"title\": \"Straßenbahn\", \"text\": \"\"}\n{\"_id\": \"d2\", \"title\": \"\", \"text\": \"図書館は駅の隣です。\"}\n{\"_id\": \"d3\", \"title\": \"\", \"text\": \"\"}\n";
    let qrels = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\nq2\td3\t1\n";
    let measured = Measured::start(&[("corpus.jsonl", corpus), BEIR[1], ("qrels/test.tsv", qrels)]);
    let output = measured.eval(&["--mode", "lexical", "--json"]);
    let report = output.json().remove(0);
    assert_eq!(row(&report, "all", "lexical")["by_query"][0]["recall_at_10"], 100.0, "the title is the text: {report}");
    assert_eq!(row(&report, "all", "lexical")["by_query"][1]["recall_at_10"], 50.0, "a blank document is never found: {report}");
    assert_eq!(report["documents"], 2);
    assert!(output.err.contains("left out 1 of 3 documents: neither a title nor a text\n"), "{}", output.err);
    measured.check_nothing_left();
}

#[test]
fn beir_titles_beyond_the_limit_are_cut() {
    let (long, longest) = (format!("Straßenbahn {}", "é".repeat(989)), "語".repeat(1_000));
    let corpus = format!(
        "{{\"_id\": \"d1\", \"title\": \"{long}\", \"text\": \"Sie fährt ab Mai.\"}}\n\
         {{\"_id\": \"d2\", \"title\": \"{longest}\", \"text\": \"図書館は駅の隣です。\"}}\n"
    );
    let measured = Measured::start(&[("corpus.jsonl", corpus.as_str()), BEIR[1], BEIR[2]]);
    let output = measured.eval(&["--mode", "lexical", "--json"]);
    let report = output.json().remove(0);
    assert_eq!(row(&report, "all", "lexical")["all"], scores(2, 100.0));
    assert!(output.err.contains("cut 1 title at 1000 characters\n"), "{}", output.err);
    measured.check_nothing_left();
}

#[test]
fn only_the_named_model_is_evaluated() {
    let measured = Measured::start(&PLAIN);
    measured.eval(&["--mode", "lexical", "--model", "fake"]).expect(0);
    let output = measured.eval(&["--mode", "lexical", "--model", "other"]);
    assert_eq!((output.code, output.out.as_str()), (1, ""), "{output:?}");
    assert!(output.err.starts_with("error: unknown_model: "), "{}", output.err);
    measured.check_nothing_left();

    let client = measured.server.client();
    assert_eq!(client.post("/v1/collections", &json!({"name": "mine"})).0, 201);
    assert_eq!(client.post("/v1/collections", &json!({"name": "points", "dimension": 2})).0, 201);
    for (collection, model, expect) in [
        ("mine", "other", "--model: expected fake, the model of mine, got other"),
        ("points", "fake", "--model: expected none, because points has no model, got fake"),
    ] {
        let output = measured.eval(&["--mode", "lexical", "--collection", collection, "--model", model]);
        assert!(output.code == 1 && output.err.contains(expect), "{output:?}");
    }
}

#[test]
fn trec_files_are_evaluated() {
    let measured = Measured::start(&TREC);
    let report = measured.report(&["--mode", "lexical"]);
    assert_eq!((&report["documents"], &row(&report, "all", "lexical")["all"]), (&json!(2), &scores(1, 100.0)));
    assert_eq!(report["results"].as_array().unwrap().len(), 1, "no query has a language");
}

#[test]
fn a_written_run_can_be_scored_again_without_a_server() {
    let measured = Measured::start(&many());
    let (pattern, data) = (measured.path("{name}.run"), measured.path("files"));
    let report = measured.report(&["--mode", "lexical,dense", "--run", pattern.to_str().unwrap()]);
    let run_file = measured.path("lexical.run");
    let written = fs::read_to_string(&run_file).unwrap();
    let fields: Vec<&str> = written.lines().next().unwrap().split(' ').collect();
    assert_eq!((fields[0], fields[1], fields[2], fields[3], fields[5]), ("q0", "Q0", "d0", "1", "lexical"));
    assert!(measured.path("dense.run").exists());

    let from = format!("mine={}", run_file.display());
    let output = run(NOWHERE, &["eval", "search", "--data", data.to_str().unwrap(), "--from-run", &from, "--json"]);
    let again = output.json().remove(0);
    assert_eq!(again["documents"], Value::Null);
    assert_eq!(row(&again, "all", "mine")["all"], row(&report, "all", "lexical")["all"]);
    let beside = measured.report(&["--mode", "lexical", "--from-run", &from, "--languages", "all"]);
    assert_eq!(row(&beside, "all", "mine")["differences"]["ndcg_at_10"]["p"], 1.0);
}

#[test]
fn runs_can_be_written_without_relevance_judgments() {
    let measured = Measured::start(&PLAIN[..2]);
    let path = measured.path("hits.run");
    let output = measured.eval(&["--mode", "lexical", "--run", path.to_str().unwrap()]);
    assert_eq!(output.expect(0), "");
    assert!(fs::read_to_string(path).unwrap().starts_with("q1 Q0 d1 1 "));
    let output = measured.eval(&["--mode", "lexical"]);
    assert_eq!(output.code, 1);
    let expect = "expected judgments in one of qrels, qrels.tsv, qrels.txt, got none";
    assert!(output.err.contains(expect), "{}", output.err);
}

#[test]
fn an_existing_collection_is_searched_and_not_deleted() {
    let measured = Measured::start(&[PLAIN[0], PLAIN[2]]);
    let client = measured.server.client();
    assert_eq!(client.post("/v1/collections", &json!({"name": "mine"})).0, 201);
    let documents = json!({"documents": [
        {"id": "d1", "language": "de", "text": "Die neue Straßenbahn fährt ab Mai."},
        {"id": "d2", "language": "fr", "text": "Le nouveau tramway circule dès mai."},
        {"id": "d3", "language": "hi", "text": "बारिश के कारण स्कूल बंद हैं।"},
    ]});
    assert_eq!(client.post("/v1/collections/mine/documents?wait=indexed", &documents).0, 200);
    let report = measured.report(&["--collection", "mine", "--mode", "lexical"]);
    assert_eq!((&report["collection"], &report["documents"]), (&json!("mine"), &json!(3)));
    assert_eq!(row(&report, "same", "lexical")["all"], scores(2, 100.0));
    assert_eq!(row(&report, "other", "lexical")["all"], scores(1, 0.0));
    assert_eq!(client.get("/v1/collections/mine").1["documents"], 3);

    fs::write(measured.path("files/qrels.tsv"), "q1\td1\t1\nq2\td9\t1\n").unwrap();
    let output = measured.eval(&["--collection", "mine"]);
    assert_eq!((output.code, output.out.as_str()), (1, ""), "{output:?}");
    assert!(output.err.contains("qrels: document id: expected an id of a document of mine, got d9"), "{}", output.err);
    let output = measured.eval(&["--collection", "nobody"]);
    assert!(output.err.contains("collection_not_found"), "{}", output.err);
}

/// Evaluates these files; expects an error that ends with this text.
#[track_caller]
fn check_files(files: &[(&str, &str)], expect: &str) {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let output = run(NOWHERE, &["eval", "search", "--data", folder.path().to_str().unwrap()]);
    assert_eq!((output.code, output.out.as_str()), (1, ""), "{output:?}");
    assert!(output.err.trim_end().ends_with(expect), "{}", output.err);
}

/// Expects an error if one of the files has this content instead.
#[track_caller]
fn check_file(layout: [(&str, &str); 3], name: &str, content: &str, expect: &str) {
    let files = layout.map(|file| if file.0 == name { (name, content) } else { file });
    assert_ne!(files, layout, "{name} is one of the files");
    check_files(&files, expect);
}

#[test]
fn a_missing_or_duplicate_part_is_reported_with_its_possible_files() {
    let end = "is not usable: expected documents in one of corpus.jsonl, documents.tsv, corpus.tsv, got none";
    check_files(&TREC[1..], end);
    check_files(&TREC[..2], "expected judgments in one of qrels, qrels.tsv, qrels.txt, got none");
    check_files(&[], "expected queries in one of queries.jsonl, queries.tsv, topics.tsv, got none");
    let twice = "expected one of corpus.jsonl, documents.tsv, corpus.tsv, got corpus.jsonl and corpus.tsv";
    check_files(&[BEIR[0], TREC[0], TREC[1], TREC[2]], twice);
}

#[test]
fn errors_name_the_invalid_beir_line() {
    for (content, expect) in [
        ("{\"_id\": 5, \"text\": \"a\"}\n", "corpus.jsonl:1: _id: expected a string, got 5"),
        ("{\"text\": \"a\"}\n", "corpus.jsonl:1: _id: expected a string that is not blank, got nothing"),
        ("{\"_id\": \"d\", \"text\": \"a\", \"title\": [1]}\n", "corpus.jsonl:1: title: expected a string, got [1]"),
        (
            "{\"_id\": \"d\", \"text\": \"a\", \"metadata\": {\"language\": \"xx\"}}\n",
            "corpus.jsonl:1: language: expected the tag of a known language, such as fr or pt-BR, got xx",
        ),
        (
            "{\"_id\": \"d\", \"text\": \"a\"}\n{\"_id\": \"d\", \"text\": \"b\"}\n",
            "corpus.jsonl:2: id: expected a unique id, got d, the same as line 1",
        ),
        ("", "corpus.jsonl:1: line: expected a JSON object, got the end of the file"),
        ("[1]\n", "corpus.jsonl:1: line: expected a JSON object, got invalid type: sequence, expected a map at column 0"),
    ] {
        check_file(BEIR, "corpus.jsonl", content, expect);
    }
    let blank = "{\"_id\": \"q\", \"text\": \"a\"}\n{\"_id\": \"r\", \"text\": \" \"}\n";
    check_file(BEIR, "queries.jsonl", blank, "queries.jsonl:2: text: expected a string that is not blank, got nothing");
    let judgments = "qrels/test.tsv";
    check_file(BEIR, judgments, "q1\td1\t1\nq1\td2\tgood\n", "test.tsv:2: score: expected a number of at least 0, got good");
    check_file(BEIR, judgments, "a\tb\tc\nz\td1\t1\n", "test.tsv:2: query id: expected an id of queries.jsonl, got z");
    check_file(BEIR, judgments, "q1\td1\t0\n", "is not usable: expected a document with a grade above 0, got none");
}

#[test]
fn errors_name_the_invalid_trec_line() {
    let four = "qrels.txt:1: line: expected 4 fields separated by white space (query id, 0, document id, grade), got 3";
    check_file(TREC, "qrels.txt", "301 d1 1\n", four);
    check_file(TREC, "qrels.txt", "301 0 d1 high\n", "qrels.txt:1: grade: expected a number, got high");
    check_file(TREC, "qrels.txt", "301 0 x 1\n", "qrels.txt:1: document id: expected an id of corpus.tsv, got x");
    check_file(TREC, "topics.tsv", "301 rain\n", "topics.tsv:1: line: expected 2 tab-separated fields (id, text), got 1");
}

#[test]
fn errors_name_the_invalid_line_of_the_plain_layout() {
    let unknown = "queries.tsv:1: language: expected the tag of a known language, such as fr or pt-BR, got xx";
    check_file(PLAIN, "queries.tsv", "q1\txx\tRegen\n", unknown);
    let twice = "documents.tsv:2: id: expected a unique id, got d, the same as line 1";
    check_file(PLAIN, "documents.tsv", "d\tja\t雨\nd\tja\t雪\n", twice);
    check_file(PLAIN, "qrels.tsv", "q1\td1\t1\nz\td1\t1\n", "qrels.tsv:2: query id: expected an id of queries.tsv, got z");
    check_file(PLAIN, "qrels.tsv", "q1\tz\t1\n", "qrels.tsv:1: document id: expected an id of documents.tsv, got z");
    check_file(PLAIN, "qrels.tsv", "q1\td1\t-1\n", "qrels.tsv:1: gain: expected a number of at least 0, got -1");
    let again = "qrels.tsv:2: document id: expected each document once per query, got d1";
    check_file(PLAIN, "qrels.tsv", "q1\td1\t1\nq1\td1\t2\n", again);
}

#[test]
fn invalid_arguments_are_refused_before_any_file_is_read() {
    let cases: [(&[&str], &str); 9] = [
        (&["--config", "a"], "expected NAME={…}, got no ="),
        (&["--config", "a={\"limit\": 3}"], "limit is set by the evaluation; leave it out"),
        (&["--mode", "dense", "--config", "dense={}"], "expected each configuration to have a unique name, got dense twice"),
        (
            &["--exact", "--config", "wide={\"ef_search\": 256}"],
            "--exact searches without ef_search, which configuration wide sets",
        ),
        (&["--run", "hits.run"], "--run: expected {name} in hits.run for 4 configurations"),
        (&["--mode", "dense", "--run", "hits.run", "--languages", "same"], "--run: expected all in --languages, got none"),
        (&["--config", "a b={}", "--run", "hits.run"], "--run: expected names without white space, got a b"),
        (&["--from-run", "hits.run"], "expected NAME=FILE"),
        (
            &["--from-run", "a=hits.run", "--model", "fake"],
            "--model: expected a mode or a configuration to search with, got only runs",
        ),
    ];
    for (arguments, expect) in cases {
        let output = run(NOWHERE, &[&["eval", "search", "--data", "."], arguments].concat());
        assert_eq!((output.code, output.out.as_str()), (2, ""), "{output:?}");
        assert!(output.err.contains(expect), "{}", output.err);
    }
}
