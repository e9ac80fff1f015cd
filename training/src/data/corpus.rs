//! Reads parallel text: bilingual TSV, aligned line files and OPUS Moses pairs, plain or zstd-compressed.
//!
//! - `NAME.xx-yy.tsv[.zst]`: one pair per line, `xx-text<TAB>yy-text`.
//! - `NAME.q.xx-yy.tsv[.zst]`: the same format with a question and a passage that answers it; xx may equal yy.
//! - `NAME.xx.txt[.zst]`: the same line number in every file of NAME is the same segment; an empty line is a missing one.
//! - `NAME.xx-yy.xx[.zst]` next to `NAME.xx-yy.yy[.zst]`: OPUS Moses, line by line.
//!
//! Files of languages outside the 62 are skipped and listed by `find`. Burmese in Zawgyi is converted to Unicode.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use dragoman::domain::Language;

use super::zawgyi::{is_zawgyi, to_unicode};
use crate::error::Error;

/// A set of segments in two or more languages.
#[derive(Debug, Clone)]
pub struct Corpus {
    /// The file name up to its first dot; the configuration assigns weights by this name.
    pub name: String,
    /// Unique among all corpora of a folder: the name, with the language pair if it is bilingual.
    pub key: String,
    /// Where its text is.
    pub source: Source,
}

/// The files of a corpus.
#[derive(Debug, Clone)]
pub enum Source {
    /// One file with both languages.
    Tsv(PathBuf, [Language; 2]),
    /// One file per language, aligned by line.
    Lines(BTreeMap<Language, PathBuf>),
}

/// The contents of a folder.
#[derive(Debug, Default)]
pub struct Found {
    /// The corpora, in the order of their keys.
    pub corpora: Vec<Corpus>,
    /// Skipped files, with the reason.
    pub skipped: Vec<(PathBuf, String)>,
}

/// Finds the corpora in `folder`.
pub fn find(folder: &Path) -> Result<Found, Error> {
    let mut found = Found::default();
    let mut aligned: BTreeMap<(String, String), BTreeMap<Language, PathBuf>> = BTreeMap::new();
    let entries = std::fs::read_dir(folder).map_err(|source| Error::file(folder, source))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|source| Error::file(folder, source))?.path());
    }
    paths.sort();
    for path in paths.into_iter().filter(|path| path.is_file()) {
        match classify(&path) {
            Ok(Kind::Tsv { name, pair }) => {
                let key = format!("{name}.{}-{}", pair[0], pair[1]);
                found.corpora.push(Corpus { name, key, source: Source::Tsv(path, pair) });
            }
            Ok(Kind::Lines { name, key, language }) => {
                aligned.entry((name, key)).or_default().insert(language, path);
            }
            Err(reason) => found.skipped.push((path, reason)),
        }
    }
    for ((name, key), files) in aligned {
        if files.len() >= 2 {
            found.corpora.push(Corpus { name, key, source: Source::Lines(files) });
        } else {
            found
                .skipped
                .extend(files.into_values().map(|path| (path, "there is no file of another language beside it".to_owned())));
        }
    }
    found.corpora.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(found)
}

impl Corpus {
    /// Its languages.
    pub fn languages(&self) -> Vec<Language> {
        match &self.source {
            Source::Tsv(_, pair) => pair.to_vec(),
            Source::Lines(files) => files.keys().copied().collect(),
        }
    }

    /// The same corpus restricted to these languages, if each language has its own file, so that no other file is read.
    pub fn narrowed(&self, languages: &[Language]) -> Self {
        let source = match &self.source {
            Source::Tsv(..) => self.source.clone(),
            Source::Lines(files) => {
                let files = files.iter().filter(|(language, _)| languages.contains(language));
                Source::Lines(files.map(|(language, path)| (*language, path.clone())).collect())
            }
        };
        Self { source, ..self.clone() }
    }

    /// Whether its pairs are questions with passages that answer them.
    pub fn has_questions(&self) -> bool {
        self.name.ends_with(QUESTIONS)
    }

    /// Reads it in blocks of at most `rows` rows, one column per language, in the order of `languages`, all of the same length.
    pub fn blocks(&self, rows: usize) -> Result<Blocks, Error> {
        let paths: Vec<&PathBuf> = match &self.source {
            Source::Tsv(path, _) => vec![path],
            Source::Lines(files) => files.values().collect(),
        };
        let files = paths.into_iter().map(|path| Ok((path.clone(), lines(path)?))).collect::<Result<Vec<_>, Error>>()?;
        let burmese = self.languages().iter().map(|language| language.code() == BURMESE).collect();
        Ok(Blocks { files, tsv: matches!(self.source, Source::Tsv(..)), rows, done: 0, burmese })
    }

    /// Reads everything at once: one column per language, in the order of `languages`, all of the same length.
    pub fn read(&self) -> Result<Vec<Vec<String>>, Error> {
        let mut columns = vec![Vec::new(); self.languages().len()];
        for block in self.blocks(BLOCK_ROWS)? {
            columns.iter_mut().zip(block?).for_each(|(column, block)| column.extend(block));
        }
        Ok(columns)
    }
}

/// The suffix of the corpus names of questions and passages.
pub const QUESTIONS: &str = ".q";

/// Default rows per block.
pub const BLOCK_ROWS: usize = 1 << 16;

/// A corpus, block by block, from `Corpus::blocks`.
pub struct Blocks {
    files: Vec<(PathBuf, Lines)>,
    tsv: bool,
    rows: usize,
    done: usize,
    /// Whether each column's text may be in Zawgyi.
    burmese: Vec<bool>,
}

const BURMESE: &str = "my";

type Lines = std::io::Lines<BufReader<Box<dyn Read>>>;

impl Blocks {
    fn read(&mut self) -> Result<Vec<Vec<String>>, Error> {
        let mut columns = Vec::new();
        for (path, lines) in &mut self.files {
            let column = lines.by_ref().take(self.rows).collect::<Result<Vec<_>, _>>();
            columns.push(column.map_err(|source| Error::file(path, source))?);
        }
        if self.tsv {
            columns = self.split(columns.remove(0))?;
        } else {
            let first = columns[0].len();
            if columns.iter().any(|column| column.len() != first) {
                return Err(self.misaligned(&columns));
            }
        }
        for (column, _) in columns.iter_mut().zip(&self.burmese).filter(|(_, burmese)| **burmese) {
            column.iter_mut().filter(|text| is_zawgyi(text)).for_each(|text| *text = to_unicode(text).into_owned());
        }
        self.done += columns.first().map_or(0, Vec::len);
        Ok(columns)
    }

    /// Counts the remaining lines, to name the file that is too short.
    fn misaligned(&mut self, columns: &[Vec<String>]) -> Error {
        let totals: Vec<usize> =
            self.files.iter_mut().zip(columns).map(|((_, rest), column)| self.done + column.len() + rest.count()).collect();
        let expected = totals.iter().copied().max().unwrap_or(0);
        let index = totals.iter().position(|&total| total != expected).unwrap_or(0);
        Error::Misaligned { path: self.files[index].0.clone(), expected, got: totals[index] }
    }

    fn split(&self, column: Vec<String>) -> Result<Vec<Vec<String>>, Error> {
        let (mut left, mut right) = (Vec::with_capacity(column.len()), Vec::with_capacity(column.len()));
        for (number, line) in column.into_iter().enumerate() {
            let Some((a, b)) = line.split_once('\t') else {
                let (path, line) = (self.files[0].0.clone(), self.done + number + 1);
                return Err(Error::Line { path, line, problem: "expected text<TAB>text" });
            };
            left.push(a.to_owned());
            right.push(b.to_owned());
        }
        Ok(vec![left, right])
    }
}

impl Iterator for Blocks {
    type Item = Result<Vec<Vec<String>>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.read() {
            Ok(columns) if columns.iter().all(Vec::is_empty) => None,
            other => Some(other),
        }
    }
}

/// Reads the lines of a text file, without line endings; decompresses it if its name ends in `.zst`.
pub fn read_lines(path: &Path) -> Result<Vec<String>, Error> {
    lines(path)?.collect::<Result<_, _>>().map_err(|source| Error::file(path, source))
}

fn lines(path: &Path) -> Result<Lines, Error> {
    let file = File::open(path).map_err(|source| Error::file(path, source))?;
    let reader: Box<dyn Read> = if path.extension().is_some_and(|extension| extension == "zst") {
        Box::new(zstd::Decoder::new(file).map_err(|source| Error::file(path, source))?)
    } else {
        Box::new(file)
    };
    Ok(BufReader::with_capacity(READ_BYTES, reader).lines())
}

/// Buffer size per file. A corpus may have a file for each of the 62 languages, all open at once.
const READ_BYTES: usize = 1 << 18;

enum Kind {
    Tsv { name: String, pair: [Language; 2] },
    Lines { name: String, key: String, language: Language },
}

fn classify(path: &Path) -> Result<Kind, String> {
    let file = path.file_name().and_then(|name| name.to_str()).ok_or("the name is not UTF-8")?;
    let parts: Vec<&str> = file.strip_suffix(".zst").unwrap_or(file).rsplitn(3, '.').collect();
    let [ending, middle, name] = parts[..] else { return Err("not named like a corpus".to_owned()) };
    let language = |code: &str| Language::parse(code).ok_or_else(|| format!("{code} is not among the languages"));
    let pair = |codes: &str| -> Result<[Language; 2], String> {
        let (a, b) = codes.split_once('-').ok_or_else(|| format!("{codes} is not a language pair"))?;
        Ok([language(a)?, language(b)?])
    };
    let name = name.to_owned();
    match ending {
        "tsv" => Ok(Kind::Tsv { pair: pair(middle)?, name }),
        "txt" => Ok(Kind::Lines { language: language(middle)?, key: name.clone(), name }),
        _ => {
            let languages = pair(middle)?;
            let language = language(ending)?;
            if !languages.contains(&language) {
                return Err(format!("{ending} is not in the pair {middle}"));
            }
            Ok(Kind::Lines { key: format!("{name}.{middle}"), name, language })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn the_three_file_formats_are_recognized_by_name() {
        let folder = folder(&[
            ("talk.de-en.tsv", "guten Tag\tgood day\n"),
            ("news.fr.txt", "bonjour\n\n"),
            ("news.en.txt", "hello\nbye\n"),
            ("opus.en-fi.en", "yes\n"),
            ("opus.en-fi.fi", "kyllä\n"),
        ]);
        let found = find(folder.path()).unwrap();
        let keys: Vec<_> = found.corpora.iter().map(|corpus| corpus.key.as_str()).collect();
        assert_eq!(keys, ["news", "opus.en-fi", "talk.de-en"]);
        assert_eq!(found.corpora[0].read().unwrap(), [["hello", "bye"], ["bonjour", ""]]);
        assert_eq!(found.corpora[1].read().unwrap(), [["yes"], ["kyllä"]]);
        assert_eq!(found.corpora[2].read().unwrap(), [["guten Tag"], ["good day"]]);
    }

    #[test]
    fn unsupported_languages_and_unpaired_files_are_skipped() {
        let folder = folder(&[("a.xx-en.tsv", "x\ty\n"), ("b.en.txt", "alone\n"), ("notes", "")]);
        let found = find(folder.path()).unwrap();
        assert!(found.corpora.is_empty());
        assert_eq!(found.skipped.len(), 3);
    }

    #[test]
    fn aligned_files_with_different_line_counts_are_refused() {
        let folder = folder(&[("n.en.txt", "one\ntwo\n"), ("n.fr.txt", "un\n")]);
        let corpus = &find(folder.path()).unwrap().corpora[0];
        assert!(matches!(corpus.read(), Err(Error::Misaligned { expected: 2, got: 1, .. })));
    }

    #[test]
    fn a_line_without_a_tab_is_reported_by_number() {
        let folder = folder(&[("t.de-en.tsv", "gut\tgood\nschlecht\n")]);
        let corpus = &find(folder.path()).unwrap().corpora[0];
        assert!(matches!(corpus.read(), Err(Error::Line { line: 2, .. })));
    }

    #[test]
    fn compressed_files_read_like_plain_ones() {
        let folder = folder(&[]);
        let path = folder.path().join("t.de-en.tsv.zst");
        std::fs::write(&path, zstd::encode_all("eins\tone\n".as_bytes(), 1).unwrap()).unwrap();
        assert_eq!(find(folder.path()).unwrap().corpora[0].read().unwrap(), [["eins"], ["one"]]);
    }
}
