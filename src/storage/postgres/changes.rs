//! Write operations: documents (with a precondition, an idempotency record or a checkpoint in the same transaction), patches,
//! deletions and embeddings.

use std::collections::{HashMap, HashSet};

use pgvector::Vector;
use tokio_postgres::Row;

use super::batch::Batch;
use super::fault::Fault;
use super::filter::Condition;
use super::names::time_literal;
use super::partition::Postgres;
use super::rows::{self, document_columns, keys, passage_id, sequence};
use super::session::{Session, vector};
use super::upsert::{remove, upsert};
use super::writing::Writing;
use crate::domain::{
    DocumentId, DocumentPatch, Embedding, JobId, PassageEmbedding, PassageId, Precondition, RequestKey, Sequence,
};
use crate::store::{
    ANSWERS_MAX, BatchChange, CHANGED_PER_TRANSACTION, ChangedBatch, Deleted, FoundDocument, Idempotent, PatchOutcome, Patched,
    PreparedDocument, RECORDS_KEPT_MS, ResplitText, SearchFilter, StoreError, TextPatch, Upserted, check_precondition, patch,
    patch_found, patch_texts, replayed, to_sql,
};

impl Postgres {
    pub(crate) fn upsert_if(
        &self,
        documents: Vec<PreparedDocument>,
        precondition: Precondition,
    ) -> Result<Vec<Upserted>, StoreError> {
        self.write("storing documents", |writing| {
            if precondition != Precondition::None {
                let ids: Vec<&str> = documents.iter().map(|document| document.id.as_str()).collect();
                let versions = versions(writing, &ids)?;
                for (document, current) in documents.iter().zip(versions) {
                    check_precondition(&document.id, current, &precondition)?;
                }
            }
            upsert(writing, &documents)
        })
    }

    pub(crate) fn upsert_once(
        &self,
        documents: Vec<PreparedDocument>,
        request: RequestKey,
        answer: impl FnOnce(&[Upserted]) -> String,
    ) -> Result<Idempotent<Vec<Upserted>>, StoreError> {
        self.write("storing documents", |writing| {
            let now = time_literal(writing.now_ms);
            if let Some(before) = find_record(writing.session, writing.key, &request, &now)? {
                return Ok(Idempotent::Replayed(before));
            }
            let outcomes = upsert(writing, &documents)?;
            store_answer(writing, &request, &answer(&outcomes))?;
            Ok(Idempotent::Executed(outcomes))
        })
    }

    pub(crate) fn upsert_for_job(
        &self,
        job: &JobId,
        documents: Vec<PreparedDocument>,
        checkpoint: impl FnOnce(&[Upserted]) -> String,
    ) -> Result<Vec<Upserted>, StoreError> {
        self.write_for_job("storing documents of a job", job, checkpoint, |writing| upsert(writing, &documents))
    }

    pub(crate) fn patch(
        &self,
        id: &DocumentId,
        change: DocumentPatch,
        resplit: Option<ResplitText>,
        precondition: Precondition,
    ) -> Result<PatchOutcome, StoreError> {
        self.write("changing a document", |writing| patch(writing, id, &change, resplit.as_ref(), &precondition))
    }

    pub(crate) fn patch_for_job(
        &self,
        job: &JobId,
        patches: Vec<TextPatch>,
        checkpoint: impl FnOnce(&[Patched]) -> String,
    ) -> Result<Vec<Patched>, StoreError> {
        self.write_for_job("changing documents of a job", job, checkpoint, |writing| patch_texts(writing, &patches))
    }

    pub(crate) fn delete_if(&self, id: &DocumentId, precondition: Precondition) -> Result<Option<Deleted>, StoreError> {
        self.write("deleting a document", |writing| {
            let sql = format!("select d.document, d.sequence from {} d where d.id = $1", writing.live);
            let Some(row) = writing.session.row(&sql, &[&id.as_str()])? else { return Ok(None) };
            check_precondition(id, Some(sequence(row.try_get(1)?)), &precondition)?;
            let deleted = delete_keys(writing, &[row.try_get(0)?])?;
            Ok(Some(Deleted { sequence: writing.sequence(), removed: deleted }))
        })
    }

    pub(crate) fn change_batch(
        &self,
        change: &BatchChange,
        filter: &SearchFilter,
        until: Sequence,
        after: i64,
    ) -> Result<ChangedBatch, StoreError> {
        let condition = self.compile(filter);
        let until = to_sql(until.0);
        let keys = self.run(change.operation(), |session| candidates(session, &self.live(), &condition, until, after))?;
        let Some(&last) = keys.last() else { return Ok(ChangedBatch::default()) };
        let next = (keys.len() == CHANGED_PER_TRANSACTION).then_some(last);
        self.write_patiently(change.operation(), |writing| match change {
            BatchChange::Delete => {
                let found = still_matching(writing, "d.document", &condition, (&keys, until))?;
                let rows = found.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<Vec<i64>, Fault>>()?;
                delete_keys(writing, &rows)?;
                Ok(ChangedBatch { matched: rows.len(), rows, next })
            }
            BatchChange::Update(patch) => {
                let columns = document_columns(writing.names);
                let found = still_matching(writing, &columns, &condition, (&keys, until))?;
                let mut rows = Vec::new();
                for row in &found {
                    let found = FoundDocument { key: row.try_get(0)?, document: rows::document(row)? };
                    if patch_found(writing, &found, patch)? {
                        rows.push(found.key);
                    }
                }
                Ok(ChangedBatch { matched: found.len(), rows, next })
            }
        })
    }

    pub(crate) fn idempotency_record(&self, request: &RequestKey) -> Result<Option<String>, StoreError> {
        self.run("reading an idempotency record", |session| find_record(session, self.key, request, &self.now()))
    }

    pub(crate) fn record_answer(&self, request: &RequestKey, answer: String) -> Result<(), StoreError> {
        self.write_patiently("storing a response", |writing| store_answer(writing, request, &answer))
    }

    pub(crate) fn set_embeddings(
        &self,
        embeddings: Vec<(PassageId, PassageEmbedding)>,
    ) -> Result<Vec<(PassageId, Embedding)>, StoreError> {
        self.write_patiently("storing embeddings", |writing| {
            let ids: Vec<PassageId> = embeddings.iter().map(|(id, _)| *id).collect();
            let sequences: Vec<i64> = embeddings.iter().map(|_| writing.next_sequence()).collect();
            let vectors: Vec<Vector> = embeddings.iter().map(|(_, of)| vector(&of.embedding)).collect();
            let tokens: Vec<Option<Vec<u8>>> =
                embeddings.iter().map(|(_, of)| (!of.tokens.is_empty()).then(|| of.tokens.to_bytes())).collect();
            let passages = keys(&ids);
            // If a passage occurs twice, its last embedding is stored.
            let sql = format!(
                "update {} p set embedding = n.embedding, embedded_sequence = n.sequence
                 from (select distinct on (passage) * from unnest($1, $2, $3) as n (passage, sequence, embedding)
                       order by passage, sequence desc) n
                 where p.passage = n.passage returning p.passage",
                writing.names.passages
            );
            let there: HashSet<_> = writing.session.passages(&sql, &[&passages, &sequences, &vectors])?;
            let sql = format!(
                "update {} t set tokens = n.tokens
                 from (select distinct on (passage) * from unnest($1, $2, $3) as n (passage, sequence, tokens)
                       where tokens is not null order by passage, sequence desc) n
                 where t.passage = n.passage",
                writing.names.tokens
            );
            writing.session.execute(&sql, &[&passages, &sequences, &tokens])?;
            let stored = embeddings.into_iter().map(|(id, of)| (id, of.embedding));
            Ok(stored.filter(|(id, _)| there.contains(id)).collect())
        })
    }
}

/// Returns the versions of documents, in the order of `ids`, or `None` for one that does not exist.
fn versions(writing: &mut Writing<'_>, ids: &[&str]) -> Result<Vec<Option<Sequence>>, Fault> {
    let sql = format!(
        "select d.sequence from unnest($1) with ordinality as n (id, position) left join {} d on d.id = n.id order by n.position",
        writing.live
    );
    let versions: Vec<Option<i64>> = writing.session.column(&sql, &[&ids])?;
    Ok(versions.into_iter().map(|version| version.map(sequence)).collect())
}

fn candidates(session: &mut Session, documents: &str, condition: &Condition, until: i64, after: i64) -> Result<Vec<i64>, Fault> {
    let mut condition = condition.clone();
    let (until, after) = (condition.integer(until), condition.integer(after));
    let sql = format!(
        "select d.document from {documents} d where {} and d.sequence <= {until} and d.document > {after} order by d.document
         limit {CHANGED_PER_TRANSACTION}",
        condition.sql
    );
    session.column(&sql, &condition.parameters())
}

/// Returns those of the documents with these keys that still match and were not changed after `until`, in the order of their
/// keys.
fn still_matching(
    writing: &mut Writing<'_>,
    columns: &str,
    condition: &Condition,
    (keys, until): (&[i64], i64),
) -> Result<Vec<Row>, Fault> {
    let mut condition = condition.clone();
    let (keys, until) = (condition.integers(keys.to_vec()), condition.integer(until));
    let sql = format!(
        "select {columns} from {} d where {} and d.document = any({keys}) and d.sequence <= {until} order by d.document",
        writing.live, condition.sql
    );
    writing.session.rows(&sql, &condition.parameters())
}

/// Deletes documents and returns their passages.
pub(super) fn delete_keys(writing: &mut Writing<'_>, documents: &[i64]) -> Result<Vec<PassageId>, Fault> {
    let sql =
        format!("select document, passage from {} where document = any($1) order by document, ordinal", writing.names.passages);
    let mut passages: HashMap<i64, Vec<PassageId>> = HashMap::new();
    for row in writing.session.rows(&sql, &[&documents])? {
        passages.entry(row.try_get(0)?).or_default().push(passage_id(row.try_get(1)?));
    }
    let mut batch = Batch::default();
    let mut removed = Vec::new();
    for document in documents {
        let passage_keys = passages.remove(document).unwrap_or_default();
        remove(writing, &mut batch, *document, &passage_keys);
        removed.extend(passage_keys);
    }
    batch.store(writing)?;
    Ok(removed)
}

/// Returns the record of a request at the time `now`, which is an expression. Fails with `StoreError::KeyReused` if the same
/// key was used for another request.
fn find_record(session: &mut Session, collection: i64, request: &RequestKey, now: &str) -> Result<Option<String>, Fault> {
    let sql = format!(
        "select fingerprint, answer from dragoman.idempotency_records, (select {now} as ms) moment
         where collection = $1 and key = $2
         and created_at_ms > moment.ms - {RECORDS_KEPT_MS} and created_at_ms <= moment.ms + {RECORDS_KEPT_MS}"
    );
    let Some(row) = session.row(&sql, &[&collection, &request.record_key()])? else { return Ok(None) };
    Ok(Some(replayed(request, row.try_get(0)?, row.try_get(1)?)?))
}

/// Records the response of a request, unless there is an earlier record. Deletes the oldest records beyond `ANSWERS_MAX`.
fn store_answer(writing: &mut Writing<'_>, request: &RequestKey, answer: &str) -> Result<(), Fault> {
    let (now, since, until) = (writing.now_ms, writing.now_ms - RECORDS_KEPT_MS, writing.now_ms + RECORDS_KEPT_MS);
    let collection = &writing.key;
    // Records from more than a day in the future were written by a wrong clock.
    let stale = "delete from dragoman.idempotency_records
                 where collection = $1 and (created_at_ms <= $2 or created_at_ms > $3)";
    writing.session.execute(stale, &[collection, &since, &until])?;
    let sql = "insert into dragoman.idempotency_records (collection, key, fingerprint, answer, created_at_ms)
               values ($1, $2, $3, $4, $5) on conflict (collection, key) do nothing";
    writing.session.execute(sql, &[collection, &request.record_key(), &request.fingerprint(), &answer, &now])?;
    let oldest = format!(
        "delete from dragoman.idempotency_records where collection = $1 and number <=
         (select number from dragoman.idempotency_records where collection = $1 order by number desc limit 1 offset {ANSWERS_MAX})"
    );
    writing.session.execute(&oldest, &[collection]).map(drop)
}

/// Fails if another server has taken over the job. Otherwise no other server can take it over until the transaction ends.
pub(super) fn check_owner(writing: &mut Writing<'_>, job: &JobId) -> Result<(), Fault> {
    writing.writer.map_or(Ok(()), |me| check_job(writing.session, job, me))
}

/// Like `check_owner`, for the server with the number `me`.
pub(super) fn check_job(session: &mut Session, job: &JobId, me: i64) -> Result<(), Fault> {
    let sql = "select 1 from dragoman.jobs where id = $1 and owner = $2 for share";
    session.row(sql, &[&job.as_str(), &me])?.map(drop).ok_or_else(|| StoreError::JobTakenOver.into())
}
