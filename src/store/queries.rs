//! Queries of a collection's database that several operations share. Each runs in its caller's transaction.

use rusqlite::{Connection, Rows, params, params_from_iter};

use super::error::Fault;
use super::expiry::{EXPIRED_PASSAGES, LIVE};
use super::rows::{self, DOCUMENT_COLUMNS, from_sql, passage_id, query_all, query_number, query_one, to_sql};
use super::write_rules::FoundDocument;
use super::{PendingPassage, StoreError};
use crate::domain::{CollectionCounts, Document, DocumentId, DocumentPage, Language, Page, PassageContext, Sequence};

pub(super) fn get(connection: &Connection, id: &DocumentId) -> Result<Option<Document>, Fault> {
    Ok(find(connection, id)?.map(|found| found.document))
}

pub(super) fn find(connection: &Connection, id: &DocumentId) -> Result<Option<FoundDocument>, Fault> {
    let sql = format!("select {DOCUMENT_COLUMNS} from documents d where d.id = ?1 and {LIVE}");
    query_one(connection, &sql, [id.as_str()], |row| Ok(FoundDocument { key: row.get(0)?, document: rows::document(row)? }))
}

/// Fills up a page to `limit` documents. Reads fewer, but at least one, if their texts and metadata exceed the bytes that are
/// left. Returns whether there are more rows than fit. `DOCUMENT_COLUMNS` must come first in the rows.
pub(super) fn add_to_page(
    documents: &mut Vec<Document>,
    rows: &mut Rows<'_>,
    limit: usize,
    bytes_left: &mut u64,
) -> Result<bool, Fault> {
    while let Some(row) = rows.next()? {
        let bytes = rows::sizes(row)?.iter().sum::<u64>();
        if documents.len() == limit || (bytes > *bytes_left && !documents.is_empty()) {
            return Ok(true);
        }
        *bytes_left = bytes_left.saturating_sub(bytes);
        documents.push(rows::document(row)?);
    }
    Ok(false)
}

pub(super) fn list(connection: &Connection, page: &Page<DocumentId>, bytes_max: u64) -> Result<DocumentPage, Fault> {
    let mut bytes_left = bytes_max;
    let sql = format!("select {DOCUMENT_COLUMNS} from documents d where d.id > ?1 and {LIVE} order by d.id limit ?2");
    let after = page.after.as_ref().map_or("", DocumentId::as_str);
    // Reads one more than requested to see whether there is a next page.
    let limit = to_sql(page.limit as u64).saturating_add(1);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut documents = Vec::new();
    let more = add_to_page(&mut documents, &mut statement.query(params![after, limit])?, page.limit, &mut bytes_left)?;
    let next = documents.last().filter(|_| more).map(|document| document.id.clone());
    Ok(DocumentPage { documents, next })
}

/// Runs `sql`, which returns id, document, start, end and headings of passages, and adds their texts and titles.
pub(super) fn passage_texts(connection: &Connection, sql: &str, values: &[i64]) -> Result<Vec<PendingPassage>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut read_text = connection.prepare_cached("select text, title from documents where key = ?1")?;
    let mut text: (i64, String, Option<String>) = (0, String::new(), None);
    let mut passages = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, document): (i64, i64) = (row.get(0)?, row.get(1)?);
        // Passages of one document follow each other, so a long text is only read once.
        if text.0 != document {
            text = read_text.query_row([document], |row| Ok((document, row.get(0)?, row.get(1)?)))?;
        }
        let range = rows::passage_range(id, row.get(2)?, row.get(3)?, &text.1)?;
        let context = PassageContext { title: text.2.clone(), headings: row.get(4)? };
        passages.push(PendingPassage { id: passage_id(id)?, context, text: text.1[range].to_owned() });
    }
    Ok(passages)
}

pub(super) fn sequence(connection: &Connection) -> Result<Sequence, Fault> {
    let sequence = read_sequence(connection, "select sequence from state")?;
    // A lower sequence would reuse numbers, and an index that has already reached those would never see the changes.
    let drawn = "select max(coalesce((select max(embedded_sequence) from passages where embedded_sequence is not null), 0),
                 coalesce((select max(sequence) from tombstones), 0))";
    if sequence < read_sequence(connection, drawn)? {
        let problem = "its sequence is lower than that of a change";
        return Err(StoreError::CorruptRow { table: "state", row: 1, problem }.into());
    }
    Ok(sequence)
}

/// Returns the sequence number up to which tombstones were purged.
pub(super) fn tombstones_purged(connection: &Connection) -> Result<Sequence, Fault> {
    read_sequence(connection, "select tombstones_purged from state")
}

/// The current rules for splitting texts, as migrations number them.
pub(crate) const CUTTING_RULES: i64 = 2;

/// Counts by the numbers that triggers maintain, minus documents that have expired but are not removed yet. `disk_bytes` stays
/// zero.
pub(super) fn counts(connection: &Connection) -> Result<CollectionCounts, Fault> {
    let count = |all: &str, of_expired: &str| -> Result<u64, Fault> {
        let sql = format!("select ({all}) - (select count(*) from passages where id in ({EXPIRED_PASSAGES}){of_expired})");
        query_number(connection, &sql, [])
    };
    let sql = "with expired as materialized (
                   select coalesce(d.language, '') as language, count(*) as documents from documents d indexed by documents_expiring
                   where d.expires_at_ms <= now_ms() group by 1)
               select c.language, c.documents - coalesce(e.documents, 0) as live
               from language_counts c left join expired e on e.language = c.language
               where c.documents > coalesce(e.documents, 0) order by live desc, c.language";
    let languages = query_all(connection, sql, [], |row| {
        let code: String = row.get(0)?;
        Ok((Language::parse(&code), from_sql(row.get(1)?)))
    })?;
    let cut = "select cutting_rules < ?1 from state";
    Ok(CollectionCounts {
        documents: languages.iter().map(|(_, documents)| documents).sum(),
        passages: count("select passages from state", "")?,
        passages_pending: count("select count(*) from passages where embedding is null", " and embedding is null")?,
        languages,
        disk_bytes: 0,
        cut_by_older_rules: connection.prepare_cached(cut)?.query_row([CUTTING_RULES], |row| row.get(0))?,
    })
}

pub(super) fn read_sequence(connection: &Connection, sql: &str) -> Result<Sequence, Fault> {
    let number: i64 = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    let corrupt = |_| StoreError::CorruptRow { table: "state", row: 1, problem: "it holds a negative number" };
    Ok(Sequence(u64::try_from(number).map_err(corrupt)?))
}

#[cfg(test)]
pub(super) mod tests {
    use rusqlite::Params;

    use super::super::clock::{register_clock, system_clock};
    use super::super::metadata_indexes::create_index;
    use super::super::migrate::{COLLECTION, migrate};
    use super::*;
    use crate::domain::MetadataPath;

    /// Returns SQLite's plan for a statement on an empty database with an index `by_path_N` for each of `indexed`.
    pub fn query_plan(indexed: &[MetadataPath], sql: &str, values: impl Params) -> String {
        let mut connection = Connection::open_in_memory().unwrap();
        register_clock(&connection, system_clock).unwrap();
        migrate(&mut connection, &COLLECTION).unwrap();
        for (number, path) in indexed.iter().enumerate() {
            create_index(&connection, &format!("by_path_{number}"), path).unwrap();
        }
        let mut statement = connection.prepare(&format!("explain query plan {sql}")).unwrap();
        let steps = statement.query_map(values, |row| row.get::<_, String>("detail")).unwrap();
        steps.collect::<Result<Vec<_>, _>>().unwrap().join("\n")
    }

    #[test]
    fn large_tables_are_read_through_indexes() {
        let check = |sql: &str, expect: &[&str]| {
            let plan = query_plan(&[], sql, []);
            for part in expect {
                assert!(plan.contains(part), "{part:?} is not in the plan of {sql}:\n{plan}");
            }
            assert!(!plan.contains("TEMP B-TREE"), "{sql} sorts:\n{plan}");
        };
        check(
            "select id from passages indexed by passages_pending where embedding is null and id > 5 order by id limit 5",
            &["passages_pending (id>?)"],
        );
        check("select count(*) from passages where embedding is null", &["USING COVERING INDEX passages_pending"]);
        check(
            "select max(embedded_sequence) from passages where embedded_sequence is not null",
            &["USING COVERING INDEX passages_embedded"],
        );
        check("select count(*) from passages where embedded_sequence > 5", &["COVERING INDEX passages_embedded"]);
        check(
            "select embedded_sequence as sequence, id, embedding from passages where embedded_sequence > 5
             union all select sequence, passage, null from tombstones where sequence > 5 order by sequence limit 5",
            &["MERGE", "passages_embedded (embedded_sequence>?)", "tombstones USING INTEGER PRIMARY KEY (rowid>?)"],
        );
        check(
            &format!("select {DOCUMENT_COLUMNS} from documents d where d.id > 'a' order by d.id limit 5"),
            &[
                "documents_1 (id>?)",
                "COVERING INDEX passages_document (document=?)",
                "COVERING INDEX passages_pending_document (document=?",
            ],
        );
        check(
            "select 1 from documents d where true and d.language is not null and d.language in ('fr', 'de') limit 5",
            &["documents_language (language=?)"],
        );
    }
}
