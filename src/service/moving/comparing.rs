//! Reads a collection back from both locations, compares it document by document, and computes a checksum of it.

use std::collections::VecDeque;

use sha2::{Digest as _, Sha256};

use super::copying::{BATCH_BYTES, BATCH_DOCUMENTS, CollectionPair};
use super::error::MoveError;
use super::location::OpenLocation;
use super::progress::{MovedCollection, Phase, Progress, Step};
use crate::domain::{Collection, hex};
use crate::storage::Storage;
use crate::store::{DocumentKey, DocumentRecord, PassageRecord, StoreError};

/// Compares all documents except those that have expired by `now_ms`, because a server may have removed those from one location.
pub(super) fn compare(
    (source, target): (&OpenLocation, &OpenLocation),
    row: &Collection,
    pair: &CollectionPair,
    now_ms: i64,
    progress: Progress<'_>,
) -> Result<MovedCollection, MoveError> {
    let (failed, target_failed) = (source.failed(row), target.failed(row));
    let total = pair.source.counts().map_err(&failed)?.documents;
    let reader = |storage| DocumentReader { storage, now_ms, after: None, read: VecDeque::new() };
    let (mut left, mut right) = (reader(&*pair.source), reader(&*pair.target));
    let (mut sums, mut documents, mut passages) = ([Sha256::new(), Sha256::new()], 0, 0);
    loop {
        let (one, other) = match (left.next().map_err(&failed)?, right.next().map_err(&target_failed)?) {
            (None, None) => break,
            (Some(one), Some(other)) if one.key == other.key => (one, other),
            (Some(one), other) if other.as_ref().is_none_or(|other| one.key < other.key) => {
                return Err(difference_error(row, &one, "is missing in the target"));
            }
            (_, Some(other)) => return Err(difference_error(row, &other, "is only in the target")),
            (Some(one), None) => return Err(difference_error(row, &one, "is missing in the target")),
        };
        let digests = [digest(&one), digest(&other)];
        if digests[0] != digests[1] {
            return Err(difference_error(row, &one, "has different content"));
        }
        sums.iter_mut().zip(digests).for_each(|(sum, digest)| sum.update(digest));
        documents += 1;
        passages += one.passages.len() as u64;
        if documents % BATCH_DOCUMENTS as u64 == 0 {
            progress(Step { collection: &row.name, phase: Phase::Comparing, done: documents, total });
        }
    }
    let problem = |problem| MoveError::CollectionDiffers { name: row.name.clone(), problem };
    if pair.source.metadata_indexes() != pair.target.metadata_indexes() {
        return Err(problem("its metadata indexes"));
    }
    if pair.source.sequence().map_err(failed)? != pair.target.sequence().map_err(target_failed)? {
        return Err(problem("the number of its last change"));
    }
    let [one, other] = sums.map(|sum| hex(&sum.finalize()));
    if one != other {
        return Err(problem("its checksum"));
    }
    Ok(MovedCollection { name: row.name.as_str().to_owned(), documents, passages, checksum: one })
}

fn difference_error(row: &Collection, document: &DocumentRecord, problem: &'static str) -> MoveError {
    MoveError::DocumentDiffers { name: row.name.clone(), document: document.document.id.clone(), problem }
}

/// Reads the documents of a collection in batches, in the order of their keys.
struct DocumentReader<'s> {
    storage: &'s dyn Storage,
    now_ms: i64,
    after: Option<DocumentKey>,
    read: VecDeque<DocumentRecord>,
}

impl DocumentReader<'_> {
    fn next(&mut self) -> Result<Option<DocumentRecord>, StoreError> {
        loop {
            while let Some(document) = self.read.pop_front() {
                if document.document.expires_at_ms.is_none_or(|at| at > self.now_ms) {
                    return Ok(Some(document));
                }
            }
            self.read = self.storage.document_records(self.after, BATCH_DOCUMENTS, BATCH_BYTES)?.into();
            match self.read.back() {
                Some(last) => self.after = Some(last.key),
                None => return Ok(None),
            }
        }
    }
}

/// Computes the SHA-256 of everything stored about a document. Each part of variable length is preceded by its length, so that
/// no two different documents are hashed as the same bytes.
fn digest(record: &DocumentRecord) -> [u8; 32] {
    let DocumentRecord { key, document, passages } = record;
    let mut hash = Sha256::new();
    let number = |hash: &mut Sha256, number: u64| hash.update(number.to_le_bytes());
    let signed = |hash: &mut Sha256, number: i64| hash.update(number.to_le_bytes());
    signed(&mut hash, key.0);
    number(&mut hash, document.sequence.0);
    signed(&mut hash, document.created_at_ms);
    signed(&mut hash, document.updated_at_ms);
    // No document can expire at this time, so it stands for none.
    signed(&mut hash, document.expires_at_ms.unwrap_or(i64::MIN));
    // No confidence is NaN, so NaN stands for none.
    hash.update(document.language_confidence.unwrap_or(f32::NAN).to_le_bytes());
    text(&mut hash, Some(document.id.as_str()));
    text(&mut hash, document.title.as_deref());
    text(&mut hash, Some(&document.text));
    text(&mut hash, document.language.map(|language| language.code()));
    // Serializing a JSON object cannot fail.
    text(&mut hash, Some(&serde_json::to_string(&document.metadata).unwrap_or_default()));
    number(&mut hash, passages.len() as u64);
    passages.iter().for_each(|passage| add_passage(&mut hash, passage));
    hash.finalize().into()
}

fn add_passage(hash: &mut Sha256, passage: &PassageRecord) {
    let PassageRecord { id, span, embedded, tokens, words } = passage;
    for number in [id.0, span.range.start as u64, span.range.end as u64] {
        hash.update(number.to_le_bytes());
    }
    text(hash, span.headings.as_deref());
    let (sequence, values) = embedded.as_ref().map_or((u64::MAX, &[][..]), |(sequence, values)| (sequence.0, values.as_slice()));
    hash.update(sequence.to_le_bytes());
    let values: Vec<u8> = values.iter().flat_map(|value| value.to_bits().to_le_bytes()).collect();
    for bytes in [values, tokens.to_bytes(), words.to_bytes()] {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
}

fn text(hash: &mut Sha256, text: Option<&str>) {
    // No text has this length, so it stands for a missing text.
    hash.update(text.map_or(u64::MAX, |text| text.len() as u64).to_le_bytes());
    hash.update(text.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Document, DocumentId, Embedding, Language, Metadata, PassageId, Sequence, TokenSet, WordCounts};

    fn record() -> DocumentRecord {
        let document = Document {
            id: DocumentId::parse("a").unwrap(),
            title: None,
            text: "Der Zug hat Verspätung.".to_owned(),
            language: None,
            language_confidence: None,
            metadata: Metadata::new(),
            passages: 1,
            indexed: true,
            created_at_ms: 1,
            updated_at_ms: 2,
            expires_at_ms: None,
            sequence: Sequence(3),
        };
        let embedding = Embedding::unscaled(vec![0.0, 1.0]).unwrap();
        let passage = PassageRecord {
            id: PassageId(4),
            span: (0..7).into(),
            embedded: Some((Sequence(5), embedding)),
            tokens: TokenSet::default(),
            words: WordCounts::default(),
        };
        DocumentRecord { key: DocumentKey(6), document, passages: vec![passage] }
    }

    #[test]
    fn changing_any_part_of_a_document_changes_its_digest() {
        let changes: [fn(&mut DocumentRecord); 20] = [
            |record| record.key = DocumentKey(7),
            |record| record.document.id = DocumentId::parse("b").unwrap(),
            |record| record.document.title = Some(String::new()),
            |record| record.document.text.push(' '),
            |record| record.document.language = Language::parse("de"),
            |record| record.document.language_confidence = Some(0.5),
            |record| drop(record.document.metadata.insert("a".to_owned(), 1.into())),
            |record| record.document.created_at_ms = 7,
            |record| record.document.updated_at_ms = 7,
            |record| record.document.expires_at_ms = Some(7),
            |record| record.document.sequence = Sequence(7),
            |record| record.passages.clear(),
            |record| record.passages[0].id = PassageId(7),
            |record| record.passages[0].span.range = 0..8,
            |record| record.passages[0].span.headings = Some("Fahrplan".to_owned()),
            |record| record.passages[0].embedded = None,
            |record| record.passages[0].embedded.as_mut().unwrap().0 = Sequence(7),
            // The same number, but one bit differs.
            |record| record.passages[0].embedded.as_mut().unwrap().1 = Embedding::unscaled(vec![-0.0, 1.0]).unwrap(),
            |record| record.passages[0].tokens = TokenSet::from_ids(&[7]),
            |record| record.passages[0].words = WordCounts::from_words(vec![7]),
        ];
        let mut seen = vec![digest(&record())];
        for change in changes {
            let mut changed = record();
            change(&mut changed);
            assert!(!seen.contains(&digest(&changed)), "{changed:?}");
            seen.push(digest(&changed));
        }
        assert_eq!(digest(&record()), seen[0]);
    }
}
