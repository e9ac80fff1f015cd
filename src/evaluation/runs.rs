//! Ranked lists in TREC's run format: one line per document, `query id Q0 document id rank score tag`, separated by white
//! space. Reads runs of other programs, and writes our own for `trec_eval` and similar tools.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use super::error::EvaluationError;
use super::lines;

/// The id of a document in a ranked list, and its score.
pub type Scored = (String, f64);

/// Reads a run: the document ids by query id, in descending order of score, with ties in the order of rank.
pub fn read(path: &Path) -> Result<HashMap<String, Vec<String>>, EvaluationError> {
    let text = std::fs::read_to_string(path).map_err(|source| EvaluationError::file(path, source))?;
    let mut lists: HashMap<String, Vec<(f64, u64, String)>> = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = |field, expected: &str, got: &str| lines::field_error(path, index + 1, field, expected, got);
        let fields = ["query id", "Q0", "document id", "rank", "score", "tag"];
        let [query, _, document, rank, score, _] = lines::words(path, index + 1, line, fields)?;
        let rank: u64 = rank.parse().map_err(|_| wrong("rank", "a whole number", rank))?;
        let number = score.parse::<f64>().ok().filter(|score| score.is_finite());
        let number = number.ok_or_else(|| wrong("score", "a number", score))?;
        let list = lists.entry(query.to_owned()).or_default();
        list.push((number, rank, document.to_owned()));
    }
    if lists.is_empty() {
        return Err(lines::field_error(path, 1, "line", "6 fields separated by white space", "the end of the file"));
    }
    let mut runs = HashMap::new();
    for (query, mut list) in lists {
        list.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let ids: Vec<String> = list.into_iter().map(|(_, _, id)| id).collect();
        let mut sorted: Vec<&String> = ids.iter().collect();
        sorted.sort();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            let problem = format!("expected each document once per query, got {} twice for {query}", twice[0]);
            return Err(EvaluationError::Content { path: path.to_owned(), problem });
        }
        runs.insert(query, ids);
    }
    Ok(runs)
}

/// Writes the list of one query. Ids must not contain white space (`is_valid_name`).
pub fn write(target: &mut impl Write, tag: &str, query: &str, list: &[Scored]) -> io::Result<()> {
    for (index, (document, score)) in list.iter().enumerate() {
        writeln!(target, "{query} Q0 {document} {} {score} {tag}", index + 1)?;
    }
    Ok(())
}

/// Whether a name is valid in a run, in which white space separates fields.
pub fn is_valid_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<HashMap<String, Vec<String>>, EvaluationError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.run");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn written_runs_are_read_back() {
        let mut text = Vec::new();
        write(&mut text, "dense", "q1", &[("b".to_owned(), 0.75), ("a".to_owned(), 0.5)]).unwrap();
        write(&mut text, "dense", "q2", &[("c".to_owned(), -3.0)]).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, "q1 Q0 b 1 0.75 dense\nq1 Q0 a 2 0.5 dense\nq2 Q0 c 1 -3 dense\n");
        let read = read_text(&text).unwrap();
        assert_eq!((&read["q1"], &read["q2"]), (&vec!["b".to_owned(), "a".to_owned()], &vec!["c".to_owned()]));
    }

    #[test]
    fn runs_are_ordered_by_score_then_by_rank() {
        let read = read_text("q Q0 a 3 1.5 x\nq Q0 b 2 1.5 x\nq\tQ0\tc\t1\t0.1\tx\n").unwrap();
        assert_eq!(read["q"], ["b", "a", "c"]);
    }

    #[test]
    fn errors_name_what_is_invalid_in_a_run() {
        for (text, expect) in [
            (
                "q Q0 a 1 0.5\n",
                "a.run:1: line: expected 6 fields separated by white space (query id, Q0, document id, rank, score, tag), got 5",
            ),
            ("q Q0 a 1 0.5 x\nq Q0 b two 0.4 x\n", "a.run:2: rank: expected a whole number, got two"),
            ("q Q0 a 1 NaN x\n", "a.run:1: score: expected a number, got NaN"),
            ("", "a.run:1: line: expected 6 fields separated by white space, got the end of the file"),
            ("q Q0 a 1 2 x\nq Q0 a 2 1 x\n", "expected each document once per query, got a twice for q"),
        ] {
            let error = read_text(text).unwrap_err().to_string();
            assert!(error.ends_with(expect), "{error}");
        }
    }
}
