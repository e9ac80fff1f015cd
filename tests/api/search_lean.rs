//! What hits contain by default: the best passage with its matching words marked, not the whole text.

use serde_json::{Value, json};

use crate::search::{PATH, documents, ids};
use crate::server::{Response, Server};

/// Ten documents of about 29 KB, each with one unique sentence.
fn long_documents() -> Value {
    let sentence = "The old ferry crosses the bay twice a day and carries bread, letters and bicycles to the islands. ";
    let text = |n: usize| format!("{0}A storm broke lantern {n} at the pier. {0}", sentence.repeat(150));
    (0..10)
        .map(|n| json!({"id": format!("d{n}"), "title": format!("Ferry {n}"), "text": text(n), "metadata": {"n": n}}))
        .collect()
}

/// The passage of the first hit, with its marks in brackets.
fn bracketed(response: &Response) -> String {
    assert_eq!(response.status, 200, "{}", response.text);
    let passage = &response.body["hits"][0]["passage"];
    let text: Vec<char> = passage["text"].as_str().expect("a passage").chars().collect();
    let place = |mark: &Value, end: &str| mark[end].as_u64().expect("a place") as usize;
    let mut shown = String::new();
    let mut reached = 0;
    for mark in passage["marks"].as_array().expect("marks") {
        let (start, end) = (place(mark, "start"), place(mark, "end"));
        assert!(reached <= start && start < end && end <= text.len(), "{passage}");
        shown.extend(&text[reached..start]);
        shown.extend(std::iter::once('[').chain(text[start..end].iter().copied()).chain([']']));
        reached = end;
    }
    shown.extend(&text[reached..]);
    shown
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_hits_from_long_documents_make_a_small_response() {
    let server = Server::with_documents(long_documents()).await;
    let lean = server.post(PATH, &json!({"query": "a storm at the pier"})).await;
    let parts = json!(["title", "text", "metadata", "passage"]);
    let whole = server.post(PATH, &json!({"query": "a storm at the pier", "include": parts})).await;
    assert_eq!((ids(&lean).len(), ids(&lean)), (10, ids(&whole)));
    assert!(whole.text.len() > 290_000, "{}", whole.text.len());
    assert!(lean.text.len() < 6_000, "{}", lean.text.len());
    for (lean, whole) in lean.body["hits"].as_array().expect("hits").iter().zip(whole.body["hits"].as_array().expect("hits")) {
        assert_eq!(
            (&lean["passage"], &lean["title"], &lean["metadata"]),
            (&whole["passage"], &whole["title"], &whole["metadata"])
        );
        assert!(lean.get("text").is_none() && whole["text"].as_str().is_some_and(|text| text.len() > 29_000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_recommendations_and_like_searches_return_lean_hits_too() {
    let server = Server::with_documents(documents()).await;
    let keys = |hit: &Value| hit.as_object().expect("a hit").keys().cloned().collect::<Vec<_>>();
    let expect = ["id", "score", "language", "metadata", "passage"];
    let batch = server.post("/v1/collections/news/search/batch", &json!({"searches": [{"query": "marché", "limit": 1}]})).await;
    assert_eq!(keys(&batch.body["results"][0]["hits"][0]), expect);
    let like = server.post(PATH, &json!({"like": "fr", "limit": 1})).await;
    assert_eq!(keys(&like.body["hits"][0]), expect);
    let examples = json!({"positive": {"texts": ["Le marché ouvre."]}, "limit": 1});
    let recommended = server.post("/v1/collections/news/recommend", &examples).await;
    assert_eq!(keys(&recommended.body["hits"][0]), expect);
}

#[tokio::test(flavor = "multi_thread")]
async fn query_words_are_marked_in_every_mode() {
    let server = Server::with_documents(documents()).await;
    for mode in ["full", "dense", "lexical", "hybrid"] {
        let marked = async |query: &str| bracketed(&server.post(PATH, &json!({"query": query, "mode": mode, "limit": 1})).await);
        assert_eq!(marked("Le MARCHE ouvre-t-il").await, "[Le] [marché] [ouvre] à sept heures.", "{mode}");
        assert_eq!(marked("図書館は").await, "[図書館は]月曜日が休みです。", "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mark_offsets_count_characters_within_the_passage() {
    let first = "👩‍👩‍👧 Das Meer ist heute grau und still und weit, und niemand geht am Strand entlang und sieht es. ";
    let second = "Am Abend kommt ein 🌪️ Sturm, und alle Boote liegen fest im Hafen.";
    let document = json!([{"id": "long", "text": format!("{first}{second}"), "language": "de"}]);
    let server = Server::with_documents(document).await;
    let response = server.post(PATH, &json!({"query": "sturm hafen", "mode": "lexical"})).await;
    assert!(response.body["hits"][0]["passage"]["start"].as_u64() > Some(50), "{}", response.text);
    let marked = bracketed(&response);
    assert!(marked.contains("🌪️ [Sturm], und"), "{marked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_marked_without_matching_query_words() {
    let server = Server::with_documents(documents()).await;
    let none = |response: Response| {
        assert_eq!(response.status, 200, "{}", response.text);
        let hits = response.body["hits"].as_array().expect("hits").clone();
        assert!(!hits.is_empty() && hits.iter().all(|hit| hit["passage"]["marks"] == json!([])), "{}", response.text);
    };
    none(server.post(PATH, &json!({"like": "fr"})).await);
    let examples = json!({"positive": {"texts": ["Le marché ouvre à sept heures."]}});
    none(server.post("/v1/collections/news/recommend", &examples).await);
    none(server.post(PATH, &json!({"query": "zzz", "mode": "dense"})).await);
}
