//! The tokens of passages, as late interaction reads them: all at once, or what changed since a number of the sequence.
//!
//! Rows are written with the embedding of their passage; a trigger removes them with it. A database made before this table, or
//! brought from elsewhere, gets its rows in steps. A row is made anew from the text whenever it is missing, so a damaged one costs time only.

use rusqlite::{Connection, params};

use super::error::Fault;
use super::queries::{self, passage_texts};
use super::rows::{passage_id, to_sql};
use super::writer::WriteTransaction;
use super::{DocumentStore, PendingPassage, StoreError};
use crate::domain::{PassageId, Sequence, TokenSet};

/// Passages that get their tokens in one step: bounds how long the writer is held.
const FILL_STEP: usize = 256;
/// Bytes of CRC-32 behind the ids.
const CHECKSUM_BYTES: usize = 4;

/// Passages with their tokens.
pub type PassageTokens = Vec<(PassageId, TokenSet)>;

/// The tokens of passages, all or what changed of them.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenChanges {
    /// The state of the database that this is true of.
    pub sequence: Sequence,
    /// Whether `passages` are all; else only those that were embedded since, and `removed` go before they come.
    pub complete: bool,
    /// Passages that are gone.
    pub removed: Vec<PassageId>,
    /// Passages with their tokens; those without any are left out.
    pub passages: PassageTokens,
}

impl DocumentStore {
    /// Reads the tokens of passages; with `after`, only what changed after that number of the sequence, as far as the database
    /// still knows. Damaged rows are left out: their passages count as having no tokens.
    pub fn token_changes(&self, after: Option<Sequence>) -> Result<TokenChanges, StoreError> {
        self.read("reading tokens", |connection| token_changes(connection, after))
    }

    /// Gives some of the passages that were embedded before there were tokens what they lack, as `tokens_of` makes it of them. Gives these, and `None` when nothing is left to do. A crash costs no more than the step that ran. Waits for a place in the write
    /// queue when that is full.
    pub fn fill_tokens<E>(
        &self,
        tokens_of: impl Fn(&[PendingPassage]) -> Result<Vec<TokenSet>, E>,
    ) -> Result<Result<Option<PassageTokens>, E>, StoreError> {
        let Some((reached, passages)) = self.read("reading passages without tokens", unfilled)? else { return Ok(Ok(None)) };
        let tokens = match tokens_of(&passages) {
            Ok(tokens) => tokens,
            Err(error) => return Ok(Err(error)),
        };
        let filled: Vec<_> = passages.iter().map(|passage| passage.id).zip(tokens).collect();
        let rows = filled.clone();
        self.write_patiently("storing tokens", move |transaction| fill(transaction, reached, &rows))?;
        Ok(Ok(Some(filled)))
    }
}

/// Writes the tokens of a passage that is embedded, unless it has none.
pub(super) fn insert(connection: &Connection, passage: PassageId, tokens: &TokenSet) -> Result<(), Fault> {
    if !tokens.is_empty() {
        let sql = "insert or replace into passage_tokens (passage, tokens) values (?1, ?2)";
        connection.prepare_cached(sql)?.execute(params![to_sql(passage.0), seal(passage, tokens)])?;
    }
    Ok(())
}

fn token_changes(connection: &Connection, after: Option<Sequence>) -> Result<TokenChanges, Fault> {
    let sequence = queries::sequence(connection)?;
    let forgotten = queries::removals_forgotten(connection)?;
    let mut changes = TokenChanges { sequence, complete: true, removed: Vec::new(), passages: Vec::new() };
    let Some(after) = after.filter(|after| *after >= forgotten) else {
        let mut statement = connection.prepare_cached("select passage, tokens from passage_tokens")?;
        take(statement.query([])?, &mut changes.passages)?;
        return Ok(changes);
    };
    changes.complete = false;
    if after < sequence {
        let mut removed = connection.prepare_cached("select passage from removals where sequence > ?1")?;
        for id in removed.query_map([to_sql(after.0)], |row| row.get(0))? {
            changes.removed.push(passage_id(id?)?);
        }
        let sql = "select t.passage, t.tokens from passages p indexed by passages_embedded
                   cross join passage_tokens t on t.passage = p.id where p.embedded_sequence > ?1";
        take(connection.prepare_cached(sql)?.query([to_sql(after.0)])?, &mut changes.passages)?;
    }
    Ok(changes)
}

fn take(mut rows: rusqlite::Rows<'_>, passages: &mut Vec<(PassageId, TokenSet)>) -> Result<(), Fault> {
    while let Some(row) = rows.next()? {
        let passage = passage_id(row.get(0)?)?;
        let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        passages.extend(unseal(passage, bytes).map(|tokens| (passage, tokens)));
    }
    Ok(())
}

/// The next passages that lack their tokens, and the number of the sequence that they reach; `None` when the filling is over.
fn unfilled(connection: &Connection) -> Result<Option<(i64, Vec<PendingPassage>)>, Fault> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let (filled, until) = connection.prepare_cached("select filled, until from token_fill")?.query_row([], read)?;
    if filled >= until {
        return Ok(None);
    }
    let sql = "select embedded_sequence from passages where embedded_sequence > ?1 and embedded_sequence <= ?2
               order by embedded_sequence limit 1 offset ?3";
    let step = to_sql(FILL_STEP as u64 - 1);
    let mut statement = connection.prepare_cached(sql)?;
    let reached = statement.query_row([filled, until, step], |row| row.get(0));
    let reached: i64 =
        reached.or_else(|error| if error == rusqlite::Error::QueryReturnedNoRows { Ok(until) } else { Err(error) })?;
    let sql = "select id, document, start, end, headings from passages where embedded_sequence > ?1 and embedded_sequence <= ?2
               order by embedded_sequence";
    Ok(Some((reached, passage_texts(connection, sql, &[filled, reached])?)))
}

/// Writes the tokens of passages that lacked them. A passage that is gone meanwhile gets no row.
fn fill(transaction: &mut WriteTransaction<'_>, reached: i64, passages: &[(PassageId, TokenSet)]) -> Result<(), Fault> {
    let connection = transaction.connection;
    let mut exists = connection.prepare_cached("select 1 from passages where id = ?1")?;
    for (passage, tokens) in passages {
        if exists.exists([to_sql(passage.0)])? {
            insert(connection, *passage, tokens)?;
        }
    }
    connection.prepare_cached("update token_fill set filled = ?1")?.execute([reached])?;
    Ok(())
}

fn seal(passage: PassageId, tokens: &TokenSet) -> Vec<u8> {
    let mut bytes = tokens.to_bytes();
    bytes.extend(checksum(passage, &bytes).to_le_bytes());
    bytes
}

fn unseal(passage: PassageId, bytes: &[u8]) -> Option<TokenSet> {
    let (ids, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    (checksum(passage, ids).to_le_bytes() == *sum).then(|| TokenSet::from_bytes(ids)).flatten()
}

fn checksum(passage: PassageId, ids: &[u8]) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(&passage.0.to_le_bytes());
    hash.update(ids);
    hash.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_were_damaged_are_none() {
        let tokens = TokenSet::of(&[5, 9, 300]);
        let sealed = seal(PassageId(7), &tokens);
        assert_eq!(unseal(PassageId(7), &sealed), Some(tokens));
        assert_eq!(unseal(PassageId(8), &sealed), None, "of another passage");
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(unseal(PassageId(7), &damaged), None, "bit {bit}");
        }
        assert_eq!(unseal(PassageId(7), &[]), None);
    }
}
