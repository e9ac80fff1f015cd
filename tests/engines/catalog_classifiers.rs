//! Classifiers of the catalog.

use dragoman::domain::{
    ClassifierName, ClassifierRecord, Code, Embedding, JobFailure, JobId, JobStatus, Language, Metadata, Page, RequestKey,
};
use dragoman::store::{ClassifierContents, ClassifierText, FinishedTraining, StoreError, StoredClassifier, TrainingProgress};

use crate::catalog_jobs::job;
use crate::catalogs::over_both_catalogs;

const FIRST: &str = "0198c0de-0000-7000-8000-000000000001";
const SECOND: &str = "0198c0de-0000-7000-8000-000000000002";

fn row(name: &str) -> StoredClassifier {
    StoredClassifier {
        id: format!("id-of-{name}"),
        record: ClassifierRecord {
            name: ClassifierName::parse(name).unwrap(),
            job: JobId::parse(FIRST).unwrap(),
            next_job: None,
            version: 0,
            model: "ems-small".to_owned(),
            model_fingerprint: "c0ffee".to_owned(),
            error: None,
            created_at_ms: 1_700_000_000_123,
            trained_at_ms: None,
        },
        progress: TrainingProgress::Training,
        dimension: 2,
        definition: Metadata::from_iter([("kind".to_owned(), "mlp".into())]),
        report: None,
    }
}

fn finished(job: &str, now_ms: i64) -> FinishedTraining {
    FinishedTraining {
        id: "id-of-topics".to_owned(),
        job: JobId::parse(job).unwrap(),
        model: "ems-small".to_owned(),
        model_fingerprint: "c0ffee".to_owned(),
        dimension: 2,
        report: Metadata::from_iter([("examples".to_owned(), 2.into())]),
        weights: None,
        embedded: Vec::new(),
        now_ms,
    }
}

fn text(text: &str, label: &str) -> ClassifierText {
    let language = Language::parse("ja");
    ClassifierText { description: false, text: text.to_owned(), labels: vec![label.to_owned()], language, embedding: None }
}

over_both_catalogs! {
    fn classifiers_are_found_after_a_restart_as_they_were_trained(catalog) {
        assert!(catalog.create_classifier(&row("topics"), &[text("雨が降る", "weather"), text("選挙", "politics")], &job(1), None).unwrap());
        assert!(!catalog.create_classifier(&row("topics"), &[], &job(2), None).unwrap());
        assert_eq!(catalog.unfinished_jobs().unwrap(), [job(1)], "a training is stored with its classifier");
        let (key, _) = catalog.classifier_texts("id-of-topics").unwrap()[1].clone();
        let embedding = Embedding::normalized(vec![1.0, 2.0]).unwrap();
        catalog.embed_classifier_texts(&[(key, Language::parse("zh"), embedding.clone())]).unwrap();
        let done = FinishedTraining { weights: Some(vec![1, 2, 3]), ..finished(FIRST, 2_000) };
        assert!(catalog.finish_training(&done).unwrap());
        assert!(!catalog.finish_training(&finished(FIRST, 3_000)).unwrap());
        catalog.restart();
        let found = catalog.classifier(&row("topics").record.name).unwrap().unwrap();
        let trained = StoredClassifier {
            progress: TrainingProgress::Ready,
            report: Some(done.report),
            record: ClassifierRecord { version: 1, trained_at_ms: Some(2_000), ..row("topics").record },
            ..row("topics")
        };
        assert_eq!(found, trained);
        let whole = catalog.classifier_contents("id-of-topics").unwrap().unwrap();
        assert_eq!((&whole.row, whole.weights), (&trained, Some(vec![1, 2, 3])));
        let second = ClassifierText { embedding: Some(embedding), language: Language::parse("zh"), ..text("選挙", "politics") };
        assert_eq!(whole.texts, [text("雨が降る", "weather"), second]);
        assert_eq!(catalog.delete_classifier(&row("topics").record.name).unwrap(), Some(trained));
        assert_eq!((catalog.classifier_count().unwrap(), catalog.classifier_texts("id-of-topics").unwrap().len()), (0, 0));
    }

    fn a_canceled_first_training_has_failed(catalog) {
        catalog.restart();
        catalog.create_classifier(&row("topics"), &[], &job(1), None).unwrap();
        let canceled = JobFailure { code: Code::ClassifierNotReady, detail: "canceled".to_owned() };
        catalog.finish_failed_training(&job(1).id, JobStatus::Canceled, &canceled, 9).unwrap();
        let found = catalog.classifier(&row("topics").record.name).unwrap().unwrap();
        assert_eq!((found.progress, found.record.error), (TrainingProgress::Failed, Some(canceled)));
        let ended = catalog.job(&job(1).id).unwrap().unwrap();
        assert_eq!((ended.status, ended.error, ended.finished_at_ms), (JobStatus::Canceled, None, Some(9)));
    }

    fn a_failed_training_says_why_and_one_that_is_over_does_not_fail(catalog) {
        catalog.restart();
        catalog.create_classifier(&row("topics"), &[], &job(1), None).unwrap();
        assert_eq!(catalog.trainings().unwrap(), [row("topics").record.job]);
        let error = JobFailure { code: Code::InvalidTrainingSet, detail: "one label".to_owned() };
        catalog.fail_training(&row("topics").record.job, &error).unwrap();
        assert!(!catalog.finish_training(&finished(FIRST, 1)).unwrap());
        let found = catalog.classifier(&row("topics").record.name).unwrap().unwrap();
        assert_eq!((found.progress, found.record.error), (TrainingProgress::Failed, Some(error)));
        assert_eq!(catalog.trainings().unwrap(), []);
    }

    fn what_was_learned_stays_until_a_second_training_ends(catalog) {
        catalog.restart();
        let now = || catalog.classifier(&row("topics").record.name).unwrap().unwrap();
        let (id, second) = ("id-of-topics", job(2).id);
        catalog.create_classifier(&row("topics"), &[text("雨が降る", "weather")], &job(1), None).unwrap();
        assert!(!catalog.begin_retraining(id, &job(2)).unwrap(), "the first training is still running");
        catalog.finish_training(&finished(FIRST, 1_000)).unwrap();
        let first = now();
        let with = |record| StoredClassifier { record, ..first.clone() };
        assert!(catalog.begin_retraining(id, &job(2)).unwrap());
        assert!(!catalog.begin_retraining(id, &job(3)).unwrap());
        assert_eq!(catalog.job(&job(3).id).unwrap(), None, "a refused training leaves no job");
        assert_eq!(now(), with(ClassifierRecord { next_job: Some(second.clone()), ..first.record.clone() }));
        assert_eq!(catalog.trainings().unwrap(), std::slice::from_ref(&second));
        let error = JobFailure { code: Code::InvalidTrainingSet, detail: "one label".to_owned() };
        catalog.finish_failed_training(&second, JobStatus::Failed, &error, 9).unwrap();
        let ended = catalog.job(&second).unwrap().unwrap();
        assert_eq!((ended.status, ended.error.as_ref()), (JobStatus::Failed, Some(&error)));
        assert_eq!(now(), with(ClassifierRecord { error: Some(error), ..first.record.clone() }));
        assert!(!catalog.finish_training(&finished(SECOND, 2_000)).unwrap(), "a failed training cannot finish");
        let failed = now();
        assert!(catalog.begin_retraining(id, &job(3)).unwrap());
        let canceled = JobFailure { code: Code::ClassifierNotReady, detail: "canceled".to_owned() };
        catalog.finish_failed_training(&job(3).id, JobStatus::Canceled, &canceled, 9).unwrap();
        assert_eq!(now(), failed, "a canceled training changes nothing");
        assert!(catalog.begin_retraining(id, &job(4)).unwrap());
        let key = catalog.classifier_texts(id).unwrap()[0].0;
        let embedding = Embedding::normalized(vec![3.0, 4.0]).unwrap();
        let done = FinishedTraining {
            model_fingerprint: "cafe".to_owned(),
            embedded: vec![(key, Language::parse("ja"), embedding.clone())],
            ..finished(job(4).id.as_str(), 3_000)
        };
        assert!(catalog.finish_training(&done).unwrap());
        let (model_fingerprint, trained_at_ms) = ("cafe".to_owned(), Some(3_000));
        assert_eq!(
            now(),
            with(ClassifierRecord { job: job(4).id, version: 2, model_fingerprint, trained_at_ms, ..first.record.clone() })
        );
        assert_eq!(catalog.classifier_contents(id).unwrap().unwrap().texts[0].embedding, Some(embedding));
        assert_eq!(catalog.trainings().unwrap(), []);
    }

    fn a_request_creates_one_classifier_and_lists_are_in_the_order_of_names(catalog) {
        let request = |fingerprint: &str| RequestKey::new("r1", fingerprint.to_owned()).unwrap();
        assert!(catalog.create_classifier(&row("topics"), &[text("a\0b", "x")], &job(1), Some(&request("f1"))).unwrap());
        catalog.restart();
        assert_eq!(catalog.find_created_by(&request("f1"), 1_700_000_000_124).unwrap().as_deref(), Some("id-of-topics"));
        let again = catalog.create_classifier(&row("others"), &[], &job(2), Some(&request("f2")));
        assert!(matches!(again, Err(StoreError::KeyReused { .. })), "{again:?}");
        assert_eq!(catalog.job(&job(2).id).unwrap(), None, "the refused request left no job");
        assert!(catalog.create_classifier(&row("others"), &[], &job(2), None).unwrap());
        let page = Page { limit: 1, after: ClassifierName::parse("others").ok() };
        let listed = catalog.classifiers(&page).unwrap();
        assert_eq!(listed, [catalog.classifier_by_id("id-of-topics").unwrap().unwrap()]);
        assert_eq!(catalog.classifier_texts("id-of-topics").unwrap()[0].1.text, "a\0b");
    }

    fn a_classifier_is_taken_in_as_it_is_elsewhere(catalog) {
        let embedding = Embedding::normalized(vec![1.0, 2.0]).unwrap();
        let failure = JobFailure { code: Code::ClassifierNotReady, detail: "abgebrochen\0".to_owned() };
        let mut stored = row("topics");
        stored.record.error = Some(failure);
        (stored.record.version, stored.record.trained_at_ms) = (3, Some(2_000));
        stored.record.next_job = JobId::parse(SECOND).ok();
        (stored.progress, stored.report) = (TrainingProgress::Ready, Some(Metadata::from_iter([("f".to_owned(), 0.5.into())])));
        let texts = vec![text("雨が降る", "weather"), ClassifierText { embedding: Some(embedding), ..text("選挙", "politics") }];
        let whole = ClassifierContents { row: stored, weights: Some(vec![1, 2, 3]), texts };
        assert!(catalog.import_classifier(&whole).unwrap());
        let mut other = whole.clone();
        other.row.id = "another".to_owned();
        assert!(!catalog.import_classifier(&other).unwrap(), "the name is taken");
        catalog.restart();
        assert_eq!(catalog.classifier_contents("id-of-topics").unwrap(), Some(whole));
        assert_eq!(catalog.classifier_contents("another").unwrap(), None);
    }
}
