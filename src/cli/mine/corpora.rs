//! The sides of a mining request, each a collection or a file with one sentence per line, and the file of known pairs.
//!
//! Blank lines of a file of sentences are not sent. For the user, line numbers from 0 still identify its sentences, in the
//! results and in the file of known pairs.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::cli::error::CliError;
use crate::cli::files::{Input, is_blank, two_columns};
use crate::cli::output::Output;
use crate::cli::request_body::request_members;
use crate::domain::{CollectionName, Language, Limits};

/// Both sides and the known pairs of a request.
pub struct Corpora {
    pub first: RequestCorpus,
    pub second: RequestCorpus,
    pub known: Option<KnownPairs>,
}

/// A corpus of a request.
pub struct RequestCorpus {
    /// The member of the request.
    pub member: Value,
    file: Option<NumberedFile>,
    languages: Vec<String>,
}

pub struct KnownPairs {
    /// The member of the request.
    pub member: Value,
    file: NumberedFile,
}

/// A file whose non-blank lines were sent.
struct NumberedFile {
    name: String,
    /// [sent lines] The line number of each, from 0.
    numbers: Vec<u64>,
}

impl Corpora {
    /// Replaces parts of the request that came from files with file names and line numbers, in a refusal that names them.
    pub fn located(&self, error: CliError) -> CliError {
        error.located(|location| self.locate(location))
    }

    fn locate(&self, location: &str) -> Option<String> {
        match location.split('/').collect::<Vec<_>>()[..] {
            ["", "known_pairs", index, corpus] => Some(format!("{}, {corpus}", self.known.as_ref()?.file.line(index)?)),
            ["", corpus, "texts", index] => self.corpus(corpus)?.file.as_ref()?.line(index),
            ["", corpus, "texts"] => Some(self.corpus(corpus)?.file.as_ref()?.name.clone()),
            _ => None,
        }
    }

    fn corpus(&self, name: &str) -> Option<&RequestCorpus> {
        match name {
            "first" => Some(&self.first),
            "second" => Some(&self.second),
            _ => None,
        }
    }

    /// Returns the names of the files with blank lines before others, so that the job's ids differ from line numbers.
    pub fn files_with_blank_lines(&self) -> Vec<&str> {
        let skips = |file: &&NumberedFile| file.numbers.iter().copied().ne(0..file.numbers.len() as u64);
        let files = [&self.first, &self.second].into_iter().filter_map(|corpus| corpus.file.as_ref());
        let mut names: Vec<&str> = files.filter(skips).map(|file| file.name.as_str()).collect();
        names.dedup();
        names
    }

    /// Returns a row of the results' table with line numbers as ids. The header row stays as it is.
    pub fn table_row(&self, row: &str) -> String {
        let cell = |(column, cell): (usize, &str)| match column {
            1 => self.first.shown_id(cell),
            2 => self.second.shown_id(cell),
            _ => cell.to_owned(),
        };
        row.split('\t').enumerate().map(cell).collect::<Vec<_>>().join("\t")
    }

    /// Returns a line of the results' JSON with line numbers as ids.
    pub fn json_line(&self, line: &str) -> String {
        self.pair(line).map_or_else(|_| line.to_owned(), |pair| pair.to_string())
    }

    /// Parses a line of the results' JSON, and makes line numbers its ids.
    pub fn pair(&self, line: &str) -> serde_json::Result<Value> {
        let mut pair: Value = serde_json::from_str(line)?;
        for (pointer, corpus) in [("/first/id", &self.first), ("/second/id", &self.second)] {
            if let Some(id) = pair.pointer_mut(pointer) {
                *id = corpus.shown_id(id.as_str().unwrap_or_default()).into();
            }
        }
        Ok(pair)
    }
}

impl RequestCorpus {
    /// Reads a corpus: the name of a collection, or `@FILE`.
    pub fn read(
        name: &str,
        languages: Vec<String>,
        filter: Option<Map<String, Value>>,
        output: &Output,
    ) -> Result<Self, CliError> {
        let mut member = request_members(&json!({"languages": languages, "filter": filter}));
        let file = match name.strip_prefix('@') {
            Some(path) => {
                let (file, texts) = NumberedFile::read(Path::new(path), output)?;
                member.insert("texts".to_owned(), json!(texts));
                Some(file)
            }
            None => {
                let name =
                    CollectionName::parse(name).map_err(|error| CliError::Usage(format!("{error}; write @FILE for a file")))?;
                member.insert("collection".to_owned(), json!(name));
                None
            }
        };
        Ok(Self { member: member.into(), file, languages })
    }

    /// Takes the language of a file's sentences out of the request, because the server does not ask for it.
    pub fn take_language(&mut self, option: &str) -> Result<(), CliError> {
        let Some(file) = &self.file else { return Ok(()) };
        match self.languages.as_slice() {
            [tag] => Language::from_tag(tag).map(drop).map_err(|error| CliError::Usage(format!("{option} {error}")))?,
            _ => {
                let problem = format!("TMX names the language of each sentence: give the one of {} with {option}", file.name);
                return Err(CliError::Usage(problem));
            }
        }
        if let Some(member) = self.member.as_object_mut() {
            member.remove("languages");
        }
        Ok(())
    }

    /// The language of all texts, if there is only one.
    pub fn only_language(&self) -> Option<&str> {
        match self.languages.as_slice() {
            [tag] => Some(tag),
            _ => None,
        }
    }

    /// Converts the user's id to the request's: a line number to the position among the sent lines.
    fn sent_id(&self, id: &str) -> Result<String, String> {
        let Some(file) = &self.file else { return Ok(id.to_owned()) };
        let position = id.parse::<u64>().ok().and_then(|number| file.numbers.binary_search(&number).ok());
        let wrong =
            || format!("has the id {id:?}, which is not the number, counted from 0, of a line of {} with text", file.name);
        position.map(|position| position.to_string()).ok_or_else(wrong)
    }

    /// The reverse of `sent_id`.
    fn shown_id(&self, id: &str) -> String {
        let number = self.file.as_ref().and_then(|file| file.numbers.get(id.parse::<usize>().ok()?));
        number.map_or_else(|| id.to_owned(), u64::to_string)
    }
}

impl KnownPairs {
    /// Reads a file of two tab-separated ids per line.
    pub fn read(path: &Path, first: &RequestCorpus, second: &RequestCorpus, output: &Output) -> Result<Self, CliError> {
        let (file, lines) = NumberedFile::read(path, output)?;
        let pair = |line: &String| -> Result<Value, String> {
            let (one, other) = two_columns(line).ok_or("must have two ids, separated by a tab")?;
            Ok(json!({ "first": first.sent_id(one)?, "second": second.sent_id(other)? }))
        };
        let numbered = |(line, number): (&String, &u64)| {
            pair(line).map_err(|problem| CliError::Usage(format!("line {} of {} {problem}", number + 1, file.name)))
        };
        let pairs = lines.iter().zip(&file.numbers).map(numbered).collect::<Result<_, _>>()?;
        Ok(Self { member: Value::Array(pairs), file })
    }
}

impl NumberedFile {
    /// Reads the lines that are not blank.
    fn read(path: &Path, output: &Output) -> Result<(Self, Vec<String>), CliError> {
        let input = Input::open(Some(path), output)?;
        let (name, mut numbers, mut texts) = (input.name.clone(), Vec::new(), Vec::new());
        for (number, text) in (0..).zip(input.parse_lines(Limits::default().text_bytes_max, Ok)) {
            let text = text?;
            if !is_blank(&text) {
                numbers.push(number);
                texts.push(text);
            }
        }
        Ok((Self { name, numbers }, texts))
    }

    /// Describes the line that was sent at the position `index`.
    fn line(&self, index: &str) -> Option<String> {
        let number = self.numbers.get(index.parse::<usize>().ok()?)?;
        Some(format!("line {} of {}", number + 1, self.name))
    }
}
