//! Forward-only migrations of both databases, embedded in the binary.
//!
//! SQLite's `application_id` distinguishes our databases from others and the two kinds from each other; `user_version` is the
//! number of applied migrations. All missing ones run in one transaction, so a crash leaves the old version or the new.
//! A database that is not ours, or newer than this binary, is left untouched.

use std::sync::OnceLock;

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;
use super::error::{Fault, cause};

/// One kind of database.
pub(super) struct Schema {
    /// Marks the file.
    pub(super) application_id: i64,
    /// The migrations in the order of their numbers. They are never edited after a release; a change is a new file at the end.
    pub(super) migrations: &'static [&'static str],
    /// What the migrations make, computed on first use.
    pub(super) objects: OnceLock<Objects>,
}

/// Tables, indexes and triggers: name and definition.
pub(super) type Objects = Vec<(String, String)>;

/// `catalog.sqlite`; the id reads `DraC`.
pub(super) static CATALOG: Schema = Schema {
    application_id: 0x4472_6143,
    migrations: &[
        include_str!("../../migrations/catalog/0001_collections.sql"),
        include_str!("../../migrations/catalog/0002_features.sql"),
        include_str!("../../migrations/catalog/0003_standard_names.sql"),
    ],
    objects: OnceLock::new(),
};

/// `documents.sqlite`; the id reads `DraD`.
pub(super) static COLLECTION: Schema = Schema {
    application_id: 0x4472_6144,
    migrations: &[
        include_str!("../../migrations/collection/0001_documents.sql"),
        include_str!("../../migrations/collection/0002_features.sql"),
        include_str!("../../migrations/collection/0003_passage_tokens.sql"),
        include_str!("../../migrations/collection/0004_titles.sql"),
        include_str!("../../migrations/collection/0005_stems.sql"),
        include_str!("../../migrations/collection/0006_passage_words.sql"),
        include_str!("../../migrations/collection/0007_standard_names.sql"),
        include_str!("../../migrations/collection/0008_expiry.sql"),
        include_str!("../../migrations/collection/0009_sounds.sql"),
        include_str!("../../migrations/collection/0010_beginnings.sql"),
        include_str!("../../migrations/collection/0011_letters_within_words.sql"),
        include_str!("../../migrations/collection/0012_parts_of_words.sql"),
    ],
    objects: OnceLock::new(),
};

/// Brings a new or older database to the newest version. Returns whether it changed.
pub(super) fn migrate(connection: &mut Connection, schema: &Schema) -> Result<bool, Fault> {
    apply(connection, schema, schema.migrations.len())
}

/// Brings a new or older database to `version`, which is the number of its migrations. Returns whether it changed.
pub(super) fn apply(connection: &mut Connection, schema: &Schema, version: usize) -> Result<bool, Fault> {
    let applied = applied(connection, schema)?;
    if applied >= version {
        return Ok(false);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for sql in &schema.migrations[applied..version] {
        transaction.execute_batch(sql)?;
    }
    transaction.pragma_update(None, "application_id", schema.application_id)?;
    transaction.pragma_update(None, "user_version", version as i64)?;
    transaction.commit()?;
    Ok(true)
}

/// Checks that everything the migrations make exists unchanged. Additions by others are allowed. If a bit in the schema
/// flipped, statements would fail as if they were wrong themselves, or do something else.
pub(super) fn check_schema(connection: &Connection, schema: &Schema) -> Result<(), Fault> {
    let expected = match schema.objects.get() {
        Some(objects) => objects,
        None => {
            let objects = objects(&create_in_memory(schema, schema.migrations.len())?)?;
            schema.objects.get_or_init(|| objects)
        }
    };
    let found = objects(connection)?;
    match expected.iter().find(|object| !found.contains(object)) {
        None => Ok(()),
        Some((name, _)) => {
            let source = cause(&format!("the definition of {name} has changed"));
            Err(StoreError::Damaged { operation: "checking the schema", source }.into())
        }
    }
}

/// Makes an empty database in memory with the first `version` migrations.
pub(super) fn create_in_memory(schema: &Schema, version: usize) -> Result<Connection, Fault> {
    let mut fresh = Connection::open_in_memory()?;
    apply(&mut fresh, schema, version)?;
    Ok(fresh)
}

fn objects(connection: &Connection) -> Result<Objects, Fault> {
    let mut statement = connection.prepare("select name, sql from sqlite_schema where sql is not null")?;
    Ok(statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?)
}

/// Returns the number of migrations applied to the database.
pub(super) fn applied(connection: &Connection, schema: &Schema) -> Result<usize, Fault> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application_id, version) = (pragma("application_id")?, pragma("user_version")?);
    let objects: i64 = connection.query_row("select count(*) from sqlite_schema", [], |row| row.get(0))?;
    if (application_id, version, objects) == (0, 0, 0) {
        return Ok(0);
    }
    if application_id != schema.application_id {
        return Err(StoreError::ForeignDatabase { found: application_id, expected: schema.application_id }.into());
    }
    match usize::try_from(version) {
        Ok(applied) if applied <= schema.migrations.len() => Ok(applied),
        _ => Err(StoreError::NewerDatabase { found: version, known: schema.migrations.len() as i64 }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "create table words (word text not null) strict; insert into words values ('mot');";
    const SECOND: &str = "alter table words add column language text; update words set language = 'fr';";
    static OLD: Schema = Schema { application_id: 7, migrations: &[FIRST], objects: OnceLock::new() };
    static NEW: Schema = Schema { application_id: 7, migrations: &[FIRST, SECOND], objects: OnceLock::new() };
    static BROKEN: Schema = Schema {
        application_id: 7,
        migrations: &[FIRST, "create table half (a text) strict; create nonsense;"],
        objects: OnceLock::new(),
    };

    fn database(schema: &Schema) -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, schema).unwrap();
        connection
    }

    fn version(connection: &Connection) -> i64 {
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    #[test]
    fn an_older_database_runs_only_the_missing_migrations() {
        let mut connection = database(&OLD);
        migrate(&mut connection, &NEW).unwrap();
        let rows: (i64, String) =
            connection.query_row("select count(*), max(language) from words", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!((rows, version(&connection)), ((1, "fr".to_owned()), 2));
    }

    #[test]
    fn a_failed_migration_leaves_the_database_unchanged() {
        let mut connection = database(&OLD);
        assert!(matches!(migrate(&mut connection, &BROKEN), Err(Fault::Sqlite(_))));
        assert_eq!(version(&connection), 1);
        assert!(connection.prepare("select * from half").is_err());
    }

    #[test]
    fn a_changed_schema_definition_counts_as_damage() {
        let connection = database(&NEW);
        assert!(check_schema(&connection, &NEW).is_ok());
        connection.execute_batch("create index words_language on words (language)").unwrap();
        assert!(check_schema(&connection, &NEW).is_ok(), "an added index is tolerated");
        connection.execute_batch("alter table words rename column language to lang").unwrap();
        let result = check_schema(&connection, &NEW);
        assert!(matches!(&result, Err(Fault::Store(error)) if error.is_damage()), "{result:?}");
    }
}
