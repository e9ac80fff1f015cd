//! The classifiers of the catalog: their definitions, the results of training, and the texts of their requests.

use super::StoreError;
use super::catalog_session::{CatalogSession, Columns, catalog_json, values};
use super::catalog_storage::{CatalogPart, CatalogStorage, Within};
use super::classifier_records::{
    ClassifierContents, ClassifierText, FinishedTraining, StoredClassifier, TextEmbedding, TrainingProgress,
};
use super::idempotency_records::store_creation;
use super::jobs::{insert as insert_job, read_failure};
use super::rows::to_sql;
use crate::domain::{
    ClassifierName, ClassifierRecord, Embedding, Job, JobFailure, JobId, JobStatus, Language, Metadata, Page, RequestKey,
};

const COLUMNS: &str =
    "key, id, name, job, state, model, model_fingerprint, dimension, definition, report, error_code, error_detail,
    created_at_ms, trained_at_ms, version, next_job";

impl dyn CatalogStorage {
    /// Adds a classifier with its texts and the job that trains it. Returns whether the name was free. Checks nothing else. With
    /// a request, records that this request created it.
    pub fn create_classifier(
        &self,
        row: &StoredClassifier,
        texts: &[ClassifierText],
        training: &Job,
        request: Option<&RequestKey>,
    ) -> Result<bool, StoreError> {
        self.run_in(Within::ChangeOf(CatalogPart::Classifiers), "creating a classifier", |session| {
            let Some(key) = insert(session, row, None, self.server_number())? else { return Ok(false) };
            session.insert_texts(key, texts)?;
            insert_job(session, training, self.server_number())?;
            if let Some(request) = request {
                store_creation(session, request, &row.id, row.record.created_at_ms)?;
            }
            Ok(true)
        })
    }

    /// Adds a classifier of another catalog unchanged. Returns whether the name was free.
    pub fn import_classifier(&self, contents: &ClassifierContents) -> Result<bool, StoreError> {
        self.run_in(Within::Transaction, "importing a classifier", |session| {
            let ClassifierContents { row, weights, texts } = contents;
            let Some(key) = insert(session, row, weights.as_deref(), None)? else { return Ok(false) };
            session.insert_texts(key, texts)?;
            Ok(true)
        })
    }

    pub fn classifier(&self, name: &ClassifierName) -> Result<Option<StoredClassifier>, StoreError> {
        self.run_in(Within::Statements, "reading a classifier", |session| find(session, "name", name.as_str()))
    }

    pub fn classifier_by_id(&self, id: &str) -> Result<Option<StoredClassifier>, StoreError> {
        self.run_in(Within::Statements, "reading a classifier", |session| find(session, "id", id))
    }

    /// Lists at most `page.limit` classifiers, sorted by name.
    pub fn classifiers(&self, page: &Page<ClassifierName>) -> Result<Vec<StoredClassifier>, StoreError> {
        let sql = format!("select {COLUMNS} from dragoman.classifiers where name > $1 order by name limit $2");
        let after = page.after.as_ref().map_or("", ClassifierName::as_str);
        self.run_in(Within::Statements, "listing classifiers", |session| {
            session.rows(&sql, values![after, to_sql(page.limit as u64)], read_classifier)
        })
    }

    pub fn classifier_count(&self) -> Result<usize, StoreError> {
        self.run_in(Within::Statements, "counting classifiers", |session| {
            let counted = session.row("select count(*) from dragoman.classifiers", &[], |row| row.integer(0))?;
            Ok(counted.unwrap_or_default() as usize)
        })
    }

    /// Reads everything that a classifier needs for predictions.
    pub fn classifier_contents(&self, id: &str) -> Result<Option<ClassifierContents>, StoreError> {
        self.run_in(Within::Snapshot, "reading a classifier", |session| {
            let Some(row) = find(session, "id", id)? else { return Ok(None) };
            let sql = "select weights from dragoman.classifiers where id = $1";
            let weights = session.row(sql, values![id], |row| row.optional_bytes(0))?.flatten();
            let texts = texts(session, id)?.into_iter().map(|(_, text)| text).collect();
            Ok(Some(ClassifierContents { row, weights, texts }))
        })
    }

    /// Returns the texts of a classifier in order, each with its key.
    pub fn classifier_texts(&self, id: &str) -> Result<Vec<(i64, ClassifierText)>, StoreError> {
        self.run_in(Within::Statements, "reading a classifier's texts", |session| texts(session, id))
    }

    /// Stores the languages and embeddings of a classifier's texts, by their keys. Deleted texts are skipped.
    pub fn embed_classifier_texts(&self, embedded: &[TextEmbedding]) -> Result<(), StoreError> {
        self.run_in(Within::Transaction, "storing the embeddings of a classifier", |session| session.store_embeddings(embedded))
    }

    /// Adds the job that retrains a classifier. Adds nothing and returns false if the classifier does not exist, or if another
    /// job is training it.
    pub fn begin_retraining(&self, id: &str, training: &Job) -> Result<bool, StoreError> {
        let trainer = self.server_number().map_or_else(String::new, |me| format!(", trainer = {me}"));
        let sql = format!(
            "update dragoman.classifiers set next_job = $2{trainer} where id = $1 and next_job is null and state <> 'training'"
        );
        self.run_in(Within::Transaction, "storing a training", |session| {
            if session.execute(&sql, values![id, training.id.as_str()])? == 0 {
                return Ok(false);
            }
            insert_job(session, training, self.server_number())?;
            Ok(true)
        })
    }

    /// Replaces the result of the previous training. Returns whether the classifier was still waiting for this training.
    pub fn finish_training(&self, done: &FinishedTraining) -> Result<bool, StoreError> {
        let sql = format!(
            "update dragoman.classifiers set state = 'ready', job = $2, next_job = null, version = version + 1, model = $3,
                 model_fingerprint = $4, dimension = $5, report = $6, weights = $7, error_code = null,
                 error_detail = null, trained_at_ms = $8
             where id = $1 and (next_job = $2 or (job = $2 and state = 'training')){}",
            self.not_taken_over("$2")
        );
        let values = values![
            done.id.as_str(),
            done.job.as_str(),
            done.model.as_str(),
            done.model_fingerprint.as_str(),
            to_sql(done.dimension as u64),
            catalog_json(&done.report),
            done.weights.as_deref(),
            done.now_ms,
        ];
        self.run_in(Within::Transaction, "storing a trained classifier", |session| {
            if session.execute(&sql, values)? > 0 {
                session.store_embeddings(&done.embedded)?;
                return Ok(true);
            }
            let Some(me) = self.server_number() else { return Ok(false) };
            let others = "select 1 from dragoman.jobs where id = $1 and owner <> $2";
            match session.has_row(others, values![done.job.as_str(), me])? {
                true => Err(StoreError::JobTakenOver),
                false => Ok(false),
            }
        })
    }

    /// Records that a training without a job failed. A classifier that was trained before stays as it was, and the error is
    /// stored next to it.
    pub fn fail_training(&self, job: &JobId, error: &JobFailure) -> Result<(), StoreError> {
        self.run_in(Within::Statements, "storing a failed training", |session| {
            self.end_training(session, job, error, JobStatus::Failed)
        })
    }

    /// Records how a training job ended that did not succeed, like `finish_job`, and how its training ended. A classifier that
    /// was trained before stays as it was, and the error is stored next to it, unless the job was canceled, because then nothing
    /// failed.
    pub fn finish_failed_training(
        &self,
        job: &JobId,
        status: JobStatus,
        error: &JobFailure,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        self.run_in(Within::Transaction, "storing a failed training", |session| {
            self.end_training(session, job, error, status)?;
            let shown = Some(error).filter(|_| status == JobStatus::Failed);
            self.finish_job_in(session, job, (status, shown), now_ms)
        })
    }

    /// Ends a training without a result.
    fn end_training(
        &self,
        session: &mut dyn CatalogSession,
        job: &JobId,
        error: &JobFailure,
        status: JobStatus,
    ) -> Result<(), StoreError> {
        let (code, detail) = match status {
            JobStatus::Canceled => {
                ("case when next_job = $1 then error_code else $2 end", "case when next_job = $1 then error_detail else $3 end")
            }
            _ => ("$2", "$3"),
        };
        let sql = format!(
            "update dragoman.classifiers set error_code = {code}, error_detail = {detail},
                 state = case when next_job = $1 then state else 'failed' end,
                 next_job = case when next_job = $1 then null else next_job end
             where (next_job = $1 or (job = $1 and state = 'training')){}",
            self.not_taken_over("$1")
        );
        session.execute(&sql, values![job.as_str(), error.code.name(), error.detail.as_str()]).map(drop)
    }

    /// Returns the jobs that train or retrain classifiers, without those that another living server may be about to create.
    pub fn trainings(&self) -> Result<Vec<JobId>, StoreError> {
        let others = self.server_number().map_or_else(String::new, |me| {
            format!(" and (trainer = {me} or not exists (select 1 from dragoman.servers where servers.id = trainer))")
        });
        let sql = format!(
            "select coalesce(next_job, job) from dragoman.classifiers where (state = 'training' or next_job is not null){others}"
        );
        self.run_in(Within::Statements, "reading trainings", |session| {
            let jobs = session.rows(&sql, &[], |row| row.text(0))?;
            Ok(jobs.iter().filter_map(|job| JobId::parse(job).ok()).collect())
        })
    }

    pub fn delete_classifier(&self, name: &ClassifierName) -> Result<Option<StoredClassifier>, StoreError> {
        self.run_in(Within::Transaction, "deleting a classifier", |session| {
            let sql = format!("delete from dragoman.classifiers where name = $1 returning {COLUMNS}");
            session.row(&sql, values![name.as_str()], read_classifier)
        })
    }

    /// Returns the condition that no other server has taken over the job that the parameter `job` names.
    fn not_taken_over(&self, job: &str) -> String {
        self.server_number().map_or_else(String::new, |me| {
            format!(" and not exists (select 1 from dragoman.jobs j where j.id = {job} and j.owner <> {me})")
        })
    }
}

/// Adds a row and returns its key, or `None` if the name is taken. `trainer` is the server that accepts the training.
fn insert(
    session: &mut dyn CatalogSession,
    row: &StoredClassifier,
    weights: Option<&[u8]>,
    trainer: Option<i64>,
) -> Result<Option<i64>, StoreError> {
    let (column, number) = trainer.map_or_else(Default::default, |me| (", trainer", format!(", {me}")));
    let sql = format!(
        "insert into dragoman.classifiers (id, name, job, next_job, version, state, model, model_fingerprint, dimension,
             definition, report, weights, error_code, error_detail, created_at_ms, trained_at_ms{column})
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16{number})
         on conflict (name) do nothing returning key"
    );
    let record = &row.record;
    let error = record.error.as_ref();
    let values = values![
        row.id.as_str(),
        record.name.as_str(),
        record.job.as_str(),
        record.next_job.as_ref().map(JobId::as_str),
        to_sql(record.version),
        row.progress.name(),
        record.model.as_str(),
        record.model_fingerprint.as_str(),
        to_sql(row.dimension as u64),
        catalog_json(&row.definition),
        row.report.as_ref().map(catalog_json),
        weights,
        error.map(|error| error.code.name()),
        error.map(|error| error.detail.as_str()),
        record.created_at_ms,
        record.trained_at_ms,
    ];
    session.row(&sql, values, |row| row.integer(0))
}

/// Finds a classifier. `column` must be a literal of this file, because it becomes part of the statement.
fn find(session: &mut dyn CatalogSession, column: &'static str, value: &str) -> Result<Option<StoredClassifier>, StoreError> {
    let sql = format!("select {COLUMNS} from dragoman.classifiers where {column} = $1");
    session.row(&sql, values![value], read_classifier)
}

fn texts(session: &mut dyn CatalogSession, id: &str) -> Result<Vec<(i64, ClassifierText)>, StoreError> {
    let sql = "select t.key, t.description, t.text, t.labels, t.language, t.embedding from dragoman.classifiers c
               join dragoman.classifier_texts t on t.classifier = c.key where c.id = $1 order by t.key";
    session.rows(sql, values![id], read_classifier_text)
}

/// Reads a row of `COLUMNS`.
fn read_classifier(row: &dyn Columns) -> Result<StoredClassifier, StoreError> {
    let key = row.integer(0)?;
    let corrupt = |problem| StoreError::CorruptRow { table: "classifiers", row: key, problem };
    let text = |column| row.text(column);
    let object = |json: String| -> Result<Metadata, StoreError> {
        serde_json::from_str(&json).map_err(|_| corrupt("it has something other than a JSON object where one belongs"))
    };
    let next_job = row.optional_text(15)?;
    let record = ClassifierRecord {
        name: ClassifierName::parse(&text(2)?).map_err(|_| corrupt("its name is not valid"))?,
        job: JobId::parse(&text(3)?).map_err(|_| corrupt("the id of its job is not valid"))?,
        next_job: next_job
            .map(|job| JobId::parse(&job))
            .transpose()
            .map_err(|_| corrupt("the id of its next job is not valid"))?,
        version: u64::try_from(row.integer(14)?).map_err(|_| corrupt("its version is negative"))?,
        model: text(5)?,
        model_fingerprint: text(6)?,
        error: read_failure(row, 10)?,
        created_at_ms: row.integer(12)?,
        trained_at_ms: row.optional_integer(13)?,
    };
    Ok(StoredClassifier {
        id: text(1)?,
        record,
        progress: TrainingProgress::parse(&text(4)?).ok_or_else(|| corrupt("its state is unknown"))?,
        dimension: usize::try_from(row.integer(7)?).map_err(|_| corrupt("its dimension is negative"))?,
        definition: object(text(8)?)?,
        report: row.optional_text(9)?.map(object).transpose()?,
    })
}

/// Reads a text with its key from the columns key, description, text, labels, language and embedding.
fn read_classifier_text(row: &dyn Columns) -> Result<(i64, ClassifierText), StoreError> {
    let key = row.integer(0)?;
    let corrupt = |problem| StoreError::CorruptRow { table: "classifier_texts", row: key, problem };
    let language = row.optional_text(4)?;
    let embedding = row.optional_bytes(5)?;
    let embedding =
        embedding.map(|bytes| Embedding::from_bytes(&bytes).ok_or_else(|| corrupt("its embedding does not have unit length")));
    let text = ClassifierText {
        description: row.boolean(1)?,
        text: row.text(2)?,
        labels: serde_json::from_str(&row.text(3)?).map_err(|_| corrupt("its labels are not a list"))?,
        language: language.and_then(|code| Language::parse(&code)),
        embedding: embedding.transpose()?,
    };
    Ok((key, text))
}
