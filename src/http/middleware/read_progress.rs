//! Tells whether a request's body has been read to its end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use hyper::body::{Frame, SizeHint};

/// Whether a body has been read to its end. Clones share it.
#[derive(Debug, Clone)]
pub struct ReadProgress(Arc<AtomicBool>);

impl ReadProgress {
    /// Returns the same request with a body that is tracked, and with the progress as an extension. Does not track it twice.
    pub fn track(request: Request) -> (Request, Self) {
        if let Some(progress) = request.extensions().get::<Self>().cloned() {
            return (request, progress);
        }
        let complete = Arc::new(AtomicBool::new(hyper::body::Body::is_end_stream(request.body())));
        let progress = Self(Arc::clone(&complete));
        let mut request = request.map(|body| Body::new(TrackedBody { body, complete }));
        request.extensions_mut().insert(progress.clone());
        (request, progress)
    }

    pub fn is_complete(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

struct TrackedBody {
    body: Body,
    complete: Arc<AtomicBool>,
}

impl hyper::body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        // A reader that knows the length does not ask for more after the last frame.
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.complete.store(true, Ordering::Release);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_body_is_complete_once_its_last_frame_was_read() {
        let chunks = [Ok::<_, axum::Error>(Bytes::from("one")), Ok(Bytes::from("two"))];
        let (request, progress) = ReadProgress::track(Request::new(Body::from_stream(futures::stream::iter(chunks))));
        let mut body = request.into_body();
        body.frame().await.unwrap().unwrap();
        assert!(!progress.is_complete());
        body.frame().await.unwrap().unwrap();
        assert!(body.frame().await.is_none() && progress.is_complete());
        let (request, first) = ReadProgress::track(Request::new(Body::from("whole")));
        let (request, second) = ReadProgress::track(request);
        request.into_body().frame().await.unwrap().unwrap();
        assert!(first.is_complete() && second.is_complete(), "both are the same");
        let (_, progress) = ReadProgress::track(Request::new(Body::empty()));
        assert!(progress.is_complete());
        let (request, progress) = ReadProgress::track(Request::new(Body::from("whole")));
        assert!(!progress.is_complete());
        request.into_body().frame().await.unwrap().unwrap();
        assert!(progress.is_complete(), "its length is known");
    }
}
