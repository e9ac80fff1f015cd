//! Writes: acknowledged ones are stored and found, replaced and deleted documents are not found, and refused writes leave
//! nothing behind.

use std::time::Duration;

use dragoman::domain::{Code, Filter, Language, NewDocument, RequestKey, Wait};
use dragoman::embed::FakeOptions;
use dragoman::service::Error;
use dragoman::service::documents::input::InvalidDocument;

use crate::{Running, Setting, collection_folder, document, eventually, id, name, news, news_with, open_with};

#[tokio::test]
async fn a_document_deleted_while_being_embedded_stays_deleted() {
    let (_folder, running) = news().await;
    running.control.pause();
    let write = running.begin_write(vec![document("a", "words")], Wait::Indexed);
    running.blocked().await;
    running.delete("news", &id("a")).await.unwrap();
    running.control.resume();
    write.await.unwrap().unwrap();
    assert!(running.found("news", "words").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_whose_caller_is_gone_ends_between_two_steps_and_can_be_repeated() {
    const DOCUMENTS: u64 = 2_000;
    const STEP: u64 = 500;
    let (_folder, running) = news().await;
    running.upsert("news", (0..DOCUMENTS).map(|n| document(&format!("d{n}"), "words")).collect(), Wait::Indexed).await.unwrap();
    let delete = async || running.on("news").delete_matching(Filter::default(), None).await;
    let left = async || running.service.get_collection(&name("news")).await.unwrap().counts.documents;
    // Begins the first step and is dropped.
    assert!(tokio::time::timeout(Duration::ZERO, delete()).await.is_err());
    tokio::time::sleep(Duration::from_millis(500)).await;
    let after = left().await;
    assert!([DOCUMENTS, DOCUMENTS - STEP].contains(&after), "{after}");
    assert_eq!((delete().await.unwrap(), left().await), (after, 0));
    assert!(running.found("news", "words").await.is_empty());
}

#[tokio::test]
async fn stored_documents_eventually_become_searchable() {
    let (_folder, running) = news().await;
    let documents = (0..300).map(|n| document(&format!("d{n}"), &format!("number {n} has word w{n}"))).collect();
    running.upsert("news", documents, Wait::Stored).await.unwrap();
    assert_eq!(running.text("news", "d299").await.as_deref(), Some("number 299 has word w299"));
    let pending = async || running.service.get_collection(&name("news")).await.unwrap().counts.passages_pending;
    eventually("nothing is pending", async || pending().await == 0).await;
    eventually("the last is found", async || running.found("news", "number 299 has word w299").await[0] == "d299").await;
}

#[tokio::test]
async fn a_waiting_write_is_embedded_before_the_backlog() {
    let (_folder, running) = news().await;
    let backlog = (0..1_000).map(|n| document(&format!("d{n}"), &format!("backlog text {n}"))).collect();
    running.control.pause();
    running.upsert("news", backlog, Wait::Stored).await.unwrap();
    running.blocked().await;
    let write = running.begin_write(vec![document("a", "words")], Wait::Indexed);
    eventually("the write is queued", async || running.embedder.queue_depth() > 0).await;
    running.control.resume();
    write.await.unwrap().unwrap();
    // The only text of one word. The previous batch was already at the encoder.
    let place = running.control.batches().iter().position(|batch| batch.contains(&1));
    assert_eq!(place, Some(1));
    assert_eq!(running.found("news", "words").await[0], "a");
}

#[tokio::test]
async fn changing_only_metadata_embeds_nothing() {
    let (_folder, running) = news().await;
    running.write("news", "a", "some words").await;
    let batches = running.control.batches().len();
    let mut changed = document("a", "some words");
    changed.metadata.insert("year".to_owned(), 2020.into());
    running.upsert("news", vec![changed], Wait::Indexed).await.unwrap();
    assert_eq!(running.control.batches().len(), batches);
    assert_eq!(running.hits("news", "some words").await[0].metadata.as_ref().unwrap().0["year"], 2020);
}

#[tokio::test]
async fn the_second_document_with_the_same_id_in_a_request_fails() {
    let (_folder, running) = news().await;
    let documents = vec![document("a", "first"), document("b", "other"), document("a", "second"), document("c", "last")];
    let outcomes = running.upsert("news", documents, Wait::Indexed).await.unwrap();
    let InvalidDocument { id: refused, code, problems } = outcomes[2].as_ref().unwrap_err();
    assert_eq!((refused.as_ref(), *code), (Some(&id("a")), Code::InvalidRequest));
    assert!(problems[0].detail.contains("\"a\"") && problems[0].detail.contains("position 0"), "{problems:?}");
    assert!(outcomes[3].as_ref().is_ok_and(|document| document.id == id("c") && document.created), "{outcomes:?}");
    assert_eq!(running.text("news", "a").await.as_deref(), Some("first"));
}

#[tokio::test]
async fn the_language_is_taken_from_the_caller_or_detected() {
    let (_folder, running) = news().await;
    let text = "Der Zug nach Hamburg fährt heute leider erst eine halbe Stunde später ab.";
    let given = NewDocument { language: Language::parse("nl"), ..document("given", text) };
    running.upsert("news", vec![given, document("detected", text)], Wait::Stored).await.unwrap();
    let given = running.on("news").get(&id("given")).await.unwrap();
    assert_eq!((given.language, given.language_confidence), (Language::parse("nl"), None));
    let detected = running.on("news").get(&id("detected")).await.unwrap();
    assert_eq!(detected.language, Language::parse("de"));
    assert!(detected.language_confidence.is_some_and(|confidence| confidence > 0.5), "{detected:?}");
}

#[tokio::test]
async fn writes_refused_by_a_full_queue_store_nothing() {
    let mut setting = Setting::default();
    setting.limits.write_queue_max = 1;
    let (folder, running) = news_with(setting).await;
    // While this transaction is open, one write waits for the database and keeps the only place in the queue.
    let database = rusqlite::Connection::open(collection_folder(folder.path()).join("documents.sqlite")).unwrap();
    database.execute_batch("begin immediate").unwrap();
    let mut writes = Vec::new();
    for n in 0..40 {
        writes.push(running.begin_write(vec![document(&format!("d{n}"), &format!("text {n}"))], Wait::Stored));
    }
    let ended = || writes.iter().filter(|write| write.is_finished()).count();
    eventually("all writes but one are refused", async || ended() == 39).await;
    database.execute_batch("rollback").unwrap();
    let mut refused = 0;
    for (n, write) in writes.into_iter().enumerate() {
        let outcome = write.await.unwrap();
        let stored = running.text("news", &format!("d{n}")).await;
        match outcome {
            Ok(_) => assert!(stored.is_some(), "d{n} was acknowledged"),
            Err(error) => {
                assert_eq!(error.code(), Code::Overloaded, "{error:?}");
                assert_eq!(stored, None, "d{n} was refused");
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 39);
}

#[tokio::test]
async fn a_full_encoder_queue_refuses_writes_before_storing_anything() {
    let mut setting = Setting { fake: FakeOptions { queue_texts_max: 1, ..FakeOptions::of(64) }, ..Setting::default() };
    setting.limits.embed_queue_texts_max = 1;
    let (_folder, running) = news_with(setting).await;
    running.control.pause();
    let write = |n: usize| running.begin_write(vec![document(&format!("d{n}"), &format!("text {n}"))], Wait::Indexed);
    let running_one = write(0);
    running.blocked().await;
    let waiting_one = write(1);
    eventually("one text waits", async || running.embedder.queue_depth() == 1).await;
    let refused = write(2).await.unwrap().unwrap_err();
    assert!(matches!(&refused, Error::EncoderBusy { waiting: 1, limit: 1 }), "{refused:?}");
    assert_eq!(refused.code(), Code::Overloaded);
    assert_eq!(running.text("news", "d2").await, None);
    running.control.resume();
    running_one.await.unwrap().unwrap();
    waiting_one.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_document_the_encoder_fails_on_is_stored_and_blocks_no_others() {
    let (_folder, running) = news().await;
    running.control.fail_on("poison");
    let documents = vec![document("good", "clear water"), document("bad", "pure poison")];
    let error = running.upsert("news", documents, Wait::Indexed).await.unwrap_err();
    assert!(matches!(&error, Error::NotIndexed(_)), "{error:?}");
    assert_eq!(error.code(), Code::Internal);
    assert_eq!(running.text("news", "bad").await.as_deref(), Some("pure poison"));
    eventually("the good one is found", async || running.found("news", "clear water").await == ["good"]).await;
    running.write("news", "later", "more clear water").await;
    assert_eq!(running.found("news", "more clear water").await[0], "later");
}

#[tokio::test]
async fn a_backlog_is_embedded_once_a_failing_encoder_recovers() {
    let (_folder, running) = news().await;
    running.control.set_broken(true);
    let documents: Vec<_> = (0..20).map(|n| document(&format!("d{n}"), &format!("word w{n}"))).collect();
    let all = documents.len();
    running.upsert("news", documents, Wait::Stored).await.unwrap();
    eventually("each was tried", async || running.control.batches().len() > all).await;
    running.control.set_broken(false);
    let pending = async || running.service.get_collection(&name("news")).await.unwrap().counts.passages_pending;
    eventually("nothing is pending", async || pending().await == 0).await;
}

#[tokio::test]
async fn many_failing_texts_do_not_block_the_documents_after_them() {
    let (_folder, running) = news().await;
    running.control.fail_on("poison");
    let documents = (0..200).map(|n| document(&format!("bad{n}"), &format!("poison w{n}")));
    running.upsert("news", documents.collect(), Wait::Stored).await.unwrap();
    running.upsert("news", vec![document("good", "clear water")], Wait::Stored).await.unwrap();
    eventually("the good one is found", async || running.found("news", "clear water").await == ["good"]).await;
}

#[tokio::test]
async fn an_abandoned_write_finishes_in_the_background() {
    let (_folder, running) = news().await;
    running.control.pause();
    let write = running.begin_write(vec![document("a", "words")], Wait::Indexed);
    running.blocked().await;
    write.abort();
    running.control.resume();
    eventually("it is found", async || running.found("news", "words").await == ["a"]).await;
}

#[tokio::test]
async fn an_idempotent_write_is_not_repeated_after_a_crash() {
    let (folder, running) = news().await;
    let key = || RequestKey::new("k", "fingerprint".to_owned()).unwrap();
    let write = async |running: &Running| {
        let documents = vec![Ok(NewDocument { id: None, ..document("x", "clear water") })];
        running.on("news").upsert(documents, Wait::Stored, Some(key())).await
    };
    let first = write(&running).await.unwrap();
    running.crash();
    let running = open_with(folder.path(), Setting::default()).await;
    assert_eq!(write(&running).await.unwrap(), first);
    assert_eq!(running.service.get_collection(&name("news")).await.unwrap().counts.documents, 1);
    let other = RequestKey::new("k", "another".to_owned()).unwrap();
    let error = running.on("news").upsert(vec![Ok(document("y", "words"))], Wait::Stored, Some(other)).await.unwrap_err();
    assert_eq!(error.code(), Code::IdempotencyConflict);
}

#[tokio::test]
async fn a_repeated_request_has_the_first_outcomes_whatever_would_be_refused_now() {
    let (_folder, running) = news().await;
    let refused = || Err(InvalidDocument::whole(None, Code::InvalidRequest, "is too long".to_owned()));
    let twice = async |key: &str, first: Vec<_>, then: Vec<_>| {
        let write = async |documents| {
            let key = RequestKey::new(key, "fingerprint".to_owned()).unwrap();
            running.on("news").upsert(documents, Wait::Stored, Some(key)).await.unwrap()
        };
        let before = write(first).await;
        assert_eq!(write(then).await, before, "{key}");
        before
    };
    let two = || vec![Ok(document("a", "clear water")), Ok(document("b", "fresh bread"))];
    twice("stricter", two(), vec![refused(), Ok(document("b", "fresh bread"))]).await;
    twice("strictest", two(), vec![refused(), refused()]).await;
    let before = twice("milder", vec![Ok(document("c", "clear water")), refused()], two()).await;
    assert!(before[0].as_ref().is_ok_and(|document| document.id == id("c")));
    assert_eq!(before[1].as_ref().unwrap_err().problems[0].detail, "is too long");
}

#[tokio::test]
async fn a_duplicate_names_the_place_of_the_first_in_the_whole_request() {
    let (_folder, running) = news().await;
    let refused = Err(InvalidDocument::whole(None, Code::InvalidRequest, "is blank".to_owned()));
    let documents = vec![refused, Ok(document("a", "first")), Ok(document("a", "second"))];
    let outcomes = running.on("news").upsert(documents, Wait::Stored, None).await.unwrap();
    assert!(outcomes[2].as_ref().unwrap_err().problems[0].detail.ends_with("first at position 1"), "{outcomes:?}");
}

#[tokio::test]
async fn a_repeated_request_is_answered_even_if_the_collection_takes_no_writes_now() {
    let (folder, running) = news().await;
    let write = async |running: &Running, key: &str| {
        let key = RequestKey::new(key, "fingerprint".to_owned()).unwrap();
        running.on("news").upsert(vec![Ok(document("a", "clear water"))], Wait::Indexed, Some(key)).await
    };
    let first = write(&running, "k").await.unwrap();
    running.shutdown().await;
    let other_model = Setting { fake: FakeOptions::of(32), ..Setting::default() };
    let running = open_with(folder.path(), other_model).await;
    assert_eq!(write(&running, "k").await.unwrap(), first);
    assert_eq!(write(&running, "another").await.unwrap_err().code(), Code::ModelMismatch);
}
