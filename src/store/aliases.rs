//! Aliases of collections in the catalog.

use rusqlite::params;

use super::StoreError;
use super::catalog::Catalog;
use super::rows::query_all;
use crate::domain::{Alias, CollectionId, CollectionName};

impl Catalog {
    pub(crate) fn aliases(&self) -> Result<Vec<Alias>, StoreError> {
        self.run("reading the aliases", |connection| {
            let sql = "select a.name, c.name, c.key from aliases a join collections c on c.id = a.collection order by a.name";
            query_all(connection, sql, [], |row| {
                let key = row.get(2)?;
                let corrupt = |_| StoreError::CorruptRow { table: "aliases", row: key, problem: "its name is not valid" };
                let (name, collection): (String, String) = (row.get(0)?, row.get(1)?);
                let name = CollectionName::parse(&name).map_err(corrupt)?;
                Ok(Alias { name, collection: CollectionName::parse(&collection).map_err(corrupt)? })
            })
        })
    }

    pub(crate) fn set_alias(&self, name: &CollectionName, collection: &CollectionId) -> Result<(), StoreError> {
        // In one statement, so that the alias always exists.
        let sql =
            "insert into aliases (name, collection) select ?1, ?2 where not exists (select 1 from collections where name = ?1)
                   on conflict (name) do update set collection = excluded.collection";
        let changed =
            self.run("setting an alias", |connection| Ok(connection.execute(sql, params![name.as_str(), collection.0])?))?;
        if changed == 0 {
            return Err(StoreError::CollectionExists { name: name.clone() });
        }
        Ok(())
    }

    pub(crate) fn delete_alias(&self, name: &CollectionName) -> Result<bool, StoreError> {
        let sql = "delete from aliases where name = ?1";
        self.run("deleting an alias", |connection| Ok(connection.execute(sql, [name.as_str()])? > 0))
    }
}
