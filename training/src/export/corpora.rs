//! The training corpora of a model, for its card: names, sources, licenses, sizes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::error::Error;

/// A training corpus, with all its files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CorpusRow {
    /// Name.
    pub name: String,
    /// Repositories that it comes from.
    pub repositories: BTreeSet<String>,
    /// Licenses of its files.
    pub licences: BTreeSet<String>,
    /// License classes: `open` or `research`.
    pub classes: BTreeSet<String>,
    /// Number of segments in all files.
    pub segments: u64,
}

/// Reads a table of corpora: tab-separated, one row per file, columns identified by the header. Skips corpora for which `used`
/// returns false.
pub fn read_corpora(path: &Path, used: impl Fn(&str) -> bool) -> Result<Vec<CorpusRow>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
    let header: Vec<&str> = text.lines().next().unwrap_or_default().split('\t').collect();
    let find = |name: &'static str| {
        let missing = || Error::Content { path: path.to_owned(), problem: format!("expected a column {name}") };
        header.iter().position(|&column| column == name).ok_or_else(missing)
    };
    let (name, repository, licence) = (find("corpus")?, find("repository")?, find("licence")?);
    let (class, segments) = (find("licence_class")?, find("segments")?);
    let mut rows: BTreeMap<String, CorpusRow> = BTreeMap::new();
    for (number, line) in text.lines().enumerate().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        if fields.len() < header.len() {
            return Err(Error::Line {
                path: path.to_owned(),
                line: number + 1,
                problem: "expected as many columns as the header has",
            });
        }
        if !used(fields[name]) {
            continue;
        }
        let count: u64 = fields[segments].parse().map_err(|_| Error::Line {
            path: path.to_owned(),
            line: number + 1,
            problem: "expected a number of segments",
        })?;
        let row = rows.entry(fields[name].to_owned()).or_default();
        row.name = fields[name].to_owned();
        row.repositories.insert(fields[repository].to_owned());
        row.licences.insert(fields[licence].to_owned());
        row.classes.insert(fields[class].to_owned());
        row.segments += count;
    }
    Ok(rows.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "file\tcorpus\trepository\tlicence_class\tlicence\tsegments\n\
                         a.fr\tnews\torg/news\topen\tCC0\t10\n\
                         a.de\tnews\torg/news\topen\tCC0\t12\n\
                         b.fr\twords\torg/words\tresearch\tfree | research\t5\n";

    fn read(text: &str, used: impl Fn(&str) -> bool) -> Result<Vec<CorpusRow>, Error> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_corpora(file.path(), used)
    }

    #[test]
    fn files_of_a_corpus_are_merged_into_one_row() {
        let rows = read(TABLE, |_| true).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].name.as_str(), rows[0].segments, rows[0].licences.len()), ("news", 22, 1));
    }

    #[test]
    fn unused_corpora_are_left_out() {
        let rows = read(TABLE, |name| name != "words").unwrap();
        assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["news"]);
    }

    #[test]
    fn a_malformed_table_is_refused() {
        for (text, expect) in [
            ("corpus\tlicence\n", "expected a column repository"),
            ("corpus\trepository\tlicence\tlicence_class\tsegments\nnews\torg\n", ":2: expected as many columns"),
            ("corpus\trepository\tlicence\tlicence_class\tsegments\nnews\torg\tCC0\topen\tmany\n", ":2: expected a number"),
        ] {
            let error = read(text, |_| true).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        }
    }
}
