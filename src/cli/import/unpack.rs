//! How a file is compressed, and its content unpacked.

use std::io::{self, Read};

use clap::ValueEnum;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// The name in the header `content-encoding`.
    pub fn encoding(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
    }
}

/// The content of a file that is compressed so.
pub fn unpacked(compression: Compression, content: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    Ok(match compression {
        Compression::None => content,
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(content)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(content)?),
    })
}
