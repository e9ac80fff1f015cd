//! Runs the statements of the catalog on a database server.

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::domain::{Embedding, Language, RequestKey};
use crate::storage::postgres::escape::{escape, unescape};
use crate::storage::postgres::fault::Fault;
use crate::storage::postgres::session::{Parameter, Session, SqlValue};
use crate::store::{
    CatalogSession, CatalogValue, ClassifierText, Columns, RowConsumer, StoreError, TextEmbedding, catalog_json, columns,
};

/// A connection for one operation.
pub(super) struct ServerSession<'s> {
    pub(super) session: &'s mut Session,
    pub(super) operation: &'static str,
}

impl ServerSession<'_> {
    fn run<T>(&mut self, work: impl FnOnce(&mut Session) -> Result<T, Fault>) -> Result<T, StoreError> {
        work(self.session).map_err(|fault| fault.into_store_error(self.operation))
    }
}

impl CatalogSession for ServerSession<'_> {
    fn execute(&mut self, sql: &str, values: &[CatalogValue<'_>]) -> Result<u64, StoreError> {
        let values = encode(values);
        self.run(|session| session.execute(sql, &parameters(&values)))
    }

    fn for_each_row(&mut self, sql: &str, values: &[CatalogValue<'_>], take: &mut RowConsumer<'_>) -> Result<(), StoreError> {
        let values = encode(values);
        let rows = self.run(|session| session.rows(sql, &parameters(&values)))?;
        rows.into_iter().try_for_each(|row| take(&CatalogRow { row, operation: self.operation }))
    }

    fn lock_request_key(&mut self, request: &RequestKey) -> Result<(), StoreError> {
        let sql = "select pg_advisory_xact_lock(hashtextextended($1, 0)) is null";
        self.run(|session| session.row(sql, &[&request.record_key()]).map(drop))
    }

    fn insert_texts(&mut self, classifier: i64, texts: &[ClassifierText]) -> Result<(), StoreError> {
        let sql = "insert into dragoman.classifier_texts (classifier, description, text, labels, language, embedding)
                   select $1, n.description, n.text, n.labels, n.language, n.embedding
                   from unnest($2, $3, $4, $5, $6) with ordinality as n (description, text, labels, language, embedding, position)
                   order by n.position";
        let descriptions: Vec<bool> = texts.iter().map(|text| text.description).collect();
        let bodies: Vec<_> = texts.iter().map(|text| escape(&text.text).into_owned()).collect();
        let labels: Vec<_> = texts.iter().map(|text| escape(&catalog_json(&text.labels)).into_owned()).collect();
        let languages: Vec<_> = texts.iter().map(|text| text.language.map(Language::code)).collect();
        let embeddings: Vec<_> = texts.iter().map(|text| text.embedding.as_ref().map(Embedding::to_bytes)).collect();
        let values: [Parameter<'_>; 6] = [&classifier, &descriptions, &bodies, &labels, &languages, &embeddings];
        self.run(|session| session.execute(sql, &values).map(drop))
    }

    fn store_embeddings(&mut self, embedded: &[TextEmbedding]) -> Result<(), StoreError> {
        let sql = "update dragoman.classifier_texts t set language = n.language, embedding = n.embedding
                   from unnest($1, $2, $3) as n (key, language, embedding) where t.key = n.key";
        let keys: Vec<i64> = embedded.iter().map(|(key, ..)| *key).collect();
        let languages: Vec<_> = embedded.iter().map(|(_, language, _)| language.map(Language::code)).collect();
        let embeddings: Vec<_> = embedded.iter().map(|(.., embedding)| embedding.to_bytes()).collect();
        self.run(|session| session.execute(sql, &[&keys, &languages, &embeddings]).map(drop))
    }
}

/// Converts values to those of the database. Texts are escaped.
fn encode(values: &[CatalogValue<'_>]) -> Vec<Box<dyn SqlValue + Sync>> {
    let encode_one = |value: &CatalogValue<'_>| -> Box<dyn SqlValue + Sync> {
        match value {
            CatalogValue::Integer(number) => Box::new(*number),
            CatalogValue::Text(text) => Box::new(text.as_deref().map(|text| escape(text).into_owned())),
            CatalogValue::Bytes(bytes) => Box::new(bytes.as_deref().map(<[u8]>::to_vec)),
        }
    };
    values.iter().map(encode_one).collect()
}

fn parameters(values: &[Box<dyn SqlValue + Sync>]) -> Vec<Parameter<'_>> {
    values.iter().map(|value| &**value).collect()
}

/// A row that was read for one operation.
pub(super) struct CatalogRow {
    pub(super) row: Row,
    pub(super) operation: &'static str,
}

impl CatalogRow {
    fn get<'r, T: FromSql<'r>>(&'r self, column: usize) -> Result<T, StoreError> {
        self.row.try_get(column).map_err(|error| Fault::from(error).into_store_error(self.operation))
    }
}

impl Columns for CatalogRow {
    fn text(&self, column: usize) -> Result<String, StoreError> {
        Ok(unescape(self.get(column)?))
    }

    fn optional_text(&self, column: usize) -> Result<Option<String>, StoreError> {
        let text: Option<&str> = self.get(column)?;
        Ok(text.map(unescape))
    }

    columns! { integer: i64, optional_integer: Option<i64>, boolean: bool, optional_bytes: Option<Vec<u8>> }
}
