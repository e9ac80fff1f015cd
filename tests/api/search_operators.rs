//! Query operators, in every mode with lexical search: quoted phrases, excluded words, and requiring all words.

use serde_json::{Value, json};

use crate::search::{PATH, ids};
use crate::server::Server;

/// The modes with lexical search.
const MODES: [&str; 3] = ["lexical", "hybrid", "full"];

async fn with_sentences() -> Server {
    Server::with_documents(json!([
        {"id": "order", "language": "en", "text": "The old stone wall stands by the sea."},
        {"id": "mixed", "language": "en", "text": "The wall is made of stone, and it is old."},
        {"id": "other", "language": "en", "text": "An old harbour by the sea."},
        {"id": "accent", "language": "de", "text": "Ein schöner Garten am Meer."},
        {"id": "plain", "language": "de", "text": "Das Haus am Meer ist schon alt."},
        {"id": "zh", "language": "zh", "text": "北京大学的图书馆今天休息。"},
        {"id": "zh-2", "language": "zh", "text": "他在大学里想念北京。"},
        {"id": "ko", "language": "ko", "text": "중앙도서관에서 책을 빌렸습니다."},
        {"id": "he", "language": "he", "text": "דובר צה\"ל מסר הודעה הבוקר."},
    ]))
    .await
}

/// The ids of the hits, sorted; every mode must find the same ones.
async fn found_with(server: &Server, members: Value) -> Vec<String> {
    let mut by_mode = Vec::new();
    for mode in MODES {
        let mut body = members.clone();
        body["mode"] = json!(mode);
        let response = server.post(PATH, &body).await;
        assert_eq!(response.status, 200, "{}", response.text);
        let mut found: Vec<String> = ids(&response).into_iter().map(str::to_owned).collect();
        found.sort();
        by_mode.push(found);
    }
    assert!(by_mode.iter().all(|found| *found == by_mode[0]), "{members}: {by_mode:?}");
    by_mode.remove(0)
}

async fn found(server: &Server, query: &str) -> Vec<String> {
    found_with(server, json!({"query": query})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn quoted_phrases_match_only_in_word_order() {
    let server = with_sentences().await;
    for query in ["\"old stone wall\"", "„Old Stone Wall“ sea", "“old  stone, wall”", "«old stone wall» Garten"] {
        assert_eq!(found(&server, query).await, ["order"], "{query}");
    }
    assert_eq!(found(&server, "\"the sea\" \"old harbour\"").await, ["other"], "every phrase must be there");
    assert_eq!(found(&server, "\"北京大学\"").await, ["zh"]);
    assert_eq!(found(&server, "我找「大学」").await, ["zh", "zh-2"]);
    assert_eq!(found(&server, "\"도서관에서 책\"").await, ["ko"], "a quoted Korean phrase may end inside a longer word");
    assert_eq!(found(&server, "\"דובר צה\"ל מסר\"").await, ["he"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn quoted_phrases_respect_accents_but_not_case() {
    let server = with_sentences().await;
    assert_eq!(found(&server, "\"schöner\"").await, ["accent"]);
    assert_eq!(found(&server, "\"SCHON ALT\"").await, ["plain"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unmatched_phrase_finds_nothing_but_full_mode_falls_back() {
    let server = with_sentences().await;
    for query in ["\"stone wall old\"", "\"schoner\"", "\"каменная стена\""] {
        for mode in ["lexical", "hybrid"] {
            let response = server.post(PATH, &json!({"query": query, "mode": mode})).await;
            assert_eq!(ids(&response), [""; 0], "{query} in {mode}");
        }
        let full = server.post(PATH, &json!({"query": query})).await;
        assert_eq!(ids(&full).len(), 9, "{query}");
    }
    let minus = server.post(PATH, &json!({"query": "\"stone wall old\" -Meer"})).await;
    assert!(ids(&minus).len() == 7, "what is excluded stays out: {}", minus.text);
    let all = server.post(PATH, &json!({"query": "\"stone wall old\"", "words": "all"})).await;
    assert_eq!(ids(&all), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn full_mode_drops_a_phrase_found_only_in_filtered_out_documents() {
    let server = with_sentences().await;
    for query in ["\"stone wall\"", "\"stone wall old\""] {
        let german = server.post(PATH, &json!({"query": query, "languages": ["de"]})).await;
        assert_eq!(ids(&german).len(), 2, "{query}: {}", german.text);
        let others = json!({"query": query, "filter": {"field": "language", "in": ["de", "ko"]}});
        assert_eq!(ids(&server.post(PATH, &others).await).len(), 3, "{query}");
        let lexical = server.post(PATH, &json!({"query": query, "languages": ["de"], "mode": "lexical"})).await;
        assert_eq!(ids(&lexical), [""; 0], "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn words_after_a_minus_are_excluded() {
    let server = with_sentences().await;
    let with = async |query: &str| found_with(&server, json!({"query": query, "languages": ["en"]})).await;
    assert_eq!(with("old -harbour").await, ["mixed", "order"]);
    assert_eq!(with("old -harbour -\"by the sea\"").await, ["mixed"]);
    assert_eq!(
        with("old -\"wall stone\"").await,
        ["mixed", "order", "other"],
        "the excluded phrase does not occur in this order"
    );
    assert_eq!(with("\"by the sea\" -harbour").await, ["order"]);
    assert_eq!(
        found_with(&server, json!({"query": "Meer -schön", "languages": ["de"]})).await,
        ["accent", "plain"],
        "another word"
    );
    assert_eq!(found_with(&server, json!({"query": "大学 -休息", "languages": ["zh"]})).await, ["zh-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_can_require_every_word() {
    let server = with_sentences().await;
    let all = async |query: &str| found_with(&server, json!({"query": query, "words": "all"})).await;
    assert_eq!(all("wall stone").await, ["mixed", "order"]);
    assert_eq!(all("wall stone sea").await, ["order"]);
    assert_eq!(all("schoner Garten").await, ["accent"], "words without their accents are found");
    assert_eq!(all("北京 图书馆").await, ["zh"]);
    assert_eq!(all("wall stone -sea").await, ["mixed"]);
    let lexical = server.post(PATH, &json!({"query": "wall Garten", "words": "any", "mode": "lexical"})).await;
    assert_eq!(ids(&lexical).len(), 3, "one of the words is enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_and_filters_apply_together() {
    let server = with_sentences().await;
    let body = json!({"query": "\"am Meer\"", "languages": ["en", "de"], "filter": {"field": "id", "ne": "plain"}});
    assert_eq!(found_with(&server, body).await, ["accent"]);
    let turns = json!({"query": "old -harbour", "balance_languages": true, "languages": ["en", "ko"], "filter": {"field": "id", "ne": "ko"}});
    assert_eq!(found_with(&server, turns).await, ["mixed", "order"]);
    let exact = json!({"query": "Haus -Garten", "exact": true, "languages": ["de"], "mode": "hybrid"});
    assert_eq!(ids(&server.post(PATH, &exact).await), ["plain"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_are_removed_before_the_query_is_embedded() {
    let server = with_sentences().await;
    let scores = async |query: &str, operators: bool| {
        let body = json!({"query": query, "operators": operators, "mode": "hybrid", "explain": true, "filter": {"field": "id", "eq": "order"}});
        let response = server.post(PATH, &body).await;
        response.body["hits"][0]["explanation"]["dense"]["score"].as_f64().expect("a cosine")
    };
    let plain = scores("old stone wall sea", false).await;
    assert_eq!(scores("\"old stone wall\" sea", true).await, plain);
    assert_eq!(scores("old stone wall sea -harbour", true).await, plain);
    assert_ne!(scores("old stone wall sea -harbour", false).await, plain);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_are_plain_text_when_disabled_or_in_dense_mode() {
    let server = with_sentences().await;
    for mode in MODES {
        let body = json!({"query": "\"stone wall old\" -sea", "operators": false, "mode": mode, "languages": ["en"]});
        assert_eq!(ids(&server.post(PATH, &body).await).len(), 3, "{mode}");
    }
    let hits = async |query: &str| {
        let response = server.post(PATH, &json!({"query": query, "mode": "dense", "limit": 3})).await;
        assert_eq!(response.status, 200, "{}", response.text);
        response.body["hits"].clone()
    };
    assert_ne!(hits("\"old\" -sea").await, hits("old").await, "mode dense embeds the query as it is");
    assert_eq!(hits("-sea").await.as_array().map(Vec::len), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_operator_queries_and_options_are_refused() {
    let server = with_sentences().await;
    let check = async |body: Value, place: &str, words: &[&str]| {
        server.post(PATH, &body).await.assert_error(422, "invalid_request", place, words);
    };
    for mode in MODES {
        check(json!({"query": "-wind -\"old wall\"", "mode": mode}), "/query", &["besides excluded words", "operators"]).await;
    }
    let many: String = (0..201).map(|n| format!("w{n} ")).collect();
    check(json!({"query": many, "words": "all"}), "/query", &["at most 200", "201"]).await;
    check(json!({"query": format!("\"{many}\"")}), "/query", &["at most 200", "201", "operators"]).await;
    check(json!({"query": "a", "mode": "dense", "words": "all"}), "/words", &["full, lexical and hybrid only"]).await;
    check(json!({"query": "a", "words": "some"}), "/words", &["any", "all"]).await;
    check(json!({"like": "order", "operators": false}), "/operators", &["query"]).await;
    let batch = json!({"searches": [{"query": "sea"}, {"query": "-sea"}]});
    let response = server.post(&format!("{PATH}/batch"), &batch).await;
    response.assert_error(422, "invalid_request", "/searches/1/query", &["besides excluded words"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_option_that_a_passage_has_with_its_minus_is_no_exclusion() {
    let server = Server::with_documents(json!([
        {"id": "heap", "language": "en", "text": "Start the server with java -Xmx4g so that its heap may grow."},
        {"id": "dump", "language": "en", "text": "Write the heap to a file with jmap -dump:live,file=heap.bin"},
        {"id": "other", "language": "en", "text": "The Xmx8g heap of the java server is too small to dump."},
    ]))
    .await;
    let first = async |query: &str| {
        let response = server.post(PATH, &json!({"query": query, "mode": "lexical"})).await;
        ids(&response).first().map(|id| (*id).to_owned())
    };
    assert_eq!(first("java -Xmx4g").await.as_deref(), Some("heap"));
    assert_eq!(first("-Xmx4g").await.as_deref(), Some("heap"), "nothing but an option");
    assert_eq!(first("jmap -dump:live,file=other.bin").await.as_deref(), Some("dump"));
    assert_eq!(found(&server, "heap -Xmx8g").await, ["dump", "heap"], "no passage has it with a minus");
}
