//! Patches a document that was read in the same transaction.

use super::batch::Batch;
use super::escape::{escape, filter_json, stored_json};
use super::fault::Fault;
use super::reading::{self, FoundDocument};
use super::session::Parameter;
use super::upsert::{add_passages, remove_passages};
use super::writing::Writing;
use crate::domain::{Document, DocumentPatch};
use crate::store::{PendingPassage, ResplitText, compute_patched_fields};

/// Applies a patch to the row of a document. Returns whether that changed anything.
pub(super) fn change(writing: &mut Writing<'_>, found: &FoundDocument, patch: &DocumentPatch) -> Result<bool, Fault> {
    let document = &found.document;
    let Some(changed) = compute_patched_fields(document, patch)? else { return Ok(false) };
    // A clock that jumps back must not make a document older than it was.
    let updated_at_ms = writing.now_ms.max(document.updated_at_ms);
    let sequence = writing.next_sequence();
    let sql = format!(
        "update {} set language = $2, language_confidence = $3, updated_at_ms = $4, sequence = $5, metadata = $6, fields = $7::jsonb,
         title = $8, expires_at_ms = $9 where document = $1",
        writing.names.documents
    );
    let values: [Parameter<'_>; 9] = [
        &found.key,
        &changed.language.map(|language| language.code()),
        &changed.language_confidence,
        &updated_at_ms,
        &sequence,
        &stored_json(&changed.metadata),
        &filter_json(&changed.metadata),
        &changed.title.as_deref().map(|title| escape(title).into_owned()),
        &changed.expires_at_ms,
    ];
    writing.session.execute(&sql, &values)?;
    writing.note_expiry(changed.expires_at_ms);
    if changed.renews_terms {
        let mut batch = Batch::default();
        for passage in reading::passages_of(writing.session, writing.names, found.key)? {
            let terms = writing.terms_of.compute(&passage.context.prepend_to(&passage.text), changed.language);
            batch.renew_terms(found.key, passage.id.0 as i64, &terms);
        }
        batch.store(writing)?;
    }
    Ok(true)
}

/// Replaces the passages of a document. Returns those that wait for their embedding.
pub(super) fn replace_passages(
    writing: &mut Writing<'_>,
    key: i64,
    document: &Document,
    resplit: &ResplitText,
) -> Result<Vec<PendingPassage>, Fault> {
    let embedding = match resplit.keeps_embedding {
        true => reading::embeddings_of_document(writing.session, writing.names, key)?.into_iter().next(),
        false => None,
    };
    let old: Vec<i64> = reading::passages_of(writing.session, writing.names, key)?.iter().map(|old| old.id.0 as i64).collect();
    let mut batch = Batch::default();
    remove_passages(writing, &mut batch, key, &old);
    let pending = add_passages(writing, &mut batch, key, &resplit.prepare(document, embedding))?;
    batch.store(writing)?;
    Ok(pending)
}
