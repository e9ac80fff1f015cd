//! What `/v1/collections/{collection}/duplicates` finds among vectors of any length, among equal texts in several languages, and
//! among more equal texts than a cluster holds; and what happens to damaged results.

use serde_json::{Value, json};

use crate::merged;
use crate::mining::{both, collection, lines, sentence, translation};
use crate::server::Server;

/// The sorted ids of each cluster.
async fn found(server: &Server, collection: &str, request: Value) -> Vec<Vec<String>> {
    let job = server.finished(&server.post(&format!("/v1/collections/{collection}/duplicates"), &request).await).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    let response = server.get(&format!("/v1/jobs/{}/clusters", job["id"].as_str().expect("an id"))).await;
    let members = |cluster: &Value| {
        let members = cluster["members"].as_array().expect("members").iter();
        let mut ids: Vec<String> = members.map(|member| member["id"].as_str().expect("an id").to_owned()).collect();
        ids.sort_unstable();
        ids
    };
    lines(&response).iter().map(members).collect()
}

/// A collection of eight-dimensional vectors that are compared by distance.
async fn points(server: &Server, name: &str, documents: &[Value]) {
    let new = json!({"name": name, "dimension": 8, "metric": "l2"});
    assert_eq!(server.post("/v1/collections", &new).await.status, 201);
    let response = server.post(&format!("/v1/collections/{name}/documents"), &json!({"documents": documents})).await;
    assert_eq!(response.status, 200, "{}", response.text);
}

/// A vector with this much along one axis and this much along another.
fn vector(axis: usize, value: f64, other: usize, other_value: f64) -> Vec<f64> {
    let value_at = |at: usize| if at == axis { value } else { f64::from(u8::from(at == other)) * other_value };
    (0..8).map(value_at).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicate_vectors_are_found_by_cosine_regardless_of_length() {
    let server = Server::start();
    for (name, length) in [("long", 20.0), ("short", 0.1)] {
        let of_axis = |n: usize| {
            // The cosine of the first and the third vector is 0.96, that of the last two 0.28.
            [
                json!({"id": format!("a{n}"), "vector": vector(n, length, n + 4, 0.0)}),
                json!({"id": format!("again{n}"), "vector": vector(n, length, n + 4, 0.0)}),
                json!({"id": format!("b{n}"), "vector": vector(n, 0.96 * length, n + 4, 0.28 * length)}),
                json!({"id": format!("other{n}"), "vector": vector(n + 4, length, n, 0.0)}),
            ]
        };
        points(&server, name, &(0..4).flat_map(of_axis).collect::<Vec<_>>()).await;
        let equal: Vec<Vec<String>> = (0..4).map(|n| vec![format!("a{n}"), format!("again{n}")]).collect();
        assert_eq!(found(&server, name, json!({"score_min": 0.97})).await, equal, "{name}");
        let near: Vec<Vec<String>> = (0..4).map(|n| vec![format!("a{n}"), format!("again{n}"), format!("b{n}")]).collect();
        assert_eq!(found(&server, name, json!({"score_min": 0.95})).await, near, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn short_vectors_with_exact_copies_are_still_paired_with_near_ones() {
    let server = Server::start();
    let (one, near) = (vector(0, 0.1, 1, 0.0), vector(0, 0.096, 1, 0.028));
    let documents = [
        json!({"id": "a", "vector": one}),
        json!({"id": "a-german", "vector": one, "language": "de"}),
        json!({"id": "b", "vector": near}),
        json!({"id": "b-french", "vector": near, "language": "fr"}),
    ];
    points(&server, "short", &documents).await;
    let pairs = found(&server, "short", json!({"score_min": 0.95, "pairs": "different"})).await;
    assert_eq!(pairs, [["a-german", "b-french"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_texts_are_paired_within_or_across_languages_as_requested() {
    let document = |id: &str, language: &str, text: String| json!({"id": id, "language": language, "text": text});
    let mut documents: Vec<Value> = (20..40).map(|n| document(&format!("x{n}"), "de", sentence(n))).collect();
    documents.extend([
        document("a-de", "de", sentence(1)),
        document("b-en", "en", sentence(1)),
        document("c-en", "en", sentence(1)),
        document("d-de", "de", sentence(2)),
        document("e-fr", "fr", sentence(2)),
        document("f-fr", "fr", translation(2)),
    ]);
    let server = Server::with_documents(documents.into()).await;
    let same = found(&server, "news", json!({"score_min": 0.75, "pairs": "same"})).await;
    assert_eq!(same, [["b-en", "c-en"], ["e-fr", "f-fr"]]);
    let different = found(&server, "news", json!({"score_min": 0.75, "pairs": "different"})).await;
    assert_eq!(different, [["a-de", "b-en", "c-en"], ["d-de", "e-fr", "f-fr"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_equal_texts_than_size_max_form_several_clusters() {
    let document = |n: u64| json!({"id": format!("copy{n}"), "text": sentence(1)});
    let others = (20..40).map(|n| json!({"id": format!("x{n}"), "text": sentence(n)}));
    let server = Server::with_documents((0..31).map(document).chain(others).collect::<Vec<_>>().into()).await;
    let clusters = found(&server, "news", json!({"size_max": 10})).await;
    let mut sizes: Vec<usize> = clusters.iter().map(Vec::len).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [7, 8, 8, 8]);
    let mut members: Vec<&String> = clusters.iter().flatten().collect();
    members.sort_unstable();
    members.dedup();
    assert!(members.len() == 31 && members.iter().all(|id| id.starts_with("copy")), "{clusters:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unit_document_compares_whole_documents() {
    let document = |id: &str, language: &str, texts: Vec<String>| json!({"id": id, "language": language, "text": texts.iter().map(|text| format!("{text}. ")).collect::<String>()});
    let (long, other) = (|| (0..6).map(sentence).collect::<Vec<_>>(), (20..26).map(sentence).collect());
    let mut documents = vec![document("a", "en", long()), document("b", "en", other)];
    // One document shares a sentence with the first, one reorders it, one translates it.
    documents.push(document("quotes", "en", std::iter::once(sentence(0)).chain((40..45).map(sentence)).collect()));
    documents.push(document("reversed", "en", long().into_iter().rev().collect()));
    documents.push(document("translated", "de", (0..6).map(translation).collect()));
    let server = Server::with_documents(documents.into()).await;
    let passages = server.get("/v1/collections/news").await.body["passages"].as_u64();
    assert!(passages > Some(5), "{passages:?}");
    let by_document = |rest: Value| merged(json!({"unit": "document"}), &rest);
    assert_eq!(found(&server, "news", by_document(json!({"score_min": 0.85}))).await, [["a", "reversed", "translated"]]);
    let same = by_document(json!({"score_min": 0.85, "pairs": "same"}));
    assert_eq!(found(&server, "news", same).await, [["a", "reversed"]]);
    assert_eq!(found(&server, "news", json!({"score_min": 0.85})).await, [["a", "translated"], ["a", "translated"]]);
    let response = server.post("/v1/collections/news/duplicates", &by_document(json!({"score_min": 0.85}))).await;
    assert_eq!((&response.body["details"]["documents"], response.body["details"].get("passages")), (&json!(5), None));
    let job = server.finished(&response).await;
    let clusters = lines(&server.get(&format!("/v1/jobs/{}/clusters", job["id"].as_str().expect("an id"))).await);
    assert_eq!(job["details"]["documents"], 5);
    let first = &clusters[0]["members"][0];
    assert!(
        first["text"].as_str().is_some_and(|text| text.len() > sentence(0).len() * 5) && first.get("start").is_none(),
        "{first}"
    );
    let refused = server.post("/v1/collections/news/duplicates", &json!({"unit": "chapter"})).await;
    refused.assert_error(422, "invalid_request", "/unit", &["unknown variant `chapter`", "`document`"]);
}

/// Cuts the results of a job in half, and checks that they are not sent.
async fn check_cut(server: &Server, job: &Value, results: &str) {
    let id = job["id"].as_str().expect("an id");
    let file = server._folder.path().join(format!("jobs/{id}/{results}.ndjson"));
    let whole = std::fs::read(&file).expect("results");
    std::fs::write(&file, &whole[..whole.len() / 2]).expect("cut");
    for name in [results, &format!("{results}.tsv")] {
        server.get(&format!("/v1/jobs/{id}/{name}")).await.assert_error(500, "internal", "", &["request id"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_that_have_lost_their_end_are_an_error() {
    let server = Server::start();
    let equal = |n: usize| ["a", "again"].map(|id| json!({"id": format!("{id}{n}"), "vector": vector(n, 1.0, n + 4, 0.0)}));
    points(&server, "short", &(0..4).flat_map(equal).collect::<Vec<_>>()).await;
    let job = server.finished(&server.post("/v1/collections/short/duplicates", &json!({"score_min": 0.97})).await).await;
    assert_eq!(job["details"]["clusters"], 4, "{job}");
    check_cut(&server, &job, "clusters").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mined_pairs_that_have_lost_their_end_are_an_error() {
    let server = Server::start();
    collection(&server, "one", (0..10).map(|n| (format!("a{n}"), sentence(n)))).await;
    collection(&server, "other", (0..10).map(|n| (format!("b{n}"), translation(n)))).await;
    let job = server.finished(&server.post("/v1/mine", &both()).await).await;
    assert!(job["details"]["pairs"].as_u64().is_some_and(|pairs| pairs > 3), "{job}");
    check_cut(&server, &job, "pairs").await;
}
