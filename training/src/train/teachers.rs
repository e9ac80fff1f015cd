//! Frozen encoders that a stage learns from: DuEAM's anchor and the distillation teacher. Both use the run's tokenizer, so they
//! read its batches unchanged.

use std::path::Path;

use tch::{Device, Tensor};

use crate::checkpoint;
use crate::config::{Config, EncoderKind, ModelConfig, StageConfig};
use crate::data::batch::Batch;
use crate::error::Error;
use crate::model::encoder::{self, Pass};
use crate::model::parameters::Parameters;
use crate::train::weights_path;

/// The frozen encoders of a stage.
#[derive(Debug, Default)]
pub struct Teachers {
    /// DuEAM's anchor.
    pub anchor: Option<Frozen>,
    /// The distillation teacher.
    pub teacher: Option<Frozen>,
    /// Embeds the passages while a question encoder is trained.
    pub passages: Option<Frozen>,
}

/// A frozen encoder. If it has a question encoder that learned together with it, that one reads what the learning one does.
#[derive(Debug)]
pub struct Frozen {
    parameters: Parameters,
    model: ModelConfig,
    kind: EncoderKind,
}

impl Teachers {
    /// Checks that the encoders that `stage` names can be read, except those that an earlier stage of the run in `folder` will
    /// make.
    pub fn check(stage: &StageConfig, folder: &Path, vocabulary: i64) -> Result<(), Error> {
        let absolute = |path: &Path| std::path::absolute(path).map_err(|source| Error::file(path, source));
        let folder = absolute(folder)?;
        let is_given = |weights: &Path| Ok::<_, Error>(!absolute(weights)?.starts_with(&folder));
        let mut given = stage.clone();
        if let Some(anchor) = &stage.anchor
            && !is_given(&anchor.weights)?
        {
            given.anchor = None;
        }
        if let Some(distillation) = &stage.distillation
            && !is_given(&distillation.weights)?
        {
            given.distillation = None;
        }
        Self::open(&given, vocabulary, Device::Cpu).map(drop)
    }

    /// Reads the frozen encoders that `stage` names. `vocabulary` is the run's.
    pub fn open(stage: &StageConfig, vocabulary: i64, device: Device) -> Result<Self, Error> {
        let open = |setting, config: &Path, weights: &Path| {
            let frozen = Frozen::open(config, weights, vocabulary, device)?;
            if frozen.kind == EncoderKind::Transformer && frozen.model.tokens_max < stage.tokens_max {
                let problem =
                    format!("reads {} tokens, the stage {} reads {}", frozen.model.tokens_max, stage.name, stage.tokens_max);
                return Err(Error::Setting { setting, problem });
            }
            Ok(frozen)
        };
        let anchor = stage.anchor.as_ref().map(|it| open("stages.anchor.config", &it.config, &it.weights));
        let teacher = stage.distillation.as_ref().map(|it| open("stages.distillation.config", &it.config, &it.weights));
        Ok(Self { anchor: anchor.transpose()?, teacher: teacher.transpose()?, passages: None })
    }

    /// Adds the encoder of an earlier stage of the run in `folder`, if `stage` uses it to embed passages.
    pub fn with_passages(
        mut self,
        stage: &StageConfig,
        model: &ModelConfig,
        folder: &Path,
        device: Device,
    ) -> Result<Self, Error> {
        if let Some(resting) = &stage.resting_passages {
            let parameters = checkpoint::load(&weights_path(folder, &resting.stage), device)?.learned();
            let kind = encoder::kind_of(&parameters);
            self.passages = Some(Frozen { parameters, model: model.clone(), kind });
        }
        Ok(self)
    }
}

impl Frozen {
    /// Reads an encoder's configuration and weights and checks that they match each other and the vocabulary.
    pub fn open(config: &Path, weights: &Path, vocabulary: i64, device: Device) -> Result<Self, Error> {
        let model = Config::read(config)?.model;
        let parameters = checkpoint::load(weights, device)?.learned();
        let kind = encoder::kind_of(&parameters);
        let mut expected = Parameters::new(Device::Cpu);
        encoder::create(&mut expected, &model, vocabulary, kind);
        for (name, tensor) in expected.iter() {
            let got = if parameters.has(name) { format!("{:?}", parameters.get(name).size()) } else { "none".to_owned() };
            let expect = format!("{:?}", tensor.size());
            if got != expect {
                let problem = format!("{name}: expected {expect} by {} and the run's tokenizer, got {got}", config.display());
                return Err(Error::Content { path: weights.to_owned(), problem });
            }
        }
        Ok(Self { parameters, model, kind })
    }

    /// Values per embedding.
    pub fn dimension(&self) -> i64 {
        self.model.dimension
    }

    /// The sentence embeddings of a batch, not normalized, without gradient. [2 x pairs, d]
    pub fn embed(&self, batch: &Batch, bf16: bool) -> Tensor {
        tch::no_grad(|| encoder::encode(&self.parameters, &self.model, batch, self.pass(bf16)))
    }

    /// The token embeddings of a batch and their mask, without gradient. [2 x pairs, len, d] and [2 x pairs, len]
    pub fn embed_tokens(&self, batch: &Batch, bf16: bool) -> (Tensor, Tensor) {
        tch::no_grad(|| encoder::encode_tokens(&self.parameters, &self.model, batch, self.pass(bf16)))
    }

    fn pass(&self, bf16: bool) -> Pass {
        Pass { kind: self.kind, dropout: 0.0, bf16 }
    }
}
