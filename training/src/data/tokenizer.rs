//! Trains the Unigram tokenizer on balanced samples of all languages.
//!
//! A language's sentences come from its corpora in proportion to their weights, at most `sentences_per_language` of them, so
//! that a language with millions of sentences gets no more pieces than one with thousands.

use std::collections::BTreeMap;
use std::path::Path;

use dragoman::domain::Language;
use dragoman::text::normalize::{normalizer, pre_tokenizer};
use rand::Rng as _;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use tokenizers::models::unigram::{Unigram, UnigramTrainer};
use tokenizers::{AddedToken, DecoderWrapper, PostProcessorWrapper, TokenizerBuilder};

use super::corpus;
use crate::config::Config;
use crate::error::Error;

/// The id of the padding token.
pub const PADDING_ID: u32 = 0;

/// Trains a tokenizer on the corpora in `raw` and writes it to `out` as a Hugging Face `tokenizer.json`.
pub fn train(config: &Config, raw: &Path, out: &Path) -> Result<(), Error> {
    let sentences = sample(config, raw, config.tokenizer.sentences_per_language)?;
    let total: usize = sentences.values().map(Vec::len).sum();
    if total == 0 {
        return Err(Error::NoData { path: raw.to_owned() });
    }
    println!("{total} sentences of {} languages", sentences.len());
    let special = |text: &str| AddedToken::from(text.to_owned(), true);
    let mut trainer = UnigramTrainer::builder()
        .vocab_size(config.tokenizer.vocabulary)
        .max_piece_length(config.tokenizer.piece_characters_max)
        .special_tokens(vec![special("<pad>"), special("<unk>")])
        .unk_token(Some("<unk>".to_owned()))
        .build()
        .map_err(|error| Error::Tokenizer(Box::new(error)))?;
    let mut tokenizer = TokenizerBuilder::<Unigram, _, _, PostProcessorWrapper, DecoderWrapper>::new()
        .with_model(Unigram::default())
        .with_normalizer(Some(normalizer()))
        .with_pre_tokenizer(Some(pre_tokenizer()))
        .with_post_processor(None)
        .with_decoder(None)
        .build()
        .map_err(Error::Tokenizer)?;
    tokenizer.train(&mut trainer, sentences.into_values().flatten()).map_err(Error::Tokenizer)?;
    tokenizer.save(out, false).map_err(Error::Tokenizer)?;
    println!("{} pieces written to {}", tokenizer.get_vocab_size(true), out.display());
    Ok(())
}

/// Draws at most `per_language` sentences of each language, corpora in proportion to their weights.
pub fn sample(config: &Config, raw: &Path, per_language: usize) -> Result<BTreeMap<Language, Vec<String>>, Error> {
    let mut keyed: BTreeMap<Language, Vec<(f64, String)>> = BTreeMap::new();
    let mut random = ChaCha8Rng::seed_from_u64(config.seed);
    for corpus in corpus::find(raw)?.corpora {
        let weight = config.corpora.weight(&corpus.name);
        if weight == 0.0 {
            continue;
        }
        for (language, column) in corpus.languages().into_iter().zip(corpus.read()?) {
            let keyed = keyed.entry(language).or_default();
            for text in column.into_iter().filter(|text| !text.trim().is_empty()) {
                // Weighted sampling without replacement: the lowest keys of -ln(u) / weight (Efraimidis and Spirakis, 2006).
                keyed.push((-random.random::<f64>().max(f64::MIN_POSITIVE).ln() / weight, text));
            }
            if keyed.len() > 4 * per_language {
                lowest(keyed, per_language);
            }
        }
    }
    let drawn = keyed.into_iter().map(|(language, mut keyed)| {
        lowest(&mut keyed, per_language);
        (language, keyed.into_iter().map(|(_, text)| text).collect())
    });
    Ok(drawn.collect())
}

fn lowest(keyed: &mut Vec<(f64, String)>, keep: usize) {
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    keyed.truncate(keep);
}
