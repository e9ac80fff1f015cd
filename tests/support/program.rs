//! The real program as a child process, and a small client for it.

#![allow(dead_code, reason = "each test target uses its part")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a test waits for something that must happen before it fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running server; killed when dropped.
pub struct Program {
    child: Child,
    log: Option<JoinHandle<Vec<String>>>,
    client: Client,
}

/// Calls one server. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    base: String,
    key: Option<String>,
}

/// An address of this machine on which nothing listens.
pub fn free_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// The program with the arguments that every test needs. The address is set in the environment, so that a test's own flag
/// overrides it.
pub fn command(data: &Path, model: &str) -> Command {
    command_of(Path::new(env!("CARGO_BIN_EXE_dragoman")), data, model)
}

/// The same for another build of the program.
pub fn command_of(program: &Path, data: &Path, model: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["serve", "--log-format", "json", "--model", model, "--data"]).arg(data);
    command.env("DRAGOMAN_LISTEN", "127.0.0.1:0");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

impl Program {
    /// Starts the server on a free port and waits until it is ready.
    pub fn start(data: &Path, model: &str) -> Self {
        Self::run(command(data, model))
    }

    /// Starts the server like `start`, with a new data directory.
    pub fn fresh(model: &str) -> (tempfile::TempDir, Self) {
        let folder = tempfile::tempdir().unwrap();
        let server = Self::start(folder.path(), model);
        (folder, server)
    }

    /// Runs a command that starts the server on a free port, and waits until it is ready.
    pub fn run(command: Command) -> Self {
        let program = Self::spawn(command);
        program.client.wait_until("the server is ready", |client| client.get("/readyz").0 == 200);
        program
    }

    /// Runs `command`, which starts the server, and waits until it listens.
    pub fn spawn(command: Command) -> Self {
        Self::try_spawn(command).unwrap_or_else(|log| panic!("the server does not listen:\n{log}"))
    }

    /// Runs `command`, which starts the server, and waits until it listens; returns the log if it does not.
    pub fn try_spawn(mut command: Command) -> Result<Self, String> {
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, receiver) = mpsc::channel();
        let log = std::thread::spawn(move || {
            let lines = stderr.lines().map_while(Result::ok);
            lines.inspect(|line| listening(line).into_iter().for_each(|address| drop(sender.send(address)))).collect()
        });
        let mut program = Self { child, log: Some(log), client: Client::to("") };
        match receiver.recv_timeout(PATIENCE) {
            Ok(address) => program.client = Client::to(&address),
            Err(_) => return Err(program.kill().join("\n")),
        }
        Ok(program)
    }

    /// Runs `command`, which starts the server, at this address. Does not wait for it, and never reads its log.
    pub fn spawn_at(address: &str, mut command: Command) -> Self {
        let child = command.env("DRAGOMAN_LISTEN", address).spawn().unwrap();
        Self { child, log: None, client: Client::to(address) }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A client of this server.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Resident memory in bytes: now, and the maximum so far.
    pub fn memory(&self) -> (u64, u64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let kilobytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        (kilobytes("VmRSS:") << 10, kilobytes("VmHWM:") << 10)
    }

    /// Kills it so that it can neither catch the signal nor finish anything; returns its log.
    pub fn kill(&mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.log.take().map(|log| log.join().unwrap()).unwrap_or_default()
    }

    /// Asks it to stop, waits until it has, and returns its whole log; `kill` may lose the last lines.
    pub fn stop_and_read_log(mut self) -> Vec<String> {
        self.stop(PATIENCE);
        self.log.take().map(|log| log.join().unwrap()).unwrap_or_default()
    }

    /// Asks it to stop and waits until it has.
    pub fn terminate(self) -> ExitStatus {
        self.terminate_within(PATIENCE)
    }

    /// The same with a longer timeout, for a server that has a large index to save.
    pub fn terminate_within(mut self, patience: Duration) -> ExitStatus {
        self.stop(patience)
    }

    fn stop(&mut self, patience: Duration) -> ExitStatus {
        let kill = format!("kill -TERM {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the server does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    fn to(address: &str) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE)).build();
        Self { agent: config.into(), base: format!("http://{address}"), key: None }
    }

    /// The same client, with an API key.
    pub fn with_key(&self, secret: &str) -> Self {
        Self { key: Some(format!("Bearer {secret}")), ..self.clone() }
    }

    /// The same client without its open connections.
    pub fn with_new_connections(&self) -> Self {
        Self { key: self.key.clone(), ..Self::to(self.address()) }
    }

    /// The server's address without the scheme.
    pub fn address(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    /// The server's URL.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Returns status and body.
    pub fn get(&self, path: &str) -> (u16, Value) {
        self.try_get(path).unwrap()
    }

    /// Returns status and body, or an error if the server does not listen.
    pub fn try_get(&self, path: &str) -> Result<(u16, Value), ureq::Error> {
        read_response(self.keyed(self.agent.get(format!("{}{path}", self.base))).call())
    }

    /// Returns status and body.
    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.try_post(path, body).unwrap()
    }

    /// Returns status and body, or an error if the server is gone.
    pub fn try_post(&self, path: &str, body: &Value) -> Result<(u16, Value), ureq::Error> {
        read_response(self.keyed(self.agent.post(format!("{}{path}", self.base))).send_json(body))
    }

    /// Returns status and body.
    pub fn put(&self, path: &str, body: &Value) -> (u16, Value) {
        read_response(self.keyed(self.agent.put(format!("{}{path}", self.base))).send_json(body)).unwrap()
    }

    /// Streams an NDJSON file; returns status and body.
    pub fn post_lines(&self, path: &str, mut lines: impl std::io::Read + 'static) -> (u16, Value) {
        let request = self.keyed(self.agent.post(format!("{}{path}", self.base))).header("content-type", "application/x-ndjson");
        read_response(request.send(ureq::SendBody::from_reader(&mut lines))).unwrap()
    }

    /// Returns the body as text.
    pub fn get_text(&self, path: &str) -> String {
        let mut response = self.keyed(self.agent.get(format!("{}{path}", self.base))).call().unwrap();
        response.body_mut().with_config().limit(u64::MAX).read_to_string().unwrap()
    }

    /// Returns the value of a sample of `/metrics`.
    pub fn sample(&self, name: &str) -> Option<f64> {
        self.get_text("/metrics").lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// Returns status and body, or an error if the server is gone.
    pub fn try_delete(&self, path: &str) -> Result<(u16, Value), ureq::Error> {
        self.try_delete_with(path, &[])
    }

    /// The same with headers.
    pub fn try_delete_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<(u16, Value), ureq::Error> {
        let mut request = self.keyed(self.agent.delete(format!("{}{path}", self.base)));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        read_response(request.call())
    }

    /// Sends a request with a JSON body and headers; returns status and body, or an error if the server is gone.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Result<(u16, Value), ureq::Error> {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.base));
        request = request.header("content-type", "application/json");
        for (name, value) in headers.iter().copied().chain(self.key.as_deref().map(|key| ("authorization", key))) {
            request = request.header(name, value);
        }
        read_response(self.agent.run(request.body(body.to_string())?))
    }

    /// Sends a request with a JSON body; returns status and body.
    pub fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.try_send(method, path, &[], body).unwrap()
    }

    fn keyed<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.key {
            Some(key) => request.header("authorization", key),
            None => request,
        }
    }

    /// Searches and returns the hits.
    pub fn hits(&self, collection: &str, body: &Value) -> Vec<Value> {
        let (status, body) = self.post(&format!("/v1/collections/{collection}/search"), body);
        assert_eq!(status, 200, "{body}");
        body["hits"].as_array().unwrap().clone()
    }

    /// Waits until `condition` holds; fails the test when it does not within `PATIENCE`.
    pub fn wait_until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !condition(self) {
            assert!(Instant::now() < deadline, "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn read_response(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<(u16, Value), ureq::Error> {
    let mut response = response?;
    let body = response.body_mut().read_to_string()?;
    Ok((response.status().as_u16(), serde_json::from_str(&body).unwrap_or(Value::Null)))
}

/// The address in the log line that says where the server listens.
fn listening(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    if event["message"] != "listening" {
        return None;
    }
    event["address"].as_str().map(str::to_owned)
}

/// Returns the marked parts of a hit's passage.
pub fn marked(hit: &Value) -> Vec<String> {
    marked_parts(&hit["passage"]["text"], &hit["passage"]["marks"])
}

/// Returns the marked parts of a text.
pub fn marked_parts(text: &Value, marks: &Value) -> Vec<String> {
    let characters: Vec<char> = text.as_str().unwrap().chars().collect();
    let place = |mark: &Value, end: &str| mark[end].as_u64().unwrap() as usize;
    let marks = marks.as_array().unwrap();
    marks.iter().map(|mark| characters[place(mark, "start")..place(mark, "end")].iter().collect()).collect()
}
