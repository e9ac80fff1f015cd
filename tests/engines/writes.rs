//! Conditional writes, patches, and what is stored in the same transaction: idempotency records and checkpoints.

use std::sync::atomic::Ordering;

use dragoman::domain::{DocumentPatch, JobId, Metadata, PassageId, Precondition, RequestKey, Sequence};
use dragoman::store::{Idempotent, PatchOutcome, Patched, PreparedDocument, ResplitText, StoreError, TextPatch};
use serde_json::{Value, json};

use crate::contract::{Engine, clock, document, embedding, id, keys, language, over_both_engines, patch, with};

fn patched(engine: &Engine, patch: DocumentPatch, resplit: Option<ResplitText>) -> dragoman::domain::Document {
    match engine.patch(&id("a"), patch, resplit, Precondition::None).unwrap() {
        PatchOutcome::Done(document, _) => *document,
        other => unreachable!("it is patched, not {other:?}"),
    }
}

fn job(number: u8) -> JobId {
    JobId::parse(&format!("00000000-0000-0000-0000-0000000000{number:02}")).unwrap()
}

fn request(key: &str, fingerprint: &str) -> RequestKey {
    RequestKey::new(key, fingerprint.to_owned()).unwrap()
}

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

#[test]
fn an_answer_is_found_for_its_request_for_one_day() {
    clock!(NOW, clock);
    for engine in Engine::both_at(clock) {
        let answer_at = |now_ms, request: RequestKey, response: &str| {
            NOW.store(now_ms, Ordering::SeqCst);
            engine.record_answer(&request, response.to_owned()).unwrap();
        };
        let find_at = |now_ms, request: RequestKey| {
            NOW.store(now_ms, Ordering::SeqCst);
            engine.idempotency_record(&request)
        };
        answer_at(5_000, request("a", "1"), "done");
        assert_eq!(find_at(6_000, request("a", "1")).unwrap().as_deref(), Some("done"));
        assert_eq!(find_at(6_000, request("b", "1")).unwrap(), None);
        let reused = find_at(6_000, request("a", "2"));
        assert!(matches!(reused, Err(StoreError::KeyReused { .. })), "{reused:?}");
        assert_eq!(find_at(5_000 + DAY_MS, request("a", "2")).unwrap(), None);
        answer_at(5_000 + DAY_MS, request("a", "2"), "again");
        assert_eq!(find_at(6_000 + DAY_MS, request("a", "2")).unwrap().as_deref(), Some("again"));

        answer_at(5_000 + DAY_MS + 1, request("ahead", "1"), "done");
        assert_eq!(find_at(5_000, request("ahead", "1")).unwrap(), None, "it is dated more than a day ahead");
        answer_at(5_000, request("ahead", "2"), "again");
        assert_eq!(find_at(5_000, request("ahead", "2")).unwrap().as_deref(), Some("again"));
    }
}

#[test]
fn the_oldest_answers_are_evicted_first_even_after_the_clock_jumps_back() {
    clock!(NOW, clock);
    for engine in Engine::both_at(clock) {
        NOW.store(5_000_000, Ordering::SeqCst);
        for number in 0..1_002 {
            if number == 1_001 {
                NOW.store(1_000, Ordering::SeqCst);
            }
            engine.record_answer(&request(&number.to_string(), "1"), "done".to_owned()).unwrap();
        }
        let known = |number: usize| engine.idempotency_record(&request(&number.to_string(), "1")).unwrap().is_some();
        assert_eq!([known(0), known(1), known(2), known(1_001)], [false, false, true, true]);
    }
}

over_both_engines! {
    fn conditional_writes_need_their_condition(engine) {
        let version = engine.put(document("a", "eins")).sequence;
        let wrong = Precondition::Version(vec![Sequence(version.0 + 7)]);
        for (precondition, holds) in [
            (Precondition::Absent, false),
            (wrong.clone(), false),
            (Precondition::Version(vec![version]), true),
            (Precondition::Present, true),
        ] {
            let before = engine.get(&id("a")).unwrap().unwrap();
            let done = engine.upsert_if(vec![document("new", "neu"), document("a", "zwei")], precondition.clone());
            assert!(
                matches!(done, Err(StoreError::PreconditionFailed { .. })),
                "the condition must also hold for the new document, {precondition:?}: {done:?}"
            );
            let done = engine.upsert_if(vec![document("a", "zwei")], precondition);
            assert_eq!(done.is_ok(), holds, "{done:?}");
            let failed = |error: &StoreError| matches!(error, StoreError::PreconditionFailed { current, .. } if *current == Some(version));
            assert!(done.is_ok() || failed(&done.unwrap_err()) && engine.get(&id("a")).unwrap().unwrap() == before);
        }
        assert_eq!(engine.get(&id("new")).unwrap(), None);
        assert!(engine.upsert_if(vec![document("new", "neu")], Precondition::Absent).is_ok());
        assert!(matches!(engine.delete_if(&id("a"), wrong.clone()), Err(StoreError::PreconditionFailed { .. })));
        assert_eq!(engine.delete_if(&id("gone"), wrong).unwrap(), None);
        assert!(engine.delete_if(&id("a"), Precondition::Present).unwrap().is_some());
    }

    fn repeated_requests_return_the_first_response_without_effect(engine) {
        let once = |text: &str, request: RequestKey| {
            engine.upsert_once(vec![document("a", text)], request, Box::new(|outcomes| format!("{} stored", outcomes.len())))
        };
        assert_eq!(engine.idempotency_record(&request("k", "1")).unwrap(), None);
        assert!(matches!(once("eins", request("k", "1")).unwrap(), Idempotent::Executed(outcomes) if outcomes.len() == 1));
        assert_eq!(once("zwei", request("k", "1")).unwrap(), Idempotent::Replayed("1 stored".to_owned()));
        let reused = once("zwei", request("k", "2"));
        assert!(matches!(&reused, Err(StoreError::KeyReused { key }) if key == "k"), "{reused:?}");
        assert_eq!(engine.get(&id("a")).unwrap().unwrap().text, "eins");
        assert_eq!(engine.idempotency_record(&request("k", "1")).unwrap().as_deref(), Some("1 stored"));
        engine.record_answer(&request("k", "1"), "later".to_owned()).unwrap();
        engine.record_answer(&request("other", "1"), "done".to_owned()).unwrap();
        assert_eq!(engine.idempotency_record(&request("k", "1")).unwrap().as_deref(), Some("1 stored"));
        assert_eq!(engine.idempotency_record(&request("other", "1")).unwrap().as_deref(), Some("done"));
    }

    fn failed_writes_leave_no_idempotency_record_or_checkpoint(engine) {
        let torn = || vec![crate::contract::cut("b", "zwei", vec![0..9, 9..9])];
        assert!(engine.upsert_once(torn(), request("k", "1"), Box::new(|_| "done".to_owned())).is_err());
        assert!(engine.upsert_for_job(&job(1), torn(), Box::new(|_| "done".to_owned())).is_err());
        assert_eq!(engine.idempotency_record(&request("k", "1")).unwrap(), None);
        assert_eq!(engine.job_checkpoint(&job(1)).unwrap(), None);
    }

    fn a_job_reads_the_checkpoint_of_its_last_write(engine) {
        for text in ["eins", "zwei"] {
            let checkpoint = move |outcomes: &[dragoman::store::Upserted]| format!("{text} {}", outcomes[0].created);
            engine.upsert_for_job(&job(1), vec![document("a", text)], Box::new(checkpoint)).unwrap();
        }
        engine.upsert_for_job(&job(2), Vec::new(), Box::new(|_| "empty".to_owned())).unwrap();
        engine.upsert_for_job(&job(3), Vec::new(), Box::new(|_| "ended".to_owned())).unwrap();
        engine.delete_job_checkpoint(&job(3)).unwrap();
        assert_eq!(engine.job_checkpoint(&job(3)).unwrap(), None);
        assert_eq!(engine.job_checkpoint(&job(1)).unwrap().as_deref(), Some("zwei false"));
        engine.delete_job_checkpoints(&[job(2), job(3)]).unwrap();
        assert_eq!(engine.job_checkpoint(&job(1)).unwrap(), None);
        assert_eq!(engine.job_checkpoint(&job(2)).unwrap().as_deref(), Some("empty"));
    }

    fn a_patch_changes_only_the_named_members_and_keeps_passages(engine) {
        let first = engine.put(with(document("a", "un train"), json!({"year": 2020, "deep": {"x": 1}})));
        engine.embed(&first.pending);
        let changed = patched(engine, DocumentPatch { language: language("fr"), ..patch(json!({"year": null, "deep": {"y": 2}})) }, None);
        assert_eq!(changed.metadata, *json!({"deep": {"x": 1, "y": 2}}).as_object().unwrap());
        assert_eq!((changed.language, changed.language_confidence, changed.indexed), (language("fr"), None, true));
        assert!(changed.sequence > first.sequence);
        assert_eq!(engine.get(&id("a")).unwrap().unwrap(), changed);
        let same = patched(engine, patch(json!({"deep": {"x": 1}})), None);
        assert_eq!(same, changed, "a patch that changes nothing keeps the version");
        let too_deep = engine.patch(&id("a"), patch(json!({"deep": {"z": [[1]]}})), None, Precondition::None);
        assert!(matches!(too_deep, Err(StoreError::MetadataTooLarge { unit: "levels (metadata_depth_max)", max: 3, got: 4 })), "{too_deep:?}");
        assert_eq!(engine.patch(&id("none"), patch(json!({})), None, Precondition::None).unwrap(), PatchOutcome::Absent);
        let condition = Precondition::Version(vec![first.sequence]);
        assert!(matches!(engine.patch(&id("a"), patch(json!({})), None, condition), Err(StoreError::PreconditionFailed { .. })));
    }

    fn only_a_stored_embedding_is_the_newest_one(engine) {
        assert_eq!(engine.last_embedded().unwrap(), Sequence(0));
        let waiting = engine.put(document("a", "eins")).pending;
        assert_eq!(engine.last_embedded().unwrap(), Sequence(0), "the passage waits for its embedding");
        engine.embed(&waiting);
        let first = engine.last_embedded().unwrap();
        assert!(first > Sequence(0) && first <= engine.sequence().unwrap());
        patched(engine, patch(json!({"year": 2026})), None);
        assert_eq!(engine.last_embedded().unwrap(), first);
        let waiting = engine.put(document("a", "zwei")).pending;
        engine.embed(&waiting);
        assert!(engine.last_embedded().unwrap() > first);
    }

    fn a_new_title_requires_new_passages(engine) {
        let own = PreparedDocument { embedding: Some(embedding(5.0)), ..document("a", "un train") };
        engine.put(own);
        let titled = DocumentPatch { title: Some(Some("Gare".to_owned())), ..patch(json!({})) };
        assert_eq!(engine.patch(&id("a"), titled.clone(), None, Precondition::None).unwrap(), PatchOutcome::Conflict);
        let resplit = |keeps_embedding, text: &str| ResplitText {
            title: Some("Gare".to_owned()), text: text.to_owned(), passages: vec![(0..text.len()).into()], keeps_embedding
        };
        let other_title = ResplitText { title: Some("Port".to_owned()), ..resplit(true, "un train") };
        for stale in [resplit(true, "un bus"), other_title] {
            let before = engine.get(&id("a")).unwrap();
            let outcome = engine.patch(&id("a"), titled.clone(), Some(stale), Precondition::None).unwrap();
            assert_eq!((outcome, engine.get(&id("a")).unwrap()), (PatchOutcome::Conflict, before));
        }
        let kept = patched(engine, titled.clone(), Some(resplit(true, "un train")));
        assert_eq!((kept.title.as_deref(), kept.indexed), (Some("Gare"), true));
        assert_eq!(engine.passage_embeddings(&id("a")).unwrap().unwrap(), [embedding(5.0)]);
        let untitled = DocumentPatch { title: Some(None), ..patch(json!({})) };
        let without = ResplitText { title: None, ..resplit(false, "un train") };
        let outcome = engine.patch(&id("a"), untitled, Some(without), Precondition::None).unwrap();
        let PatchOutcome::Done(document, pending) = outcome else { unreachable!("it is patched") };
        assert!(!document.indexed && document.title.is_none());
        assert_eq!(keys(&pending), keys(&engine.pending(PassageId(0), 9).unwrap()));
    }

    fn a_job_patches_only_documents_with_unchanged_text(engine) {
        for name in ["a", "b", "c"] {
            engine.put(document(name, "text"));
        }
        let large = json!({"x": "y".repeat(2_000)});
        let change = |name: &str, text: &str, metadata: Value| TextPatch {
            id: id(name), title: None, text: text.to_owned(), patch: patch(metadata)
        };
        let patches = vec![
            change("a", "text", json!({"label": "x"})),
            change("b", "old text", json!({"label": "x"})),
            change("gone", "text", json!({})),
            change("c", "text", large),
        ];
        let outcomes = engine.patch_for_job(&job(1), patches, Box::new(|outcomes| outcomes.len().to_string())).unwrap();
        assert_eq!(outcomes, [Patched::Done, Patched::Conflict, Patched::Conflict, Patched::TooLarge]);
        assert_eq!(engine.job_checkpoint(&job(1)).unwrap().as_deref(), Some("4"));
        assert_eq!(engine.get(&id("a")).unwrap().unwrap().metadata["label"], "x");
        assert_eq!(engine.get(&id("c")).unwrap().unwrap().metadata, Metadata::new());
    }

    fn a_job_does_not_replace_scalars_with_objects(engine) {
        let before = json!({"path": 5, "list": ["x"], "deep": {"x": 1}});
        engine.put(with(document("a", "text"), before.clone()));
        let outcome = |metadata: Value| {
            let change = TextPatch { id: id("a"), title: None, text: "text".to_owned(), patch: patch(metadata) };
            engine.patch_for_job(&job(1), vec![change], Box::new(|_| String::new())).unwrap()
        };
        assert_eq!(outcome(json!({"label": "x", "path": {"label": "x"}})), [Patched::Blocked]);
        assert_eq!(outcome(json!({"list": {"label": "x"}})), [Patched::Blocked]);
        assert_eq!(engine.get(&id("a")).unwrap().unwrap().metadata, *before.as_object().unwrap());
        assert_eq!(outcome(json!({"path": "x", "deep": {"label": "x"}})), [Patched::Done]);
    }
}
