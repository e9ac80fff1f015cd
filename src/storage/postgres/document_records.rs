//! Reads and writes documents with everything stored about them, to move them between engines: their keys, sequence numbers and
//! times, their passages, and the embedding, tokens and words of each passage.

use std::collections::HashMap;

use pgvector::Vector;
use tokio_postgres::Row;

use super::batch::Batch;
use super::checkpoints::store_checkpoint;
use super::copying::take_row;
use super::escape::unescape;
use super::fault::Fault;
use super::partition::Postgres;
use super::rows::{self, BYTES, document_columns, limit, passage_id, sequence};
use super::session::{Session, embedding};
use super::writing::Writing;
use crate::domain::{Document, JobId, PassageSpan, PassageTerms, Sequence, TokenSet, WordCounts};
use crate::store::{CUTTING_RULES, DocumentKey, DocumentRecord, PassageRecord, StoreError, passage_range, to_sql};

impl Postgres {
    pub(crate) fn document_records(
        &self,
        after: Option<DocumentKey>,
        max: usize,
        bytes_max: u64,
    ) -> Result<Vec<DocumentRecord>, StoreError> {
        self.snapshot("reading whole documents", |session| {
            let documents = self.documents_after(session, after, max, bytes_max)?;
            let mut passages = self.whole_passages(session, &documents)?;
            let record = |(key, document): (i64, Document)| {
                let passages = passages.remove(&key).unwrap_or_default();
                DocumentRecord { key: DocumentKey(key), document, passages }
            };
            Ok(documents.into_iter().map(record).collect())
        })
    }

    fn documents_after(
        &self,
        session: &mut Session,
        after: Option<DocumentKey>,
        max: usize,
        bytes_max: u64,
    ) -> Result<Vec<(i64, Document)>, Fault> {
        let (documents, passages) = (&self.names.documents, &self.names.passages);
        // The last row is the one before the row that exceeds the bytes.
        let sql = format!(
            "with page as materialized (
                 select document, coalesce(sum(bytes) over (order by document rows between unbounded preceding and 1 preceding), 0)
                     as bytes_before
                 from (select d.document, {BYTES} + {} * (select count(*) from {passages} own where own.document = d.document) as bytes
                       from {documents} d where d.document > $1 order by d.document limit $2) first
             )
             select {} from page join {documents} d on d.document = page.document
             where page.bytes_before < $3::bigint order by d.document",
            size_of::<PassageRecord>() + self.dimension * size_of::<f32>(),
            document_columns(&self.names),
        );
        let after = after.map_or(i64::MIN, |key| key.0);
        let read = |row: &Row| Ok((row.try_get(0)?, rows::document(row)?));
        session.rows(&sql, &[&after, &limit(max), &to_sql(bytes_max.max(1))])?.iter().map(read).collect()
    }

    fn whole_passages(
        &self,
        session: &mut Session,
        documents: &[(i64, Document)],
    ) -> Result<HashMap<i64, Vec<PassageRecord>>, Fault> {
        let texts: HashMap<i64, &str> = documents.iter().map(|(key, document)| (*key, document.text.as_str())).collect();
        let keys: Vec<i64> = documents.iter().map(|(key, _)| *key).collect();
        let sql = format!(
            "select p.document, p.passage, p.begins, p.ends, p.headings, p.embedded_sequence, p.embedding, t.tokens, t.words
             from {} p left join {} t on t.document = p.document and t.passage = p.passage
             where p.document = any($1) order by p.document, p.ordinal",
            self.names.passages, self.names.tokens
        );
        let mut found: HashMap<i64, Vec<PassageRecord>> = HashMap::new();
        for row in session.rows(&sql, &[&keys])? {
            let document: i64 = row.try_get(0)?;
            let text = texts.get(&document).copied().unwrap_or_default();
            found.entry(document).or_default().push(passage_record(&row, text)?);
        }
        Ok(found)
    }

    pub(crate) fn insert_records(
        &self,
        job: &JobId,
        documents: Vec<DocumentRecord>,
        sequence: Sequence,
        checkpoint: String,
    ) -> Result<(), StoreError> {
        self.write_patiently("importing documents", |writing| {
            writing.raise_sequence(to_sql(sequence.0));
            let mut batch = Batch::default();
            documents.into_iter().try_for_each(|document| add(writing, &mut batch, document))?;
            batch.store(writing)?;
            store_checkpoint(writing, job, &checkpoint)
        })
    }

    pub(crate) fn mark_cut_by_older_rules(&self) -> Result<(), StoreError> {
        self.write_patiently("recording the rules by which texts were split", |writing| {
            let sql = "update dragoman.collections set cutting_rules = least(cutting_rules, $2) where key = $1";
            let older = CUTTING_RULES - 1;
            writing.session.execute(sql, &[&writing.key, &older]).map(drop)
        })?;
        // The cached counts include whether rules are outdated, and would otherwise stay until the next change.
        *self.cached_counts.lock() = None;
        Ok(())
    }
}

fn passage_record(row: &Row, text: &str) -> Result<PassageRecord, Fault> {
    let passage: i64 = row.try_get(1)?;
    let corrupt = |problem| StoreError::CorruptRow { table: "passage_tokens", row: passage, problem };
    let headings = row.try_get::<_, Option<&str>>(4)?.map(unescape);
    let range = passage_range(passage, row.try_get(2)?, row.try_get(3)?, text)?;
    let embedded = match (row.try_get::<_, Option<i64>>(5)?, row.try_get::<_, Option<Vector>>(6)?) {
        (Some(number), Some(vector)) => Some((sequence(number), embedding(passage, vector)?)),
        _ => None,
    };
    let tokens = match row.try_get::<_, Option<&[u8]>>(7)? {
        Some(bytes) => TokenSet::from_bytes(bytes).ok_or_else(|| corrupt("its tokens are not valid"))?,
        None => TokenSet::default(),
    };
    let words = row.try_get::<_, Option<&[u8]>>(8)?.and_then(WordCounts::from_bytes);
    let words = words.ok_or_else(|| corrupt("its words are not valid"))?;
    Ok(PassageRecord { id: passage_id(passage), span: PassageSpan { range, headings }, embedded, tokens, words })
}

fn add(writing: &mut Writing<'_>, batch: &mut Batch<'_>, record: DocumentRecord) -> Result<(), Fault> {
    let DocumentRecord { key: DocumentKey(key), document, passages } = record;
    let row = take_row(writing, key, document);
    for (ordinal, PassageRecord { id, span, embedded, tokens, words }) in passages.into_iter().enumerate() {
        let passage = to_sql(id.0);
        writing.raise_passage_key(passage);
        let terms =
            PassageTerms { plain: words, ..writing.terms_of.compute(&row.document.indexed_text(&span)?, row.document.language) };
        let embedded = embedded.as_ref().map(|(sequence, embedding)| (embedding, to_sql(sequence.0)));
        batch.add_passage((key, passage, ordinal), &span, embedded, &terms, &tokens);
    }
    batch.add_document(row);
    Ok(())
}
