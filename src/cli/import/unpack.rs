//! Compression of files, and their decompression.

use std::io::{self, Read};

use clap::ValueEnum;

/// The compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// No compression.
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// Returns the value of the `content-encoding` header.
    pub fn encoding(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
    }
}

/// Decompresses the content of a file.
pub fn decompress(compression: Compression, content: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    Ok(match compression {
        Compression::None => content,
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(content)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(content)?),
    })
}
