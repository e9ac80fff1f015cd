//! Reads exports of Chroma: the result of `collection.get()`, which is a list per field, or Chroma's own database file.

use std::fs::File;
use std::io::{self, BufRead, Read as _};
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, params};
use serde_json::{Map, Value};

use super::json_records::Column;
use super::record::{Record, Records};
use crate::cli::output::plural;

const PAGE_RECORDS: usize = 500;
/// Name of the database file in Chroma's folder.
const DATABASE: &str = "chroma.sqlite3";
/// Metadata key of a record's text in the database.
const DOCUMENT: &str = "chroma:document";
const SQLITE: &[u8] = b"SQLite format 3\0";

/// The lists of `collection.get()`, read in parallel.
pub struct Columns<R> {
    /// The ids, documents, metadata and embeddings.
    columns: [Column<R>; 4],
    in_page: bool,
}

impl<R: BufRead> Columns<R> {
    /// Opens the columns, each with a separate stream over the same file.
    pub fn new(mut open: impl FnMut() -> io::Result<R>) -> io::Result<Self> {
        let mut column = |name| Column::new(open()?, name);
        Ok(Self { columns: [column("ids")?, column("documents")?, column("metadatas")?, column("embeddings")?], in_page: false })
    }

    fn next_page(&mut self) -> io::Result<bool> {
        let mut more = true;
        for column in &mut self.columns {
            more = column.next_page()?;
        }
        if more && !self.columns[0].has_more_values() {
            return Err(invalid("there is no list of ids, as collection.get() gives it"));
        }
        Ok(more)
    }
}

impl<R: BufRead> Records for Columns<R> {
    fn next(&mut self) -> io::Result<Option<Result<Record, String>>> {
        loop {
            if !self.in_page && !self.next_page()? {
                return Ok(None);
            }
            self.in_page = true;
            let has_more = self.columns.each_ref().map(Column::has_more_values);
            let mut row = [const { Value::Null }; 4];
            let mut problem = None;
            let mut read = [false; 4];
            for (index, column) in self.columns.iter_mut().enumerate() {
                match column.next()? {
                    Some(Ok(value)) => (row[index], read[index]) = (value, true),
                    Some(Err(reason)) => (problem, read[index]) = (Some(reason), true),
                    None => {}
                }
            }
            if !read[0] {
                self.in_page = false;
            }
            if (0..4).any(|index| has_more[index] && read[index] != read[0]) {
                return Err(invalid("the lists of ids, documents, metadatas and embeddings differ in length"));
            }
            if read[0] {
                let [id, document, metadata, vector] = row;
                return Ok(Some(match problem {
                    Some(reason) => Err(reason),
                    None => Record::new(id, metadata).map(|record| Record { document, vector, ..record }),
                }));
            }
        }
    }
}

/// A collection in Chroma's database file.
pub struct Database {
    connection: Connection,
    segment: String,
    has_lists: bool,
    after: i64,
    page: std::vec::IntoIter<(i64, String)>,
}

/// Returns the path of Chroma's database if `path` is one or the folder of one.
pub fn find_database(path: &Path) -> io::Result<Option<PathBuf>> {
    if path.is_dir() {
        return Ok(Some(path.join(DATABASE)));
    }
    let mut start = Vec::new();
    File::open(path)?.take(SQLITE.len() as u64).read_to_end(&mut start)?;
    Ok((start == SQLITE).then(|| path.to_owned()))
}

impl Database {
    /// Opens the database to read the collection with this name, or its only one.
    pub fn open(path: &Path, collection: Option<&str>) -> io::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(io::Error::other)?;
        let (id, segment) = find(&connection, collection)?;
        let waiting: i64 = connection
            .query_row(
                "select count(*) from embeddings_queue where topic like '%' || ?1 \
                 and seq_id > coalesce((select seq_id from max_seq_id where segment_id = ?2), 0)",
                [&id, &segment],
                |row| row.get(0),
            )
            .map_err(io::Error::other)?;
        if waiting > 0 {
            let changes = plural(waiting.unsigned_abs(), "change");
            return Err(invalid(&format!("the collection's tables still lack {changes}; call collection.count() in Chroma")));
        }
        let lists = "select 1 from sqlite_master where name = 'embedding_metadata_array'";
        let has_lists = connection.query_row(lists, [], |_| Ok(())).optional().map_err(io::Error::other)?.is_some();
        Ok(Self { connection, segment, has_lists, after: 0, page: Vec::new().into_iter() })
    }

    fn read_page(&mut self) -> rusqlite::Result<()> {
        let mut rows = self
            .connection
            .prepare_cached("select id, embedding_id from embeddings where segment_id = ?1 and id > ?2 order by id limit ?3")?;
        let rows =
            rows.query_map(params![self.segment, self.after, PAGE_RECORDS as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let page: Vec<(i64, String)> = rows.collect::<Result<_, _>>()?;
        self.after = page.last().map_or(self.after, |(row, _)| *row);
        self.page = page.into_iter();
        Ok(())
    }

    fn metadata(&self, row: i64) -> rusqlite::Result<Map<String, Value>> {
        let mut metadata = Map::new();
        let columns = "key, string_value, int_value, float_value, bool_value";
        let mut statement = self.connection.prepare_cached(&format!("select {columns} from embedding_metadata where id = ?1"))?;
        let mut rows = statement.query([row])?;
        while let Some(row) = rows.next()? {
            metadata.insert(row.get(0)?, value(row)?);
        }
        if self.has_lists {
            let list = format!("select {columns} from embedding_metadata_array where id = ?1 order by rowid");
            let mut list = self.connection.prepare_cached(&list)?;
            let mut rows = list.query([row])?;
            while let Some(row) = rows.next()? {
                let value = value(row)?;
                match metadata.entry(row.get::<_, String>(0)?).or_insert_with(|| Value::Array(Vec::new())) {
                    Value::Array(values) => values.push(value),
                    entry => *entry = value,
                }
            }
        }
        Ok(metadata)
    }
}

impl Records for Database {
    fn next(&mut self) -> io::Result<Option<Result<Record, String>>> {
        if self.page.len() == 0 {
            self.read_page().map_err(io::Error::other)?;
        }
        let Some((row, id)) = self.page.next() else { return Ok(None) };
        let mut metadata = self.metadata(row).map_err(io::Error::other)?;
        let document = metadata.remove(DOCUMENT).unwrap_or(Value::Null);
        let record = Record::new(id.into(), metadata.into());
        Ok(Some(record.map(|record| Record { document, ..record })))
    }
}

/// Returns the ids of a collection and of its metadata segment.
fn find(connection: &Connection, name: Option<&str>) -> io::Result<(String, String)> {
    let all = "select c.name, c.id, s.id from collections c join segments s on s.collection = c.id \
               where s.scope = 'METADATA' order by c.name";
    let mut all = connection.prepare(all).map_err(io::Error::other)?;
    let rows = all.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))).map_err(io::Error::other)?;
    let mut found: Vec<(String, (String, String))> = rows.collect::<Result<_, _>>().map_err(io::Error::other)?;
    let names = found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    found.retain(|(found_name, _)| name.is_none_or(|name| name == found_name));
    match (found.pop(), found.is_empty()) {
        (Some((_, ids)), true) => Ok(ids),
        _ => Err(invalid(&format!("the database has the collections {names}; name one with --source-collection"))),
    }
}

/// Returns the value of a metadata row: the first column that is not null.
fn value(row: &Row<'_>) -> rusqlite::Result<Value> {
    for column in 1..4 {
        match row.get_ref(column)? {
            ValueRef::Null => {}
            ValueRef::Integer(number) => return Ok(number.into()),
            ValueRef::Real(number) => return Ok(number.into()),
            ValueRef::Text(text) | ValueRef::Blob(text) => return Ok(String::from_utf8_lossy(text).into()),
        }
    }
    Ok(row.get::<_, Option<bool>>(4)?.map_or(Value::Null, Value::Bool))
}

fn invalid(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
