//! The sampler draws pairs as configured.

use super::*;
use crate::config::{CorporaConfig, GroupConfig, QuestionEncoderConfig, SamplingConfig, ShareConfig};
use crate::data::shard;
use crate::data::shipped_tokens::{ids, tokenizer};

fn config(english_share: f64, pair_exponent: f64) -> Config {
    let mut config: Config = toml::from_str(include_str!("../../configs/ems-small.toml")).unwrap();
    config.sampling =
        SamplingConfig { pair_exponent, english_share, run_pairs: 1, views_max: None, languages: None, groups: Vec::new() };
    config.corpora = CorporaConfig { default: 1.0, weights: [("words".to_owned(), 0.25)].into() };
    config
}

fn shards(folder: &Path, corpora: &[(&str, &[&str], usize)]) {
    for (name, codes, rows) in corpora {
        let languages: Vec<_> = codes.iter().map(|code| Language::parse(code).unwrap()).collect();
        let columns: Vec<_> =
            (0..codes.len() as u16).map(|column| (0..*rows as u16).map(|row| vec![column + 2, 100 + row, 7]).collect()).collect();
        shard::write(&folder.join(format!("{name}.shard")), name, name, &languages, &columns).unwrap();
    }
}

/// A stage that changes no text.
fn stage(batch_pairs: usize, tokens_max: i64) -> StageConfig {
    let mut config: Config = toml::from_str(include_str!("../../configs/smoke.toml")).unwrap();
    StageConfig { batch_pairs, tokens_max, ..config.stages.remove(0) }
}

fn draw(sampler: &Sampler, step: u64, pairs: usize, token_dropout: f64) -> Vec<(Sentence, Sentence)> {
    sampler.batch(step, &StageConfig { token_dropout, ..stage(pairs, 64) }, SamplingTools::default())
}

#[test]
fn batches_repeat_for_the_same_step_and_differ_between_steps() {
    let folder = tempfile::tempdir().unwrap();
    shards(folder.path(), &[("a", &["de", "en", "fr"], 100)]);
    let sampler = Sampler::open(&config(0.5, 0.6), folder.path()).unwrap();
    assert_eq!(draw(&sampler, 7, 20, 0.3), draw(&sampler, 7, 20, 0.3));
    assert_ne!(draw(&sampler, 7, 20, 0.3), draw(&sampler, 8, 20, 0.3));
}

#[test]
fn the_share_of_pairs_with_english_matches_the_setting() {
    let folder = tempfile::tempdir().unwrap();
    shards(folder.path(), &[("a", &["de", "en", "fr", "it", "ru"], 20_000)]);
    let sampler = Sampler::open(&config(0.75, 0.6), folder.path()).unwrap();
    let english = Language::parse("en").unwrap().index() as i64;
    let batch = draw(&sampler, 1, 4000, 0.0);
    let with = batch.iter().filter(|(a, b)| a.language == english || b.language == english).count();
    assert!((0.72..0.78).contains(&(with as f64 / 4000.0)), "{with} of 4000");
}

#[test]
fn only_the_configured_languages_are_sampled() {
    let folder = tempfile::tempdir().unwrap();
    shards(folder.path(), &[("a", &["de", "en", "fr"], 500), ("b", &["fr", "it"], 500)]);
    let mut config = config(0.5, 0.6);
    let named = ["de", "en"].map(|code| Language::parse(code).unwrap());
    config.sampling.languages = Some(vec!["de".to_owned(), "en".to_owned()]);
    config.stages.truncate(1);
    (config.stages[0].steps, config.stages[0].batch_pairs) = (10, 200);
    let sampler = Sampler::open(&config, folder.path()).unwrap();
    // 10 x 200 pairs are 4,000 texts, of the 1,000 in German and English.
    assert_eq!(sampler.views(), [("a".to_owned(), 4.0)].into());
    let batch = draw(&sampler, 1, 200, 0.0);
    let mut seen: Vec<i64> = batch.iter().flat_map(|(a, b)| [a.language, b.language]).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, named.map(|language| language.index() as i64));
    let mut refused = |codes: [&str; 2]| {
        config.sampling.languages = Some(codes.map(str::to_owned).to_vec());
        Sampler::open(&config, folder.path()).err().unwrap()
    };
    assert!(matches!(refused(["it", "en"]), Error::NoData { .. }));
    assert!(refused(["de", "xx"]).to_string().contains("sampling.languages"));
}

#[test]
fn corpora_and_language_pairs_are_weighted_as_computed_by_hand() {
    // de-en: 400 x 0.25 + 100 = 200 -> 200^0.5; en-fr: 50 -> 50^0.5; so de-en has 2/3, and each of its corpora half of that.
    let folder = tempfile::tempdir().unwrap();
    shards(folder.path(), &[("words", &["de", "en"], 400), ("talk", &["de", "en"], 100), ("other", &["en", "fr"], 50)]);
    let sampler = Sampler::open(&config(1.0, 0.5), folder.path()).unwrap();
    let mut before = 0.0;
    for (unit, sum) in sampler.units.iter().zip(&sampler.cumulative) {
        assert!((sum - before - 1.0 / 3.0).abs() < 1e-9, "{}", sampler.shards[unit.shard].name);
        before = *sum;
    }
}

#[test]
fn a_corpus_group_has_its_share_and_directed_pairs_keep_their_sides() {
    let folder = tempfile::tempdir().unwrap();
    shards(folder.path(), &[("a", &["de", "en"], 20_000), ("tydi.q", &["fr", "fr"], 5_000), ("news.q", &["it", "fr"], 5_000)]);
    let mut config = config(0.5, 0.6);
    config.sampling.groups =
        vec![GroupConfig { corpora: vec!["*.q".to_owned()], share: 0.3, pair_exponent: 0.0, directed: true }];
    let batch = draw(&Sampler::open(&config, folder.path()).unwrap(), 1, 4_000, 0.0);
    let french = Language::parse("fr").unwrap().index() as i64;
    let in_french: Vec<_> = batch.iter().filter(|(_, passage)| passage.language == french).collect();
    assert!((0.27..0.33).contains(&(in_french.len() as f64 / 4_000.0)), "{} of 4000", in_french.len());
    // The first column holds token 2, the second column token 3.
    assert!(in_french.iter().all(|(question, passage)| question.ids[0] == 2 && passage.ids[0] == 3));
    let same = in_french.iter().filter(|(question, _)| question.language == french).count();
    assert!((0.45..0.55).contains(&(same as f64 / in_french.len() as f64)), "{same} of {}", in_french.len());
}

#[test]
fn views_max_caps_a_small_corpus_and_gives_the_rest_to_a_large_one() {
    let folder = tempfile::tempdir().unwrap();
    shards(folder.path(), &[("small", &["de", "en", "fr", "it", "ru"], 50), ("large", &["de", "en", "fr", "it", "ru"], 5_000)]);
    let mut config = config(0.5, 0.0);
    config.corpora.weights = [("small".to_owned(), 100.0)].into();
    config.stages.truncate(1);
    (config.stages[0].steps, config.stages[0].batch_pairs) = (100, 100);
    let free = Sampler::open(&config, folder.path()).unwrap().views();
    // Both have half of the 10,000 pairs: 2 x 5,000 / 250 and 2 x 5,000 / 25,000.
    assert!((free["small"] - 40.0).abs() < 0.1 && (free["large"] - 0.4).abs() < 0.01, "{free:?}");
    config.sampling.views_max = Some(15.0);
    let bound = Sampler::open(&config, folder.path()).unwrap().views();
    assert!((bound["small"] - 15.0).abs() < 0.1 && (bound["large"] - 0.65).abs() < 0.01, "{bound:?}");
}

#[test]
fn pairs_are_drawn_in_runs_of_the_same_language_pair() {
    let folder = tempfile::tempdir().unwrap();
    shards(folder.path(), &[("a", &["de", "en", "fr", "it", "ru"], 5_000)]);
    let mut config = config(0.5, 0.6);
    config.sampling.run_pairs = 8;
    let batch = draw(&Sampler::open(&config, folder.path()).unwrap(), 3, 40, 0.0);
    let languages = |(a, b): &(Sentence, Sentence)| (a.language.min(b.language), a.language.max(b.language));
    for run in batch.chunks(8) {
        assert!(run.iter().all(|pair| languages(pair) == languages(&run[0])));
    }
    assert!(batch.iter().any(|pair| languages(pair) != languages(&batch[0])));
}

#[test]
fn a_batch_contains_no_segment_twice() {
    let folder = tempfile::tempdir().unwrap();
    // Forty segments in three languages make 120 pairs, but only forty of them share no segment.
    shards(folder.path(), &[("a", &["de", "en", "fr"], 40)]);
    let batch = draw(&Sampler::open(&config(0.5, 0.6), folder.path()).unwrap(), 3, 30, 0.0);
    let segments: FxHashSet<u16> = batch.iter().map(|(left, _)| left.ids[1]).collect();
    assert_eq!(segments.len(), 30);
}

#[test]
fn joined_segments_stay_aligned_and_within_the_token_limit() {
    let folder = tempfile::tempdir().unwrap();
    shards(folder.path(), &[("a", &["de", "en"], 2_000)]);
    let config = config(1.0, 0.6);
    let sampler = Sampler::open(&config, folder.path()).unwrap();
    // Segments have three tokens, the second of which is the segment's number; three segments fit into ten tokens.
    let stage = StageConfig { joined_share: 1.0, ..stage(50, 10) };
    for (left, right) in sampler.batch(5, &stage, SamplingTools::default()) {
        let numbers = |sentence: &Sentence| sentence.ids.iter().skip(1).step_by(3).copied().collect::<Vec<_>>();
        assert_eq!((numbers(&left), left.ids.len()), (numbers(&right), 9));
    }
}

#[test]
fn a_corpus_smaller_than_the_batch_is_repeated_to_fill_it() {
    let folder = tempfile::tempdir().unwrap();
    shards(folder.path(), &[("a", &["de", "en"], 3)]);
    assert_eq!(draw(&Sampler::open(&config(1.0, 0.6), folder.path()).unwrap(), 3, 50, 0.0).len(), 50);
}

#[test]
fn a_folder_without_pairs_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Sampler::open(&config(1.0, 0.5), folder.path()), Err(Error::NoData { .. })));
}

#[test]
fn a_mined_run_contains_pairs_close_to_its_first_pair() {
    let folder = tempfile::tempdir().unwrap();
    shards(folder.path(), &[("a", &["de", "en"], 1_000)]);
    let mut config = config(1.0, 0.6);
    config.sampling.run_pairs = 8;
    let sampler = Sampler::open(&config, folder.path()).unwrap();
    // The token of row n has an angle of n thousandths of 90 degrees; all other tokens have no direction.
    let mut table = vec![0.0; 2 * 1_100];
    for row in 0..1_000 {
        (table[2 * (100 + row)], table[2 * (100 + row) + 1]) = {
            let angle = row as f32 / 1_000.0 * std::f32::consts::FRAC_PI_2;
            (angle.cos(), angle.sin())
        };
    }
    let stage = stage(8, 64);
    let distances = |miner: Option<&Miner>| {
        let runs = (0..10).map(|step| sampler.batch(step, &stage, SamplingTools { miner, ..SamplingTools::default() }));
        let rows = runs.map(|run| run.iter().map(|(left, _)| i32::from(left.ids[1])).collect::<Vec<_>>());
        let away: Vec<i32> = rows.flat_map(|run| run[1..].iter().map(|row| (row - run[0]).abs()).collect::<Vec<_>>()).collect();
        (away.iter().copied().min(), away.iter().copied().max())
    };
    // Rows less than 287 apart have a cosine of 0.9 or more, so they may be translations and are left out.
    let (min, max) = distances(Some(&Miner::new(table, 2, 16)));
    assert!(min >= Some(287) && max < Some(450), "{min:?} to {max:?}");
    let (min, max) = distances(None);
    assert!(min < Some(100) && max > Some(700), "{min:?} to {max:?}");
}

#[test]
fn diacritics_are_removed_from_the_configured_share_of_texts() {
    let (marked, bare) = (ids("Çocuklar şarkı söylüyor"), ids("cocuklar sarki soyluyor"));
    let english = ids("The children sing");
    let folder = tempfile::tempdir().unwrap();
    let languages = ["tr", "en"].map(|code| Language::parse(code).unwrap());
    let columns = [vec![marked.clone(); 50], vec![english.clone(); 50]];
    shard::write(&folder.path().join("a.shard"), "a", "a", &languages, &columns).unwrap();
    let sampler = Sampler::open(&config(1.0, 1.0), folder.path()).unwrap();
    let augmenter = Augmenter::new(tokenizer());
    for (share, expect) in [(0.0, 0..=0), (0.5, 420..=580), (1.0, 1_000..=1_000)] {
        let stage = StageConfig { missing_diacritics: Some(ShareConfig { share }), ..stage(1_000, 64) };
        let batch = sampler.batch(3, &stage, SamplingTools { augmenter: Some(&augmenter), ..SamplingTools::default() });
        let texts: Vec<&Vec<u16>> = batch.iter().flat_map(|(left, right)| [&left.ids, &right.ids]).collect();
        let count = |ids: &Vec<u16>| texts.iter().filter(|text| **text == ids).count();
        assert_eq!((count(&english), count(&marked) + count(&bare)), (1_000, 1_000));
        assert!(expect.contains(&count(&bare)), "{share}: {}", count(&bare));
    }
}

#[test]
fn cropping_shortens_one_side_of_a_pair_and_keeps_the_other_whole() {
    let folder = tempfile::tempdir().unwrap();
    let languages = ["tr", "en"].map(|code| Language::parse(code).unwrap());
    let rows = |first: u16| -> Vec<Vec<u16>> { (0..50).map(|row| (first + row..first + row + 20).collect()).collect() };
    shard::write(&folder.path().join("a.shard"), "a", "a", &languages, &[rows(100), rows(1_000)]).unwrap();
    let sampler = Sampler::open(&config(1.0, 1.0), folder.path()).unwrap();
    for (share, expect) in [(0.0, 0..=0), (0.5, 420..=580), (1.0, 1_000..=1_000)] {
        let stage = StageConfig { cropping: Some(ShareConfig { share }), ..stage(1_000, 64) };
        let batch = sampler.batch(3, &stage, SamplingTools::default());
        let parts: Vec<&Vec<u16>> = batch.iter().map(|(first, _)| &first.ids).filter(|ids| ids.len() < 20).collect();
        assert!(expect.contains(&parts.len()), "{share}: {}", parts.len());
        assert!(parts.iter().all(|ids| (4..=10).contains(&ids.len()) && ids.windows(2).all(|two| two[0] + 1 == two[1])));
        assert!(batch.iter().all(|(_, second)| second.ids.len() == 20));
    }
}

#[test]
fn the_question_encoder_reads_questions_and_some_translations() {
    let folder = tempfile::tempdir().unwrap();
    shards(folder.path(), &[("a", &["de", "en"], 2_000), ("help.q", &["de", "en"], 2_000)]);
    let group = GroupConfig { corpora: vec!["*.q".to_owned()], share: 0.5, pair_exponent: 0.5, directed: true };
    let mut config = config(0.5, 0.6);
    config.sampling.groups = vec![group];
    let sampler = Sampler::open(&config, folder.path()).unwrap();
    let read = |translation_share: Option<f64>| {
        let question_encoder = translation_share.map(|translation_share| QuestionEncoderConfig { translation_share });
        let stage = StageConfig { question_encoder, ..stage(1_000, 20) };
        let batch = sampler.batch(3, &stage, SamplingTools::default());
        assert!(batch.iter().all(|(_, right)| !right.question));
        let share = |translated: bool| {
            let lefts: Vec<&Sentence> = batch.iter().map(|(left, _)| left).filter(|left| left.translated == translated).collect();
            lefts.iter().filter(|left| left.question).count() as f64 / lefts.len() as f64
        };
        (share(false), share(true))
    };
    assert_eq!(read(None), (0.0, 0.0));
    assert_eq!(read(Some(0.0)), (1.0, 0.0));
    let (questions, translations) = read(Some(0.3));
    assert!(questions == 1.0 && (0.2..0.4).contains(&translations), "{translations}");
}
