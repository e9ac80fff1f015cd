//! Chroma as a separate server on loopback, for benchmarks that compare with it.

#![allow(dead_code, reason = "each benchmark uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::server::resident_mb;
use super::wire::Connection;

/// The running program, killed on drop.
pub struct Chroma {
    child: Child,
    address: String,
}

/// The program that `CHROMA` names, or that `make bench-peers` installs; prints a note if there is none.
pub fn program() -> Option<PathBuf> {
    let program = std::env::var_os("CHROMA").map_or_else(|| PathBuf::from(".runtime/chroma/bin/chroma"), PathBuf::from);
    if !program.exists() {
        println!("without Chroma: there is none at {}; `make bench-peers` installs it", program.display());
        return None;
    }
    Some(program)
}

impl Chroma {
    pub fn start(program: &Path, data: &Path) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let mut command = Command::new(program);
        command.args(["run", "--host", "127.0.0.1", "--port", &port.to_string(), "--path"]).arg(data);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("Chroma starts");
        let address = format!("127.0.0.1:{port}");
        let deadline = Instant::now() + Duration::from_secs(60);
        while std::net::TcpStream::connect(&address).is_err() {
            assert!(Instant::now() < deadline, "Chroma does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self { child, address }
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Creates a collection with the same graph parameters as Dragoman's collections; returns its path. Dragoman examines 96
    /// candidates per search, while Chroma finds everything with 64.
    pub fn create(&self) -> String {
        let root = "/api/v2/tenants/default_tenant/databases/default_database/collections";
        let hnsw = json!({"space": "cosine", "max_neighbors": 16, "ef_construction": 128, "ef_search": 64});
        let made = Connection::open(&self.address).call(root, &json!({"name": "bench", "configuration": {"hnsw": hnsw}}));
        format!("{root}/{}", made["id"].as_str().expect("an id"))
    }

    pub fn resident_mb(&self) -> u64 {
        resident_mb(self.child.id())
    }
}

impl Drop for Chroma {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
