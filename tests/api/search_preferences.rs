//! `prefer_language`: a preference among hits that are about as good, not a filter.

use serde_json::{Value, json};

use crate::search::{PATH, ids};
use crate::search_boosts::{QUERY, hit, search};
use crate::server::{Response, Server};

/// Six English documents, each slightly less similar to the query than the one before; a French and a German one nearly as good
/// as the first; a Japanese one about something else.
async fn with_sea() -> Server {
    let words: Vec<&str> = QUERY.split(' ').collect();
    let english = (0..6).map(|n| json!({"id": format!("en-{n}"), "text": words[..10 - n].join(" "), "language": "en"}));
    let others = [
        json!({"id": "fr", "text": format!("{} soir", words[1..].join(" ")), "language": "fr", "metadata": {"n": 1}}),
        json!({"id": "de", "text": format!("{} abend", words[1..].join(" ")), "language": "de", "metadata": {"n": 1}}),
        json!({"id": "ja", "text": "図書館は月曜日が休みです。", "language": "ja"}),
    ];
    Server::with_documents(english.chain(others).collect()).await
}

fn score(response: &Response, id: &str) -> Value {
    hit(response, id)["score"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn preferred_languages_win_among_similar_scores_in_every_mode() {
    let server = with_sea().await;
    for options in [
        json!({"mode": "full"}),
        json!({"mode": "dense"}),
        json!({"mode": "dense", "exact": true}),
        json!({"mode": "dense", "margin": {}}),
        json!({"mode": "lexical"}),
        json!({"mode": "hybrid"}),
    ] {
        let with = |language: &str| {
            let mut options = options.clone();
            options["prefer_language"] = json!([language]);
            options
        };
        let plain = search(&server, options.clone()).await;
        assert_eq!(ids(&plain)[0], "en-0", "{options}");
        let preferred = search(&server, with("fr-FR")).await;
        assert_eq!((ids(&preferred)[0], ids(&preferred).len()), ("fr", ids(&plain).len()), "{options}");
        assert_eq!(score(&preferred, "fr"), score(&plain, "fr"), "scores do not change: {options}");
        assert_eq!(ids(&search(&server, with("ja")).await)[0], "en-0", "a much better hit stays first: {options}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preferred_document_is_lifted_from_beyond_the_page() {
    let server = with_sea().await;
    for mode in ["full", "dense", "lexical", "hybrid"] {
        let page = search(&server, json!({"mode": mode, "limit": 1, "prefer_language": ["de"]})).await;
        assert_eq!(ids(&page), ["de"], "{mode}");
        let all = search(&server, json!({"mode": mode, "limit": 8, "prefer_language": ["de"]})).await;
        let rest = search(&server, json!({"mode": mode, "limit": 4, "offset": 4, "prefer_language": ["de"]})).await;
        assert_eq!(ids(&rest), ids(&all)[4..], "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_of_several_preferred_languages_ranks_highest() {
    let server = with_sea().await;
    for (languages, first) in [(["fr", "de"], ["fr", "de"]), (["de", "fr"], ["de", "fr"])] {
        let found = search(&server, json!({"mode": "dense", "prefer_language": languages})).await;
        assert_eq!(ids(&found)[..2], first);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn preferences_combine_with_filters_groups_and_score_min() {
    let server = with_sea().await;
    let options = json!({"mode": "dense", "prefer_language": ["de"], "filter": {"field": "n", "eq": 1}});
    assert_eq!(ids(&search(&server, options).await), ["de", "fr"]);
    let options = json!({"mode": "dense", "prefer_language": ["fr"], "group_by": {"field": "language"}, "limit": 2});
    assert_eq!(ids(&search(&server, options).await), ["fr", "en-0"]);
    let best = score(&search(&server, json!({"mode": "dense"})).await, "en-0").as_f64().expect("a score");
    let options = json!({"mode": "dense", "prefer_language": ["fr"], "score_min": best - 1e-6});
    assert_eq!(ids(&search(&server, options).await), ["en-0"], "a preference raises no score");
}

#[tokio::test(flavor = "multi_thread")]
async fn auto_prefers_the_language_of_the_query() {
    // Words that are their own stems, and a language without stemming rules: both are matched by the same number of forms.
    let query = "Le parc est ouvert ce matin avec un chat et un chien";
    let server = Server::with_documents(json!([
        {"id": "sw", "text": query, "language": "sw"},
        {"id": "fr", "text": format!("{query} demain"), "language": "fr"},
    ]))
    .await;
    for mode in ["full", "dense", "lexical", "hybrid"] {
        let plain = server.post(PATH, &json!({"query": query, "mode": mode})).await;
        assert_eq!(ids(&plain), ["sw", "fr"], "{mode}");
        let found = server.post(PATH, &json!({"query": query, "mode": mode, "prefer_language": ["auto"]})).await;
        assert_eq!(ids(&found), ["fr", "sw"], "{mode}");
    }
    let unknown = server.post(PATH, &json!({"query": "2026", "mode": "dense", "prefer_language": ["auto"]})).await;
    assert_eq!(ids(&unknown), ids(&server.post(PATH, &json!({"query": "2026", "mode": "dense"})).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn recommendations_honor_language_preferences() {
    let server = with_sea().await;
    let body = json!({"positive": {"texts": [QUERY]}, "limit": 1, "prefer_language": ["de"]});
    assert_eq!(ids(&server.post("/v1/collections/news/recommend", &body).await), ["de"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_preference_names_the_offending_field() {
    let server = with_sea().await;
    let check = async |options: Value, code: &str, place: &str, words: &[&str]| {
        search(&server, options).await.assert_error(422, code, place, words);
    };
    check(json!({"prefer_language": []}), "invalid_request", "/prefer_language", &["1 to 62", "got 0"]).await;
    check(json!({"prefer_language": vec!["fr"; 63]}), "invalid_request", "/prefer_language", &["1 to 62", "got 63"]).await;
    check(json!({"prefer_language": "fr"}), "invalid_request", "/prefer_language", &["expected an array"]).await;
    check(json!({"prefer_language": ["fr", "is"]}), "unknown_language", "/prefer_language/1", &["\"is\""]).await;
    check(json!({"prefer_language": ["french"]}), "invalid_request", "/prefer_language/0", &["BCP 47"]).await;
    let both = json!({"prefer_language": ["fr"], "balance_languages": true});
    check(both, "invalid_request", "/prefer_language", &["balance_languages"]).await;
    let like = json!({"like": "fr", "prefer_language": ["de", "auto"]});
    server.post(PATH, &like).await.assert_error(422, "invalid_request", "/prefer_language/1", &["auto", "query"]);
}
