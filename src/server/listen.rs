//! Opens the listener.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, lookup_host};

/// Connections that the system keeps until the server accepts them, as far as its own limit (`net.core.somaxconn`) allows.
/// If more clients connect at the same moment, the others try again only after a second.
const BACKLOG: u32 = 4_096;

/// Listens on `address`, a host and a port: on the first of its addresses that can be listened on.
pub async fn listen(address: &str) -> io::Result<TcpListener> {
    let mut failed = None;
    for address in lookup_host(address).await? {
        match listen_on(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| io::Error::new(io::ErrorKind::AddrNotAvailable, "the host name has no address")))
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted server can listen while connections of the previous one are still closing.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hundreds_of_connections_wait_to_be_accepted() {
        const CLIENTS: u32 = 300;
        let limit = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
        if limit.trim().parse::<u32>().is_ok_and(|limit| limit < CLIENTS) {
            println!("skipped: the system's own limit is {limit}");
            return;
        }
        let listener = listen("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        for _ in 0..CLIENTS {
            let connecting = tokio::net::TcpStream::connect(address);
            // A full backlog makes a client try again only after a second.
            let connected = tokio::time::timeout(std::time::Duration::from_millis(900), connecting).await;
            waiting.push(connected.expect("the backlog has room").unwrap());
        }
    }

    #[tokio::test]
    async fn an_address_in_use_is_refused() {
        let listener = listen("127.0.0.1:0").await.unwrap();
        let again = listen(&listener.local_addr().unwrap().to_string()).await;
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
