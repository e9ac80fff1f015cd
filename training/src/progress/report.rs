//! The report of a run, `report.md`: what was trained, for how long, on which languages, and the final losses.

use std::fmt;
use std::time::Duration;

use super::log::Row;
use crate::config::{Config, EncoderKind, StageConfig};

/// File name in the run's folder.
pub const FILE: &str = "report.md";

/// The content of the report. `Display` writes it as Markdown.
pub struct Report<'a> {
    /// The run's configuration.
    pub config: &'a Config,
    /// The lines of its log.
    pub rows: &'a [Row],
    /// Share of each language among the drawn sentences, by language code.
    pub shares: &'a [(&'a str, f64)],
}

impl Report<'_> {
    fn last(&self, stage: &StageConfig) -> Option<&Row> {
        self.rows.iter().rfind(|row| row.stage == stage.name)
    }

    /// Whether the run started after this stage, from a bundle.
    fn is_from_bundle(&self, stage: &StageConfig) -> bool {
        let mut later = self.config.stages.iter().skip_while(|other| other.name != stage.name).skip(1);
        self.last(stage).is_none() && later.any(|other| self.last(other).is_some())
    }

    fn stage(&self, f: &mut fmt::Formatter<'_>, stage: &StageConfig) -> fmt::Result {
        let kind = match stage.encoder {
            EncoderKind::Bag => "bag",
            EncoderKind::Transformer => "transformer",
        };
        if self.is_from_bundle(stage) {
            return writeln!(f, "| {} | {kind} | from a bundle | | | | |", stage.name);
        }
        let steps = self.last(stage).map_or(0, |row| row.step);
        let pairs = steps * stage.batch_pairs as u64;
        write!(f, "| {} | {kind} | {} of {} | {} ", stage.name, grouped(steps), grouped(stage.steps), grouped(pairs))?;
        match self.last(stage) {
            Some(row) => {
                let time = format_duration(Duration::from_secs_f64(row.elapsed_s));
                let rate = grouped((pairs as f64 / row.elapsed_s.max(0.1)) as u64);
                writeln!(f, "| {time} | {rate} | {} |", losses(row))
            }
            None => writeln!(f, "| | | |"),
        }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stages = &self.config.stages;
        let done =
            |stage: &StageConfig| self.is_from_bundle(stage) || self.last(stage).is_some_and(|row| row.step >= stage.steps);
        writeln!(f, "# Run {}\n", self.config.name)?;
        let finished = stages.iter().filter(|stage| done(stage)).count();
        writeln!(f, "Seed {}. {finished} of {} stages finished.\n", self.config.seed, stages.len())?;
        writeln!(f, "## Stages\n")?;
        writeln!(f, "| stage | encoder | steps | pairs seen | wall time | pairs per second | last losses |")?;
        writeln!(f, "|---|---|---:|---:|---:|---:|---|")?;
        for stage in stages {
            self.stage(f, stage)?;
        }
        writeln!(f, "\nLosses are unweighted means over the last lines of `loss.csv`.\n\n![Losses over steps](loss.svg)\n")?;
        writeln!(f, "## Languages\n\nShare of the drawn sentences, in percent.\n")?;
        let mut shares = self.shares.to_vec();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        let shares: Vec<String> = shares.iter().map(|(code, share)| format!("{code} {:.2}", share * 100.0)).collect();
        writeln!(f, "{}", shares.join(", "))
    }
}

/// The losses of a log line, by name.
pub fn losses(row: &Row) -> String {
    let losses = row.losses.iter().map(|(objective, loss)| format!("{} {loss:.4}", objective.name()));
    losses.collect::<Vec<_>>().join(" ")
}

/// Formats hours, minutes and seconds.
pub fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Formats a number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::Objective;

    /// The last line of a finished stage.
    fn row(stage: &str) -> Row {
        Row {
            stage: stage.to_owned(),
            step: 60,
            losses: vec![(Objective::Contrastive, 1.25)],
            learning_rate: 1e-3,
            gradient_norm: 0.5,
            pairs_per_second: 100.0,
            elapsed_s: 75.0,
        }
    }

    #[test]
    fn the_report_lists_finished_and_remaining_stages() {
        let config: Config = toml::from_str(include_str!("../../configs/smoke.toml")).unwrap();
        let report =
            Report { config: &config, rows: &[row("smoke")], shares: &[("de", 0.25), ("en", 0.5), ("fr", 0.25)] }.to_string();
        // 60 steps of 16 pairs are 960 pairs, in 75 seconds 12 per second.
        for line in [
            "# Run smoke",
            "Seed 7. 1 of 2 stages finished.",
            "| smoke | bag | 60 of 60 | 960 | 0:01:15 | 12 | contrastive 1.2500 |",
            "| joint | transformer | 0 of 60 | 0 | | | |",
            "en 50.00, de 25.00, fr 25.00",
        ] {
            assert!(report.lines().any(|other| other == line), "{line} in\n{report}");
        }
    }

    #[test]
    fn thousands_are_separated_by_commas() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (4_096_000, "4,096,000")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn stages_skipped_by_starting_from_a_bundle_count_as_finished() {
        let config: Config = toml::from_str(include_str!("../../configs/smoke.toml")).unwrap();
        let report = Report { config: &config, rows: &[row("joint")], shares: &[] }.to_string();
        assert!(
            report.contains("2 of 2 stages finished") && report.contains("| smoke | bag | from a bundle | | | | |"),
            "{report}"
        );
    }
}
