//! The places for unfinished jobs are shared among the callers.

use std::net::IpAddr;

use dragoman::domain::{Code, Job, Limits, QuotaOwner};
use dragoman::service::Error;

use crate::jobs::file;
use crate::{Running, Setting, news_with, open_with};

/// One job runs, but does not end while the encoder is held, and this many may wait.
fn places(waiting: usize) -> Setting {
    let limits = Limits { jobs_running_max: 1, jobs_queued_max: waiting, import_backlog_max: 0, ..Limits::default() };
    Setting { limits, paused: true, ..Setting::default() }
}

/// A job of this caller.
async fn import_of(running: &Running, caller: u8) -> Result<Job, Error> {
    let memory = running.service.request_memory(QuotaOwner::for_address(Some(IpAddr::from([192, 0, 2, caller]))));
    memory.scope(running.import(file(10))).await
}

/// The number of places that are taken.
fn taken(running: &Running) -> u64 {
    running.service.shared_bounds().iter().find(|bound| bound.name() == "jobs_queued_max").unwrap().used()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_with_many_jobs_leaves_places_to_others() {
    let (_folder, running) = news_with(places(9)).await;
    for _ in 0..5 {
        import_of(&running, 1).await.unwrap();
    }
    let refused = import_of(&running, 1).await.unwrap_err();
    assert_eq!(refused.code(), Code::RateLimited, "{refused}");
    import_of(&running, 2).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_every_caller() {
    let (_folder, running) = news_with(places(1)).await;
    import_of(&running, 1).await.unwrap();
    import_of(&running, 2).await.unwrap();
    let refused = import_of(&running, 3).await.unwrap_err();
    assert!(matches!(refused, Error::JobsWaiting { limit: 2 }), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_an_earlier_run_take_places_that_their_end_frees() {
    let (folder, running) = news_with(places(9)).await;
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(import_of(&running, 1).await.unwrap());
    }
    // A crash releases the encoder, and a job that gets embeddings from it could still end.
    running.control.set_broken(true);
    running.crash();
    let running = open_with(folder.path(), places(2)).await;
    assert_eq!(taken(&running), 5, "all of them count, although they are more than the maximum");
    assert_eq!(import_of(&running, 2).await.unwrap_err().code(), Code::Overloaded);
    running.control.resume();
    for job in jobs {
        running.ended(&job.id).await;
    }
    assert_eq!(taken(&running), 0);
    import_of(&running, 2).await.unwrap();
}
