//! Reads and writes documents with everything stored about them, to move them between engines: their keys, sequence numbers and
//! times, their passages, and the embedding, tokens and words of each passage. Includes documents that have expired but are not
//! removed yet.

use rusqlite::{Connection, Row};

use super::changes::store_checkpoint;
use super::checksum::{unseal_embedding, unseal_passage_value};
use super::documents::DocumentStore;
use super::error::Fault;
use super::mutations::{INSERT, insert_passage};
use super::queries::CUTTING_RULES;
use super::records::{DocumentRecord, PassageRecord, PreparedDocument};
use super::rows::{self, DOCUMENT_COLUMNS, query_all, to_sql};
use super::write_transaction::WriteTransaction;
use super::{DocumentKey, StoreError, TermsOf, swap, term_rows};
use crate::domain::{Document, JobId, PassageContext, PassageSpan, PassageTerms, Sequence, TokenSet, WordCounts};

impl DocumentStore {
    pub fn document_records(
        &self,
        after: Option<DocumentKey>,
        limit: usize,
        bytes_max: u64,
    ) -> Result<Vec<DocumentRecord>, StoreError> {
        let sql = format!("select {DOCUMENT_COLUMNS} from documents d where d.key > ?1 order by d.key limit ?2");
        self.read("reading whole documents", |connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query([after.map_or(i64::MIN, |key| key.0), to_sql(limit as u64)])?;
            let (mut found, mut bytes) = (Vec::new(), 0);
            while bytes < bytes_max
                && let Some(row) = rows.next()?
            {
                let (key, document) = (DocumentKey(row.get(0)?), rows::document(row)?);
                let passages = passages(connection, key, &document, &self.connections.options.terms_of)?;
                let record = DocumentRecord { key, document, passages };
                bytes += record.bytes();
                found.push(record);
            }
            Ok(found)
        })
    }

    pub fn insert_records(
        &self,
        job: &JobId,
        documents: Vec<DocumentRecord>,
        sequence: Sequence,
        checkpoint: String,
    ) -> Result<(), StoreError> {
        let job = job.clone();
        self.write_patiently("importing documents", move |transaction| {
            transaction.raise_sequence(sequence);
            documents.into_iter().try_for_each(|document| insert(transaction, document))?;
            store_checkpoint(transaction, &job, &checkpoint)
        })
    }

    pub fn mark_cut_by_older_rules(&self) -> Result<(), StoreError> {
        self.write_patiently("recording the rules by which texts were split", |transaction| {
            let sql = "update state set cutting_rules = min(cutting_rules, ?1)";
            transaction.connection.prepare_cached(sql)?.execute([CUTTING_RULES - 1])?;
            Ok(())
        })
    }
}

fn passages(
    connection: &Connection,
    key: DocumentKey,
    document: &Document,
    terms_of: &TermsOf,
) -> Result<Vec<PassageRecord>, Fault> {
    let sql = "select p.id, p.document, p.ordinal, p.start, p.end, p.checksum, p.headings, p.embedded_sequence, p.embedding,
                   t.tokens, w.words
               from passages p left join passage_tokens t on t.passage = p.id left join passage_words w on w.passage = p.id
               where p.document = ?1 order by p.ordinal";
    query_all(connection, sql, [key.0], |row| passage(row, document, terms_of))
}

fn passage(row: &Row<'_>, document: &Document, terms_of: &TermsOf) -> Result<PassageRecord, Fault> {
    let (id, range, headings) = rows::passage_at(row, 0, &document.text)?;
    let headings = headings.map(str::to_owned);
    let bytes = |column| Ok::<_, Fault>(row.get_ref(column)?.as_blob_or_null()?);
    let embedded = match (row.get::<_, Option<i64>>(7)?, bytes(8)?) {
        (Some(sequence), Some(sealed)) => Some((Sequence(sequence as u64), unseal_embedding(to_sql(id.0), sealed)?)),
        _ => None,
    };
    let tokens = bytes(9)?.and_then(|sealed| unseal_passage_value(id, sealed)).and_then(TokenSet::from_bytes).unwrap_or_default();
    // Like in search, damaged rows of words and tokens count as missing. Words can be computed again.
    let words = bytes(10)?.and_then(|sealed| unseal_passage_value(id, sealed)).and_then(WordCounts::from_bytes);
    let words = words.unwrap_or_else(|| {
        let context = PassageContext { title: document.title.clone(), headings: headings.clone() };
        terms_of.compute(&context.prepend_to(&document.text[range.clone()]), document.language).plain
    });
    Ok(PassageRecord { id, span: PassageSpan { range, headings }, embedded, tokens, words })
}

fn insert(transaction: &mut WriteTransaction<'_>, record: DocumentRecord) -> Result<(), Fault> {
    let DocumentRecord { key, document, passages } = record;
    swap::write_document(transaction, INSERT, key, &document)?;
    let document = PreparedDocument::from(document);
    let (connection, terms_of) = (transaction.connection, transaction.terms_of);
    for (ordinal, PassageRecord { id, span, embedded, tokens, words }) in passages.into_iter().enumerate() {
        let embedded = embedded.as_ref().map(|(sequence, embedding)| (embedding, to_sql(sequence.0)));
        insert_passage(connection, (key.0, id, ordinal), &span, embedded)?;
        let terms = PassageTerms { plain: words, ..terms_of.compute(&document.indexed_text(&span)?, document.language) };
        transaction.add_terms(to_sql(id.0), terms);
        term_rows::insert_tokens(connection, id, &tokens)?;
    }
    Ok(())
}
