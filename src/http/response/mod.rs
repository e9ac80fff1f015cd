//! What many responses have in common.

pub mod etags;
pub(super) mod streamed;

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::iter;
use std::time::Instant;

use futures::stream::{self, Stream};

/// Bytes to read and to send at a time, at least.
const CHUNK_BYTES: usize = 64 << 10;

/// The parts joined into chunks, each of which is read on a blocking thread.
pub fn blocking_stream<P>(parts: P) -> impl Stream<Item = io::Result<Vec<u8>>>
where
    P: Iterator<Item = io::Result<Vec<u8>>> + Send + 'static,
{
    stream::try_unfold(parts, |mut parts| async move {
        let reading = tokio::task::spawn_blocking(move || -> io::Result<Option<(Vec<u8>, P)>> {
            let Some(mut chunk) = parts.next().transpose()? else { return Ok(None) };
            while chunk.len() < CHUNK_BYTES
                && let Some(part) = parts.next()
            {
                chunk.append(&mut part?);
            }
            Ok(Some((chunk, parts)))
        });
        reading.await.map_err(io::Error::other)?
    })
}

pub fn elapsed_ms(started: Instant) -> f64 {
    rounded(started.elapsed().as_secs_f64() * 1e3)
}

/// Rounds milliseconds to microseconds.
pub fn rounded(milliseconds: f64) -> f64 {
    (milliseconds * 1e3).round() / 1e3
}

/// The complete lines among the first `bytes` of a file.
pub fn complete_lines(file: File, bytes: u64) -> impl Iterator<Item = io::Result<Vec<u8>>> {
    let mut reader = BufReader::with_capacity(CHUNK_BYTES, file.take(bytes));
    iter::from_fn(move || {
        let mut line = Vec::new();
        let read = reader.read_until(b'\n', &mut line);
        read.map(|_| line.ends_with(b"\n").then_some(line)).transpose()
    })
}
