//! Recall@10 of searches that compare signs and integers, on embeddings of real text: sentences from the judged pages in twelve
//! languages, and the queries judged with them.
//!
//! The embedding of a passage of several sentences is close to the mean of the sentence embeddings. So three random sentences
//! of one language make a passage, and a few thousand sentences yield as many passages as needed.

#[path = "bench/clusters.rs"]
mod clusters;
#[path = "bench/passages.rs"]
mod passages;

use std::collections::BTreeMap;
use std::path::Path;

use clusters::Random;
use dragoman::bundle::Bundle;
use dragoman::domain::{DeviceChoice, Embedding, Metric, PassageId, Quantization};
use dragoman::embed::{EmbedOptions, Embedder, Priority};
use dragoman::index::{Among, Index, IndexParameters, search_exact};
use passages::SENTENCES;

/// Enough that candidates are chosen by their signs.
const PASSAGES: usize = 12_000;
const QUESTIONS: usize = 30;
const LIMIT: usize = 10;
const RECALL_MIN: f64 = 0.99;

struct Passages {
    index: Index,
    passages: Vec<(PassageId, Embedding)>,
    languages: Vec<String>,
    questions: Vec<Embedding>,
}

/// Embeds the sentences of each language, and the queries.
fn embedded() -> (BTreeMap<String, Vec<Embedding>>, Vec<Embedding>) {
    let bundle = Bundle::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("models/ems-small")).unwrap();
    let options = EmbedOptions { device: DeviceChoice::Cpu, threads: 0, batch_tokens_max: 4_096, queue_texts_max: 10_000 };
    let embedder = Embedder::start(&bundle, &options).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let embed = |texts| runtime.block_on(embedder.embed(texts, Priority::Ingest)).unwrap();
    let embed = |texts| embed(texts).into_iter().map(|embedded| embedded.embedding).collect::<Vec<_>>();
    let sentences = passages::sentences().into_iter().map(|(language, texts)| (language, embed(texts))).collect();
    let questions = passages::questions(usize::MAX);
    let step = questions.len() / QUESTIONS;
    let questions = questions.into_iter().step_by(step).collect();
    let questions = runtime.block_on(embedder.embed_queries(questions, Priority::Query)).unwrap();
    (sentences, questions.into_iter().map(|embedded| embedded.embedding).collect())
}

fn passages() -> Passages {
    let (sentences, questions) = embedded();
    let sentences: Vec<(String, Vec<Embedding>)> = sentences.into_iter().collect();
    let mut random = Random(17);
    let (mut passages, mut languages) = (Vec::new(), Vec::new());
    for key in 0..PASSAGES as u64 {
        let (language, sentences) = &sentences[random.below(sentences.len())];
        let mut sum = vec![0.0; questions[0].dimension()];
        for _ in 0..SENTENCES {
            sum.iter_mut().zip(sentences[random.below(sentences.len())].as_slice()).for_each(|(sum, value)| *sum += value);
        }
        passages.push((PassageId(key), Embedding::normalized(sum).unwrap()));
        languages.push(language.clone());
    }
    let parameters = IndexParameters::new(questions[0].dimension(), Metric::Cosine, Quantization::I8);
    let index = Index::create(&parameters).unwrap();
    index.add_all(&passages).unwrap();
    Passages { index, passages, languages, questions }
}

impl Passages {
    /// The share of the exact nearest accepted passages that a scan finds.
    fn recall(&self, accept: impl Fn(usize) -> bool) -> f64 {
        let (mut hits, mut all) = (0, 0);
        for question in &self.questions {
            let accepted = self.passages.iter().filter(|(key, _)| accept(key.0 as usize)).map(|(key, own)| (*key, own));
            let exact = search_exact(Metric::Cosine, accepted, question, LIMIT);
            let accept = |passage: PassageId| accept(passage.0 as usize);
            let found = self.index.scan(question, 4 * LIMIT, Among::Where(&accept)).unwrap().unwrap();
            // As in the service: quantized values select candidates, full values rank them.
            let named = found.iter().map(|neighbor| (neighbor.passage, &self.passages[neighbor.passage.0 as usize].1));
            let found = search_exact(Metric::Cosine, named, question, LIMIT);
            hits += exact.iter().filter(|exact| found.iter().any(|found| found.passage == exact.passage)).count();
            all += exact.len();
        }
        hits as f64 / all as f64
    }

    #[track_caller]
    fn check(&self, what: &str, accept: impl Fn(usize) -> bool) {
        let recall = self.recall(accept);
        println!("{what}: recall@{LIMIT} {recall:.4}");
        assert!(recall >= RECALL_MIN, "{what}: recall@{LIMIT} is {recall:.4}");
    }
}

#[test]
fn scans_find_the_nearest_passages_at_any_filter_selectivity() {
    let mut passages = passages();
    passages.check("no filter", |_| true);
    for part in [2, 10, 100, 1_000] {
        passages.check(&format!("1/{part}"), |passage| passage % part == 0);
    }
    let language = passages.languages[0].clone();
    passages.check("one language", |passage| passages.languages[passage] == language);
    passages.check("all but one language", |passage| passages.languages[passage] != language);

    // Half of the passages swap places, and a tenth is removed.
    for place in 0..PASSAGES / 4 {
        let other = PASSAGES - 1 - place;
        let (one, two) = (passages.passages[place].1.clone(), passages.passages[other].1.clone());
        passages.index.add(PassageId(place as u64), &two).unwrap();
        passages.index.add(PassageId(other as u64), &one).unwrap();
        (passages.passages[place].1, passages.passages[other].1) = (two, one);
    }
    for gone in (0..PASSAGES as u64).step_by(10) {
        assert!(passages.index.remove(PassageId(gone)).unwrap());
    }
    passages.passages.iter_mut().step_by(10).for_each(|(key, _)| *key = PassageId(u64::MAX));
    let left = |passage: usize| passage < PASSAGES && !passage.is_multiple_of(10);
    passages.check("after changes", left);
}
