//! `known_pairs_complete` in mining: any pair that is not known is wrong.

use serde_json::{Value, json};

use crate::mining::{both, collection, mined, sentence, translation, with};
use crate::server::Server;

fn known(numbers: std::ops::Range<u64>) -> Vec<Value> {
    numbers.map(|n| json!({"first": format!("a{n}"), "second": format!("b{n}")})).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn any_pair_that_is_not_known_is_wrong_if_the_known_pairs_are_complete() {
    let server = Server::start();
    collection(&server, "one", (0..15).map(|n| (format!("a{n}"), sentence(n)))).await;
    let alone = (100..105).map(|n| (format!("b{n}"), sentence(n)));
    collection(&server, "other", (0..10).map(|n| (format!("b{n}"), translation(n))).chain(alone)).await;
    let complete = json!({"known_pairs": known(0..10), "known_pairs_complete": true});
    let (job, pairs) = mined(&server, &with(both(), complete)).await;
    let details = ["known_pairs", "judged", "precision", "recall", "f1"].map(|name| &job["details"][name]);
    assert_eq!(details, [&json!(10), &json!(10), &json!(1.0), &json!(1.0), &json!(1.0)], "{job}");
    assert_eq!(pairs.len(), 10);

    // If only some of them are said to be all, the others count as wrong.
    let (job, pairs) = mined(&server, &with(both(), json!({"known_pairs": known(0..2), "known_pairs_complete": true}))).await;
    let right = pairs.iter().filter(|pair| ["a0", "a1"].iter().any(|id| pair["first"]["id"] == *id)).count();
    assert_eq!(job["details"]["judged"], pairs.len(), "{job}");
    assert_eq!(job["details"]["precision"], json!(right as f64 / pairs.len() as f64), "{job}");
    let (job, pairs) = mined(&server, &with(both(), json!({"known_pairs": known(0..2)}))).await;
    assert_eq!(job["details"]["precision"], 1.0, "pairs of other sentences are not judged: {job}");
    assert!(job["details"]["judged"].as_u64() <= Some(2) && !pairs.is_empty(), "{job}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_known_pairs_can_be_complete() {
    let server = Server::start();
    for more in [json!({}), json!({"threshold": 1.2})] {
        let request = with(with(both(), json!({"known_pairs_complete": true})), more);
        let words = ["works with known_pairs only"];
        server.post("/v1/mine", &request).await.assert_error(422, "invalid_request", "/known_pairs_complete", &words);
    }
}
