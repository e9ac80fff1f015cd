//! Versions of the catalog: for each part that servers keep in memory, the number of its last change.
//!
//! A transaction that changes a part first gets the next version number. It only gets one if its server knows the part's
//! current version, so everything that was checked against that server's memory still holds. Getting it locks a row until the
//! commit, which serializes such transactions.
//!
//! Each version is higher than the one before by a random number. After a failover to a replica that lacks the last changes,
//! other changes therefore get other versions than the lost ones, and a server notices that its memory is not of this database.

use crate::storage::postgres::fault::Fault;
use crate::storage::postgres::session::Session;
use crate::storage::postgres::writing::NOW_MS;
use crate::store::{CatalogPart, StoreError};

/// The number of each part's last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CatalogVersions([i64; CatalogPart::ALL.len()]);

impl CatalogVersions {
    pub fn of(&self, part: CatalogPart) -> i64 {
        self.0[part as usize]
    }
}

/// Reads the versions, and the time by the database server's clock, in milliseconds since the Unix epoch.
pub(super) fn read(session: &mut Session) -> Result<(CatalogVersions, i64), Fault> {
    let columns = CatalogPart::ALL.map(column).join(", ");
    let row = session.row(&format!("select {columns}, {NOW_MS} from dragoman.catalog_state"), &[])?;
    let row = row.ok_or(StoreError::CorruptRow { table: "catalog_state", row: 0, problem: "it is missing" })?;
    let mut versions = CatalogVersions::default();
    for (index, version) in versions.0.iter_mut().enumerate() {
        *version = row.try_get(index)?;
    }
    Ok((versions, row.try_get(versions.0.len())?))
}

/// The version is increased by up to this number. So large that two changes after the same version practically never get the
/// same one, and small enough for billions of changes.
const STEP_MAX: u32 = 1 << 30;

/// Increments the version of a part and returns it. Fails with `StoreError::CatalogChanged` if the current version is not
/// `known`.
pub(super) fn increment(session: &mut Session, part: CatalogPart, known: i64) -> Result<i64, Fault> {
    let column = column(part);
    let sql = format!(
        "update dragoman.catalog_state set version = version + step, {column} = version + step
         from (select 1 + floor(random() * {STEP_MAX})::bigint as step) as drawn where {column} = $1 returning {column}"
    );
    Ok(session.value(&sql, &[&known])?.ok_or(StoreError::CatalogChanged)?)
}

fn column(part: CatalogPart) -> &'static str {
    match part {
        CatalogPart::Names => "names",
        CatalogPart::Keys => "api_keys",
        CatalogPart::Classifiers => "classifiers",
    }
}
