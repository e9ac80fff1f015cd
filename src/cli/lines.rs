//! Reads lines in bounded memory: a line that is too long or not UTF-8 is reported, and reading continues after it.

use std::io::{self, BufRead, Read as _};

use crate::table::BYTE_ORDER_MARK;

/// How many times longer than its text a line of JSON may be, because of six-character escapes and other members.
pub const JSON_FACTOR: usize = 8;

/// An iterator over the lines of a stream, without their line ends.
pub struct Lines<R> {
    stream: R,
    bytes_max: usize,
    number: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// The line number, from 1.
    pub number: u64,
    /// Its text, or why it is invalid.
    pub text: Result<String, String>,
    /// Its size in the stream in bytes, including the line end.
    pub bytes: u64,
}

impl<R: BufRead> Lines<R> {
    /// Reads lines of at most `bytes_max` bytes from `stream`.
    pub fn new(stream: R, bytes_max: usize) -> Self {
        Self { stream, bytes_max, number: 0 }
    }

    fn read(&mut self) -> io::Result<Option<Line>> {
        // Two bytes for the line end and one more to detect a line that is too long. A byte order mark does not count.
        let limit = self.bytes_max + 3 + BYTE_ORDER_MARK.len();
        let mut line = Vec::new();
        let mut bytes = self.stream.by_ref().take(limit as u64).read_until(b'\n', &mut line)?;
        if bytes == 0 {
            return Ok(None);
        }
        if line.pop_if(|last| *last == b'\n').is_none() && bytes == limit {
            bytes += self.stream.skip_until(b'\n')?;
        }
        self.number += 1;
        Ok(Some(Line { number: self.number, text: self.text(line), bytes: bytes as u64 }))
    }

    fn text(&self, mut line: Vec<u8>) -> Result<String, String> {
        if self.number == 1 && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        if line.ends_with(b"\r") {
            line.pop();
        }
        if line.len() > self.bytes_max {
            return Err(format!("must have at most {} bytes, got more", self.bytes_max));
        }
        String::from_utf8(line).map_err(|error| format!("is not valid UTF-8 after byte {}", error.utf8_error().valid_up_to()))
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<io::Result<Line>> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads through a buffer of three bytes, so that lines cross buffer boundaries.
    fn check(input: &[u8], expect: &[Result<&str, &str>]) {
        let lines = Lines::new(io::BufReader::with_capacity(3, input), 6).map(Result::unwrap);
        let lines: Vec<Line> = lines.collect();
        let got: Vec<_> = lines.iter().map(|line| line.text.as_deref().map_err(String::as_str)).collect();
        assert_eq!(got, expect, "{input:?}");
        assert!(lines.iter().map(|line| line.number).eq(1..=expect.len() as u64));
        assert_eq!(lines.iter().map(|line| line.bytes).sum::<u64>(), input.len() as u64);
    }

    #[test]
    fn lines_lose_only_their_line_endings_and_a_leading_bom() {
        check(b"", &[]);
        check(b"a\nb", &[Ok("a"), Ok("b")]);
        check(b"a\r\n\r\n b \n", &[Ok("a"), Ok(""), Ok(" b ")]);
        check("\u{feff}é\n\u{feff}".as_bytes(), &[Ok("é"), Ok("\u{feff}")]);
        check(b"123456\r\n123456", &[Ok("123456"), Ok("123456")]);
        check("\u{feff}123456\n".as_bytes(), &[Ok("123456")]);
    }

    #[test]
    fn bad_lines_do_not_hide_the_others() {
        let long = Err("must have at most 6 bytes, got more");
        check(b"1234567\nok\n123456789012\r\nok", &[long, Ok("ok"), long, Ok("ok")]);
        check("\u{feff}1234567\nok".as_bytes(), &[long, Ok("ok")]);
        check(b"ab\xff\nok", &[Err("is not valid UTF-8 after byte 2"), Ok("ok")]);
    }
}
