//! The classifiers of the catalog: what each is to be, what training made of it, and the texts that came with the request.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::Fault;
use super::rows::to_sql;
use super::{Catalog, StoreError, idempotency_records};
use crate::domain::{ClassifierName, Code, Embedding, JobFailure, JobId, Language, Metadata, Page, RequestKey};

const COLUMNS: &str =
    "key, id, name, job, state, model, model_fingerprint, dimension, definition, report, error_code, error_detail,
    created_at_ms, trained_at_ms, version, next_job";

/// A classifier's row without its weights.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredClassifier {
    /// Made by the server; never used twice.
    pub id: String,
    /// The name.
    pub name: ClassifierName,
    /// The job that trained it as it is, or trains it for the first time.
    pub job: JobId,
    /// The job that trains it again, which changes nothing before its end.
    pub next_job: Option<JobId>,
    /// How often its training came to an end.
    pub version: u64,
    /// How far it is.
    pub progress: TrainingProgress,
    /// The model whose embeddings it takes.
    pub model: String,
    /// That model's fingerprint.
    pub model_fingerprint: String,
    /// Values of an embedding.
    pub dimension: usize,
    /// What it is to be, as the service writes it.
    pub definition: Metadata,
    /// What training found, as the service writes it.
    pub report: Option<Metadata>,
    /// Why training failed.
    pub error: Option<JobFailure>,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Milliseconds since the Unix epoch.
    pub trained_at_ms: Option<i64>,
}

/// How far a classifier is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainingProgress {
    /// It learns.
    Training,
    /// It learned.
    Ready,
    /// It did not come to an end.
    Failed,
}

/// What a training made of a classifier.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedTraining {
    /// The classifier's.
    pub id: String,
    /// The training's.
    pub job: JobId,
    /// The model whose embeddings it learned on.
    pub model: String,
    /// That model's fingerprint.
    pub model_fingerprint: String,
    /// Values of an embedding.
    pub dimension: usize,
    /// What it found, as the service writes it.
    pub report: Metadata,
    /// What it learned, for a kind that has weights.
    pub weights: Option<Vec<u8>>,
    /// Embeddings of this model for texts whose stored ones are another's, by their keys.
    pub embedded: Vec<(i64, Option<Language>, Embedding)>,
    /// Milliseconds since the Unix epoch.
    pub now_ms: i64,
}

/// A classifier with all that it needs to answer, of one state of the catalog.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeClassifier {
    /// Its row.
    pub row: StoredClassifier,
    /// What it learned, for a kind that has weights.
    pub weights: Option<Vec<u8>>,
    /// The texts that came with it, in their order.
    pub texts: Vec<ClassifierText>,
}

/// A text that came with the request for a classifier.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassifierText {
    /// Whether it tells what its label means, instead of being an example of it.
    pub description: bool,
    /// The text.
    pub text: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// Its language.
    pub language: Option<Language>,
    /// Its embedding, once there is one.
    pub embedding: Option<Embedding>,
}

impl Catalog {
    /// Adds a classifier with its texts; says whether the name was free. Refuses nothing else. With a request, keeps that this
    /// request created it.
    pub fn create_classifier(
        &self,
        row: &StoredClassifier,
        texts: &[ClassifierText],
        request: Option<&RequestKey>,
    ) -> Result<bool, StoreError> {
        self.run("creating a classifier", |connection| {
            let transaction = connection.unchecked_transaction()?;
            let sql =
                "insert into classifiers (id, name, job, state, model, model_fingerprint, dimension, definition, created_at_ms)
                       values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) on conflict (name) do nothing";
            let inserted = transaction.execute(
                sql,
                params![
                    row.id,
                    row.name.as_str(),
                    row.job.as_str(),
                    row.progress.name(),
                    row.model,
                    row.model_fingerprint,
                    to_sql(row.dimension as u64),
                    json(&row.definition)?,
                    row.created_at_ms,
                ],
            )?;
            if inserted > 0 {
                let key = transaction.last_insert_rowid();
                let sql = "insert into classifier_texts (classifier, description, text, labels, language, embedding)
                           values (?1, ?2, ?3, ?4, ?5, ?6)";
                let mut statement = transaction.prepare_cached(sql)?;
                for text in texts {
                    let language = text.language.map(Language::code);
                    let embedding = text.embedding.as_ref().map(Embedding::to_bytes);
                    statement.execute(params![key, text.description, text.text, json(&text.labels)?, language, embedding])?;
                }
                if let Some(request) = request {
                    idempotency_records::keep_creation(&transaction, request, &row.id, row.created_at_ms)?;
                }
            }
            transaction.commit()?;
            Ok(inserted > 0)
        })
    }

    /// Finds a classifier by its name.
    pub fn classifier(&self, name: &ClassifierName) -> Result<Option<StoredClassifier>, StoreError> {
        self.run("reading a classifier", |connection| find(connection, "name", name.as_str()))
    }

    /// Finds a classifier by its id.
    pub fn classifier_by_id(&self, id: &str) -> Result<Option<StoredClassifier>, StoreError> {
        self.run("reading a classifier", |connection| find(connection, "id", id))
    }

    /// Lists classifiers in the order of their names; gives at most `page.limit` rows.
    pub fn classifiers(&self, page: &Page<ClassifierName>) -> Result<Vec<StoredClassifier>, StoreError> {
        self.run("listing classifiers", |connection| {
            let sql = format!("select {COLUMNS} from classifiers where name > ?1 order by name limit ?2");
            let after = page.after.as_ref().map_or("", ClassifierName::as_str);
            connection.prepare_cached(&sql)?.query_and_then(params![after, to_sql(page.limit as u64)], read)?.collect()
        })
    }

    /// How many classifiers there are.
    pub fn classifier_count(&self) -> Result<usize, StoreError> {
        self.run("counting classifiers", |connection| {
            Ok(connection.query_row("select count(*) from classifiers", [], |row| row.get::<_, i64>(0))? as usize)
        })
    }

    /// Reads all that a classifier needs to answer.
    pub fn whole_classifier(&self, id: &str) -> Result<Option<WholeClassifier>, StoreError> {
        self.run("reading a classifier", |connection| {
            let transaction = connection.unchecked_transaction()?;
            let Some(row) = find(&transaction, "id", id)? else { return Ok(None) };
            let sql = "select weights from classifiers where id = ?1";
            let weights = transaction.prepare_cached(sql)?.query_row([id], |row| row.get(0))?;
            let texts = texts(&transaction, id)?.into_iter().map(|(_, text)| text).collect();
            Ok(Some(WholeClassifier { row, weights, texts }))
        })
    }

    /// The texts that came with a classifier, in their order, each with its key.
    pub fn classifier_texts(&self, id: &str) -> Result<Vec<(i64, ClassifierText)>, StoreError> {
        self.run("reading a classifier's texts", |connection| texts(connection, id))
    }

    /// Keeps the languages and embeddings of a classifier's texts, by their keys. Those that are gone are left out.
    pub fn embed_classifier_texts(&self, embedded: &[(i64, Option<Language>, Embedding)]) -> Result<(), StoreError> {
        self.run("storing the embeddings of a classifier", |connection| {
            let transaction = connection.unchecked_transaction()?;
            store_embeddings(&transaction, embedded)?;
            Ok(transaction.commit()?)
        })
    }

    /// Notes that a job trains a classifier again; says whether it is there and no other job does.
    pub fn begin_retraining(&self, id: &str, job: &JobId) -> Result<bool, StoreError> {
        self.run("storing a training", |connection| {
            let sql = "update classifiers set next_job = ?2 where id = ?1 and next_job is null and state <> 'training'";
            Ok(connection.execute(sql, params![id, job.as_str()])? > 0)
        })
    }

    /// Puts what a training made in the place of what was there; says whether the classifier still waits for this training.
    pub fn finish_training(&self, done: &FinishedTraining) -> Result<bool, StoreError> {
        self.run("storing a trained classifier", |connection| {
            let transaction = connection.unchecked_transaction()?;
            let sql = "update classifiers set state = 'ready', job = ?2, next_job = null, version = version + 1, model = ?3,
                           model_fingerprint = ?4, dimension = ?5, report = ?6, weights = ?7, error_code = null,
                           error_detail = null, trained_at_ms = ?8
                       where id = ?1 and (next_job = ?2 or (job = ?2 and state = 'training'))";
            let values = params![
                done.id,
                done.job.as_str(),
                done.model,
                done.model_fingerprint,
                to_sql(done.dimension as u64),
                json(&done.report)?,
                done.weights,
                done.now_ms,
            ];
            let found = transaction.execute(sql, values)? > 0;
            if found {
                store_embeddings(&transaction, &done.embedded)?;
            }
            transaction.commit()?;
            Ok(found)
        })
    }

    /// Notes that the training of a job failed. A classifier that learned before stays as it was, with the error beside it.
    pub fn fail_training(&self, job: &JobId, error: &JobFailure) -> Result<(), StoreError> {
        self.run("storing a failed training", |connection| {
            let sql = "update classifiers set error_code = ?2, error_detail = ?3,
                           state = case when next_job = ?1 then state else 'failed' end,
                           next_job = case when next_job = ?1 then null else next_job end
                       where next_job = ?1 or (job = ?1 and state = 'training')";
            connection.execute(sql, params![job.as_str(), error.code.name(), error.detail])?;
            Ok(())
        })
    }

    /// The jobs that train classifiers, for the first time or again.
    pub fn trainings(&self) -> Result<Vec<JobId>, StoreError> {
        self.run("reading trainings", |connection| {
            let sql = "select job from classifiers where state = 'training'
                       union all select next_job from classifiers where next_job is not null";
            let mut statement = connection.prepare_cached(sql)?;
            let jobs = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
            Ok(jobs.iter().filter_map(|job| JobId::parse(job).ok()).collect())
        })
    }

    /// Removes a classifier and gives what it was.
    pub fn delete_classifier(&self, name: &ClassifierName) -> Result<Option<StoredClassifier>, StoreError> {
        self.run("deleting a classifier", |connection| {
            let found = find(connection, "name", name.as_str())?;
            if found.is_some() {
                connection.execute("delete from classifiers where name = ?1", [name.as_str()])?;
            }
            Ok(found)
        })
    }
}

impl TrainingProgress {
    fn name(self) -> &'static str {
        match self {
            Self::Training => "training",
            Self::Ready => "ready",
            Self::Failed => "failed",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Training, Self::Ready, Self::Failed].into_iter().find(|one| one.name() == name)
    }
}

/// `column` is one of this file's own words.
fn find(connection: &Connection, column: &'static str, value: &str) -> Result<Option<StoredClassifier>, Fault> {
    let sql = format!("select {COLUMNS} from classifiers where {column} = ?1");
    connection.prepare_cached(&sql)?.query_row([value], |row| Ok(read(row))).optional()?.transpose()
}

fn texts(connection: &Connection, id: &str) -> Result<Vec<(i64, ClassifierText)>, Fault> {
    let sql = "select t.key, t.description, t.text, t.labels, t.language, t.embedding from classifiers c
               join classifier_texts t on t.classifier = c.key where c.id = ?1 order by t.key";
    connection.prepare_cached(sql)?.query_and_then([id], read_text)?.collect()
}

fn store_embeddings(connection: &Connection, embedded: &[(i64, Option<Language>, Embedding)]) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached("update classifier_texts set language = ?2, embedding = ?3 where key = ?1")?;
    for (key, language, embedding) in embedded {
        statement.execute(params![key, language.map(Language::code), embedding.to_bytes()])?;
    }
    Ok(())
}

/// Reads a row of `COLUMNS`.
fn read(row: &Row<'_>) -> Result<StoredClassifier, Fault> {
    let key = row.get(0)?;
    let corrupt = |problem| Fault::from(StoreError::CorruptRow { table: "classifiers", row: key, problem });
    let text = |column: usize| -> Result<String, Fault> { Ok(row.get(column)?) };
    let object = |json: String| -> Result<Metadata, Fault> {
        serde_json::from_str(&json).map_err(|_| corrupt("it has something other than a JSON object where one belongs"))
    };
    let (code, detail): (Option<String>, Option<String>) = (row.get(10)?, row.get(11)?);
    let next_job: Option<String> = row.get(15)?;
    let failure = |code: String| {
        let code = Code::ALL.iter().copied().find(|one| one.name() == code).unwrap_or(Code::Internal);
        JobFailure { code, detail: detail.unwrap_or_default() }
    };
    Ok(StoredClassifier {
        id: text(1)?,
        name: ClassifierName::parse(&text(2)?).map_err(|_| corrupt("its name is not valid"))?,
        job: JobId::parse(&text(3)?).map_err(|_| corrupt("the id of its job is not valid"))?,
        next_job: next_job
            .map(|job| JobId::parse(&job))
            .transpose()
            .map_err(|_| corrupt("the id of its next job is not valid"))?,
        version: u64::try_from(row.get::<_, i64>(14)?).map_err(|_| corrupt("its version is negative"))?,
        progress: TrainingProgress::parse(&text(4)?).ok_or_else(|| corrupt("its state is unknown"))?,
        model: text(5)?,
        model_fingerprint: text(6)?,
        dimension: usize::try_from(row.get::<_, i64>(7)?).map_err(|_| corrupt("its dimension is negative"))?,
        definition: object(text(8)?)?,
        report: row.get::<_, Option<String>>(9)?.map(object).transpose()?,
        error: code.map(failure),
        created_at_ms: row.get(12)?,
        trained_at_ms: row.get(13)?,
    })
}

fn read_text(row: &Row<'_>) -> Result<(i64, ClassifierText), Fault> {
    let key = row.get(0)?;
    let corrupt = |problem| StoreError::CorruptRow { table: "classifier_texts", row: key, problem };
    let language: Option<String> = row.get(4)?;
    let embedding: Option<Vec<u8>> = row.get(5)?;
    let embedding =
        embedding.map(|bytes| Embedding::from_bytes(&bytes).ok_or_else(|| corrupt("its embedding does not have unit length")));
    let text = ClassifierText {
        description: row.get(1)?,
        text: row.get(2)?,
        labels: serde_json::from_str(&row.get::<_, String>(3)?).map_err(|_| corrupt("its labels are not a list"))?,
        language: language.and_then(|code| Language::parse(&code)),
        embedding: embedding.transpose()?,
    };
    Ok((key, text))
}

fn json(value: &impl serde::Serialize) -> Result<String, Fault> {
    let failed = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    Ok(serde_json::to_string(value).map_err(failed)?)
}

#[cfg(test)]
#[path = "classifiers_tests.rs"]
mod tests;
