//! `unit: sentence` in mining and duplicates: the sentences of whole documents, in all languages, each with its position.

use serde_json::{Value, json};

use crate::mining::{lines, sentence, translation};
use crate::server::Server;

/// A document with these sentences, each capitalized and ended with a full stop.
fn document(id: &str, language: &str, sentences: &[String]) -> Value {
    let text: Vec<String> = sentences.iter().map(|one| format!("{}{}.", one[..1].to_uppercase(), &one[1..])).collect();
    json!({"id": id, "language": language, "text": text.join(" ")})
}

async fn fill(server: &Server, name: &str, documents: &[Value]) {
    server.create(json!({"name": name})).await;
    let response = server.post(&format!("/v1/collections/{name}/documents"), &json!({"documents": documents})).await;
    assert_eq!(response.status, 200, "{}", response.text);
}

/// Fifteen German sentences in three documents and fifteen French ones in five, ten of them translations, in a different order.
async fn with_two() -> Server {
    let server = Server::start();
    let german = |at: u64| document(&format!("de{at}"), "de", &(at * 5..at * 5 + 5).map(sentence).collect::<Vec<_>>());
    fill(&server, "german", &[german(0), german(1), german(2)]).await;
    let french = |at: u64| {
        let numbers = [at, at + 5, at + 100];
        document(&format!("fr{at}"), "fr", &numbers.map(|n| if n < 100 { translation(n) } else { sentence(n) }))
    };
    fill(&server, "french", &(0..5).map(french).collect::<Vec<_>>()).await;
    server
}

async fn result(server: &Server, path: &str, request: &Value, what: &str) -> (Value, Vec<Value>) {
    let job = server.finished(&server.post(path, request).await).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    let response = server.get(&format!("/v1/jobs/{}/{what}", job["id"].as_str().expect("an id"))).await;
    (job, lines(&response))
}

fn request(threshold: f64) -> Value {
    json!({
        "first": {"collection": "german"}, "second": {"collection": "french"},
        "unit": "sentence", "threshold": threshold,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn sentences_of_documents_are_mined_with_their_positions() {
    let server = with_two().await;
    let (job, pairs) = result(&server, "/v1/mine", &request(1.25), "pairs").await;
    assert_eq!((&job["details"]["first_sentences"], &job["details"]["second_sentences"]), (&json!(15), &json!(15)));
    assert_eq!(pairs.len(), 10, "{pairs:?}");
    for pair in &pairs {
        for (side, of) in [("first", "german"), ("second", "french")] {
            let shown = &pair[side];
            let id = shown["id"].as_str().expect("an id");
            let whole = server.get(&format!("/v1/collections/{of}/documents/{id}")).await.body;
            let (start, end) = (shown["start"].as_u64().expect("a start"), shown["end"].as_u64().expect("an end"));
            let part: String =
                whole["text"].as_str().expect("a text").chars().skip(start as usize).take((end - start) as usize).collect();
            assert_eq!((shown["text"].as_str(), &shown["language"]), (Some(part.as_str()), &whole["language"]));
        }
    }
    // The first German document has sentences 0 to 4, whose translations are in five different French documents.
    let of_first = pairs.iter().filter(|pair| pair["first"]["id"] == "de0");
    let mut french: Vec<&str> = of_first.map(|pair| pair["second"]["id"].as_str().expect("an id")).collect();
    french.sort_unstable();
    assert_eq!(french, ["fr0", "fr1", "fr2", "fr3", "fr4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn known_pairs_must_name_single_sentence_documents() {
    let server = with_two().await;
    fill(&server, "single", &[document("one", "fr", &[translation(12)]), document("two", "fr", &[sentence(200), sentence(201)])])
        .await;
    let known = |first: &str, second: &str| {
        json!({
            "first": {"collection": "single"}, "second": {"collection": "french"}, "unit": "sentence", "neighbors": 2,
            "known_pairs": [{"first": first, "second": second}],
        })
    };
    for first in ["two", "none"] {
        let response = server.post("/v1/mine", &known(first, "fr0")).await;
        response.assert_error(422, "invalid_request", "/known_pairs/0/first", &["document of one sentence"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn identical_sides_are_refused_and_no_sentence_pairs_with_itself() {
    let server = with_two().await;
    let same = json!({"first": {"collection": "german"}, "second": {"collection": "german"}, "unit": "sentence"});
    server.post("/v1/mine", &same).await.assert_error(422, "invalid_request", "", &["same sentences"]);
    let documents = [
        document("a", "de", &(0..8).map(sentence).collect::<Vec<_>>()),
        document("b", "fr", &(0..8).map(translation).collect::<Vec<_>>()),
    ];
    fill(&server, "both", &documents).await;
    let request =
        json!({"first": {"collection": "both"}, "second": {"collection": "both", "languages": ["fr"]}, "unit": "sentence"});
    let (_, pairs) = result(&server, "/v1/mine", &request, "pairs").await;
    assert!(!pairs.is_empty());
    for pair in &pairs {
        assert_ne!(pair["first"]["text"], pair["second"]["text"], "{pair}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicate_sentences_are_found_across_documents_but_not_within_one() {
    let server = Server::start();
    let documents = [
        document("a", "de", &[sentence(1), sentence(2), sentence(2)]),
        document("b", "en", &[sentence(3), translation(1)]),
        document("c", "en", &[sentence(4), sentence(3)]),
        document("d", "en", &(50..70).map(sentence).collect::<Vec<_>>()),
    ];
    fill(&server, "mixed", &documents).await;
    let path = "/v1/collections/mixed/duplicates";
    let (job, clusters) = result(&server, path, &json!({"unit": "sentence", "score_min": 0.7}), "clusters").await;
    assert_eq!(job["details"]["sentences"], 27, "{job}");
    let mut members: Vec<Vec<&str>> = clusters
        .iter()
        .map(|cluster| {
            cluster["members"].as_array().expect("members").iter().map(|one| one["id"].as_str().expect("an id")).collect()
        })
        .collect();
    members.iter_mut().for_each(|ids| ids.sort_unstable());
    members.sort_unstable();
    assert_eq!(members, [["a", "b"], ["b", "c"]]);
}
