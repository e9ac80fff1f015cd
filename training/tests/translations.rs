//! A translation table: learned from parallel text, added to a bundle, and read as by the server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;
#[path = "support/untrained.rs"]
mod untrained;

use std::path::PathBuf;

use dragoman::bundle::{Bundle, MODEL_CARD, TRANSLATIONS};
use dragoman::domain::{PassageId, RelevanceWeights};
use dragoman::ranking::{Translations, WordIndex};
use dragoman::text::query_words::query_words;
use dragoman::text::word_counts::word_counts;
use dragoman_training::config::{EncoderKind, Norm};
use dragoman_training::export::NewBundle;
use dragoman_training::export::translations::{TranslationOptions, add_translations};
use dragoman_training::translations::{Sources, learn};
use untrained::Model;

/// A folder of parallel text in German, French and English.
fn text(folder: PathBuf) -> PathBuf {
    std::fs::create_dir_all(&folder).unwrap();
    let lines = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| format!("{a}\t{b}\n")).collect::<String>().repeat(3);
    let german = [("das Boot", "the boat"), ("das Haus", "the house"), ("ein Haus", "a house"), ("ein Boot", "a boat")];
    let french = [("le bateau", "the boat"), ("la maison", "the house"), ("une maison", "a house"), ("un bateau", "a boat")];
    std::fs::write(folder.join("some.de-en.tsv"), lines(&german)).unwrap();
    std::fs::write(folder.join("other.en-fr.tsv"), lines(&french.map(|(a, b)| (b, a)))).unwrap();
    folder
}

fn sources(raw: PathBuf) -> Sources {
    let (words, texts, exclude) = Default::default();
    Sources { raw: vec![raw], words, texts, exclude, pairs_max: 100, corpus_pairs_max: 100, words_max: 100 }
}

#[test]
fn words_of_two_languages_match_through_english() {
    let folder = tempfile::tempdir().unwrap();
    let table = learn(&sources(text(folder.path().join("raw")))).unwrap();
    let mut index = WordIndex::default();
    for (passage, text) in [(1, "La maison est vieille"), (2, "Le bateau est vieux"), (3, "Un arbre")] {
        index.insert(PassageId(passage), &word_counts(text, |word| table.has(word)), &table);
    }
    let found = index.nearest(
        &index.scores(&query_words("Wo ist das Boot?", &[], |word| table.has(word), |_| 0), None, &table),
        3,
        |_| true,
    );
    assert_eq!(found.first().map(|(passage, _)| *passage), Some(PassageId(2)), "{found:?}");
}

#[test]
fn a_folder_without_parallel_text_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = learn(&sources(folder.path().to_owned())).unwrap_err().to_string();
    assert!(error.contains(&folder.path().display().to_string()), "{error}");
}

#[test]
fn adding_a_translation_table_keeps_the_embeddings() {
    let model = Model::new(EncoderKind::Transformer, Norm::Pre);
    let before = model.export().unwrap().bundle;
    let table = model.path("translations.safetensors");
    learn(&sources(text(model.path("parallel")))).unwrap().write(&table).unwrap();
    let relevance = RelevanceWeights { translated: 2.5, ..RelevanceWeights::default() };
    std::fs::write(model.path("relevance.json"), serde_json::to_string(&relevance).unwrap()).unwrap();
    std::fs::write(model.path("notes.md"), "Learned for a test.").unwrap();
    let new_bundle = NewBundle {
        bundle_version: "0.3.0".to_owned(),
        out: model.path("models/translating"),
        relevance: Some(model.path("relevance.json")),
        notes: Some(model.path("notes.md")),
    };
    let options = TranslationOptions { bundle: before.folder.clone(), translations: table.clone(), new_bundle };
    add_translations(&options).unwrap();
    let after = Bundle::open(&options.new_bundle.out).unwrap();
    assert_eq!((after.fingerprint(), after.manifest.version.as_str()), (before.fingerprint(), "0.3.0"));
    assert_eq!(after.manifest.relevance, Some(relevance));
    assert_eq!(Translations::read(&after.path(TRANSLATIONS)).unwrap(), Translations::read(&table).unwrap());
    let card = std::fs::read_to_string(after.path(MODEL_CARD)).unwrap();
    assert!(card.starts_with("# tiny 0.3.0\n") && card.contains("Learned for a test."), "{card}");
}
