//! Searches: filters, passages, and what happens with another model.

use dragoman::domain::{Code, Field, Filter, Language, NewDocument, Scalar, SearchRequest, Test, Wait};
use dragoman::embed::FakeOptions;

use crate::{Setting, document, id, ids, news, news_with, open, open_with, request};

fn equals(field: &str, value: Scalar) -> Filter {
    Filter::Field(Field::parse(field).unwrap(), Test::Eq(value))
}

#[tokio::test]
async fn a_broad_filter_finds_matches_behind_nearer_non_matching_documents() {
    let (_folder, running) = news_with(Setting { fake: FakeOptions::of(16), ..Setting::default() }).await;
    let document = |n: usize| {
        let text = if n < 100 { format!("grey sea {n}") } else { format!("number {n} of many") };
        let mut document = NewDocument { language: Language::parse("en"), ..document(&format!("d{n}"), &text) };
        document.metadata.insert("wanted".to_owned(), (n >= 100).into());
        document
    };
    for thousand in 0..5 {
        let documents = (thousand * 1_000..(thousand + 1) * 1_000).map(document).collect();
        running.upsert("news", documents, Wait::Indexed).await.unwrap();
    }
    let filter = equals("wanted", Scalar::Bool(true));
    let hits = running.search("news", SearchRequest { filter, ..request("grey sea 5", 7) }).await.unwrap();
    assert_eq!(hits.len(), 7);
    assert!(hits.iter().all(|hit| hit.metadata.as_ref().unwrap().0["wanted"] == true), "{:?}", ids(&hits));
    assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
}

#[tokio::test]
async fn a_document_with_many_passages_is_one_hit() {
    let (_folder, running) = news().await;
    let long = "The grey sea rolls and rolls against the old harbor wall of the town all day. ".repeat(20);
    running.upsert("news", vec![document("long", &long), document("short", "fresh bread")], Wait::Indexed).await.unwrap();
    assert!(running.on("news").get(&id("long")).await.unwrap().passages > 5);
    for limit in [1, 2, 10] {
        let found = ids(&running.search("news", request("the grey sea", limit)).await.unwrap());
        assert_eq!(found, ["long", "short"][..limit.min(2)]);
    }
}

#[tokio::test]
async fn passage_offsets_of_a_hit_count_characters() {
    let (_folder, running) = news().await;
    let first = "Тёплый хлеб лежит на столе и пахнет так, что все сразу идут на кухню завтракать вместе с нами.";
    let second = "Серое море шумит весь день и всю ночь у старой стены порта, и никто его не слышит сегодня.";
    let text = format!("{first} {second}");
    running.write("news", "a", &text).await;
    let hit = running.hits("news", second).await.remove(0);
    let passage = hit.passage.unwrap();
    assert_eq!(hit.text, None, "the whole text is returned only on request");
    let cut: String = text.chars().skip(passage.start).take(passage.end - passage.start).collect();
    assert_eq!(cut, passage.text);
    assert!(passage.start >= first.chars().count(), "{passage:?}");
}

#[tokio::test]
async fn a_search_returns_up_to_its_limit_nearest_first() {
    let (_folder, running) = news().await;
    let documents = (0..50).map(|n| document(&format!("d{n}"), &format!("text number {n}"))).collect();
    running.upsert("news", documents, Wait::Indexed).await.unwrap();
    for (limit, expect) in [(1, 1), (20, 20), (50, 50), (100, 50)] {
        let hits = running.search("news", request("text number 7", limit)).await.unwrap();
        assert_eq!(hits.len(), expect, "limit {limit}");
        assert_eq!(hits[0].id, id("d7"));
        assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
    }
}

#[tokio::test]
async fn deleted_documents_do_not_crowd_out_the_others() {
    let (_folder, running) = news().await;
    let documents = (0..200).map(|n| document(&format!("d{n}"), &format!("grey sea {n}"))).collect();
    running.upsert("news", documents, Wait::Indexed).await.unwrap();
    running.write("news", "left", "fresh bread").await;
    for n in 0..200 {
        running.delete("news", &id(&format!("d{n}"))).await.unwrap();
    }
    assert_eq!(running.found("news", "grey sea").await, ["left"]);
}

#[tokio::test]
async fn a_server_with_another_model_can_only_read_and_delete() {
    let (folder, running) = news().await;
    running.write("news", "a", "some words").await;
    running.write("news", "b", "some words").await;
    running.shutdown().await;
    let running = open_with(folder.path(), Setting { fake: FakeOptions::of(32), ..Setting::default() }).await;
    let search = running.search("news", request("some words", 1)).await.unwrap_err();
    assert_eq!(search.code(), Code::ModelMismatch);
    assert!(search.to_string().contains("fake-64") && search.to_string().contains("fake-32"), "{search}");
    let write = running.upsert("news", vec![document("c", "words")], Wait::Stored).await.unwrap_err();
    assert_eq!(write.code(), Code::ModelMismatch);
    assert_eq!(running.text("news", "a").await.as_deref(), Some("some words"));
    running.delete("news", &id("a")).await.unwrap();
    running.shutdown().await;
    let running = open(folder.path()).await;
    assert_eq!(running.found("news", "some words").await, ["b"]);
}
