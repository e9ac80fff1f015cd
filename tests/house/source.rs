//! Rust text as tokens, with comments separated: just enough to check the house rules without a compiler.

use std::fs;
use std::path::Path;

/// One file.
pub struct Source {
    /// Path from the repository root, with `/`.
    pub path: String,
    /// The full text.
    pub text: String,
    /// The comments, with line breaks preserved and everything else blanked.
    pub comments: String,
    /// The code, with comments, strings and character literals blanked.
    pub tokens: Vec<Token>,
}

/// A word, or one character of punctuation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// As written.
    pub text: String,
    /// Counted from 1.
    pub line: usize,
}

impl Source {
    /// Tokenizes `text`.
    pub fn new(path: &str, text: &str) -> Self {
        let (code, comments) = split(text);
        Self { path: path.to_owned(), text: text.to_owned(), comments, tokens: tokens(&code) }
    }

    /// Whether the tokens from `at` on match a pattern.
    pub fn starts_with(&self, at: usize, pattern: &[&str]) -> bool {
        self.tokens.len() >= at + pattern.len() && pattern.iter().zip(&self.tokens[at..]).all(|(text, token)| token.text == *text)
    }
}

/// Reads every `.rs` file of `folder`, which is relative to `root`; sorted by path.
pub fn read_folder(root: &Path, folder: &str) -> Vec<Source> {
    let mut entries: Vec<_> = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap()).collect();
    entries.sort_by_key(fs::DirEntry::path);
    let mut sources = Vec::new();
    for entry in entries {
        let path = format!("{folder}/{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            sources.extend(read_folder(root, &path));
        } else if path.ends_with(".rs") {
            sources.push(Source::new(&path, &fs::read_to_string(entry.path()).unwrap()));
        }
    }
    sources
}

/// Finds every function with a body: its name, its first line and its number of lines.
pub fn functions(source: &Source) -> Vec<(&str, usize, usize)> {
    let tokens = &source.tokens;
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if tokens[at].text != "fn" || !tokens.get(at + 1).is_some_and(|name| is_word(&name.text)) {
            continue;
        }
        let (mut brackets, mut braces) = (0, 0);
        for token in &tokens[at..] {
            match token.text.as_str() {
                "(" | "[" => brackets += 1,
                ")" | "]" => brackets -= 1,
                ";" if brackets == 0 && braces == 0 => break,
                "{" => braces += 1,
                "}" if braces == 1 => {
                    found.push((tokens[at + 1].text.as_str(), tokens[at].line, token.line - tokens[at].line + 1));
                    break;
                }
                "}" => braces -= 1,
                _ => {}
            }
        }
    }
    found
}

pub fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

fn tokens(code: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut joins = false;
        for character in line.chars() {
            let in_word = character.is_alphanumeric() || character == '_';
            match tokens.last_mut() {
                Some(last) if joins && in_word => last.text.push(character),
                _ if character.is_whitespace() => {}
                _ => tokens.push(Token { text: character.to_string(), line: number + 1 }),
            }
            joins = in_word;
        }
    }
    tokens
}

#[derive(PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// Splits text into its code and its comments. Each part is blank where the other has text, so that line numbers stay the same.
fn split(text: &str) -> (String, String) {
    let characters: Vec<char> = text.chars().collect();
    let (mut code, mut comments) = (String::new(), String::new());
    let mut rest = characters.as_slice();
    while !rest.is_empty() {
        let (kind, length) = first_piece(rest);
        let (piece, after) = rest.split_at(length.min(rest.len()));
        for &character in piece {
            let blank = if character == '\n' { '\n' } else { ' ' };
            code.push(if kind == Kind::Code { character } else { blank });
            comments.push(if kind == Kind::Comment { character } else { blank });
        }
        rest = after;
    }
    (code, comments)
}

fn first_piece(rest: &[char]) -> (Kind, usize) {
    let word = rest.iter().take_while(|character| character.is_alphanumeric() || **character == '_').count();
    if word > 0 {
        let hashes = rest[word..].iter().take_while(|&&character| character == '#').count();
        let raw = matches!(rest[..word], ['r'] | ['b' | 'c', 'r']) && rest.get(word + hashes) == Some(&'"');
        return if raw { (Kind::Literal, raw_string(rest, word + hashes, hashes)) } else { (Kind::Code, word) };
    }
    match rest {
        ['/', '/', ..] => (Kind::Comment, rest.iter().take_while(|&&character| character != '\n').count()),
        ['/', '*', ..] => (Kind::Comment, block_comment(rest)),
        ['"', ..] => (Kind::Literal, quoted(rest)),
        ['\'', '\\', ..] => (Kind::Literal, quoted(rest)),
        ['\'', _, '\'', ..] => (Kind::Literal, 3),
        _ => (Kind::Code, 1),
    }
}

/// The length of a literal that ends with the same character that opens it.
fn quoted(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != rest[0] {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn raw_string(rest: &[char], opening: usize, hashes: usize) -> usize {
    let ends =
        |at: &usize| rest[*at] == '"' && rest[at + 1..].iter().take_while(|&&character| character == '#').count() >= hashes;
    (opening + 1..rest.len()).find(ends).map_or(rest.len(), |at| at + 1 + hashes)
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}
