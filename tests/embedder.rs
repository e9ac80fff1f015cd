//! The embedder as its callers see it: the queue with the fake encoder, and the real ONNX session with a tiny model.

#[path = "support/fake_encoder.rs"]
mod fake_encoder;
#[path = "support/tiny_bundle.rs"]
mod tiny_bundle;

use std::collections::HashMap;
use std::sync::Arc;

use dragoman::bundle::{Bundle, Preprocessing, TOKENIZER};
use dragoman::domain::{Device, DeviceChoice, Language, PassageBounds};
use dragoman::embed::{EmbedError, EmbedOptions, Embedder, FakeOptions, Priority};
use dragoman::text::language::head::{Features, LanguageHead};
use dragoman::text::{LanguageDetector, Tokenizer};
use fake_encoder::FakeControl;
use tiny_bundle::BundleOptions;

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn fake(queue_texts_max: usize, batch_tokens_max: usize) -> (Embedder, FakeControl) {
    fake_encoder::start(&FakeOptions { queue_texts_max, batch_tokens_max, ..FakeOptions::of(32) })
}

/// Submits texts from a separate task, after everything submitted so far: waits until they are queued.
async fn submit(embedder: &Embedder, words: &[&str], priority: Priority) -> tokio::task::JoinHandle<Result<usize, EmbedError>> {
    let depth = embedder.queue_depth() + words.len();
    let (embedder_of_task, texts) = (embedder.clone(), texts(words));
    let task = tokio::spawn(async move { Ok(embedder_of_task.embed(texts, priority).await?.len()) });
    while embedder.queue_depth() < depth {
        tokio::task::yield_now().await;
    }
    task
}

/// Blocks the encoder with a first batch, so that everything after it waits.
async fn block_encoder(embedder: &Embedder, control: &FakeControl) -> tokio::task::JoinHandle<()> {
    control.pause();
    let held = embedder.clone();
    let task = tokio::spawn(async move {
        held.embed(texts(&["first"]), Priority::Query).await.expect("the held batch runs in the end");
    });
    let control = control.clone();
    tokio::task::spawn_blocking(move || control.wait_until_blocked()).await.expect("the control waits");
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn embeddings_are_returned_in_the_order_of_the_texts() {
    let (embedder, _control) = fake(1_000, 40);
    let words: Vec<String> = (0..200).map(|n| format!("text{n} {}", "and more ".repeat(n % 7))).collect();
    let together = embedder.embed(words.clone(), Priority::Ingest).await.unwrap();
    for (word, embedded) in words.iter().zip(&together) {
        let alone = embedder.embed(vec![word.clone()], Priority::Query).await.unwrap().remove(0);
        assert_eq!(&alone, embedded, "{word}");
    }
}

#[tokio::test]
async fn a_prepared_text_embeds_like_its_passages() {
    let embedder = Embedder::fake(8);
    for (text, passages) in [("The cat sleeps.".to_owned(), 1), ("Der Hund bellt. ".repeat(12), 3), ("  ".to_owned(), 1)] {
        let bounds = PassageBounds::adjacent(16);
        let prepared = embedder.prepare(None, &text, bounds, true).unwrap();
        assert_eq!(prepared.passages.len(), passages, "{text:?}");
        assert_eq!(prepared.passages, embedder.split(None, &text, bounds).unwrap());
        assert_eq!(prepared.language, embedder.detect(&text));
        let parts: Vec<String> = prepared.passages.iter().map(|span| text[span.range.clone()].to_owned()).collect();
        let by_tokens = embedder.embed_tokens(prepared.tokens, Priority::Ingest).await.unwrap();
        assert_eq!(by_tokens, embedder.embed(parts, Priority::Ingest).await.unwrap(), "{text:?}");
        assert_eq!(embedder.prepare(None, &text, bounds, false).unwrap().language, None);
    }
}

#[tokio::test]
async fn embedding_no_texts_returns_an_empty_list() {
    assert_eq!(Embedder::fake(8).embed(Vec::new(), Priority::Query).await.unwrap(), []);
}

#[tokio::test]
async fn a_blank_text_has_an_embedding_and_a_long_one_is_truncated() {
    let embedder = Embedder::fake(8);
    let embedded = embedder.embed(texts(&["", &"word ".repeat(30)]), Priority::Query).await.unwrap();
    assert_eq!((embedded[0].tokens.len(), embedded[0].truncated), (1, false));
    assert_eq!((embedded[1].tokens.len(), embedded[1].truncated), (16, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_reports_its_depth_and_limit_and_recovers() {
    let (embedder, control) = fake(3, 1_024);
    let first = block_encoder(&embedder, &control).await;
    let waiting = submit(&embedder, &["a", "b"], Priority::Ingest).await;
    assert_eq!(embedder.queue_depth(), 2);
    let refused = embedder.embed(texts(&["c", "d"]), Priority::Query).await;
    assert!(matches!(refused, Err(EmbedError::QueueFull { waiting: 2, limit: 3 })), "{refused:?}");
    let last = submit(&embedder, &["c"], Priority::Query).await;
    control.resume();
    first.await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), 2);
    assert_eq!(last.await.unwrap().unwrap(), 1);
    assert_eq!(embedder.queue_depth(), 0);
}

#[tokio::test]
async fn a_request_larger_than_the_queue_gets_its_own_error() {
    let (embedder, _control) = fake(3, 1_024);
    let refused = embedder.embed(texts(&["a", "b", "c", "d"]), Priority::Ingest).await.unwrap_err();
    assert_eq!(refused.to_string(), "a request sent 4 texts at once, but the embedding queue takes at most 3");
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_overtake_earlier_bulk_work() {
    let (embedder, control) = fake(100, 6);
    let first = block_encoder(&embedder, &control).await;
    let bulk = submit(&embedder, &["one two three", "one two three"], Priority::Ingest).await;
    let query = submit(&embedder, &["hello"], Priority::Query).await;
    control.resume();
    for task in [bulk, query] {
        task.await.unwrap().unwrap();
    }
    first.await.unwrap();
    assert_eq!(control.batches(), [vec![1], vec![1], vec![3, 3]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_work_is_not_starved_by_queries() {
    let (embedder, control) = fake(100, 2);
    let first = block_encoder(&embedder, &control).await;
    let bulk = submit(&embedder, &["one two"], Priority::Ingest).await;
    let queries = submit(&embedder, &["q"; 20], Priority::Query).await;
    control.resume();
    bulk.await.unwrap().unwrap();
    queries.await.unwrap().unwrap();
    first.await.unwrap();
    // The blocked batch and three batches of queries, then the bulk text.
    assert_eq!(control.batches()[4], [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_texts_are_batched_by_length_within_the_token_budget() {
    let (embedder, control) = fake(100, 8);
    let first = block_encoder(&embedder, &control).await;
    let many = submit(&embedder, &["a b c d", "a", "a b c d", "a", "a b"], Priority::Ingest).await;
    control.resume();
    many.await.unwrap().unwrap();
    first.await.unwrap();
    assert_eq!(control.batches(), [vec![1], vec![1, 1, 2], vec![4, 4]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_batch_fails_only_its_own_texts() {
    let (embedder, control) = fake(100, 2);
    control.fail_on("bad");
    let first = block_encoder(&embedder, &control).await;
    let bad = submit(&embedder, &["so bad"], Priority::Query).await;
    let good = submit(&embedder, &["so good"], Priority::Query).await;
    control.resume();
    first.await.unwrap();
    assert!(matches!(bad.await.unwrap(), Err(EmbedError::Forward { texts: 1, .. })));
    assert_eq!(good.await.unwrap().unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encoder_panic_returns_an_error_and_the_next_text_succeeds() {
    let (embedder, control) = fake(100, 1_024);
    control.panic_on("boom");
    let error = embedder.embed(texts(&["boom"]), Priority::Query).await.unwrap_err();
    assert_eq!(error.to_string(), "the encoder panicked: the fake encoder was told to panic");
    assert_eq!(embedder.embed(texts(&["calm"]), Priority::Query).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_a_canceled_request_are_not_encoded() {
    let (embedder, control) = fake(100, 1_024);
    let first = block_encoder(&embedder, &control).await;
    let gone = submit(&embedder, &["never mind", "me"], Priority::Ingest).await;
    let stays = submit(&embedder, &["still here now"], Priority::Ingest).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    control.resume();
    first.await.unwrap();
    stays.await.unwrap().unwrap();
    assert_eq!(control.batches(), [vec![1], vec![3]]);
    assert_eq!(embedder.queue_depth(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_fails_waiting_requests_and_refuses_new_ones() {
    let (embedder, control) = fake(100, 1_024);
    let first = block_encoder(&embedder, &control).await;
    let waiting = submit(&embedder, &["a"], Priority::Ingest).await;
    embedder.stop();
    assert!(matches!(waiting.await.unwrap(), Err(EmbedError::Stopping)));
    assert!(matches!(embedder.embed(texts(&["b"]), Priority::Query).await, Err(EmbedError::Stopping)));
    control.resume();
    first.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_callers_get_the_embeddings_of_their_own_texts() {
    let (embedder, _control) = fake(10_000, 64);
    // The same encoder with a single caller.
    let (alone, _control_of_alone) = fake(10_000, 64);
    let mut expected = HashMap::new();
    for word in (0..64).flat_map(|caller| (0..20).map(move |turn| format!("caller{caller} turn{turn}"))) {
        let embedded = alone.embed(vec![word.clone()], Priority::Query).await.unwrap().remove(0);
        expected.insert(word, embedded.embedding);
    }
    let (embedder, expected) = (Arc::new(embedder), Arc::new(expected));
    let tasks: Vec<_> = (0..64)
        .map(|caller| {
            let (embedder, expected) = (Arc::clone(&embedder), Arc::clone(&expected));
            tokio::spawn(async move {
                for turn in 0..20 {
                    let word = format!("caller{caller} turn{turn}");
                    let priority = if turn % 2 == 0 { Priority::Query } else { Priority::Ingest };
                    let pair = embedder.embed(vec![word.clone(), word.clone()], priority).await.unwrap();
                    assert_eq!([&pair[0].embedding, &pair[1].embedding], [&expected[&word]; 2], "{word}");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

fn cpu() -> EmbedOptions {
    EmbedOptions { device: DeviceChoice::Cpu, threads: 1, batch_tokens_max: 64, queue_texts_max: 100 }
}

fn tiny(shape: &BundleOptions, options: &EmbedOptions) -> Result<Embedder, EmbedError> {
    let folder = tempfile::tempdir().expect("a folder");
    Embedder::start(&tiny_bundle::write(folder.path(), shape), options)
}

/// Checks the tiny model's embedding of a text, alone and batched with a longer text.
async fn check(text: &str, expect: [f32; 4]) {
    let embedder = tiny(&BundleOptions::default(), &cpu()).expect("the tiny bundle starts");
    let alone = embedder.embed(texts(&[text]), Priority::Query).await.expect("the text is embedded");
    let padded = embedder.embed(texts(&[text, "up up up up up"]), Priority::Query).await.expect("the texts are embedded");
    for embedded in [&alone[0], &padded[0]] {
        for (got, expect) in embedded.embedding.as_slice().iter().zip(expect) {
            assert!((got - expect).abs() < 1e-6, "{text:?} gives {:?}", embedded.embedding);
        }
    }
}

#[tokio::test]
async fn embeddings_have_unit_length_and_ignore_padding() {
    let half = 0.5f32.sqrt();
    check("north", [1.0, 0.0, 0.0, 0.0]).await;
    check("north east", [half, half, 0.0, 0.0]).await;
    check("north north south elsewhere", [half, 0.0, 0.0, half]).await;
}

#[tokio::test]
async fn a_text_without_a_finite_embedding_fails_alone() {
    let embedder = tiny(&BundleOptions::default(), &cpu()).unwrap();
    for bad in ["nowhere", "north south"] {
        let (failed, fine) =
            tokio::join!(embedder.embed(texts(&[bad]), Priority::Query), embedder.embed(texts(&["east up"]), Priority::Query));
        assert!(matches!(failed, Err(EmbedError::NotFinite)), "{bad}");
        assert!(fine.is_ok());
    }
}

#[tokio::test]
async fn tokens_are_counted_and_truncated_at_the_models_limit() {
    let embedder = tiny(&BundleOptions::default(), &cpu()).unwrap();
    let embedded = embedder.embed(texts(&["north east", &"up ".repeat(9)]), Priority::Ingest).await.unwrap();
    assert_eq!((embedded[0].tokens.len(), embedded[0].truncated), (2, false));
    assert_eq!((embedded[1].tokens.len(), embedded[1].truncated), (8, true));
}

#[test]
fn the_model_card_comes_from_the_manifest() {
    let embedder = tiny(&BundleOptions::default(), &cpu()).unwrap();
    let model = embedder.model();
    assert_eq!((model.name.as_str(), model.version.as_str(), model.dimension, model.tokens_max), ("tiny", "1.0.0", 4, 8));
    assert_eq!((model.device, model.device_note.clone()), (Device::Cpu, None));
    assert_eq!(model.quality, [("made_up".to_owned(), 0.5)]);
    assert_eq!(model.fingerprint.len(), 64);
}

#[tokio::test]
async fn texts_are_preprocessed_if_the_bundle_asks_for_it() {
    let text = "NORTH,EAST";
    let (plain, prepared) =
        (BundleOptions::default(), BundleOptions { preprocessing: Some(Preprocessing::MosesJieba), ..BundleOptions::default() });
    for (shape, expect) in [(plain, [0.0, 0.0, 0.0, 1.0]), (prepared, [1.0, 1.0, 0.0, 1.0].map(|value: f32| value / 3f32.sqrt()))]
    {
        let embedder = tiny(&shape, &cpu()).unwrap();
        let embedded = embedder.embed(texts(&[text]), Priority::Query).await.unwrap().remove(0);
        for (got, expect) in embedded.embedding.as_slice().iter().zip(expect) {
            assert!((got - expect).abs() < 1e-6, "{:?}", embedded.embedding);
        }
        // Nine tokens, of which the model reads eight; split at the original text's positions. The last token alone would be
        // too short.
        let long = "UP NORTH! Up East, South. NORTH";
        let passages = embedder.split(None, long, PassageBounds::adjacent(usize::MAX)).unwrap();
        let cut: Vec<&str> = passages.iter().map(|span| &long[span.range.clone()]).collect();
        assert_eq!(cut, ["UP NORTH!", "Up East, South. NORTH"]);
    }
}

#[test]
fn preprocessing_is_part_of_the_fingerprint() {
    let prepared = BundleOptions { preprocessing: Some(Preprocessing::MosesJieba), ..BundleOptions::default() };
    let fingerprints =
        [BundleOptions::default(), prepared].map(|shape| tiny(&shape, &cpu()).unwrap().model().fingerprint.clone());
    assert_ne!(fingerprints[0], fingerprints[1]);
}

#[test]
fn unknown_preprocessing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    tiny_bundle::write(
        folder.path(),
        &BundleOptions { preprocessing: Some(Preprocessing::MosesJieba), ..BundleOptions::default() },
    );
    let path = folder.path().join("manifest.json");
    let manifest = std::fs::read_to_string(&path).unwrap().replace("moses-jieba", "stemming");
    std::fs::write(&path, manifest).unwrap();
    let error = Bundle::open(folder.path()).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("unknown variant `stemming`, expected `moses-jieba`"), "{cause}");
}

#[test]
fn auto_falls_back_to_the_cpu_without_fp16_weights_and_says_why() {
    let embedder = tiny(&BundleOptions::default(), &EmbedOptions { device: DeviceChoice::Auto, ..cpu() }).unwrap();
    assert_eq!(embedder.model().device, Device::Cpu);
    assert_eq!(embedder.model().device_note.as_deref(), Some("not on CUDA: the bundle has no model.fp16.onnx"));
}

#[test]
fn a_cuda_device_is_refused_without_fp16_weights() {
    let error = tiny(&BundleOptions::default(), &EmbedOptions { device: DeviceChoice::Cuda(1), ..cpu() }).unwrap_err();
    assert_eq!(error.to_string(), "cannot run on cuda:1: the bundle has no model.fp16.onnx");
}

#[test]
fn a_model_with_unexpected_inputs_or_outputs_is_refused() {
    for (shape, expect) in [
        (
            BundleOptions { input: "ids", ..BundleOptions::default() },
            "the model has the inputs [\"ids\", \"attention_mask\"], but a bundle's encoder needs an input input_ids",
        ),
        (
            BundleOptions { output: "pooled", ..BundleOptions::default() },
            "the model has the outputs [\"pooled\"], but a bundle's encoder needs an output sentence_embedding",
        ),
        (
            BundleOptions { manifest_dimension: 5, ..BundleOptions::default() },
            "a bundle's encoder needs an output sentence_embedding: f32 [batch, 5]",
        ),
    ] {
        let error = tiny(&shape, &cpu()).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
}

#[test]
fn invalid_weights_are_refused_with_their_path() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = tiny_bundle::write(folder.path(), &BundleOptions::default());
    std::fs::write(folder.path().join("model.onnx"), b"no model").unwrap();
    let error = Embedder::start(&bundle, &cpu()).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot load the model {}", folder.path().join("model.onnx").display()));
}

#[tokio::test]
async fn files_of_the_model_that_change_in_place_do_not_change_embeddings() {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir("models/ems-small").unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let embedder = Embedder::start(&Bundle::open(folder.path()).unwrap(), &cpu()).unwrap();
    let embed = async || embedder.embed(texts(&["The ferry leaves at noon."]), Priority::Ingest).await.unwrap().remove(0);
    let before = embed().await.embedding;
    for bytes in [vec![0; 15 << 20], Vec::new()] {
        for file in ["tokens.safetensors", "model.onnx"] {
            std::fs::write(folder.path().join(file), &bytes).unwrap();
        }
        assert_eq!(embed().await.embedding, before, "{} bytes", bytes.len());
    }
}

#[test]
fn files_of_the_model_that_changed_since_they_were_verified_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = tiny_bundle::write(folder.path(), &BundleOptions::default());
    let path = folder.path().join("model.onnx");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.push(0);
    std::fs::write(&path, bytes).unwrap();
    let EmbedError::Model { source, .. } = Embedder::start(&bundle, &cpu()).unwrap_err() else { panic!("another error") };
    assert!(source.to_string().contains("model.onnx"), "{source}");
}

/// A language head for the tiny tokenizer: "up" is Swahili, and no other token counts.
fn language_head(tokenizer: &Tokenizer) -> LanguageHead {
    let features = Features::new(tokenizer, 1);
    let up = tiny_bundle::TABLE.iter().position(|(token, _)| *token == "up").unwrap();
    let (mut scales, mut weights) = (vec![0.0; features.rows()], vec![0; 2 * features.rows()]);
    scales[up] = 1.0;
    weights[2 * up] = 3;
    let languages = ["sw", "vi"].into_iter().filter_map(Language::parse).collect();
    LanguageHead { languages, exponent: 0.5, temperature: 1.0, features, scales, weights }
}

#[tokio::test]
async fn queries_use_the_query_encoder_if_the_bundle_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = tiny_bundle::write(folder.path(), &BundleOptions::default());
    let alike = Embedder::start(&bundle, &cpu()).unwrap();
    let bundle_with = tiny_bundle::add_query_encoder(&bundle);
    let apart = Embedder::start(&bundle_with, &cpu()).unwrap();
    assert_eq!(alike.model().fingerprint, apart.model().fingerprint, "a query encoder does not change the fingerprint");
    for (embedder, as_query) in [(alike, [1.0, 0.0, 0.0, 0.0]), (apart, [0.0, 1.0, 0.0, 0.0])] {
        let passage = embedder.embed(texts(&["north"]), Priority::Query).await.unwrap().remove(0);
        let query = embedder.embed_queries(texts(&["north"]), Priority::Query).await.unwrap().remove(0);
        assert_eq!(passage.embedding.as_slice(), [1.0, 0.0, 0.0, 0.0]);
        assert_eq!(query.embedding.as_slice(), as_query);
    }
}

#[test]
fn a_bundle_with_a_language_head_detects_languages_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = tiny_bundle::write(folder.path(), &BundleOptions::default());
    let head = language_head(&Tokenizer::load(&bundle.path(TOKENIZER)).unwrap());
    let bundle = tiny_bundle::add_language_head(&bundle, &head.to_bytes());
    let embedder = Embedder::start(&bundle, &cpu()).unwrap();
    // Scores 3 and 0: e^3 / (e^3 + 1) = 0.95257.
    let found = embedder.detect("up").unwrap();
    assert_eq!(found.language.code(), "sw");
    assert!((found.confidence - 0.952_57).abs() < 1e-4, "{}", found.confidence);
    assert_eq!(embedder.detect("north"), None);
}

#[test]
fn a_bundle_without_a_language_head_detects_languages_by_rules() {
    let embedder = tiny(&BundleOptions::default(), &cpu()).unwrap();
    let text = "Der Zug nach Hamburg kommt heute eine halbe Stunde später an.";
    assert_eq!(embedder.detect(text), LanguageDetector::by_rules().detect(text));
    assert_eq!(embedder.detect(text).map(|found| found.language.code()), Some("de"));
}

#[test]
fn an_invalid_language_head_is_refused_with_its_path_and_cause() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = tiny_bundle::write(folder.path(), &BundleOptions::default());
    let whole = language_head(&Tokenizer::load(&bundle.path(TOKENIZER)).unwrap()).to_bytes();
    let mut other = language_head(&Tokenizer::load(&bundle.path(TOKENIZER)).unwrap());
    other.features.kinds.pop();
    other.features.pairs = 2;
    for (bytes, expect) in [
        (&b"no head"[..], "it does not begin with the mark of a language head"),
        (&whole[..whole.len() - 1], "bytes, got"),
        (&other.to_bytes()[..], "expected a row for each of the tokenizer's 6 tokens, got 5 rows"),
    ] {
        let error = Embedder::start(&tiny_bundle::add_language_head(&bundle, bytes), &cpu()).unwrap_err();
        let text = error.to_string();
        let path = folder.path().join("language.head");
        assert!(text.starts_with(&format!("cannot use the language head {}: ", path.display())), "{text}");
        assert!(text.contains(expect), "{text}");
    }
}
