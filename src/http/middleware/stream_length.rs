//! Keeps the length of a stream unknown in the response to HEAD.
//!
//! Each of two nested routers removes the body of such a response. The second one would take the removed body for an empty one
//! and announce a length of 0.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::response::Response;
use futures::stream;
use hyper::body::Body as _;

/// The same response, with a body of unknown length if the inner router announced none.
pub fn keep_unknown(response: Response) -> Response {
    let is_known = response.headers().contains_key(CONTENT_LENGTH) || response.status() != StatusCode::OK;
    if is_known || !response.body().is_end_stream() {
        return response;
    }
    response.map(|_| Body::from_stream(stream::empty::<Result<Bytes, axum::Error>>()))
}
