//! The rules of writes, for both engines: preconditions, patches, and what an upsert keeps of the stored document. An engine only
//! has the statements.

use std::collections::HashSet;

use super::{PendingPassage, PreparedDocument, StoreError, Upserted};
use crate::domain::{
    Document, DocumentId, DocumentPatch, Embedding, Language, PassageId, PassageSpan, Precondition, Sequence, metadata,
};

/// Fails with `StoreError::PreconditionFailed` unless the precondition holds for a document whose version is `current`.
pub(crate) fn check_precondition(
    id: &DocumentId,
    current: Option<Sequence>,
    precondition: &Precondition,
) -> Result<(), StoreError> {
    if precondition.holds(current) {
        return Ok(());
    }
    let names_none = matches!(precondition, Precondition::Version(versions) if versions.is_empty());
    Err(StoreError::PreconditionFailed { id: id.clone(), current, names_none })
}

/// A text that was split again because its title changes.
#[derive(Debug, Clone)]
pub struct ResplitText {
    /// The title that it was split with.
    pub title: Option<String>,
    pub text: String,
    pub passages: Vec<PassageSpan>,
    /// Whether its only passage keeps its embedding, because that is the caller's own vector.
    pub keeps_embedding: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum PatchOutcome {
    Absent,
    /// The document's text or title is no longer the one that the patch was prepared for. Nothing was changed.
    Conflict,
    /// The document as it is now, and its passages that the patch left without embedding.
    Done(Box<Document>, Vec<PendingPassage>),
}

/// A change of a document's metadata that only applies to a certain title and text.
#[derive(Debug, Clone)]
pub struct TextPatch {
    pub id: DocumentId,
    /// The title of the text that the change applies to.
    pub title: Option<String>,
    pub text: String,
    pub patch: DocumentPatch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patched {
    Done,
    /// The document is gone or has another title or text. It was left unchanged.
    Conflict,
    /// The metadata would have become too large or too deep.
    TooLarge,
    /// The change would have lost a value that is not an object, because it needs an object in its place.
    Blocked,
}

/// A change of all documents that match a filter, in several transactions.
#[derive(Debug, Clone)]
pub enum BatchChange {
    Delete,
    /// Changes metadata and expiry.
    Update(DocumentPatch),
}

/// The result of one transaction of such a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedBatch {
    /// Number of documents that matched.
    pub matched: usize,
    /// The rows of those that were changed, as `StoreError::CorruptRow` names them.
    pub rows: Vec<i64>,
    /// Where the next transaction continues. `None` when done.
    pub next: Option<i64>,
}

/// Maximum number of documents that one such transaction changes. Bounds how long other writes wait.
pub(crate) const CHANGED_PER_TRANSACTION: usize = 500;

impl BatchChange {
    pub(crate) fn operation(&self) -> &'static str {
        match self {
            Self::Delete => "deleting documents",
            Self::Update(_) => "changing documents",
        }
    }
}

/// A stored document with its key.
pub(crate) struct FoundDocument {
    pub(crate) key: i64,
    pub(crate) document: Document,
}

/// A transaction of an engine, with the statements that patches need.
pub(crate) trait PatchTransaction {
    /// An error that does not name the failed operation yet.
    type Fault: From<StoreError>;

    fn find(&mut self, id: &DocumentId) -> Result<Option<FoundDocument>, Self::Fault>;

    /// Writes the fields of a document that a patch can change, as a change made now.
    fn write_patched(&mut self, key: i64, document: &Document) -> Result<(), Self::Fault>;

    /// Recomputes the terms of a document's passages, in its language.
    fn renew_terms(&mut self, key: i64, language: Option<Language>) -> Result<(), Self::Fault>;

    /// Replaces the passages of a document. Returns those that wait for their embedding.
    fn replace_passages(
        &mut self,
        key: i64,
        document: &Document,
        resplit: &ResplitText,
    ) -> Result<Vec<PendingPassage>, Self::Fault>;
}

pub(crate) fn patch<T: PatchTransaction>(
    transaction: &mut T,
    id: &DocumentId,
    patch: &DocumentPatch,
    resplit: Option<&ResplitText>,
    precondition: &Precondition,
) -> Result<PatchOutcome, T::Fault> {
    let Some(found) = transaction.find(id)? else { return Ok(PatchOutcome::Absent) };
    check_precondition(id, Some(found.document.sequence), precondition)?;
    let replacing = ResplitText::for_patch(resplit, &found.document, patch);
    let Some(replacing) = replacing else { return Ok(PatchOutcome::Conflict) };
    patch_found(transaction, &found, patch)?;
    let pending = match replacing {
        Some(resplit) => {
            let language = patch.language.or(found.document.language);
            transaction.replace_passages(found.key, &Document { language, ..found.document }, resplit)?
        }
        None => Vec::new(),
    };
    let changed = transaction.find(id)?;
    Ok(changed.map_or(PatchOutcome::Absent, |found| PatchOutcome::Done(Box::new(found.document), pending)))
}

pub(crate) fn patch_texts<T: PatchTransaction>(transaction: &mut T, patches: &[TextPatch]) -> Result<Vec<Patched>, T::Fault> {
    let mut outcomes = Vec::with_capacity(patches.len());
    for TextPatch { id, title, text, patch } in patches {
        let is_same = |found: &FoundDocument| (&found.document.title, &found.document.text) == (title, text);
        outcomes.push(match transaction.find(id)?.filter(is_same) {
            None => Patched::Conflict,
            Some(found) if metadata::loses_value(&found.document.metadata, &patch.metadata) => Patched::Blocked,
            Some(found) => match apply(&found.document, patch) {
                Err(StoreError::MetadataTooLarge { .. }) => Patched::TooLarge,
                patched => {
                    write(transaction, &found, patched?)?;
                    Patched::Done
                }
            },
        });
    }
    Ok(outcomes)
}

/// Patches a document that was read in this transaction. Returns whether that changed anything.
pub(crate) fn patch_found<T: PatchTransaction>(
    transaction: &mut T,
    found: &FoundDocument,
    patch: &DocumentPatch,
) -> Result<bool, T::Fault> {
    let patched = apply(&found.document, patch)?;
    write(transaction, found, patched)
}

/// Returns a document as a patch leaves it, or `None` if the patch changes nothing.
fn apply(document: &Document, patch: &DocumentPatch) -> Result<Option<Document>, StoreError> {
    let mut patched = document.clone();
    metadata::merge(&mut patched.metadata, &patch.metadata);
    let bounds = [
        ("bytes as JSON (metadata_bytes_max)", patch.metadata_bytes_max, metadata::bytes(&patched.metadata)),
        ("levels (metadata_depth_max)", patch.metadata_depth_max, metadata::depth(&patched.metadata)),
    ];
    if let Some(&(unit, max, got)) = bounds.iter().find(|(_, max, got)| got > max) {
        return Err(StoreError::MetadataTooLarge { unit, max, got });
    }
    if patch.language.is_some() {
        // A language given by the caller is no longer a guess, even if it is the detected one.
        (patched.language, patched.language_confidence) = (patch.language, None);
    }
    patched.title = patch.title.clone().unwrap_or(patched.title);
    patched.expires_at_ms = patch.expires_at_ms.unwrap_or(patched.expires_at_ms);
    Ok((patched != *document).then_some(patched))
}

/// Writes what a patch changed. Returns whether there is anything.
fn write<T: PatchTransaction>(transaction: &mut T, found: &FoundDocument, patched: Option<Document>) -> Result<bool, T::Fault> {
    let Some(patched) = patched else { return Ok(false) };
    transaction.write_patched(found.key, &patched)?;
    // If the title changes, the caller replaces the passages anyway.
    if patched.language != found.document.language && patched.title == found.document.title {
        transaction.renew_terms(found.key, patched.language)?;
    }
    Ok(true)
}

impl ResplitText {
    /// Returns the text whose passages replace those of the document: none if the patch keeps the title. Returns `None` if
    /// `resplit` was not split with the new title, or is not the document's text.
    fn for_patch<'r>(resplit: Option<&'r Self>, document: &Document, patch: &DocumentPatch) -> Option<Option<&'r Self>> {
        let title = patch.title.clone().unwrap_or_else(|| document.title.clone());
        if title == document.title {
            return Some(None);
        }
        resplit.filter(|resplit| resplit.title == title && resplit.text == document.text).map(Some)
    }

    /// Returns the document with the passages that replace its old ones. `embedding` is that of its only passage, if it keeps
    /// one.
    pub(crate) fn prepare(&self, document: &Document, embedding: Option<Embedding>) -> PreparedDocument {
        let (title, passages) = (self.title.clone(), self.passages.clone());
        PreparedDocument { title, passages, embedding, ..document.clone().into() }
    }
}

/// Leaves passages to embed only to the last of the documents with the same id, whose passages replaced those of the others.
pub(crate) fn clear_earlier_pending<'d>(ids: impl DoubleEndedIterator<Item = &'d DocumentId>, outcomes: &mut [Upserted]) {
    let mut seen = HashSet::new();
    for (id, outcome) in ids.rev().zip(outcomes.iter_mut().rev()) {
        if !seen.insert(id) {
            outcome.pending.clear();
        }
    }
}

/// A document's row before it is replaced.
pub(crate) struct StoredDocument {
    pub(crate) key: i64,
    /// Whether text and title are unchanged.
    pub(crate) same_text: bool,
    pub(crate) created_at_ms: i64,
    pub(crate) updated_at_ms: i64,
    pub(crate) language: Option<String>,
    pub(crate) expires_at_ms: Option<i64>,
    /// Its passages, in order. SQLite reads them only if text and title are unchanged; PostgreSQL also removes them by this list.
    pub(crate) passages: Vec<StoredPassage>,
}

pub(crate) struct StoredPassage {
    pub(crate) id: PassageId,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) headings: Option<String>,
    pub(crate) is_pending: bool,
    /// Only read if the new document has one to compare it with.
    pub(crate) embedding: Option<Embedding>,
}

impl StoredDocument {
    /// Whether it has expired. Then it counts as gone, and the new document is created.
    pub(crate) fn has_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|at| at <= now_ms)
    }

    pub(crate) fn has_language_of(&self, document: &PreparedDocument) -> bool {
        self.language.as_deref() == document.language.map(|language| language.code())
    }

    /// If the passages can be kept, returns those of them without an embedding. They can be kept if the document is split as
    /// before and its own vector, if it has one, is the same. Otherwise returns `None`.
    pub(crate) fn reusable_passages(&self, document: &PreparedDocument) -> Result<Option<Vec<PendingPassage>>, StoreError> {
        if !self.same_text || self.passages.len() != document.passages.len() {
            return Ok(None);
        }
        let mut pending = Vec::new();
        for (passage, span) in self.passages.iter().zip(&document.passages) {
            let same_range = (span.range.start as i64, span.range.end as i64) == (passage.start, passage.end);
            let same_embedding = document.embedding.as_ref().is_none_or(|given| passage.embedding.as_ref() == Some(given));
            if !same_range || span.headings != passage.headings || !same_embedding {
                return Ok(None);
            }
            if passage.is_pending {
                pending.push(document.pending_passage(passage.id, span)?);
            }
        }
        Ok(Some(pending))
    }
}
