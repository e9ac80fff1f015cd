//! The sentences of one corpus: passages or documents of a collection, or a list of texts. Equal texts count as one sentence,
//! unless deduplication is off.
//!
//! Sentences are numbered from 0 in the order of their first occurrence. The text of a passage never changes under the same
//! key, so texts read at the beginning stay valid. The results leave out passages that were deleted in the meantime.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use super::embedding_file::EmbeddingFile;
use super::size::Size;
use super::texts::{BLANK, CODE, EqualTexts, Texts, caseless_hash, groups};
use crate::domain::{Embedding, Language, Metric, MinedSentence, MiningUnit, PassageId, Quantization};
use crate::index::{Index, IndexParameters};
use crate::service::error::Error;
use crate::service::jobs::JobError;
use crate::service::open_collection::OpenCollection;
use crate::storage::RESCORED_MIN;
use crate::store::{Excerpt, PassageParts, PassageRow, PassageText};

const PASSAGES_PER_READ: usize = 1_024;
/// Maximum number of copies of one text in a collection whose own index is used. That index contains every copy.
const COPIES_MAX: u32 = 16;
/// Factor by which a search is widened if it finds too few other sentences.
const GROWTH: usize = 4;
/// Maximum number of results of a search that leaves out identical texts. Without it, thousands of copies of one text on both
/// sides would each be searched until all copies on the other side are found.
const RESULTS_MAX: usize = 2_048;

pub(crate) enum Source {
    /// Passages of a collection.
    Collection {
        collection: Arc<OpenCollection>,
        /// Whether all of its passages are used.
        whole: bool,
        unit: MiningUnit,
    },
    /// Texts that the job embeds.
    Texts {
        texts: Texts,
        /// The embeddings so far, one for each sentence.
        embeddings: EmbeddingFile,
    },
}

pub(crate) struct Corpus {
    source: Source,
    /// [positions] Keys of passages (a document has the key of its first passage), or positions in the list. Ascending.
    ids: Vec<u64>,
    /// [positions] The number of the sentence at each position.
    numbers: Vec<u32>,
    /// [sentences] The position of each sentence's first occurrence.
    firsts: Vec<u32>,
    /// [sentences] The `caseless_hash` of each sentence. Empty if identical texts may be a pair. After `mark_shared_codes`, only
    /// a number or code that the other corpus has too keeps `CODE`.
    hashes: Vec<u64>,
    /// How often the most frequent text occurs.
    copies_max: u32,
    /// The index built for this job, if the collection's own does not fit.
    index: OnceLock<Arc<Index>>,
}

impl Corpus {
    /// Reads the texts of `ids`, which must ascend, without passages that were deleted or are not embedded. `check_canceled`
    /// fails if the job should stop. `record` receives the document and the language of each passage. Blocks.
    pub(crate) fn open(
        source: Source,
        ids: Vec<u64>,
        equal: EqualTexts,
        check_canceled: impl Fn() -> Result<(), JobError>,
        mut record: impl FnMut(i64, Option<Language>),
    ) -> Result<Self, JobError> {
        let mut hashes = Vec::new();
        let mut hash = |text: &str| {
            if equal.skip_identical {
                hashes.push(caseless_hash(text));
            }
        };
        let (ids, groups) = match &source {
            Source::Texts { texts, .. } => {
                (0..texts.len()).for_each(|position| hash(texts.text(position)));
                (ids, texts.groups(equal, check_canceled, record)?)
            }
            Source::Collection { collection, unit, .. } => {
                let (mut read_ids, mut failure) = (Vec::with_capacity(ids.len()), None);
                let read = |chunk: &[u64]| -> Result<Vec<PassageText>, JobError> {
                    check_canceled()?;
                    let keys: Vec<PassageId> = chunk.iter().copied().map(PassageId).collect();
                    Ok(collection.with_store(|store| store.passage_texts(&keys, *unit))?)
                };
                let chunks = ids.chunks(PASSAGES_PER_READ);
                let passages = chunks.map_while(|chunk| read(chunk).map_err(|error| failure = Some(error)).ok()).flatten();
                let texts = passages.map(|passage| {
                    read_ids.push(passage.id.0);
                    record(passage.document, passage.language);
                    // In a collection of callers' own vectors a text may be blank. Blank texts do not count as equal.
                    let blank = passage.text.trim().is_empty();
                    let text = if blank { format!("{BLANK}{}", passage.id.0) } else { passage.text };
                    hash(&text);
                    text
                });
                let groups = groups(equal, texts)?;
                match failure {
                    Some(error) => return Err(error),
                    None => (read_ids, groups),
                }
            }
        };
        let (mut numbers, mut firsts, mut copies) = (Vec::with_capacity(ids.len()), Vec::new(), Vec::new());
        for position in 0..ids.len() as u32 {
            let first = groups.as_ref().map_or(position, |groups| groups.representative(position));
            if first == position {
                numbers.push(firsts.len() as u32);
                firsts.push(position);
                copies.push(1);
            } else {
                let number: u32 = numbers[first as usize];
                numbers.push(number);
                copies[number as usize] += 1;
            }
        }
        let copies_max = copies.into_iter().max().unwrap_or(0);
        let hashes = firsts.iter().filter_map(|position| hashes.get(*position as usize).copied()).collect();
        Ok(Self { source, ids, numbers, firsts, hashes, copies_max, index: OnceLock::new() })
    }

    /// Returns the number of different sentences.
    pub(crate) fn sentences(&self) -> usize {
        self.firsts.len()
    }

    /// Returns the number of passages or texts.
    pub(crate) fn positions(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn size(&self) -> Size {
        let indexed = if self.uses_own_index() { 0 } else { self.sentences() as u64 };
        Size {
            sentences: self.positions() as u64,
            different: self.sentences() as u64,
            hashed: !self.hashes.is_empty(),
            text_bytes: self.text_bytes(),
            indexed,
        }
    }

    pub(crate) fn first_position(&self, number: u32) -> u32 {
        self.firsts[number as usize]
    }

    pub(crate) fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// Returns the number of the sentence of a passage or text, or `None` if it is not in the corpus.
    pub(crate) fn number_of(&self, id: u64) -> Option<u32> {
        self.ids.binary_search(&id).ok().map(|position| self.numbers[position])
    }

    /// Whether a sentence of this corpus and one of another have identical texts, and therefore may not be a pair.
    fn is_identical(&self, number: u32, other: &Self, other_number: u32) -> bool {
        match (self.hashes.get(number as usize), other.hashes.get(other_number as usize)) {
            (Some(one), Some(other)) => (one | CODE) == (other | CODE) && *one != 0,
            _ => false,
        }
    }

    /// Whether a sentence is a number or code that the other corpus has too. It has no translation but itself, so it is in no
    /// pair if identical texts may not be a pair.
    pub(crate) fn is_shared_code(&self, number: u32) -> bool {
        self.hashes.get(number as usize).is_some_and(|hash| hash & CODE != 0)
    }

    /// Whether a sentence of this corpus and one of another may not be a pair because of their texts.
    pub(crate) fn is_excluded(&self, number: u32, other: &Self, other_number: u32) -> bool {
        self.is_shared_code(number) || other.is_shared_code(other_number) || self.is_identical(number, other, other_number)
    }

    /// Whether a position in this corpus and one in another corpus are the same passage.
    pub(crate) fn is_same_passage(&self, position: u32, other: &Self, other_position: usize) -> bool {
        match (&self.source, &other.source) {
            (Source::Texts { texts: one, .. }, Source::Texts { texts: other, .. }) => {
                one.is_same(position as usize, other, other_position)
            }
            _ => self.ids[position as usize] == other.ids[other_position] && self.shares_collection_with(other),
        }
    }

    pub(crate) fn shares_collection_with(&self, other: &Self) -> bool {
        match (&self.source, &other.source) {
            (Source::Collection { collection: one, .. }, Source::Collection { collection: other, .. }) => {
                one.row.id == other.row.id
            }
            (Source::Texts { texts: one, .. }, Source::Texts { texts: other, .. }) => one.shares_collection_with(other),
            _ => false,
        }
    }

    pub(crate) fn text_bytes(&self) -> u64 {
        match &self.source {
            Source::Collection { .. } => 0,
            Source::Texts { texts, .. } => texts.bytes(),
        }
    }

    pub(crate) fn uses_own_index(&self) -> bool {
        let Source::Collection { collection, whole: true, unit: MiningUnit::Passage } = &self.source else { return false };
        // Its scores must be cosines, and more precise than values reduced to their signs allow.
        let row = &collection.row;
        self.copies_max <= COPIES_MAX
            && collection.embedded().is_ok()
            && row.metric == Metric::Cosine
            && !row.quantization.keeps_signs_only()
    }

    pub(crate) fn dimension(&self) -> usize {
        match &self.source {
            Source::Collection { collection, .. } => collection.row.dimension,
            Source::Texts { embeddings, .. } => embeddings.dimension(),
        }
    }

    /// Returns up to `max` texts of the list that are not embedded yet, one per sentence. Returns none for a collection.
    pub(crate) fn next_texts_to_embed(&self, max: usize) -> Result<Vec<String>, Error> {
        let Source::Texts { texts, embeddings } = &self.source else { return Ok(Vec::new()) };
        let begin = embeddings.rows()?.min(self.firsts.len());
        let wanted = &self.firsts[begin..self.firsts.len().min(begin + max)];
        Ok(wanted.iter().map(|position| texts.text(*position as usize).to_owned()).collect())
    }

    pub(crate) fn count_unembedded(&self) -> Result<usize, Error> {
        let made = self.embeddings_file().map_or(Ok(self.sentences()), EmbeddingFile::rows)?;
        Ok(self.sentences().saturating_sub(made))
    }

    pub(crate) fn embeddings_file(&self) -> Option<&EmbeddingFile> {
        match &self.source {
            Source::Collection { .. } => None,
            Source::Texts { embeddings, .. } => Some(embeddings),
        }
    }

    /// Reads the embeddings of the sentences in `range`, without deleted ones.
    pub(crate) fn embeddings(&self, range: std::ops::Range<usize>) -> Result<Vec<(u32, Embedding)>, Error> {
        let (collection, unit) = match &self.source {
            Source::Texts { embeddings, .. } => {
                return Ok((range.start as u32..).zip(embeddings.read(range)?).collect());
            }
            Source::Collection { collection, unit, .. } => (collection, *unit),
        };
        let keys: Vec<PassageId> =
            self.firsts[range.clone()].iter().map(|position| PassageId(self.ids[*position as usize])).collect();
        let read = match unit {
            MiningUnit::Passage | MiningUnit::Sentence => {
                directions(collection.with_store(|store| store.embeddings_of(&keys))?, collection.row.metric)
            }
            MiningUnit::Document => means(collection.with_store(|store| store.document_embeddings_of(&keys))?),
        };
        let mut found = read.into_iter().peekable();
        let numbered = (range.start as u32..).zip(keys);
        Ok(numbered
            .filter_map(|(number, key)| found.next_if(|(id, _)| *id == key).map(|(_, embedding)| (number, embedding)))
            .collect())
    }

    pub(crate) fn new_index(&self) -> Result<Arc<Index>, Error> {
        // With 16-bit values its scores are precise enough without rescoring.
        let parameters = IndexParameters::new(self.dimension(), Metric::Cosine, Quantization::F16);
        Ok(Arc::new(Index::create(&parameters)?))
    }

    /// Returns the keys and embeddings of the sentences in `range`, to be added to an index of this corpus.
    pub(crate) fn embeddings_with_keys(&self, range: std::ops::Range<usize>) -> Result<Vec<(PassageId, Embedding)>, Error> {
        let key = |number: u32| PassageId(self.ids[self.firsts[number as usize] as usize]);
        Ok(self.embeddings(range)?.into_iter().map(|(number, embedding)| (key(number), embedding)).collect())
    }

    /// Makes searches for neighbors use `index` from now on.
    pub(crate) fn install(&self, index: Arc<Index>) {
        let installed = self.index.set(index);
        debug_assert!(installed.is_ok(), "the index is made once");
    }

    /// Finds up to `count` different sentences, nearest first, with their cosines. `skip` gets the position and the number of a
    /// sentence and returns whether to leave it out. The search keeps at least `ef` candidates. If identical texts may not be a
    /// pair, looks only at the nearest `RESULTS_MAX` sentences.
    pub(crate) fn nearest(
        &self,
        query: &Embedding,
        count: usize,
        ef: usize,
        skip: impl Fn(usize, u32) -> bool,
    ) -> Result<Vec<(u32, f32)>, Error> {
        let (index, coarse) = match (self.index.get(), &self.source) {
            (Some(index), _) => (index.as_ref(), None),
            (None, Source::Collection { collection, .. }) => {
                (collection.index()?, Some(collection).filter(|collection| collection.row.quantization.is_coarse()))
            }
            (None, Source::Texts { .. }) => return Ok(Vec::new()),
        };
        // Asks for more, because the query itself and copies may be among the results.
        let mut wanted = (count * 2 + 1).max(coarse.map_or(0, |_| RESCORED_MIN));
        let wanted_max = if self.hashes.is_empty() { usize::MAX } else { RESULTS_MAX };
        loop {
            let mut found = index.search_with_ef(query, wanted, ef)?;
            if let Some(collection) = coarse {
                let rescored = collection.embedded()?.rescore(query, found.len(), found);
                found = rescored.map_err(|error| collection.report_damage(error.into()))?;
            }
            let mut nearest: Vec<(u32, f32)> = Vec::with_capacity(count);
            for neighbor in &found {
                // Passages added to the collection in the meantime are not part of the corpus.
                let Ok(position) = self.ids.binary_search(&neighbor.passage.0) else { continue };
                let number = self.numbers[position];
                if nearest.len() < count && !skip(position, number) && nearest.iter().all(|(known, _)| *known != number) {
                    nearest.push((number, neighbor.score));
                }
            }
            if nearest.len() >= count || found.len() < wanted || wanted >= wanted_max {
                return Ok(nearest);
            }
            wanted = wanted.saturating_mul(GROWTH).min(index.len() + 1).min(wanted_max);
        }
    }

    /// Reads the sentences at these positions in the form that results show, in order. A deleted passage is `None`. Blocks.
    pub(crate) fn mined_sentences(&self, positions: &[u32]) -> Result<Vec<Option<MinedSentence>>, Error> {
        let (collection, unit) = match &self.source {
            Source::Texts { texts, .. } => {
                return Ok(positions.iter().map(|position| Some(texts.mined_sentence(*position as usize))).collect());
            }
            Source::Collection { collection, unit, .. } => (collection, *unit),
        };
        let keys: Vec<PassageId> = positions.iter().map(|position| PassageId(self.ids[*position as usize])).collect();
        let parts = if unit == MiningUnit::Document { PassageParts::TEXT } else { PassageParts::EXCERPT };
        let mut rows = collection.with_store(|store| store.passages(&keys, parts))?.into_iter().peekable();
        Ok(keys.iter().map(|key| rows.next_if(|row| row.passage.id == *key).and_then(mined_sentence)).collect())
    }
}

/// Converts a document or a passage to the form that results show: the part that was read.
fn mined_sentence(row: PassageRow) -> Option<MinedSentence> {
    let (id, language) = (row.document.id.as_str().to_owned(), row.document.language);
    if let Some(text) = row.text {
        return Some(MinedSentence { id, language, text, start: None, end: None });
    }
    let Excerpt { text, range } = row.excerpt?;
    let (start, end) = (row.passages > 1).then_some((range.start, range.end)).unzip();
    Some(MinedSentence { id, language, text, start, end })
}

/// Finds the numbers and codes that both corpora have, for `is_shared_code`.
pub(crate) fn mark_shared_codes(first: &mut Corpus, second: &mut Corpus) {
    let is_code = |hash: &&u64| **hash & CODE != 0;
    let of_first: HashSet<u64> = first.hashes.iter().filter(is_code).copied().collect();
    let shared: HashSet<u64> = second.hashes.iter().filter(is_code).filter(|hash| of_first.contains(*hash)).copied().collect();
    for hash in first.hashes.iter_mut().chain(&mut second.hashes) {
        if !shared.contains(hash) {
            *hash &= !CODE;
        }
    }
}

/// Scales passages to unit length, because they are compared by cosine whatever metric their collection has. A vector of zeros
/// has no direction and stays unchanged.
fn directions(mut passages: Vec<(PassageId, Embedding)>, metric: Metric) -> Vec<(PassageId, Embedding)> {
    if metric != Metric::Cosine {
        for (_, embedding) in &mut passages {
            if let Some(unit) = Embedding::normalized(embedding.as_slice().to_vec()) {
                *embedding = unit;
            }
        }
    }
    passages
}

/// Computes the mean direction of each document's passages, as in a search for similar documents. Leaves out documents whose
/// passages cancel each other out.
fn means(documents: Vec<(PassageId, Vec<Embedding>)>) -> Vec<(PassageId, Embedding)> {
    let mean = |(id, passages): (PassageId, Vec<Embedding>)| Some((id, Embedding::mean_direction(&passages)?));
    documents.into_iter().filter_map(mean).collect()
}
