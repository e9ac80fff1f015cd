//! Writes the rows of the inverted index of terms.

use rusqlite::{Connection, params};

use super::checksum::seal_passage_value;
use super::error::Fault;
use super::queries::passage_texts;
use super::rows::{passage_id, to_sql};
use crate::domain::{Language, PassageTerms};

/// Computes the terms of a passage's text and its context, in the language of its document.
pub type TermsOf = fn(&str, Option<Language>) -> PassageTerms;

/// Recomputes the terms of a document's passages, in its language.
pub(super) fn renew(connection: &Connection, document: i64, language: Option<Language>, terms_of: TermsOf) -> Result<(), Fault> {
    let sql = "select id, document, start, end, headings from passages where document = ?1 order by ordinal";
    for passage in passage_texts(connection, sql, &[document])? {
        replace(connection, to_sql(passage.id.0), &terms_of(&passage.context.prepend_to(&passage.text), language))?;
    }
    Ok(())
}

/// Writes the row of a passage, replacing an existing one.
pub(super) fn replace(connection: &Connection, passage: i64, terms: &PassageTerms) -> Result<(), Fault> {
    connection.prepare_cached("delete from lexical where rowid = ?1")?.execute([passage])?;
    insert(connection, passage, terms)
}

/// Writes the rows of a new passage: its terms, and its words in plain form.
pub(super) fn insert(connection: &Connection, passage: i64, terms: &PassageTerms) -> Result<(), Fault> {
    let sql = "insert into lexical (rowid, words, folded) values (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![passage, terms.words, terms.folded])?;
    let sql = "insert or replace into passage_words (passage, words) values (?1, ?2)";
    connection
        .prepare_cached(sql)?
        .execute(params![passage, seal_passage_value(passage_id(passage)?, terms.plain.to_bytes())])?;
    Ok(())
}
