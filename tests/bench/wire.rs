//! HTTP from the client's side, as cheap as possible: prepared requests written to raw sockets, so that the server gets as much
//! CPU as possible. All compared servers are called by this same code.

#![allow(dead_code, reason = "each benchmark uses its part")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::Value;

/// A request, ready to send.
pub fn post(path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// A kept-alive connection.
pub struct Connection {
    stream: BufReader<TcpStream>,
    line: String,
}

impl Connection {
    pub fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_nodelay(true).expect("the socket has options");
        Self { stream: BufReader::with_capacity(64 << 10, stream), line: String::new() }
    }

    /// Sends a request and reads its whole response; an error status ends the benchmark.
    pub fn exchange(&mut self, request: &[u8]) -> Vec<u8> {
        self.stream.get_mut().write_all(request).expect("the request is sent");
        let (mut length, mut ok) = (0, false);
        loop {
            self.line.clear();
            self.stream.read_line(&mut self.line).expect("the response has a head");
            let text = self.line.trim_end().to_ascii_lowercase();
            ok |= text.starts_with("http/1.1 20");
            if let Some(value) = text.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            if text.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("the response has a body");
        assert!(ok && length > 0, "{}", String::from_utf8_lossy(&body));
        body
    }

    /// The response body of a path.
    pub fn get(&mut self, path: &str) -> Value {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        serde_json::from_slice(&self.exchange(request.as_bytes())).expect("the response is JSON")
    }

    /// The same, parsed as JSON.
    pub fn call(&mut self, path: &str, body: &Value) -> Value {
        serde_json::from_slice(&self.exchange(&post(path, body))).expect("the response is JSON")
    }
}

/// Requests per second of `clients` connections that send `total` requests altogether, cycling through `requests`.
pub fn rate(address: &str, requests: &[Vec<u8>], total: usize, clients: usize) -> f64 {
    rate_over(&[address], requests, total, clients)
}

/// The same, with the clients distributed over several servers.
pub fn rate_over(addresses: &[&str], requests: &[Vec<u8>], total: usize, clients: usize) -> f64 {
    let next = AtomicUsize::new(0);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for address in addresses.iter().cycle().take(clients) {
            let next = &next;
            scope.spawn(move || {
                let mut connection = Connection::open(address);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total {
                        break;
                    }
                    connection.exchange(&requests[number % requests.len()]);
                }
            });
        }
    });
    total as f64 / started.elapsed().as_secs_f64()
}
