//! The classifiers of the catalog: their definitions, the results of training, and the texts of their requests.

use super::creations;
use super::rows::{CatalogRow, json, limit, text};
use super::{CatalogPart, PostgresCatalog};
use crate::domain::{ClassifierName, Embedding, JobFailure, JobId, Language, Page, RequestKey};
use crate::storage::postgres::fault::Fault;
use crate::storage::postgres::session::{Parameter, SNAPSHOT, Session};
use crate::store::{
    ClassifierContents, ClassifierText, FinishedTraining, StoreError, StoredClassifier, read_classifier, read_classifier_text,
};

const COLUMNS: &str =
    "key, id, name, job, state, model, model_fingerprint, dimension, definition, report, error_code, error_detail,
    created_at_ms, trained_at_ms, version, next_job";

impl PostgresCatalog {
    pub(crate) fn create_classifier(
        &self,
        row: &StoredClassifier,
        texts: &[ClassifierText],
        request: Option<&RequestKey>,
    ) -> Result<bool, StoreError> {
        let me = self.member.id();
        self.change_part("creating a classifier", CatalogPart::Classifiers, |session| {
            let Some(key) = insert(session, row, me)? else { return Ok(false) };
            insert_texts(session, key, texts)?;
            if let Some(request) = request {
                creations::store_creation(session, request, &row.id, row.record.created_at_ms)?;
            }
            Ok(true)
        })
    }

    pub(crate) fn classifier(&self, name: &ClassifierName) -> Result<Option<StoredClassifier>, StoreError> {
        self.run("reading a classifier", |session| find(session, "name", name.as_str()))
    }

    pub(crate) fn classifier_by_id(&self, id: &str) -> Result<Option<StoredClassifier>, StoreError> {
        self.run("reading a classifier", |session| find(session, "id", id))
    }

    pub(crate) fn classifiers(&self, page: &Page<ClassifierName>) -> Result<Vec<StoredClassifier>, StoreError> {
        let sql = format!("select {COLUMNS} from dragoman.classifiers where name > $1 order by name limit $2");
        let after = page.after.as_ref().map_or("", ClassifierName::as_str);
        self.run("listing classifiers", |session| {
            session.rows(&sql, &[&after, &limit(page.limit)])?.into_iter().map(|row| read_classifier(&CatalogRow(row))).collect()
        })
    }

    pub(crate) fn classifier_count(&self) -> Result<usize, StoreError> {
        self.run("counting classifiers", |session| {
            Ok(session.query_number("select count(*) from dragoman.classifiers", &[])? as usize)
        })
    }

    pub(crate) fn classifier_contents(&self, id: &str) -> Result<Option<ClassifierContents>, StoreError> {
        self.run("reading a classifier", |session| {
            session.in_transaction(SNAPSHOT, |session| {
                let Some(row) = find(session, "id", id)? else { return Ok(None) };
                let sql = "select weights from dragoman.classifiers where id = $1";
                let weights = session.row(sql, &[&id])?.map(|row| row.try_get(0)).transpose()?.flatten();
                let texts = texts(session, id)?.into_iter().map(|(_, text)| text).collect();
                Ok(Some(ClassifierContents { row, weights, texts }))
            })
        })
    }

    pub(crate) fn classifier_texts(&self, id: &str) -> Result<Vec<(i64, ClassifierText)>, StoreError> {
        self.run("reading a classifier's texts", |session| texts(session, id))
    }

    pub(crate) fn embed_classifier_texts(&self, embedded: &[(i64, Option<Language>, Embedding)]) -> Result<(), StoreError> {
        self.run("storing the embeddings of a classifier", |session| store_embeddings(session, embedded))
    }

    pub(crate) fn begin_retraining(&self, id: &str, job: &JobId) -> Result<bool, StoreError> {
        let sql = "update dragoman.classifiers set next_job = $2, trainer = $3
                   where id = $1 and next_job is null and state <> 'training'";
        self.run("storing a training", |session| Ok(session.execute(sql, &[&id, &job.as_str(), &self.member.id()])? > 0))
    }

    pub(crate) fn finish_training(&self, done: &FinishedTraining) -> Result<bool, StoreError> {
        let sql = "update dragoman.classifiers set state = 'ready', job = $2, next_job = null, version = version + 1, model = $3,
                       model_fingerprint = $4, dimension = $5, report = $6, weights = $7, error_code = null,
                       error_detail = null, trained_at_ms = $8
                   where id = $1 and (next_job = $2 or (job = $2 and state = 'training'))
                       and not exists (select 1 from dragoman.jobs j where j.id = $2 and j.owner <> $9)";
        let values: [Parameter<'_>; 9] = [
            &done.id,
            &done.job.as_str(),
            &done.model,
            &done.model_fingerprint,
            &(done.dimension as i64),
            &json(&done.report),
            &done.weights,
            &done.now_ms,
            &self.member.id(),
        ];
        self.transaction("storing a trained classifier", |session| {
            let found = session.execute(sql, &values)? > 0;
            if found {
                store_embeddings(session, &done.embedded)?;
                return Ok(true);
            }
            let others = "select count(*) from dragoman.jobs where id = $1 and owner <> $2";
            match session.query_number(others, &[&done.job.as_str(), &self.member.id()])? {
                0 => Ok(false),
                _ => Err(StoreError::JobTakenOver.into()),
            }
        })
    }

    pub(crate) fn fail_training(&self, job: &JobId, error: &JobFailure) -> Result<(), StoreError> {
        let sql = "update dragoman.classifiers set error_code = $2, error_detail = $3,
                       state = case when next_job = $1 then state else 'failed' end,
                       next_job = case when next_job = $1 then null else next_job end
                   where (next_job = $1 or (job = $1 and state = 'training'))
                       and not exists (select 1 from dragoman.jobs j where j.id = $1 and j.owner <> $4)";
        let detail = text(&error.detail);
        self.change("storing a failed training", sql, &[&job.as_str(), &error.code.name(), &detail.as_ref(), &self.member.id()])
    }

    pub(crate) fn trainings(&self) -> Result<Vec<JobId>, StoreError> {
        let sql = "select coalesce(next_job, job) from dragoman.classifiers
                   where (state = 'training' or next_job is not null)
                       and (trainer = $1 or not exists (select 1 from dragoman.servers where servers.id = trainer))";
        self.run("reading trainings", |session| {
            let mut jobs = Vec::new();
            for row in session.rows(sql, &[&self.member.id()])? {
                jobs.extend(JobId::parse(row.try_get(0)?).ok());
            }
            Ok(jobs)
        })
    }

    pub(crate) fn delete_classifier(&self, name: &ClassifierName) -> Result<Option<StoredClassifier>, StoreError> {
        let sql = format!("delete from dragoman.classifiers where name = $1 returning {COLUMNS}");
        self.run("deleting a classifier", |session| {
            session.row(&sql, &[&name.as_str()])?.map(|row| read_classifier(&CatalogRow(row))).transpose()
        })
    }
}

/// Adds a row and returns its key, or `None` if the name is taken.
fn insert(session: &mut Session, row: &StoredClassifier, trainer: i64) -> Result<Option<i64>, Fault> {
    let sql =
        "insert into dragoman.classifiers (id, name, job, state, model, model_fingerprint, dimension, definition, created_at_ms,
                   trainer)
               values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict (name) do nothing returning key";
    let record = &row.record;
    let values: [Parameter<'_>; 10] = [
        &row.id,
        &record.name.as_str(),
        &record.job.as_str(),
        &row.progress.name(),
        &record.model,
        &record.model_fingerprint,
        &(row.dimension as i64),
        &json(&row.definition),
        &record.created_at_ms,
        &trainer,
    ];
    Ok(session.row(sql, &values)?.map(|row| row.try_get(0)).transpose()?)
}

/// Adds the texts of the classifier with this key.
pub(super) fn insert_texts(session: &mut Session, classifier: i64, texts: &[ClassifierText]) -> Result<(), Fault> {
    let sql = "insert into dragoman.classifier_texts (classifier, description, text, labels, language, embedding)
               select $1, n.description, n.text, n.labels, n.language, n.embedding
               from unnest($2, $3, $4, $5, $6) with ordinality as n (description, text, labels, language, embedding, place)
               order by n.place";
    let descriptions: Vec<bool> = texts.iter().map(|one| one.description).collect();
    let bodies: Vec<_> = texts.iter().map(|one| text(&one.text).into_owned()).collect();
    let labels: Vec<_> = texts.iter().map(|one| json(&one.labels)).collect();
    let languages: Vec<_> = texts.iter().map(|one| one.language.map(Language::code)).collect();
    let embeddings: Vec<_> = texts.iter().map(|one| one.embedding.as_ref().map(Embedding::to_bytes)).collect();
    session.execute(sql, &[&classifier, &descriptions, &bodies, &labels, &languages, &embeddings]).map(drop)
}

/// Finds a classifier. `column` must be a literal of this file, because it becomes part of the statement.
fn find(session: &mut Session, column: &'static str, value: &str) -> Result<Option<StoredClassifier>, Fault> {
    let sql = format!("select {COLUMNS} from dragoman.classifiers where {column} = $1");
    session.row(&sql, &[&value])?.map(|row| read_classifier(&CatalogRow(row))).transpose()
}

fn texts(session: &mut Session, id: &str) -> Result<Vec<(i64, ClassifierText)>, Fault> {
    let sql = "select t.key, t.description, t.text, t.labels, t.language, t.embedding from dragoman.classifiers c
               join dragoman.classifier_texts t on t.classifier = c.key where c.id = $1 order by t.key";
    session.rows(sql, &[&id])?.into_iter().map(|row| read_classifier_text(&CatalogRow(row))).collect()
}

fn store_embeddings(session: &mut Session, embedded: &[(i64, Option<Language>, Embedding)]) -> Result<(), Fault> {
    let sql = "update dragoman.classifier_texts t set language = n.language, embedding = n.embedding
               from unnest($1, $2, $3) as n (key, language, embedding) where t.key = n.key";
    let keys: Vec<i64> = embedded.iter().map(|(key, ..)| *key).collect();
    let languages: Vec<_> = embedded.iter().map(|(_, language, _)| language.map(Language::code)).collect();
    let embeddings: Vec<_> = embedded.iter().map(|(.., embedding)| embedding.to_bytes()).collect();
    session.execute(sql, &[&keys, &languages, &embeddings]).map(drop)
}
