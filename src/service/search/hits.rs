//! Turns candidates, which are documents with their best passage, into hits.

use std::collections::{HashMap, HashSet};

use super::marks::Marking;
use crate::domain::{DocumentId, Embedding, Hit, HitParts, HitPassage, HitRanks, Language, MetadataObject, PassageId};
use crate::service::error::Error;
use crate::service::limits::budget::AnswerBudget;
use crate::service::open_collection::OpenCollection;
use crate::storage::Neighbor;
use crate::store::{Excerpt, HitSizes, PassageDocument, PassageRow, SearchFilter};

const ROWS_PER_READ: usize = 64;
/// Approximate bytes that a value of a vector takes in JSON.
const VALUE_BYTES: u64 = 12;

/// Approximate bytes that a mark takes in JSON.
const MARK_BYTES: u64 = 24;

/// A document that may become a hit, with its best passage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    pub(super) passage: PassageId,
    pub(super) document: DocumentId,
    pub(super) language: Option<Language>,
    pub(super) score: f32,
    pub(super) ranks: HitRanks,
    pub(super) group: Option<String>,
}

/// What hits contain, and what they must match.
#[derive(Clone, Copy)]
pub(super) struct HitContents<'a> {
    pub(super) parts: HitParts,
    pub(super) filter: &'a SearchFilter,
    pub(super) marking: &'a Marking<'a>,
}

impl Candidate {
    /// Makes a candidate of a document from the passage that was found.
    pub(super) fn from_passage((neighbor, row): (Neighbor, PassageDocument)) -> Self {
        let PassageDocument { passage, document, language, .. } = row;
        Self { passage, document, language, score: neighbor.score, ranks: HitRanks::default(), group: None }
    }

    /// A candidate whose id is its passage's key, for tests.
    #[cfg(test)]
    pub(super) fn example(key: u64, language: &str, score: f32) -> Self {
        let (document, language) = (DocumentId::parse(&key.to_string()).unwrap(), Language::parse(language));
        Self { passage: PassageId(key), document, language, score, ranks: HitRanks::default(), group: None }
    }
}

/// Reads the contents of the hits. Fails as soon as they exceed the budget. Leaves out documents that were deleted since they
/// became candidates, and documents that no longer match. The match is checked on the same rows that are returned, so a change
/// since the passage was chosen cannot slip through.
pub(super) fn read(
    collection: &OpenCollection,
    candidates: Vec<Candidate>,
    contents: HitContents<'_>,
    budget: &AnswerBudget,
) -> Result<Vec<Hit>, Error> {
    let HitContents { parts, filter, marking } = contents;
    let passages: Vec<PassageId> = candidates.iter().map(|candidate| candidate.passage).collect();
    let charged_before = budget.charged();
    let mut marks = 0;
    let too_large = |marks: u64| match budget.refusal() {
        Some(refusal) => Ok(refusal),
        None => too_large(collection, &passages, parts, charged_before + marks, budget.limit()),
    };
    if parts.vector && !budget.charge(passages.len() as u64 * vector_bytes(collection)) {
        return Err(too_large(marks)?);
    }
    let vectors: HashMap<PassageId, Embedding> =
        if parts.vector { collection.store.embeddings_of(&passages)?.into_iter().collect() } else { HashMap::new() };
    let restricted = *filter != SearchFilter::default();
    let bare = !(parts.title || parts.text || parts.metadata || parts.passage);
    // For many hits, reads the sizes first, so that a response that is too large is refused before any of it is read.
    let sizes_charged = !bare && passages.len() > ROWS_PER_READ;
    if sizes_charged {
        let sizes = collection.store.sizes_of(&passages)?;
        if !budget.charge(sizes.into_iter().map(|sizes| requested_bytes(sizes, parts)).sum()) {
            return Err(too_large(marks)?);
        }
    }
    let mut hits = Vec::with_capacity(candidates.len());
    for part in candidates.chunks(ROWS_PER_READ) {
        let ids: Vec<PassageId> = part.iter().map(|candidate| candidate.passage).collect();
        if bare {
            let ids = if restricted { collection.store.keep_matching(filter, &ids)? } else { ids };
            let existing: HashSet<PassageId> = ids.into_iter().collect();
            let part = part.iter().filter(|candidate| existing.contains(&candidate.passage));
            hits.extend(part.map(|candidate| hit_without_contents(candidate, &vectors)));
            continue;
        }
        let mut rest = part.iter();
        let charge = &mut |sizes| sizes_charged || budget.charge(requested_bytes(sizes, parts));
        let rows = collection.store.passages_while(&ids, parts.into(), charge)?;
        let Some(rows) = rows else { return Err(too_large(marks)?) };
        for row in rows {
            let Some(candidate) = rest.find(|candidate| candidate.passage == row.passage.id) else { continue };
            if restricted && !filter.matches(&row.document) {
                continue;
            }
            let hit = with_contents(hit_without_contents(candidate, &vectors), row, parts, marking)?;
            let in_passage = hit.passage.as_ref().map_or(0, |passage| passage.marks.len());
            let more = (in_passage + hit.title_marks.len()) as u64 * MARK_BYTES;
            marks += more;
            if !budget.charge(more) {
                return Err(too_large(marks)?);
            }
            hits.push(hit);
        }
    }
    Ok(hits)
}

/// Returns the size of the parts that hits contain, in bytes.
fn requested_bytes(sizes: HitSizes, parts: HitParts) -> u64 {
    let HitSizes { title, text, metadata, passage } = sizes;
    let wanted = [(title, parts.title), (text, parts.text), (metadata, parts.metadata), (passage, parts.passage)];
    wanted.into_iter().filter(|(_, wanted)| *wanted).map(|(bytes, _)| bytes).sum()
}

/// Makes the error that says how large the whole response would have been.
fn too_large(
    collection: &OpenCollection,
    passages: &[PassageId],
    parts: HitParts,
    charged_before: u64,
    limit: usize,
) -> Result<Error, Error> {
    let vectors = if parts.vector { passages.len() as u64 * vector_bytes(collection) } else { 0 };
    let sizes = collection.store.sizes_of(passages)?;
    let bytes = charged_before + vectors + sizes.into_iter().map(|sizes| requested_bytes(sizes, parts)).sum::<u64>();
    Ok(Error::AnswerTooLarge { bytes, limit, advice: "ask for fewer hits with limit, or leave text out of include" })
}

/// Returns the approximate size of a vector in JSON, in bytes.
fn vector_bytes(collection: &OpenCollection) -> u64 {
    collection.row.dimension as u64 * VALUE_BYTES
}

fn hit_without_contents(candidate: &Candidate, vectors: &HashMap<PassageId, Embedding>) -> Hit {
    Hit {
        id: candidate.document.clone(),
        score: candidate.score,
        language: candidate.language,
        group: candidate.group.clone(),
        title: None,
        title_marks: Vec::new(),
        text: None,
        metadata: None,
        passage: None,
        vector: vectors.get(&candidate.passage).cloned(),
        explanation: Some(candidate.ranks.clone()),
    }
}

/// Adds the requested parts of its document to a hit.
fn with_contents(mut hit: Hit, row: PassageRow, parts: HitParts, marking: &Marking) -> Result<Hit, Error> {
    let PassageRow { document, title, text, excerpt, .. } = row;
    if let Some(Excerpt { text, range }) = excerpt {
        let marks = marking.marks(&text, document.language)?;
        hit.passage = Some(HitPassage { text, start: range.start, end: range.end, marks });
    }
    if let Some(title) = &title {
        hit.title_marks = marking.marks(title, document.language)?;
    }
    (hit.title, hit.text) = (title, text);
    hit.metadata = parts.metadata.then_some(MetadataObject(document.metadata));
    Ok(hit)
}
