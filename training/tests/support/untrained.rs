//! A model that was never trained, with everything that its export needs: random weights, and a tokenizer trained on the golden
//! texts.

#![allow(dead_code, reason = "each test target uses its part")]

use std::path::Path;

use dragoman::bundle::TOKENIZER;
use dragoman::text::Tokenizer;
use dragoman_training::config::{Config, EncoderKind, Norm};
use dragoman_training::data;
use dragoman_training::error::Error;
use dragoman_training::eval::TorchEncoder;
use dragoman_training::export::{EncoderShape, EncoderWeights, ExportOptions, Exported, Origin, export, golden};
use dragoman_training::model::encoder::{self, LATE_TOKENS};
use dragoman_training::model::parameters::Parameters;
use parking_lot::{Mutex, MutexGuard};
use tch::{Device, Kind, Tensor};

pub const WIDTH: i64 = 48;
const CORPORA: &str = "corpus\trepository\tlicence\tlicence_class\tsegments\n\
                       tales\torg/tales\tCC0-1.0\topen\t12\n\
                       unused\torg/unused\tMIT\topen\t7\n";

/// A model that was never trained, with everything that its export needs.
pub struct Model {
    pub folder: tempfile::TempDir,
    pub config: Config,
    pub kind: EncoderKind,
    pub parameters: Parameters,
    pub vocabulary: usize,
}

impl Model {
    pub fn new(kind: EncoderKind, norm: Norm) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = config(norm);
        write_golden(folder.path());
        data::tokenizer::train(&config, &folder.path().join("raw"), &folder.path().join(TOKENIZER)).unwrap();
        let vocabulary = Tokenizer::load(&folder.path().join(TOKENIZER)).unwrap().vocabulary_size();
        let _alone = alone();
        tch::manual_seed(5);
        let mut parameters = Parameters::new(Device::Cpu);
        encoder::create(&mut parameters, &config.model, vocabulary as i64, kind);
        let fresh: Vec<(String, Tensor)> = parameters.iter().map(|(name, old)| (name.to_owned(), random(name, old))).collect();
        for (name, tensor) in &fresh {
            parameters.set(name, tensor);
        }
        Self { folder, config, kind, parameters, vocabulary }
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub fn weights(&self, vocabulary: usize) -> Result<EncoderWeights, Error> {
        EncoderWeights::from_tensors(EncoderShape::new(&self.config.model, vocabulary, self.kind), self.parameters.iter())
    }

    pub fn export(&self) -> Result<Exported, Error> {
        self.export_beside(None, None)
    }

    /// Adds a separate late interaction table.
    pub fn add_late_table(&mut self) {
        encoder::create_late_table(&mut self.parameters);
        let moved = self.parameters.get(LATE_TOKENS).detach().flip([1]);
        self.parameters.set(LATE_TOKENS, &moved);
    }

    pub fn export_beside(&self, baseline: Option<&EncoderWeights>, previous: Option<&Path>) -> Result<Exported, Error> {
        self.export_with(baseline, previous, None)
    }

    /// Exports again, with the encoder of the existing bundle.
    pub fn export_on(&self) -> Result<Exported, Error> {
        self.export_with(None, None, Some(&self.path("models/tiny")))
    }

    fn export_with(
        &self,
        baseline: Option<&EncoderWeights>,
        previous: Option<&Path>,
        encoder_of: Option<&Path>,
    ) -> Result<Exported, Error> {
        let (tokenizer, folder, evaluation, corpora) =
            (self.path(TOKENIZER), self.path("models/tiny"), self.path("evaluation"), self.path("corpora.tsv"));
        let options = ExportOptions {
            name: &self.config.name,
            origin: Origin::Trained(&self.config),
            version: "0.1.0",
            tokenizer: &tokenizer,
            folder: &folder,
            calibration: &[],
            evaluation: Some(&evaluation),
            corpora: Some(&corpora),
            language_head: None,
            notes: None,
            baseline,
            previous,
            encoder_of,
            relevance: None,
        };
        let mut reference = TorchEncoder::new(&self.parameters, &self.config.model);
        export(&options, &self.weights(self.vocabulary)?, &mut reference)
    }
}

/// libtorch has one random generator per process, so concurrent tests would draw each other's numbers.
pub fn alone() -> MutexGuard<'static, ()> {
    static GENERATOR: Mutex<()> = Mutex::new(());
    GENERATOR.lock()
}

fn config(norm: Norm) -> Config {
    let mut config: Config = toml::from_str(include_str!("../../configs/smoke.toml")).unwrap();
    config.name = "tiny".to_owned();
    config.tokenizer.vocabulary = 1_600;
    config.corpora.weights.insert("unused".to_owned(), 0.0);
    config.model.norm = norm;
    (config.model.dimension, config.model.heads, config.model.feed_forward) = (WIDTH, 3, 96);
    config
}

/// Values far from the initial ones of training, so that no part of the graph can be missing unnoticed.
fn random(name: &str, old: &Tensor) -> Tensor {
    let noise = Tensor::randn(old.size(), (Kind::Float, Device::Cpu));
    match old.size().as_slice() {
        [_] if name.ends_with("norm.weight") => noise * 0.2 + 1.0,
        [_] => noise * 0.1,
        [_, _] if name.starts_with("embeddings.") => noise,
        [_, inputs] => noise * (2.0 / *inputs as f64).sqrt(),
        _ => noise,
    }
}

/// Writes the golden texts as a corpus, and as evaluation files with identical lines in all languages, so that a correct
/// encoder finds every one of them: lines of all 62 languages as English and as French, and as short pairs.
fn write_golden(folder: &Path) {
    let write = |name: String, text: String| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let texts = golden::by_language();
    for (language, sentences) in &texts {
        write(format!("raw/golden.{language}.txt"), sentences.join("\n"));
    }
    // The second sentences, because the first ones are identical in Danish, Norwegian and Swedish.
    let mut lines: Vec<String> = texts.into_values().map(|sentences| sentences[1].clone()).collect();
    lines.dedup();
    write("evaluation/flores.en.txt".to_owned(), lines.join("\n"));
    write("evaluation/flores.fr.txt".to_owned(), lines.join("\n"));
    let pairs: Vec<String> = lines.iter().map(|line| format!("{line}\t{line}")).collect();
    write("evaluation/short.fr-en.tsv".to_owned(), pairs.join("\n"));
    write("corpora.tsv".to_owned(), CORPORA.to_owned());
}

/// The configuration of a run with the model's encoder: a stage `first` that the bundle completes, and one stage after it.
pub fn continued(model: &Model) -> Config {
    let mut config = model.config.clone();
    config.stages.truncate(1);
    (config.stages[0].name, config.stages[0].encoder) = ("first".to_owned(), model.kind);
    let mut next = config.stages[0].clone();
    next.name = "next".to_owned();
    config.stages.push(next);
    config
}
