//! What jobs read: embeddings of documents, texts of passages, tokens.

use dragoman::domain::{Embedding, MetadataPath, MiningUnit, Page, PassageId, Precondition, Sequence, TokenSet, WordCounts};
use dragoman::store::{PreparedDocument, SearchFilter};
use serde_json::json;

use crate::contract::{Engine, cut, document, embedding, id, keys, language, over_both_engines, with};

/// `a` has two passages and `b` one, all embedded; `c` waits for its embedding. Returns their passages.
fn filled(engine: &Engine) -> [Vec<PassageId>; 3] {
    let a = engine.put(PreparedDocument { language: language("fr"), ..cut("a", "un deux", vec![0..2, 3..7]) });
    let b = engine.put(with(document("b", "eins"), json!({"year": {"of": 2020}})));
    let c = engine.put(document("c", "ichi"));
    engine.embed(&a.pending);
    engine.embed(&b.pending);
    [a, b, c].map(|outcome| keys(&outcome.pending))
}

fn own(passage: PassageId) -> Embedding {
    embedding(passage.0 as f32)
}

over_both_engines! {
    fn documents_are_read_with_their_mean_embedding(engine) {
        let [a, b, _] = filled(engine);
        let mean = Embedding::mean(&[own(a[0]), own(a[1])]);
        let page = |after, limit| Page { after, limit };
        let (all, next) = engine.embedded_documents(&SearchFilter::default(), &page(None, 2), 1_000).unwrap();
        assert_eq!(next, Some(id("b")));
        let found: Vec<_> = all.iter().map(|found| (found.document.id.as_str(), found.embedding.clone())).collect();
        assert_eq!(found, [("a", mean.clone()), ("b", Embedding::mean(&[own(b[0])]))]);
        let (rest, next) = engine.embedded_documents(&SearchFilter::default(), &page(next, 9), 1_000).unwrap();
        assert_eq!((rest.len(), rest[0].embedding.clone(), next), (1, None, None));
        let (first, next) = engine.embedded_documents(&SearchFilter::default(), &page(None, 9), 1).unwrap();
        assert_eq!((first.len(), next), (1, Some(id("a"))), "a page of few bytes has one document");
        let by_id = engine.embedded_by_id(&[id("c"), id("none"), id("a"), id("a")]).unwrap();
        let found: Vec<_> = by_id.iter().map(|found| found.as_ref().map(|found| found.embedding.clone())).collect();
        assert_eq!(found, [Some(None), None, Some(mean.clone()), Some(mean)]);
        assert_eq!(engine.passage_embeddings(&id("a")).unwrap().unwrap(), [own(a[0]), own(a[1])]);
        assert_eq!(engine.passage_embeddings(&id("c")).unwrap(), Some(Vec::new()));
        assert_eq!(engine.passage_embeddings(&id("none")).unwrap(), None);
        let (page, embeddings) = engine.list_embedded(&Page { after: None, limit: 9 }, 1_000).unwrap();
        assert_eq!((page.documents.len(), embeddings), (3, vec![None, Some(own(b[0])), None]));
    }

    fn passage_texts_can_be_read_by_passage_or_document(engine) {
        let [a, b, c] = filled(engine);
        let asked = [c[0], b[0], a[1], PassageId(999)];
        let texts = |unit| -> Vec<String> { engine.passage_texts(&asked, unit).unwrap().into_iter().map(|row| row.text).collect() };
        assert_eq!(texts(MiningUnit::Passage), ["eins", "deux"]);
        assert_eq!(texts(MiningUnit::Document), ["eins", "un deux"]);
        let rows = engine.passage_texts(&[a[0], a[1], b[0]], MiningUnit::Passage).unwrap();
        assert!(rows[0].document == rows[1].document && rows[1].document != rows[2].document);
        assert_eq!((rows[0].language, rows[2].language), (language("fr"), None));
        assert_eq!(engine.first_passages(&[b[0], a[1], a[0], PassageId(999)]).unwrap(), [b[0], a[0]]);
        let ids = [id("b"), id("none"), id("a"), id("c")];
        assert_eq!(engine.known_passages(&ids, MiningUnit::Document).unwrap(), [Some(b[0]), None, Some(a[0]), Some(c[0])]);
        assert_eq!(engine.known_passages(&ids, MiningUnit::Passage).unwrap(), [Some(b[0]), None, None, Some(c[0])]);
        let embeddings = engine.document_embeddings_of(&[b[0], a[0], c[0]]).unwrap();
        assert_eq!(embeddings, [(b[0], vec![own(b[0])]), (a[0], vec![own(a[0]), own(a[1])])]);
    }

    fn embeddings_are_read_by_document_key(engine) {
        let [a, b, _] = filled(engine);
        let keys = engine.embedded_keys(None, 9).unwrap();
        assert_eq!(keys.iter().map(|(_, id)| id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(engine.embedded_keys(Some(keys[0].0), 9).unwrap(), keys[1..]);
        let read = engine.embeddings_by_document(&[keys[1].0, keys[0].0]).unwrap();
        assert_eq!((read[0].id.as_str(), &read[0].embeddings), ("b", &vec![own(b[0])]));
        assert_eq!((read[1].language, &read[1].embeddings), (language("fr"), &vec![own(a[0]), own(a[1])]));
        engine.delete_if(&id("b"), Precondition::None).unwrap();
        assert_eq!(engine.embeddings_by_document(&[keys[1].0, keys[0].0]).unwrap().len(), 1);
    }

    fn attributes_return_language_and_metadata_values(engine) {
        filled(engine);
        let path = MetadataPath::parse("year.of").unwrap();
        let traits = engine.attributes_of(&[id("b"), id("none"), id("a")], Some(&path)).unwrap();
        assert_eq!(traits[0].as_ref().unwrap().value, Some(json!(2020)));
        assert!(traits[1].is_none() && traits[2].as_ref().unwrap().value.is_none());
        assert_eq!(traits[2].as_ref().unwrap().language, language("fr"));
        assert_eq!(engine.attributes_of(&[id("b")], None).unwrap()[0].as_ref().unwrap().value, None);
        let values = engine.matching_values(&SearchFilter::default(), &path, 2).unwrap();
        assert_eq!(values, [(id("a"), None), (id("b"), Some(json!(2020)))]);
    }

    fn token_changes_return_all_tokens_and_then_only_changes(engine) {
        let [a, b, c] = filled(engine);
        let all = engine.token_changes(None, true).unwrap();
        let sorted = |mut passages: Vec<PassageId>| { passages.sort(); passages };
        let passages = |changes: &dragoman::store::TokenChanges| sorted(changes.passages.iter().map(|(passage, _)| *passage).collect());
        assert!(all.complete && all.removed.is_empty());
        assert_eq!(passages(&all), sorted([a.clone(), b.clone()].concat()));
        let of_b = all.passages.iter().find(|(passage, _)| *passage == b[0]).unwrap();
        assert_eq!(of_b.1, TokenSet::from_ids(&[b[0].0 as u32, 7]));
        assert_eq!(all.words.iter().find(|(passage, _)| *passage == b[0]).unwrap().1, WordCounts::from_words(vec![4]));
        assert_eq!(all.words.len(), 3, "a pending passage gets its words with its embedding");
        let nothing = engine.token_changes(Some(all.sequence), true).unwrap();
        assert!(!nothing.complete && nothing.passages.is_empty() && nothing.removed.is_empty());
        engine.delete_if(&id("a"), Precondition::None).unwrap();
        let waiting = engine.pending(PassageId(0), 9).unwrap();
        engine.embed(&waiting);
        let changed = engine.token_changes(Some(all.sequence), true).unwrap();
        assert_eq!((sorted(changed.removed.clone()), passages(&changed)), (a, c));
        assert_eq!(changed.sequence, engine.sequence().unwrap());
        assert!(engine.token_changes(Some(Sequence(0)), false).unwrap().words.is_empty());
    }

    fn an_unchanged_client_embedding_keeps_its_passage(engine) {
        let sent = |number| PreparedDocument { embedding: Some(embedding(number)), ..document("a", "text") };
        let first = engine.put(sent(0.1));
        assert!(first.pending.is_empty() && engine.get(&id("a")).unwrap().unwrap().indexed);
        assert!(engine.put(sent(0.1)).removed.is_empty());
        assert_eq!(engine.put(sent(0.2)).removed.len(), 1);
        assert_eq!(engine.passage_embeddings(&id("a")).unwrap().unwrap(), [embedding(0.2)]);
    }
}
