//! The encoder's shapes and invariants.

mod support;

use dragoman_training::config::{EncoderKind, Norm};
use dragoman_training::data::batch::Batch;
use dragoman_training::data::sampler::Sentence;
use dragoman_training::model::encoder::{self, Pass};
use dragoman_training::model::parameters::Parameters;
use dragoman_training::objective::contrastive::unit;
use tch::{Device, Kind, Tensor};

const SENTENCES: [&[u16]; 4] = [&[5, 6, 7, 8, 9, 10, 11], &[12], &[13, 14, 13], &[20, 21]];

fn encode(kind: EncoderKind, norm: Norm, parameters: &mut Parameters, group_rows: usize) -> Tensor {
    let config = support::config(kind, norm, 1);
    encoder::create(parameters, &config.model, support::VOCABULARY, kind);
    let sentence = |ids: &[u16]| Sentence::new(ids.to_vec(), 0);
    let pairs = [(sentence(SENTENCES[0]), sentence(SENTENCES[2])), (sentence(SENTENCES[1]), sentence(SENTENCES[3]))];
    let pass = Pass { kind, dropout: 0.0, bf16: false };
    encoder::encode(parameters, &config.model, &Batch::new(&pairs, group_rows), pass)
}

fn largest_difference(a: &Tensor, b: &Tensor) -> f64 {
    (a - b).abs().max().to_kind(Kind::Double).double_value(&[])
}

#[test]
fn an_untrained_pre_norm_encoder_has_the_direction_of_its_bag_of_tokens() {
    tch::manual_seed(2);
    let mut parameters = Parameters::new(Device::Cpu);
    let bag = unit(&encode(EncoderKind::Bag, Norm::Pre, &mut parameters, usize::MAX));
    let transformer = unit(&encode(EncoderKind::Transformer, Norm::Pre, &mut parameters, 64));
    assert!(largest_difference(&bag, &transformer) < 1e-6);
}

#[test]
fn padding_does_not_change_an_embedding() {
    tch::manual_seed(3);
    let mut parameters = Parameters::new(Device::Cpu);
    let together = encode(EncoderKind::Transformer, Norm::Post, &mut parameters, usize::MAX);
    let alone = encode(EncoderKind::Transformer, Norm::Post, &mut parameters, 1);
    assert!(largest_difference(&together, &alone) < 1e-5);
}

#[test]
fn the_order_of_tokens_matters_to_the_transformer() {
    tch::manual_seed(4);
    let mut parameters = Parameters::new(Device::Cpu);
    let config = support::config(EncoderKind::Transformer, Norm::Post, 1);
    encoder::create(&mut parameters, &config.model, support::VOCABULARY, EncoderKind::Transformer);
    let sentence = |ids: &[u16]| Sentence::new(ids.to_vec(), 0);
    let batch = Batch::new(&[(sentence(&[5, 6, 7]), sentence(&[7, 6, 5]))], 64);
    let pass = Pass { kind: EncoderKind::Transformer, dropout: 0.0, bf16: false };
    let embeddings = encoder::encode(&parameters, &config.model, &batch, pass);
    assert!(largest_difference(&embeddings.get(0), &embeddings.get(1)) > 1e-3);
}
