//! The inverted index of terms: which passages share words with a query, ranked by BM25.
//!
//! Rows are written in the transaction that stores their passages; a trigger removes them with those. A database older than
//! this index gets its rows in steps, and until the last one lexical search returns `StoreError::LexicalIncomplete`.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};

use super::error::Fault;
use super::expiry::EXPIRED_PASSAGES;
use super::filter::Condition;
use super::queries::passage_texts;
use super::rows::{passage_id, to_sql};
use super::term_rows::{TermsOf, replace};
use super::writer::WriteTransaction;
use super::{DocumentStore, PendingPassage, SearchFilter, StoreError};
use crate::domain::{Language, PassageId, QueryTerms, TermPhrase};

/// The passages that have what a query requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Demanded {
    /// These.
    Only(Vec<PassageId>),
    /// All but these.
    AllBut(Vec<PassageId>),
}

/// Passages that get their terms in one step: bounds how long the writer is held.
const FILL_STEP: usize = 256;

/// Weights of the ranking. A word found without its accents counts slightly less than one found as spelled: enough to rank
/// after it, but two such words still rank before one.
const RANK: &str = "bm25(1.0, 0.8)";

impl DocumentStore {
    /// Finds up to `limit` passages that have any of the terms and everything required, and whose document matches, best first,
    /// with their BM25 score. `StoreError::LexicalIncomplete` until `fill_lexical` is done.
    pub fn lexical(&self, terms: &QueryTerms, filter: &SearchFilter, limit: usize) -> Result<Vec<(PassageId, f32)>, StoreError> {
        let condition = (*filter != SearchFilter::default()).then(|| self.compile(filter));
        self.read("searching by words", |connection| search(connection, terms, condition.as_ref(), limit))
    }

    /// `StoreError::LexicalIncomplete` until `fill_lexical` is done.
    pub fn check_lexical(&self) -> Result<(), StoreError> {
        self.read("searching by words", check_filled)
    }

    /// Finds the passages that have what the terms require, in no order; `None` if they require nothing. Errors as `lexical`.
    pub fn demanded(&self, terms: &QueryTerms) -> Result<Option<Demanded>, StoreError> {
        if !terms.demands() {
            return Ok(None);
        }
        self.read("searching by words", |connection| demanded(connection, terms)).map(Some)
    }

    /// Gives some of the passages that are older than the index of terms, or than its stems, what they lack; returns whether
    /// there may be more. A crash costs only the current step. Waits for a place in the write queue if that is full.
    pub fn fill_lexical(&self) -> Result<bool, StoreError> {
        for filling in [Filling::Terms, Filling::Stems] {
            let unfilled = self.read("reading passages without terms", |connection| unfilled(connection, filling))?;
            if let Some(passages) = unfilled {
                let terms_of = self.terms_of;
                self.write_patiently("storing terms", move |transaction| fill(transaction, filling, &passages, terms_of))?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What passages of an older database get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filling {
    /// Their terms: until the end, lexical search is off.
    Terms,
    /// The stems among them: until then passages are found without.
    Stems,
}

impl Filling {
    /// The table with its progress.
    fn table(self) -> &'static str {
        match self {
            Self::Terms => "lexical_fill",
            Self::Stems => "stem_fill",
        }
    }
}

/// Finds the passages that have any of the terms, best first, older first for equal scores. Scores are positive, higher is
/// better.
fn search(
    connection: &Connection,
    terms: &QueryTerms,
    condition: Option<&Condition>,
    limit: usize,
) -> Result<Vec<(PassageId, f32)>, Fault> {
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
            values.extend(condition.values.iter().cloned());
            // Words go first: a condition that could use its own index must not.
            format!(
                "select p.id, lexical.rank from lexical cross join passages p on p.id = lexical.rowid
                 cross join documents d on d.key = p.document where lexical match ? and lexical.rank match ? and {}
                 order by lexical.rank, p.id limit ?",
                condition.sql
            )
        }
    };
    values.push(Value::Integer(to_sql(limit as u64)));
    let read = |row: &rusqlite::Row<'_>| -> Result<(PassageId, f32), Fault> {
        // SQLite makes better matches more negative, so ascending order is best first.
        Ok((passage_id(row.get(0)?)?, -row.get::<_, f64>(1)? as f32))
    };
    connection.prepare_cached(&sql)?.query_and_then(params_from_iter(values), read)?.collect()
}

fn demanded(connection: &Connection, terms: &QueryTerms) -> Result<Demanded, Fault> {
    check_filled(connection)?;
    let (required, excluded) = (required(terms), excluded(terms));
    let expression = match (&required, &excluded) {
        (None, None) => return Ok(Demanded::AllBut(Vec::new())),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (Some(required), Some(excluded)) => format!("{required} NOT {excluded}"),
    };
    let mut statement = connection.prepare_cached("select rowid from lexical where lexical match ?1")?;
    let found = statement.query_and_then([expression], |row| passage_id(row.get(0)?))?.collect::<Result<_, _>>()?;
    Ok(if required.is_some() { Demanded::Only(found) } else { Demanded::AllBut(found) })
}

/// Refuses to search before every passage has its terms.
fn check_filled(connection: &Connection) -> Result<(), Fault> {
    let (filled, until) = progress(connection, Filling::Terms)?;
    if filled < until { Err(StoreError::LexicalIncomplete { filled, until }.into()) } else { Ok(()) }
}

/// Any of the terms, and what they require. Each term is a quoted string of FTS5, so that nothing in it is an operator.
fn match_expression(terms: &QueryTerms) -> String {
    let any = any_of(terms.terms.iter().map(|term| quoted(&term.text, term.prefix)));
    let all = required(terms).map(|required| format!("({any} AND {required})")).unwrap_or(any);
    excluded(terms).map(|excluded| format!("{all} NOT {excluded}")).unwrap_or(all)
}

/// What passages must have; `None` for nothing.
fn required(terms: &QueryTerms) -> Option<String> {
    let each: Vec<_> = terms.required.iter().map(|forms| any_of(forms.iter().map(phrase))).collect();
    (!each.is_empty()).then(|| format!("({})", each.join(" AND ")))
}

/// What passages must not have; `None` for nothing.
fn excluded(terms: &QueryTerms) -> Option<String> {
    (!terms.excluded.is_empty()).then(|| any_of(terms.excluded.iter().map(phrase)))
}

/// FTS5 splits the string into its terms at the spaces, as it does with a passage's.
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

/// The keys up to which passages have their terms, and up to which they should get them.
fn progress(connection: &Connection, filling: Filling) -> Result<(u64, u64), Fault> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let sql = format!("select filled, until from {}", filling.table());
    let (filled, until) = connection.prepare_cached(&sql)?.query_row([], read)?;
    let corrupt = |_| StoreError::CorruptRow { table: filling.table(), row: 1, problem: "it holds a negative number" };
    Ok((u64::try_from(filled).map_err(corrupt)?, u64::try_from(until).map_err(corrupt)?))
}

/// The next passages that lack their terms; `None` once the filling is finished.
fn unfilled(connection: &Connection, filling: Filling) -> Result<Option<Vec<PendingPassage>>, Fault> {
    let (filled, until) = progress(connection, filling)?;
    if filled >= until {
        return Ok(None);
    }
    let sql = "select id, document, start, end, headings from passages where id > ?1 and id <= ?2 order by id limit ?3";
    passage_texts(connection, sql, &[to_sql(filled), to_sql(until), to_sql(FILL_STEP as u64)]).map(Some)
}

/// Writes the terms of passages that lacked them, in the order of keys; an empty list ends the filling. A passage that was
/// deleted meanwhile gets no row.
fn fill(
    transaction: &mut WriteTransaction<'_>,
    filling: Filling,
    passages: &[PendingPassage],
    terms_of: TermsOf,
) -> Result<(), Fault> {
    let connection = transaction.connection;
    // In the transaction: if the language changed after it was read, the stems would be those of the old one.
    let sql = "select d.language from passages p join documents d on d.key = p.document where p.id = ?1";
    let mut language_of = connection.prepare_cached(sql)?;
    for passage in passages {
        let key = to_sql(passage.id.0);
        let language: Option<Option<String>> = language_of.query_row([key], |row| row.get(0)).optional()?;
        if let Some(language) = language {
            let language = language.as_deref().and_then(Language::parse);
            replace(connection, key, &terms_of(&passage.context.with(&passage.text), language))?;
        }
    }
    let table = filling.table();
    match passages.last() {
        Some(last) => connection.prepare_cached(&format!("update {table} set filled = ?1"))?.execute([to_sql(last.id.0)])?,
        None => connection.prepare_cached(&format!("update {table} set filled = until"))?.execute([])?,
    };
    Ok(())
}
