//! Copies a collection into its replacement: compares the revisions of their documents, embeds missing passages, and removes
//! deleted documents.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinHandle;

use crate::domain::{Embedded, Metadata, PassageBounds, PassageContext, PassageEmbedding, Sequence, with_causes};
use crate::embed::{EmbedText, Embedder};
use crate::service::blocking::blocking;
use crate::service::embedding::{PROBE, is_transient};
use crate::service::error::Error;
use crate::service::jobs::{JobContext, JobError, try_embed};
use crate::service::open_collection::OpenCollection;
use crate::store::{CopiedDocument, CopiedPassage, DocumentKey, Revision};

const REVISIONS_PER_READ: usize = 4_096;
const DIFFERENCES_MAX: usize = 128;
/// Bytes of texts after which a read ends.
const TEXT_BYTES: usize = 4 << 20;
/// Number of texts embedded at a time. That is several batches of the encoder, so that it can sort the texts by length.
const TEXTS_PER_TURN: usize = 128;
/// Pause between two counts, in multiples of the time that a count takes, because some engines count row by row.
const COUNTING_SHARE: u32 = 20;

/// One run of the job.
pub(crate) struct CollectionCopier<'c> {
    context: &'c JobContext,
    old: Arc<OpenCollection>,
    next: Arc<OpenCollection>,
    /// The task that stores the previous documents while the encoder works on the next ones.
    storing: Option<JoinHandle<Result<Copied, Error>>>,
    details: Metadata,
    not_embedded: u64,
    passages: u64,
    /// When to count again. Until then, the number of documents copied since the last count is added to it.
    count_after: Instant,
}

struct Copied {
    documents: u64,
    passages: u64,
}

impl<'c> CollectionCopier<'c> {
    /// Begins, or continues where an earlier run stopped.
    pub(crate) async fn begin(
        context: &'c JobContext,
        old: &Arc<OpenCollection>,
        next: &Arc<OpenCollection>,
    ) -> Result<Self, JobError> {
        let (old, next) = (Arc::clone(old), Arc::clone(next));
        let details = context.job.progress().1;
        let count_after = Instant::now();
        let mut copying = Self { context, old, next, storing: None, details, not_embedded: 0, passages: 0, count_after };
        let (done, total) = copying.counts().await?;
        context.measure(done, total);
        copying.report_progress().await?;
        Ok(copying)
    }

    /// Compares and copies all documents. Returns the sequence number up to which both are equal, except for deletions.
    pub(crate) async fn copy_all(&mut self) -> Result<Sequence, JobError> {
        self.copy_from(Revision::FIRST).await
    }

    /// Compares and copies the documents that changed after `seen`, but no deletions. Returns the sequence number, like
    /// `copy_all`.
    pub(crate) async fn copy_changes(&mut self, seen: Sequence) -> Result<Sequence, JobError> {
        // The position after all revisions up to `seen`.
        self.copy_from(Revision { sequence: Sequence(seen.0.saturating_add(1)), ..Revision::FIRST }).await
    }

    /// Whether both have the same number of documents. After a full comparison this means that nothing was deleted since.
    pub(crate) async fn is_equal(&self) -> Result<bool, JobError> {
        let (next, old) = self.counts().await?;
        Ok(next == old)
    }

    async fn copy_from(&mut self, first: Revision) -> Result<Sequence, JobError> {
        let old = Arc::clone(&self.old);
        let sequence = blocking(move || old.with_store(|store| store.sequence())).await?;
        let mut comparison = Comparison::new(Arc::clone(&self.old), Arc::clone(&self.next), first);
        loop {
            self.context.check()?;
            self.old.check_not_restored_over()?;
            let (found, back) = blocking(move || Ok((comparison.step()?, comparison))).await?;
            comparison = back;
            let Some(Differences { missing, surplus }) = found else { break };
            self.delete_surplus(surplus).await?;
            self.copy_documents(&missing).await?;
        }
        self.wait_until_stored().await?;
        self.report_progress().await?;
        Ok(sequence)
    }

    /// Returns the number of documents of the replacement and of the collection.
    async fn counts(&self) -> Result<(u64, u64), JobError> {
        let (old, next) = (Arc::clone(&self.old), Arc::clone(&self.next));
        Ok(blocking(move || Ok((next.store.document_count()?, old.with_store(|store| store.document_count())?))).await?)
    }

    async fn report_progress(&mut self) -> Result<(), JobError> {
        let (next, started) = (Arc::clone(&self.next), Instant::now());
        let (done, total) = self.counts().await?;
        self.passages = blocking(move || Ok(next.store.counts()?.passages)).await?;
        self.count_after = Instant::now() + started.elapsed() * COUNTING_SHARE;
        self.context.set_total(total);
        self.publish(done).await
    }

    async fn publish(&mut self, done: u64) -> Result<(), JobError> {
        self.details.insert("passages".to_owned(), self.passages.into());
        self.details.insert("not_embedded".to_owned(), self.not_embedded.into());
        self.context.progress(done, &self.details).await
    }

    /// Removes documents that the collection no longer has. Keeps documents that only changed: their new revisions are copied.
    async fn delete_surplus(&self, surplus: Vec<DocumentKey>) -> Result<(), JobError> {
        if surplus.is_empty() {
            return Ok(());
        }
        let (old, next, job) = (Arc::clone(&self.old), Arc::clone(&self.next), self.context.job.id.clone());
        Ok(blocking(move || {
            let mut deleted = Vec::new();
            for key in surplus {
                if old.with_store(|store| store.documents_by_key(&[key], 0))?.iter().all(Option::is_none) {
                    deleted.push(key);
                }
            }
            next.store.delete_by_key(&job, deleted)?;
            next.apply_changes()
        })
        .await?)
    }

    /// Copies documents that still exist.
    async fn copy_documents(&mut self, mut keys: &[DocumentKey]) -> Result<(), JobError> {
        while !keys.is_empty() {
            let (old, next, wanted) = (Arc::clone(&self.old), Arc::clone(&self.next), keys.to_vec());
            let embedder = self.context.state()?.embedder.clone();
            let (read, prepared) = blocking(move || prepare(&old, &next, &wanted, &embedder)).await?;
            keys = &keys[read.min(keys.len())..];
            let moved = self.embed(prepared).await?;
            self.store(moved).await?;
        }
        Ok(())
    }

    async fn embed(&mut self, mut documents: Vec<CopiedDocument>) -> Result<Vec<CopiedDocument>, JobError> {
        let text = |copied: &CopiedDocument, passage: &CopiedPassage| EmbedText {
            context: PassageContext { title: copied.document.title.clone(), headings: passage.span.headings.clone() },
            text: copied.document.text[passage.span.range.clone()].to_owned(),
        };
        let texts =
            documents.iter().flat_map(|copied| copied.passages.iter().flatten().map(move |passage| text(copied, passage)));
        let texts: Vec<EmbedText> = texts.collect();
        let mut embeddings = Vec::with_capacity(texts.len());
        for part in texts.chunks(TEXTS_PER_TURN) {
            embeddings.extend(self.embed_part(part).await?);
        }
        let passages = documents.iter_mut().flat_map(|copied| copied.passages.iter_mut().flatten());
        passages.zip(embeddings).for_each(|(passage, embedding)| passage.embedding = embedding);
        Ok(documents)
    }

    /// Embeds texts. If the encoder fails, embeds each text alone, and leaves the texts that still fail to the replacement's
    /// worker. If the encoder itself is broken, fails the job.
    async fn embed_part(&mut self, texts: &[EmbedText]) -> Result<Vec<Option<PassageEmbedding>>, JobError> {
        let embedding = |embedded: Embedded| Some(PassageEmbedding::from(embedded));
        if let Ok(embedded) = try_embed(self.context, texts, is_transient).await? {
            return Ok(embedded.into_iter().map(embedding).collect());
        }
        let (mut embeddings, mut failures) = (Vec::with_capacity(texts.len()), 0_u64);
        for text in texts {
            match try_embed(self.context, std::slice::from_ref(text), is_transient).await? {
                Ok(embedded) => embeddings.extend(embedded.into_iter().map(embedding)),
                Err(error) => {
                    failures += 1;
                    let error = with_causes(&error);
                    tracing::error!(collection = %self.old.row.name, error, "cannot embed a passage; trying again later");
                    embeddings.push(None);
                }
            }
        }
        if failures > 0 {
            try_embed(self.context, &[PROBE.to_owned().into()], is_transient).await??;
        }
        self.not_embedded += failures;
        Ok(embeddings)
    }

    /// Waits until the previous documents are stored, then starts to store these.
    async fn store(&mut self, moved: Vec<CopiedDocument>) -> Result<(), JobError> {
        self.wait_until_stored().await?;
        if moved.is_empty() {
            return Ok(());
        }
        let (next, job) = (Arc::clone(&self.next), self.context.job.id.clone());
        let passages = moved.iter().filter_map(|copied| copied.passages.as_ref()).map(|passages| passages.len() as u64).sum();
        let copied = Copied { documents: moved.len() as u64, passages };
        self.storing = Some(tokio::task::spawn_blocking(move || {
            next.store.write_copies(&job, moved)?;
            next.apply_changes()?;
            next.save_if_due()?;
            Ok(copied)
        }));
        Ok(())
    }

    async fn wait_until_stored(&mut self) -> Result<(), JobError> {
        let Some(storing) = self.storing.take() else { return Ok(()) };
        let Copied { documents, passages } = storing.await??;
        if Instant::now() >= self.count_after {
            return self.report_progress().await;
        }
        let progress = self.context.job.progress().0;
        self.passages += passages;
        self.publish((progress.done + documents).min(progress.total)).await
    }
}

/// Reads documents of the collection, and splits the texts that the replacement does not have. Returns how many of `keys` were
/// read.
fn prepare(
    old: &OpenCollection,
    next: &OpenCollection,
    keys: &[DocumentKey],
    embedder: &Embedder,
) -> Result<(usize, Vec<CopiedDocument>), Error> {
    let found = old.with_store(|store| store.documents_by_key(keys, TEXT_BYTES))?;
    let bounds = next.row.passages.unwrap_or(PassageBounds::adjacent(embedder.model().tokens_max));
    let mut prepared = Vec::with_capacity(found.len());
    for (key, document) in keys.iter().zip(&found) {
        let Some(document) = document else { continue };
        let there = next.store.documents_by_key(&[*key], 0)?.into_iter().flatten().next();
        let passages = match there {
            Some(there) if there.sequence == document.sequence => continue,
            Some(there) if (&there.id, &there.title, &there.text) == (&document.id, &document.title, &document.text) => None,
            _ => Some(embedder.split(document.title.as_deref(), &document.text, bounds)?),
        };
        let waiting = |span| CopiedPassage { span, embedding: None };
        let passages = passages.map(|spans| spans.into_iter().map(waiting).collect());
        prepared.push(CopiedDocument { key: *key, document: document.clone(), passages });
    }
    Ok((found.len(), prepared))
}

struct Differences {
    /// Documents whose revision is missing in the replacement.
    missing: Vec<DocumentKey>,
    /// Documents of the replacement with a revision that the collection does not have.
    surplus: Vec<DocumentKey>,
}

/// Reads the revisions of both collections in parallel and compares them.
struct Comparison {
    old: RevisionReader,
    next: RevisionReader,
}

/// The revisions of one collection, read page by page.
struct RevisionReader {
    collection: Arc<OpenCollection>,
    page: VecDeque<Revision>,
    after: Revision,
    ended: bool,
}

impl Comparison {
    /// Compares revisions after `first`.
    fn new(old: Arc<OpenCollection>, next: Arc<OpenCollection>, first: Revision) -> Self {
        let reader = |collection| RevisionReader { collection, page: VecDeque::new(), after: first, ended: false };
        Self { old: reader(old), next: reader(next) }
    }

    /// Returns the next differences, which may be empty, or `None` at the end. Blocks.
    fn step(&mut self) -> Result<Option<Differences>, Error> {
        let (mut missing, mut surplus) = (Vec::new(), Vec::new());
        let mut equal = 0;
        while missing.len() + surplus.len() < DIFFERENCES_MAX && equal < REVISIONS_PER_READ {
            match (self.old.first()?, self.next.first()?) {
                (None, None) if missing.is_empty() && surplus.is_empty() && equal == 0 => return Ok(None),
                (None, None) => break,
                (Some(old), Some(next)) if old == next => {
                    self.old.page.pop_front();
                    self.next.page.pop_front();
                    equal += 1;
                }
                (Some(old), next) if next.is_none_or(|next| old < next) => {
                    self.old.page.pop_front();
                    missing.push(old.key);
                }
                (_, next) => {
                    self.next.page.pop_front();
                    surplus.extend(next.map(|next| next.key));
                }
            }
        }
        Ok(Some(Differences { missing, surplus }))
    }
}

impl RevisionReader {
    fn first(&mut self) -> Result<Option<Revision>, Error> {
        if self.page.is_empty() && !self.ended {
            let after = self.after;
            self.page = self.collection.with_store(|store| store.revisions(after, REVISIONS_PER_READ))?.into();
            self.ended = self.page.len() < REVISIONS_PER_READ;
            self.after = self.page.back().copied().unwrap_or(after);
        }
        Ok(self.page.front().copied())
    }
}
