//! Collects the rows that one transaction changes, and stores them column by column in a few statements.

use std::borrow::Cow;
use std::ops::Range;

use pgvector::Vector;

use super::escape::{escape, filter_json, stored_json};
use super::fault::Fault;
use super::session::{Parameter, vector};
use super::terms::{self, TermRow};
use super::writing::Writing;
use crate::domain::{Embedding, Language, PassageSpan, PassageTerms, TokenSet};
use crate::store::PreparedDocument;

/// The rows to store and to remove.
#[derive(Default)]
pub(super) struct Batch<'d> {
    removed: Vec<i64>,
    /// Those documents of `removed` that are removed with their passages.
    deleted: Vec<i64>,
    /// The sequence, the document and the passage.
    tombstones: Vec<(i64, i64, i64)>,
    documents: Vec<DocumentRow<'d>>,
    passages: Vec<PassageRow>,
    renewed: Vec<TokenRow>,
    added: Vec<TokenRow>,
    terms: Vec<PassageTerm>,
}

/// The row of a document.
pub(super) struct DocumentRow<'d> {
    pub(super) key: i64,
    pub(super) document: Cow<'d, PreparedDocument>,
    pub(super) sequence: i64,
    pub(super) created_at_ms: i64,
    pub(super) updated_at_ms: i64,
}

struct PassageRow {
    document: i64,
    ordinal: i64,
    passage: i64,
    span: Range<i64>,
    headings: Option<String>,
    embedded: Option<(Vector, i64)>,
}

struct TokenRow {
    document: i64,
    passage: i64,
    /// Null until the passage is embedded.
    tokens: Option<Vec<u8>>,
    words: Vec<u8>,
    /// How many terms the passage has.
    length: i32,
}

struct PassageTerm {
    document: i64,
    passage: i64,
    length: i32,
    row: TermRow,
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
        let range = span.range.start as i64..span.range.end as i64;
        let headings = span.headings.as_deref().map(|headings| escape(headings).into_owned());
        let embedded = embedded.map(|(embedding, sequence)| (vector(embedding), sequence));
        self.passages.push(PassageRow { document, ordinal: ordinal as i64, passage, span: range, headings, embedded });
        let tokens = (!tokens.is_empty()).then(|| tokens.to_bytes());
        let row = self.add_terms(document, passage, terms, tokens);
        self.added.push(row);
    }

    /// Replaces the terms of a passage that stays.
    pub(super) fn renew_terms(&mut self, document: i64, passage: i64, terms: &PassageTerms) {
        let row = self.add_terms(document, passage, terms, None);
        self.renewed.push(row);
    }

    fn add_terms(&mut self, document: i64, passage: i64, terms: &PassageTerms, tokens: Option<Vec<u8>>) -> TokenRow {
        let (rows, length) = terms::term_rows(terms);
        self.terms.extend(rows.into_iter().map(|row| PassageTerm { document, passage, length, row }));
        TokenRow { document, passage, tokens, words: terms.plain.to_bytes(), length }
    }

    pub(super) fn remove_passages(&mut self, document: i64) {
        self.removed.push(document);
    }

    /// Also removes a document whose passages are removed.
    pub(super) fn remove_document(&mut self, document: i64) {
        self.deleted.push(document);
    }

    pub(super) fn add_tombstone(&mut self, document: i64, passage: i64, sequence: i64) {
        self.tombstones.push((sequence, document, passage));
    }

    pub(super) fn store(&self, writing: &mut Writing<'_>) -> Result<(), Fault> {
        self.store_removals(writing)?;
        store_documents(&self.documents, writing)?;
        store_passages(&self.passages, writing)?;
        renew_tokens(&self.renewed, writing)?;
        store_tokens(&self.added, writing)?;
        store_terms(&self.terms, writing)
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
        let values: [Parameter<'_>; 4] =
            [&writing.key, &column(rows, |row| row.0), &column(rows, |row| row.1), &column(rows, |row| row.2)];
        writing.session.execute(sql, &values).map(drop)
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

fn column<'r, R, T>(rows: &'r [R], value: impl Fn(&'r R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

fn store_passages(rows: &[PassageRow], writing: &mut Writing<'_>) -> Result<(), Fault> {
    if rows.is_empty() {
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
        &column(rows, |row| row.document),
        &column(rows, |row| row.ordinal),
        &column(rows, |row| row.passage),
        &column(rows, |row| row.span.start),
        &column(rows, |row| row.span.end),
        &column(rows, |row| row.headings.as_deref()),
        &column(rows, |row| row.embedded.as_ref().map(|(_, sequence)| *sequence)),
        &column(rows, |row| row.embedded.as_ref().map(|(embedding, _)| embedding)),
        &writing.writer,
    ];
    writing.passages += writing.session.execute(&sql, &values)? as i64;
    Ok(())
}

fn number_of_terms(rows: &[TokenRow]) -> i64 {
    rows.iter().map(|row| i64::from(row.length)).sum()
}

fn store_tokens(rows: &[TokenRow], writing: &mut Writing<'_>) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "insert into {} (collection, document, passage, words, terms, tokens) select $1, * from unnest($2, $3, $4, $5, $6)",
        writing.names.tokens
    );
    let values: [Parameter<'_>; 6] = [
        &writing.key,
        &column(rows, |row| row.document),
        &column(rows, |row| row.passage),
        &column(rows, |row| row.words.as_slice()),
        &column(rows, |row| row.length),
        &column(rows, |row| row.tokens.as_deref()),
    ];
    writing.session.execute(&sql, &values)?;
    writing.terms += number_of_terms(rows);
    Ok(())
}

/// Replaces the words of passages that stay, and removes their old terms.
fn renew_tokens(rows: &[TokenRow], writing: &mut Writing<'_>) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    let names = writing.names;
    let (documents, passages) = (column(rows, |row| row.document), column(rows, |row| row.passage));
    let of = "(document, passage) in (select * from unnest($1, $2))";
    let sql = format!("select coalesce(sum(terms), 0)::bigint from {} where {of}", names.tokens);
    writing.terms += number_of_terms(rows) - writing.session.query_number(&sql, &[&documents, &passages])? as i64;
    writing.session.execute(&format!("delete from {} where {of}", names.terms), &[&documents, &passages])?;
    let sql = format!(
        "update {} t set words = n.words, terms = n.terms from unnest($1, $2, $3, $4) as n (document, passage, words, terms)
         where t.document = n.document and t.passage = n.passage",
        names.tokens
    );
    let (words, lengths) = (column(rows, |row| row.words.as_slice()), column(rows, |row| row.length));
    writing.session.execute(&sql, &[&documents, &passages, &words, &lengths]).map(drop)
}

fn store_terms(rows: &[PassageTerm], writing: &mut Writing<'_>) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "insert into {} (collection, document, passage, term, length, words, folded)
         select $1, n.document, n.passage, n.term, n.length, n.words::integer[], n.folded::integer[]
         from unnest($2, $3, $4, $5, $6, $7) as n (document, passage, term, length, words, folded)",
        writing.names.terms
    );
    let values: [Parameter<'_>; 7] = [
        &writing.key,
        &column(rows, |term| term.document),
        &column(rows, |term| term.passage),
        &column(rows, |term| term.row.term.as_str()),
        &column(rows, |term| term.length),
        &column(rows, |term| term.row.words.as_str()),
        &column(rows, |term| term.row.folded.as_str()),
    ];
    writing.session.execute(&sql, &values).map(drop)
}
