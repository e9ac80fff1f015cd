//! A connection's socket. While HTTP uses it, it can tell whether an unread request has arrived.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The start of an HTTP/2 connection preface, where HTTP/1.1 has a method.
const PRIOR_KNOWLEDGE: &[u8; 4] = b"PRI ";
/// Bytes to discard at a time.
const DISCARD_BYTES: usize = 64 << 10;
/// How often to look again at a socket that has received fewer bytes than that, and the pause between.
const PEEKS_MAX: usize = 100;
const PEEK_PAUSE: Duration = Duration::from_millis(10);

/// The socket of one connection. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Socket {
    stream: Arc<TcpStream>,
    /// Bytes accepted by the client, or by the system's send buffer.
    written: Arc<AtomicU64>,
    /// Whether what arrives is discarded.
    discarding: Arc<AtomicBool>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream) -> Self {
        // Responses are written as a whole: waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        Self { stream: Arc::new(stream), written: Arc::default(), discarding: Arc::default() }
    }

    pub(super) fn bytes_written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Waits for the first bytes, and returns whether they begin an HTTP/2 connection. They stay unread.
    pub(super) async fn begins_http2(&self) -> io::Result<bool> {
        let mut first = [0; PRIOR_KNOWLEDGE.len()];
        for _ in 0..PEEKS_MAX {
            let bytes = self.stream.peek(&mut first).await?;
            if bytes == first.len() || first[..bytes] != PRIOR_KNOWLEDGE[..bytes] {
                return Ok(first == *PRIOR_KNOWLEDGE);
            }
            if bytes == 0 {
                break;
            }
            tokio::time::sleep(PEEK_PAUSE).await;
        }
        Ok(false)
    }

    /// Discards what arrives until the client closes the connection, or sends nothing for `silence_max`.
    pub(super) async fn discard(&self, silence_max: Duration) {
        self.discarding.store(true, Ordering::Relaxed);
        let mut buffer = vec![0; DISCARD_BYTES];
        while let Ok(Ok(())) = tokio::time::timeout(silence_max, self.stream.readable()).await {
            match self.stream.try_read(&mut buffer) {
                Ok(0) => return,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
                _ => (),
            }
        }
    }

    /// Whether bytes have arrived that have not been read yet and are not to be discarded.
    pub(super) fn has_unread(&self) -> bool {
        if self.discarding.load(Ordering::Relaxed) {
            return false;
        }
        let read = recv(&self.stream, &mut [0_u8], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        read.is_ok_and(|(bytes, _)| bytes > 0)
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            match self.stream.try_read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                read => return Poll::Ready(read.map(|bytes| buffer.advance(bytes))),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(context))?;
            match self.stream.try_write_vectored(slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                written => {
                    let bytes = *written.as_ref().unwrap_or(&0) as u64;
                    self.written.fetch_add(bytes, Ordering::Relaxed);
                    return Poll::Ready(written);
                }
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(&self.stream, Shutdown::Write).map_err(io::Error::from))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (Socket::new(listener.accept().await.unwrap().0), client)
    }

    #[tokio::test]
    async fn bytes_flow_both_ways_and_shutdown_ends_the_stream() {
        let (mut socket, mut client) = pair().await;
        client.write_all(b"question").await.unwrap();
        let mut read = [0; 8];
        socket.read_exact(&mut read).await.unwrap();
        socket.write_all(&[7; 100_000]).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        assert_eq!((&read, received.len()), (b"question", 100_000));
    }

    #[tokio::test]
    async fn has_unread_detects_pending_bytes_without_consuming_them() {
        let (mut socket, mut client) = pair().await;
        assert!(!socket.has_unread());
        client.write_all(b"?").await.unwrap();
        assert!(socket.has_unread() && socket.has_unread());
        assert_eq!(socket.read_u8().await.unwrap(), b'?');
        assert!(!socket.has_unread());
        drop(client);
        assert!(!socket.has_unread(), "the end of the stream is not a request");
    }

    #[tokio::test]
    async fn what_is_discarded_is_not_an_unread_request() {
        let (socket, mut client) = pair().await;
        let discarding = tokio::spawn({
            let socket = socket.clone();
            async move { socket.discard(Duration::from_secs(60)).await }
        });
        // More than the buffers of both sides hold.
        client.write_all(&vec![7; 32 << 20]).await.unwrap();
        assert!(!socket.has_unread());
        drop(client);
        discarding.await.unwrap();
    }

    #[tokio::test]
    async fn discarding_ends_when_the_client_is_silent() {
        let (socket, _client) = pair().await;
        socket.discard(Duration::from_millis(20)).await;
    }
}
