//! Tests of the word index: what a question finds, and in which order.

use std::collections::BTreeSet;

use super::*;
use crate::domain::SoundSymbol::{A, K, M, N, R};
use crate::domain::{ConceptWord, Script, Sound, SoundSymbol, TokenSet, phrase_key};
use crate::ranking::sense_table::Sense;
use crate::ranking::{TokenIndex, TokenScorer, TokenTable};

const BOAT: u32 = 10;
const BATEAU: u32 = 20;
const SHIP: u32 = 30;
const TREE: u32 = 40;
const KUBERNETES: u32 = 50;

/// Concept 1 is a boat, 2 is a ship, and 3 is a tree.
fn translations() -> Translations {
    Translations::new(vec![
        (BOAT, vec![Sense::new(1, 1.0)]),
        (BATEAU, vec![Sense::new(1, 0.6), Sense::new(2, 0.4)]),
        (SHIP, vec![Sense::new(2, 1.0)]),
        (TREE, vec![Sense::new(3, 1.0)]),
    ])
}

fn index(passages: &[&[u32]]) -> WordIndex {
    let (mut index, translations) = (WordIndex::default(), translations());
    for (passage, words) in (0..).zip(passages) {
        index.insert(PassageId(passage), &WordCounts::from_words(words.to_vec()), &translations);
    }
    index
}

fn question(words: &[u32]) -> Vec<QueryWord> {
    words.iter().map(|word| Word::from(*word).into()).collect()
}

fn nearest(index: &WordIndex, words: &[u32]) -> Vec<u64> {
    let scores = index.scores(&question(words), None, &translations());
    index.nearest(&scores, 10, |_| true).into_iter().map(|(passage, _)| passage.0).collect()
}

#[test]
fn a_word_finds_its_translations_most_probable_first() {
    let index = index(&[&[TREE, 1, 2], &[SHIP, 3, 4], &[BOAT, 5, 6], &[7, 8, 9]]);
    assert_eq!(nearest(&index, &[BATEAU]), [2, 1]);
    assert_eq!(nearest(&index, &[SHIP]), [1], "a boat is a different concept");
}

#[test]
fn a_word_finds_a_phrase_of_a_passage_which_does_not_make_the_passage_longer() {
    let phrase = phrase_key(&[60, 61]);
    let translations = translations().with_concepts(&[vec![
        ConceptWord::Word { key: 70, share: 1.0 },
        ConceptWord::Phrase(phrase),
        ConceptWord::Phrase(phrase_key(&[61, 62])),
    ]]);
    let index = |passages: [&[u32]; 2]| {
        let mut index = WordIndex::default();
        for (passage, words) in (0..).zip(passages) {
            index.insert(PassageId(passage), &WordCounts::from_words(words.to_vec()), &translations);
        }
        index
    };
    let scores = |index: &WordIndex, words: &[u32]| {
        let scores = index.scores(&question(words), None, &translations);
        [0, 1].map(|passage| index.score(&scores, PassageId(passage)))
    };
    let found = index([&[60, 61, 1, phrase], &[60, 2, 61]]);
    let [with_phrase, with_words_apart] = scores(&found, &[70]);
    assert!(with_phrase > 0.0 && with_words_apart == 0.0);
    let equally_long = index([&[TREE, 60, 61, phrase], &[TREE, 60, 61]]);
    let [with_phrase, without] = scores(&equally_long, &[TREE]);
    assert_eq!(with_phrase, without);
}

#[test]
fn a_word_with_its_accents_finds_passages_that_have_it_with_them_first() {
    const ACCENTED: u32 = 70;
    let translations =
        translations().with_concepts(&[vec![ConceptWord::Word { key: TREE, share: 1.0 }, ConceptWord::Phrase(ACCENTED)]]);
    let mut index = WordIndex::default();
    for (passage, words) in (0..).zip([&[BOAT, 1][..], &[BOAT, 1, ACCENTED], &[TREE, 2]]) {
        index.insert(PassageId(passage), &WordCounts::from_words(words.to_vec()), &translations);
    }
    let found = |accented: Option<u32>| {
        let scores = index.scores(&[QueryWord { accented, ..Word::from(BOAT).into() }], None, &translations);
        index.nearest(&scores, 10, |_| true).into_iter().map(|(passage, _)| passage.0).collect::<Vec<_>>()
    };
    assert_eq!(found(Some(ACCENTED)), [1, 2, 0], "without its accents it is mostly another word");
    assert_eq!(found(None), [0, 1]);
    assert_eq!(found(Some(71)), [0, 1], "the lexicon does not have these accents");
}

#[test]
fn the_known_parts_of_a_misspelled_word_do_not_count_if_they_find_nothing() {
    let word = |key: u32, symbols: &[SoundSymbol]| Word { sound: Sound::new(Script::Latin, symbols), ..Word::from(key) };
    let (camera, typed) = (word(60, &[K, A, M, R, A]), word(61, &[K, A, N, R, A]));
    let mut index = WordIndex::default();
    index.insert(PassageId(0), &WordCounts::from_words(vec![camera]), &translations());
    index.insert(PassageId(1), &WordCounts::from_words(vec![Word::from(TREE)]), &translations());
    let of = |word: Word, token: u32| QueryWord { tokens: vec![token], ..word.into() };
    let counted = |query: &[QueryWord]| index.scores(query, None, &translations()).words.len();
    assert_eq!(counted(&[of(typed, 5), of(BOAT.into(), 5), of(TREE.into(), 5)]), 2, "a tree is found");
    assert_eq!(counted(&[of(typed, 5), of(BOAT.into(), 6)]), 2, "this is a word of its own, with other tokens");
    assert_eq!(counted(&[of(camera, 5), of(BOAT.into(), 5)]), 2);
}

#[test]
fn the_index_knows_whether_a_passage_has_some_words_together() {
    let index = index(&[&[BOAT, 1], &[TREE, 2, 3], &[2, BOAT]]);
    let words: [&[u32]; 6] = [&[], &[BOAT], &[2, BOAT], &[3, TREE, 2], &[BOAT, TREE], &[BOAT, KUBERNETES]];
    assert_eq!(words.map(|words| index.has_together(words)), [true, true, true, true, false, false]);
}

#[test]
fn the_index_knows_which_passages_have_a_word() {
    let mut index = index(&[&[BOAT, 1], &[TREE], &[2, BOAT]]);
    index.remove(PassageId(0));
    index.insert(PassageId(1), &WordCounts::from_words(vec![SHIP, BOAT]), &translations());
    let having = |word: u32| [0, 1, 2].map(|passage| index.has_word(PassageId(passage), word));
    assert_eq!(having(BOAT), [None, Some(true), Some(true)]);
    assert_eq!(having(TREE), [None, Some(false), Some(false)]);
    assert_eq!(having(KUBERNETES), [None, Some(false), Some(false)], "no passage ever had it");
    let having_any = |words: &[u32]| {
        let mut posting_ids: Vec<u32> = words.iter().map(|word| index.words[word]).collect();
        posting_ids.sort_unstable();
        [0, 1, 2].map(|passage| index.has_any(PassageId(passage), &posting_ids))
    };
    assert_eq!(having_any(&[SHIP, TREE]), [None, Some(true), Some(false)]);
    assert_eq!(having_any(&[]), [None, Some(false), Some(false)]);
}

#[test]
fn a_word_finds_its_other_forms_after_itself() {
    let index = index(&[&[KUBERNETES, 1], &[60, 2], &[3, 4]]);
    let with_form = |word: u32, form: u32| vec![QueryWord { forms: vec![form], ..question(&[word]).remove(0) }];
    let found = |query: &[QueryWord]| {
        let scores = index.scores(query, None, &translations());
        index.nearest(&scores, 10, |_| true).into_iter().map(|(passage, _)| passage.0).collect::<Vec<_>>()
    };
    assert_eq!((found(&with_form(60, KUBERNETES)), found(&with_form(70, 60))), (vec![1, 0], vec![1]));
}

#[test]
fn a_word_that_the_table_lacks_has_the_meanings_of_its_other_form() {
    let index = index(&[&[BOAT, 1], &[TREE, 2]]);
    let query = [QueryWord { forms: vec![BATEAU], ..question(&[60]).remove(0) }];
    let scores = index.scores(&query, None, &translations());
    assert_eq!(index.nearest(&scores, 10, |_| true).len(), 1);
}

#[test]
fn a_word_also_has_the_meanings_of_its_known_other_form() {
    let index = index(&[&[BOAT, 1], &[TREE, 2], &[3, 4]]);
    let query = [QueryWord { forms: vec![BATEAU], ..question(&[TREE]).remove(0) }];
    let scores = index.scores(&query, None, &translations());
    let found: Vec<u64> = index.nearest(&scores, 10, |_| true).into_iter().map(|(passage, _)| passage.0).collect();
    assert_eq!(found, [1, 0], "those of the word itself first");
}

#[test]
fn a_misspelled_word_finds_the_translations_of_the_word_that_it_means() {
    let typed = |word: u32| QueryWord { corrections: vec![BATEAU], ..Word::from(word).into() };
    let found = |index: &WordIndex, word: u32| {
        let scores = index.scores(&[typed(word)], None, &translations());
        index.nearest(&scores, 10, |_| true).into_iter().map(|(passage, _)| passage.0).collect::<Vec<_>>()
    };
    let index = index(&[&[60, 1], &[BOAT, 2], &[TREE, 3]]);
    assert_eq!(found(&index, 61), [1]);
    assert_eq!(found(&index, 60), [0], "a passage has the word as typed");
    assert_eq!(found(&index, SHIP), [0_u64; 0], "the table has the word as typed");
}

#[test]
fn a_misspelled_name_does_not_mean_another_word() {
    let word = |key: u32, symbols: &[SoundSymbol]| Word { sound: Sound::new(Script::Latin, symbols), ..Word::from(key) };
    let (name, typed) = (word(60, &[M, A, R, K, A, N, A, R]), word(61, &[M, A, R, K, A, N, A, R]));
    let mut index = WordIndex::default();
    index.insert(PassageId(0), &WordCounts::from_words(vec![name]), &translations());
    index.insert(PassageId(1), &WordCounts::from_words(vec![Word::from(BOAT)]), &translations());
    let found = |corrections: Vec<u32>| {
        let scores = index.scores(&[QueryWord { corrections, ..typed.into() }], None, &translations());
        index.nearest(&scores, 10, |_| true).into_iter().map(|(passage, _)| passage.0).collect::<Vec<_>>()
    };
    assert_eq!(found(vec![BATEAU]), [0], "it sounds like a name of the collection");
}

#[test]
fn a_misspelled_word_rather_means_a_word_one_letter_away_than_one_that_sounds_like_it() {
    let word = |key: u32, symbols: &[SoundSymbol]| Word { sound: Sound::new(Script::Latin, symbols), ..Word::from(key) };
    let (tree, typed) = (word(TREE, &[M, A, R, K, A, N, R]), word(61, &[M, A, R, K, A, N, A, R]));
    let found = |corrections: Vec<u32>| {
        // An index remembers what a word found.
        let mut index = WordIndex::default();
        index.insert(PassageId(0), &WordCounts::from_words(vec![tree]), &translations());
        index.insert(PassageId(1), &WordCounts::from_words(vec![Word::from(BOAT)]), &translations());
        let scores = index.scores(&[QueryWord { corrections, ..typed.into() }], None, &translations());
        index.nearest(&scores, 10, |_| true).into_iter().map(|(passage, _)| passage.0).collect::<Vec<_>>()
    };
    assert_eq!((found(vec![BATEAU]), found(vec![TREE, BATEAU])), (vec![1, 0], vec![0, 1]));
}

#[test]
fn the_word_itself_outranks_its_translations() {
    let index = index(&[&[BOAT, 1, 2], &[BATEAU, 3, 4], &[5, 6, 7]]);
    assert_eq!(nearest(&index, &[BATEAU]), [1, 0]);
}

#[test]
fn a_word_without_translations_matches_only_itself() {
    let index = index(&[&[BOAT, 1], &[KUBERNETES, 2]]);
    assert_eq!(nearest(&index, &[KUBERNETES]), [1]);
    assert_eq!(nearest(&index, &[60]), [0_u64; 0]);
}

#[test]
fn significant_words_list_their_meanings_in_the_collection() {
    let index = index(&[&[BOAT, 1], &[SHIP, 1], &[TREE, 1], &[1]]);
    let significant = |words: &[u32]| {
        let significant = index.scores(&question(words), None, &translations()).into_significant_words();
        significant
            .into_iter()
            .map(|SignificantWord { word, meanings }| (word, BTreeSet::from_iter(meanings)))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        significant(&[BATEAU, 1]),
        [(BATEAU, BTreeSet::from([BOAT, SHIP]))],
        "word 1 is insignificant because all passages have it"
    );
    assert_eq!(significant(&[TREE]), [(TREE, BTreeSet::from([TREE]))]);
    assert_eq!(significant(&[60]), [(60, BTreeSet::new())]);
}

#[test]
fn a_change_invalidates_cached_expansions() {
    let mut index = index(&[&[BOAT, 1], &[2]]);
    assert_eq!(nearest(&index, &[BATEAU]), [0]);
    index.insert(PassageId(5), &WordCounts::from_words(vec![BATEAU, 3]), &translations());
    assert_eq!(nearest(&index, &[BATEAU]), [5, 0]);
    let before = index.scores(&question(&[BOAT]), None, &translations()).sufficient;
    index.remove(PassageId(5));
    assert_eq!(nearest(&index, &[BATEAU]), [0]);
    assert!(
        index.scores(&question(&[BOAT]), None, &translations()).sufficient > before,
        "after the removal a smaller share of the passages means the word, so it weighs more"
    );
}

#[test]
fn removed_passages_leave_no_trace() {
    let passages: [&[u32]; 4] = [&[BOAT, 1], &[SHIP, 2, 2], &[TREE, BOAT, 3], &[KUBERNETES]];
    let (fresh, mut changed) = (index(&passages), index(&[&[BATEAU, 60], &[BATEAU], &[TREE], &[KUBERNETES, 70]]));
    for (passage, words) in (0..).zip(passages) {
        for words in [&[BOAT, 61], words] {
            changed.insert(PassageId(passage), &WordCounts::from_words(words.to_vec()), &translations());
        }
    }
    let check = |index: &WordIndex| {
        for word in [BOAT, BATEAU, SHIP, TREE, KUBERNETES, 1, 2, 60, 61, 70] {
            let scores = |index: &WordIndex| {
                let scores = index.scores(&question(&[word, TREE]), None, &translations());
                [0, 1, 2, 3].map(|passage| index.score(&scores, PassageId(passage)))
            };
            assert_eq!(scores(index), scores(&fresh), "{word}");
            assert_eq!(index.has(word), fresh.has(word), "{word}");
            assert_eq!(index.finds(word, &translations()), fresh.finds(word, &translations()), "{word}");
        }
    };
    check(&changed);
    changed.arrange();
    check(&changed);
    changed.insert(PassageId(9), &WordCounts::from_words(vec![60, BOAT]), &translations());
    changed.remove(PassageId(9));
    check(&changed);
}

#[test]
fn the_score_follows_the_formula() {
    let index = index(&[&[BOAT, BOAT, 1, 2], &[3, 4]]);
    let scores = index.scores(&question(&[BATEAU, 60]), None, &translations());
    // One passage has a word that surely means the boat. The question's word means it with 0.6, rounded to 76/127, and the ship
    // with 0.4, rounded to 51/127. No passage has word 60. The mean length is 3.
    let [boat, ship] = [76.0, 51.0].map(|share: f32| share / 127.0);
    let same = boat / boat.hypot(ship).sqrt();
    let (all, having, count) = (2.0_f32, same, 2.0 * same.powf(0.8));
    let rarity = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
    let unknown = (1.0 + (all + 0.5) / 0.5).ln();
    let expect = rarity * count * 1.6 / (count + 0.6 * (0.25 + 0.75 * 4.0 / 3.0)) / (rarity + unknown);
    let got = index.score(&scores, PassageId(0));
    assert!((got - expect).abs() < 1e-5, "{got}, expected {expect}");
    assert_eq!(index.score(&scores, PassageId(1)), 0.0);
}

#[test]
fn a_word_that_the_lexicon_has_too_is_not_less_rare() {
    let words = [BOAT, SHIP].map(|key| ConceptWord::Word { key, share: 1.0 });
    let index_with = |table: &Translations| {
        let mut index = WordIndex::default();
        let passages: [&[u32]; 3] = [&[BOAT, 1], &[SHIP, 2], &[3, 4]];
        (0..).zip(passages).for_each(|(passage, words)| {
            index.insert(PassageId(passage), &WordCounts::from_words(words.iter().copied()), table);
        });
        index
    };
    let score = |table: &Translations| {
        let index = index_with(table);
        index.score(&index.scores(&question(&[BOAT]), None, table), PassageId(0))
    };
    let once = translations();
    let same = once.with_concepts(&[vec![words[0]]]);
    assert!(score(&same) >= score(&once), "the table finds as many passages, and is a smaller part of what the word means");
    let more = once.with_concepts(&[words.into(), words.into()]);
    assert!(score(&more) < score(&once), "the lexicon finds more passages");
}

#[test]
fn words_that_are_a_phrase_together_find_its_translations() {
    const CABIN: u32 = 70;
    let phrase = ConceptWord::Phrase(phrase_key(&[CABIN, BOAT]));
    let table = translations().with_concepts(&[vec![phrase, ConceptWord::Word { key: KUBERNETES, share: 1.0 }]]);
    let mut index = WordIndex::default();
    let passages = (0..).zip([[KUBERNETES, 1], [2, 3]]);
    passages.for_each(|(passage, words)| index.insert(PassageId(passage), &WordCounts::from_words(words), &table));
    let found = |words: &[u32]| index.nearest(&index.scores(&question(words), None, &table), 10, |_| true).len();
    assert_eq!([&[CABIN, BOAT][..], &[BOAT, CABIN], &[CABIN], &[BOAT]].map(found), [1, 0, 0, 0]);
    assert_eq!(found(&[CABIN, BOAT]), 1, "what a word finds without the phrase is remembered apart");
}

#[test]
fn a_rare_word_scores_higher_than_a_common_one() {
    let index = index(&[&[BOAT, TREE], &[BOAT, 1], &[BOAT, 2], &[3, 4]]);
    assert_eq!(nearest(&index, &[BOAT, TREE])[0], 0);
    let scores = index.scores(&question(&[BOAT, TREE]), None, &translations());
    assert!(index.score(&scores, PassageId(0)) > 2.0 * index.score(&scores, PassageId(1)));
}

#[test]
fn words_with_heavier_tokens_weigh_more() {
    let index = index(&[&[BOAT], &[TREE], &[3]]);
    let table = TokenTable { dimension: 2, rows: vec![127, 0, 0, 127], scales: vec![0.01; 2], weights: vec![64.0, 1.0] };
    let mut tokens = TokenIndex::default();
    (0..3).for_each(|passage| tokens.insert(PassageId(passage), &TokenSet::from_ids(&[passage as u32 % 2])));
    let question = TokenScorer::new(table).question(&[0, 1], &tokens).unwrap();
    let words =
        [(BOAT, vec![0]), (TREE, vec![1])].map(|(word, tokens)| QueryWord { tokens, ..QueryWord::from(Word::from(word)) });
    let scores = |question| {
        let scores = index.scores(&words, question, &translations());
        [0, 1].map(|passage| index.score(&scores, PassageId(passage)))
    };
    let [boat, tree] = scores(None);
    let [boat_by_tokens, tree_by_tokens] = scores(Some(&question));
    assert!(boat_by_tokens > 1.2 * boat && tree_by_tokens < tree / 1.2, "{boat_by_tokens} {tree_by_tokens}");
}

#[test]
fn a_few_words_of_a_long_question_are_enough() {
    let mut passages: Vec<Vec<u32>> = (0..60).map(|other| vec![100 + other, 300]).collect();
    passages[7].push(KUBERNETES);
    let passages: Vec<&[u32]> = passages.iter().map(Vec::as_slice).collect();
    let index = index(&passages);
    let long: Vec<u32> = (1_000..1_200).chain([KUBERNETES]).collect();
    assert_eq!(nearest(&index, &long)[0], 7, "words that are found go before those that are not");
    let score = |words: &[u32]| {
        let scores = index.scores(&question(words), None, &translations());
        index.score(&scores, PassageId(7))
    };
    let (alone, among_others) = (score(&[KUBERNETES]), score(&long));
    assert!(among_others > alone / 10.0, "{among_others} of {alone}");
}

#[test]
fn only_accepted_passages_are_found() {
    let index = index(&[&[BOAT], &[BATEAU], &[3]]);
    let scores = index.scores(&question(&[BOAT]), None, &translations());
    assert_eq!(index.nearest(&scores, 10, |passage| passage.0 == 1).len(), 1);
    assert_eq!(index.nearest(&scores, 1, |_| true)[0].0, PassageId(0));
}

#[test]
fn replaced_and_removed_passages_are_not_found_and_free_their_slots() {
    let (mut index, translations) = (WordIndex::default(), translations());
    let words = |round: u32, passage: u32| {
        WordCounts::from_words(vec![if round == 9 { BOAT } else { TREE }, 100 + round, 1_000 + passage])
    };
    for round in 0..10 {
        for passage in 0..1_000 {
            index.insert(PassageId(passage.into()), &words(round, passage), &translations);
        }
    }
    for passage in 500..1_000 {
        index.remove(PassageId(passage));
    }
    assert_eq!(index.len(), 500);
    assert!(index.passages.len() < 6_000, "{} slots", index.passages.len());
    let scores = index.scores(&question(&[SHIP, TREE, BATEAU]), None, &translations);
    assert!(index.nearest(&scores, 2_000, |_| true).iter().all(|(passage, _)| passage.0 < 500));
    assert_eq!(index.nearest(&index.scores(&question(&[BATEAU]), None, &translations), 2_000, |_| true).len(), 500);
    assert_eq!(index.score(&index.scores(&question(&[1_700]), None, &translations), PassageId(700)), 0.0);
}

#[test]
fn arranging_entries_does_not_change_scores() {
    let (translations, mut index, mut other) = (translations(), WordIndex::default(), WordIndex::default());
    let add = |index: &mut WordIndex, passages: std::ops::Range<u32>| {
        for passage in passages {
            let boat = [BOAT, BATEAU, TREE][passage as usize % 3];
            let words = WordCounts::from_words(vec![boat, 100 + passage % 50, 1_000 + passage % 999]);
            index.insert(PassageId(passage.into()), &words, &translations);
        }
    };
    let found = |index: &WordIndex| {
        let of = |word| index.nearest(&index.scores(&question(&[word, 120]), None, &translations), 30_000, |_| true);
        [BATEAU, SHIP, TREE, 130, 1_500].map(of)
    };
    add(&mut index, 0..25_000);
    let before = found(&index);
    index.prepare();
    let arranged = index.arranged;
    assert!(arranged == index.entries.len() && arranged > 75_000, "{arranged}");
    assert!(found(&index) == before);
    add(&mut index, 25_000..25_100);
    index.prepare();
    add(&mut other, 0..25_100);
    assert_eq!(
        (index.arranged, index.entries.len()),
        (arranged, arranged),
        "a few new entries fit into the room that arranging left"
    );
    assert!(found(&index) == found(&other));
}

#[test]
fn words_that_sound_alike_are_found_with_known_words_ranked_lower() {
    use crate::domain::{Script, SoundSymbol as S};
    let sounding = |key: u32, script, symbols: &[S]| Word { sound: Sound::new(script, symbols), ..key.into() };
    let hodler = sounding(60, Script::Latin, &[S::H, S::O, S::D, S::L, S::E, S::R]);
    let in_russian = sounding(61, Script::Cyrillic, &[S::H, S::O, S::D, S::L, S::E, S::R]);
    let like_a_tree = sounding(TREE, Script::Latin, &[S::H, S::O, S::D, S::L, S::A, S::R]);
    let mut index = WordIndex::default();
    for (passage, word) in (0..).zip([in_russian, like_a_tree, 7.into()]) {
        index.insert(PassageId(passage), &WordCounts::from_words([word]), &translations());
    }
    let query = [hodler.into()];
    let nearest = |index: &WordIndex| index.nearest(&index.scores(&query, None, &translations()), 10, |_| true);
    let found = nearest(&index);
    assert_eq!(found.iter().map(|(passage, _)| passage.0).collect::<Vec<_>>(), [0, 1]);
    assert!(found[0].1 > 1.2 * found[1].1, "{found:?}");
    index.remove(PassageId(0));
    assert_eq!(nearest(&index).len(), 1);
    index.insert(PassageId(3), &WordCounts::from_words([in_russian]), &translations());
    assert_eq!(nearest(&index)[0].0, PassageId(3), "a word that comes back is found again");
}

#[test]
fn a_name_without_a_space_finds_its_two_words_if_they_occur_together() {
    use crate::domain::SoundSymbol::{Ch, I, P, Sh, U};
    let sounding = |key: u32, script, symbols: &[SoundSymbol]| Word { sound: Sound::new(script, symbols), ..key.into() };
    let (machu, picchu) = (sounding(60, Script::Latin, &[M, A, Ch, U]), sounding(61, Script::Latin, &[P, I, Ch, U]));
    let found = |script, passages: &[&[Word]]| {
        let mut index = WordIndex::default();
        for (passage, words) in (0..).zip(passages) {
            index.insert(PassageId(passage), &WordCounts::from_words(words.to_vec()), &translations());
        }
        let scores = index.scores(&[sounding(62, script, &[M, A, Sh, U, P, I, Sh, U]).into()], None, &translations());
        index.nearest(&scores, 10, |_| true).into_iter().map(|(passage, _)| passage.0).collect::<Vec<_>>()
    };
    let together: [&[Word]; 3] = [&[TREE.into()], &[machu], &[machu, picchu]];
    assert_eq!(found(Script::Kana, &together), [2, 1]);
    assert!(found(Script::Latin, &together).is_empty(), "Latin script has spaces");
    assert!(found(Script::Kana, &[&[machu], &[picchu]]).is_empty());
}
