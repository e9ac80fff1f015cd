//! Aliases of collections in the catalog.

use super::StoreError;
use super::catalog_session::{CatalogSession, values};
use super::catalog_storage::{CatalogPart, CatalogStorage, Within};
use crate::domain::{Alias, CollectionId, CollectionName};

impl dyn CatalogStorage {
    /// Returns all aliases, sorted by name.
    pub fn aliases(&self) -> Result<Vec<Alias>, StoreError> {
        self.run_in(Within::Statements, "reading the aliases", read_aliases)
    }

    /// Points `name` to a collection, replacing any previous target. Fails with `StoreError::CollectionExists` if it is the
    /// name of a collection.
    pub fn set_alias(&self, name: &CollectionName, collection: &CollectionId) -> Result<(), StoreError> {
        // In one statement, so that the alias always exists.
        let sql = "insert into dragoman.aliases (name, collection)
                   select $1, $2 where not exists (select 1 from dragoman.catalog where name = $1)
                   on conflict (name) do update set collection = excluded.collection";
        let set = self.run_in(Within::ChangeOf(CatalogPart::Names), "setting an alias", |session| {
            session.execute(sql, values![name.as_str(), collection.0.as_str()])
        })?;
        if set == 0 {
            return Err(StoreError::CollectionExists { name: name.clone() });
        }
        Ok(())
    }

    /// Removes an alias. Returns whether it existed.
    pub fn delete_alias(&self, name: &CollectionName) -> Result<bool, StoreError> {
        let sql = "delete from dragoman.aliases where name = $1";
        self.run_in(Within::ChangeOf(CatalogPart::Names), "deleting an alias", |session| {
            Ok(session.execute(sql, values![name.as_str()])? > 0)
        })
    }
}

/// Reads all aliases, sorted by name.
pub(crate) fn read_aliases(session: &mut dyn CatalogSession) -> Result<Vec<Alias>, StoreError> {
    let sql =
        "select a.name, c.name, c.key from dragoman.aliases a join dragoman.catalog c on c.id = a.collection order by a.name";
    session.rows(sql, &[], |row| {
        let key = row.integer(2)?;
        let corrupt = |_| StoreError::CorruptRow { table: "aliases", row: key, problem: "its name is not valid" };
        let name = CollectionName::parse(&row.text(0)?).map_err(corrupt)?;
        Ok(Alias { name, collection: CollectionName::parse(&row.text(1)?).map_err(corrupt)? })
    })
}

/// Refuses an alias with the name of a collection. Otherwise points it to a collection, or fails with
/// `StoreError::AliasExists` if it exists and may not be replaced.
pub(super) fn point_alias(
    session: &mut dyn CatalogSession,
    name: &CollectionName,
    collection: &CollectionId,
    replace: bool,
) -> Result<(), StoreError> {
    if session.has_row("select 1 from dragoman.catalog where name = $1", values![name.as_str()])? {
        return Err(StoreError::CollectionExists { name: name.clone() });
    }
    let conflict = if replace { "do update set collection = excluded.collection" } else { "do nothing" };
    let sql = format!("insert into dragoman.aliases (name, collection) values ($1, $2) on conflict (name) {conflict}");
    match session.execute(&sql, values![name.as_str(), collection.0.as_str()])? {
        0 => Err(StoreError::AliasExists { name: name.clone() }),
        _ => Ok(()),
    }
}
