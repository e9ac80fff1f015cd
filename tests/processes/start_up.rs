//! The program's start and end: clear one-line errors, and a clean shutdown.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::program::{self, Program};
use serde_json::json;

/// Runs the program, which must fail, and returns its last line of output.
pub(super) fn failure(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    text.lines().last().unwrap().to_owned()
}

#[test]
fn startup_reports_a_missing_model() {
    let folder = tempfile::tempdir().unwrap();
    let error = failure(program::command(folder.path(), "no/such/model"));
    assert!(error.starts_with("error: there is no model in no/such/model"), "{error}");
    assert!(error.contains("--model"), "{error}");
}

#[test]
fn startup_reports_a_port_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = program::command(folder.path(), "fake:8");
    command.args(["--listen", &address]);
    let error = failure(command);
    assert!(error.starts_with(&format!("error: cannot listen on {address}: ")), "{error}");
}

#[test]
fn a_file_in_place_of_the_data_directory_is_refused_and_keeps_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    fs::write(&file, "notes").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let error = failure(program::command(&file, "fake:8"));
    assert_eq!(error, format!("error: data must be a folder, got the file {}", file.display()));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn startup_reports_a_data_directory_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Program::start(folder.path(), "fake:8");
    let error = failure(program::command(folder.path(), "fake:8"));
    assert!(error.contains("is in use by another process"), "{error}");
}

#[test]
fn startup_reports_a_data_directory_that_cannot_be_created() {
    let error = failure(program::command(Path::new("/dev/null/data"), "fake:8"));
    assert!(error.starts_with("error: cannot open the data directory /dev/null/data: "), "{error}");
}

/// A user without any privileges.
const NOBODY: u32 = 65_534;

/// A server on `data` that cannot write to `folder`: root runs it as nobody, any other user loses the write permission.
fn as_another(folder: &Path, data: &Path) -> Command {
    let mut command = program::command(data, "fake:8");
    let is_root = folder.metadata().unwrap().uid() == 0;
    if is_root {
        command.uid(NOBODY).gid(NOBODY);
    }
    std::fs::set_permissions(folder, Permissions::from_mode(if is_root { 0o755 } else { 0o500 })).unwrap();
    command
}

#[test]
fn startup_reports_a_data_directory_of_another_user_with_both_users() {
    let parent = tempfile::tempdir().unwrap();
    std::fs::set_permissions(parent.path(), Permissions::from_mode(0o755)).unwrap();
    let folder = parent.path().join("data");
    std::fs::create_dir(&folder).unwrap();
    let owner = folder.metadata().unwrap().uid();
    let command = as_another(&folder, &folder);
    let (user, mode) = if owner == 0 { (NOBODY, "755") } else { (owner, "500") };
    let error = failure(command);
    let begin = format!("error: the server runs as user {user} of group ");
    let belongs = format!("cannot write the data directory {0}: {0} belongs to user {owner} of group ", folder.display());
    assert!(error.starts_with(&begin) && error.contains(&belongs), "{error}");
    assert!(error.contains(&format!("has mode {mode}; give it to the server's user")), "{error}");
    assert!(error.contains(&format!("chown -R {user}:")), "{error}");
    std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn startup_reports_a_parent_folder_that_cannot_be_written() {
    let parent = tempfile::tempdir().unwrap();
    let error = failure(as_another(parent.path(), &parent.path().join("new/data")));
    let (data, above) = (parent.path().join("new/data"), parent.path());
    let expect = format!("cannot write the data directory {}: {} belongs to user ", data.display(), above.display());
    assert!(error.contains(&expect), "{error}");
    std::fs::set_permissions(parent.path(), Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn startup_reports_a_file_or_folder_inside_the_data_directory_that_belongs_to_another_user() {
    for inside in ["collections/ID", "collections/ID/documents.sqlite", "snapshots", "jobs"] {
        let parent = tempfile::tempdir().unwrap();
        if parent.path().metadata().unwrap().uid() != 0 {
            println!("skipped: only root can give files to another user");
            return;
        }
        std::fs::set_permissions(parent.path(), Permissions::from_mode(0o755)).unwrap();
        let data = parent.path().join("data");
        let server = Program::start(&data, "fake:8");
        assert_eq!(server.client().post("/v1/collections", &json!({ "name": "news" })).0, 201);
        assert!(server.terminate().success());
        let collection = std::fs::read_dir(data.join("collections")).unwrap().next().unwrap().unwrap().file_name();
        let foreign = data.join(inside.replace("ID", collection.to_str().unwrap()));
        all_in(&data).iter().filter(|path| **path != foreign).for_each(|path| chown(path, Some(NOBODY), Some(NOBODY)).unwrap());
        if foreign.is_file() {
            // It can be read, so only a write would fail.
            std::fs::set_permissions(&foreign, Permissions::from_mode(0o644)).unwrap();
        }
        let mut command = program::command(&data, "fake:8");
        let output = command.uid(NOBODY).gid(NOBODY).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{inside}: {text}");
        let error = text.lines().last().unwrap();
        let expect =
            format!("cannot write the data directory {}: {} belongs to user 0 of group ", data.display(), foreign.display());
        assert!(error.contains(&expect) && error.contains(&format!("chown -R {NOBODY}:{NOBODY}")), "{error}");
        assert!(!text.contains("still marked for removal"), "{text}");
    }
}

#[test]
fn startup_reports_an_invalid_log_filter() {
    let folder = tempfile::tempdir().unwrap();
    for (filter, words) in [("dragoman=loudly", "\"dragoman=loudly\""), ("warning", "must be a level: error, warn")] {
        let mut command = program::command(folder.path(), "fake:8");
        command.args(["--log", filter]);
        let error = failure(command);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_terminated_server_exits_cleanly_and_keeps_its_documents() {
    let (folder, server) = Program::fresh("fake:8");
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({ "name": "news" })).0, 201);
    let body = json!({ "documents": [{ "id": "a", "text": "some words", "language": "en" }] });
    assert_eq!(client.post("/v1/collections/news/documents?wait=indexed", &body).0, 200);
    assert!(server.terminate().success());
    let server = Program::start(folder.path(), "fake:8");
    let hits = server.client().hits("news", &json!({ "query": "some words", "limit": 1 }));
    assert_eq!(hits[0]["id"], "a");
}

/// Runs `dragoman config check`; returns whether it succeeds, its output, and its last line of output.
fn check(arguments: &[&str], environment: &[(&str, &str)]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dragoman"));
    command.args(["config", "check", "--model", "fake:8"]).args(arguments).envs(environment.iter().copied());
    let output = command.output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.success(), stdout, stderr.lines().last().unwrap_or_default().to_owned())
}

#[test]
fn config_check_shows_each_setting_with_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dragoman.toml");
    std::fs::write(&file, "threads = 3\nadmin_key = \"a secret of the file\"\npage_max = 50\n").unwrap();
    let environment =
        [("DRAGOMAN_CONFIG", file.to_str().unwrap()), ("DRAGOMAN_PAGE_MAX", "60"), ("DRAGOMAN_TEXT_BYTES_MAX", "70")];
    let (good, shown, said) = check(&["--text-bytes-max", "80"], &environment);
    assert!(good, "{said}");
    let lines: Vec<&str> = shown.lines().collect();
    for line in [
        "threads = 3  # file",
        "page_max = 60  # environment",
        "text_bytes_max = 80  # flag",
        "body_bytes_max = 33554432  # default",
        "admin_key = (hidden)  # file",
        "tls_key = (none)  # default",
    ] {
        assert!(lines.contains(&line), "{line:?} is not in {shown}");
    }
    assert!(!shown.contains("a secret"), "{shown}");
}

#[test]
fn config_check_reports_invalid_settings() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dragoman.toml");
    let at = |text: &str| {
        std::fs::write(&file, text).unwrap();
        check(&["--config", file.to_str().unwrap()], &[])
    };
    for (text, words) in [
        ("treads = 3", "dragoman.toml has an invalid setting: treads is unknown, the nearest name is threads;"),
        ("colour = 'red'", "colour is unknown;"),
        ("config = 'other.toml'", "config is unknown"),
        ("[limits]\npage_max = 3", "limits is unknown"),
        ("threads = 'many'", "threads: invalid value 'many'"),
        ("threads = 1025", "whole number of at most 1024"),
        ("threads = [1, 2]", "threads must be a string, a number or a boolean, got array"),
        ("threads = 1\nthreads = 2\n", "is not valid TOML: line 2: duplicate key"),
        ("\nthreads = 1\n\n  threads = 2", "line 4: duplicate key"),
        ("threads = 1\nadmin_key = 'geheim geheim", "is not valid TOML: line 2"),
        ("page_max = 0", "page_max: invalid value '0'"),
        ("page_max = 0", "whole number of at least 1"),
        ("batch_tokens_max = 0", "whole number of at least 1"),
        ("header_timeout_s = 'soon'", "whole number of at least 1 and at most 31536000"),
        ("durability = 'none'", "durability: invalid value 'none'"),
        ("durability = 'relaxed'\nstore = 'postgres://a'", "durability cannot be relaxed together with store"),
        ("durability = 'full'\nstore = 'postgres://a'", ""),
        ("cors_origins = [1]", "cors_origins must be a list of strings"),
        ("write_queue_max = 65537", "write_queue_max: invalid value '65537'"),
        ("jobs_queued_max = '18446744073709551615'", "jobs_queued_max: invalid value '18446744073709551615'"),
        ("log = 'dragoman=loudly'", "dragoman=loudly"),
        ("admin_key = 'short'", "admin_key must have at least 16 characters, got 5"),
        ("admin_key_file = 'no/such/file'", "no/such/file"),
        ("tls_certificate = 'cert.pem'", "tls_certificate is set without tls_key"),
        ("tls_certificate = 'no/cert.pem'\ntls_key = 'no/key.pem'", "no/cert.pem"),
        ("cors_origins = ['example.com']", "cors_origins must be * or an origin"),
        ("listen = '0.0.0.0:7700'\ndata = 'no/such/data'", "can be reached from other machines"),
        ("listen = 'nowhere'", "cannot listen on nowhere: it must be HOST:PORT, such as 127.0.0.1:7700"),
        ("listen = '127.0.0.1:77000'", "cannot listen on 127.0.0.1:77000: it must be HOST:PORT"),
        ("data = 'Cargo.toml'", "data must be a folder, got the file Cargo.toml"),
        ("model = 'no/such/model'", ""),
    ] {
        let (good, _, said) = at(text);
        // The flag that every check here passes overrides the file.
        assert_eq!(good, words.is_empty(), "{text:?} says {said:?}");
        assert!(said.contains(words), "{text:?} says {said:?}");
    }
    let (_, _, said) = check(&["--config", "no/such/file.toml"], &[]);
    assert!(said.contains("no/such/file.toml"), "{said}");
}

#[test]
fn an_invalid_environment_variable_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program::command(folder.path(), "fake:8");
    command.env("DRAGOMAN_THREADS", "5 ");
    let error = failure(command);
    assert!(error.starts_with("error: the environment variable DRAGOMAN_THREADS: invalid value '5 ' for '--threads"), "{error}");
    let (good, _, said) = check(&[], &[("DRAGOMAN_DURABILITY", "none")]);
    assert!(!good && said.contains("variable DRAGOMAN_DURABILITY: invalid value 'none'"), "{said}");
    // The flag overrides the variable, so it is the flag that is wrong.
    let (good, _, said) = check(&["--threads", "few"], &[("DRAGOMAN_THREADS", "3")]);
    assert!(!good && !said.contains("DRAGOMAN_THREADS"), "{said}");
}

/// Writes a certificate that was valid until 2020, and its key.
fn expired_certificate(folder: &Path) -> [String; 2] {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut certificate = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    certificate.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let certificate = certificate.self_signed(&key).unwrap();
    let paths = ["expired.pem", "expired.key"].map(|name| folder.join(name));
    std::fs::write(&paths[0], certificate.pem()).unwrap();
    std::fs::write(&paths[1], key.serialize_pem()).unwrap();
    paths.map(|path| path.display().to_string())
}

#[test]
fn an_expired_certificate_causes_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = expired_certificate(folder.path());
    let warning = format!("the certificate {certificate} expired at 2020-01-01T00:00:00Z");
    let arguments = ["--tls-certificate", &certificate, "--tls-key", &key];
    let (good, _, said) = check(&arguments, &[]);
    assert!(good && said.starts_with(&format!("warning: {warning}")), "{said}");
    let mut command = program::command(&folder.path().join("data"), "fake:8");
    command.args(arguments);
    let log = Program::spawn(command).stop_and_read_log();
    assert!(log.iter().any(|line| line.contains("\"WARN\"") && line.contains(&warning)), "{log:#?}");
}

#[test]
fn a_server_that_opens_its_data_is_alive_but_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    // Accepts connections and never answers, so the server waits for it.
    let database = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("postgres://dragoman@{}/dragoman", database.local_addr().unwrap());
    let mut command = program::command(folder.path(), "fake:8");
    command.args(["--store", &store]);
    let server = Program::spawn_at(&program::free_address(), command);
    let client = server.client();
    client.wait_until("the server is alive", |client| client.try_get("/healthz").is_ok_and(|(status, _)| status == 200));
    for path in ["/readyz", "/v1/collections"] {
        let (status, body) = client.get(path);
        assert_eq!((status, &body["code"]), (503, &json!("unavailable")), "{path}: {body}");
        assert!(body["detail"].as_str().unwrap().contains("the server is starting"), "{body}");
    }
}

#[test]
fn a_misspelled_environment_variable_is_refused_with_a_suggestion() {
    let folder = tempfile::tempdir().unwrap();
    let misspelled = ["DRAGOMAN", "LISTN"].join("_");
    let expect = format!("the environment variable {misspelled} is not a setting, the nearest name is DRAGOMAN_LISTEN");
    let mut command = program::command(folder.path(), "fake:8");
    command.env(&misspelled, "127.0.0.1:0");
    let error = failure(command);
    assert!(error.contains(&expect) && error.starts_with("error: "), "{error}");
    let (good, _, said) = check(&[], &[(&misspelled, "127.0.0.1:0")]);
    assert!(!good && said.contains(&expect), "{said}");
    let of_a_service = ["DRAGOMAN", "PORT"].join("_");
    let (good, _, said) =
        check(&[], &[(&of_a_service, "tcp://10.0.0.9:7700"), ("DRAGOMAN_BLESS", "1"), ("DRAGOMAN_KEY", "secret")]);
    assert!(good, "{said}");
}

#[test]
fn listening_publicly_requires_a_key_or_the_insecure_flag() {
    let folder = tempfile::tempdir().unwrap();
    let exposed = || {
        let mut command = program::command(folder.path(), "fake:8");
        command.args(["--listen", "0.0.0.0:0"]);
        command
    };
    let error = failure(exposed());
    assert!(error.contains("can be reached from other machines") && error.contains("--insecure"), "{error}");
    let key = folder.path().join("key");
    std::fs::write(&key, "a long admin key of a file\nand a second line\n").unwrap();
    for arguments in [vec!["--insecure"], vec!["--admin-key-file", key.to_str().unwrap()]] {
        let mut command = exposed();
        command.args(&arguments);
        assert!(Program::run(command).terminate().success(), "{arguments:?}");
    }
}

#[test]
fn keys_created_with_the_configured_admin_key_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program::command(folder.path(), "fake:8");
    command.env("DRAGOMAN_ADMIN_KEY", "a long admin key of the environment");
    let server = Program::run(command);
    assert_eq!(server.client().get("/v1/models").0, 401);
    let admin = server.client().with_key("a long admin key of the environment");
    let (status, made) = admin.post("/v1/keys", &json!({ "name": "search", "scope": "read" }));
    assert_eq!(status, 201, "{made}");
    let reader = made["secret"].as_str().unwrap().to_owned();
    assert!(server.terminate().success());

    let server = Program::start(folder.path(), "fake:8");
    assert_eq!(server.client().get("/v1/models").0, 401, "the key created before the restart still protects the server");
    assert_eq!(
        server.client().with_key("a long admin key of the environment").get("/v1/models").0,
        401,
        "the configured admin key is no longer accepted"
    );
    assert_eq!(server.client().with_key(&reader).get("/v1/models").0, 200);
}

/// Runs the server from a shell that first ran `before`.
pub(super) fn after_shell(before: &str, folder: &Path) -> Program {
    Program::run(shell_command(before, folder))
}

/// A shell that runs `before` and then the server.
pub(super) fn shell_command(before: &str, folder: &Path) -> Command {
    let arguments: Vec<_> = program::command(folder, "fake:8").get_args().map(ToOwned::to_owned).collect();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{before}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_dragoman")]).args(arguments);
    shell.env("DRAGOMAN_LISTEN", "127.0.0.1:0").stdout(Stdio::null()).stderr(Stdio::piped());
    shell
}

/// Everything in a folder, including the folder itself.
fn all_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let inner = entries.flat_map(|path| if path.is_dir() { all_in(&path) } else { vec![path] });
    inner.chain([folder.to_owned()]).collect()
}

/// Checks that only the owner has access to the content of the data directory.
fn check_private(folder: &Path) {
    for path in all_in(folder) {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        let mode = path.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, expected, "{} has mode {mode:o}", path.display());
    }
}

#[test]
fn stored_files_are_accessible_only_to_their_owner() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    let server = after_shell("umask 000", &folder);
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({ "name": "news" })).0, 201);
    let lines = std::io::Cursor::new("{\"id\": \"a\", \"text\": \"Le chat dort.\"}\n");
    let (status, import) = client.post_lines("/v1/collections/news/import", lines);
    assert_eq!(status, 202, "{import}");
    let (status, snapshot) = client.post("/v1/snapshots", &json!({}));
    assert_eq!(status, 202, "{snapshot}");
    for job in [import, snapshot] {
        let job = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
        client.wait_until("the job is over", |client| client.get(&job).1["status"] == "succeeded");
    }
    let logs = all_in(&folder).iter().filter(|path| path.extension().is_some_and(|end| end == "sqlite-wal")).count();
    assert!(logs > 1, "the databases are open");
    check_private(&folder);
    assert!(server.terminate().success());
    assert!(all_in(&folder).iter().any(|path| path.ends_with("index.usearch")), "the index is saved");
    check_private(&folder);
}

#[test]
fn a_readable_data_directory_is_made_private_and_logged_once() {
    let (folder, server) = Program::fresh("fake:8");
    assert_eq!(server.client().post("/v1/collections", &json!({ "name": "news" })).0, 201);
    assert!(server.terminate().success());
    for path in all_in(folder.path()) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let foreign = folder.path().join("notes.txt");
    std::fs::write(&foreign, "not ours").unwrap();
    std::fs::set_permissions(&foreign, Permissions::from_mode(0o644)).unwrap();
    for said in [true, false] {
        let mut server = Program::start(folder.path(), "fake:8");
        let log = server.kill();
        assert_eq!(log.iter().any(|line| line.contains("changed its modes to 700 and 600")), said, "{log:#?}");
        assert_eq!(foreign.metadata().unwrap().permissions().mode() & 0o777, 0o644, "foreign files keep their mode");
    }
    std::fs::remove_file(foreign).unwrap();
    check_private(folder.path());
}

/// However many threads allocate at once, there are no more arenas than cores, so retained memory does not grow over time.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn the_allocator_has_no_more_arenas_than_cores() {
    let (_folder, server) = Program::fresh("fake:64");
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({ "name": "news" })).0, 201);
    let write = |number: usize| {
        let text = format!("Letter {number} lies on the shelf.");
        let (status, body) = client.post("/v1/collections/news/documents", &json!({"documents": [{"text": text}]}));
        assert_eq!(status, 200, "{body}");
    };
    std::thread::scope(|scope| {
        (0..32).for_each(|first| drop(scope.spawn(move || (0..8).for_each(|number| write(first * 8 + number)))));
    });
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", server.id())).unwrap();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let arenas = arenas(&maps);
    // One more arena is the heap, which is not counted here.
    assert!(arenas < cores.max(2), "{arenas} arenas beside the heap on {cores} cores:\n{maps}");
}

/// Arenas besides the heap: each reserves 64 MiB of addresses, aligned to that size, and uses the first part.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn arenas(maps: &str) -> usize {
    const RESERVED: u64 = 64 << 20;
    let range = |line: &str| -> Option<(u64, u64, bool)> {
        let (begin, rest) = line.split_once('-')?;
        let (end, rest) = rest.split_once(' ')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        Some((number(begin)?, number(end)?, rest.starts_with("rw-p 00000000 00:00 0")))
    };
    let ranges: Vec<_> = maps.lines().filter_map(range).collect();
    let whole = |pair: &[(u64, u64, bool)]| {
        let [(begin, end, used), (rest, until, rest_used)] = *pair else { return false };
        begin % RESERVED == 0 && used && !rest_used && rest == end && until == begin + RESERVED
    };
    ranges.windows(2).filter(|pair| whole(pair)).count()
}
