//! Documents copied into a replacement collection: unchanged, with the same keys and sequence numbers, but different passages.

use dragoman::domain::{
    Document, JobId, Metric, PassageEmbedding, PassageId, Precondition, QueryTerm, QueryTerms, Sequence, TokenSet,
};
use dragoman::storage::Storage;
use dragoman::store::{CopiedDocument, CopiedPassage, DocumentKey, Revision, SearchFilter};
use serde_json::json;

use crate::contract::{
    DIMENSION, Engine, collection, cut, document, embedding, id, keys, language, over_both_engines, patch, with,
};

fn job() -> JobId {
    JobId::parse("00000000-0000-0000-0000-000000000009").unwrap()
}

/// Another collection of the same engine.
fn another(engine: &Engine) -> Engine {
    let row = collection(DIMENSION, Metric::Cosine);
    match engine {
        Engine::Embedded(..) => Engine::embedded_of(&row),
        Engine::Postgres(_) => Engine::postgres_of(&row),
    }
}

fn revisions(engine: &dyn Storage) -> Vec<Revision> {
    engine.revisions(Revision::FIRST, 100).unwrap()
}

/// All documents in the order of their changes, each with one embedded passage.
fn moved(engine: &dyn Storage) -> Vec<CopiedDocument> {
    let keys: Vec<DocumentKey> = revisions(engine).into_iter().map(|revision| revision.key).collect();
    let documents = engine.documents_by_key(&keys, usize::MAX).unwrap();
    let moved = |(key, document): (DocumentKey, Option<Document>)| {
        let document = document.unwrap();
        let own = PassageEmbedding { embedding: embedding(key.0 as f32), tokens: TokenSet::from_ids(&[5]) };
        let span = (0..document.text.len()).into();
        CopiedDocument { key, document, passages: Some(vec![CopiedPassage { span, embedding: Some(own) }]) }
    };
    keys.into_iter().zip(documents).map(moved).collect()
}

/// `a` has two passages and every optional part, `b` was changed after it, and `c`.
fn fill(engine: &Engine) {
    engine.put(document("b", "sea"));
    let mut a = with(cut("a", "mer mur", vec![0..3, 4..7]), json!({"year": 1.5, "\0": ["\u{1}", null]}));
    (a.title, a.language, a.language_confidence, a.expires_at_ms) =
        (Some("Gare".to_owned()), language("fr"), Some(0.5), Some(1 << 50));
    engine.put(a);
    engine.put(document("gone", "wall"));
    engine.put(document("c", "grey"));
    engine.delete_if(&id("gone"), Precondition::None).unwrap();
    engine.patch(&id("b"), patch(json!({"x": 1})), None, Precondition::None).unwrap();
}

fn by_term(engine: &Engine, term: &str) -> Vec<PassageId> {
    let terms = QueryTerms { terms: vec![QueryTerm { text: term.to_owned(), prefix: false }], ..QueryTerms::default() };
    let found = engine.lexical(&terms, &SearchFilter::default(), 9).unwrap();
    found.into_iter().map(|(passage, _)| passage).collect()
}

over_both_engines! {
    fn revisions_are_paged_in_the_order_of_changes(engine) {
        fill(engine);
        let all = revisions(&**engine);
        let found: Vec<_> = engine.documents_by_key(&all.iter().map(|one| one.key).collect::<Vec<_>>(), usize::MAX).unwrap();
        let names: Vec<_> = found.iter().map(|one| one.as_ref().unwrap().id.as_str()).collect();
        assert_eq!(names, ["a", "c", "b"]);
        for (revision, document) in all.iter().zip(&found) {
            let document = document.as_ref().unwrap();
            assert_eq!((revision.sequence, engine.get(&document.id).unwrap().as_ref()), (document.sequence, Some(document)));
        }
        assert_eq!(engine.revisions(Revision::FIRST, 2).unwrap(), all[..2]);
        assert_eq!(engine.revisions(all[1], 9).unwrap(), all[2..]);
        assert_eq!(engine.revisions(all[2], 9).unwrap(), []);
        let behind = Revision { sequence: Sequence(all[0].sequence.0 + 1), ..Revision::FIRST };
        assert_eq!(engine.revisions(behind, 9).unwrap(), all[1..]);
    }

    fn the_document_count_includes_expired_documents(engine) {
        assert_eq!(engine.document_count().unwrap(), 0);
        fill(engine);
        let mut expired = document("old", "sea");
        expired.expires_at_ms = Some(1);
        engine.put(expired);
        assert_eq!((engine.document_count().unwrap(), engine.counts().unwrap().documents), (4, 3));
        assert_eq!(revisions(&**engine).len(), 4);
        engine.delete_expired().unwrap();
        assert_eq!(engine.document_count().unwrap(), 3);
    }

    fn documents_are_read_by_key_up_to_a_size_limit(engine) {
        fill(engine);
        let keys: Vec<_> = revisions(&**engine).iter().map(|revision| revision.key).collect();
        let asked = [keys[1], DocumentKey(999), keys[0], keys[2]];
        let names = |bytes| -> Vec<Option<String>> {
            let found = engine.documents_by_key(&asked, bytes).unwrap();
            found.into_iter().map(|document| document.map(|document| document.id.as_str().to_owned())).collect()
        };
        let [c, a, b] = ["c", "a", "b"].map(|name| Some(name.to_owned()));
        assert_eq!(names(usize::MAX), [c.clone(), None, a.clone(), b]);
        assert_eq!(names(0), std::slice::from_ref(&c), "at least one document is read");
        assert_eq!(names(5), [c, None, a], "reading ends once the limit in bytes is reached");
        assert_eq!(engine.documents_by_key(&[], 9).unwrap(), []);
    }

    fn a_replacement_copies_documents_with_new_passages(engine) {
        fill(engine);
        let (next, all) = (another(engine), moved(&**engine));
        next.write_copies(&job(), all.clone()).unwrap();
        assert_eq!(revisions(&*next), revisions(&**engine));
        for moved in &all {
            let copied = next.get(&moved.document.id).unwrap().unwrap();
            assert_eq!(copied, Document { passages: 1, indexed: true, ..moved.document.clone() });
        }
        let counts = next.counts().unwrap();
        assert_eq!((counts.documents, counts.passages, counts.passages_pending), (3, 3, 0));
        assert_eq!(by_term(&next, "mur").len(), 1);
        assert_eq!(next.passage_embeddings(&id("a")).unwrap().unwrap(), [embedding(all[0].key.0 as f32)]);
        let tokens = next.token_changes(None, true).unwrap();
        assert!(tokens.passages.len() == 3 && tokens.passages.iter().all(|(_, own)| *own == TokenSet::from_ids(&[5])));
        let new = next.put(document("new", "wall"));
        assert!(new.sequence > all[2].document.sequence && revisions(&*next)[3].key > all.iter().map(|one| one.key).max().unwrap());
    }

    fn a_copied_passage_without_an_embedding_is_pending(engine) {
        fill(engine);
        let (next, mut all) = (another(engine), moved(&**engine));
        all[0].passages.as_mut().unwrap()[0].embedding = None;
        assert_eq!(next.counts().unwrap().documents, 0);
        next.write_copies(&job(), all[1..].to_vec()).unwrap();
        assert_eq!(next.counts().unwrap().documents, 2);
        next.write_copies(&job(), vec![all[0].clone()]).unwrap();
        assert_eq!(next.counts().unwrap().passages_pending, 1);
        let waiting = next.pending(PassageId(0), 9).unwrap();
        assert_eq!((waiting.len(), waiting[0].text.as_str(), waiting[0].context.title.as_deref()), (1, "mer mur", Some("Gare")));
        next.embed(&waiting);
        assert_eq!(next.counts().unwrap().passages_pending, 0);
    }

    fn changed_documents_overwrite_their_copies(engine) {
        fill(engine);
        let next = another(engine);
        next.write_copies(&job(), moved(&**engine)).unwrap();
        let before = revisions(&*next);
        // c's text changes, a new document takes b's deleted id, and metadata and language change.
        engine.put(document("c", "black"));
        engine.delete_if(&id("b"), Precondition::None).unwrap();
        engine.put(document("b", "moor"));
        let to_german = dragoman::domain::DocumentPatch { language: language("de"), ..patch(json!({"y": 2})) };
        engine.patch(&id("a"), to_german, None, Precondition::None).unwrap();
        let mut changed = moved(&**engine);
        let kept = changed.iter_mut().find(|one| one.document.id == id("a")).unwrap();
        let passages = kept.passages.take();
        let own = by_term(&next, "infr");
        assert_eq!(own.len(), 1);
        next.write_copies(&job(), changed.clone()).unwrap();
        assert_eq!(revisions(&*next), revisions(&**engine));
        assert_ne!(revisions(&*next), before);
        assert_eq!((by_term(&next, "infr"), by_term(&next, "inde")), (Vec::new(), own), "the unchanged text keeps its passage");
        assert_eq!((by_term(&next, "sea"), by_term(&next, "grey")), (Vec::new(), Vec::new()));
        let counts = next.counts().unwrap();
        assert_eq!((counts.documents, counts.passages), (3, 3));
        // If the text differs from the stored one, nothing is kept.
        let kept = changed.iter_mut().find(|one| one.document.id == id("a")).unwrap();
        kept.document.text.push('!');
        kept.document.sequence = Sequence(900);
        next.write_copies(&job(), vec![kept.clone()]).unwrap();
        assert_eq!(next.get(&id("a")).unwrap().unwrap().text, "mer mur");
        kept.passages = passages;
        next.write_copies(&job(), vec![kept.clone()]).unwrap();
        assert_eq!(next.get(&id("a")).unwrap().unwrap().text, "mer mur!");
        assert!(next.put(document("new", "wall")).sequence.0 > 900);
    }

    fn deleted_documents_are_dropped_from_the_replacement(engine) {
        fill(engine);
        let (next, all) = (another(engine), moved(&**engine));
        next.write_copies(&job(), all.clone()).unwrap();
        next.delete_by_key(&job(), vec![all[0].key, DocumentKey(999)]).unwrap();
        next.delete_by_key(&job(), Vec::new()).unwrap();
        assert_eq!((next.get(&id("a")).unwrap(), by_term(&next, "mur")), (None, Vec::new()));
        let counts = next.counts().unwrap();
        assert_eq!((counts.documents, counts.passages), (2, 2));
        let pending = engine.pending(PassageId(0), 9).unwrap();
        assert_eq!(keys(&pending).len(), 4, "the original collection is unchanged");
    }
}
