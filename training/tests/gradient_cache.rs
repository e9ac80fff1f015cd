//! A gradient cache changes what a step keeps in memory, but not its gradient.

mod support;

use std::collections::BTreeMap;

use dragoman_training::config::*;
use dragoman_training::data::batch::Batch;
use dragoman_training::data::masking;
use dragoman_training::data::sampler::{Sampler, SamplingTools};
use dragoman_training::model::parameters::Parameters;
use dragoman_training::train::forward::{self, Forward};
use dragoman_training::train::teachers::Teachers;
use tch::{Device, Kind, Tensor};

/// The total loss and the gradients of one step with dropout, five sentences per group.
fn gradients(cached: bool, change: impl Fn(&mut StageConfig)) -> (f64, BTreeMap<String, Tensor>) {
    let folder = tempfile::tempdir().unwrap();
    support::write_shard(folder.path());
    let mut config = support::config(EncoderKind::Transformer, Norm::Post, 1);
    let stage = &mut config.stages[0];
    (stage.dropout, stage.gradient_cache) = (0.2, cached);
    change(stage);
    config.check().unwrap();
    let stage = &config.stages[0];
    let pairs = Sampler::open(&config, folder.path()).unwrap().batch(0, stage, SamplingTools::default());
    let batch = match stage.masks_words() {
        true => Batch::masked(&pairs, 5, &masking::draw(1, 0, &pairs, 16)).with_targets(&pairs),
        false => Batch::new(&pairs, 5).with_interaction(&pairs, 12),
    };
    tch::manual_seed(1);
    let mut parameters = Parameters::new(Device::Cpu);
    let teachers = Teachers::default();
    forward::create(&mut parameters, &config, stage, support::VOCABULARY, &teachers);
    let forward = Forward { parameters: &parameters, model: &config.model, stage, teachers: &teachers };
    let backward = forward.backward(&batch, 4);
    let mut named: BTreeMap<String, Tensor> =
        parameters.iter().map(|(name, weight)| (name.to_owned(), weight.grad())).filter(|(_, grad)| grad.defined()).collect();
    named.extend(backward.tables.into_iter().map(|rows| (format!("rows of {}", rows.table), rows.values)));
    (backward.terms.total().double_value(&[]), named)
}

fn check(change: impl Fn(&mut StageConfig)) {
    let ((loss, expect), (cached_loss, got)) = (gradients(false, &change), gradients(true, &change));
    assert_eq!(loss, cached_loss);
    assert_eq!(expect.keys().collect::<Vec<_>>(), got.keys().collect::<Vec<_>>());
    for (name, expect) in &expect {
        let norm = |tensor: &Tensor| tensor.norm().to_kind(Kind::Double).double_value(&[]);
        let (difference, size) = (norm(&(expect - &got[name])), norm(expect));
        // Sums over groups are taken in another order; nothing else may differ.
        assert!(difference <= 1e-5 * size + 1e-7, "{name}: gradient of size {size} differs by {difference}");
        // The bias of the keys does not affect the attention's softmax, so its gradient is only rounding error, or exactly 0.
        assert!(size > 0.0 || name.ends_with(".attention.key.bias"), "the gradient of {name} is 0");
    }
}

/// libtorch has one random generator per process, so all objectives are tested one after the other.
#[test]
fn a_gradient_cache_does_not_change_the_gradient() {
    check(|_| {});
    check(|stage| {
        stage.late_interaction = Some(LateInteractionConfig { weight: 1.0, temperature: 0.1, pairs_max: 12, own_table: false })
    });
    check(|stage| {
        stage.late_interaction = Some(LateInteractionConfig { weight: 1.0, temperature: 0.1, pairs_max: 12, own_table: true })
    });
    check(|stage| {
        stage.contrastive.as_mut().unwrap().projection = true;
        stage.unified_generative = Some(ObjectiveConfig { weight: 1.0 });
        stage.vocabulary_head = Some(VocabularyHeadConfig { pairs_max: 12, language_token: true, shared_embedding: true });
    });
}
