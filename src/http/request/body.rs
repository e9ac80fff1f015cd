//! Receives JSON request bodies: checks the content type, decompresses, and enforces the size limit and the memory limit that
//! all requests share.

use std::io;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use axum::http::{HeaderMap, HeaderName};
use futures::StreamExt as _;
use hyper::body::Body as _;

use crate::compression::bounded_decoder;
use crate::domain::{Code, FileEncoding};
use crate::http::error::ApiError;
use crate::http::middleware::traffic::limit_error;
use crate::service::limits::budget::RequestMemory;

/// Size up to which a body is parsed on the thread that received it.
pub const INLINE_BYTES_MAX: usize = 64 << 10;
/// What some editors put before a text. JSON parsers may ignore it (RFC 8259, section 8.1).
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Number of copies of a body in memory: as sent, and as parsed.
const BODY_COPIES: u64 = 2;
/// What clients send that always send a JSON body.
const EMPTY_BODIES: [&[u8]; 2] = [b"{}", b"null"];
/// Maximum bytes to read of a body that is refused, because most clients read the response only after they have sent everything.
const REFUSED_BYTES_MAX: usize = 64 << 10;
const DECOMPRESS_CHUNK_BYTES: usize = 64 << 10;

/// Receives the whole body, at most `bytes_max` bytes after decompression.
pub async fn receive_json(request: Request, bytes_max: usize) -> Result<Vec<u8>, ApiError> {
    let encoding = content_encoding(request.headers())?;
    check_content_type(request.headers(), "must be application/json", |media_type| {
        (media_type == "application/json").then_some(())
    })?;
    let memory = RequestMemory::current();
    let mut body = receive(request, bytes_max, &memory).await?;
    if encoding != FileEncoding::Identity {
        let unpacking = tokio::task::spawn_blocking(move || decompress(&body, encoding, bytes_max, &memory));
        body = unpacking.await.map_err(|error| ApiError::internal(format!("unpacking a body failed: {error}")))??;
    }
    if body.starts_with(BYTE_ORDER_MARK) {
        body.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(body)
}

/// Refuses the body of a request to an operation that has none: ignoring a filter in it could delete or return too much. Returns
/// the request without its body, which may be an empty object or null.
pub async fn refuse_body(request: Request) -> Result<Request, ApiError> {
    if request.body().is_end_stream() {
        return Ok(request);
    }
    let (head, body) = request.into_parts();
    let (mut content, mut received, mut stream) = (Vec::new(), 0, body.into_data_stream());
    let content_max = EMPTY_BODIES.map(<[u8]>::len).into_iter().max().unwrap_or(0);
    while received <= REFUSED_BYTES_MAX
        && let Some(chunk) = stream.next().await
    {
        let chunk = chunk.map_err(|_| ApiError::at(Code::InvalidRequest, "", "the body ended before it was complete"))?;
        received += chunk.len();
        content.extend(chunk.iter().filter(|byte| !byte.is_ascii_whitespace()).take(content_max + 1 - content.len()));
    }
    if received <= REFUSED_BYTES_MAX && (content.is_empty() || EMPTY_BODIES.contains(&content.as_slice())) {
        return Ok(Request::from_parts(head, Body::empty()));
    }
    Err(ApiError::at(Code::InvalidRequest, "", "must be empty, because this operation has no request body"))
}

/// How the body is compressed, as its header says.
pub fn content_encoding(headers: &HeaderMap) -> Result<FileEncoding, ApiError> {
    match read_header(headers, CONTENT_ENCODING).as_deref() {
        None | Some("identity") => Ok(FileEncoding::Identity),
        Some("gzip" | "x-gzip") => Ok(FileEncoding::Gzip),
        Some("zstd") => Ok(FileEncoding::Zstd),
        Some(other) => {
            let detail = format!("must be gzip, zstd or absent, got {other:?}");
            Err(ApiError::parameter(Code::UnsupportedMediaType, "content-encoding", detail))
        }
    }
}

/// What `parse` makes of the media type; refuses one that it does not know, and a charset other than UTF-8.
pub fn check_content_type<T>(headers: &HeaderMap, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, ApiError> {
    let refuse = |detail: String| ApiError::parameter(Code::UnsupportedMediaType, "content-type", detail);
    let media_type = read_header(headers, CONTENT_TYPE).ok_or_else(|| refuse(format!("{expected}, got none")))?;
    let mut parts = media_type.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let sender = if media == "application/x-www-form-urlencoded" { ", which curl sends unless -H names another" } else { "" };
    let parsed = parse(media).ok_or_else(|| refuse(format!("{expected}, got {media_type:?}{sender}")))?;
    let charset = |part: &str| part.strip_prefix("charset=").map(|charset| charset.trim_matches('"').to_owned());
    match parts.filter_map(charset).find(|charset| !["utf-8", "utf8"].contains(&charset.as_str())) {
        Some(other) => Err(refuse(format!("must have the charset utf-8 or none, got {other:?}"))),
        None => Ok(parsed),
    }
}

/// The value of a header in lower case, or its different values as a list.
pub fn read_header(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let values = headers.get_all(name).iter();
    let mut values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_ascii_lowercase()).collect();
    values.dedup();
    (!values.is_empty()).then(|| values.join(", "))
}

/// Receives a body as it was sent, at most `bytes_max` bytes, and no more than the memory that the other requests leave free.
///
/// A body over the limit is read and discarded up to twice the limit before the refusal is sent, because most clients read the
/// response only after they have sent everything. A client that announces more, or asks first (`Expect: 100-continue`), is
/// refused at once.
async fn receive(request: Request, bytes_max: usize, memory: &RequestMemory) -> Result<Vec<u8>, ApiError> {
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let too_large = || {
        let got = announced.map_or("more".to_owned(), |bytes| bytes.to_string());
        ApiError::new(Code::BodyTooLarge, format!("the body may have at most {bytes_max} bytes (body_bytes_max), got {got}"))
    };
    let too_long = announced.is_some_and(|bytes| bytes > bytes_max);
    let discarded_max = bytes_max.saturating_mul(2);
    if too_long && (request.headers().contains_key(EXPECT) || announced.is_some_and(|bytes| bytes > discarded_max)) {
        return Err(too_large());
    }
    let mut body = Vec::with_capacity(announced.unwrap_or(0).min(INLINE_BYTES_MAX));
    let (mut received, mut no_room) = (0_usize, None);
    let mut stream = request.into_body().into_data_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| ApiError::new(Code::MalformedJson, "the body ended before it was complete"))?;
        received = received.saturating_add(chunk.len());
        if received <= bytes_max && !too_long && no_room.is_none() {
            no_room = memory.add_body(chunk.len() as u64 * BODY_COPIES).err();
            body.extend_from_slice(&chunk);
        } else if received > discarded_max {
            break;
        } else {
            body = Vec::new();
            memory.release_body();
        }
    }
    if let Some(refusal) = no_room {
        return Err(limit_error(refusal));
    }
    if too_long || received > bytes_max { Err(too_large()) } else { Ok(body) }
}

/// Decompresses a body, and stops at the size limit or the memory limit: the compressed size says nothing about the
/// decompressed one.
fn decompress(packed: &[u8], encoding: FileEncoding, bytes_max: usize, memory: &RequestMemory) -> Result<Vec<u8>, ApiError> {
    let malformed = |error: io::Error| {
        let detail = format!("the body cannot be read as {}, which its header content-encoding names: {error}", encoding.name());
        ApiError::new(Code::MalformedJson, detail)
    };
    let mut reader = bounded_decoder(encoding, packed).map_err(malformed)?;
    let (mut body, mut piece) = (Vec::new(), vec![0; DECOMPRESS_CHUNK_BYTES]);
    loop {
        let read = reader.read(&mut piece).map_err(malformed)?;
        if read == 0 {
            return Ok(body);
        }
        if body.len() + read > bytes_max {
            let detail = format!("the body may have at most {bytes_max} bytes unpacked (body_bytes_max), got more");
            return Err(ApiError::new(Code::BodyTooLarge, detail));
        }
        memory.add_body(read as u64 * BODY_COPIES).map_err(limit_error)?;
        body.extend_from_slice(&piece[..read]);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn packed(encoding: FileEncoding, bytes: &[u8]) -> Vec<u8> {
        if encoding == FileEncoding::Zstd {
            return zstd::encode_all(bytes, 3).unwrap();
        }
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap()
    }

    #[test]
    fn compressed_bodies_are_decompressed_up_to_the_limit() {
        let memory = RequestMemory::current();
        for encoding in [FileEncoding::Gzip, FileEncoding::Zstd] {
            let unpacked = vec![b'a'; 300_000];
            let packed = packed(encoding, &unpacked);
            assert!(packed.len() < 1_000);
            assert_eq!(decompress(&packed, encoding, unpacked.len(), &memory), Ok(unpacked.clone()));
            let refused = decompress(&packed, encoding, unpacked.len() - 1, &memory).unwrap_err();
            assert_eq!(refused.code, Code::BodyTooLarge, "{}", refused.detail);
            for bad in [&packed[..packed.len() - 3], b"{\"name\": \"a\"}"] {
                let refused = decompress(bad, encoding, unpacked.len(), &memory).unwrap_err();
                assert_eq!(refused.code, Code::MalformedJson, "{}", refused.detail);
                assert!(refused.detail.contains(encoding.name()), "{}", refused.detail);
            }
        }
    }

    #[test]
    fn zstd_bodies_with_a_large_window_are_refused() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(27).unwrap();
        // Without the content size, the encoder does not reduce the window to it.
        encoder.write_all(&[b'a'; 1_000]).unwrap();
        let packed = encoder.finish().unwrap();
        let refused = decompress(&packed, FileEncoding::Zstd, 1 << 20, &RequestMemory::current()).unwrap_err();
        assert_eq!(refused.code, Code::MalformedJson);
        assert!(refused.detail.contains("window is larger than 8 MiB"), "{}", refused.detail);
    }
}
