//! Writes the rows of a passage that searches compare: its terms, words and tokens.

use std::fmt;
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::checksum::seal_passage_value;
use super::error::Fault;
use super::rows::{passage_id, to_sql};
use crate::domain::{Language, PassageId, PassageTerms, TokenSet};

type Compute = dyn Fn(&str, Option<Language>) -> PassageTerms + Send + Sync;

/// Computes the terms of passages.
#[derive(Clone)]
pub struct TermsOf {
    compute: Arc<Compute>,
    /// The checksum of the vocabulary that the words depend on, or 0 without a vocabulary.
    pub(super) vocabulary: u32,
}

impl TermsOf {
    /// Makes one that computes terms with this function, without a vocabulary.
    pub fn new(compute: impl Fn(&str, Option<Language>) -> PassageTerms + Send + Sync + 'static) -> Self {
        Self { compute: Arc::new(compute), vocabulary: 0 }
    }

    /// Sets the checksum of the vocabulary that the words depend on.
    pub fn with_vocabulary(self, vocabulary: u32) -> Self {
        Self { vocabulary, ..self }
    }

    /// Returns the terms of a passage's text and its context, in the language of its document.
    pub fn compute(&self, text: &str, language: Option<Language>) -> PassageTerms {
        (self.compute)(text, language)
    }
}

impl fmt::Debug for TermsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TermsOf")
    }
}

/// Makes the passages of a database get new terms and words if theirs depend on another vocabulary.
pub(super) fn adopt_vocabulary(connection: &Connection, terms_of: &TermsOf) -> Result<(), Fault> {
    let sql = "update stem_fill set filled = 0, until = (select coalesce(max(id), 0) from passages), vocabulary = ?1
               where vocabulary is not ?1";
    connection.execute(sql, [terms_of.vocabulary])?;
    Ok(())
}

/// Writes the row of a passage, replacing an existing one.
pub(super) fn replace(connection: &Connection, passage: i64, terms: &PassageTerms) -> Result<(), Fault> {
    remove(connection, passage)?;
    insert(connection, passage, terms)
}

/// Removes the row with the terms of a passage.
pub(super) fn remove(connection: &Connection, passage: i64) -> Result<(), Fault> {
    connection.prepare_cached("delete from lexical where rowid = ?1")?.execute([passage])?;
    Ok(())
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

/// Writes the tokens of an embedded passage, unless it has none.
pub(super) fn insert_tokens(connection: &Connection, passage: PassageId, tokens: &TokenSet) -> Result<(), Fault> {
    if !tokens.is_empty() {
        let sql = "insert or replace into passage_tokens (passage, tokens) values (?1, ?2)";
        connection.prepare_cached(sql)?.execute(params![to_sql(passage.0), seal_tokens(passage, tokens)])?;
    }
    Ok(())
}

fn seal_tokens(passage: PassageId, tokens: &TokenSet) -> Vec<u8> {
    seal_passage_value(passage, tokens.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::checksum::unseal_passage_value;
    use super::*;

    #[test]
    fn damaged_tokens_count_as_missing() {
        let unseal = |passage, bytes: &[u8]| unseal_passage_value(passage, bytes).and_then(TokenSet::from_bytes);
        let tokens = TokenSet::from_ids(&[5, 9, 300]);
        let sealed = seal_tokens(PassageId(7), &tokens);
        assert_eq!(unseal(PassageId(7), &sealed), Some(tokens));
        assert_eq!(unseal(PassageId(8), &sealed), None, "the tokens belong to another passage");
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(unseal(PassageId(7), &damaged), None, "bit {bit}");
        }
        assert_eq!(unseal(PassageId(7), &[]), None);
    }
}
