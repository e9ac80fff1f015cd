//! Decompresses files.

use std::io::{self, Read};

use crate::domain::FileEncoding;

/// Returns a reader of the content that `packed` has in this encoding. Does not limit the size of the content.
pub fn decoder<'a>(encoding: FileEncoding, packed: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match encoding {
        FileEncoding::Identity => Box::new(packed),
        FileEncoding::Gzip => Box::new(flate2::read::MultiGzDecoder::new(packed)),
        FileEncoding::Zstd => Box::new(zstd::stream::read::Decoder::new(packed)?),
    })
}
