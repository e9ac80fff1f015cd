//! The inverted index of terms. Finds the passages that share words with a query, ranked by BM25.
//!
//! Rows are written in the transaction that stores their passages, and a trigger removes them with the passages. A database
//! that is older than this index gets its rows in steps. Until the last step, lexical search fails with
//! `StoreError::LexicalIncomplete`.

use std::ops::RangeInclusive;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};

use super::error::Fault;
use super::expiry::{EXPIRED_PASSAGES, LIVE};
use super::queries::passage_texts;
use super::rows::{passage_id, query_all, to_sql};
use super::term_rows::replace;
use super::write_transaction::WriteTransaction;
use super::{DocumentStore, PendingPassage, RequiredPassages, SearchFilter, StoreError};
use crate::domain::{Language, PassageId, QueryTerms, TermPhrase};

/// Number of passages that get their terms in one step. Bounds how long the writer is busy.
const FILL_STEP: usize = 256;

/// Weights of the ranking. A word found without its accents counts slightly less than an exact match. So it ranks below one
/// exact match, but two such words rank above one.
const RANK: &str = "bm25(1.0, 0.8)";

impl DocumentStore {
    /// Among equal scores, the older passage is first. Scores are positive, and higher is better. Passages lack their terms
    /// until `fill_lexical` is done.
    pub fn lexical(&self, terms: &QueryTerms, filter: &SearchFilter, limit: usize) -> Result<Vec<(PassageId, f32)>, StoreError> {
        let condition = (*filter != SearchFilter::default()).then(|| self.compile(filter));
        self.read("searching by words", |connection| {
            check_filled(connection)?;
            if terms.terms.is_empty() {
                return Ok(Vec::new());
            }
            let mut values = vec![Value::Text(match_expression(terms)), Value::Text(RANK.to_owned())];
            let sql = match condition {
                None => format!(
                    "select rowid, rank from lexical where lexical match ? and rank match ? and rowid not in ({EXPIRED_PASSAGES})
                     order by rank, rowid limit ?"
                ),
                Some(condition) => {
                    values.extend(condition.values);
                    // Forces SQLite to start with the words, even if the condition could use an index.
                    format!(
                        "select p.id, lexical.rank from lexical cross join passages p on p.id = lexical.rowid
                         cross join documents d on d.key = p.document where lexical match ? and lexical.rank match ? and {}
                         order by lexical.rank, p.id limit ?",
                        condition.sql
                    )
                }
            };
            values.push(Value::Integer(to_sql(limit as u64)));
            query_all(connection, &sql, params_from_iter(values), |row| {
                // SQLite makes better matches more negative, so ascending order is best first.
                Ok((passage_id(row.get(0)?)?, -row.get::<_, f64>(1)? as f32))
            })
        })
    }

    pub fn required_matches(&self, terms: &QueryTerms) -> Result<Option<RequiredPassages>, StoreError> {
        if !terms.has_constraints() {
            return Ok(None);
        }
        self.read("searching by words", |connection| {
            check_filled(connection)?;
            let (required, excluded) = (required(terms), excluded(terms));
            let expression = match (&required, &excluded) {
                (None, None) => return Ok(None),
                (Some(only), None) | (None, Some(only)) => only.clone(),
                (Some(required), Some(excluded)) => format!("{required} NOT {excluded}"),
            };
            let sql = "select rowid from lexical where lexical match ?1";
            let found = query_all(connection, sql, [expression], |row| passage_id(row.get(0)?))?;
            Ok(RequiredPassages::new(found.into_iter().collect(), required.is_some()))
        })
    }

    pub fn titled(&self, title: &[String], bytes: RangeInclusive<u64>, limit: usize) -> Result<Vec<PassageId>, StoreError> {
        let expression = format!("words : ^ {}", quoted(&title.join(" "), false));
        // Forces SQLite to start with the words. It knows the length of a title without reading the text before it.
        let sql = format!(
            "select p.id from lexical cross join passages p on p.id = lexical.rowid cross join documents d on d.key = p.document
             where lexical match ?1 and p.ordinal = 0 and octet_length(d.title) between ?2 and ?3 and {LIVE} limit ?4"
        );
        let [from, to, limit] = [*bytes.start(), *bytes.end(), limit as u64].map(to_sql);
        self.read("searching titles", |connection| {
            query_all(connection, &sql, params![expression, from, to, limit], |row| passage_id(row.get(0)?))
        })
    }

    /// Adds the terms or stems of some passages that are older than those. Returns whether there may be more. A crash only
    /// loses the current step. Waits for a place in the write queue if the queue is full.
    pub fn fill_lexical(&self) -> Result<bool, StoreError> {
        for filling in [Filling::Terms, Filling::Stems] {
            let unfilled = self.read("reading passages without terms", |connection| unfilled(connection, filling))?;
            if let Some(passages) = unfilled {
                self.write_patiently("storing terms", move |transaction| fill(transaction, filling, &passages))?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The data that passages of an older database lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filling {
    /// Their terms. Lexical search is off until all passages have them.
    Terms,
    /// Their stems. Until then, these passages are searched without stems.
    Stems,
}

impl Filling {
    /// Returns the table with the progress.
    fn table(self) -> &'static str {
        match self {
            Self::Terms => "lexical_fill",
            Self::Stems => "stem_fill",
        }
    }
}

/// Refuses to search before every passage has its terms.
fn check_filled(connection: &Connection) -> Result<(), Fault> {
    let (filled, until) = progress(connection, Filling::Terms)?;
    if filled < until { Err(StoreError::LexicalIncomplete { filled, until }.into()) } else { Ok(()) }
}

/// Builds the FTS5 expression for any of the terms and everything required. Each term is a quoted string, so that nothing in it
/// is an operator.
fn match_expression(terms: &QueryTerms) -> String {
    let any = any_of(terms.terms.iter().map(|term| quoted(&term.text, term.prefix)));
    let all = required(terms).map(|required| format!("({any} AND {required})")).unwrap_or(any);
    excluded(terms).map(|excluded| format!("{all} NOT {excluded}")).unwrap_or(all)
}

/// Returns the expression that passages must match, or `None`.
fn required(terms: &QueryTerms) -> Option<String> {
    let each: Vec<_> = terms.required.iter().map(|forms| any_of(forms.iter().map(phrase))).collect();
    (!each.is_empty()).then(|| format!("({})", each.join(" AND ")))
}

/// Returns the expression that passages must not match, or `None`.
fn excluded(terms: &QueryTerms) -> Option<String> {
    (!terms.excluded.is_empty()).then(|| any_of(terms.excluded.iter().map(phrase)))
}

/// Builds a phrase. FTS5 splits the string into terms at spaces, as it does with a passage.
fn phrase(phrase: &TermPhrase) -> String {
    let terms = quoted(&phrase.terms.join(" "), phrase.prefix);
    if phrase.folded { terms } else { format!("words : {terms}") }
}

fn any_of(expressions: impl Iterator<Item = String>) -> String {
    format!("({})", expressions.collect::<Vec<_>>().join(" OR "))
}

fn quoted(text: &str, prefix: bool) -> String {
    format!("\"{}\"{}", text.replace('"', "\"\""), if prefix { " *" } else { "" })
}

/// Returns the key up to which passages have their terms, and the key up to which they should get them.
fn progress(connection: &Connection, filling: Filling) -> Result<(u64, u64), Fault> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let sql = format!("select filled, until from {}", filling.table());
    let (filled, until) = connection.prepare_cached(&sql)?.query_row([], read)?;
    let corrupt = |_| StoreError::CorruptRow { table: filling.table(), row: 1, problem: "it holds a negative number" };
    Ok((u64::try_from(filled).map_err(corrupt)?, u64::try_from(until).map_err(corrupt)?))
}

/// Reads the next passages that lack their terms. Returns `None` when there are no more.
fn unfilled(connection: &Connection, filling: Filling) -> Result<Option<Vec<PendingPassage>>, Fault> {
    let (filled, until) = progress(connection, filling)?;
    if filled >= until {
        return Ok(None);
    }
    let sql = "select id, document, start, end, headings from passages where id > ?1 and id <= ?2 order by id limit ?3";
    passage_texts(connection, sql, &[to_sql(filled), to_sql(until), to_sql(FILL_STEP as u64)]).map(Some)
}

/// Writes the terms of passages that lacked them, in the order of their keys. An empty list ends the filling. A passage that
/// was deleted in the meantime gets no row.
fn fill(transaction: &mut WriteTransaction<'_>, filling: Filling, passages: &[PendingPassage]) -> Result<(), Fault> {
    let (connection, terms_of) = (transaction.connection, transaction.terms_of);
    // Reads the language in this transaction, because it may have changed after the passages were read, and the stems depend on
    // it.
    let sql = "select d.language from passages p join documents d on d.key = p.document where p.id = ?1";
    let mut language_of = connection.prepare_cached(sql)?;
    for passage in passages {
        let key = to_sql(passage.id.0);
        let language: Option<Option<String>> = language_of.query_row([key], |row| row.get(0)).optional()?;
        if let Some(language) = language {
            let language = language.as_deref().and_then(Language::parse);
            replace(connection, key, &terms_of.compute(&passage.context.prepend_to(&passage.text), language))?;
        }
    }
    let table = filling.table();
    match passages.last() {
        Some(last) => connection.prepare_cached(&format!("update {table} set filled = ?1"))?.execute([to_sql(last.id.0)])?,
        None => connection.prepare_cached(&format!("update {table} set filled = until"))?.execute([])?,
    };
    Ok(())
}
