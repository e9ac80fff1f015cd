//! Decompresses files and bodies of requests.

use std::io::{self, Read};

use crate::domain::FileEncoding;

/// Maximum logarithm of the window of received zstd content: the 8 MiB that RFC 9659 allows for HTTP. A sender can make the
/// decoder use all of it.
const WINDOW_LOG_MAX: u32 = 23;

/// Returns a reader of the content that `packed` has in this encoding. Does not limit the size of the content.
pub fn decoder<'a>(encoding: FileEncoding, packed: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match encoding {
        FileEncoding::Identity => Box::new(packed),
        FileEncoding::Gzip => Box::new(flate2::read::MultiGzDecoder::new(packed)),
        FileEncoding::Zstd => Box::new(zstd::stream::read::Decoder::new(packed)?),
    })
}

/// Like `decoder`, but for content from outside: limits the memory of the decoder.
pub fn bounded_decoder<'a>(encoding: FileEncoding, packed: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    if encoding != FileEncoding::Zstd {
        return decoder(encoding, packed);
    }
    let mut decoder = zstd::stream::read::Decoder::new(packed)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(Box::new(BoundedWindow(decoder)))
}

/// Reads from a zstd decoder, and explains its error for a window that is too large.
struct BoundedWindow<R>(R);

impl<R: Read> Read for BoundedWindow<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.to_string().contains("too much memory") {
            true => {
                let mib = (1 << WINDOW_LOG_MAX) >> 20;
                io::Error::other(format!("its window is larger than {mib} MiB; compress it without --long and --ultra"))
            }
            false => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn packed(window_log: u32) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(window_log).unwrap();
        // Without the content size, the encoder does not reduce the window to it.
        encoder.write_all(b"text").and_then(|()| encoder.finish()).unwrap()
    }

    fn read(packed: &[u8]) -> io::Result<String> {
        io::read_to_string(bounded_decoder(FileEncoding::Zstd, packed)?)
    }

    #[test]
    fn received_zstd_content_may_have_a_window_of_8_mib() {
        assert_eq!(read(&packed(WINDOW_LOG_MAX)).unwrap(), "text");
        let refused = read(&packed(WINDOW_LOG_MAX + 1)).unwrap_err().to_string();
        assert_eq!(refused, "its window is larger than 8 MiB; compress it without --long and --ultra");
        assert_eq!(io::read_to_string(decoder(FileEncoding::Zstd, &packed(27)[..]).unwrap()).unwrap(), "text");
    }
}
