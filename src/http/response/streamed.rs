//! Responses with one long array, serialized chunk by chunk while they are sent: their JSON is never in memory as a whole, and
//! no thread that serves other requests is busy with it for long.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::stream::{self, StreamExt as _};
use serde::Serialize;

/// Approximate size of a chunk in bytes; an item is never split.
const CHUNK_BYTES: usize = 64 << 10;

/// JSON that is serialized while it is sent.
pub struct Streamed<T> {
    parts: VecDeque<Part<T>>,
}

enum Part<T> {
    Text(Vec<u8>),
    Item(T),
}

impl<T: Serialize> Streamed<T> {
    /// The object `frame`, whose first member is an empty array, with `items` in that array.
    pub fn with_items(frame: &impl Serialize, items: impl IntoIterator<Item = T>) -> Self {
        let items = items.into_iter().map(|item| Self { parts: VecDeque::from([Part::Item(item)]) });
        Self::nested(frame, items)
    }

    /// The same, with items that are themselves such responses.
    pub fn nested(frame: &impl Serialize, items: impl IntoIterator<Item = Self>) -> Self {
        // The program's own values can always be written as JSON.
        let mut head = serde_json::to_vec(frame).unwrap_or_default();
        let start = head.iter().position(|byte| *byte == b'[').map_or(head.len(), |start| start + 1);
        debug_assert_eq!(head.get(start), Some(&b']'), "the first array of the frame is empty");
        let tail = head.split_off(start);
        let mut parts = VecDeque::from([Part::Text(head)]);
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                parts.push_back(Part::Text(vec![b',']));
            }
            parts.extend(item.parts);
        }
        parts.push_back(Part::Text(tail));
        Self { parts }
    }

    /// The next chunk; `None` at the end.
    fn chunk(&mut self) -> Option<Bytes> {
        let mut chunk = Vec::with_capacity(if self.parts.is_empty() { 0 } else { CHUNK_BYTES / 8 });
        while chunk.len() < CHUNK_BYTES {
            match self.parts.pop_front() {
                Some(Part::Text(text)) => chunk.extend(text),
                Some(Part::Item(item)) => {
                    let _ = serde_json::to_writer(&mut chunk, &item);
                }
                None => break,
            }
        }
        (!chunk.is_empty()).then(|| chunk.into())
    }
}

impl<T: Serialize + Send + 'static> IntoResponse for Streamed<T> {
    fn into_response(mut self) -> Response {
        let first = self.chunk().unwrap_or_default();
        let body = if self.parts.is_empty() {
            Body::from(first)
        } else {
            let rest = stream::unfold(self, |mut rest| async move { Some((rest.chunk()?, rest)) });
            // Compression polls a body once more after its end.
            let chunks = stream::iter([first]).chain(rest.fuse());
            Body::from_stream(chunks.map(Ok::<_, Infallible>))
        };
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use hyper::body::Body as _;
    use serde_json::{Value, json};

    use super::*;

    async fn written(streamed: Streamed<Value>) -> (Option<u64>, Value) {
        let body = streamed.into_response().into_body();
        let length = body.size_hint().exact();
        let bytes = body.collect().await.unwrap().to_bytes();
        (length, serde_json::from_slice(&bytes).unwrap())
    }

    #[tokio::test]
    async fn a_streamed_response_contains_every_item() {
        let frame = json!({"hits": [], "more": [1, "]"]});
        for count in [0, 1, 3, 5_000] {
            let items: Vec<Value> = (0..count).map(|number| json!({"id": number, "text": "été \"[]\"".repeat(5)})).collect();
            let (length, body) = written(Streamed::with_items(&frame, items.clone())).await;
            assert_eq!(body, json!({"hits": items, "more": [1, "]"]}));
            assert_eq!(length.is_some(), count < 5_000, "only a small response has a known length");
        }
    }

    #[tokio::test]
    async fn nested_streams_form_one_json_document() {
        let hits = |items: &[i32]| Streamed::with_items(&json!({"hits": []}), items.iter().map(|item| json!(item)));
        let (_, body) =
            written(Streamed::nested(&json!({"results": [], "took_ms": 1}), [hits(&[1, 2]), hits(&[]), hits(&[3])])).await;
        assert_eq!(body, json!({"results": [{"hits": [1, 2]}, {"hits": []}, {"hits": [3]}], "took_ms": 1}));
    }
}
