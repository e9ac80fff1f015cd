//! Whole documents: read from one engine and stored in another, which then answers like the first.

use dragoman::domain::{JobId, Metric, PassageId, Sequence};
use dragoman::storage::Storage;
use dragoman::store::{DocumentKey, DocumentRecord, PreparedDocument, StoreError};
use serde_json::json;

use crate::contract::{DIMENSION, Engine, collection, cut, document, embedding, id, language, over_both_engines, terms_of, with};

fn job() -> JobId {
    JobId::parse("00000000-0000-0000-0000-000000000007").unwrap()
}

fn all(engine: &dyn Storage) -> Vec<DocumentRecord> {
    engine.document_records(None, 100, u64::MAX).unwrap()
}

/// The other engine, empty.
fn other(engine: &Engine) -> Engine {
    let row = collection(DIMENSION, Metric::Cosine);
    match engine {
        Engine::Embedded(..) => Engine::postgres_of(&row),
        Engine::Postgres(_) => Engine::embedded_of(&row),
    }
}

/// Documents of many kinds, stored after others were deleted. Some of their passages wait for embeddings.
fn fill(engine: &Engine) {
    for name in ["gone", "b", "gone too"] {
        engine.put(document(name, "un vieux train"));
    }
    let mut long = with(cut("a", "mer mur mer été", vec![0..8, 8..17]), json!({"year": 1.5, "\0": ["\u{1}", u64::MAX, null]}));
    (long.title, long.language, long.language_confidence) = (Some("Gare".to_owned()), language("fr"), Some(0.125));
    long.passages[1].headings = Some("Été\nSoir".to_owned());
    engine.put(long);
    let first = engine.pending(PassageId(0), 4).unwrap();
    engine.embed(&first);
    engine.put(PreparedDocument { embedding: Some(embedding(7.0)), expires_at_ms: Some(1 << 50), ..document("own", "sea") });
    for name in ["gone", "gone too"] {
        engine.delete_if(&id(name), dragoman::domain::Precondition::None).unwrap();
    }
    engine.put(document("waits", "grey sea"));
}

over_both_engines! {
    fn records_contain_everything_stored(engine) {
        fill(engine);
        let whole = all(&**engine);
        let names: Vec<&str> = whole.iter().map(|document| document.document.id.as_str()).collect();
        assert_eq!(names, ["b", "a", "own", "waits"], "documents are sorted by key");
        for document in &whole {
            assert_eq!(engine.get(&document.document.id).unwrap().as_ref(), Some(&document.document));
        }
        let passages = &whole[1].passages;
        assert_eq!((passages.len(), passages[1].span.headings.as_deref()), (2, Some("Été\nSoir")));
        assert_eq!(passages[0].words, terms_of().compute("Gare\nmer mur ", language("fr")).plain);
        assert_eq!(passages[0].tokens, crate::contract::embedded(passages[0].id).tokens);
        let numbers: Vec<bool> = whole.iter().flat_map(|document| &document.passages).map(|passage| passage.embedded.is_some()).collect();
        assert_eq!(numbers, [true, true, false, true, false]);
        let (sequence, own) = whole[2].passages[0].embedded.clone().unwrap();
        assert!(own == embedding(7.0) && sequence <= engine.sequence().unwrap());
    }

    fn records_are_read_in_pages(engine) {
        fill(engine);
        let whole = all(&**engine);
        let page = |after: Option<DocumentKey>, limit, bytes| engine.document_records(after, limit, bytes).unwrap();
        assert_eq!(page(None, 2, u64::MAX), whole[..2]);
        assert_eq!(page(Some(whole[1].key), 9, u64::MAX), whole[2..]);
        assert_eq!(page(None, 9, 1), whole[..1], "a page has at least one document");
        assert_eq!(page(None, 9, whole[0].bytes() + 9), whole[..2], "a page ends once it reaches the limit in bytes");
        assert_eq!(page(Some(whole[3].key), 9, u64::MAX), []);
    }

    fn another_engine_inserts_records_unchanged_and_continues_after_them(engine) {
        fill(engine);
        let (whole, sequence, target) = (all(&**engine), engine.sequence().unwrap(), other(engine));
        target.insert_records(&job(), whole[..2].to_vec(), sequence, "half".to_owned()).unwrap();
        assert_eq!(target.job_checkpoint(&job()).unwrap().as_deref(), Some("half"));
        target.insert_records(&job(), whole[2..].to_vec(), sequence, "done".to_owned()).unwrap();
        assert_eq!((all(&*target), target.sequence().unwrap()), (whole.clone(), sequence));
        assert_eq!(target.job_checkpoint(&job()).unwrap().as_deref(), Some("done"));
        let counts = target.counts().unwrap();
        assert_eq!((counts.documents, counts.passages, counts.passages_pending), (4, 5, 2));
        let new = target.put(document("new", "wall"));
        let known: Vec<PassageId> = whole.iter().flat_map(|document| &document.passages).map(|passage| passage.id).collect();
        assert!(new.sequence > sequence && known.iter().all(|known| new.pending[0].id > *known));
        assert!(all(&*target).last().unwrap().key > whole[3].key);
        target.embed(&target.pending(PassageId(0), 9).unwrap());
        assert!(target.delete_if(&id("a"), dragoman::domain::Precondition::Version(vec![whole[1].document.sequence])).unwrap().is_some());
    }

    fn texts_split_by_older_rules_stay_marked(engine) {
        fill(engine);
        assert!(!engine.counts().unwrap().cut_by_older_rules);
        engine.mark_cut_by_older_rules().unwrap();
        assert!(engine.counts().unwrap().cut_by_older_rules);
        engine.put(document("new", "wall"));
        assert!(engine.counts().unwrap().cut_by_older_rules);
    }

    fn a_failed_insert_of_records_leaves_nothing(engine) {
        fill(engine);
        let (mut whole, target) = (all(&**engine), other(engine));
        whole[1].passages[1].span.range = 3..99;
        let refused = target.insert_records(&job(), whole, Sequence(50), "done".to_owned());
        assert!(matches!(refused, Err(StoreError::InvalidPassage { start: 3, end: 99, .. })), "{refused:?}");
        assert_eq!((all(&*target), target.job_checkpoint(&job()).unwrap()), (Vec::new(), None));
        assert_eq!(target.counts().unwrap().passages, 0);
        target.insert_records(&job(), Vec::new(), Sequence(50), "empty".to_owned()).unwrap();
        assert_eq!((target.sequence().unwrap(), target.put(document("a", "sea")).sequence), (Sequence(50), Sequence(51)));
    }
}
