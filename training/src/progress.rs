//! What a run says while it goes: a line now and then, a CSV file, and the loss curve as SVG.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tch::{Kind, Tensor};

use crate::config::StageConfig;
use crate::error::Error;

const EVERY: Duration = Duration::from_secs(15);
const HEADER: &str = "stage,step,contrastive,xtr,learning_rate,gradient_norm,pairs_per_second,elapsed_s";

/// The losses since the last report.
pub struct Progress {
    csv: PathBuf,
    stage: StageConfig,
    started: Instant,
    first_step: u64,
    reported: (Instant, u64),
    sums: Option<(Tensor, Tensor)>,
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Steps done in the stage.
    pub step: u64,
    /// Mean of equation 8 since the line before.
    pub contrastive: f64,
    /// Mean of equation 6 since the line before.
    pub xtr: f64,
}

impl Progress {
    /// Goes on with the log `loss.csv` in `run`.
    pub fn open(run: &Path, stage: &StageConfig, step: u64) -> Result<Self, Error> {
        let csv = run.join("loss.csv");
        if !csv.is_file() {
            std::fs::write(&csv, format!("{HEADER}\n")).map_err(|source| Error::file(&csv, source))?;
        }
        let now = Instant::now();
        Ok(Self { csv, stage: stage.clone(), started: now, first_step: step, reported: (now, step), sums: None })
    }

    /// Adds the losses of a step: equation 8's and equation 6's.
    pub fn add(&mut self, contrastive: &Tensor, xtr: &Tensor) {
        let (contrastive, xtr) = (contrastive.detach(), xtr.detach());
        self.sums = Some(match self.sums.take() {
            Some((a, b)) => (a + contrastive, b + xtr),
            None => (contrastive, xtr),
        });
    }

    /// Whether it is time for a line.
    pub fn is_due(&self) -> bool {
        self.reported.0.elapsed() >= EVERY
    }

    /// Writes a line.
    pub fn report(&mut self, step: u64, rate: f64, gradient_norm: f64) -> Result<Entry, Error> {
        let steps = (step - self.reported.1).max(1) as f64;
        let mean = |sum: &Tensor| sum.to_kind(Kind::Double).double_value(&[]) / steps;
        let (contrastive, xtr) = self.sums.take().map_or((0.0, 0.0), |(a, b)| (mean(&a), mean(&b)));
        let speed = steps * self.stage.batch_pairs as f64 / self.reported.0.elapsed().as_secs_f64().max(1e-9);
        let overall = (step - self.first_step).max(1) as f64 / self.started.elapsed().as_secs_f64().max(1e-9);
        let left = Duration::from_secs_f64((self.stage.steps - step) as f64 / overall);
        println!(
            "{} {step}/{} contrastive {contrastive:.4} xtr {xtr:.4} rate {rate:.2e} norm {gradient_norm:.2} {speed:.0} pairs/s, {} left",
            self.stage.name,
            self.stage.steps,
            clock(left)
        );
        let line = format!(
            "{},{step},{contrastive:.5},{xtr:.5},{rate:.3e},{gradient_norm:.4},{speed:.1},{:.1}\n",
            self.stage.name,
            self.started.elapsed().as_secs_f64()
        );
        let append = || OpenOptions::new().append(true).open(&self.csv)?.write_all(line.as_bytes());
        append().map_err(|source| Error::file(&self.csv, source))?;
        self.reported = (Instant::now(), step);
        Ok(Entry { step, contrastive, xtr })
    }
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
