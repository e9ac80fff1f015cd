//! Storing, reading, listing, counting and deleting documents.

use dragoman::domain::{
    DocumentHead, DocumentOrder, FacetRequest, Field, Filter, Page, PassageId, Precondition, Relation, Scalar, ScrollRequest,
    Sequence, Test,
};
use dragoman::store::{BatchChange, Excerpt, HitSizes, PassageParts, SearchFilter, StoreError};
use serde_json::json;

use crate::contract::{Engine, cut, document, equals, id, keys, language, over_both_engines, with};

const TEXT: &str = "Der Zug fährt ab. Das Schiff auch.";
const FIRST: usize = 18;
/// All passages, as the last of them.
const ALL: PassageId = PassageId(u64::MAX);

fn two_passages(name: &str) -> dragoman::store::PreparedDocument {
    cut(name, TEXT, vec![0..FIRST, FIRST + 1..TEXT.len()])
}

fn names(documents: &[dragoman::domain::Document]) -> Vec<&str> {
    documents.iter().map(|document| document.id.as_str()).collect()
}

fn texts(engine: &Engine, after: u64, limit: usize) -> Vec<String> {
    engine.pending(PassageId(after), limit).unwrap().into_iter().map(|passage| passage.text).collect()
}

over_both_engines! {
    fn documents_round_trip_unchanged(engine) {
        let metadata = json!({"z": 1.0, "a": ["x\0y", "\u{1}", null, {"ключ": -0.5}], "big": u64::MAX, "small": 1e-300});
        let sent = with(document("été/1", "zero \0 and one \u{1}"), metadata);
        let sent = dragoman::store::PreparedDocument {
            title: Some("Gare".to_owned()), language: language("fr"), language_confidence: Some(0.25), ..sent
        };
        let outcome = engine.put(sent.clone());
        assert!(outcome.created && outcome.removed.is_empty());
        assert_eq!(outcome.pending[0].text, sent.text);
        let stored = engine.get(&sent.id).unwrap().unwrap();
        assert_eq!((&stored.id, &stored.title, &stored.text), (&sent.id, &sent.title, &sent.text));
        assert_eq!((stored.language, stored.language_confidence), (sent.language, sent.language_confidence));
        let order = |metadata| serde_json::to_string(metadata).unwrap();
        assert_eq!(order(&stored.metadata), order(&sent.metadata));
        assert_eq!((stored.passages, stored.indexed, stored.sequence), (1, false, outcome.sequence));
        assert_eq!(stored.created_at_ms, stored.updated_at_ms);
        assert_eq!(engine.get(&id("another")).unwrap(), None);
    }

    fn an_unchanged_text_keeps_its_passages_and_embeddings(engine) {
        let first = engine.put(two_passages("a"));
        engine.embed(&first.pending[..1]);
        let stored = || engine.get(&id("a")).unwrap().unwrap();
        assert!(!stored().indexed);
        let again = engine.put(with(two_passages("a"), json!({"year": 2020})));
        assert!(!again.created && again.removed.is_empty() && again.sequence > first.sequence);
        assert_eq!((again.pending.as_slice(), &stored().metadata["year"]), (&first.pending[1..], &json!(2020)));
        engine.embed(&again.pending);
        assert_eq!((engine.put(two_passages("a")).pending, stored().indexed), (Vec::new(), true));
        let other = engine.put(document("a", "ein anderer Text"));
        assert_eq!(other.removed, keys(&first.pending));
        assert!(other.pending[0].id > first.pending[1].id, "keys are never used twice");
    }

    fn a_batch_is_stored_completely_or_not_at_all(engine) {
        engine.put(document("a", "eins"));
        for (start, end) in [(0, 100), (1, 2), (9, 4)] {
            let bad = start..end;
            let torn = cut("b", "ü", vec![bad]);
            let refused = engine.upsert_if(vec![document("a", "drei"), torn], Precondition::None);
            assert!(matches!(&refused, Err(StoreError::InvalidPassage { id, .. }) if id.as_str() == "b"), "{refused:?}");
        }
        assert_eq!(engine.get(&id("a")).unwrap().unwrap().text, "eins");
        assert_eq!(engine.counts().unwrap().documents, 1);
    }

    fn a_repeated_id_in_a_batch_is_created_and_then_updated(engine) {
        let documents = vec![document("a", "eins"), document("b", "zwei"), document("a", "drei")];
        let outcomes = engine.upsert_if(documents, Precondition::None).unwrap();
        assert_eq!([outcomes[0].created, outcomes[1].created, outcomes[2].created], [true, true, false]);
        assert!(outcomes[0].pending.is_empty() && outcomes[2].removed.len() == 1);
        assert_eq!(texts(engine, 0, 10), ["zwei", "drei"]);
        let same = engine.upsert_if(vec![document("c", "vier"), document("c", "vier")], Precondition::None).unwrap();
        assert_eq!([same[0].pending.len(), same[1].pending.len()], [0, 1]);
    }

    fn pages_are_ordered_by_id_and_bounded_in_bytes(engine) {
        for name in ["b", "é", "a", "Z", "c"] {
            engine.put(document(name, "123456789"));
        }
        let list = |after: Option<&str>, limit, bytes_max| {
            let page = engine.list(&Page { after: after.map(id), limit }, bytes_max).unwrap();
            (names(&page.documents).join(" "), page.next.map(|next| next.to_string()))
        };
        let next = |name: &str| Some(name.to_owned());
        assert_eq!(list(None, 2, 1_000), ("Z a".to_owned(), next("a")));
        assert_eq!(list(Some("a"), 3, 1_000), ("b c é".to_owned(), None), "a page that is just full has no next one");
        assert_eq!(list(Some("a-deleted-one"), 5, 1_000), ("b c é".to_owned(), None));
        assert_eq!(list(None, 5, 22), ("Z a".to_owned(), next("a")));
        assert_eq!(list(None, 5, 1), ("Z".to_owned(), next("Z")));
        assert_eq!(list(Some("é"), 5, 1), (String::new(), None));
    }

    fn pages_of_matches_have_the_requested_order(engine) {
        for (name, year) in [("a", 2020), ("b", 2021), ("c", 2020), ("d", 2020)] {
            engine.put(with(document(name, "text"), json!({"year": year})));
        }
        let filter = equals("year", Scalar::Integer(2020)).filter;
        for (order, descending, expect) in [
            (DocumentOrder::Id, false, ["a", "c", "d"]),
            (DocumentOrder::Id, true, ["d", "c", "a"]),
            (DocumentOrder::CreatedAt, false, ["a", "c", "d"]),
            (DocumentOrder::UpdatedAt, true, ["d", "c", "a"]),
        ] {
            let mut request = ScrollRequest { filter: filter.clone(), order: order.clone(), descending, limit: 2, after: None };
            let first = engine.scroll(&request, 1_000).unwrap();
            assert_eq!(names(&first.documents), expect[..2], "{order:?} {descending}");
            request.after = first.next;
            let second = engine.scroll(&request, 1_000).unwrap();
            assert_eq!((names(&second.documents), second.next), (vec![expect[2]], None), "{order:?} {descending}");
        }
    }

    fn counting_stops_at_the_limit(engine) {
        for name in ["a", "b", "c"] {
            engine.put(with(document(name, "text"), json!({"year": 2020})));
        }
        let filter = equals("year", Scalar::Integer(2020));
        for (limit, expect) in [(0, 0), (2, 2), (usize::MAX, 3)] {
            assert_eq!(engine.count_matching(&filter, limit).unwrap(), expect);
        }
    }

    fn counts_reflect_every_change(engine) {
        let first = engine.put(two_passages("none"));
        engine.embed(&first.pending[..1]);
        for (name, code) in [("1", "fr"), ("2", "de"), ("3", "de"), ("4", "ja"), ("4", "fr"), ("5", "ja")] {
            engine.put(dragoman::store::PreparedDocument { language: language(code), ..document(name, "ein Text") });
        }
        engine.delete_if(&id("5"), Precondition::None).unwrap();
        let counts = engine.counts().unwrap();
        assert_eq!((counts.documents, counts.passages, counts.passages_pending), (5, 6, 5));
        assert_eq!(counts.languages, [(language("de"), 2), (language("fr"), 2), (None, 1)]);
        assert!(counts.disk_bytes > 0 && !counts.cut_by_older_rules);
    }

    fn facets_count_the_documents_that_have_each_value(engine) {
        let metadata = [
            json!({"tags": ["a", "b", "a"], "n": 1}),
            json!({"tags": "b", "n": 1.5}),
            json!({"tags": [true, 7, null, ["no"]], "n": null}),
            json!({}),
        ];
        for (place, metadata) in metadata.into_iter().enumerate() {
            let code = if place < 3 { language("fr") } else { None };
            let document = dragoman::store::PreparedDocument { language: code, ..document(&place.to_string(), "text") };
            engine.put(with(document, metadata));
        }
        let request = |field: &str, limit| {
            FacetRequest { field: Field::parse(field).unwrap(), limit, stats: false, histogram: None }
        };
        let facets = engine.facets(&SearchFilter::default(), &[request("tags", 9), request("n", 9), request("language", 9)], 1_000).unwrap();
        let counted = |place: usize| -> Vec<(Scalar, u64)> {
            facets.counts[place].values.iter().map(|value| (value.value.clone(), value.documents)).collect()
        };
        let text = |text: &str| Scalar::Text(text.to_owned());
        assert_eq!(facets.documents, 4);
        assert_eq!(counted(0), [(text("b"), 2), (Scalar::Integer(7), 1), (text("a"), 1), (Scalar::Bool(true), 1)]);
        assert_eq!(counted(1), [(Scalar::Integer(1), 1), (Scalar::Real(1.5), 1)]);
        assert_eq!(counted(2), [(text("fr"), 3)]);
        assert_eq!([facets.counts[0].missing, facets.counts[1].missing, facets.counts[2].missing], [1, 2, 1]);
        let short = engine.facets(&SearchFilter::default(), &[request("tags", 1)], 1_000).unwrap();
        assert_eq!(short.counts[0].values.len(), 1);
        let few_bytes = engine.facets(&SearchFilter::default(), &[request("tags", 9), request("n", 9)], 1).unwrap();
        assert_eq!(few_bytes.counts.len(), 1, "counting stops once the values exceed the limit in bytes");
    }

    fn deleted_documents_are_gone(engine) {
        let first = engine.put(two_passages("a"));
        let deleted = engine.delete_if(&id("a"), Precondition::None).unwrap().unwrap();
        assert_eq!(deleted.removed, keys(&first.pending));
        assert!(deleted.sequence > first.sequence && deleted.sequence == engine.sequence().unwrap());
        assert_eq!(engine.get(&id("a")).unwrap(), None);
        assert_eq!(engine.delete_if(&id("a"), Precondition::None).unwrap(), None);
        assert_eq!((engine.pending(PassageId(0), 9).unwrap(), engine.passages(&keys(&first.pending), PassageParts::ALL).unwrap()), (vec![], vec![]));
        let again = engine.put(two_passages("a"));
        assert!(again.created && again.pending[0].id > first.pending[1].id, "keys are never used twice");
    }

    fn matching_documents_are_deleted_in_steps(engine) {
        let documents = (0..700).map(|n| with(document(&format!("d{n}"), "text"), json!({"odd": n % 2 == 1}))).collect();
        engine.upsert_if(documents, Precondition::None).unwrap();
        let until = engine.sequence().unwrap();
        engine.put(with(document("later", "text"), json!({"odd": true})));
        let all = SearchFilter { languages: Vec::new(), filter: Filter::Field(Field::parse("odd").unwrap(), Test::Exists(true)) };
        let first = engine.change_batch(&BatchChange::Delete, &all, until, 0).unwrap();
        assert_eq!(first.rows.len(), 500);
        let second = engine.change_batch(&BatchChange::Delete, &all, until, first.next.unwrap()).unwrap();
        assert_eq!((second.rows.len(), second.next), (200, None));
        assert!(engine.change_batch(&BatchChange::Delete, &all, until, 0).unwrap().rows.is_empty());
        assert_eq!(engine.counts().unwrap().documents, 1);
    }

    fn pending_passages_are_read_in_pages(engine) {
        let first = engine.put(two_passages("a"));
        let other = engine.put(document("b", "andere"));
        engine.embed(&first.pending[1..]);
        assert_eq!(texts(engine, 0, 1), ["Der Zug fährt ab."]);
        assert_eq!(texts(engine, first.pending[0].id.0, 10), ["andere"]);
        assert_eq!(texts(engine, other.pending[0].id.0, 10), [""; 0]);
        assert_eq!(engine.pending_count_excluding(ALL, &[other.pending[0].id, PassageId(999)]).unwrap(), 1);
        assert_eq!(engine.pending_count_excluding(ALL, &keys(&first.pending)).unwrap(), 1, "an embedded passage is not pending");
        let up_to_first = |others: &[PassageId]| engine.pending_count_excluding(first.pending[1].id, others).unwrap();
        assert_eq!([up_to_first(&[]), up_to_first(&keys(&other.pending)), up_to_first(&keys(&first.pending))], [1, 1, 0]);
    }

    fn embeddings_of_removed_passages_are_discarded(engine) {
        let first = engine.put(two_passages("a"));
        let gone = engine.put(document("b", "weg"));
        engine.delete_if(&id("b"), Precondition::None).unwrap();
        let replaced = engine.put(document("c", "alt"));
        let newer = engine.put(document("c", "neu"));
        let all = [first.pending.clone(), gone.pending, replaced.pending].concat();
        let stored = engine.embed(&all);
        assert_eq!(stored.iter().map(|(passage, _)| *passage).collect::<Vec<_>>(), keys(&first.pending));
        assert_eq!(engine.embeddings_of(&[all[1].id, all[2].id, all[0].id]).unwrap(), [stored[1].clone(), stored[0].clone()]);
        assert!(engine.get(&id("a")).unwrap().unwrap().indexed);
        assert_eq!(keys(&engine.pending(PassageId(0), 9).unwrap()), keys(&newer.pending), "the new text still waits");
    }

    fn passages_are_returned_in_the_requested_order(engine) {
        let first = keys(&engine.put(two_passages("a")).pending);
        let other = keys(&engine.put(document("b", "andere")).pending);
        let asked = [other[0], first[1], PassageId(999), first[0], first[1]];
        let rows = engine.passages(&asked, PassageParts::ALL).unwrap();
        let found: Vec<_> = rows.iter().map(|row| (row.passage.id, row.passage.start, row.document.id.as_str())).collect();
        assert_eq!(found, [(other[0], 0, "b"), (first[1], FIRST + 1, "a"), (first[0], 0, "a"), (first[1], FIRST + 1, "a")]);
        let whole = engine.get(&id("a")).unwrap().unwrap();
        assert_eq!((&rows[1].document, rows[1].text.as_ref()), (&DocumentHead::from(whole.clone()), Some(&whole.text)));
        assert_eq!((rows[1].passages, &rows[1].title), (2, &whole.title));
        let owners: Vec<_> = engine.documents_of(&asked).unwrap().into_iter().map(|row| (row.passage, row.document)).collect();
        assert_eq!(owners, [(other[0], id("b")), (first[1], id("a")), (first[0], id("a")), (first[1], id("a"))]);
        let heads = engine.heads_of(&asked).unwrap();
        assert_eq!(heads.iter().map(|(_, head)| head).collect::<Vec<_>>(), rows.iter().map(|row| &row.document).collect::<Vec<_>>());
        assert_eq!(heads.iter().map(|(passage, _)| *passage).collect::<Vec<_>>(), [other[0], first[1], first[0], first[1]]);
    }

    fn reading_passages_is_aborted_when_a_size_is_refused(engine) {
        let title = Some("Bahnhöfe".to_owned());
        let asked = keys(&engine.put(dragoman::store::PreparedDocument { title, ..two_passages("a") }).pending);
        let mut description = Vec::new();
        let parts = PassageParts::EXCERPT;
        let read = engine.passages_while(&asked, parts, &mut |sizes| { description.push(sizes); true }).unwrap().unwrap();
        let sizes = |passage| HitSizes { title: "Bahnhöfe".len() as u64, text: TEXT.len() as u64, metadata: 2, passage };
        assert_eq!(description, [sizes(FIRST as u64), sizes((TEXT.len() - FIRST - 1) as u64)]);
        assert_eq!((read, description), (engine.passages(&asked, parts).unwrap(), engine.sizes_of(&asked).unwrap()));
        let mut left = 1;
        let refused = engine.passages_while(&asked, parts, &mut |_| std::mem::replace(&mut left, 0) > 0).unwrap();
        assert_eq!(refused, None);
    }

    fn only_the_requested_parts_of_documents_are_read(engine) {
        // PostgreSQL cuts long texts itself, except escaped ones.
        let long = |text: &str| [text, &"Am Hafen regnet es, und die Möwen schreien. ".repeat(500)].concat();
        for (name, text) in [("short", TEXT.to_owned()), ("long", long(TEXT)), ("escaped", long("Das \u{1} Schiff")), ("kanji", long("東京の駅"))] {
            let at = text.char_indices().nth(7).map_or(0, |(at, _)| at);
            let title = Some("Bahnhöfe".to_owned());
            let sent = dragoman::store::PreparedDocument { title: title.clone(), ..cut(name, &text, vec![0..at, at..text.len()]) };
            let asked = keys(&engine.put(sent).pending);
            let read = |parts| engine.passages(&asked, parts).unwrap().into_iter().map(|row| (row.title, row.text, row.excerpt)).collect::<Vec<_>>();
            let excerpts = [0..7, 7..text.chars().count()].map(|range| {
                let (start, end) = (range.start, range.end);
                Some(Excerpt { text: text.chars().skip(start).take(end - start).collect(), range })
            });
            assert_eq!(read(PassageParts::EXCERPT), excerpts.clone().map(|excerpt| (None, None, excerpt)), "{name}");
            assert_eq!(read(PassageParts::TITLE), [(title.clone(), None, None), (title.clone(), None, None)], "{name}");
            let whole = excerpts.map(|excerpt| (title.clone(), Some(text.clone()), excerpt));
            assert_eq!(read(PassageParts::ALL), whole, "{name}");
        }
    }

    fn titles_are_found_by_their_first_terms(engine) {
        let put = |name: &str, title: Option<&str>, text: &str| {
            let title = title.map(str::to_owned);
            keys(&engine.put(dragoman::store::PreparedDocument { title, ..cut(name, text, vec![0..4, 4..text.len()]) }).pending)[0]
        };
        let harbor = put("a", Some("Harbor"), "Old ships and new ones.");
        let wall = put("b", Some("Harbor wall"), "Old stones and new ones.");
        put("c", None, "Harbor of the town, where ships come in.");
        put("d", Some("The harbor"), "Old boats and new ones.");
        let found = |terms: &[&str], bytes, limit| {
            engine.titled(&terms.iter().map(|term| (*term).to_owned()).collect::<Vec<_>>(), bytes, limit).unwrap()
        };
        assert_eq!(found(&["harbor"], 0..=64, 9), [harbor, wall]);
        assert_eq!(found(&["harbor"], 6..=6, 9), [harbor]);
        assert_eq!(found(&["harbor"], 0..=64, 1), [harbor]);
        assert_eq!(found(&["harbor", "wall"], 0..=64, 9), [wall]);
        assert_eq!(found(&["wall"], 0..=64, 9), []);
    }

    fn metadata_indexes_are_remembered_and_change_no_results(engine) {
        for (name, metadata) in [("a", json!({"year": 2020})), ("b", json!({"year": "2020"})), ("c", json!({"author's": {"name": "A"}}))] {
            engine.put(with(document(name, "text"), metadata));
        }
        let path = |keys: &[&str]| dragoman::domain::MetadataPath::new(keys.iter().map(|&key| key.to_owned()).collect()).unwrap();
        let (year, name) = (path(&["year"]), path(&["author's", "name"]));
        engine.set_metadata_indexes(vec![year.clone(), name.clone(), year.clone()]).unwrap();
        assert_eq!(engine.metadata_indexes(), [name.clone(), year.clone()]);
        engine.put(with(document("d", &"long ".repeat(2_000)), json!({"year": "x".repeat(9_000)})));
        let count = |field: &dragoman::domain::MetadataPath, test| {
            let filter = Filter::Field(Field::Metadata(field.clone()), test);
            engine.count_matching(&SearchFilter { languages: Vec::new(), filter }, 10).unwrap()
        };
        let responses = || [
            count(&year, Test::Eq(Scalar::Integer(2020))),
            count(&year, Test::Compare(Relation::Gte, Scalar::Integer(2000))),
            count(&year, Test::In(vec![Scalar::Text("2020".to_owned()), Scalar::Real(2020.0)].into())),
            count(&year, Test::Ne(Scalar::Integer(2020))),
            count(&name, Test::Prefix("A".to_owned())),
        ];
        assert_eq!(responses(), [1, 1, 2, 3, 1]);
        engine.set_metadata_indexes(vec![name.clone()]).unwrap();
        assert_eq!((engine.metadata_indexes(), responses()), (vec![name], [1, 1, 2, 3, 1]));
        let refused = engine.set_metadata_indexes(vec![path(&["a\"b"])]);
        assert!(matches!(refused, Err(StoreError::PathNotIndexable { .. })), "{refused:?}");
    }

    fn a_closed_engine_refuses_calls(engine) {
        engine.put(document("a", "eins"));
        engine.close().unwrap();
        engine.close().unwrap();
        assert!(matches!(engine.get(&id("a")), Err(StoreError::Closed)));
        assert!(matches!(engine.upsert_if(Vec::new(), Precondition::None), Err(StoreError::Closed)));
        assert!(matches!(engine.sequence(), Err(StoreError::Closed)));
    }

    fn concurrent_writes_are_all_kept_with_distinct_sequence_numbers(engine) {
        let sequences: Vec<Sequence> = std::thread::scope(|scope| {
            let write = |thread: usize| {
                let outcomes = (0..20).map(move |number| engine.put(document(&format!("{thread}-{number}"), "text")).sequence);
                let outcomes: Vec<Sequence> = outcomes.collect();
                assert!(outcomes.is_sorted(), "the writes of one caller get ascending numbers");
                outcomes
            };
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || write(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(sequences.iter().collect::<std::collections::HashSet<_>>().len(), 80);
        assert_eq!(engine.sequence().unwrap(), *sequences.iter().max().unwrap());
        assert_eq!(engine.counts().unwrap().documents, 80);
    }
}
