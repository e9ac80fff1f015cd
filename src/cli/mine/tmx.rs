//! Writes pairs as TMX 1.4, the file format that translation memories exchange.

use std::fmt::Write as _;

use serde_json::Value;

use super::corpora::Corpora;
use crate::cli::error::CliError;
use crate::cli::files::Sink;

/// The language of a text whose language is not known (BCP 47).
const UNDETERMINED: &str = "und";
/// The source language of a file whose units have several (TMX).
const ALL_LANGUAGES: &str = "*all*";

/// Writes pairs as a TMX file.
pub fn write(pairs: impl Iterator<Item = Result<Value, CliError>>, corpora: &Corpora, sink: &mut Sink) -> Result<(), CliError> {
    sink.write_all(header(corpora.first.only_language()).as_bytes())?;
    for pair in pairs {
        sink.write_all(unit(&pair?, corpora).as_bytes())?;
    }
    sink.write_all(b"</body>\n</tmx>\n")
}

fn header(source_language: Option<&str>) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<tmx version=\"1.4\">\n<header creationtool=\"dragoman\" \
         creationtoolversion=\"{}\" segtype=\"block\" o-tmf=\"dragoman\" adminlang=\"en\" srclang=\"{}\" \
         datatype=\"plaintext\"/>\n<body>\n",
        env!("CARGO_PKG_VERSION"),
        escaped(source_language.unwrap_or(ALL_LANGUAGES)),
    )
}

fn unit(pair: &Value, corpora: &Corpora) -> String {
    let mut unit = format!("<tu><prop type=\"x-score\">{}</prop>\n", pair["score"]);
    for (text, corpus) in [(&pair["first"], &corpora.first), (&pair["second"], &corpora.second)] {
        let member = |name: &str| text[name].as_str();
        let language = member("language").or(corpus.only_language()).unwrap_or(UNDETERMINED);
        let [language, id, text] = [language, member("id").unwrap_or_default(), member("text").unwrap_or_default()].map(escaped);
        let _ = writeln!(unit, "<tuv xml:lang=\"{language}\"><prop type=\"x-id\">{id}</prop><seg>{text}</seg></tuv>");
    }
    unit + "</tu>\n"
}

/// Escapes a text for XML 1.0. Replaces characters that a file of XML cannot contain.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // A parser would read it as a line feed.
            '\r' => escaped.push_str("&#13;"),
            '\t' | '\n' => escaped.push(c),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => escaped.push(char::REPLACEMENT_CHARACTER),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_characters_that_xml_forbids_are_replaced() {
        assert_eq!(escaped("a < b && \"c\" > d"), "a &lt; b &amp;&amp; &quot;c&quot; &gt; d");
        assert_eq!(escaped("one\r\n\ttwo\u{1}\u{ffff}\u{7f}"), "one&#13;\n\ttwo\u{fffd}\u{fffd}\u{7f}");
    }
}
