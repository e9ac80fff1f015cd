//! A response body that holds the permits of its request until the last byte is handed over, or until no client waits for it any
//! more.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};

/// A response body that holds `permits` while it is sent.
pub struct PermitBody<T> {
    body: Body,
    permits: Option<T>,
    started: bool,
}

impl<T: Unpin> PermitBody<T> {
    pub fn new(body: Body, permits: T) -> Self {
        Self { body, permits: Some(permits), started: false }
    }
}

impl<T: Unpin> hyper::body::Body for PermitBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.permits = None;
        }
        self.started = true;
        frame
    }

    fn is_end_stream(&self) -> bool {
        // hyper drops a body that reports its end while its last chunk is still in memory; otherwise, it drops the body once
        // that chunk is sent.
        if self.started { self.permits.is_none() } else { self.body.is_end_stream() }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::{StreamExt as _, stream};
    use http_body_util::BodyExt as _;
    use hyper::body::Body as _;

    use super::*;

    #[tokio::test]
    async fn the_permit_is_held_until_the_response_is_sent() {
        let permit = Arc::new(());
        let pieces = stream::iter(["one", "two"]).map(Ok::<_, axum::Error>);
        let mut body = PermitBody::new(Body::from_stream(pieces), Arc::clone(&permit));
        for expect in ["one", "two"] {
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), expect);
            assert_eq!(Arc::strong_count(&permit), 2);
        }
        assert!(body.frame().await.is_none());
        assert_eq!(Arc::strong_count(&permit), 1);
    }

    #[tokio::test]
    async fn dropping_the_response_releases_the_permit() {
        let permit = Arc::new(());
        let body = PermitBody::new(Body::from_stream(stream::pending::<Result<Bytes, axum::Error>>()), Arc::clone(&permit));
        drop(body);
        assert_eq!(Arc::strong_count(&permit), 1);
    }

    #[tokio::test]
    async fn a_one_frame_body_ends_only_after_its_end_is_polled() {
        let mut body = PermitBody::new(Body::from("whole"), ());
        assert!(body.frame().await.unwrap().unwrap().is_data());
        assert!(!body.is_end_stream());
        assert!(body.frame().await.is_none());
        assert!(body.is_end_stream());
        assert!(PermitBody::new(Body::empty(), ()).is_end_stream(), "an empty body has ended from the start");
    }

    #[test]
    fn the_body_keeps_its_exact_length() {
        let body = PermitBody::new(Body::from("four"), ());
        assert_eq!(body.size_hint().exact(), Some(4));
    }
}
