//! The program under the operating system's limits on open files and threads.

use std::io::Write as _;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::program::{self, Program};
use super::start_up::{after_shell, failure, shell_command};
use serde_json::json;

#[test]
fn writes_and_searches_work_despite_a_low_open_file_limit() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = after_shell("ulimit -n 64; export DRAGOMAN_HEADER_TIMEOUT_S=1", folder.path());
    // The idle connection is closed first, perhaps just when a request is sent over it, so this client opens a new one.
    let client = server.client().with_new_connections();
    let connect = |_| std::net::TcpStream::connect(client.address()).unwrap();
    let mut many: Vec<_> = (0..100).map(connect).collect();
    many.iter_mut().for_each(|stream| stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap());
    assert_eq!(client.post("/v1/collections", &json!({ "name": "news" })).0, 201);
    let documents = json!({ "documents": [{ "id": "a", "text": "Le chat dort." }] });
    assert_eq!(client.post("/v1/collections/news/documents", &documents).0, 200);
    assert_eq!(client.hits("news", &json!({ "query": "chat" }))[0]["id"], "a");
    let log = server.kill();
    assert!(log.iter().any(|line| line.contains("ulimit -n") && line.contains("\"wanted\":4096")), "{log:#?}");
    assert!(!log.iter().any(|line| line.contains("\"ERROR\"")), "{log:#?}");
}

#[test]
fn startup_names_a_limit_on_open_files_that_is_too_low_for_the_data_directory() {
    let mut refused = Vec::new();
    for files in 8..64 {
        let folder = tempfile::tempdir().unwrap();
        let Err(log) = Program::try_spawn(shell_command(&format!("ulimit -n {files}"), folder.path())) else { break };
        let error = log.lines().last().filter(|line| line.starts_with("error: cannot open the data directory"));
        refused.extend(error.map(String::from));
    }
    assert!(refused.len() > 2, "{refused:#?}");
    assert!(refused.iter().all(|error| error.contains("ulimit -n")), "{refused:#?}");
}

/// With the limit added, a user that runs nothing else, because the limit on threads counts those of all processes of a user.
const USER_OF_FEW_THREADS: u32 = 54_321;

/// A server on `data` whose user may have this many threads. Prints why and returns `None` where that is impossible.
fn with_threads(data: &Path, threads: usize) -> Option<Command> {
    let user = USER_OF_FEW_THREADS + u32::try_from(threads).unwrap();
    let chowned = chown(data, Some(user), Some(user));
    if let Err(error) = chowned.and_then(|()| Command::new("prlimit").arg("--version").output()) {
        println!("skipped: the server cannot run as another user with a limit: {error}");
        return None;
    }
    let mut limits = Command::new("prlimit");
    limits.arg(format!("--nproc={threads}:{threads}")).uid(user).gid(user).current_dir("/");
    let server = program::command(data, "fake:8");
    limits.arg(server.get_program()).args(server.get_args());
    limits.env("DRAGOMAN_LISTEN", "127.0.0.1:0").stdout(Stdio::null()).stderr(Stdio::piped());
    Some(limits)
}

#[test]
fn more_collections_than_threads_are_served() {
    const COLLECTIONS: usize = 60;
    let folder = tempfile::tempdir().unwrap();
    let name = |number: usize| format!("news{number}");
    let threads = std::thread::available_parallelism().map_or(1, usize::from) + 40;
    for run in 0..2 {
        let Some(command) = with_threads(folder.path(), threads) else { return };
        let server = Program::run(command);
        let client = server.client();
        for number in 0..COLLECTIONS {
            if run == 0 {
                assert_eq!(client.post("/v1/collections", &json!({ "name": name(number) })).0, 201);
            }
            let documents = json!({ "documents": [{ "id": run.to_string(), "text": "Le chat dort." }] });
            let (status, body) = client.post(&format!("/v1/collections/{}/documents?wait=stored", name(number)), &documents);
            assert_eq!(status, 200, "{number}: {body}");
        }
        assert!(server.terminate().success());
    }
}

#[test]
fn startup_reports_a_limit_on_threads_that_is_too_low() {
    for (threads, refused) in [(1, "another thread: "), (4, "the ")] {
        let folder = tempfile::tempdir().unwrap();
        let Some(command) = with_threads(folder.path(), threads) else { return };
        let error = failure(command);
        assert!(error.starts_with(&format!("error: the system does not let the server start {refused}")), "{threads}: {error}");
        assert!(error.contains("ulimit -u"), "{threads}: {error}");
    }
}
