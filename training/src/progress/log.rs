//! The log of a run, `loss.csv`: one line every few seconds, one column per objective of any of its stages.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::objective::Objective;

/// File name in the run's folder.
pub const FILE: &str = "loss.csv";

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Name of the stage.
    pub stage: String,
    /// Steps done in it.
    pub step: u64,
    /// Unweighted mean losses since the last line. Objectives that the stage does not run have no entry.
    pub losses: Vec<(Objective, f64)>,
    /// Learning rate of the last step.
    pub learning_rate: f64,
    /// Gradient norm of the last step, before clipping.
    pub gradient_norm: f64,
    /// Throughput since the previous line.
    pub pairs_per_second: f64,
    /// Seconds spent on the stage, over all calls that trained it.
    pub elapsed_s: f64,
}

/// The log, in memory and on disk.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    objectives: Vec<Objective>,
    rows: Vec<Row>,
}

impl Log {
    /// Opens the log at `path`, or creates one with a column for each of `objectives`; removes lines for which `keep` returns
    /// false.
    pub fn open(path: &Path, objectives: &[Objective], keep: impl Fn(&Row) -> bool) -> Result<Self, Error> {
        // A crash may have left an empty file.
        let has_lines = std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0);
        let mut rows = if has_lines { read(path)? } else { Vec::new() };
        rows.retain(keep);
        let log = Self { path: path.to_owned(), objectives: objectives.to_vec(), rows };
        let lines: String = log.rows.iter().map(|row| log.line(row)).collect();
        let names: String = objectives.iter().map(|objective| format!("{},", objective.name())).collect();
        replace(path, &format!("stage,step,{names}learning_rate,gradient_norm,pairs_per_second,elapsed_s\n{lines}"))?;
        Ok(log)
    }

    /// All lines so far.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Adds a line.
    pub fn append(&mut self, row: Row) -> Result<(), Error> {
        let line = self.line(&row);
        self.rows.push(row);
        let append = || OpenOptions::new().append(true).open(&self.path)?.write_all(line.as_bytes());
        append().map_err(|source| Error::file(&self.path, source))
    }

    fn line(&self, row: &Row) -> String {
        let loss = |objective: &Objective| {
            let loss = row.losses.iter().find(|(other, _)| other == objective);
            loss.map_or(",".to_owned(), |(_, loss)| format!("{loss:.5},"))
        };
        format!(
            "{},{},{}{:.3e},{:.4},{:.1},{:.1}\n",
            row.stage,
            row.step,
            self.objectives.iter().map(loss).collect::<String>(),
            row.learning_rate,
            row.gradient_norm,
            row.pairs_per_second,
            row.elapsed_s
        )
    }
}

/// Reads the lines of the log at `path`.
pub fn read(path: &Path) -> Result<Vec<Row>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    for name in ["stage", "step"] {
        if !header.contains(&name) {
            return Err(Error::Content { path: path.to_owned(), problem: format!("expected a column {name}") });
        }
    }
    let mut rows = Vec::new();
    for (number, line) in lines.enumerate() {
        let row = parse(&header, line).ok_or_else(|| Error::Line {
            path: path.to_owned(),
            line: number + 2,
            problem: "expected a stage, a step and numbers, as the header says",
        })?;
        rows.push(row);
    }
    Ok(rows)
}

fn parse(header: &[&str], line: &str) -> Option<Row> {
    let fields: HashMap<&str, &str> = header.iter().copied().zip(line.split(',')).collect();
    let number = |name: &str| fields.get(name)?.parse::<f64>().ok();
    let mut losses = Vec::new();
    for objective in Objective::ALL {
        if fields.get(objective.name()).is_some_and(|field| !field.is_empty()) {
            losses.push((objective, number(objective.name())?));
        }
    }
    Some(Row {
        stage: (*fields.get("stage")?).to_owned(),
        step: fields.get("step")?.parse().ok()?,
        losses,
        learning_rate: number("learning_rate")?,
        gradient_norm: number("gradient_norm")?,
        pairs_per_second: number("pairs_per_second")?,
        elapsed_s: number("elapsed_s")?,
    })
}

/// Replaces a file atomically.
pub fn replace(path: &Path, content: &str) -> Result<(), Error> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, content).map_err(|source| Error::file(&partial, source))?;
    std::fs::rename(&partial, path).map_err(|source| Error::file(path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(stage: &str, step: u64, losses: &[(Objective, f64)]) -> Row {
        Row {
            stage: stage.to_owned(),
            step,
            losses: losses.to_vec(),
            learning_rate: 1e-3,
            gradient_norm: 0.5,
            pairs_per_second: 100.0,
            elapsed_s: 15.0,
        }
    }

    #[test]
    fn reopening_a_log_keeps_only_the_selected_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let mut log = Log::open(&path, &[Objective::Contrastive], |_| true).unwrap();
        for step in [10, 20, 30] {
            log.append(row("bag", step, &[(Objective::Contrastive, 1.5)])).unwrap();
        }
        let log = Log::open(&path, &[Objective::Contrastive], |row| row.step <= 20).unwrap();
        assert_eq!(log.rows().iter().map(|row| row.step).collect::<Vec<_>>(), [10, 20]);
        assert_eq!(log.rows()[1], row("bag", 20, &[(Objective::Contrastive, 1.5)]));
    }

    #[test]
    fn an_objective_added_by_a_later_stage_gets_a_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        Log::open(&path, &[Objective::Xtr], |_| true).unwrap().append(row("a", 1, &[(Objective::Xtr, 2.0)])).unwrap();
        Log::open(&path, &[Objective::Contrastive, Objective::Xtr], |_| true).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let header = "stage,step,contrastive,xtr,learning_rate,gradient_norm,pairs_per_second,elapsed_s";
        assert_eq!(text, format!("{header}\na,1,,2.00000,1.000e-3,0.5000,100.0,15.0\n"));
    }

    #[test]
    fn an_empty_file_is_a_new_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        std::fs::write(&path, "").unwrap();
        assert!(Log::open(&path, &[Objective::Xtr], |_| true).unwrap().rows().is_empty());
    }

    #[test]
    fn a_log_without_stages_or_steps_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        for (text, expect) in [("", "expected a column stage"), ("stage,xtr\n", "expected a column step")] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        }
    }

    #[test]
    fn a_malformed_line_is_reported_by_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        std::fs::write(&path, "stage,step,xtr,learning_rate,gradient_norm,pairs_per_second,elapsed_s\na,one,1,1,1,1,1\n")
            .unwrap();
        let error = Log::open(&path, &[Objective::Xtr], |_| true).unwrap_err().to_string();
        assert!(error.contains("loss.csv:2: expected"), "{error}");
    }
}
