//! A table of words, or of phrases, with their concepts.
//!
//! The file is a safetensors file of three tensors. `words`, uint8, has the numbers of words (`text::plain_words::word_key`),
//! ascending, each as the difference from the previous one, seven bits per byte, lowest first, with the highest bit set in all
//! bytes but the last. `concepts`, uint16, has the concepts of all words, word by word. `shares`, uint8, has as many values:
//! the probability of each concept in units of 1/127, with the highest bit set in the last one of each word.

use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::table_file::{TableError, read_table, write_table};
use crate::domain::WORD_KEY_BITS;
use crate::domain::terms::{pack_number, unpack_number};

const WORDS: &str = "words";
const CONCEPTS: &str = "concepts";
const SHARES: &str = "shares";
/// The stored form of a probability of 1.
const CERTAIN: u8 = (1 << SHARE_BITS) - 1;
/// Number of bits of a stored probability.
const SHARE_BITS: u32 = 7;
/// The bit that marks the last concept of a word.
const LAST: u8 = 0x80;
/// What an error calls the file.
pub(super) const KIND: &str = "translation table";

/// Number of leading bits of a word's number that select where to look it up, so that look-ups rarely wait for memory.
const BUCKET_BITS: u32 = 16;
/// Number of leading bits of a word's number by which most unknown words are recognized. With the words of the shipped
/// model, one in ten unknown words has the same bits as a known one.
const FILTER_BITS: u32 = 24;

/// One of the concepts of a word: the concept in the upper 25 bits, and its probability in units of 1/127, above 0, in the lower
/// seven. A table has millions of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sense(u32);

impl Sense {
    /// Makes a sense from a concept, below 2^25, and its probability, which is rounded.
    pub fn new(concept: u32, probability: f64) -> Self {
        Self::of(concept, (probability * f64::from(CERTAIN)).round().clamp(1.0, CERTAIN.into()) as u8)
    }

    fn of(concept: u32, share: u8) -> Self {
        Self(concept << SHARE_BITS | u32::from(share))
    }

    /// Returns the concept.
    pub fn concept(self) -> u32 {
        self.0 >> SHARE_BITS
    }

    /// Returns its probability.
    pub fn probability(self) -> f32 {
        f32::from(self.share()) / f32::from(CERTAIN)
    }

    /// Returns a sense of the concept with a number higher by `by`.
    pub(super) fn moved(self, by: u32) -> Self {
        Self::of(self.concept() + by, self.share())
    }

    fn share(self) -> u8 {
        self.0 as u8 & CERTAIN
    }
}

/// The concepts of words or phrases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SenseTable {
    /// The numbers of words, ascending.
    words: Vec<u32>,
    /// Where the words of each beginning begin, and where the last ones end.
    buckets: Vec<u32>,
    /// A bit for each value of a number's leading bits, set if a word has it, 2 MiB together. Most words that are looked up
    /// are unknown parts of other words, and this shows it with a single memory access.
    filter: Vec<u64>,
    /// Where the senses of each word begin, and where the last ones end.
    starts: Vec<u32>,
    senses: Vec<Sense>,
}

impl SenseTable {
    /// Makes a table of words, given in any order. Of duplicates, the first counts.
    pub(super) fn new(mut words: Vec<(u32, Vec<Sense>)>) -> Self {
        words.sort_by_key(|(word, _)| *word);
        words.dedup_by_key(|(word, _)| *word);
        let (mut numbers, mut starts, mut all) = (Vec::new(), vec![0], Vec::new());
        for (word, senses) in words.into_iter().filter(|(_, senses)| !senses.is_empty()) {
            numbers.push(word);
            all.extend(senses);
            starts.push(all.len() as u32);
        }
        Self::of(numbers, starts, all)
    }

    fn of(mut words: Vec<u32>, mut starts: Vec<u32>, mut senses: Vec<Sense>) -> Self {
        [&mut words, &mut starts].into_iter().for_each(Vec::shrink_to_fit);
        senses.shrink_to_fit();
        let mut buckets = vec![0; (1 << BUCKET_BITS) + 1];
        words.iter().for_each(|word| buckets[bucket(*word) + 1] += 1);
        let mut end = 0;
        for bucket in &mut buckets {
            end += *bucket;
            *bucket = end;
        }
        let mut filter = vec![0; 1 << (FILTER_BITS - u64::BITS.ilog2())];
        for word in &words {
            let (index, bit) = filter_bit(*word);
            filter[index] |= bit;
        }
        Self { words, buckets, filter, starts, senses }
    }

    /// Returns the concepts of a word. An unknown word has none.
    pub(super) fn senses(&self, word: u32) -> &[Sense] {
        let (index, bit) = filter_bit(word);
        if self.filter.get(index).is_none_or(|bits| bits & bit == 0) {
            return &[];
        }
        let bucket = bucket(word);
        let Some((&begin, &end)) = self.buckets.get(bucket).zip(self.buckets.get(bucket + 1)) else { return &[] };
        let Ok(index) = self.words[begin as usize..end as usize].binary_search(&word) else { return &[] };
        let index = begin as usize + index;
        &self.senses[self.starts[index] as usize..self.starts[index + 1] as usize]
    }

    /// Returns the numbers of its words, ascending.
    pub(super) fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns the number after that of the last concept.
    pub(super) fn concepts_end(&self) -> u32 {
        self.senses.iter().map(|sense| sense.concept() + 1).max().unwrap_or_default()
    }

    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, TableError> {
        read_table(path, KIND, Self::from_bytes)
    }

    /// Writes a file.
    pub(super) fn write(&self, path: &Path) -> Result<(), TableError> {
        write_table(path, KIND, self.to_bytes())
    }

    /// Reads the content of a file. Fails with the reason why it is invalid.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
        let tensor = |name: &str, kind: Dtype| {
            let view = tensors.tensor(name).map_err(|error| format!("{name}: {error}"))?;
            match (view.dtype(), view.shape()) {
                (dtype, &[length]) if dtype == kind => Ok((view.data(), length)),
                (dtype, shape) => Err(format!("{name} is {dtype:?} {shape:?}, expected {kind:?} of one dimension")),
            }
        };
        let (words, _) = tensor(WORDS, Dtype::U8)?;
        let ((concepts, named), (shares, shared)) = (tensor(CONCEPTS, Dtype::U16)?, tensor(SHARES, Dtype::U8)?);
        let words = unpack_numbers(words).ok_or(format!("{WORDS} are not ascending numbers of {WORD_KEY_BITS} bits"))?;
        let ends = (1..).zip(shares).filter(|(_, share)| **share & LAST > 0).map(|(end, _)| end);
        let starts: Vec<u32> = std::iter::once(0).chain(ends).collect();
        if starts.len() != words.len() + 1 || starts.last().is_none_or(|end| *end as usize != shared) || named != shared {
            let ended = starts.len() - 1;
            return Err(format!("{} words have {named} concepts with {shared} shares, which end {ended} times", words.len()));
        }
        let concepts = concepts.as_chunks::<2>().0.iter().map(|two| u16::from_le_bytes(*two));
        let senses: Vec<Sense> = concepts.zip(shares).map(|(concept, share)| Sense::of(concept.into(), share & !LAST)).collect();
        if senses.iter().any(|sense| sense.share() == 0) {
            return Err("a concept has no share".to_owned());
        }
        Ok(Self::of(words, starts, senses))
    }

    /// Returns the content of a file. Fails if there are too many concepts.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let before = std::iter::once(0).chain(self.words.iter().copied());
        let mut words = Vec::new();
        self.words.iter().zip(before).for_each(|(word, before)| pack_number((word - before).into(), &mut words));
        let stored = |sense: &Sense| u16::try_from(sense.concept()).map_err(|_| format!("{CONCEPTS} have more than 16 bits"));
        let concepts: Vec<u16> = self.senses.iter().map(stored).collect::<Result<_, _>>()?;
        let concepts: Vec<u8> = concepts.into_iter().flat_map(u16::to_le_bytes).collect();
        let mut shares: Vec<u8> = self.senses.iter().map(|sense| sense.share()).collect();
        self.starts[1..].iter().for_each(|end| shares[*end as usize - 1] |= LAST);
        let view = |kind, length, data| TensorView::new(kind, vec![length], data).map_err(|error| error.to_string());
        let tensors = [
            (WORDS, view(Dtype::U8, words.len(), &words)?),
            (CONCEPTS, view(Dtype::U16, self.senses.len(), &concepts)?),
            (SHARES, view(Dtype::U8, shares.len(), &shares)?),
        ];
        safetensors::serialize(tensors, None).map_err(|error| error.to_string())
    }
}

fn bucket(word: u32) -> usize {
    (word >> (WORD_KEY_BITS - BUCKET_BITS)) as usize
}

/// Returns where a word's bit is in the filter: the index of the entry, and the bit in it.
fn filter_bit(word: u32) -> (usize, u64) {
    let leading = word >> (WORD_KEY_BITS - FILTER_BITS);
    ((leading / u64::BITS) as usize, 1 << (leading % u64::BITS))
}

/// Unpacks numbers from their differences. Each must be greater than the one before, starting from 0. Returns `None` if they
/// are invalid.
fn unpack_numbers(mut bytes: &[u8]) -> Option<Vec<u32>> {
    let mut numbers: Vec<u32> = Vec::new();
    while !bytes.is_empty() {
        let (difference, rest) = unpack_number(bytes)?;
        let number = match numbers.last() {
            Some(_) if difference == 0 => return None,
            Some(&last) => difference.checked_add(last.into())?,
            None => difference,
        };
        numbers.push((number >> WORD_KEY_BITS == 0).then_some(number as u32)?);
        bytes = rest;
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> SenseTable {
        let senses = vec![Sense::new(7, 0.4), Sense::new(65_535, 0.35)];
        SenseTable::new(vec![(900_000, vec![Sense::new(7, 1.0)]), (3, senses), (5, Vec::new())])
    }

    #[test]
    fn senses_returns_the_concepts_of_a_word() {
        let table = table();
        let concepts = |word| table.senses(word).iter().map(|sense| sense.concept()).collect::<Vec<_>>();
        assert_eq!((concepts(3), concepts(900_000)), (vec![7, 65_535], vec![7]));
        assert_eq!((concepts(4), concepts(5), table.words().len()), (vec![], vec![], 2));
        assert!((table.senses(3)[0].probability() - 0.4).abs() < 0.004);
    }

    #[test]
    fn a_table_round_trips() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("translations.safetensors");
        for table in [table(), SenseTable::new(vec![(0, vec![Sense::new(0, 0.5)])]), SenseTable::new(Vec::new())] {
            table.write(&path).unwrap();
            assert_eq!(SenseTable::read(&path).unwrap(), table);
        }
    }

    #[test]
    fn an_invalid_file_is_refused_with_the_reason() {
        let check = |words: &[u8], concepts: usize, shares: &[u8], expect: &str| {
            let concepts = vec![0; 2 * concepts];
            let view = |kind, length, data| TensorView::new(kind, vec![length], data).unwrap();
            let tensors = [
                (WORDS, view(Dtype::U8, words.len(), words)),
                (CONCEPTS, view(Dtype::U16, concepts.len() / 2, &concepts)),
                (SHARES, view(Dtype::U8, shares.len(), shares)),
            ];
            let problem = SenseTable::from_bytes(&safetensors::serialize(tensors, None).unwrap()).unwrap_err();
            assert!(problem.contains(expect), "{problem}");
        };
        check(&[1, 2], 1, &[LAST | 9], "2 words have 1 concepts with 1 shares, which end 1 times");
        check(&[1], 2, &[LAST | 9, 9], "end 1 times");
        check(&[1], 2, &[LAST | 9], "1 words have 2 concepts");
        check(&[1, 0], 2, &[LAST | 9, LAST | 9], "not ascending");
        check(&[0x81], 1, &[LAST | 9], "not ascending");
        check(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], 1, &[LAST | 9], "not ascending");
        check(&[0x80, 0x80, 0x80, 0x80, 1], 1, &[LAST | 9], "28 bits");
        check(&[1], 1, &[LAST], "a concept has no share");
        assert!(SenseTable::from_bytes(b"tokens").is_err());
    }
}
