//! HTTP/2 on one connection: negotiated in the TLS handshake, or spoken from the first byte without TLS.
//!
//! A connection of HTTP/2 has the same timeouts as one of HTTP/1.1. hyper does not close a connection that is idle, never
//! finishes a request, or whose client keeps its window closed; this module does. Streams run in their own tasks, and end with
//! the connection.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::connections::ActiveRequest;
use super::socket::Socket;
use super::{CLOSE_TIMEOUT, CONNECTION_BYTES_MAX, Connection, REST_SILENCE_MAX, REST_TIMEOUT};
use crate::domain::with_causes;
use crate::http::middleware::permit_body::PermitBody;
use crate::http::middleware::traffic::ClientAddress;

/// Maximum concurrent streams of one connection.
const STREAMS_MAX: u32 = 128;

impl Connection {
    /// Serves requests until the client disconnects or must be disconnected.
    pub(super) async fn serve_http2(&self, stream: impl AsyncRead + AsyncWrite + Unpin, socket: &Socket) {
        let activity = Arc::new(Activity::default());
        let (client, router, work) = (ClientAddress(self.address.ip()), self.shared.router.clone(), self.slot.request_starter());
        let began = Arc::clone(&activity);
        let service = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(|body| Body::new(RequestBody(Some(body))));
            request.extensions_mut().insert(client);
            let running = (work(), Running::new(&began));
            let (answering, began) = (router.clone().oneshot(request), Arc::clone(&began));
            async move {
                answering.await.map(|response| response.map(|body| ResponseBody::new(PermitBody::new(body, running), began)))
            }
        });
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MAX).max_header_list_size(CONNECTION_BYTES_MAX as u32);
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        // A connection that arrived after the shutdown began is told that the server stops, and is closed.
        let patience = if self.alive.is_some() { self.shared.options.header_timeout } else { CLOSE_TIMEOUT };
        let leaving = async {
            tokio::select! {
                () = activity.wait_until_idle(patience) => (),
                () = self.shared.stopped(), if self.alive.is_some() => (),
            }
        };
        let left = async {
            tokio::select! {
                ended = connection.as_mut() => return ended,
                () = leaving => connection.as_mut().graceful_shutdown(),
            }
            tokio::select! {
                ended = connection => ended,
                () = activity.wait_until_idle(CLOSE_TIMEOUT) => Ok(()),
            }
        };
        let ended = tokio::select! {
            ended = left => ended,
            () = activity.wait_until_stalled(socket, self.shared.options.write_timeout) => {
                return tracing::debug!(address = %self.address, "a client does not read its responses");
            }
        };
        if let Err(error) = ended {
            tracing::debug!(address = %self.address, error = with_causes(&error), "a connection failed");
        }
    }
}

/// The activity in the streams of a connection.
#[derive(Default)]
struct Activity {
    /// Requests whose responses are not complete.
    running: watch::Sender<usize>,
    /// Responses with data that the client has not taken yet.
    unsent: AtomicUsize,
    /// Increases with every chunk of a response.
    pieces: AtomicUsize,
}

impl Activity {
    /// Waits until no request has run for `patience`, counted from the start of the connection or the end of the last request.
    async fn wait_until_idle(&self, patience: Duration) {
        let mut running = self.running.subscribe();
        loop {
            let _ = running.wait_for(|running| *running == 0).await;
            if tokio::time::timeout(patience, running.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Waits until the client has taken none of the data available for it for `patience`.
    async fn wait_until_stalled(&self, socket: &Socket, patience: Duration) {
        let progress = || (socket.bytes_written(), self.pieces.load(Ordering::Relaxed));
        let mut before = progress();
        loop {
            tokio::time::sleep(patience).await;
            let now = progress();
            if now == before && self.unsent.load(Ordering::Relaxed) > 0 {
                return;
            }
            before = now;
        }
    }
}

/// A request body. If its request is answered before its end, its rest is discarded. Otherwise the stream would be reset, and
/// some clients then drop the response, although the protocol does not allow that.
struct RequestBody(Option<Incoming>);

impl Drop for RequestBody {
    fn drop(&mut self) {
        let rest = self.0.take().filter(|rest| !rest.is_end_stream());
        if let (Some(rest), Ok(runtime)) = (rest, Handle::try_current()) {
            // Ends early if the client cancels the request or the connection ends.
            runtime.spawn(tokio::time::timeout(REST_TIMEOUT, discard(rest)));
        }
    }
}

async fn discard(mut rest: Incoming) {
    let mut next = async || {
        let piece = poll_fn(|context| Pin::new(&mut rest).poll_frame(context));
        tokio::time::timeout(REST_SILENCE_MAX, piece).await
    };
    while let Ok(Some(Ok(_))) = next().await {}
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.0 {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map(Incoming::size_hint).unwrap_or_default()
    }
}

/// A running request.
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

/// A response body, which is polled when the client has taken the previous chunk.
struct ResponseBody {
    body: PermitBody<(ActiveRequest, Running)>,
    activity: Arc<Activity>,
    unsent: bool,
}

impl ResponseBody {
    fn new(body: PermitBody<(ActiveRequest, Running)>, activity: Arc<Activity>) -> Self {
        let mut body = Self { body, activity, unsent: false };
        body.set_unsent(true);
        body
    }

    fn set_unsent(&mut self, unsent: bool) {
        match (self.unsent, unsent) {
            (false, true) => self.activity.unsent.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.activity.unsent.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
        self.activity.pieces.fetch_add(1, Ordering::Relaxed);
        self.unsent = unsent;
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.set_unsent(matches!(frame, Poll::Ready(Some(Ok(_)))));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.set_unsent(false);
    }
}
