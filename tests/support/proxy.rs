//! A proxy in front of a database server that can play a lost network: from then on it reads what arrives and passes on
//! nothing, while all connections stay open and new ones are accepted.

#![allow(dead_code, reason = "each test target uses its part")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A listening proxy. Its threads end with the test process.
pub struct Proxy {
    address: SocketAddr,
    is_lost: Arc<AtomicBool>,
}

impl Proxy {
    /// Passes on what arrives at a free TCP port of this machine to a Unix socket.
    pub fn start(socket: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, is_lost) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let (socket, lost) = (socket.to_owned(), Arc::clone(&is_lost));
        std::thread::spawn(move || listener.incoming().for_each(|client| connect(client.unwrap(), socket.clone(), &lost)));
        Self { address, is_lost }
    }

    /// Host and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Swallows everything from now on.
    pub fn lose(&self) {
        self.is_lost.store(true, Ordering::SeqCst);
    }
}

fn connect(client: TcpStream, socket: PathBuf, is_lost: &Arc<AtomicBool>) {
    let server = UnixStream::connect(socket).unwrap();
    let (client_out, server_out) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (there, back) = (Arc::clone(is_lost), Arc::clone(is_lost));
    std::thread::spawn(move || pass_on(client, server_out, &there));
    std::thread::spawn(move || pass_on(server, client_out, &back));
}

fn pass_on(mut from: impl Read, mut to: impl Write + Shutdown, is_lost: &AtomicBool) {
    let mut buffer = [0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if !is_lost.load(Ordering::SeqCst) && to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    if !is_lost.load(Ordering::SeqCst) {
        to.shut_down();
    }
}

trait Shutdown {
    fn shut_down(&self);
}

impl Shutdown for TcpStream {
    fn shut_down(&self) {
        let _ = self.shutdown(std::net::Shutdown::Both);
    }
}

impl Shutdown for UnixStream {
    fn shut_down(&self) {
        let _ = self.shutdown(std::net::Shutdown::Both);
    }
}
