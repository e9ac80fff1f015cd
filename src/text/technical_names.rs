//! Names of programming languages and other technical terms that people also write without their signs ("cpp" for C++) or
//! abbreviated ("k8s" for Kubernetes). The model does not know them in this form.

use super::plain_words::plain_key;
use super::query_words::word_ranges;
use super::runs::runs;
use crate::domain::terms::{LiteralPart, SearchCondition, TermPhrase};

/// Each name in this form, and as the model reads it. Both are one word, in lower case.
const NAMES: [(&str, &str); 12] = [
    ("cpp", "c++"),
    ("cplusplus", "c++"),
    ("csharp", "c#"),
    ("fsharp", "f#"),
    ("dotnet", ".net"),
    ("dotenv", ".env"),
    ("golang", "go"),
    ("js", "javascript"),
    ("k8s", "kubernetes"),
    ("i18n", "internationalization"),
    ("l10n", "localization"),
    ("a11y", "accessibility"),
];
/// Maximum bytes of a query with such names. A longer one was pasted.
const BYTES_MAX: usize = 256;
/// Signs that join words to a path, an address or a code.
const JOINING: [char; 6] = ['.', '/', '\\', '_', '@', ':'];

/// Writes the names in a query as the model reads them, unless `is_known` accepts them by their number
/// (`plain_words::word_key`). Parts of file names and addresses stay as they are. Returns `None` if no word changes.
pub fn with_known_names(query: &str, is_known: impl Fn(u32) -> bool) -> Option<String> {
    let has = |name: &str| query.as_bytes().windows(name.len()).any(|part| part.eq_ignore_ascii_case(name.as_bytes()));
    if query.len() > BYTES_MAX || !NAMES.iter().any(|(name, _)| has(name)) {
        return None;
    }
    let (mut written, mut from) = (String::new(), 0);
    for (word, range) in word_ranges(query) {
        let (before, after) = (&query[..range.start], &query[range.end..]);
        let is_joined =
            before.ends_with(JOINING) || after.strip_prefix(JOINING).is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
        let name = NAMES.iter().find(|(name, _)| query[range.clone()].eq_ignore_ascii_case(name));
        let Some((_, read)) = name.filter(|_| !is_joined && !is_known(word)) else { continue };
        written.push_str(&query[from..range.start]);
        written.push_str(read);
        from = range.end;
    }
    written.push_str(&query[from..]);
    (from > 0).then_some(written)
}

/// Returns the names in a normalized query that the passages of a collection may write otherwise. `share` is the share of one
/// word.
pub(super) fn named_otherwise(normal: &str, share: f32) -> Vec<LiteralPart> {
    let (mut parts, mut position) = (Vec::new(), 0);
    for text in normal.split_whitespace() {
        let name = text.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '.');
        let name = name.trim_end_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '+' | '#'));
        let words: Vec<u32> = runs(text).map(|run| plain_key(run.text)).collect();
        let count = words.len();
        for (other, _) in NAMES.iter().filter(|(_, read)| count == 1 && *read == name) {
            parts.push(LiteralPart {
                phrases: vec![TermPhrase::single_word((*other).to_owned())],
                dates: Vec::new(),
                position,
                words: words.clone(),
                share,
                condition: SearchCondition::Joined(plain_key(other)),
            });
        }
        position += count;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Option<String> {
        with_known_names(query, |word| word == plain_key("golang"))
    }

    #[test]
    fn a_name_is_read_with_its_signs_or_in_full() {
        assert_eq!(read("CPP templates").as_deref(), Some("c++ templates"));
        assert_eq!(read("dotnet vs. csharp?").as_deref(), Some(".net vs. c#?"));
        assert_eq!(read("logs of a k8s pod").as_deref(), Some("logs of a kubernetes pod"));
    }

    #[test]
    fn a_known_word_and_a_part_of_another_stay_as_typed() {
        for query in ["golang", "main.cpp", "cpp/templates", "k8s.io", "cpprest", "C++", ""] {
            assert_eq!(read(query), None, "{query}");
        }
        assert_eq!(read("I like cpp.").as_deref(), Some("I like c++."));
    }

    #[test]
    fn a_name_is_also_searched_in_its_other_form() {
        let found = |query: &str| -> Vec<(usize, String)> {
            named_otherwise(query, 0.5).into_iter().map(|part| (part.position, part.phrases[0].terms.join(" "))).collect()
        };
        assert_eq!(found("learn c++, fast"), [(1, "cpp".to_owned()), (1, "cplusplus".to_owned())]);
        assert_eq!(found("(.net)"), [(0, "dotnet".to_owned())]);
        assert_eq!(found("c d#"), []);
    }
}
