//! Collects the rows that one transaction changes, column by column, and stores them in a few statements.

use std::borrow::Cow;

use pgvector::Vector;

use super::escape::{escape, filter_json, stored_json};
use super::fault::Fault;
use super::session::{Parameter, vector};
use super::terms;
use super::writing::Writing;
use crate::domain::{Embedding, Language, PassageSpan, PassageTerms, TokenSet};
use crate::store::PreparedDocument;

/// The rows to store and to remove.
#[derive(Default)]
pub(super) struct Batch<'d> {
    removed: Vec<i64>,
    /// Those documents of `removed` that are removed with their passages.
    deleted: Vec<i64>,
    tombstones: Tombstones,
    documents: Vec<DocumentRow<'d>>,
    passages: Passages,
    renewed: Tokens,
    added: Tokens,
    terms: Terms,
}

#[derive(Default)]
struct Tombstones {
    sequences: Vec<i64>,
    documents: Vec<i64>,
    passages: Vec<i64>,
}

/// The row of a document.
pub(super) struct DocumentRow<'d> {
    pub(super) key: i64,
    pub(super) document: Cow<'d, PreparedDocument>,
    pub(super) sequence: i64,
    pub(super) created_at_ms: i64,
    pub(super) updated_at_ms: i64,
}

#[derive(Default)]
struct Passages {
    documents: Vec<i64>,
    ordinals: Vec<i64>,
    passages: Vec<i64>,
    begins: Vec<i64>,
    ends: Vec<i64>,
    headings: Vec<Option<String>>,
    sequences: Vec<Option<i64>>,
    embeddings: Vec<Option<Vector>>,
}

#[derive(Default)]
struct Tokens {
    documents: Vec<i64>,
    passages: Vec<i64>,
    /// Null until the passage is embedded.
    tokens: Vec<Option<Vec<u8>>>,
    words: Vec<Vec<u8>>,
    lengths: Vec<i32>,
}

#[derive(Default)]
struct Terms {
    documents: Vec<i64>,
    passages: Vec<i64>,
    terms: Vec<String>,
    lengths: Vec<i32>,
    words: Vec<String>,
    folded: Vec<String>,
}

impl<'d> Batch<'d> {
    pub(super) fn add_document(&mut self, row: DocumentRow<'d>) {
        self.documents.push(row);
    }

    /// Adds a new passage, given by its document, its key and its position in the document, with its embedding if it already
    /// has one.
    pub(super) fn add_passage(
        &mut self,
        (document, passage, ordinal): (i64, i64, usize),
        span: &PassageSpan,
        embedded: Option<(&Embedding, i64)>,
        terms: &PassageTerms,
        tokens: &TokenSet,
    ) {
        let rows = &mut self.passages;
        rows.documents.push(document);
        rows.ordinals.push(ordinal as i64);
        rows.passages.push(passage);
        rows.begins.push(span.range.start as i64);
        rows.ends.push(span.range.end as i64);
        rows.headings.push(span.headings.as_deref().map(|headings| escape(headings).into_owned()));
        rows.sequences.push(embedded.map(|(_, sequence)| sequence));
        rows.embeddings.push(embedded.map(|(embedding, _)| vector(embedding)));
        let length = self.terms.add(document, passage, terms);
        self.added.add(document, passage, terms, length);
        self.added.tokens.push((!tokens.is_empty()).then(|| tokens.to_bytes()));
    }

    /// Replaces the terms of a passage that stays.
    pub(super) fn renew_terms(&mut self, document: i64, passage: i64, terms: &PassageTerms) {
        let length = self.terms.add(document, passage, terms);
        self.renewed.add(document, passage, terms, length);
    }

    pub(super) fn remove_passages(&mut self, document: i64) {
        self.removed.push(document);
    }

    /// Also removes a document whose passages are removed.
    pub(super) fn remove_document(&mut self, document: i64) {
        self.deleted.push(document);
    }

    pub(super) fn add_tombstone(&mut self, document: i64, passage: i64, sequence: i64) {
        self.tombstones.sequences.push(sequence);
        self.tombstones.documents.push(document);
        self.tombstones.passages.push(passage);
    }

    pub(super) fn store(&self, writing: &mut Writing<'_>) -> Result<(), Fault> {
        self.store_removals(writing)?;
        store_documents(&self.documents, writing)?;
        self.passages.store(writing)?;
        self.renewed.renew(writing)?;
        self.added.store(writing)?;
        self.terms.store(writing)
    }

    fn store_removals(&self, writing: &mut Writing<'_>) -> Result<(), Fault> {
        if self.removed.is_empty() {
            return Ok(());
        }
        let removed: [Parameter<'_>; 1] = [&self.removed];
        let names = writing.names;
        let sql = format!("delete from {} where document = any($1)", names.passages);
        writing.passages -= writing.session.execute(&sql, &removed)? as i64;
        let sql = format!(
            "with deleted as (delete from {} where document = any($1) returning terms)
             select coalesce(sum(terms), 0)::bigint from deleted",
            names.tokens
        );
        writing.terms -= writing.session.query_number(&sql, &removed)? as i64;
        writing.session.execute(&format!("delete from {} where document = any($1)", names.terms), &removed)?;
        if !self.deleted.is_empty() {
            let sql = format!("delete from {} where document = any($1)", names.documents);
            writing.session.execute(&sql, &[&self.deleted])?;
        }
        let sql = "insert into dragoman.tombstones (collection, sequence, document, passage)
                   select $1, * from unnest($2, $3, $4)";
        let rows = &self.tombstones;
        writing.session.execute(sql, &[&writing.key, &rows.sequences, &rows.documents, &rows.passages]).map(drop)
    }
}

fn store_documents(rows: &[DocumentRow<'_>], writing: &mut Writing<'_>) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    rows.iter().for_each(|row| writing.record_expiry(row.document.expires_at_ms));
    let sql = format!(
        "insert into {} (collection, document, id, language, language_confidence, created_at_ms, updated_at_ms, sequence, title,
             text, metadata, fields, expires_at_ms)
         select $1, n.document, n.id, n.language, n.confidence, n.created, n.updated, n.sequence, n.title, n.text, n.metadata,
             n.fields::jsonb, n.expires
         from unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
             as n (document, id, language, confidence, created, updated, sequence, title, text, metadata, fields, expires)
         on conflict (collection, document) do update set language = excluded.language,
             language_confidence = excluded.language_confidence, updated_at_ms = excluded.updated_at_ms,
             sequence = excluded.sequence, title = excluded.title, text = excluded.text, metadata = excluded.metadata,
             fields = excluded.fields, expires_at_ms = excluded.expires_at_ms",
        writing.names.documents
    );
    let values: [Parameter<'_>; 13] = [
        &writing.key,
        &column(rows, |row| row.key),
        &column(rows, |row| row.document.id.as_str()),
        &column(rows, |row| row.document.language.map(Language::code)),
        &column(rows, |row| row.document.language_confidence),
        &column(rows, |row| row.created_at_ms),
        &column(rows, |row| row.updated_at_ms),
        &column(rows, |row| row.sequence),
        &column(rows, |row| row.document.title.as_deref().map(escape)),
        &column(rows, |row| escape(&row.document.text)),
        &column(rows, |row| stored_json(&row.document.metadata)),
        &column(rows, |row| filter_json(&row.document.metadata)),
        &column(rows, |row| row.document.expires_at_ms),
    ];
    writing.session.execute(&sql, &values).map(drop)
}

fn column<'r, 'd, T>(rows: &'r [DocumentRow<'d>], value: impl Fn(&'r DocumentRow<'d>) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

impl Passages {
    fn store(&self, writing: &mut Writing<'_>) -> Result<(), Fault> {
        if self.passages.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "insert into {} (collection, document, ordinal, passage, begins, ends, headings, embedded_sequence, embedding,
                 writer)
             select $1, *, $10 from unnest($2, $3::integer[], $4, $5, $6, $7, $8, $9)",
            writing.names.passages
        );
        let values: [Parameter<'_>; 10] = [
            &writing.key,
            &self.documents,
            &self.ordinals,
            &self.passages,
            &self.begins,
            &self.ends,
            &self.headings,
            &self.sequences,
            &self.embeddings,
            &writing.writer,
        ];
        writing.passages += writing.session.execute(&sql, &values)? as i64;
        Ok(())
    }
}

impl Tokens {
    fn add(&mut self, document: i64, passage: i64, terms: &PassageTerms, length: i32) {
        self.documents.push(document);
        self.passages.push(passage);
        self.words.push(terms.plain.to_bytes());
        self.lengths.push(length);
    }

    fn terms(&self) -> i64 {
        self.lengths.iter().map(|length| i64::from(*length)).sum()
    }

    fn store(&self, writing: &mut Writing<'_>) -> Result<(), Fault> {
        if self.passages.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "insert into {} (collection, document, passage, words, terms, tokens) select $1, * from unnest($2, $3, $4, $5, $6)",
            writing.names.tokens
        );
        let values: [Parameter<'_>; 6] =
            [&writing.key, &self.documents, &self.passages, &self.words, &self.lengths, &self.tokens];
        writing.session.execute(&sql, &values)?;
        writing.terms += self.terms();
        Ok(())
    }

    /// Replaces the words of passages that stay, and removes their old terms.
    fn renew(&self, writing: &mut Writing<'_>) -> Result<(), Fault> {
        if self.passages.is_empty() {
            return Ok(());
        }
        let names = writing.names;
        let passages: [Parameter<'_>; 2] = [&self.documents, &self.passages];
        let of = "(document, passage) in (select * from unnest($1, $2))";
        let sql = format!("select coalesce(sum(terms), 0)::bigint from {} where {of}", names.tokens);
        writing.terms += self.terms() - writing.session.query_number(&sql, &passages)? as i64;
        writing.session.execute(&format!("delete from {} where {of}", names.terms), &passages)?;
        let sql = format!(
            "update {} t set words = n.words, terms = n.terms from unnest($1, $2, $3, $4) as n (document, passage, words, terms)
             where t.document = n.document and t.passage = n.passage",
            names.tokens
        );
        let [documents, passages] = passages;
        writing.session.execute(&sql, &[documents, passages, &self.words, &self.lengths]).map(drop)
    }
}

impl Terms {
    /// Adds the terms of a passage. Returns how many there are.
    fn add(&mut self, document: i64, passage: i64, terms: &PassageTerms) -> i32 {
        let (rows, length) = terms::term_rows(terms);
        for row in rows {
            self.documents.push(document);
            self.passages.push(passage);
            self.terms.push(row.term);
            self.lengths.push(length);
            self.words.push(row.words);
            self.folded.push(row.folded);
        }
        length
    }

    fn store(&self, writing: &mut Writing<'_>) -> Result<(), Fault> {
        if self.terms.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "insert into {} (collection, document, passage, term, length, words, folded)
             select $1, n.document, n.passage, n.term, n.length, n.words::integer[], n.folded::integer[]
             from unnest($2, $3, $4, $5, $6, $7) as n (document, passage, term, length, words, folded)",
            writing.names.terms
        );
        let values: [Parameter<'_>; 7] =
            [&writing.key, &self.documents, &self.passages, &self.terms, &self.lengths, &self.words, &self.folded];
        writing.session.execute(&sql, &values).map(drop)
    }
}
