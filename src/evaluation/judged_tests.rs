//! Tests of reading test collections: each format and mixed formats. `tests/cli/eval_search.rs` has invalid ones.

use super::*;

/// Files, by name and content.
type Files<'a> = &'a [(&'a str, &'a str)];

const BEIR: [(&str, &str); 3] = [
    (
        "corpus.jsonl",
        "{\"_id\": \"d\", \"title\": \"Wetter\", \"text\": \"Regen\", \"metadata\": {\"language\": \"de\"}}\n{\"_id\": \"e\", \"title\": \"\", \"text\": \"soleil\"}\n{\"_id\": \"f\", \"title\": \"雪\", \"text\": \"\"}\n",
    ),
    (
        "queries.jsonl",
        "{\"_id\": \"q\", \"text\": \"雨\", \"metadata\": {\"language\": \"ja\"}}\n{\"_id\": \"r\", \"text\": \"sun\"}\n",
    ),
    ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\td\t2\nq\te\t0\n"),
];
const TREC: [(&str, &str); 3] =
    [("corpus.tsv", "d\tRegen\ne\tSonne\n"), ("topics.tsv", "301\twarm rain\n"), ("qrels.txt", "301 0 d 1\n301\t0\te\t-2\n")];
const PLAIN: [(&str, &str); 3] =
    [("documents.tsv", "d\tja\t雨が降る。\ne\tde\tSonne\n"), ("queries.tsv", "q\tde\tRegen\n"), ("qrels.tsv", "q\td\t2\n")];

fn reading() -> ReadOptions {
    ReadOptions { documents: true, judged: true, split: "test".to_owned() }
}

fn read_files(files: Files<'_>, reading: &ReadOptions) -> Result<TestCollection, EvaluationError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    read(folder.path(), reading)
}

fn gains(read: &TestCollection, query: &str) -> Vec<(String, f64)> {
    read.gains[query].iter().map(|(id, gain)| (id.clone(), *gain)).collect()
}

#[test]
fn the_beir_layout_is_read() {
    let read = read_files(&BEIR, &reading()).unwrap();
    let [first, second, third] = &read.documents[..] else { panic!("{:?}", read.documents) };
    assert_eq!((first.title.as_deref(), first.text.as_str(), first.language), (Some("Wetter"), "Regen", Language::parse("de")));
    assert_eq!((second.title.as_deref(), second.language), (None, None));
    assert_eq!((third.title.as_deref(), third.text.as_str()), (None, "雪"), "a title alone is the text");
    assert_eq!((read.queries[0].language, read.queries[1].language), (Language::parse("ja"), None));
    // Documents with grade 0 are not relevant, and a query of another split has no judgments.
    assert_eq!((gains(&read, "q"), read.gains.len()), (vec![("d".to_owned(), 2.0)], 1));
}

#[test]
fn a_beir_document_may_be_blank() {
    let corpus = "{\"_id\": \"d\", \"title\": \" \", \"text\": \"\"}\n{\"_id\": \"e\", \"text\": \"soleil\"}\n";
    let read = read_files(&[("corpus.jsonl", corpus), BEIR[1], BEIR[2]], &reading()).unwrap();
    assert_eq!((read.documents.len(), read.documents[0].text.as_str()), (2, ""));
    assert_eq!(gains(&read, "q"), [("d".to_owned(), 2.0)], "a blank document keeps its judgment");
}

#[test]
fn another_beir_split_is_read_without_a_header_line() {
    let files = [BEIR[0], BEIR[1], ("qrels/dev.tsv", "r\te\t1\n")];
    let read = read_files(&files, &ReadOptions { split: "dev".to_owned(), ..reading() }).unwrap();
    assert_eq!(gains(&read, "r"), [("e".to_owned(), 1.0)]);
    let error = read_files(&files, &reading()).unwrap_err().to_string();
    assert!(error.ends_with("qrels/test.tsv"), "{error}");
}

#[test]
fn the_trec_layout_is_read_and_negative_grades_are_not_relevant() {
    let read = read_files(&TREC, &reading()).unwrap();
    assert_eq!((read.documents.len(), read.queries[0].text.as_str()), (2, "warm rain"));
    assert_eq!(gains(&read, "301"), [("d".to_owned(), 1.0)]);
}

#[test]
fn the_plain_layout_is_read() {
    let read = read_files(&PLAIN, &reading()).unwrap();
    assert_eq!((read.queries[0].language, read.documents[0].text.as_str()), (Language::parse("de"), "雨が降る。"));
    assert_eq!(gains(&read, "q"), [("d".to_owned(), 2.0)]);
}

#[test]
fn layouts_can_be_mixed() {
    let read = read_files(&[BEIR[0], TREC[1], ("qrels.txt", "301 0 e 1\n")], &reading()).unwrap();
    assert_eq!((read.documents.len(), gains(&read, "301")), (3, vec![("e".to_owned(), 1.0)]));
}

#[test]
fn documents_and_judgments_that_are_not_requested_may_be_missing() {
    let here = ReadOptions { documents: false, ..reading() };
    assert_eq!(read_files(&TREC[1..], &here).unwrap().documents, []);
    let unjudged = ReadOptions { judged: false, ..here };
    assert!(read_files(&TREC[1..2], &unjudged).unwrap().gains.is_empty());
}
