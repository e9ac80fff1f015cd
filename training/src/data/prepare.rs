//! From parallel text to shards: tokenizes every corpus once, and leaves out text that occurs in evaluation files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dragoman::domain::PassageBounds;
use dragoman::text::Tokenizer;
use dragoman::text::normalize::normalize;
use dragoman::text::segment::split_passages;
use rayon::prelude::*;
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::corpus::{self, Source};
use super::shard::{self, ShardWriter};
use crate::error::Error;

/// Maximum tokens that a shard stores of one segment.
const TOKENS_MAX: usize = 128;
/// Tokens per passage, as when the server splits texts for the models trained here.
const PASSAGE_TOKENS: usize = 120;

/// Tokenizes the corpora in `raw` into shards in `out`. Leaves out every segment whose normalized form equals that of a line or
/// a tab-separated field of any file in the folders `exclude`.
pub fn prepare(raw: &Path, exclude: &[PathBuf], tokenizer: &Path, out: &Path) -> Result<(), Error> {
    let tokenizer = Tokenizer::load(tokenizer)?;
    let excluded = excluded_texts(exclude)?;
    std::fs::create_dir_all(out).map_err(|source| Error::file(out, source))?;
    let found = corpus::find(raw)?;
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (_, reason) in found.skipped {
        *reasons.entry(reason).or_default() += 1;
    }
    for (reason, files) in reasons {
        println!("skipped {files} files: {reason}");
    }
    let (mut segments, mut left_out) = (0, 0);
    let total = found.corpora.len();
    for (number, corpus) in found.corpora.iter().enumerate() {
        let path = out.join(format!("{}.{}", corpus.key, shard::ENDING));
        let mut writer = ShardWriter::create(&path, &corpus.name, &corpus.key, &corpus.languages())?;
        for block in corpus.blocks(corpus::BLOCK_ROWS)? {
            let mut columns = Vec::new();
            let texts = block?;
            for texts in &texts {
                let column: Vec<(Vec<u16>, bool)> = texts
                    .par_iter()
                    .with_min_len(256)
                    .map(|text| encode(&tokenizer, &excluded, text))
                    .collect::<Result<_, _>>()?;
                segments += column.iter().filter(|(ids, _)| !ids.is_empty()).count();
                left_out += column.iter().filter(|(_, hit)| *hit).count();
                columns.push(column.into_iter().map(|(ids, _)| ids).collect::<Vec<_>>());
            }
            if let Source::Tsv(..) = corpus.source {
                clear_incomplete_pairs(&mut columns);
            }
            if corpus.has_questions() {
                columns[1] = answers(&tokenizer, &columns, &texts[1])?;
            }
            writer.append(&columns)?;
        }
        writer.finish()?;
        if (number + 1) % 50 == 0 || number + 1 == total {
            println!("{}/{total} corpora, {segments} segments, {left_out} left out because evaluations contain them", number + 1);
        }
    }
    if segments == 0 { Err(Error::NoData { path: raw.to_owned() }) } else { Ok(()) }
}

fn encode(tokenizer: &Tokenizer, excluded: &FxHashSet<u64>, text: &str) -> Result<(Vec<u16>, bool), Error> {
    let text = text.trim();
    if text.is_empty() {
        return Ok((Vec::new(), false));
    }
    if excluded.contains(&key(text)) {
        return Ok((Vec::new(), true));
    }
    let ids = tokenizer.encode(text, TOKENS_MAX)?.ids;
    Ok((ids.into_iter().map(|id| id as u16).collect(), false))
}

/// Reduces passages that are longer than the model reads to the part that answers the question: splits them as the server does
/// and takes the first part among those that share the most distinct tokens with the question.
fn answers(tokenizer: &Tokenizer, columns: &[Vec<Vec<u16>>], passages: &[String]) -> Result<Vec<Vec<u16>>, Error> {
    let answer = |((question, ids), text): ((&Vec<u16>, &Vec<u16>), &String)| {
        if ids.len() <= PASSAGE_TOKENS {
            return Ok(ids.clone());
        }
        let question_ids: FxHashSet<u16> = question.iter().copied().collect();
        let mut best = (0, ids.clone());
        for cut in split_passages(tokenizer, text.trim(), PassageBounds::adjacent(PASSAGE_TOKENS))? {
            let ids: Vec<u16> = cut.tokens.ids.into_iter().map(|id| id as u16).take(TOKENS_MAX).collect();
            let shared = ids.iter().collect::<FxHashSet<_>>().into_iter().filter(|id| question_ids.contains(id)).count();
            if shared > best.0 {
                best = (shared, ids);
            }
        }
        Ok(best.1)
    };
    columns[0].par_iter().zip(&columns[1]).zip(passages).with_min_len(64).map(answer).collect()
}

fn clear_incomplete_pairs(columns: &mut [Vec<Vec<u16>>]) {
    if let [left, right] = columns {
        for (a, b) in left.iter_mut().zip(right) {
            if a.is_empty() || b.is_empty() {
                a.clear();
                b.clear();
            }
        }
    }
}

/// Hashes of the normalized lines and tab-separated fields of all files in `folders`; fields of up to three characters are
/// ignored.
pub fn excluded_texts(folders: &[PathBuf]) -> Result<FxHashSet<u64>, Error> {
    let mut excluded = FxHashSet::default();
    for folder in folders {
        for entry in std::fs::read_dir(folder).map_err(|source| Error::file(folder, source))? {
            let path = entry.map_err(|source| Error::file(folder, source))?.path();
            for line in corpus::read_lines(&path)? {
                excluded.extend(line.split('\t').filter(|field| field.chars().count() > 3).map(key));
            }
        }
    }
    Ok(excluded)
}

/// The hash of a normalized text: texts that are equal after normalization have equal hashes.
pub fn key(text: &str) -> u64 {
    use std::hash::BuildHasher as _;
    FxBuildHasher.hash_one(normalize(text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::shipped_tokens::tokenizer;

    #[test]
    fn a_long_passage_is_cut_to_the_part_that_best_matches_its_question() {
        let tokenizer = tokenizer();
        let filler = "The harbor lies in the south and has three piers for ferries. ".repeat(12);
        let passage = format!("{filler}A lighthouse of white granite warns ships off the reef at night. {filler}");
        let short = "A lighthouse of white granite warns ships off the reef.".to_owned();
        let texts = [vec!["What warns ships off the reef at night?".to_owned(); 2], vec![passage, short]];
        let encode = |texts: &[String]| -> Vec<Vec<u16>> {
            let ids = |text: &String| tokenizer.encode(text, TOKENS_MAX).unwrap().ids.into_iter().map(|id| id as u16).collect();
            texts.iter().map(ids).collect()
        };
        let columns = [encode(&texts[0]), encode(&texts[1])];
        let cropped = answers(&tokenizer, &columns, &texts[1]).unwrap();
        let reef = tokenizer.encode("reef", 8).unwrap().ids.into_iter().map(|id| id as u16).next_back().unwrap();
        assert!(!columns[1][0].contains(&reef) && cropped[0].contains(&reef));
        assert!(cropped[0].len() <= PASSAGE_TOKENS);
        assert_eq!(cropped[1], columns[1][1]);
    }
}
