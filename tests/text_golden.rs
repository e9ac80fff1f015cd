//! For its golden texts, the shipped bundle produces exactly the expected token ids, and embeddings within a tolerance. So the
//! text pipeline and the weights are the ones that were measured.

use std::path::Path;

use dragoman::bundle::{Bundle, GOLDEN, GoldenText, TOKENIZER};
use dragoman::domain::{DeviceChoice, Language};
use dragoman::embed::{EmbedOptions, Embedder, Priority};
use dragoman::text::Tokenizer;

/// Largest allowed difference of one value on a CPU. Kernels on another processor may round differently, and then an activation
/// moves by a whole int8 step.
const CPU_ABSOLUTE_ERROR_MAX: f32 = 0.01;

fn golden() -> (Bundle, Vec<GoldenText>) {
    let bundle = Bundle::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("models/ems-small")).unwrap();
    let golden = serde_json::from_slice(&std::fs::read(bundle.path(GOLDEN)).unwrap()).unwrap();
    (bundle, golden)
}

#[test]
fn every_language_has_a_golden_text() {
    let (_, golden) = golden();
    for language in Language::all() {
        assert!(golden.iter().any(|text| text.language == language.code()), "{language} has none");
    }
}

#[test]
fn token_ids_match_the_golden_texts() {
    let (bundle, golden) = golden();
    let tokenizer = Tokenizer::load(&bundle.path(TOKENIZER)).unwrap();
    for text in golden {
        let tokens = tokenizer.encode(&text.text, bundle.manifest.tokens_max).unwrap();
        assert_eq!(tokens.ids, text.ids, "{}: {}", text.language, text.text);
    }
}

#[tokio::test]
async fn embeddings_match_the_golden_texts_alone_and_in_a_batch() {
    let (bundle, golden) = golden();
    let options = EmbedOptions { device: DeviceChoice::Cpu, threads: 1, batch_tokens_max: 2_048, queue_texts_max: 1_000 };
    let embedder = Embedder::start(&bundle, &options).unwrap();
    let texts: Vec<String> = golden.iter().map(|text| text.text.clone()).collect();
    let together = embedder.embed(texts, Priority::Ingest).await.unwrap();
    for (text, in_batch) in golden.iter().zip(together) {
        let alone = embedder.embed(vec![text.text.clone()], Priority::Query).await.unwrap().remove(0);
        for embedded in [&alone, &in_batch] {
            for (got, expect) in embedded.embedding.as_slice().iter().zip(&text.embedding_head) {
                let error = (got - expect).abs();
                assert!(error <= CPU_ABSOLUTE_ERROR_MAX, "{}: {} is off by {error}", text.language, text.text);
            }
        }
        assert!(alone.embedding.cosine(&in_batch.embedding) > 0.999, "{}: {}", text.language, text.text);
    }
}
