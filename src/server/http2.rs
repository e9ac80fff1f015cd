//! HTTP/2 on one connection: agreed on in the TLS handshake, or spoken from the first byte without TLS.
//!
//! What bounds a connection of HTTP/1.1 bounds one of HTTP/2, too: hyper does not end one that is idle, that never finishes a
//! request, or whose client keeps its window shut, so this does. Streams have their own tasks, and end with the connection.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::connections::Working;
use super::socket::Socket;
use super::{CONNECTION_BYTES_MAX, Connection};
use crate::http::middleware::permit_body::PermitBody;
use crate::http::middleware::traffic::ClientAddress;

/// Requests that one connection may have open.
const STREAMS_MAX: u32 = 128;
/// How long a connection that is told to end may take after its last answer.
const GOODBYE: Duration = Duration::from_secs(3);

impl Connection {
    /// Answers requests until the client has gone, or has to go.
    pub(super) async fn speak_http2(&self, stream: impl AsyncRead + AsyncWrite + Unpin, socket: &Socket) {
        let activity = Arc::new(Activity::default());
        let (client, router, work) = (ClientAddress(self.address.ip()), self.shared.router.clone(), self.place.worker());
        let began = Arc::clone(&activity);
        let service = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(client);
            let running = (work(), Running::new(&began));
            let (answering, began) = (router.clone().oneshot(request), Arc::clone(&began));
            async move { answering.await.map(|answer| answer.map(|body| Answer::new(PermitBody::new(body, running), began))) }
        });
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MAX).max_header_list_size(CONNECTION_BYTES_MAX as u32);
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let mut stop = self.shared.stop.clone();
        let stopped = async move {
            let _ = stop.wait_for(|stop| *stop).await;
        };
        // One that arrived after the shutdown began is told that the server stops, and goes.
        let patience = if self.alive.is_some() { self.shared.header_timeout } else { GOODBYE };
        let leaving = async {
            tokio::select! {
                () = activity.idle(patience) => (),
                () = stopped, if self.alive.is_some() => (),
            }
        };
        let left = async {
            tokio::select! {
                ended = connection.as_mut() => return ended,
                () = leaving => connection.as_mut().graceful_shutdown(),
            }
            tokio::select! {
                ended = connection => ended,
                () = activity.idle(GOODBYE) => Ok(()),
            }
        };
        let ended = tokio::select! {
            ended = left => ended,
            () = activity.stalled(socket, self.shared.write_timeout) => {
                return tracing::debug!(address = %self.address, "a client takes nothing of its answers");
            }
        };
        if let Err(error) = ended {
            tracing::debug!(address = %self.address, error = &error as &dyn std::error::Error, "a connection failed");
        }
    }
}

/// What goes on in the streams of a connection.
#[derive(Default)]
struct Activity {
    /// Requests without a complete answer.
    running: watch::Sender<usize>,
    /// Answers of which the client has not taken all that there is.
    owed: AtomicUsize,
    /// Grows with every piece of an answer.
    pieces: AtomicUsize,
}

impl Activity {
    /// Waits until no request has run for so long, since the connection began or the last one ended.
    async fn idle(&self, patience: Duration) {
        let mut running = self.running.subscribe();
        loop {
            let _ = running.wait_for(|running| *running == 0).await;
            if tokio::time::timeout(patience, running.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Waits until the client has taken nothing for so long of what there is for it.
    async fn stalled(&self, socket: &Socket, patience: Duration) {
        let progress = || (socket.written(), self.pieces.load(Ordering::Relaxed));
        let mut before = progress();
        loop {
            tokio::time::sleep(patience).await;
            let now = progress();
            if now == before && self.owed.load(Ordering::Relaxed) > 0 {
                return;
            }
            before = now;
        }
    }
}

/// A request that runs.
struct Running(Arc<Activity>);

impl Running {
    fn new(activity: &Arc<Activity>) -> Self {
        activity.running.send_modify(|running| *running += 1);
        Self(Arc::clone(activity))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.send_modify(|running| *running -= 1);
    }
}

/// An answer, which is polled when the client has taken what came before.
struct Answer {
    body: PermitBody<(Working, Running)>,
    activity: Arc<Activity>,
    owed: bool,
}

impl Answer {
    fn new(body: PermitBody<(Working, Running)>, activity: Arc<Activity>) -> Self {
        let mut answer = Self { body, activity, owed: false };
        answer.set_owed(true);
        answer
    }

    fn set_owed(&mut self, owed: bool) {
        match (self.owed, owed) {
            (false, true) => self.activity.owed.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.activity.owed.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
        self.activity.pieces.fetch_add(1, Ordering::Relaxed);
        self.owed = owed;
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.set_owed(matches!(frame, Poll::Ready(Some(Ok(_)))));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.set_owed(false);
    }
}
