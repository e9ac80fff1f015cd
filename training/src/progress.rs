//! The output of a run: regular lines on the terminal, the log `loss.csv`, its curve `loss.svg`, and the report `report.md`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tch::{Kind, Tensor};

use crate::config::{Config, StageConfig};
use crate::error::Error;
use crate::objective::{Objective, Terms};

mod log;
mod plot;
mod report;

use log::{Log, Row};

/// File name of the curve in the run's folder.
const CURVE: &str = "loss.svg";
const EVERY: Duration = Duration::from_secs(15);

/// The losses of a stage since the last log line.
pub struct Progress {
    run: PathBuf,
    log: Log,
    stage: StageConfig,
    started: Instant,
    /// Seconds that earlier calls spent on the stage.
    spent: f64,
    first_step: u64,
    reported: (Instant, u64),
    sums: Vec<(Objective, Tensor)>,
}

impl Progress {
    /// Opens the log in the folder `run` and continues it at `step` of stage number `stage`. `objectives` are those of all
    /// stages: the log's columns.
    pub fn open(run: &Path, config: &Config, objectives: &[Objective], stage: usize, step: u64) -> Result<Self, Error> {
        let stages = &config.stages;
        let name = &stages[stage].name;
        // A resumed run repeats the steps logged after its checkpoint, so their lines are dropped.
        let keep =
            |row: &Row| stages[..stage].iter().any(|before| before.name == row.stage) || row.stage == *name && row.step <= step;
        let log = Log::open(&run.join(log::FILE), objectives, keep)?;
        let spent = log.rows().iter().rfind(|row| row.stage == *name).map_or(0.0, |row| row.elapsed_s);
        let now = Instant::now();
        println!("stage {name}: {} steps of {} pairs", stages[stage].steps, stages[stage].batch_pairs);
        Ok(Self {
            run: run.to_owned(),
            log,
            stage: stages[stage].clone(),
            started: now,
            spent,
            first_step: step,
            reported: (now, step),
            sums: Vec::new(),
        })
    }

    /// Adds the losses of a step.
    pub fn add(&mut self, losses: &Terms) {
        for term in losses.iter() {
            let loss = term.loss.detach();
            match self.sums.iter_mut().find(|(objective, _)| *objective == term.objective) {
                Some((_, sum)) => *sum = &*sum + loss,
                None => self.sums.push((term.objective, loss)),
            }
        }
    }

    /// Whether the next line is due.
    pub fn is_due(&self) -> bool {
        self.reported.0.elapsed() >= EVERY
    }

    /// Writes a line about the steps since the last line, if any. Rejects losses that are not finite.
    pub fn report(&mut self, step: u64, rate: f64, gradient_norm: f64) -> Result<(), Error> {
        if step == self.reported.1 {
            return Ok(());
        }
        let steps = (step - self.reported.1) as f64;
        let sums = std::mem::take(&mut self.sums);
        let losses: Vec<(Objective, f64)> =
            sums.iter().map(|(objective, sum)| (*objective, sum.to_kind(Kind::Double).double_value(&[]) / steps)).collect();
        let elapsed = self.started.elapsed().as_secs_f64();
        let row = Row {
            stage: self.stage.name.clone(),
            step,
            losses,
            learning_rate: rate,
            gradient_norm,
            pairs_per_second: steps * self.stage.batch_pairs as f64 / self.reported.0.elapsed().as_secs_f64().max(1e-9),
            elapsed_s: self.spent + elapsed,
        };
        let overall = (step - self.first_step) as f64 / elapsed.max(1e-9);
        let left = Duration::from_secs_f64((self.stage.steps - step) as f64 / overall);
        println!(
            "{} {step}/{} {} rate {rate:.2e} norm {gradient_norm:.2} {:.0} pairs/s, {} left",
            self.stage.name,
            self.stage.steps,
            report::losses(&row),
            row.pairs_per_second,
            report::format_duration(left)
        );
        let broken = row.losses.iter().map(|(_, loss)| *loss).find(|loss| !loss.is_finite());
        self.log.append(row)?;
        self.reported = (Instant::now(), step);
        broken.map_or(Ok(()), |loss| Err(Error::Diverged { step, loss }))
    }

    /// Draws the curve and writes the report. `shares` are the shares of the languages among the drawn sentences.
    pub fn publish(&self, config: &Config, shares: &[(&str, f64)]) -> Result<(), Error> {
        plot::plot(self.log.rows(), &self.run.join(CURVE))?;
        let report = report::Report { config, rows: self.log.rows(), shares };
        log::replace(&self.run.join(report::FILE), &report.to_string())
    }
}

/// Draws `loss.svg` from `loss.csv` in the folder `run`.
pub fn plot(run: &Path) -> Result<(), Error> {
    plot::plot(&log::read(&run.join(log::FILE))?, &run.join(CURVE))
}
