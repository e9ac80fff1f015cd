//! `skip_identical` in mining: an untranslated copy is not a translation, and a number has no other translation.

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

#[tokio::test(flavor = "multi_thread")]
async fn a_number_or_code_that_both_sides_have_is_in_no_pair() {
    const SHARED: [&str; 4] = ["12345", "2024-05-01", "AB-1234", "ab-1234"];
    let server = Server::start();
    let side = |from: fn(u64) -> String, codes: [&str; 4]| {
        let codes = codes.into_iter().map(str::to_owned);
        json!({"texts": codes.chain((0..8).map(from)).collect::<Vec<String>>()})
    };
    let sides = json!({
        "first": side(sentence, ["12345", "2024-05-01", "AB-1234", "777"]),
        "second": side(translation, ["2024-05-01", "12345", "ab-1234", "888"]),
    });
    let is_shared = |side: &Value| side["text"].as_str().is_some_and(|text| SHARED.contains(&text));
    for exact in [true, false] {
        for strategy in ["forward", "backward", "max_score"] {
            let (_, pairs) = mined(&server, &with(sides.clone(), json!({"exact": exact, "strategy": strategy}))).await;
            assert!(!pairs.iter().any(|pair| is_shared(&pair["first"]) || is_shared(&pair["second"])), "{pairs:?}");
            assert!((4..12).all(|n| has(&pairs, &n.to_string(), &n.to_string())), "{pairs:?}");
            let alone = pairs.iter().any(|pair| pair["first"]["text"] == "777");
            assert!(alone || strategy != "forward", "a number that only one side has may be in a pair: {pairs:?}");
        }
        let (_, pairs) = mined(&server, &with(sides.clone(), json!({"exact": exact, "skip_identical": false}))).await;
        assert!(has(&pairs, "0", "1") && has(&pairs, "1", "0"), "{pairs:?}");
    }
    // 12345 with a translation: such a known pair does not count.
    let known = |pairs: &[[&str; 2]]| {
        let pairs: Vec<Value> = pairs.iter().map(|[first, second]| json!({"first": first, "second": second})).collect();
        with(sides.clone(), json!({"known_pairs": pairs}))
    };
    let (job, _) = mined(&server, &known(&[["0", "4"], ["5", "5"]])).await;
    assert_eq!((&job["details"]["known_pairs"], &job["details"]["recall"]), (&json!(1), &json!(1.0)), "{job}");
    let job = server.finished(&server.post("/v1/mine", &known(&[["0", "4"]])).await).await;
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("invalid_request")), "{job}");
    assert!(job["error"]["detail"].as_str().expect("a detail").contains("code that both sides have"), "{job}");
}
