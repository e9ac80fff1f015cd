//! Jobs and crashes: accepted work is done exactly once, whatever happens in between.

use std::path::Path;

use dragoman::domain::{
    Alias, Code, ColumnTypes, FileEncoding, FileFormat, Job, JobFilter, JobId, JobStatus, Limits, Page, RestoreRequest,
    SnapshotId, Wait,
};
use dragoman::embed::FakeOptions;
use dragoman::service::Error;
use dragoman::service::documents::import::ImportFile;
use futures::stream;

use crate::{Running, Setting, document, eventually, name, news, news_with, open, open_with, request, try_open};

const FILE: ImportFile =
    ImportFile { format: FileFormat::Ndjson, encoding: FileEncoding::Identity, types: ColumnTypes::NONE, announced: None };

/// Makes imports wait after each batch until it is embedded.
fn slow() -> Setting {
    Setting { limits: Limits { import_backlog_max: 0, ..Limits::default() }, ..Setting::default() }
}

pub(crate) fn file(lines: usize) -> String {
    let line = |n: usize| match n % 10 {
        9 => "no JSON\n".to_owned(),
        _ => format!("{{\"id\":\"d{n}\",\"text\":\"number {n} speaks of w{n} and x{n}\"}}\n"),
    };
    (0..lines).map(line).collect()
}

impl Running {
    pub(crate) async fn import(&self, content: String) -> Result<Job, Error> {
        let pieces = content.into_bytes().chunks(1_000).map(|piece| Ok::<_, ()>(piece.to_vec())).collect::<Vec<_>>();
        self.on("news").import(FILE, stream::iter(pieces)).await
    }

    /// Imports one document. The job does not end before the encoder has embedded it.
    pub(crate) async fn import_one(&self, collection: &str) -> Job {
        let line = b"{\"text\":\"some words\"}\n".to_vec();
        self.on(collection).import(FILE, stream::iter([Ok::<_, ()>(line)])).await.unwrap()
    }

    async fn job(&self, id: &JobId) -> Job {
        self.service.get_job(id).await.unwrap()
    }

    async fn finished(&self, id: &JobId) -> Job {
        eventually("the job ends", async || self.job(id).await.status.is_finished()).await;
        self.job(id).await
    }

    async fn lines_done(&self, id: &JobId) -> u64 {
        self.job(id).await.details.get("lines").and_then(|lines| lines.as_u64()).unwrap_or(0)
    }

    /// Checks that an import of `file(lines)` was applied exactly once.
    async fn check_imported(&self, id: &JobId, lines: u64) {
        let job = self.finished(id).await;
        assert_eq!((job.status, job.error.as_ref()), (JobStatus::Succeeded, None));
        let count = |name: &str| job.details.get(name).and_then(|count| count.as_u64()).unwrap();
        assert_eq!((count("lines"), count("created"), count("updated"), count("failed")), (lines, lines * 9 / 10, 0, lines / 10));
        let (results, bytes) = self.service.job_results(id).await.unwrap().unwrap();
        let text = std::io::read_to_string(results).unwrap();
        assert_eq!(text.len() as u64, bytes);
        let numbers: Vec<u64> =
            text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["line"].as_u64().unwrap()).collect();
        assert!(numbers.into_iter().eq(1..=lines), "each line has one result");
        let view = self.service.get_collection(&name("news")).await.unwrap();
        assert_eq!((view.counts.documents, view.counts.passages_pending), (lines * 9 / 10, 0));
    }
}

/// A long import of which some lines are stored, while the encoder is paused.
async fn paused_import() -> (tempfile::TempDir, Running, Job) {
    let (folder, running) = news_with(slow()).await;
    running.control.pause();
    let job = running.import(file(3_000)).await.unwrap();
    eventually("some lines are stored", async || running.lines_done(&job.id).await > 0).await;
    (folder, running, job)
}

/// The files of unfinished imports.
fn sources(data_dir: &Path) -> usize {
    let jobs = std::fs::read_dir(data_dir.join("jobs")).unwrap();
    jobs.filter(|entry| entry.as_ref().unwrap().path().join("source").exists()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_survives_crashes_anywhere_and_counts_every_line_once() {
    let (folder, mut running) = news_with(slow()).await;
    let job = running.import(file(5_000)).await.unwrap();
    for part in 1..=4 {
        eventually("some lines are stored", async || running.lines_done(&job.id).await >= part * 700).await;
        running.crash();
        running = open_with(folder.path(), slow()).await;
    }
    running.check_imported(&job.id, 5_000).await;
    assert_eq!(sources(folder.path()), 0);
    running.shutdown().await;
    let running = open(folder.path()).await;
    running.check_imported(&job.id, 5_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_continues_while_its_collection_is_reembedded() {
    let (folder, running) = news().await;
    running.shutdown().await;
    crate::titles::cut_by_older_rules(folder.path());
    let running = open_with(folder.path(), slow()).await;
    let job = running.import(file(6_000)).await.unwrap();
    eventually("some lines are stored", async || running.lines_done(&job.id).await >= 500).await;
    let anew = running.on("news").reembed(None).await.unwrap();
    assert_eq!(running.finished(&anew.id).await.status, JobStatus::Succeeded);
    assert!(running.lines_done(&job.id).await < 6_000, "the import goes on");
    running.check_imported(&job.id, 6_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_ends_once_its_own_documents_are_found_even_if_later_ones_wait() {
    let (_folder, running) = news().await;
    running.control.pause();
    let job = running.import_one("news").await;
    running.control.wait_until_blocked();
    running.upsert("news", vec![document("later", "words of a later time")], Wait::Stored).await.unwrap();
    running.control.pass_one();
    assert_eq!(running.finished(&job.id).await.status, JobStatus::Succeeded);
    assert_eq!(running.service.get_collection(&name("news")).await.unwrap().counts.passages_pending, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fifo_in_place_of_its_file_fails_an_import() {
    let (folder, running) = news_with(slow()).await;
    let job = running.import(file(3_000)).await.unwrap();
    running.shutdown().await;
    let source = folder.path().join("jobs").join(job.id.as_str()).join("source");
    std::fs::remove_file(&source).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&source).status().unwrap().success());
    let running = open(folder.path()).await;
    assert_eq!(running.finished(&job.id).await.status, JobStatus::Failed);
    running.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_resumes_after_a_clean_shutdown() {
    let (folder, running) = news_with(slow()).await;
    let job = running.import(file(3_000)).await.unwrap();
    eventually("some lines are stored", async || running.lines_done(&job.id).await > 0).await;
    running.shutdown().await;
    let running = open(folder.path()).await;
    running.check_imported(&job.id, 3_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn import_results_torn_by_a_crash_are_rewritten() {
    let (folder, running) = news_with(slow()).await;
    let job = running.import(file(3_000)).await.unwrap();
    eventually("some lines are stored", async || running.lines_done(&job.id).await >= 1_000).await;
    running.shutdown().await;
    let path = folder.path().join("jobs").join(job.id.as_str()).join("results.ndjson");
    let bytes = std::fs::read(&path).unwrap();
    // Half of the last batch's results, followed by a line that was never written.
    std::fs::write(&path, [&bytes[..bytes.len() - 100], b"{\"line\":77"].concat()).unwrap();
    let running = open(folder.path()).await;
    running.check_imported(&job.id, 3_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_whose_file_lost_its_end_fails() {
    let (folder, running) = news_with(slow()).await;
    let job = running.import(file(3_000)).await.unwrap();
    running.crash();
    let source = folder.path().join("jobs").join(job.id.as_str()).join("source");
    let file = std::fs::OpenOptions::new().write(true).open(source).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let running = open(folder.path()).await;
    let ended = running.finished(&job.id).await;
    assert_eq!((ended.status, ended.error.unwrap().code), (JobStatus::Failed, Code::Internal));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_import_stays_canceled_after_a_crash() {
    let (folder, running, job) = paused_import().await;
    running.service.cancel_job(&job.id).await.unwrap();
    running.crash();
    let running = open(folder.path()).await;
    let ended = running.finished(&job.id).await;
    assert_eq!(ended.status, JobStatus::Canceled);
    assert!(running.service.get_collection(&name("news")).await.unwrap().counts.documents < 2_700);
    assert_eq!(sources(folder.path()), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_import_shows_all_that_it_stored_before_a_crash() {
    let (folder, running, job) = paused_import().await;
    // The catalog records progress from time to time, so it may be behind.
    let catalog = rusqlite::Connection::open(folder.path().join("catalog.sqlite")).unwrap();
    catalog.execute_batch("update jobs set done = 0, details = '{}', cancel_requested = 1").unwrap();
    running.crash();
    let results = folder.path().join("jobs").join(job.id.as_str()).join("results.ndjson");
    let bytes = std::fs::read(&results).unwrap();
    std::fs::write(&results, &bytes[..bytes.len() - 100]).unwrap();
    let running = open(folder.path()).await;
    let ended = running.finished(&job.id).await;
    assert_eq!(ended.status, JobStatus::Canceled);
    let stored = running.service.get_collection(&name("news")).await.unwrap().counts.documents;
    let count = |name: &str| ended.details.get(name).and_then(|count| count.as_u64());
    assert_eq!((count("created"), count("lines"), count("failed")), (Some(stored), Some(stored / 9 * 10), Some(stored / 9)));
    assert!(ended.progress.done > 0);
    let (results, _) = running.service.job_results(&job.id).await.unwrap().unwrap();
    assert_eq!(std::io::read_to_string(results).unwrap().lines().count() as u64, stored / 9 * 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_canceled_before_it_is_queued_does_not_run() {
    let (folder, running) = news().await;
    let catalog = rusqlite::Connection::open(folder.path().join("catalog.sqlite")).unwrap();
    // As if another request canceled it as soon as it was stored.
    let cancel = "create trigger canceled after insert on jobs begin
                      update jobs set cancel_requested = 1 where id = new.id;
                  end;";
    catalog.execute_batch(cancel).unwrap();
    let job = running.import(file(10)).await.unwrap();
    let ended = running.finished(&job.id).await;
    assert_eq!((ended.status, ended.started_at_ms), (JobStatus::Canceled, None));
    assert_eq!(running.service.get_collection(&name("news")).await.unwrap().counts.documents, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_fails_after_a_restart_with_another_model() {
    let (folder, running) = news_with(slow()).await;
    let job = running.import(file(3_000)).await.unwrap();
    eventually("some lines are stored", async || running.lines_done(&job.id).await > 0).await;
    running.crash();
    let running = open_with(folder.path(), Setting { fake: FakeOptions::of(32), ..Setting::default() }).await;
    let error = running.finished(&job.id).await.error.unwrap();
    assert_eq!(error.code, Code::ModelMismatch);
    assert!(error.detail.contains("fake-64") && error.detail.contains("fake-32"), "{}", error.detail);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_keeps_the_alias_target_it_was_accepted_with() {
    let limits = Limits { import_backlog_max: 0, jobs_running_max: 1, ..Limits::default() };
    let (_folder, running) = news_with(Setting { limits, ..Setting::default() }).await;
    running.create("other").await;
    let alias_of = |collection: &str| Alias { name: name("latest"), collection: name(collection) };
    running.service.set_alias(alias_of("news")).await.unwrap();
    running.control.pause();
    let first = running.import(file(10)).await.unwrap();
    let line = stream::iter([Ok::<_, ()>(b"{\"id\":\"late\",\"text\":\"late words\"}\n".to_vec())]);
    let second = running.on("latest").import(FILE, line).await.unwrap();
    assert_eq!(second.collection, Some(name("news")), "the collection's own name");
    running.service.set_alias(alias_of("other")).await.unwrap();
    running.control.resume();
    running.finished(&first.id).await;
    let second = running.finished(&second.id).await;
    assert_eq!((second.status, second.error.as_ref()), (JobStatus::Succeeded, None));
    assert_eq!(running.text("news", "late").await.as_deref(), Some("late words"));
}

/// Makes the catalog refuse to record the start of any job, as on a full disk. Returns a connection to the catalog.
fn refuse_starts(data_dir: &Path) -> rusqlite::Connection {
    let catalog = rusqlite::Connection::open(data_dir.join("catalog.sqlite")).unwrap();
    // No key follows the largest one, which SQLite reports like a full disk.
    let refuse = "create table numbered (number integer primary key autoincrement);
                  insert into numbered values (9223372036854775807);
                  create trigger refused before update of status on jobs when new.status = 'running' begin
                      insert into numbered values (null);
                  end;";
    catalog.execute_batch(refuse).unwrap();
    catalog
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_waits_for_the_storage_before_it_starts() {
    let (folder, running) = news().await;
    let catalog = refuse_starts(folder.path());
    let (canceled, waiting) = (running.import(file(10)).await.unwrap(), running.import(file(100)).await.unwrap());
    // Long enough for an attempt.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    for job in [&canceled, &waiting] {
        assert_eq!(running.job(&job.id).await.status, JobStatus::Queued);
    }
    running.service.cancel_job(&canceled.id).await.unwrap();
    assert_eq!(running.finished(&canceled.id).await.status, JobStatus::Canceled);
    catalog.execute_batch("drop trigger refused").unwrap();
    running.check_imported(&waiting.id, 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_import_body_leaves_no_job_and_no_file() {
    let (folder, running) = news().await;
    let pieces = vec![Ok(b"{\"text\":\"x\"}\n".to_vec()), Err(())];
    let error = running.on("news").import(FILE, stream::iter(pieces)).await.unwrap_err();
    assert_eq!(error.code(), Code::MalformedFile);
    let (jobs, _) = running.service.list_jobs(JobFilter::default(), Page { limit: 10, after: None }).await.unwrap();
    assert_eq!(jobs, []);
    assert_eq!(std::fs::read_dir(folder.path().join("jobs")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn startup_removes_files_of_interrupted_uploads_and_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).await.shutdown().await;
    let id = "0198c0de-7a11-7000-8000-2f1de5c0ffee";
    let (jobs, snapshots) = (folder.path().join("jobs"), folder.path().join("snapshots"));
    std::fs::create_dir(jobs.join(id)).unwrap();
    std::fs::create_dir(snapshots.join(format!("{id}.partial"))).unwrap();
    std::fs::write(snapshots.join(format!("{id}.description.partial")), "half").unwrap();
    std::fs::write(snapshots.join("notes.txt"), "mine").unwrap();
    let _running = open(folder.path()).await;
    assert_eq!(std::fs::read_dir(jobs).unwrap().count(), 0);
    let left: Vec<_> = std::fs::read_dir(snapshots).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.txt"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn startup_describes_an_archive_again_whose_description_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let running = open(folder.path()).await;
    running.create("news").await;
    let (id, damaged) = (snapshot(&running).await, snapshot(&running).await);
    let expected = running.service.get_snapshot(&id).await.unwrap();
    running.shutdown().await;
    let path = |id: &SnapshotId, end: &str| folder.path().join("snapshots").join(format!("{id}{end}"));
    [&id, &damaged].into_iter().for_each(|id| std::fs::remove_file(path(id, ".json")).unwrap());
    std::fs::write(path(&damaged, ".tar.zst"), "no archive").unwrap();
    let running = open(folder.path()).await;
    eventually("the snapshot is described", || async { running.service.get_snapshot(&id).await.is_ok() }).await;
    assert_eq!(running.service.get_snapshot(&id).await.unwrap(), expected);
    assert_eq!(running.service.get_snapshot(&damaged).await.unwrap_err().code(), Code::SnapshotNotFound);
    assert!(path(&damaged, ".tar.zst").exists(), "whatever it is, it stays");
    running.service.delete_snapshot(&damaged).await.unwrap();
    assert!(!path(&damaged, ".tar.zst").exists(), "until it is deleted");
    assert_eq!(running.service.delete_snapshot(&damaged).await.unwrap_err().code(), Code::SnapshotNotFound);
}

/// Returns the ids of the listed snapshots.
async fn listed(running: &Running) -> Result<Vec<SnapshotId>, Code> {
    let page = running.service.list_snapshots(Page { limit: 10, after: None }).await;
    page.map(|(snapshots, _)| snapshots.into_iter().map(|snapshot| snapshot.id).collect()).map_err(|error| error.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_that_cannot_be_read_hides_only_its_own_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let running = open(folder.path()).await;
    running.create("news").await;
    let (first, unreadable, last) = (snapshot(&running).await, snapshot(&running).await, snapshot(&running).await);
    let path = folder.path().join("snapshots").join(format!("{unreadable}.json"));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(listed(&running).await, Ok(vec![last, first]));
    assert_eq!(running.service.get_snapshot(&unreadable).await.unwrap_err().code(), Code::Internal);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_fails_if_no_description_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let running = open(folder.path()).await;
    running.create("news").await;
    let path = folder.path().join("snapshots").join(format!("{}.json", snapshot(&running).await));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(listed(&running).await, Err(Code::Internal));
}

/// Creates a snapshot of everything.
pub(crate) async fn snapshot(running: &Running) -> SnapshotId {
    let job = running.service.create_snapshot(Vec::new()).await.unwrap();
    let job = running.finished(&job.id).await;
    assert_eq!((job.status, job.error.as_ref()), (JobStatus::Succeeded, None));
    SnapshotId::parse(job.details["snapshot"].as_str().unwrap()).unwrap()
}

pub(crate) const REPLACE: RestoreRequest = RestoreRequest { collection: None, rename_to: None, replace: true };

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_taken_during_writes_is_consistent() {
    let (folder, running) = news().await;
    let service = running.service.clone();
    let writing = tokio::spawn(async move {
        for n in 0..300 {
            // Every moment has both documents or neither.
            let pair = vec![document(&format!("a{n}"), "the first"), document(&format!("b{n}"), "the second")];
            service
                .collection(&name("news"))
                .unwrap()
                .upsert(pair.into_iter().map(Ok).collect(), Wait::Stored, None)
                .await
                .unwrap();
        }
    });
    let id = snapshot(&running).await;
    writing.await.unwrap();
    let shown = running.service.get_snapshot(&id).await.unwrap();
    assert_eq!(shown.collections[0].documents % 2, 0);
    let job = running.service.restore_snapshot(&id, REPLACE).await.unwrap();
    assert_eq!(running.finished(&job.id).await.status, JobStatus::Succeeded);
    let view = running.service.get_collection(&name("news")).await.unwrap();
    assert_eq!(view.counts.documents, shown.collections[0].documents);
    running.shutdown().await;
    let running = open(folder.path()).await;
    assert_eq!(running.service.get_collection(&name("news")).await.unwrap().counts.documents, view.counts.documents);
    assert_eq!(std::fs::read_dir(folder.path().join("collections")).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_with_a_damaged_description_is_not_listed_and_can_be_deleted() {
    let (folder, running) = news().await;
    let (damaged, good) = (snapshot(&running).await, snapshot(&running).await);
    let files = || std::fs::read_dir(folder.path().join("snapshots")).unwrap().count();
    std::fs::write(folder.path().join("snapshots").join(format!("{damaged}.json")), "{").unwrap();
    let (listed, _) = running.service.list_snapshots(Page { limit: 10, after: None }).await.unwrap();
    assert_eq!(listed.into_iter().map(|one| one.id).collect::<Vec<_>>(), [good]);
    let error = running.service.get_snapshot(&damaged).await.unwrap_err();
    assert!(error.code() == Code::InvalidSnapshot && error.to_string().contains(damaged.as_str()), "{error}");
    running.service.delete_snapshot(&damaged).await.unwrap();
    assert_eq!(files(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn restoring_a_damaged_archive_changes_nothing() {
    let (folder, running) = news().await;
    running.write("news", "a", "the first words").await;
    let id = snapshot(&running).await;
    let path = folder.path().join("snapshots").join(format!("{id}.tar.zst"));
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    running.write("news", "b", "other words").await;
    let job = running.service.restore_snapshot(&id, REPLACE).await.unwrap();
    let error = running.finished(&job.id).await.error.unwrap();
    assert_eq!(error.code, Code::InvalidSnapshot);
    assert_eq!(running.found("news", "other words").await[0], "b");
    assert_eq!(std::fs::read_dir(folder.path().join("collections")).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_another_model_can_be_restored_and_reembedded() {
    let (folder, running) = news().await;
    running.write("news", "a", "some words").await;
    let id = snapshot(&running).await;
    running.service.delete_collection(&name("news")).await.unwrap();
    running.shutdown().await;
    let running = open_with(folder.path(), Setting { fake: FakeOptions::of(32), ..Setting::default() }).await;
    let job = running.service.restore_snapshot(&id, REPLACE).await.unwrap();
    assert_eq!(running.finished(&job.id).await.status, JobStatus::Succeeded);
    assert_eq!(running.text("news", "a").await.as_deref(), Some("some words"));
    let error = running.search("news", request("some words", 1)).await.unwrap_err();
    assert_eq!(error.code(), Code::ModelMismatch);
    assert!(error.to_string().contains("fake-64") && error.to_string().contains("fake-32"), "{error}");
    let job = running.on("news").reembed(None).await.unwrap();
    assert_eq!(running.finished(&job.id).await.status, JobStatus::Succeeded);
    assert_eq!(running.found("news", "some words").await, ["a"]);
}

#[tokio::test]
async fn a_restore_whose_end_was_not_recorded_is_over_before_the_first_request() {
    let (folder, running) = news().await;
    let id = snapshot(&running).await;
    let job = running.service.restore_snapshot(&id, REPLACE).await.unwrap();
    assert_eq!(running.finished(&job.id).await.status, JobStatus::Succeeded);
    running.shutdown().await;
    let catalog = rusqlite::Connection::open(folder.path().join("catalog.sqlite")).unwrap();
    let lost = "update jobs set status = 'running', finished_at_ms = null, done = 0 where type = 'restore'";
    catalog.execute_batch(lost).unwrap();
    // Without an `await` in between, no job runs before the test looks.
    let _running = loop {
        match try_open(folder.path(), &Setting::default()) {
            Err(error) if error.code() == Code::Unavailable => tokio::task::yield_now().await,
            opened => break opened.unwrap(),
        }
    };
    let unfinished = "select count(*) from jobs where finished_at_ms is null or done < total";
    assert_eq!(catalog.query_row(unfinished, [], |row| row.get::<_, i64>(0)), Ok(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_interrupted_by_a_crash_completes_after_a_restart() {
    let (folder, mut running) = news().await;
    let documents = (0..400).map(|n| document(&format!("d{n}"), &format!("number {n} speaks of w{n}"))).collect();
    running.upsert("news", documents, Wait::Indexed).await.unwrap();
    let id = snapshot(&running).await;
    running.write("news", "later", "words of a later time").await;
    let job = running.service.restore_snapshot(&id, REPLACE).await.unwrap();
    running.crash();
    running = open(folder.path()).await;
    let ended = running.finished(&job.id).await;
    assert_eq!((ended.status, ended.error), (JobStatus::Succeeded, None));
    assert_eq!(running.text("news", "later").await, None);
    assert_eq!(running.found("news", "number 7 speaks of w7").await[0], "d7");
    running.shutdown().await;
    open(folder.path()).await.shutdown().await;
    assert_eq!(std::fs::read_dir(folder.path().join("collections")).unwrap().count(), 1);
}
