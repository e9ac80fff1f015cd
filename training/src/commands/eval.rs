//! `dragoman-train eval`: one subcommand per task, each with the format of its files in its help; without a subcommand, every
//! task that has files in the folder.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dragoman::domain::Language;
use dragoman::text::Tokenizer;
use tch::Device;

use super::write_json;
use crate::config::Config;
use crate::error::Error;
use crate::eval::mining::ExactMiner;
use crate::eval::torch::late_interaction;
use crate::eval::{
    Report, SentenceEncoder, TextEncoder, TorchEncoder, WithoutDiacritics, candidates, classification, flores, measure, mining,
    passages, short, sts, tatoeba,
};
use crate::model::encoder::question_encoder;
use crate::train;

/// Evaluates an encoder: a bundle's int8 model, or a run's weights.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct EvalArguments {
    #[command(subcommand)]
    task: Option<Task>,
    #[command(flatten)]
    all: TaskArguments,
}

/// The encoder, the files, and the output.
#[derive(Debug, Args)]
struct TaskArguments {
    /// Folder with the files of the task.
    // An `Option`, because a subcommand takes its own `--data` instead.
    #[arg(long, required = true)]
    data: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
    /// The run's configuration.
    #[arg(long, requires = "weights")]
    config: Option<PathBuf>,
    /// The run's tokenizer.json.
    #[arg(long, requires = "weights")]
    tokenizer: Option<PathBuf>,
    /// Weights of the question encoder, if a stage trained one next to `--weights`.
    #[arg(long, requires = "weights")]
    question_weights: Option<PathBuf>,
    /// Threads; 0 means one per core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Removes diacritics from all texts, as many people type them.
    #[arg(long)]
    without_diacritics: bool,
    /// Also writes the whole report to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The source of embeddings.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// A bundle: evaluates its int8 ONNX model through the server's text pipeline.
    #[arg(long)]
    bundle: Option<PathBuf>,
    /// Weights of a run, evaluated in libtorch in float32.
    #[arg(long, requires = "config", requires = "tokenizer")]
    weights: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Measures P@1 between any two languages of aligned sentences (EMS table VII).
    ///
    /// Files `flores.xx.txt`: one sentence per line; the same line number in every file is the same sentence. xx is an ISO 639-1
    /// code. Missing languages are skipped.
    Flores(TaskArguments),
    /// Measures P@1 of short everyday sentences with English.
    ///
    /// Files `short.xx-en.tsv`: one pair per line, xx-sentence, tab, English sentence. Each file is a separate task.
    Short(TaskArguments),
    /// Measures P@1 on Tatoeba between English and the other languages (EMS table IV).
    ///
    /// Files in LASER's layout: `tatoeba.XXX-eng.XXX` next to `tatoeba.XXX-eng.eng`, aligned by line, XXX an ISO 639-3 code.
    /// Languages outside the 62 are skipped. Prints the mean over the languages, and over the codes of table IV.
    Tatoeba(TaskArguments),
    /// Measures precision, recall and F1 of mined translation pairs, by margin scoring (EMS table IX, BUCC 2018).
    ///
    /// Files as BUCC 2018 names them: `xx-en.PART.xx` and `xx-en.PART.en`, one sentence per line, id, tab, sentence; and
    /// `xx-en.PART.gold`, one translation pair per line, xx-id, tab, en-id. PART is `dev` or `training`, on which the threshold
    /// with the highest F1 is found, and `test`, to which it is applied; `test` is optional.
    Mining(TaskArguments),
    /// Measures P@1 of some queries among many candidates, by margin scoring (EMS table X).
    ///
    /// Files `candidates.xx-yy.xx`, the queries, and `candidates.xx-yy.yy`, the candidates, one sentence per line: line n of the
    /// candidates translates line n of the queries; further lines are distractors.
    Candidates {
        #[command(flatten)]
        measured: TaskArguments,
        /// How many of the queries to use.
        #[arg(long, default_value_t = candidates::QUERIES)]
        queries: usize,
    },
    /// Measures how high the passage that answers a question ranks among all passages of its language, by MRR@10 and P@1.
    ///
    /// Files `retrieval.xx-yy.tsv`: one pair per line, question in language xx, tab, passage in language yy; xx may equal yy. A
    /// question is compared with the distinct passages of all files with the same yy.
    Passages {
        #[command(flatten)]
        measured: TaskArguments,
        /// How many questions of each file to use.
        #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
        questions: usize,
    },
    /// Measures the accuracy of a classifier that learns in one language and is tested in the others (EMS tables XI to XIII).
    ///
    /// SIB-200: `sib200.xx.tsv`, one text per line: split (train, dev or test), tab, index, tab, label, tab, text. MLDoc:
    /// `XX.train.1000`, `XX.dev` and `XX.test`, one document per line: label, tab, text. XX is `en` or `english`. CLS:
    /// `XX.PRODUCT.train` and `XX.PRODUCT.test`, one review per line: label, tab, text; PRODUCT is books, dvd, music, or all.
    /// Training stops early by the dev split of the same language, in CLS by its test split. Accuracies are means of five runs.
    Classification {
        #[command(flatten)]
        measured: TaskArguments,
        /// Languages to train in, one after the other.
        #[arg(long, value_delimiter = ',', default_value = "en", value_parser = parse_language)]
        from: Vec<Language>,
        /// The split of SIB-200 to test on.
        #[arg(long, default_value = "dev", value_parser = ["dev", "test"])]
        sib200_part: String,
    },
    /// Measures Spearman's rank correlation between cosines and similarity scores.
    ///
    /// Files `sts.xx-yy.tsv`: one pair per line, score, tab, xx-sentence, tab, yy-sentence. A higher score means more similar.
    Sts(TaskArguments),
}

impl EvalArguments {
    /// Evaluates and prints.
    pub fn run(self) -> Result<(), Error> {
        match self.task {
            Some(task) => task.run(),
            None => self.all.report(|data, encoder| Ok(measure(data, encoder)?)),
        }
    }
}

impl Task {
    fn run(self) -> Result<(), Error> {
        match self {
            Self::Flores(measured) => {
                measured.report(|data, encoder| Ok(Report { flores: flores::measure(data, encoder)?, ..Report::default() }))
            }
            Self::Short(measured) => {
                measured.report(|data, encoder| Ok(Report { short: short::measure(data, encoder)?, ..Report::default() }))
            }
            Self::Tatoeba(measured) => {
                measured.report(|data, encoder| Ok(Report { tatoeba: tatoeba::measure(data, encoder)?, ..Report::default() }))
            }
            Self::Mining(measured) => measured.report(|data, encoder| {
                Ok(Report { mining: mining::measure(data, &mut ExactMiner(encoder))?, ..Report::default() })
            }),
            Self::Candidates { measured, queries } => measured.report(|data, encoder| {
                Ok(Report { candidates: candidates::measure(data, queries, encoder)?, ..Report::default() })
            }),
            Self::Passages { measured, questions } => measured.report(|data, encoder| {
                Ok(Report { passages: passages::measure(data, questions, encoder)?, ..Report::default() })
            }),
            Self::Classification { measured, from, sib200_part } => measured.report(|data, encoder| {
                let options = classification::Options { from, sib200_part };
                Ok(Report { classification: classification::measure(data, &options, encoder)?, ..Report::default() })
            }),
            Self::Sts(measured) => {
                measured.report(|data, encoder| Ok(Report { sts: sts::measure(data, encoder)?, ..Report::default() }))
            }
        }
    }
}

impl TaskArguments {
    /// Opens the source, runs `task` on it, prints the report and writes it as JSON.
    fn report(&self, task: impl FnOnce(&Path, &mut dyn SentenceEncoder) -> Result<Report, Error>) -> Result<(), Error> {
        let missing =
            || Error::Setting { setting: "data", problem: "expected a folder of evaluation files, got none".to_owned() };
        let data = self.data.as_deref().ok_or_else(missing)?;
        if self.threads > 0 {
            tch::set_num_threads(i32::try_from(self.threads).unwrap_or(i32::MAX));
        }
        let task = |data: &Path, encoder: &mut dyn SentenceEncoder| match self.without_diacritics {
            true => task(data, &mut WithoutDiacritics(encoder)),
            false => task(data, encoder),
        };
        let report = match (&self.source, &self.config, &self.tokenizer) {
            (Source { bundle: Some(bundle), .. }, ..) => task(data, &mut TextEncoder::open_bundle(bundle, self.threads)?)?,
            (Source { weights: Some(weights), .. }, Some(config), Some(tokenizer)) => {
                let config = Config::read(config)?;
                let parameters = train::load_weights(weights, Device::Cpu)?;
                let questions = match &self.question_weights {
                    Some(path) => Some(train::load_weights(path, Device::Cpu)?),
                    None => question_encoder(&parameters),
                };
                let encoder = TorchEncoder {
                    parameters: &parameters,
                    model: &config.model,
                    late_interaction: Some(late_interaction(&parameters)?),
                    questions: questions.as_ref(),
                };
                let tokens_max = config.model.tokens_max as usize;
                task(data, &mut TextEncoder { tokenizer: Tokenizer::load(tokenizer)?, tokens_max, encoder })?
            }
            _ => {
                let problem = "expected --bundle, or --weights with --config and --tokenizer".to_owned();
                return Err(Error::Setting { setting: "bundle", problem });
            }
        };
        if report == Report::default() {
            return Err(Error::NoData { path: data.to_owned() });
        }
        println!("{report}");
        match &self.json {
            Some(path) => write_json(path, &report),
            None => Ok(()),
        }
    }
}

fn parse_language(code: &str) -> Result<Language, String> {
    Language::parse(code)
        .ok_or_else(|| format!("expected the ISO 639-1 code of one of the {} languages, got {code}", Language::COUNT))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        arguments: EvalArguments,
    }

    fn parse(line: &str) -> Result<EvalArguments, String> {
        let words = std::iter::once("eval").chain(line.split(' '));
        Program::try_parse_from(words).map(|program| program.arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_without_a_task_are_parsed() {
        let arguments = parse("--bundle models/tiny --data dev --threads 1").unwrap();
        let all = arguments.all;
        assert!(arguments.task.is_none());
        assert_eq!((all.source.bundle, all.data, all.threads), (Some("models/tiny".into()), Some("dev".into()), 1));
    }

    #[test]
    fn a_task_accepts_its_own_options() {
        let arguments = parse("classification --data dev --bundle models/tiny --from de,fr").unwrap();
        let Some(Task::Classification { measured, from, sib200_part }) = arguments.task else { panic!("{arguments:?}") };
        assert_eq!(from.iter().map(|language| language.code()).collect::<Vec<_>>(), ["de", "fr"]);
        assert_eq!((sib200_part.as_str(), measured.source.bundle), ("dev", Some("models/tiny".into())));
    }

    #[test]
    fn incomplete_or_conflicting_arguments_are_refused() {
        assert!(parse("sts --data dev --weights w --config c --tokenizer t").is_ok());
        for (line, expect) in [
            ("sts --data dev --weights w --config c", "--tokenizer"),
            ("sts --data dev", "--bundle"),
            ("--data dev", "--bundle"),
            ("--bundle b", "--data"),
            ("sts --data dev --bundle b --weights w --config c --tokenizer t", "cannot be used with"),
            ("classification --data dev --bundle b --from xx", "got xx"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(expect), "{line}: {error}");
        }
    }

    #[test]
    fn the_help_of_each_task_describes_its_file_format() {
        for (task, part) in [
            ("flores", "flores.xx.txt"),
            ("short", "short.xx-en.tsv"),
            ("tatoeba", "tatoeba.XXX-eng.XXX"),
            ("mining", "xx-en.PART.gold"),
            ("candidates", "candidates.xx-yy.yy"),
            ("classification", "XX.train.1000"),
            ("sts", "sts.xx-yy.tsv"),
        ] {
            let help = parse(&format!("{task} --help")).unwrap_err();
            assert!(help.contains(part), "{task}: {help}");
        }
    }

    #[test]
    fn a_task_without_files_fails_and_a_report_round_trips_as_json() {
        let folder = tempfile::tempdir().unwrap();
        let line = format!("sts --data {} --bundle {}/../models/ems-small", folder.path().display(), env!("CARGO_MANIFEST_DIR"));
        let error = parse(&line).unwrap().run().unwrap_err().to_string();
        assert!(error.contains("no usable data"), "{error}");
        let path = folder.path().join("report.json");
        write_json(&path, &Report::default()).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&std::fs::read_to_string(&path).unwrap()).unwrap(), Report::default());
    }
}
