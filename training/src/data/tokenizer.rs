//! Trains the Unigram tokenizer on balanced samples of all languages.
//!
//! A language's texts come from its corpora in proportion to their weights, up to `characters_per_language`: a language with
//! millions of sentences gets no more pieces than one with thousands, and a language with long texts no more than one with
//! short texts.

use std::collections::BTreeMap;
use std::path::Path;

use dragoman::domain::Language;
use dragoman::text::normalize::{normalizer, pre_tokenizer};
use rand::Rng as _;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use tokenizers::models::unigram::Unigram;
use tokenizers::{
    AddedToken, DecoderWrapper, NormalizedString, Normalizer as _, OffsetReferential, OffsetType, PostProcessorWrapper,
    PreTokenizedString, PreTokenizer as _, TokenizerBuilder,
};

use super::corpus;
use super::unigram::{self, CountedWord};
use crate::config::{Config, CorporaConfig};
use crate::error::Error;

/// The special tokens by id: padding and unknown.
const SPECIAL: [&str; 2] = ["<pad>", "<unk>"];
const UNKNOWN_ID: usize = 1;
/// Sentences per language to calibrate int8 ranges on.
const CALIBRATION_PER_LANGUAGE: usize = 8;

/// Trains a tokenizer on the corpora in `raw` and writes it to `out` as a Hugging Face `tokenizer.json`.
pub fn train(config: &Config, raw: &Path, out: &Path) -> Result<(), Error> {
    let settings = &config.tokenizer;
    let texts = sample(raw, &config.corpora, config.seed, settings.characters_per_language, |text| text.chars().count())?;
    let total: usize = texts.values().map(Vec::len).sum();
    if total == 0 {
        return Err(Error::NoData { path: raw.to_owned() });
    }
    println!("{total} texts of {} languages", texts.len());
    let words = count_words(&texts.into_values().flatten().collect::<Vec<_>>())?;
    let pieces = unigram::train(&words, settings.vocabulary as usize - SPECIAL.len(), settings);
    let vocabulary = SPECIAL.iter().map(|text| ((*text).to_owned(), 0.0)).chain(pieces).collect();
    let model = Unigram::from(vocabulary, Some(UNKNOWN_ID), false).map_err(Error::Tokenizer)?;
    let mut tokenizer = TokenizerBuilder::<Unigram, _, _, PostProcessorWrapper, DecoderWrapper>::new()
        .with_model(model)
        .with_normalizer(Some(normalizer()))
        .with_pre_tokenizer(Some(pre_tokenizer()))
        .with_post_processor(None)
        .with_decoder(None)
        .build()
        .map_err(Error::Tokenizer)?;
    tokenizer.add_special_tokens(SPECIAL.map(|text| AddedToken::from(text.to_owned(), true))).map_err(Error::Tokenizer)?;
    tokenizer.save(out, false).map_err(Error::Tokenizer)?;
    println!("{} pieces written to {}", tokenizer.get_vocab_size(true), out.display());
    Ok(())
}

/// The distinct words of `texts`, split like the finished tokenizer splits them, each with its count, in word order.
fn count_words(texts: &[String]) -> Result<Vec<CountedWord>, Error> {
    let count = |texts: &[String]| -> Result<FxHashMap<String, u32>, tokenizers::Error> {
        let (normalizer, pre_tokenizer) = (normalizer(), pre_tokenizer());
        let mut counts = FxHashMap::default();
        for text in texts {
            let mut normalized = NormalizedString::from(text.as_str());
            normalizer.normalize(&mut normalized)?;
            let mut words = PreTokenizedString::from(normalized);
            pre_tokenizer.pre_tokenize(&mut words)?;
            for (word, ..) in words.get_splits(OffsetReferential::Normalized, OffsetType::Byte) {
                *counts.entry(word.to_owned()).or_default() += 1;
            }
        }
        Ok(counts)
    };
    let parts: Vec<_> = texts.par_chunks(16_384).map(count).collect::<Result<_, _>>().map_err(Error::Tokenizer)?;
    let mut counts: FxHashMap<String, u32> = FxHashMap::default();
    for (word, count) in parts.into_iter().flatten() {
        *counts.entry(word).or_default() += count;
    }
    let mut words: Vec<CountedWord> = counts.into_iter().map(|(word, count)| (word.chars().collect(), count)).collect();
    words.sort_unstable();
    Ok(words)
}

/// Draws texts of each language up to `budget`, measured by `size`, from corpora in proportion to their weights.
pub fn sample(
    raw: &Path,
    corpora: &CorporaConfig,
    seed: u64,
    budget: usize,
    size: impl Fn(&str) -> usize,
) -> Result<BTreeMap<Language, Vec<String>>, Error> {
    let mut keyed: BTreeMap<Language, SampledTexts> = BTreeMap::new();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for corpus in corpus::find(raw)?.corpora {
        let weight = corpora.weight(&corpus.name);
        if weight == 0.0 {
            continue;
        }
        let languages = corpus.languages();
        for block in corpus.blocks(corpus::BLOCK_ROWS)? {
            for (language, column) in languages.iter().zip(block?) {
                let drawn = keyed.entry(*language).or_default();
                for text in column.into_iter().filter(|text| !text.trim().is_empty()) {
                    let size = size(&text);
                    // Weighted sampling without replacement: takes the lowest keys of -ln(u) / weight (Efraimidis and Spirakis,
                    // 2006).
                    drawn.texts.push((-random.random::<f64>().max(f64::MIN_POSITIVE).ln() / weight, size, text));
                    drawn.size += size;
                }
                if drawn.size > 4 * budget {
                    drawn.keep_lowest(budget);
                }
            }
        }
    }
    let drawn = keyed.into_iter().map(|(language, mut drawn)| {
        drawn.keep_lowest(budget);
        (language, drawn.texts.into_iter().map(|(.., text)| text).collect())
    });
    Ok(drawn.collect())
}

/// A sample of the texts in `raw`, in all languages, to calibrate int8 ranges on; empty without a folder.
pub fn calibration_texts(raw: Option<&Path>, corpora: &CorporaConfig, seed: u64) -> Result<Vec<String>, Error> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    Ok(sample(raw, corpora, seed, CALIBRATION_PER_LANGUAGE, |_| 1)?.into_values().flatten().collect())
}

/// The texts drawn for one language, with their keys and sizes.
#[derive(Default)]
struct SampledTexts {
    texts: Vec<(f64, usize, String)>,
    size: usize,
}

impl SampledTexts {
    fn keep_lowest(&mut self, budget: usize) {
        self.texts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut size = 0;
        self.texts.retain(|(_, more, _)| {
            let fits = size < budget;
            if fits {
                size += more;
            }
            fits
        });
        self.size = size;
    }
}
