//! Jobs in the catalog.

use dragoman::domain::{
    Code, CollectionName, Job, JobFailure, JobFilter, JobId, JobProgress, JobStatus, JobType, JobUnit, Metadata, Page, RequestKey,
};
use dragoman::storage::CatalogStorage;
use dragoman::store::StoreError;

use crate::catalog::collection;
use crate::catalogs::over_both_catalogs;

pub fn job(number: usize) -> Job {
    Job {
        id: JobId::parse(&format!("0198c0de-0000-7000-8000-{number:012}")).unwrap(),
        kind: JobType::Import,
        status: JobStatus::Queued,
        collection: CollectionName::parse(if number.is_multiple_of(2) { "news" } else { "blog" }).ok(),
        request: Metadata::from_iter([("format".to_owned(), "csv".into())]),
        details: Metadata::new(),
        progress: JobProgress { done: 0, total: 99, unit: JobUnit::Bytes, rate: None, eta_s: None },
        error: None,
        cancel_requested: false,
        created_at_ms: 1_000 + number as i64,
        started_at_ms: None,
        finished_at_ms: None,
    }
}

fn fill(catalog: &dyn CatalogStorage, jobs: usize) {
    (0..jobs).for_each(|number| assert_eq!(catalog.create_job(&job(number), None, None).unwrap(), None));
}

over_both_catalogs! {
    fn a_job_is_read_as_it_was_written(catalog) {
        fill(&*catalog, 1);
        catalog.restart();
        let id = job(0).id;
        assert_eq!(catalog.job(&id).unwrap(), Some(job(0)));
        let details = Metadata::from_iter([("created".to_owned(), 7.into())]);
        catalog.start_job(&id, 2_000).unwrap();
        catalog.start_job(&id, 3_000).unwrap();
        catalog.record_progress(&id, &JobProgress { done: 50, ..job(0).progress }, &details).unwrap();
        catalog.request_cancel(&id).unwrap();
        let error = JobFailure { code: Code::CollectionNotFound, detail: "it is gone".to_owned() };
        catalog.finish_job(&id, JobStatus::Failed, Some(&error), 4_000).unwrap();
        let expect = Job {
            status: JobStatus::Failed,
            progress: JobProgress { done: 50, ..job(0).progress },
            details,
            error: Some(error),
            cancel_requested: true,
            started_at_ms: Some(2_000),
            finished_at_ms: Some(4_000),
            ..job(0)
        };
        assert_eq!(catalog.job(&id).unwrap(), Some(expect));
        assert_eq!(catalog.job(&job(1).id).unwrap(), None);
    }

    fn lists_are_filtered_and_the_newest_comes_first(catalog) {
        fill(&*catalog, 6);
        catalog.restart();
        catalog.finish_job(&job(2).id, JobStatus::Canceled, None, 9).unwrap();
        let check = |filter: JobFilter, limit: usize, after: Option<usize>, expect: &[usize]| {
            let page = Page { limit, after: after.map(|number| job(number).id) };
            let found: Vec<_> = catalog.jobs(&filter, &page).unwrap().into_iter().map(|job| job.id).collect();
            assert_eq!(found, expect.iter().map(|number| job(*number).id).collect::<Vec<_>>(), "{filter:?}");
        };
        check(JobFilter::default(), 10, None, &[5, 4, 3, 2, 1, 0]);
        check(JobFilter::default(), 2, Some(4), &[3, 2]);
        let news = JobFilter { collections: Some(vec![CollectionName::parse("news").unwrap()]), ..JobFilter::default() };
        check(news.clone(), 10, None, &[4, 2, 0]);
        check(JobFilter { status: Some(JobStatus::Canceled), ..news }, 10, None, &[2]);
        check(JobFilter { kind: Some(JobType::Restore), ..JobFilter::default() }, 10, None, &[]);
        let counts = catalog.job_counts().unwrap();
        assert_eq!(counts, [(JobType::Import, JobStatus::Canceled, 1), (JobType::Import, JobStatus::Queued, 5)]);
        let unfinished: Vec<_> = catalog.unfinished_jobs().unwrap().into_iter().map(|job| job.id).collect();
        assert_eq!(unfinished, [0, 1, 3, 4, 5].map(|number| job(number).id));
    }

    fn old_and_surplus_jobs_are_forgotten_but_never_unfinished_ones(catalog) {
        fill(&*catalog, 6);
        catalog.restart();
        for number in 0..4 {
            catalog.finish_job(&job(number).id, JobStatus::Succeeded, None, 100 + number as i64).unwrap();
        }
        let mut pruned = catalog.prune_jobs(2, (101, 103)).unwrap();
        pruned.sort();
        assert_eq!(pruned, [job(0).id, job(1).id]);
        assert_eq!(catalog.prune_jobs(2, (101, 103)).unwrap(), []);
        assert_eq!(catalog.prune_jobs(0, (0, 103)).unwrap().len(), 2);
        assert_eq!(catalog.jobs(&JobFilter::default(), &Page { limit: 10, after: None }).unwrap().len(), 2);
    }

    fn jobs_that_finished_before_the_clock_was_set_back_are_forgotten_first(catalog) {
        fill(&*catalog, 3);
        catalog.restart();
        for (number, finished_at_ms) in [(0, 5_000), (1, 6_000), (2, 100)] {
            catalog.finish_job(&job(number).id, JobStatus::Succeeded, None, finished_at_ms).unwrap();
        }
        assert_eq!(catalog.prune_jobs(2, (0, 200)).unwrap(), [job(0).id]);
        assert_eq!(catalog.prune_jobs(1, (0, 200)).unwrap(), [job(1).id]);
        assert!(catalog.job(&job(2).id).unwrap().is_some());
    }

    fn a_repeated_request_gets_the_job_that_it_has(catalog) {
        let request = |fingerprint: &str| RequestKey::new("r1", fingerprint.to_owned()).unwrap();
        assert_eq!(catalog.create_job(&job(0), Some(&request("f1")), None).unwrap(), None);
        catalog.restart();
        assert_eq!(catalog.create_job(&job(1), Some(&request("f1")), None).unwrap(), Some(job(0).id));
        assert_eq!(catalog.find_job_created_by(&request("f1"), 2_000).unwrap(), Some(job(0).id));
        let reused = catalog.create_job(&job(1), Some(&request("f2")), None);
        assert!(matches!(reused, Err(StoreError::KeyReused { .. })), "{reused:?}");
        assert_eq!(catalog.unfinished_jobs().unwrap().len(), 1);
    }

    fn a_job_that_follows_a_collection_is_refused_without_it(catalog) {
        let request = RequestKey::new("r1", "f1".to_owned()).unwrap();
        let known = collection("news");
        let refused = catalog.create_job(&job(0), Some(&request), Some(&known.id));
        assert!(matches!(refused, Err(StoreError::Replaced)), "{refused:?}");
        assert_eq!(catalog.find_job_created_by(&request, 2_000).unwrap(), None);
        catalog.create(&known, None).unwrap();
        assert_eq!(catalog.create_job(&job(0), Some(&request), Some(&known.id)).unwrap(), None);
        catalog.restart();
        assert_eq!(catalog.unfinished_jobs().unwrap(), [job(0)]);
    }

    fn of_requests_with_one_key_at_once_one_creates_a_job(catalog) {
        catalog.restart();
        let request = RequestKey::new("r1", "f1".to_owned()).unwrap();
        let made: Vec<Option<JobId>> = std::thread::scope(|scope| {
            let create = |number| {
                let (catalog, request) = (&*catalog, &request);
                move || catalog.create_job(&job(number), Some(request), None).unwrap()
            };
            let threads: Vec<_> = (0..6).map(|number| scope.spawn(create(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let jobs = catalog.unfinished_jobs().unwrap();
        assert_eq!((jobs.len(), made.iter().filter(|before| before.is_none()).count()), (1, 1));
        assert!(made.iter().flatten().all(|before| *before == jobs[0].id));
    }
}
