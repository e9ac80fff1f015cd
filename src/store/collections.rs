//! The collections of the catalog.

use super::StoreError;
use super::catalog_session::{CatalogSession, CatalogValue, Columns, values};
use super::catalog_storage::{CatalogPart, CatalogStorage, Within};
use super::idempotency_records;
use super::rows::to_sql;
use crate::domain::{
    Collection, CollectionId, CollectionModel, CollectionName, HnswSettings, Language, Metric, Page, PassageBounds, Quantization,
    RequestKey,
};

const COLUMNS: &str = "key, id, name, description, model, model_fingerprint, dimension, metric, created_at_ms,
    quantization, m, ef_construction, ef_search, default_languages, passage_tokens_max, passage_overlap_tokens";

impl dyn CatalogStorage {
    /// Adds a collection. With a request, records that this request created it. Fails with `StoreError::CollectionExists` if
    /// the name is taken.
    pub fn create(&self, collection: &Collection, request: Option<&RequestKey>) -> Result<(), StoreError> {
        let inserted = self.run_in(Within::ChangeOf(CatalogPart::Names), "creating a collection", |session| {
            let inserted = insert(session, collection)?;
            if let Some(request) = request.filter(|_| inserted > 0) {
                idempotency_records::store_creation(session, request, &collection.id.0, collection.created_at_ms)?;
            }
            Ok(inserted)
        })?;
        if inserted == 0 {
            return Err(StoreError::CollectionExists { name: collection.name.clone() });
        }
        Ok(())
    }

    /// Returns the id of what this request created earlier. Fails with `StoreError::KeyReused` if the same key was used for
    /// another request.
    pub fn find_created_by(&self, request: &RequestKey, now_ms: i64) -> Result<Option<String>, StoreError> {
        self.run_in(Within::Statements, "reading an idempotency record", |session| {
            idempotency_records::find(session, request, now_ms)
        })
    }

    /// Stores changes to a collection: its description, search width and default languages. Returns whether the collection
    /// existed.
    pub fn update(&self, collection: &Collection) -> Result<bool, StoreError> {
        self.run_in(Within::ChangeOf(CatalogPart::Names), "changing a collection", |session| {
            update_collection(session, collection)
        })
    }

    pub fn get(&self, name: &CollectionName) -> Result<Option<Collection>, StoreError> {
        self.run_in(Within::Statements, "reading a collection", |session| {
            Ok(select(session, "where name = $1", values![name.as_str()])?.pop())
        })
    }

    /// Lists at most `page.limit` collections, sorted by name.
    pub fn list(&self, page: &Page<CollectionName>) -> Result<Vec<Collection>, StoreError> {
        let after = page.after.as_ref().map_or("", CollectionName::as_str);
        self.run_in(Within::Statements, "listing collections", |session| {
            select(session, "where name > $1 order by name limit $2", values![after, to_sql(page.limit as u64)])
        })
    }
}

/// Reads all collections, sorted by name.
pub(crate) fn read_collections(session: &mut dyn CatalogSession) -> Result<Vec<Collection>, StoreError> {
    select(session, "order by name", &[])
}

fn select(session: &mut dyn CatalogSession, rest: &str, values: &[CatalogValue<'_>]) -> Result<Vec<Collection>, StoreError> {
    session.rows(&format!("select {COLUMNS} from dragoman.catalog {rest}"), values, read_collection)
}

/// Removes a collection, with its aliases, and returns it.
pub(crate) fn delete_collection(
    session: &mut dyn CatalogSession,
    name: &CollectionName,
) -> Result<Option<Collection>, StoreError> {
    let sql = format!("delete from dragoman.catalog where name = $1 returning {COLUMNS}");
    session.row(&sql, values![name.as_str()], read_collection)
}

/// Stores changes to a collection, like `CatalogStorage::update`.
pub(crate) fn update_collection(session: &mut dyn CatalogSession, collection: &Collection) -> Result<bool, StoreError> {
    let sql = "update dragoman.catalog set description = $2, ef_search = $3, default_languages = $4 where id = $1";
    let values = values![
        collection.id.0.as_str(),
        collection.description.as_deref(),
        collection.hnsw.ef_search as i64,
        codes(&collection.default_languages),
    ];
    Ok(session.execute(sql, values)? > 0)
}

/// Adds collections. Fails with `StoreError::CollectionExists` if the name of one is taken.
pub(super) fn insert_all(session: &mut dyn CatalogSession, collections: &[Collection]) -> Result<(), StoreError> {
    for collection in collections {
        if insert(session, collection)? == 0 {
            return Err(StoreError::CollectionExists { name: collection.name.clone() });
        }
    }
    Ok(())
}

/// Adds a row. Returns 0 if the name is taken.
fn insert(session: &mut dyn CatalogSession, collection: &Collection) -> Result<u64, StoreError> {
    let sql = "insert into dragoman.catalog (id, name, description, model, model_fingerprint, dimension, metric, created_at_ms,
                   quantization, m, ef_construction, ef_search, default_languages, passage_tokens_max, passage_overlap_tokens)
               values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) on conflict (name) do nothing";
    let model = collection.model.as_ref();
    let passages = collection.passages;
    let values = values![
        collection.id.0.as_str(),
        collection.name.as_str(),
        collection.description.as_deref(),
        model.map_or("", |model| model.name.as_str()),
        model.map_or("", |model| model.fingerprint.as_str()),
        collection.dimension as i64,
        collection.metric.name(),
        collection.created_at_ms,
        collection.quantization.name(),
        collection.hnsw.m as i64,
        collection.hnsw.ef_construction as i64,
        collection.hnsw.ef_search as i64,
        codes(&collection.default_languages),
        passages.map(|bounds| bounds.tokens_max as i64),
        passages.map_or(0, |bounds| bounds.overlap_tokens as i64),
    ];
    session.execute(sql, values)
}

/// Reads a row of `COLUMNS`.
fn read_collection(row: &dyn Columns) -> Result<Collection, StoreError> {
    let key = row.integer(0)?;
    let corrupt = |problem| StoreError::CorruptRow { table: "collections", row: key, problem };
    let (name, model) = (row.text(2)?, row.text(4)?);
    let (metric, quantization) = (row.text(7)?, row.text(9)?);
    let number = |column: usize| -> Result<usize, StoreError> {
        usize::try_from(row.integer(column)?).map_err(|_| corrupt("a number is negative"))
    };
    let languages = row.text(13)?;
    let bounded = row.optional_integer(14)?.is_some();
    let passages = bounded.then(|| Ok::<_, StoreError>(PassageBounds { tokens_max: number(14)?, overlap_tokens: number(15)? }));
    let languages = languages.split_terminator(',').map(Language::parse).collect::<Option<_>>();
    Ok(Collection {
        id: CollectionId(row.text(1)?),
        name: CollectionName::parse(&name).map_err(|_| corrupt("its name is not valid"))?,
        description: row.optional_text(3)?,
        model: if model.is_empty() { None } else { Some(CollectionModel { name: model, fingerprint: row.text(5)? }) },
        dimension: number(6)?,
        metric: Metric::parse(&metric).ok_or_else(|| corrupt("its metric is unknown"))?,
        quantization: Quantization::parse(&quantization).ok_or_else(|| corrupt("its quantization is unknown"))?,
        hnsw: HnswSettings { m: number(10)?, ef_construction: number(11)?, ef_search: number(12)? },
        passages: passages.transpose()?,
        default_languages: languages.ok_or_else(|| corrupt("a default language is unknown"))?,
        created_at_ms: row.integer(8)?,
    })
}

/// Formats languages as one text: their codes, each followed by a comma.
fn codes(languages: &[Language]) -> String {
    languages.iter().map(|language| format!("{language},")).collect()
}
