//! Filtered searches while documents change: a search never returns what does not match, and finds all that does.

use dragoman::domain::{
    Alias, CollectionChange, Field, Filter, Limits, MetadataPath, NewDocument, Precondition, Relation, Scalar, SearchRequest,
    Test, Wait,
};
use dragoman::embed::FakeOptions;
use serde_json::json;

use crate::{Running, Setting, document, id, ids, name, news, news_with, open, request};

fn with_group(name: &str, text: &str, group: i64) -> NewDocument {
    let mut document = document(name, text);
    document.metadata.insert("group".to_owned(), group.into());
    document
}

fn in_group(group: i64) -> Filter {
    Filter::Field(Field::parse("group").unwrap(), Test::Eq(Scalar::Integer(group)))
}

async fn found(running: &Running, filter: Filter, limit: usize) -> Vec<String> {
    let mut found = ids(&running.search("news", SearchRequest { filter, ..request("grey sea", limit) }).await.unwrap());
    found.sort();
    found
}

#[tokio::test]
async fn cached_filters_follow_every_kind_of_change() {
    let (folder, running) = news().await;
    let documents = (0..40).map(|n| with_group(&format!("d{n:02}"), &format!("grey sea {n}"), n % 2)).collect();
    running.upsert("news", documents, Wait::Indexed).await.unwrap();
    assert_eq!(found(&running, in_group(1), 100).await.len(), 20);

    running.upsert("news", vec![with_group("d00", "grey sea 0", 1)], Wait::Indexed).await.unwrap();
    assert_eq!(found(&running, in_group(1), 100).await.len(), 21);
    running.upsert("news", vec![with_group("d01", "another text of the sea", 0)], Wait::Indexed).await.unwrap();
    assert_eq!(found(&running, in_group(1), 100).await.len(), 20);
    running.delete("news", &id("d03")).await.unwrap();
    assert_eq!(found(&running, in_group(1), 100).await.len(), 19);
    let patch = Limits::default().metadata_patch(json!({"group": 1}).as_object().unwrap().clone());
    running.on("news").patch(&id("d02"), patch, Wait::Indexed, Precondition::None).await.unwrap();
    assert_eq!(found(&running, in_group(1), 100).await.len(), 20);
    assert_eq!(running.on("news").delete_matching(in_group(0), None).await.unwrap(), 19);
    assert_eq!(found(&running, in_group(0), 100).await, [""; 0]);
    assert_eq!(found(&running, in_group(1), 100).await.len(), 20);

    running.shutdown().await;
    let running = open(folder.path()).await;
    assert_eq!(found(&running, in_group(1), 100).await.len(), 20);
    running.upsert("news", vec![with_group("new", "grey sea", 1)], Wait::Indexed).await.unwrap();
    assert_eq!(found(&running, in_group(1), 100).await.len(), 21);
}

/// Large enough that some filters use the graph and others compare every match.
#[tokio::test]
async fn filters_of_any_selectivity_find_matches_while_documents_change() {
    let (_folder, running) = news_with(Setting { fake: FakeOptions::of(16), ..Setting::default() }).await;
    let text = |n: i64| format!("text {} of number {n}", n % 37);
    for thousand in 0..4 {
        let numbers = thousand * 1_000..(thousand + 1) * 1_000;
        let documents = numbers.map(|n| with_group(&format!("d{n}"), &text(n), n)).collect();
        running.upsert("news", documents, Wait::Indexed).await.unwrap();
    }
    let below = |bound: i64| Filter::Field(Field::parse("group").unwrap(), Test::Compare(Relation::Lt, Scalar::Integer(bound)));
    for round in 0..5 {
        for bound in [1, 20, 300, 1_500, 3_900] {
            let request = SearchRequest { filter: below(bound), ..request("text 5 of number 5", 10) };
            let hits = running.search("news", request).await.unwrap();
            let groups: Vec<i64> = hits.iter().map(|hit| hit.metadata.as_ref().unwrap().0["group"].as_i64().unwrap()).collect();
            assert!(groups.iter().all(|group| *group < bound), "round {round}, below {bound}: {groups:?}");
            assert_eq!(hits.len(), 10.min(bound as usize), "round {round}, below {bound}");
            assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
        }
        // Moves a document out of its group and back, with a different text.
        let number = 5 + round;
        let moved = with_group(&format!("d{number}"), &text(number), 10_000);
        running.upsert("news", vec![moved], Wait::Indexed).await.unwrap();
        let hits = running.search("news", SearchRequest { filter: below(10), ..request(&text(number), 100) }).await.unwrap();
        assert!(!ids(&hits).contains(&format!("d{number}")), "{:?}", ids(&hits));
        let back = with_group(&format!("d{number}"), &format!("{} again", text(number)), number);
        running.upsert("news", vec![back], Wait::Indexed).await.unwrap();
        let hits = running.search("news", SearchRequest { filter: below(10), ..request(&text(number), 100) }).await.unwrap();
        assert_eq!(hits.len(), 10, "{:?}", ids(&hits));
    }
}

#[tokio::test]
async fn a_document_with_many_passages_does_not_crowd_out_other_matches() {
    let (_folder, running) = news().await;
    let long = "The grey sea rolls and rolls against the old harbor wall of the town all day. ".repeat(200);
    let mut documents = vec![with_group("long", &long, 1)];
    documents.extend((0..900).map(|n| with_group(&format!("d{n}"), &format!("bread number {n}"), i64::from(n < 700))));
    running.upsert("news", documents, Wait::Indexed).await.unwrap();
    let hits = running.search("news", SearchRequest { filter: in_group(1), ..request("the grey sea", 500) }).await.unwrap();
    assert_eq!((hits.len(), hits[0].id.as_str()), (500, "long"));
}

#[tokio::test]
async fn aliases_and_metadata_indexes_survive_a_restart() {
    let (folder, running) = news().await;
    let paths = vec![MetadataPath::parse("group").unwrap()];
    let change = CollectionChange { metadata_indexes: Some(paths.clone()), ..CollectionChange::default() };
    running.on("news").change(change).await.unwrap();
    let alias = Alias { name: name("current"), collection: name("news") };
    running.service.set_alias(alias).await.unwrap();
    running.upsert("current", vec![with_group("a", "grey sea", 1)], Wait::Indexed).await.unwrap();
    running.crash();
    let running = open(folder.path()).await;
    let view = running.service.get_collection(&name("current")).await.unwrap();
    assert_eq!((view.collection.name, view.metadata_indexes), (name("news"), paths));
    assert_eq!(found(&running, in_group(1), 10).await, ["a"]);
}
