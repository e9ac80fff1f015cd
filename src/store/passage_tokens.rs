//! Reads the tokens and words of passages for searches: all at once, or the changes since a sequence number.
//!
//! Rows are written with the embedding of their passage, and a trigger removes them with it. A foreign database, or one that is
//! older than this table, gets its rows in steps. A missing row is recomputed from the text, so a damaged one only costs time.

use rusqlite::Connection;

use super::checksum::unseal_passage_value;
use super::error::Fault;
use super::queries::{self, passage_texts};
use super::rows::{passage_id, query_all, query_one, to_sql};
use super::term_rows::insert_tokens;
use super::write_transaction::WriteTransaction;
use super::{DocumentStore, PendingPassage, StoreError};
use crate::domain::{PassageId, Sequence, TokenSet, WordCounts};

/// Number of passages that get their tokens in one step. Bounds how long the writer is busy.
const FILL_STEP: usize = 256;
pub type PassageTokens = Vec<(PassageId, TokenSet)>;
pub type PassageWords = Vec<(PassageId, WordCounts)>;

/// The tokens of passages: either all of them, or the changes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenChanges {
    /// The sequence number of the database when they were read.
    pub sequence: Sequence,
    /// Whether `passages` has all of them. Otherwise it only has those embedded since: remove `removed`, then add them.
    pub complete: bool,
    pub removed: Vec<PassageId>,
    /// Passages with their tokens, without passages that have none.
    pub passages: PassageTokens,
    /// The same passages with their words, if requested.
    pub words: PassageWords,
}

impl DocumentStore {
    /// Leaves out damaged rows, whose passages count as having no tokens.
    pub fn token_changes(&self, after: Option<Sequence>, words: bool) -> Result<TokenChanges, StoreError> {
        self.read("reading tokens", |connection| {
            let sequence = queries::sequence(connection)?;
            let purged_to = queries::tombstones_purged(connection)?;
            let after = after.filter(|after| *after >= purged_to);
            let mut changes = TokenChanges { sequence, complete: after.is_none(), ..TokenChanges::default() };
            if after.is_some_and(|after| after >= sequence) {
                return Ok(changes);
            }
            if let Some(after) = after {
                let sql = "select passage from tombstones where sequence > ?1";
                changes.removed = query_all(connection, sql, [to_sql(after.0)], |row| passage_id(row.get(0)?))?;
            }
            changes.passages = read_passage_values(connection, after, "passage_tokens", "tokens", TokenSet::from_bytes)?;
            if words {
                // Unlike tokens, words exist before their passage is embedded.
                let after = Some(after.unwrap_or_default());
                changes.words = read_passage_values(connection, after, "passage_words", "words", WordCounts::from_bytes)?;
            }
            Ok(changes)
        })
    }

    /// Adds the tokens of some passages that are older than this table. `tokens_of` computes them. Returns these passages, or
    /// `None` if nothing is left to do. A crash only loses the current step. Waits for a place in the write queue if the queue
    /// is full.
    pub fn fill_tokens<E>(
        &self,
        tokens_of: impl Fn(&[PendingPassage]) -> Result<Vec<TokenSet>, E>,
    ) -> Result<Result<Option<PassageTokens>, E>, StoreError> {
        let Some((last, passages)) = self.read("reading passages without tokens", unfilled)? else { return Ok(Ok(None)) };
        let tokens = match tokens_of(&passages) {
            Ok(tokens) => tokens,
            Err(error) => return Ok(Err(error)),
        };
        let filled: Vec<_> = passages.iter().map(|passage| passage.id).zip(tokens).collect();
        let rows = filled.clone();
        self.write_patiently("storing tokens", move |transaction| fill(transaction, last, &rows))?;
        Ok(Ok(Some(filled)))
    }
}

/// Reads the values that a table stores for passages: for all, or for those embedded since.
fn read_passage_values<T>(
    connection: &Connection,
    after: Option<Sequence>,
    table: &str,
    column: &str,
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Result<Vec<(PassageId, T)>, Fault> {
    let sql = match after {
        None => format!("select k.passage, k.{column} from {table} k where ?1 is null"),
        Some(_) => format!(
            "select k.passage, k.{column} from passages p indexed by passages_embedded
             cross join {table} k on k.passage = p.id where p.embedded_sequence > ?1"
        ),
    };
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([after.map(|after| to_sql(after.0))])?;
    let mut parsed = Vec::new();
    while let Some(row) = rows.next()? {
        let passage = passage_id(row.get(0)?)?;
        let bytes = row.get_ref(1)?.as_blob()?;
        parsed.extend(unseal_passage_value(passage, bytes).and_then(&parse).map(|parsed| (passage, parsed)));
    }
    Ok(parsed)
}

/// Reads the next passages that lack their tokens, and their last sequence number. Returns `None` when there are no more.
fn unfilled(connection: &Connection) -> Result<Option<(i64, Vec<PendingPassage>)>, Fault> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let (filled, until) = connection.prepare_cached("select filled, until from token_fill")?.query_row([], read)?;
    if filled >= until {
        return Ok(None);
    }
    let sql = "select embedded_sequence from passages where embedded_sequence > ?1 and embedded_sequence <= ?2
               order by embedded_sequence limit 1 offset ?3";
    let step = to_sql(FILL_STEP as u64 - 1);
    let last = query_one(connection, sql, [filled, until, step], |row| Ok(row.get(0)?))?.unwrap_or(until);
    let sql = "select id, document, start, end, headings from passages where embedded_sequence > ?1 and embedded_sequence <= ?2
               order by embedded_sequence";
    Ok(Some((last, passage_texts(connection, sql, &[filled, last])?)))
}

/// Writes the tokens of passages that lacked them. A passage that was deleted in the meantime gets no row.
fn fill(transaction: &mut WriteTransaction<'_>, last: i64, passages: &[(PassageId, TokenSet)]) -> Result<(), Fault> {
    let connection = transaction.connection;
    let mut exists = connection.prepare_cached("select 1 from passages where id = ?1")?;
    for (passage, tokens) in passages {
        if exists.exists([to_sql(passage.0)])? {
            insert_tokens(connection, *passage, tokens)?;
        }
    }
    connection.prepare_cached("update token_fill set filled = ?1")?.execute([last])?;
    Ok(())
}
