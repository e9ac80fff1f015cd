//! Writes the rows of passages' tokens, each sealed with a checksum.

use rusqlite::{Connection, params};

use super::checksum::seal_passage_value;
use super::error::Fault;
use super::rows::to_sql;
use crate::domain::{PassageId, TokenSet};

/// Writes the tokens of an embedded passage, unless it has none.
pub(super) fn insert(connection: &Connection, passage: PassageId, tokens: &TokenSet) -> Result<(), Fault> {
    if !tokens.is_empty() {
        let sql = "insert or replace into passage_tokens (passage, tokens) values (?1, ?2)";
        connection.prepare_cached(sql)?.execute(params![to_sql(passage.0), seal(passage, tokens)])?;
    }
    Ok(())
}

fn seal(passage: PassageId, tokens: &TokenSet) -> Vec<u8> {
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
        let sealed = seal(PassageId(7), &tokens);
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
