//! Write operations: conditional writes, patches, and writes of jobs, whose checkpoint is stored in the same transaction.

use rusqlite::params;

use super::checksum::DocumentRow;
use super::documents::DocumentStore;
use super::error::Fault;
use super::expiry::LIVE;
use super::metadata_indexes::UNFINISHED_CHANGE;
use super::rows::{from_sql, json, query_all, query_one, read_embedding, to_sql};
use super::upsert::Upsert;
use super::write_rules::{self, FoundDocument, PatchTransaction, check_precondition};
use super::write_transaction::WriteTransaction;
use super::{
    Deleted, PatchOutcome, Patched, PendingPassage, PreparedDocument, ResplitText, StoreError, TextPatch, Upserted, mutations,
    queries,
};
use crate::domain::{Document, DocumentId, DocumentPatch, JobId, Language, Precondition, Sequence};

impl DocumentStore {
    pub fn upsert_if(&self, documents: Vec<PreparedDocument>, precondition: Precondition) -> Result<Vec<Upserted>, StoreError> {
        let upsert = Upsert::prepare(self, documents)?;
        self.write("storing documents", move |transaction| {
            if precondition != Precondition::None {
                for id in upsert.ids() {
                    let current = version(transaction, id)?.map(|(_, version)| version);
                    check_precondition(id, current, &precondition)?;
                }
            }
            upsert.write(transaction)
        })
    }

    pub fn upsert_for_job(
        &self,
        job: &JobId,
        documents: Vec<PreparedDocument>,
        checkpoint: impl FnOnce(&[Upserted]) -> String + Send + 'static,
    ) -> Result<Vec<Upserted>, StoreError> {
        let job = job.clone();
        let upsert = Upsert::prepare(self, documents)?;
        self.write_patiently("storing documents of a job", move |transaction| {
            let outcomes = upsert.write(transaction)?;
            store_checkpoint(transaction, &job, &checkpoint(&outcomes))?;
            Ok(outcomes)
        })
    }

    pub fn patch(
        &self,
        id: &DocumentId,
        patch: DocumentPatch,
        resplit: Option<ResplitText>,
        precondition: Precondition,
    ) -> Result<PatchOutcome, StoreError> {
        let id = id.clone();
        self.write("changing a document", move |transaction| {
            write_rules::patch(transaction, &id, &patch, resplit.as_ref(), &precondition)
        })
    }

    pub fn patch_for_job(
        &self,
        job: &JobId,
        patches: Vec<TextPatch>,
        checkpoint: impl FnOnce(&[Patched]) -> String + Send + 'static,
    ) -> Result<Vec<Patched>, StoreError> {
        let job = job.clone();
        self.write_patiently("changing documents of a job", move |transaction| {
            let outcomes = write_rules::patch_texts(transaction, &patches)?;
            store_checkpoint(transaction, &job, &checkpoint(&outcomes))?;
            Ok(outcomes)
        })
    }

    pub fn delete_if(&self, id: &DocumentId, precondition: Precondition) -> Result<Option<Deleted>, StoreError> {
        let id = id.clone();
        self.write("deleting a document", move |transaction| {
            let Some((key, current)) = version(transaction, &id)? else { return Ok(None) };
            check_precondition(&id, Some(current), &precondition)?;
            mutations::delete_key(transaction, key).map(Some)
        })
    }

    pub fn job_checkpoint(&self, job: &JobId) -> Result<Option<String>, StoreError> {
        self.read("reading a job's checkpoint", |connection| {
            let sql = "select checkpoint from job_checkpoints where job = ?1";
            query_one(connection, sql, [job.as_str()], |row| Ok(row.get(0)?))
        })
    }

    pub fn delete_job_checkpoint(&self, job: &JobId) -> Result<(), StoreError> {
        self.delete_checkpoints(vec![job.as_str().to_owned()])
    }

    pub fn delete_job_checkpoints(&self, running: &[JobId]) -> Result<(), StoreError> {
        let mut stale: Vec<String> = self.read("reading checkpoints", |connection| {
            let sql = "select job from job_checkpoints where job <> ?1";
            query_all(connection, sql, [UNFINISHED_CHANGE], |row| Ok(row.get(0)?))
        })?;
        stale.retain(|job| running.iter().all(|running| running.as_str() != job));
        if stale.is_empty() { Ok(()) } else { self.delete_checkpoints(stale) }
    }

    fn delete_checkpoints(&self, jobs: Vec<String>) -> Result<(), StoreError> {
        self.write_patiently("deleting checkpoints", move |transaction: &mut WriteTransaction<'_>| {
            let mut statement = transaction.connection.prepare_cached("delete from job_checkpoints where job = ?1")?;
            for job in &jobs {
                statement.execute([job])?;
            }
            Ok(())
        })
    }
}

/// Returns the key and the version of a document.
fn version(transaction: &WriteTransaction<'_>, id: &DocumentId) -> Result<Option<(i64, Sequence)>, Fault> {
    let sql = format!("select d.key, d.sequence from documents d where d.id = ?1 and {LIVE}");
    query_one(transaction.connection, &sql, [id.as_str()], |row| Ok((row.get(0)?, Sequence(from_sql(row.get(1)?)))))
}

impl PatchTransaction for WriteTransaction<'_> {
    type Fault = Fault;

    fn find(&mut self, id: &DocumentId) -> Result<Option<FoundDocument>, Fault> {
        queries::find(self.connection, id)
    }

    fn write_patched(&mut self, key: i64, document: &Document) -> Result<(), Fault> {
        let metadata = json(&document.metadata)?;
        let row = DocumentRow {
            // A clock that jumps back must not make a document older than it was.
            updated_at_ms: self.now_ms.max(document.updated_at_ms),
            sequence: self.next_sequence(),
            ..DocumentRow::of(document, &metadata)
        };
        let sql =
            "update documents set language = ?3, language_confidence = ?4, updated_at_ms = ?6, sequence = ?7, metadata = ?8,
                   title = ?10, expires_at_ms = ?11, checksum = ?12 where key = ?1";
        mutations::write_row(self, sql, Some(key), &row)
    }

    fn renew_terms(&mut self, key: i64, language: Option<Language>) -> Result<(), Fault> {
        let sql = "select id, document, start, end, headings from passages where document = ?1 order by ordinal";
        for passage in queries::passage_texts(self.connection, sql, &[key])? {
            let terms = self.terms_of.compute(&passage.context.prepend_to(&passage.text), language);
            mutations::replace_terms(self, to_sql(passage.id.0), terms)?;
        }
        Ok(())
    }

    fn replace_passages(&mut self, key: i64, document: &Document, resplit: &ResplitText) -> Result<Vec<PendingPassage>, Fault> {
        let sql = "select id, embedding from passages where document = ?1 and embedding is not null order by ordinal limit 1";
        let embedding = match resplit.keeps_embedding {
            true => query_one(self.connection, sql, [key], |row| Ok(read_embedding(row, 0)?.1))?,
            false => None,
        };
        mutations::remove_passages(self, key)?;
        let prepared = resplit.prepare(document, embedding);
        let terms = mutations::passage_terms(&prepared, self.terms_of)?;
        mutations::insert_passages(self, key, &prepared, terms)
    }
}

/// Stores the checkpoint of a job in the caller's transaction.
pub(super) fn store_checkpoint(transaction: &WriteTransaction<'_>, job: &JobId, checkpoint: &str) -> Result<(), Fault> {
    let sql = "insert into job_checkpoints (job, checkpoint) values (?1, ?2)
               on conflict (job) do update set checkpoint = excluded.checkpoint";
    transaction.connection.prepare_cached(sql)?.execute(params![job.as_str(), checkpoint])?;
    Ok(())
}
