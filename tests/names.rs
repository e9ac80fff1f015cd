//! Names are found in other scripts and spellings by their sound, without a translation.

use dragoman::domain::{PassageId, QueryWord};
use dragoman::ranking::{Sense, Translations, WordIndex};
use dragoman::text::plain_words::word_key;
use dragoman::text::query_words::query_words;
use dragoman::text::word_counts::word_counts;

/// More passages than may be removed before the index reclaims their room.
const REMOVED: u64 = 10_000;

/// The words of a query for which there is no model.
fn words(query: &str) -> Vec<QueryWord> {
    query_words(query, &[], |_| true, |_| 0)
}

/// An index of texts, with sounds.
fn index_of(texts: &[&str], translations: &Translations) -> WordIndex {
    let mut index = WordIndex::default();
    for (passage, text) in (0..).zip(texts) {
        index.insert(PassageId(passage), &word_counts(text, |_| true), translations);
    }
    index
}

#[test]
fn a_name_is_found_in_other_scripts() {
    let texts = [
        "Der Maler Hodler stammte aus Bern.",
        "Художник Левитан родился в Кибартах.",
        "وُلد الرسام محمود سعيد في الإسكندرية.",
        "ホドラーは風景を描いた。",
        "Ο ζωγράφος Παρθένης σπούδασε στη Βιέννη.",
    ];
    let none = Translations::default();
    let index = index_of(&texts, &none);
    let found = |question: &str| -> Vec<u64> {
        let scores = index.scores(&words(question), None, &none);
        index.nearest(&scores, 10, |_| true).into_iter().map(|(passage, _)| passage.0).collect()
    };
    assert_eq!(found("Ходлер"), [0, 3]);
    assert_eq!(found("הודלר"), [0, 3]);
    assert_eq!(found("Isaac Levitan"), [1]);
    assert_eq!(found("Mahmoud Said"), [2]);
    assert_eq!(found("Parthenis"), [4]);
    assert_eq!(found("Saryan"), [0_u64; 0]);
}

#[test]
fn a_translation_scores_far_above_a_similar_sound() {
    let known = Translations::new(vec![
        (word_key("mutter"), vec![Sense::new(1, 1.0)]),
        (word_key("matter"), vec![Sense::new(2, 1.0)]),
        (word_key("mother"), vec![Sense::new(1, 1.0)]),
    ]);
    let index = index_of(&["it does not matter", "a mother of three"], &known);
    let scores = index.scores(&words("Mutter"), None, &known);
    let [matter, mother] = [0, 1].map(|passage| index.score(&scores, PassageId(passage)));
    assert!(mother > 3.0 * matter, "{mother} and {matter}");
}

#[test]
fn reclaiming_space_drops_removed_names_and_keeps_the_others() {
    let none = Translations::default();
    let mut index = WordIndex::default();
    for passage in 0..=REMOVED {
        let text = if passage == 7 {
            "Чигорин"
        } else if passage.is_multiple_of(2) {
            "Ходлер"
        } else {
            "река"
        };
        index.insert(PassageId(passage), &word_counts(text, |_| true), &none);
    }
    for passage in (0..=REMOVED).filter(|passage| *passage != 7) {
        index.remove(PassageId(passage));
    }
    let found = |index: &WordIndex, name: &str| index.nearest(&index.scores(&words(name), None, &none), 10, |_| true);
    assert_eq!(found(&index, "Chigorin")[0].0, PassageId(7));
    assert!(found(&index, "Hodler").is_empty());
}

#[test]
fn a_joined_name_counts_only_if_found_and_then_replaces_its_parts() {
    let none = Translations::default();
    let index = index_of(&["Die Malerin Menchik aus Moskau", "도서관 안내"], &none);
    let score = |question: &[QueryWord], passage| index.score(&index.scores(question, None, &none), PassageId(passage));
    let library = words("도서관");
    assert_eq!(library.iter().map(|word| word.word.parts).collect::<Vec<_>>(), [0, 0, 2]);
    let unknown = words("갈매기");
    assert_eq!(score(&unknown, 0), 0.0);
    assert_eq!(score(&[&library[..], &unknown[..2]].concat(), 1), score(&[library, unknown].concat(), 1));
    assert!(score(&words("멘치크"), 0) > 0.5, "no part of the name lowers its score");
}
