//! The language head, from text to file, on a few sentences written for this test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use dragoman::domain::Language;
use dragoman::text::language::head::{Features, LanguageHead};
use dragoman::text::{LanguageDetector, Tokenizer};
use dragoman_training::config::Config;
use dragoman_training::data;
use dragoman_training::language::examples::{Examples, Selection};
use dragoman_training::language::fit::{FitOptions, Weights};
use dragoman_training::language::{quantize, train};

const GERMAN: &[&str] = &[
    "Der Hund schläft unter dem alten Tisch.",
    "Wir trinken am Morgen immer eine Tasse Kaffee.",
    "Die Kinder spielen nach der Schule im Garten.",
    "Morgen fahren wir mit dem Zug in die Stadt.",
    "Ich habe das Buch schon zweimal gelesen.",
    "Das Wetter wird am Wochenende wieder schön.",
    "Meine Schwester wohnt in einem kleinen Dorf.",
    "Er hat vergessen, die Tür zu schließen.",
    "Wo ist der Schlüssel für das Fahrrad?",
    "Sie kocht heute eine Suppe mit vielen Kartoffeln.",
];

const FINNISH: &[&str] = &[
    "Koira nukkuu vanhan pöydän alla.",
    "Juomme aamulla aina kupin kahvia.",
    "Lapset leikkivät koulun jälkeen puutarhassa.",
    "Huomenna menemme junalla kaupunkiin.",
    "Olen lukenut kirjan jo kahdesti.",
    "Viikonloppuna sää on taas kaunis.",
    "Sisareni asuu pienessä kylässä.",
    "Hän unohti sulkea oven.",
    "Missä on polkupyörän avain?",
    "Hän keittää tänään perunakeittoa.",
];

const RUSSIAN: &[&str] = &[
    "Собака спит под старым столом.",
    "Утром мы всегда пьём чашку кофе.",
    "Дети играют после школы в саду.",
    "Завтра мы поедем в город на поезде.",
    "Я уже дважды прочитал эту книгу.",
    "В выходные погода снова будет хорошей.",
    "Моя сестра живёт в маленькой деревне.",
    "Он забыл закрыть дверь.",
    "Где ключ от велосипеда?",
    "Сегодня она варит суп с картошкой.",
];

fn language(code: &str) -> Language {
    Language::parse(code).unwrap()
}

fn config() -> Config {
    let mut config: Config = toml::from_str(include_str!("../configs/smoke.toml")).unwrap();
    config.tokenizer.vocabulary = 300;
    config
}

/// Writes the sentences as an aligned corpus, and trains a tokenizer on them.
fn write(folder: &Path) -> Tokenizer {
    for (code, sentences) in [("de", GERMAN), ("fi", FINNISH), ("ru", RUSSIAN)] {
        std::fs::create_dir_all(folder.join("raw")).unwrap();
        std::fs::write(folder.join(format!("raw/own.{code}.txt")), sentences.join("\n")).unwrap();
    }
    data::tokenizer::train(&config(), &folder.join("raw"), &folder.join("tokenizer.json")).unwrap();
    Tokenizer::load(&folder.join("tokenizer.json")).unwrap()
}

fn read(folder: &Path, tokenizer: &Tokenizer, exclude: &[std::path::PathBuf]) -> Examples {
    let selection = Selection { raw: &folder.join("raw"), exclude, hold_out: &[], per_corpus: 100, per_language: 100 };
    Examples::read(&selection, tokenizer, &Features::new(tokenizer, 64), |_| 1.0).unwrap()
}

fn options() -> FitOptions {
    FitOptions { epochs: 3, per_epoch: 300, per_epoch_first: 50, ..FitOptions::default() }
}

#[test]
fn a_head_trained_on_thirty_sentences_recognizes_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = write(folder.path());
    let trained = train(&read(folder.path(), &tokenizer, &[]), &Features::new(&tokenizer, 64), &options());
    let head = LanguageHead::from_bytes(&trained.head.to_bytes()).unwrap();
    let detector = LanguageDetector::with_head(head, tokenizer).unwrap();
    for (code, text) in [
        ("de", "Die Schwester schläft im Garten."),
        ("de", "Wo ist das Buch?"),
        ("fi", "Lapset menemme kaupunkiin."),
        ("fi", "Missä koira on?"),
        ("ru", "Где спит собака?"),
        ("ru", "Дети поедут в деревню."),
    ] {
        let found = detector.detect(text).unwrap();
        assert_eq!(found.language, language(code), "{text}");
        assert!(found.confidence > 0.5 && found.confidence <= 1.0, "{text}: {}", found.confidence);
    }
    assert_eq!(detector.detect("12345"), None);
}

#[test]
fn training_twice_gives_the_same_head() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = write(folder.path());
    let head = || train(&read(folder.path(), &tokenizer, &[]), &Features::new(&tokenizer, 64), &options()).head.to_bytes();
    assert!(head() == head());
}

#[test]
fn evaluation_texts_and_untranslated_lines_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = write(folder.path());
    let count = |examples: &Examples, code: &str| {
        let all = examples.train.iter().chain(&examples.held_out);
        all.filter(|example| example.language == language(code)).count()
    };
    assert_eq!(count(&read(folder.path(), &tokenizer, &[]), "de"), 10);
    let dev = folder.path().join("dev");
    std::fs::create_dir(&dev).unwrap();
    std::fs::write(dev.join("asked.txt"), format!("{}\n", GERMAN[3].to_uppercase())).unwrap();
    assert_eq!(count(&read(folder.path(), &tokenizer, &[dev]), "de"), 9);
    std::fs::write(folder.path().join("raw/screen.de-en.tsv"), "Open the file\tOpen the file\nÖffne die Datei\tOpen a file\n")
        .unwrap();
    let examples = read(folder.path(), &tokenizer, &[]);
    assert_eq!((count(&examples, "de"), count(&examples, "en")), (11, 2));
}

#[test]
fn a_mislabeled_corpus_is_detected_by_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = write(folder.path());
    // Three corpora with correct labels, and one whose German is Finnish.
    for (name, german, finnish) in [("tales", GERMAN, FINNISH), ("news", GERMAN, FINNISH), ("wrong", FINNISH, RUSSIAN)] {
        let of = |sentences: &[&str], skip: usize| sentences.iter().skip(skip).copied().collect::<Vec<_>>().join("\n");
        let skip = usize::from(name != "wrong");
        let lines = of(german, skip).to_lowercase().replace(['.', '?'], if name == "news" { "!" } else { ";" });
        std::fs::write(folder.path().join(format!("raw/{name}.de.txt")), lines).unwrap();
        let other = if name == "wrong" { "ru" } else { "fi" };
        std::fs::write(folder.path().join(format!("raw/{name}.{other}.txt")), of(finnish, skip)).unwrap();
    }
    let trained = train(&read(folder.path(), &tokenizer, &[]), &Features::new(&tokenizer, 64), &options());
    let (wrong, all) = trained.wrong[&("wrong".to_owned(), language("de"))];
    assert!(wrong * 2 > all && all > 5, "{wrong} of {all}");
    let (wrong, all) = trained.wrong[&("news".to_owned(), language("de"))];
    assert!(wrong * 5 < all, "{wrong} of {all}");
}

#[test]
fn int8_weights_are_within_half_a_step_of_the_fitted_ones() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = write(folder.path());
    let features = Features::new(&tokenizer, 8);
    let (rows, width) = (features.rows(), Language::COUNT);
    let mut values: Vec<f32> = (0..rows * width).map(|place| (place as f32 * 0.37).sin() * (1 + place / width) as f32).collect();
    values[5 * width..6 * width].fill(0.0);
    let head = quantize(&Weights { width, values: values.clone() }, &features, 0.5);
    for (row, scale) in head.scales.iter().enumerate() {
        let of = row * width..(row + 1) * width;
        let largest = values[of.clone()].iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        assert!((scale - largest / 127.0).abs() <= 1e-6 * largest, "row {row}");
        for (value, byte) in values[of.clone()].iter().zip(&head.weights[of]) {
            assert!((value - f32::from(*byte) * scale).abs() <= 0.5001 * scale, "row {row}: {value}");
        }
    }
    assert_eq!(head.scales[5], 0.0);
}
