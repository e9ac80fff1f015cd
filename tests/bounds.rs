//! Greedy callers, all at once: the largest responses, read slowly or not at all, event streams, connections that send nothing.
//! The server's memory stays bounded, `/healthz` answers at once, and well-behaved callers are served as if they were alone.
//!
//! `DRAGOMAN_TEST_CALLERS=60` is the full size: 60 callers with responses of 60 MiB, 1,024 streams, 4,096 idle connections
//! against the server's default limits. With fewer callers, everything is scaled down proportionally.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/program.rs"]
mod program;

use std::io::{Cursor, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use program::{Client, Program, command};
use serde_json::{Value, json};

const ADMIN_KEY: &str = "the key of the configuration";
/// Callers at full size.
const FULL: usize = 60;
/// Callers by default.
const SMALL: usize = 6;
/// Bytes of a document.
const DOCUMENT_BYTES: usize = 60 << 10;
/// Documents stored per request: it must fit into one caller's share even at the smallest size.
const DOCUMENTS_PER_REQUEST: usize = 20;
/// Lines of an import that outlasts the test.
const LINES: usize = 800_000;
/// How long a caller waits for a missing answer.
const SILENCE: Duration = Duration::from_millis(250);

/// The size of the whole test.
#[derive(Clone, Copy)]
struct Size {
    callers: usize,
}

impl Size {
    fn chosen() -> Self {
        let callers = std::env::var("DRAGOMAN_TEST_CALLERS").ok().and_then(|text| text.parse().ok());
        Self { callers: callers.unwrap_or(SMALL) }
    }

    /// Scales a full-size amount to this number of callers.
    fn of(self, full: usize) -> usize {
        (full * self.callers).div_ceil(FULL)
    }

    /// Hits in one of the largest responses.
    fn hits(self) -> usize {
        self.of(1_000)
    }

    /// Too little for all callers: some are refused at every size.
    fn in_flight_bytes(self) -> usize {
        if self.is_full() { 512 << 20 } else { self.hits() * DOCUMENT_BYTES * 27 / 10 }
    }

    fn is_full(self) -> bool {
        self.callers >= FULL
    }

    fn duration(self) -> Duration {
        Duration::from_secs(if self.is_full() { 20 } else { 3 })
    }
}

/// The responses that the callers got.
#[derive(Default)]
struct Observed {
    stop: AtomicBool,
    responses: AtomicUsize,
    refusals: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

impl Observed {
    fn is_running(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Records the head of a response; returns whether it is a success.
    fn note(&self, head: &str) -> bool {
        let is = |code: &str| head.starts_with(&format!("HTTP/1.1 {code}"));
        if is("200") {
            self.responses.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        self.refusals.fetch_add(1, Ordering::Relaxed);
        if !(is("429") || is("503")) || !head.to_lowercase().contains("retry-after") {
            self.wrong.lock().unwrap().push(head.lines().next().unwrap_or_default().to_owned());
        }
        false
    }
}

fn request(method: &str, path: &str, key: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Sends a request and reads the head of its response; returns nothing if the server closed the connection.
fn ask(address: &str, request: &str, observed: &Observed) -> Option<(TcpStream, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(SILENCE)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut head = Vec::new();
    let mut some = [0; 1_024];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut some) {
            Ok(0) => return None,
            Ok(read) => head.extend_from_slice(&some[..read]),
            Err(_) if observed.is_running() => continue,
            Err(_) => return None,
        }
    }
    Some((stream, String::from_utf8_lossy(&head).into_owned()))
}

/// A caller that requests the largest responses until it is told to stop, and reads none, some, or all of each.
fn run_greedy_caller(number: usize, address: String, key: String, observed: Arc<Observed>, hits: usize) {
    let body = json!({"vector": [1, 0], "limit": hits, "include": ["text"]}).to_string();
    let request = request("POST", "/v1/collections/large/search", &key, &body);
    let mut buffer = vec![0; 64 << 10];
    while observed.is_running() {
        let Some((mut stream, head)) = ask(&address, &request, &observed) else { continue };
        if !observed.note(&head) {
            drop(stream);
            thread::sleep(Duration::from_millis(200));
            continue;
        }
        let since = Instant::now();
        while observed.is_running() {
            match number % 3 {
                0 => thread::sleep(SILENCE),
                1 => {
                    thread::sleep(Duration::from_millis(20));
                    let _ = stream.read(&mut buffer);
                }
                // Silence means that everything was read: the connection stays open.
                _ if stream.read(&mut buffer).is_err() || since.elapsed() > Duration::from_secs(2) => break,
                _ => (),
            }
        }
    }
}

/// Requests `/healthz` on a new connection each time, until it is told to stop; returns the sorted times in seconds.
fn watch_health(address: String, observed: Arc<Observed>) -> Vec<f64> {
    let mut times = Vec::new();
    while observed.is_running() {
        let started = Instant::now();
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        times.push(started.elapsed().as_secs_f64());
        thread::sleep(Duration::from_millis(10));
    }
    times.sort_by(f64::total_cmp);
    times
}

/// Searches and writes a little, as often as it can, until it is told to stop; returns the sorted times in seconds.
fn run_honest_caller(client: Client, observed: Arc<Observed>) -> Vec<f64> {
    let mut times = Vec::new();
    while observed.is_running() {
        let started = Instant::now();
        let document = json!({"documents": [{"id": "mine", "text": format!("sentence {}", times.len())}]});
        for (path, body) in [
            ("/v1/collections/large/search", json!({"vector": [1, 0], "limit": 2, "include": ["text"]})),
            ("/v1/collections/small/documents?wait=stored", document),
        ] {
            // The server may have closed the kept-alive connection in the meantime, like any idle one.
            let response = client.try_post(path, &body).or_else(|_| client.try_post(path, &body));
            let (status, body) = response.unwrap();
            assert_eq!(status, 200, "an honest caller is refused: {body}");
        }
        times.push(started.elapsed().as_secs_f64());
        thread::sleep(Duration::from_millis(50));
    }
    times.sort_by(f64::total_cmp);
    times
}

/// The percentile of sorted times.
fn percentile(times: &[f64], percent: usize) -> f64 {
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

/// Starts a server with the limits of this size.
fn start(data: &std::path::Path, size: Size) -> Program {
    let mut command = command(data, "fake:8");
    command.env("DRAGOMAN_ADMIN_KEY", ADMIN_KEY);
    let numbers = [
        ("--connections-max", size.of(4_096)),
        ("--requests-max", size.of(1_024)),
        ("--event-streams-max", size.of(256)),
        ("--in-flight-bytes-max", size.in_flight_bytes()),
        ("--import-backlog-max", 1),
    ];
    for (flag, number) in numbers {
        command.args([flag, &number.to_string()]);
    }
    Program::run(command)
}

/// Stores as many large documents as one of the largest responses contains.
fn fill(client: &Client, hits: usize) {
    assert_eq!(client.post("/v1/collections", &json!({"name": "large", "dimension": 2})).0, 201);
    assert_eq!(client.post("/v1/collections", &json!({"name": "small"})).0, 201);
    let text = "Il pleut sur la ville. ".repeat(DOCUMENT_BYTES / 23);
    for from in (0..hits).step_by(DOCUMENTS_PER_REQUEST) {
        let document = |n: usize| json!({"id": format!("d{n}"), "text": text, "language": "fr", "vector": [1, n]});
        let documents: Vec<Value> = (from..hits.min(from + DOCUMENTS_PER_REQUEST)).map(document).collect();
        let (status, body) = client.post("/v1/collections/large/documents", &json!({"documents": documents}));
        assert_eq!(status, 200, "{body}");
    }
}

fn make_key(client: &Client, scope: &str) -> String {
    let (status, body) = client.post("/v1/keys", &json!({"name": "k", "scope": scope}));
    assert_eq!(status, 201, "{body}");
    body["secret"].as_str().unwrap().to_owned()
}

/// Starts an import that outlasts the test; returns the job's path.
fn begin_import(client: &Client) -> String {
    let lines = "{\"text\":\"Il pleut.\"}\n".repeat(LINES);
    let (status, job) = client.post_lines("/v1/collections/small/import", Cursor::new(lines.into_bytes()));
    assert_eq!(status, 202, "{job}");
    format!("/v1/jobs/{}", job["id"].as_str().unwrap())
}

/// Opens connections that send nothing, or start a request head and never finish it.
fn open_idle(address: &str, count: usize) -> Vec<TcpStream> {
    let open = |number: usize| {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = if number.is_multiple_of(3) { stream.write_all(b"GET /healthz HTTP/1.1\r\nhost:") } else { Ok(()) };
        stream
    };
    (0..count).map(open).collect()
}

/// Opens event streams without reading them.
fn open_streams(address: &str, path: &str, keys: &[String], count: usize) -> Vec<TcpStream> {
    let open = |number: usize| {
        let mut stream = TcpStream::connect(address).unwrap();
        let request = request("GET", &format!("{path}/events"), &keys[number % keys.len()], "");
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    (0..count).map(open).collect()
}

/// Raises the open file limit to its maximum, for the connections at full size.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

#[test]
fn greedy_callers_do_not_starve_others() {
    raise_limit();
    let (size, folder) = (Size::chosen(), tempfile::tempdir().unwrap());
    let program = start(folder.path(), size);
    let admin = program.client().with_key(ADMIN_KEY);
    let hits = size.hits();
    fill(&admin, hits);
    let keys: Vec<String> = (0..size.callers).map(|_| make_key(&admin, "read")).collect();
    let honest = program.client().with_key(&make_key(&admin, "write"));
    let job = begin_import(&admin);
    let (before, _) = program.memory();

    let (observed, address) = (Arc::new(Observed::default()), admin.address().to_owned());
    let idle = open_idle(&address, size.of(4_096));
    let streams = open_streams(&address, &job, &keys, size.of(1_024));
    let callers: Vec<JoinHandle<()>> = keys
        .iter()
        .enumerate()
        .map(|(number, key)| {
            let (address, key, observed) = (address.clone(), key.clone(), Arc::clone(&observed));
            thread::spawn(move || run_greedy_caller(number, address, key, observed, hits))
        })
        .collect();
    let health = thread::spawn({
        let (address, observed) = (address.clone(), Arc::clone(&observed));
        move || watch_health(address, observed)
    });
    let honest = thread::spawn({
        let observed = Arc::clone(&observed);
        move || run_honest_caller(honest, observed)
    });
    thread::sleep(size.duration());
    let (status, running) = admin.get(&job);
    assert_eq!((status, &running["status"]), (200, &json!("running")), "the streams had something to wait for");
    observed.stop.store(true, Ordering::Relaxed);
    let (health, honest) = (health.join().unwrap(), honest.join().unwrap());
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    let (after, most) = program.memory();
    let mib = |bytes: u64| bytes >> 20;
    println!(
        "{} callers: {} responses, {} refusals; memory {} MiB before, {} after, {} at most; /healthz {:.1} ms median, {:.1} ms p99 of {}; \
         an honest caller's two requests {:.1} ms median, {:.1} ms p99 of {}",
        size.callers,
        observed.responses.load(Ordering::Relaxed),
        observed.refusals.load(Ordering::Relaxed),
        mib(before),
        mib(after),
        mib(most),
        percentile(&health, 50) * 1e3,
        percentile(&health, 99) * 1e3,
        health.len(),
        percentile(&honest, 50) * 1e3,
        percentile(&honest, 99) * 1e3,
        honest.len(),
    );
    drop((idle, streams));

    assert_eq!(*observed.wrong.lock().unwrap(), Vec::<String>::new(), "a refusal is a 429 or 503 that says when to come again");
    assert!(observed.responses.load(Ordering::Relaxed) > 0 && observed.refusals.load(Ordering::Relaxed) > 0);
    // On a busy machine, the slowest of a hundred requests says little.
    let (memory_max, percent) = if size.is_full() { (1_500 << 20, 99) } else { (before + (300 << 20), 50) };
    assert!(most < memory_max, "{} MiB, at most {} expected", mib(most), mib(memory_max));
    assert!(percentile(&health, percent) < 0.1, "/healthz took {} s", percentile(&health, percent));
    assert!(honest.len() > 2, "an honest caller was served {} times", honest.len());
    assert_eq!(admin.post(&format!("{job}/cancel"), &Value::Null).0, 200);
}
