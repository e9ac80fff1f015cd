//! Runs the encoder as trained, in libtorch: the reference for every exported graph.

use dragoman::evaluation::Embeddings;
use tch::{Kind, Tensor};

use super::encoder::{PaddedBatch, TokenEncoder};
use super::late_interaction::LateInteraction;
use crate::config::{EncoderKind, ModelConfig};
use crate::data::batch::Group;
use crate::error::Error;
use crate::model::encoder::{Pass, TOKENS, encode_group, kind_of, late_names};
use crate::model::parameters::Parameters;

/// The encoder in libtorch, in float32 and without dropout.
pub struct TorchEncoder<'a> {
    /// Weights.
    pub parameters: &'a Parameters,
    /// Size.
    pub model: &'a ModelConfig,
    /// The late interaction scorer.
    pub late_interaction: Option<LateInteraction>,
    /// The weights of the question encoder, if it has its own.
    pub questions: Option<&'a Parameters>,
}

impl<'a> TorchEncoder<'a> {
    /// The encoder without late interaction and without a question encoder.
    pub fn new(parameters: &'a Parameters, model: &'a ModelConfig) -> Self {
        Self { parameters, model, late_interaction: None, questions: None }
    }
}

/// Late interaction over the separate table of `parameters`, or over the token table, with trained token weights or the lengths
/// of the rows.
pub fn late_interaction(parameters: &Parameters) -> Result<LateInteraction, Error> {
    let values = |name: &str| -> Result<Vec<f32>, Error> {
        Ok(Vec::try_from(parameters.get(name).detach().to_device(tch::Device::Cpu).to_kind(Kind::Float).flatten(0, -1))?)
    };
    let (table, weights) = late_names(parameters);
    let dimension = parameters.get(table).size()[1] as usize;
    let weights = parameters.has(weights).then(|| values(weights)).transpose()?;
    let weights = weights.map(|logs| logs.into_iter().map(f32::exp).collect());
    Ok(LateInteraction::new(values(table)?, dimension, weights))
}

impl TokenEncoder for TorchEncoder<'_> {
    fn dimension(&self) -> usize {
        self.model.dimension as usize
    }

    fn late_interaction(&self) -> Option<&LateInteraction> {
        self.late_interaction.as_ref()
    }

    fn embed_questions(&mut self, questions: &[Vec<u32>]) -> Result<Embeddings, Error> {
        TorchEncoder::new(self.questions.unwrap_or(self.parameters), self.model).embed(questions)
    }

    fn embed_batch(&mut self, batch: &PaddedBatch) -> Result<Vec<f32>, Error> {
        let shape = [batch.texts as i64, batch.length as i64];
        let device = self.parameters.device();
        let tensor = |values: &[i64]| Tensor::from_slice(values).view(shape).to_device(device);
        let group = Group { ids: tensor(&batch.ids), mask: tensor(&batch.mask).to_kind(Kind::Float), questions: false };
        let table = self.parameters.get(TOKENS);
        let kind = kind_of(self.parameters);
        let pooled = tch::no_grad(|| match kind {
            EncoderKind::Bag => {
                let rows = Tensor::embedding(table, &group.ids, -1, false, false); // [texts, length, d]
                (rows * group.mask.unsqueeze(-1)).sum_dim_intlist(1i64, false, Kind::Float)
            }
            EncoderKind::Transformer => {
                let pass = Pass { kind, dropout: 0.0, bf16: false };
                encode_group(self.parameters, self.model, table, &group, pass)
            }
        });
        let pooled = pooled.to_device(tch::Device::Cpu).to_kind(Kind::Float).contiguous(); // [texts, d]
        let mut values = vec![0.0; pooled.numel()];
        pooled.f_copy_data(&mut values, pooled.numel())?;
        Ok(values)
    }
}
