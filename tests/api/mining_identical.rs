//! `skip_identical` in mining: an untranslated copy is no translation.

use serde_json::{Value, json};

use crate::mining::{both, collection, mined, sentence, translation, with};
use crate::server::Server;

fn has(pairs: &[Value], first: &str, second: &str) -> bool {
    pairs.iter().any(|pair| pair["first"]["id"] == first && pair["second"]["id"] == second)
}

#[tokio::test(flavor = "multi_thread")]
async fn identical_texts_are_no_pair_unless_requested() {
    const COPIED: [u64; 5] = [0, 1, 12, 13, 14];
    let server = Server::start();
    collection(&server, "one", (0..15).map(|n| (format!("a{n}"), sentence(n)))).await;
    let copies = COPIED.map(|n| (format!("copy{n}"), sentence(n)));
    collection(&server, "other", (0..10).map(|n| (format!("b{n}"), translation(n))).chain(copies)).await;
    for exact in [true, false] {
        let (_, pairs) = mined(&server, &with(both(), json!({"exact": exact}))).await;
        assert!(pairs.iter().all(|pair| pair["first"]["text"] != pair["second"]["text"]), "{pairs:?}");
        // A copy does not take the place of the translation.
        assert!((0..10).all(|n| has(&pairs, &format!("a{n}"), &format!("b{n}"))), "{pairs:?}");

        let (_, pairs) = mined(&server, &with(both(), json!({"exact": exact, "skip_identical": false}))).await;
        assert!(COPIED.iter().all(|n| has(&pairs, &format!("a{n}"), &format!("copy{n}"))), "{pairs:?}");
        assert!((0..2).all(|n| !has(&pairs, &format!("a{n}"), &format!("b{n}"))), "{pairs:?}");
    }
    let known = json!({"known_pairs": [{"first": "a0", "second": "copy0"}, {"first": "a1", "second": "copy1"}]});
    let job = server.finished(&server.post("/v1/mine", &with(both(), known)).await).await;
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("invalid_request")), "{job}");
    assert!(job["error"]["detail"].as_str().expect("a detail").contains("identical texts"), "{job}");
}
