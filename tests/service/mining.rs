//! Mining and duplicates as jobs: restarts, cancellation, concurrent changes, and agreement with exhaustive comparison.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use dragoman::domain::{Code, Filter, Job, JobId, JobStatus, JobType, MiningUnit, SearchFilter, Wait};
use dragoman::mining::{Margin, MarginScores, NeighborLists, Strategy, propose};
use dragoman::service::mining::duplicates::{DuplicatesRequest, DuplicatesSettings, LanguageRule};
use dragoman::service::mining::{MineRequest, MiningSettings, Sentences};
use serde_json::Value;

use crate::{Running, document, eventually, fresh, name, open};

/// Sentences from a small vocabulary, so that each has many neighbors that are not its translation.
fn sentence(number: usize, seed: usize) -> String {
    const WORDS: [&str; 24] = [
        "der", "Zug", "fährt", "heute", "nach", "Norden", "und", "kommt", "spät", "an", "wir", "warten", "am", "Bahnhof", "mit",
        "einem", "Koffer", "voller", "Bücher", "bis", "zum", "Abend", "ohne", "Eile",
    ];
    (0..7).map(|at| WORDS[(number * 31 + at * (number / 24 + 7 + seed) + at * at) % WORDS.len()]).collect::<Vec<_>>().join(" ")
}

const SETTINGS: MiningSettings = MiningSettings {
    neighbors: 4,
    margin: Margin::Ratio,
    strategy: Strategy::MaxScore,
    one_to_one: false,
    exact: None,
    deduplicate: true,
    // Both sides have sentences in common, and exhaustive comparison pairs them.
    skip_identical: false,
};

fn request(first: Sentences, second: Sentences) -> MineRequest {
    MineRequest { first, second, settings: SETTINGS, threshold: None, known_pairs: None, known_complete: false, key: None }
}

fn all_of(collection: &str) -> Sentences {
    Sentences::Collection { name: name(collection), only: SearchFilter::default(), unit: MiningUnit::Passage }
}

fn list(seed: usize, count: usize) -> Sentences {
    Sentences::List((0..count).map(|n| sentence(n, seed)).collect())
}

impl Running {
    async fn fill(&self, collection: &str, seed: usize, count: usize) {
        self.create(collection).await;
        let documents = (0..count).map(|n| document(&format!("{collection}{n}"), &sentence(n, seed))).collect();
        self.upsert(collection, documents, Wait::Indexed).await.unwrap();
    }

    pub(super) async fn ended(&self, id: &JobId) -> Job {
        eventually("the job ends", async || self.service.get_job(id).await.unwrap().status.is_finished()).await;
        self.service.get_job(id).await.unwrap()
    }

    /// The pairs of a job, once it has succeeded.
    async fn pairs(&self, id: &JobId) -> Vec<Value> {
        let job = self.ended(id).await;
        assert_eq!((job.status, job.error.as_ref()), (JobStatus::Succeeded, None));
        let (file, bytes) = self.service.job_lines(id, "pairs", JobType::Mine).await.unwrap();
        let text = std::io::read_to_string(file).unwrap();
        assert_eq!(text.len() as u64, bytes);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The pairs that exhaustive comparison of all distinct texts proposes: texts and scores.
    async fn exact(&self, first: &[String], second: &[String], per_query: usize) -> Vec<(String, String, f64)> {
        let different = |texts: &[String]| -> Vec<String> {
            let mut seen = HashSet::new();
            texts.iter().filter(|text| seen.insert((*text).clone())).cloned().collect()
        };
        let (first, second) = (different(first), different(second));
        let one = self.service.embed(first.clone()).await.unwrap();
        let other = self.service.embed(second.clone()).await.unwrap();
        let mut forward = NeighborLists::new(one.len(), other.len(), per_query).unwrap();
        let mut backward = NeighborLists::new(other.len(), one.len(), per_query).unwrap();
        for (n, query) in one.iter().enumerate() {
            let all: Vec<_> = (0..).zip(other.iter().map(|other| query.embedding.cosine(&other.embedding))).collect();
            forward.put(n as u32, &all).unwrap();
        }
        for (n, query) in other.iter().enumerate() {
            let all: Vec<_> = (0..).zip(one.iter().map(|one| query.embedding.cosine(&one.embedding))).collect();
            backward.put(n as u32, &all).unwrap();
        }
        let scores = MarginScores::new(&forward, &backward, Margin::Ratio).unwrap();
        let text = |texts: &[String], number: u32| texts[number as usize].clone();
        let pair =
            |pair: dragoman::mining::Candidate| (text(&first, pair.first), text(&second, pair.second), f64::from(pair.score));
        propose(Strategy::MaxScore, &scores).into_iter().map(pair).collect()
    }
}

/// The folder of a job's files.
fn job_folder(data_dir: &Path, id: &JobId) -> PathBuf {
    data_dir.join("jobs").join(id.as_str())
}

/// The files of a job.
fn files(data_dir: &Path, id: &JobId) -> Vec<String> {
    let entries = std::fs::read_dir(job_folder(data_dir, id)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Checks that the pairs match `exact`, up to the precision of 16-bit values in the index.
fn check(pairs: &[Value], exact: &[(String, String, f64)]) {
    let texts: HashSet<(&str, &str)> = exact.iter().map(|(one, other, _)| (one.as_str(), other.as_str())).collect();
    let agreeing = pairs
        .iter()
        .filter(|pair| texts.contains(&(pair["first"]["text"].as_str().unwrap(), pair["second"]["text"].as_str().unwrap())))
        .count();
    assert!(agreeing * 100 >= exact.len() * 97, "{agreeing} of {} pairs agree", exact.len());
    assert!(pairs.len().abs_diff(exact.len()) * 100 <= exact.len() * 3, "{} and {}", pairs.len(), exact.len());
    for (pair, (_, _, score)) in pairs.iter().zip(exact) {
        assert!((pair["score"].as_f64().unwrap() - score).abs() < 2e-2, "{pair} and {score}");
    }
}

fn texts(seed: usize, count: usize) -> Vec<String> {
    (0..count).map(|n| sentence(n, seed)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn mining_agrees_with_exhaustive_comparison() {
    let (folder, running) = fresh().await;
    running.fill("one", 1, 400).await;
    running.fill("other", 2, 300).await;
    let exact = running.exact(&texts(1, 400), &texts(2, 300), 4).await;
    assert!(exact.len() > 100, "{}", exact.len());
    for way in [Some(true), Some(false)] {
        for (first, second) in [(all_of("one"), all_of("other")), (list(1, 400), list(2, 300)), (all_of("one"), list(2, 300))] {
            let settings = MiningSettings { exact: way, ..SETTINGS };
            let job = running.service.mine(MineRequest { settings, ..request(first, second) }, None).await.unwrap();
            let pairs = running.pairs(&job.id).await;
            check(&pairs, &exact);
            let same = |(pair, exact): (&Value, &(String, String, f64))| {
                pair["first"]["text"] == exact.0 && pair["second"]["text"] == exact.1
            };
            if way == Some(true) {
                assert!(
                    pairs.len() == exact.len()
                        && pairs.iter().zip(&exact).filter(|both| same(*both)).count() * 100 >= pairs.len() * 99
                );
            }
            eventually("only the pairs stay", async || files(folder.path(), &job.id) == ["pairs.ndjson"]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mining_resumes_after_a_crash_without_embedding_texts_again() {
    let (folder, running) = fresh().await;
    let job = running.service.mine(request(list(1, 900), list(2, 700)), None).await.unwrap();
    let rows = |folder: &std::path::Path| -> u64 {
        let entries = std::fs::read_dir(folder.join("jobs").join(job.id.as_str())).unwrap().flatten();
        let files = entries.filter(|entry| {
            entry.file_name().to_string_lossy().starts_with("first.")
                && entry.file_name().to_string_lossy().ends_with(".embeddings")
        });
        files.map(|entry| entry.metadata().unwrap().len() / (64 * 4 + 1)).sum()
    };
    eventually("some texts are embedded", async || rows(folder.path()) >= 128).await;
    running.control.pause();
    running.crash();
    // Texts are stored in batches of 128. The crash may have interrupted one, and then its texts are embedded again.
    let kept = rows(folder.path()) / 128 * 128;
    let running = open(folder.path()).await;
    let pairs = running.pairs(&job.id).await;
    let embedded: usize = running.control.batches().iter().map(Vec::len).sum();
    let (one, other) = (texts(1, 900), texts(2, 700));
    let different = |texts: &[String]| texts.iter().collect::<HashSet<_>>().len() as u64;
    assert!(embedded as u64 <= different(&one) + different(&other) - kept, "{embedded} texts again, {kept} were kept");
    check(&pairs, &running.exact(&one, &other, 4).await);
}

/// Waits until a job has processed this many sentences; returns whether it is still running.
async fn reached(running: &Running, id: &JobId, sentences: u64) -> bool {
    eventually("the job is that far", async || running.service.get_job(id).await.unwrap().progress.done >= sentences).await;
    running.service.get_job(id).await.unwrap().status == JobStatus::Running
}

#[tokio::test(flavor = "multi_thread")]
async fn mining_survives_crashes_during_indexing_and_during_searches() {
    let (folder, mut running) = fresh().await;
    running.fill("one", 1, 900).await;
    running.fill("other", 2, 900).await;
    let part = |collection: &str| Sentences::Collection {
        name: name(collection),
        // Matches everything, but is not the whole collection, whose existing index would be used.
        only: SearchFilter { languages: Vec::new(), filter: Filter::Not(Box::new(Filter::Or(Vec::new()))) },
        unit: MiningUnit::Passage,
    };
    let exact = running.exact(&texts(1, 900), &texts(2, 900), 4).await;
    let different = |seed| texts(seed, 900).into_iter().collect::<HashSet<_>>().len() as u64;
    let indexed = different(1) + different(2);
    // Crashes once while the indexes are built, and once during the searches.
    for sentences in [1, indexed + 1] {
        let settings = MiningSettings { exact: Some(false), ..SETTINGS };
        let job = running.service.mine(MineRequest { settings, ..request(part("one"), part("other")) }, None).await.unwrap();
        assert!(reached(&running, &job.id, sentences).await, "the job was over before the crash");
        running.crash();
        running = open(folder.path()).await;
        check(&running.pairs(&job.id).await, &exact);
        eventually("only the pairs stay", async || files(folder.path(), &job.id) == ["pairs.ndjson"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mining_resumed_after_a_crash_keeps_its_original_sentences() {
    let (folder, mut running) = fresh().await;
    running.create("one").await;
    let of = |n: usize| (n * 10..n * 10 + 10).map(|n| format!("Ja {}.", sentence(n, 1))).collect::<Vec<_>>().join(" ");
    let documents = (0..40).map(|n| document(&format!("one{n}"), &of(n))).collect();
    running.upsert("one", documents, Wait::Indexed).await.unwrap();
    let sentences = Sentences::Collection { name: name("one"), only: SearchFilter::default(), unit: MiningUnit::Sentence };
    let job = running.service.mine(request(sentences, list(2, 400)), None).await.unwrap();
    assert!(reached(&running, &job.id, 1).await, "the job was over before the crash");
    running.crash();
    running = open(folder.path()).await;
    running.on("one").delete(&crate::id("one25"), Default::default()).await.unwrap();
    let pairs = running.pairs(&job.id).await;
    assert!(pairs.iter().any(|pair| pair["first"]["id"] == "one25"), "{pairs:?}");
    eventually("only the pairs stay", async || files(folder.path(), &job.id) == ["pairs.ndjson"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mining_completes_after_a_clean_shutdown_and_restart() {
    let (folder, running) = fresh().await;
    running.fill("one", 1, 600).await;
    running.fill("other", 2, 600).await;
    let job = running.service.mine(request(all_of("one"), all_of("other")), None).await.unwrap();
    running.shutdown().await;
    let running = open(folder.path()).await;
    check(&running.pairs(&job.id).await, &running.exact(&texts(1, 600), &texts(2, 600), 4).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_mining_job_leaves_no_files() {
    let (folder, running) = fresh().await;
    running.control.pause();
    let job = running.service.mine(request(list(1, 900), list(2, 900)), None).await.unwrap();
    eventually("the job runs", async || running.service.get_job(&job.id).await.unwrap().status == JobStatus::Running).await;
    running.service.cancel_job(&job.id).await.unwrap();
    running.control.resume();
    assert_eq!(running.ended(&job.id).await.status, JobStatus::Canceled);
    eventually("nothing stays", async || !job_folder(folder.path(), &job.id).exists()).await;
    let error = running.service.job_lines(&job.id, "pairs", JobType::Mine).await.unwrap_err();
    assert_eq!(error.code(), Code::NoResults);
}

#[tokio::test(flavor = "multi_thread")]
async fn mining_skips_deleted_documents_and_fails_for_a_deleted_collection() {
    let (folder, running) = fresh().await;
    running.fill("one", 1, 100).await;
    running.control.pause();
    let job = running.service.mine(request(all_of("one"), list(2, 100)), None).await.unwrap();
    let gone = running.service.mine(request(all_of("one"), list(3, 100)), None).await.unwrap();
    running.control.wait_until_blocked();
    for n in 0..50 {
        running.delete("one", &crate::id(&format!("one{n}"))).await.unwrap();
    }
    running.control.resume();
    let pairs = running.pairs(&job.id).await;
    let number = |pair: &Value| pair["first"]["id"].as_str().unwrap()[3..].parse::<usize>().unwrap();
    assert!(!pairs.is_empty() && pairs.iter().all(|pair| number(pair) >= 50), "{pairs:?}");
    running.ended(&gone.id).await;

    running.control.pause();
    let gone = running.service.mine(request(all_of("one"), list(3, 40)), None).await.unwrap();
    running.control.wait_until_blocked();
    running.service.delete_collection(&name("one")).await.unwrap();
    running.control.resume();
    let ended = running.ended(&gone.id).await;
    assert_eq!(ended.error.map(|error| error.code), Some(Code::CollectionNotFound));
    eventually("nothing stays", async || !job_folder(folder.path(), &gone.id).exists()).await;

    // An earlier version left an empty folder, and a crash may leave files.
    std::fs::create_dir(job_folder(folder.path(), &gone.id)).unwrap();
    std::fs::write(job_folder(folder.path(), &gone.id).join("pairs.ndjson"), "").unwrap();
    running.shutdown().await;
    let _running = open(folder.path()).await;
    assert!(!job_folder(folder.path(), &gone.id).exists() && job_folder(folder.path(), &job.id).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicates_survive_crashes_and_agree_with_exhaustive_comparison() {
    const DOCUMENTS: usize = 1_000;
    let (folder, running) = fresh().await;
    running.fill("one", 1, DOCUMENTS).await;
    let request = DuplicatesRequest {
        only: SearchFilter::default(),
        unit: MiningUnit::Passage,
        settings: DuplicatesSettings { score_min: 0.97, neighbors: 8, size_max: 1_000, pairs: LanguageRule::Any },
    };
    // Crashes once before the job starts, and once during its searches.
    let early = running.service.find_duplicates(&name("one"), request.clone(), None).await.unwrap();
    running.crash();
    let running = open(folder.path()).await;
    running.ended(&early.id).await;
    let start = async || running.service.find_duplicates(&name("one"), request.clone(), None).await.unwrap();
    let mut job = start().await;
    // If a job ends before it is seen running, the next one is crashed instead.
    let mut is_running = reached(&running, &job.id, 1).await;
    for _ in 0..50 {
        if is_running {
            break;
        }
        job = start().await;
        is_running = reached(&running, &job.id, 1).await;
    }
    assert!(is_running, "every job was over before the crash");
    running.crash();
    let running = open(folder.path()).await;
    let lines = async |id: &JobId| {
        let (file, _) = running.service.job_lines(id, "clusters", JobType::Duplicates).await.unwrap();
        std::io::read_to_string(file).unwrap()
    };
    let job = running.ended(&job.id).await;
    assert_eq!(lines(&early.id).await.lines().count(), lines(&job.id).await.lines().count());
    assert_eq!((job.status, job.error.as_ref()), (JobStatus::Succeeded, None));
    let (file, _) = running.service.job_lines(&job.id, "clusters", JobType::Duplicates).await.unwrap();
    let text = std::io::read_to_string(file).unwrap();
    let mut members = HashSet::new();
    for line in text.lines() {
        let cluster: Value = serde_json::from_str(line).unwrap();
        for member in cluster["members"].as_array().unwrap() {
            assert!(members.insert(member["id"].as_str().unwrap().to_owned()), "a member of two clusters: {member}");
        }
    }
    let all = texts(1, DOCUMENTS);
    let embedded = running.service.embed(all).await.unwrap();
    let has_near = |n: usize| (0..DOCUMENTS).any(|m| m != n && embedded[n].embedding.cosine(&embedded[m].embedding) >= 0.97);
    let expect: HashSet<String> = (0..DOCUMENTS).filter(|n| has_near(*n)).map(|n| format!("one{n}")).collect();
    let differing = members.symmetric_difference(&expect).count();
    assert!(!expect.is_empty() && differing * 100 <= expect.len() * 3, "{differing} of {}", expect.len());
}
