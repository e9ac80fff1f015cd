//! `dragoman eval` against a server, over small files. Sentences that are both Afrikaans and English have the same embedding in
//! both languages, so the expected results are known.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::program::{self, Program};
use super::{dragoman, run, run_with};

const NOWHERE: &str = "http://127.0.0.1:1";
const TASKS: [&str; 8] = ["tatoeba", "pairs", "mining", "classification", "retrieval", "sts", "passages", "search"];

/// Two sentences that are both Afrikaans and English.
const BOTH: &str = "My hand is in warm water.\nMy pen is in my hand.\n";

/// One line of SIB-200 per text.
fn sib200(part: &str, rows: &[(&str, &str)]) -> String {
    rows.iter().enumerate().map(|(number, (label, text))| format!("{part}\t{number}\t{label}\t{text}\n")).collect()
}

/// Files for every task, in Afrikaans, English, French, German, Hindi and Japanese.
fn files(folder: &Path) {
    let write = |name: &str, content: &str| fs::write(folder.join(name), content).unwrap();
    write("tatoeba.afr-eng.afr", BOTH);
    write("tatoeba.afr-eng.eng", BOTH);
    write("flores.af.txt", BOTH);
    write("flores.en.txt", BOTH);
    // The second column swaps the two translations, so that no pair is found.
    write(
        "short.af-en.tsv",
        "My hand is in warm water.\tMy pen is in my hand.\nMy pen is in my hand.\tMy hand is in warm water.\n",
    );
    write(
        "af-en.dev.af",
        "a1\tMy hand is in warm water.\na2\tMy pen is in my hand.\na3\tIs my arm warm?\na4\tDie kat slaap op die dak.\n",
    );
    write(
        "af-en.dev.en",
        "e3\tIs my arm warm?\ne1\tMy hand is in warm water.\ne2\tMy pen is in my hand.\ne5\tThe train leaves at noon.\n",
    );
    write("af-en.dev.gold", "a1\te1\na2\te2\na3\te3\n");
    write("candidates.af-en.af", BOTH);
    write("candidates.af-en.en", "My hand is in warm water.\nMy pen is in my hand.\nThe train leaves at noon.\n");
    write(
        "sts.af-ja.tsv",
        "5\tIs my arm warm?\tIs my arm warm?\n2\tMy pen is in my hand.\tMy hand\n0\tDie kat slaap.\t雨が降っている。\n",
    );
    write("retrieval.af-en.tsv", &BOTH.lines().map(|line| format!("{line}\t{line}\n")).collect::<String>());
    let train = [("sports", "tennis hockey rugby"), ("weather", "tornado monsoon cyclone")];
    let english =
        sib200("train", &train.repeat(10)) + &sib200("dev", &[("sports", "rugby and tennis"), ("weather", "a tornado")]);
    write("sib200.en.tsv", &english);
    write(
        "sib200.de.tsv",
        &sib200("dev", &[("sports", "Tennis Hockey Rugby"), ("weather", "Tornado Monsun"), ("sports", "Hockey")]),
    );
    write("sib200.fr.tsv", &sib200("dev", &[("weather", "tornado"), ("sports", "rugby")]));
    write("queries.tsv", "q1\tde\tdie neue Straßenbahn\nq2\thi\tस्कूल बंद\n");
    write(
        "documents.tsv",
        "d1\tde\tDie neue Straßenbahn fährt ab Mai.\nd2\tfr\tLe nouveau tramway circule dès mai.\nd3\thi\tबारिश के कारण स्कूल बंद हैं।\nd4\tja\t図書館は駅の隣です。\n",
    );
    write("qrels.tsv", "q1\td1\t2\nq1\td2\t1\nq2\td3\t1\n");
}

struct Measured {
    folder: tempfile::TempDir,
    server: Program,
}

impl Measured {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("files");
        fs::create_dir(&data).unwrap();
        files(&data);
        let server = Program::start(&folder.path().join("data"), "fake:64");
        Self { folder, server }
    }

    fn data(&self) -> String {
        self.folder.path().join("files").to_str().unwrap().to_owned()
    }

    fn eval(&self, arguments: &[&str]) -> super::Run {
        run(self.server.client().url(), &[&["eval"], arguments, &["--data", &self.data()]].concat())
    }

    /// The report as JSON.
    fn report(&self, arguments: &[&str]) -> Value {
        self.eval(&[arguments, &["--json"]].concat()).json().remove(0)
    }

    /// Checks that nothing created by a measurement remains.
    #[track_caller]
    fn check_nothing_left(&self) {
        let client = self.server.client();
        for (path, member) in [("/v1/collections", "collections"), ("/v1/classifiers", "classifiers")] {
            assert_eq!(client.get(path).1[member], json!([]), "{path}");
        }
    }
}

#[test]
fn retrieval_and_similarity_are_measured() {
    let measured = Measured::start();
    let tatoeba = measured.report(&["tatoeba"]);
    let expect = json!({"language": "af", "pairs": 2, "to_english": 100.0, "from_english": 100.0});
    assert_eq!(tatoeba["tatoeba"]["codes"]["afr"], expect);
    let pairs = measured.report(&["pairs"]);
    assert_eq!((&pairs["flores"]["english_mean"], &pairs["short"]["mean"]), (&json!(100.0), &json!(0.0)));
    let retrieval = measured.report(&["retrieval", "--queries", "1"]);
    let expect = json!({"queries": 1, "candidates": 3, "by_margin": 100.0, "by_cosine": 100.0});
    assert_eq!(retrieval["candidates"]["pairs"]["af-en"], expect);
    let sts = measured.report(&["sts"]);
    assert_eq!(sts["sts"]["pairs"]["af-ja"], json!({"pairs": 3, "spearman": 100.0}));
    let passages = measured.report(&["passages"]);
    let ranked = json!({"dense": {"p_at_1": 100.0, "mrr_at_10": 100.0}, "late": null, "both": null});
    assert_eq!(passages["passages"]["pairs"]["af-en"], json!({"questions": 2, "passages": 2, "ranked": ranked}));
    let all = measured.report(&["all"]);
    for (task, report) in [("tatoeba", &tatoeba), ("flores", &pairs), ("sts", &sts)] {
        assert_eq!(all[task], report[task]);
    }
    assert!(all["classification"]["sets"]["sib200"].is_array(), "{all}");
}

#[test]
fn a_report_is_printed_as_a_table_or_written_to_a_file() {
    let measured = Measured::start();
    let output = measured.eval(&["pairs"]);
    let line = "| af Afrikaans          |        100.0 |        100.0 |         0.0 |         0.0 |           2 |";
    assert!(output.expect(0).lines().any(|got| got == line), "{}", output.out);
    let path = measured.folder.path().join("report.json");
    assert_eq!(measured.eval(&["sts", "--output", path.to_str().unwrap()]).expect(0), "");
    let report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(report["sts"]["mean"], 100.0);
}

#[test]
fn mining_is_evaluated_locally_and_on_the_server() {
    let measured = Measured::start();
    let here = measured.report(&["mining"]);
    let score = &here["mining"]["pairs"]["af-en"];
    assert_eq!((&score["tuning_part"], &score["tuning_gold"]), (&json!("dev"), &json!(3)));
    assert_eq!(score["strategies"].as_object().unwrap().len(), 4);
    assert_eq!(score["strategies"]["max-score"]["tuning"], json!({"precision": 100.0, "recall": 100.0, "f1": 100.0}));
    let both = measured.report(&["mining", "--api"]);
    let strategies = &both["mining"]["pairs"]["af-en"]["strategies"];
    assert_eq!(strategies.as_object().unwrap().keys().collect::<Vec<_>>(), ["max-score", "server"]);
    assert_eq!(strategies["server"]["tuning"], strategies["max-score"]["tuning"]);
}

#[test]
fn server_classifiers_are_compared_with_the_same_network_run_locally() {
    let measured = Measured::start();
    let report = measured.report(&["classification", "--kind", "knn,mlp,offline"]);
    let comparison = &report["comparisons"][0];
    assert_eq!((&comparison["set"], &comparison["from"]), (&json!("sib200"), &json!("en")));
    let methods = comparison["methods"].as_object().unwrap();
    assert_eq!(methods.keys().collect::<Vec<_>>(), ["knn", "majority", "mlp", "offline"]);
    // "Sports" is the first of two equally frequent labels: correct for one of two in English, two of three in German, one of
    // two in French.
    assert_eq!(methods["majority"]["own"], 50.0);
    assert!((methods["majority"]["mean"].as_f64().unwrap() - (200.0 / 3.0 + 50.0) / 2.0).abs() < 1e-9, "{methods:?}");
    assert_eq!((&methods["knn"]["languages"]["de"], &methods["knn"]["languages"]["fr"]), (&json!(100.0), &json!(100.0)));
    assert_eq!(methods["mlp"], methods["offline"]);
    measured.check_nothing_left();
    let output = measured.eval(&["classification", "--kind", "knn"]);
    assert!(output.expect(0).starts_with("sib200, trained in en English, accuracy in percent:\n"), "{}", output.out);
    assert!(output.out.lines().any(|line| line == "| mean of the others    |    100.0 |     58.3 |"), "{}", output.out);
    let papers = measured.eval(&["classification"]);
    assert!(papers.expect(0).contains("deviation of 5 runs"), "{}", papers.out);
}

#[test]
fn classification_is_not_evaluated_if_the_server_has_another_model() {
    let measured = Measured::start();
    let kinds: [&[&str]; 3] = [&[], &["--kind", "knn"], &["--kind", "offline"]];
    for kind in kinds {
        let output = measured.eval(&[&["classification", "--model", "other"], kind].concat());
        assert_eq!((output.code, output.out.as_str()), (1, ""), "{kind:?} {output:?}");
        assert!(output.err.starts_with("error: unknown_model: "), "{kind:?} {}", output.err);
    }
    measured.eval(&["classification", "--kind", "knn", "--model", "fake"]).expect(0);
    measured.check_nothing_left();
}

/// Measures `task` with one file replaced; expects an error that ends with this text, and nothing stored on the server.
#[track_caller]
fn check_file(task: &[&str], file: &str, content: &str, expect: &str) {
    let folder = tempfile::tempdir().unwrap();
    files(folder.path());
    check_folder(task, folder.path(), &[(file, content)], expect);
}

/// Does the same with these files alone.
#[track_caller]
fn check_files(task: &str, files: &[(&str, &str)], expect: &str) {
    check_folder(&[task], tempfile::tempdir().unwrap().path(), files, expect);
}

#[track_caller]
fn check_folder(task: &[&str], folder: &Path, files: &[(&str, &str)], expect: &str) {
    files.iter().for_each(|(name, content)| fs::write(folder.join(name), content).unwrap());
    let output = run(NOWHERE, &[&["eval"], task, &["--data", folder.to_str().unwrap()]].concat());
    assert_eq!((output.code, output.out.as_str()), (1, ""), "{output:?}");
    assert!(output.err.trim_end().ends_with(expect), "{}", output.err);
}

#[test]
fn an_invalid_line_is_reported_before_the_server_is_contacted() {
    check_file(
        &["tatoeba"],
        "tatoeba.afr-eng.eng",
        "My hand is in warm water.\n\n",
        "tatoeba.afr-eng.eng:2: sentence: expected a sentence, got an empty line",
    );
    check_file(
        &["pairs"],
        "flores.af.txt",
        "My hand is in warm water.\n",
        "flores.en.txt has 2 lines, but the files next to it have 1",
    );
    check_file(
        &["mining"],
        "af-en.dev.gold",
        "a1\te1\na9\te2\n",
        "af-en.dev.gold:2: first id: expected an id of the sentences, got a9",
    );
    check_file(
        &["classification", "--kind", "mlp"],
        "sib200.de.tsv",
        "dev\t0\tmusic\tGesang\n",
        "German: expected one of the labels sports, weather, got music",
    );
    check_file(
        &["classification"],
        "sib200.fr.tsv",
        "dev\t0\tsports\n",
        "sib200.fr.tsv:1: line: expected 4 tab-separated fields (part, index, label, text), got 3",
    );
    check_file(
        &["retrieval"],
        "candidates.af-en.en",
        "My hand is in warm water.\n",
        "expected one translation for each of the 2 queries, got 1 lines",
    );
    check_file(
        &["sts"],
        "sts.af-ja.tsv",
        "viel\tIs my arm warm?\t暖かい\n",
        "sts.af-ja.tsv:1: score: expected a number, got viel",
    );
    check_file(&["search"], "qrels.tsv", "q1\td1\t1\nq2\td3\t-1\n", "qrels.tsv:2: gain: expected a number of at least 0, got -1");
}

#[test]
fn missing_and_misaligned_files_are_named() {
    let [french, english] = ["tatoeba.fra-eng.fra", "tatoeba.fra-eng.eng"];
    let missing = "tatoeba.fra-eng.fra: No such file or directory (os error 2)";
    check_files("tatoeba", &[(english, "0\n")], missing);
    let shorter = "tatoeba.fra-eng.eng has 1 lines, but the files next to it have 2";
    check_files("tatoeba", &[(french, "0\n90\n"), (english, "0\n")], shorter);
    let blank = "tatoeba.fra-eng.fra:2: sentence: expected a sentence, got an empty line";
    check_files("tatoeba", &[(french, "0\n\n"), (english, "0\n1\n")], blank);
    let empty = "tatoeba.fra-eng.fra:1: sentence: expected a sentence, got the end of the file";
    check_files("tatoeba", &[(french, ""), (english, "")], empty);
    let blank = "flores.en.txt:2: sentence: expected a sentence, got an empty line";
    check_files("pairs", &[("flores.en.txt", "0\n\n90\n")], blank);
    let missing = "candidates.fr-en.en: No such file or directory (os error 2)";
    check_files("retrieval", &[("candidates.fr-en.fr", "1 0\n0 1\n")], missing);
}

#[test]
fn invalid_scored_pairs_are_named() {
    for (content, expect) in [
        ("5\t1\t2\nhigh\t1\t2\n", "sts.en-de.tsv:2: score: expected a number, got high"),
        ("NaN\t1\t2\n", "sts.en-de.tsv:1: score: expected a number, got NaN"),
        ("5\t1\n", "sts.en-de.tsv:1: line: expected 3 tab-separated fields (score, first sentence, second sentence), got 2"),
        (
            "5\t1\t2\t3\n",
            "sts.en-de.tsv:1: line: expected 3 tab-separated fields (score, first sentence, second sentence), got 4",
        ),
        ("5\t1\t \n", "sts.en-de.tsv:1: second sentence: expected a value that is not blank, got nothing"),
        ("", "sts.en-de.tsv:1: line: expected 3 tab-separated fields, got the end of the file"),
    ] {
        check_files("sts", &[("sts.en-de.tsv", content)], expect);
    }
}

#[test]
fn invalid_ids_of_sentences_are_named() {
    let expect = "af-en.dev.gold:1: second id: expected an id of the sentences, got x";
    check_file(&["mining"], "af-en.dev.gold", "a1\tx\n", expect);
    let expect = "af-en.dev.af:2: id: expected a unique id, got a1, the same as line 1";
    check_file(&["mining"], "af-en.dev.af", "a1\t0\na1\t120\n", expect);
    let expect = "af-en.dev.en:1: line: expected 2 tab-separated fields (id, sentence), got 1";
    check_file(&["mining"], "af-en.dev.en", "e1\n", expect);
}

#[test]
fn invalid_labeled_texts_are_named() {
    for (file, content, expect) in [
        (
            "sib200.ja.tsv",
            "dev\t0\tsports\t試合に勝った。\nvalid\t1\tsports\t負けた。\n",
            "sib200.ja.tsv:2: part: expected train, dev or test, got valid",
        ),
        ("sib200.ja.tsv", "train\t0\tsports\t試合に勝った。\n", "expected lines of the split dev, got none"),
        ("en.test", "CCAT\tA.\nno label\n", "en.test:2: line: expected label<TAB>text, got no tab"),
        ("en.test", "CCAT\t \n", "en.test:1: line: expected label<TAB>text, got a blank label or text"),
    ] {
        check_files("classification", &[(file, content)], expect);
    }
}

#[test]
fn a_folder_without_data_files_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    // Files that belong to others, which are missing.
    for name in ["tatoeba.readme", "candidates.fr-en.en", "de-en.dev.de", "de-en.test.gold"] {
        fs::write(folder.path().join(name), "0\n").unwrap();
    }
    for task in TASKS {
        let output = run(NOWHERE, &["eval", task, "--data", folder.path().to_str().unwrap()]);
        assert_eq!((output.code, output.out.as_str()), (1, ""), "{output:?}");
        let expect = if task == "search" { "queries.tsv" } else { "no usable data in " };
        assert!(output.err.contains(expect), "{task}: {}", output.err);
    }
}

#[test]
fn every_task_names_an_unreachable_server() {
    let folder = tempfile::tempdir().unwrap();
    files(folder.path());
    for task in TASKS {
        let output = run(NOWHERE, &["eval", task, "--data", folder.path().to_str().unwrap()]);
        assert_eq!((output.code, output.out.as_str()), (1, ""), "{output:?}");
        assert!(output.err.starts_with("error: cannot reach the server at http://127.0.0.1:1: "), "{task}: {}", output.err);
    }
}

#[test]
fn every_task_reports_a_wrong_key() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("files");
    fs::create_dir(&data).unwrap();
    files(&data);
    let mut command = program::command(&folder.path().join("data"), "fake:8");
    command.env("DRAGOMAN_ADMIN_KEY", "a long admin key of the environment");
    let server = Program::run(command);
    for task in TASKS {
        let mut command = dragoman(server.client().url(), &["eval", task, "--data", data.to_str().unwrap()]);
        command.env("DRAGOMAN_KEY", "open-sesame-and-let-me-in");
        let output = run_with(command, b"");
        assert_eq!((output.code, output.out.as_str()), (1, ""), "{output:?}");
        assert!(output.err.starts_with("error: unauthorized: "), "{task}: {}", output.err);
    }
}

#[test]
fn the_help_of_each_task_describes_its_file_format() {
    for (task, part) in [
        ("tatoeba", "tatoeba.XXX-eng.XXX"),
        ("pairs", "short.xx-en.tsv"),
        ("mining", "xx-en.PART.gold"),
        ("classification", "XX.train.1000"),
        ("retrieval", "candidates.xx-yy.yy"),
        ("sts", "sts.xx-yy.tsv"),
        ("passages", "retrieval.xx-yy.tsv"),
        ("search", "qrels.tsv"),
    ] {
        let help = run(NOWHERE, &["eval", task, "--help"]);
        assert!(help.expect(0).contains(part), "{task}: {}", help.out);
    }
    assert_eq!(run(NOWHERE, &["eval", "sts"]).code, 2);
    assert_eq!(run(NOWHERE, &["eval", "classification", "--data", ".", "--train-language", "xx"]).code, 2);
}
