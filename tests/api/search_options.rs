//! Options that restrict and order hits: pages, scores, groups, balanced languages, margins, and what hits contain.

use dragoman::domain::Limits;
use serde_json::{Value, json};

use crate::merged;
use crate::search::{PATH, documents, ids};
use crate::search_boosts::QUERY;
use crate::server::{DIMENSION, Response, Server};

fn scores(response: &Response) -> Vec<f64> {
    response.body["hits"].as_array().expect("hits").iter().map(|hit| hit["score"].as_f64().expect("a score")).collect()
}

/// Ten English documents, each slightly less similar to the query than the one before, and two in other languages.
async fn with_sea() -> Server {
    let words: Vec<&str> = QUERY.split(' ').collect();
    let english = (0..10).map(|n| {
        let text = words[..10 - n].join(" ");
        json!({"id": format!("en-{n}"), "text": text, "language": "en", "metadata": {"topic": if n < 8 { "sea" } else { "town" }, "n": n}})
    });
    let others = [
        json!({"id": "fr-0", "text": "the grey sea rolls contre le mur", "language": "fr", "metadata": {"topic": "sea"}}),
        json!({"id": "de-0", "text": "the grey sea rolls gegen eine Mauer", "language": "de"}),
        json!({"id": "ja-0", "text": "図書館は月曜日が休みです。", "language": "ja"}),
    ];
    Server::with_documents(english.chain(others).collect()).await
}

async fn search(server: &Server, options: Value) -> Response {
    let body = merged(json!({"query": QUERY, "mode": "dense"}), &options);
    server.post(PATH, &body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_add_up_to_the_full_result_and_offsets_are_bounded() {
    let server = with_sea().await;
    let all = search(&server, json!({"limit": 13})).await;
    let all: Vec<String> = ids(&all).into_iter().map(str::to_owned).collect();
    assert_eq!(all.len(), 13);
    let mut paged = Vec::new();
    for offset in [0, 5, 10, 15] {
        let page = search(&server, json!({"limit": 5, "offset": offset})).await;
        paged.extend(ids(&page).into_iter().map(str::to_owned));
    }
    assert_eq!(paged, all);
    for (options, place, words) in [
        (json!({"offset": 991}), "/offset", "at most 990 (page_max minus limit), got 991"),
        (json!({"offset": u64::MAX, "limit": 1000}), "/offset", "at most 0"),
        (json!({"offset": -1}), "/offset", "at least 0, got -1"),
    ] {
        search(&server, options).await.assert_error(422, "invalid_request", place, &[words]);
    }
    assert_eq!(search(&server, json!({"offset": 990})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_the_wrong_type_is_refused_with_its_range() {
    let server = with_sea().await;
    for (options, place, words) in [
        (json!({"limit": 1.0}), "/limit", "invalid type: floating point `1.0`, expected an integer of at least 1"),
        (json!({"ef_search": "64"}), "/ef_search", "invalid type: string \"64\", expected an integer from 8 to 4096"),
    ] {
        search(&server, options).await.assert_error(422, "invalid_request", place, &[words]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hits_score_at_least_score_min() {
    let server = with_sea().await;
    let all = scores(&search(&server, json!({"limit": 13})).await);
    let found = scores(&search(&server, json!({"limit": 13, "score_min": all[4]})).await);
    assert_eq!(found, all[..5]);
    assert_eq!(ids(&search(&server, json!({"score_min": 1.1})).await), [""; 0]);
    search(&server, json!({"score_min": 1e39})).await.assert_error(422, "invalid_request", "/score_min", &["finite"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exact_search_scans_and_finds_the_same() {
    let server = with_sea().await;
    let plain = search(&server, json!({})).await;
    let exact = search(&server, json!({"explain": true, "exact": true})).await;
    assert_eq!((ids(&exact), &exact.body["explanation"]["method"]), (ids(&plain), &json!("scan")));
    let filtered = search(&server, json!({"exact": true, "filter": {"field": "topic", "eq": "town"}})).await;
    assert_eq!(ids(&filtered), ["en-8", "en-9"]);
}

/// Adds a thousand documents, and waits until searches scan: they begin to do so once no passage is being added.
async fn add_hills(server: &Server) {
    let more: Vec<Value> = (0..1_000).map(|n| json!({"id": format!("hill-{n}"), "text": format!("hill number {n}")})).collect();
    assert_eq!(server.post("/v1/collections/news/documents", &json!({"documents": more})).await.status, 200);
    for _ in 0..1_000 {
        if method(server).await == "scan" {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("searches still use the graph");
}

async fn method(server: &Server) -> Value {
    search(server, json!({"explain": true})).await.body["explanation"]["method"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_uses_the_graph_below_a_thousand_passages_and_scans_beyond() {
    let server = with_sea().await;
    assert_eq!(method(&server).await, "index");
    add_hills(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_in_full_mode_explains_the_scores_and_ranks_of_dense_mode() {
    let server = with_sea().await;
    add_hills(&server).await;
    let dense = search(&server, json!({"limit": 10})).await;
    let full = search(&server, json!({"mode": "full", "limit": 10, "explain": true})).await;
    assert_eq!(full.body["explanation"]["method"], "scan");
    let score = |id: &str| dense.body["hits"].as_array()?.iter().find(|hit| hit["id"] == id)?["score"].as_f64();
    let hits = full.body["hits"].as_array().expect("hits");
    let mut ranked: Vec<(u64, f64)> = Vec::new();
    for hit in hits {
        let (id, dense) = (hit["id"].as_str().expect("an id"), &hit["explanation"]["dense"]);
        let (Some(rank), Some(explained)) = (dense["rank"].as_u64(), dense["score"].as_f64()) else { continue };
        assert!(score(id).is_none_or(|score| (score - explained).abs() < 0.01), "{id}: {explained}, {:?}", score(id));
        ranked.push((rank, explained));
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    assert!(ranked.len() > 5 && ranked.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 >= pair[1].1), "{ranked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exact_search_refuses_ef_search() {
    let server = with_sea().await;
    let both = search(&server, json!({"exact": true, "ef_search": 96})).await;
    both.assert_error(422, "invalid_request", "/ef_search", &["/ef_search: must be left out with exact"]);
    assert_eq!(search(&server, json!({"exact": false, "ef_search": 96})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explanation_has_ranks_scores_and_times() {
    let server = with_sea().await;
    let response = search(&server, json!({"explain": true, "limit": 3})).await;
    let explanation = &response.body["explanation"];
    assert_eq!(explanation["candidates"], 3);
    for step in ["embedding_ms", "index_ms", "rows_ms"] {
        assert!(explanation[step].as_f64().is_some_and(|ms| ms > 0.0), "{step}: {explanation}");
    }
    for (place, hit) in response.body["hits"].as_array().expect("hits").iter().enumerate() {
        assert_eq!(hit["explanation"], json!({"dense": {"rank": place + 1, "score": hit["score"]}}));
    }
    let plain = search(&server, json!({})).await;
    assert!(plain.body["explanation"].is_null() && plain.body["hits"][0]["explanation"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn include_selects_the_parts_of_a_hit() {
    let server = Server::with_documents(documents()).await;
    let parts = async |include: Value| {
        let mut body = json!({"query": "marché", "limit": 1});
        body.as_object_mut().expect("an object").extend((!include.is_null()).then(|| ("include".to_owned(), include)));
        let response = server.post(PATH, &body).await;
        assert_eq!(response.status, 200, "{}", response.text);
        let hit = response.body["hits"][0].as_object().expect("a hit").clone();
        hit.keys().filter(|key| !["id", "score", "language"].contains(&key.as_str())).cloned().collect::<Vec<_>>()
    };
    assert_eq!(parts(json!(null)).await, ["metadata", "passage"]);
    assert_eq!(parts(json!([])).await, [""; 0]);
    assert_eq!(parts(json!(["vector"])).await, ["vector"]);
    assert_eq!(parts(json!(["passage", "vector", "text", "text"])).await, ["text", "passage", "vector"]);
    assert_eq!(parts(json!(["metadata"])).await, ["metadata"]);
    let response = server.post(PATH, &json!({"query": "marché", "include": ["vector"]})).await;
    assert_eq!(response.body["hits"][0]["vector"].as_array().map(Vec::len), Some(DIMENSION));
    let unknown = server.post(PATH, &json!({"query": "a", "include": ["text", "html"]})).await;
    unknown.assert_error(422, "invalid_request", "/include/1", &["unknown variant `html`", "`passage`"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_has_at_most_the_requested_number_of_hits() {
    let server = with_sea().await;
    let response = search(&server, json!({"group_by": {"field": "topic"}})).await;
    let found = ids(&response);
    assert_eq!(found.len(), 4, "sea, town, and two without a topic: {found:?}");
    assert_eq!((found[0], &response.body["hits"][0]["group"]), ("en-0", &json!("sea")));
    assert!(found.contains(&"en-8") && !found.contains(&"en-9") && found.contains(&"de-0") && found.contains(&"ja-0"));
    let response = search(&server, json!({"group_by": {"field": "language", "size": 2}, "limit": 13})).await;
    let english = ids(&response).iter().filter(|id| id.starts_with("en")).count();
    assert_eq!((english, ids(&response).len()), (2, 5));
    let two = search(&server, json!({"group_by": {"field": "metadata.topic"}, "limit": 2, "offset": 1})).await;
    assert_eq!(ids(&two).len(), 2, "looks further than the page for enough groups");
    for (group_by, place, words) in [
        (json!({"field": "id"}), "/group_by/field", "metadata.id"),
        (json!({"field": "a..b"}), "/group_by/field", "single dots"),
        (json!({"field": "topic", "size": 0}), "/group_by/size", "from 1 to 1000 (page_max), got 0"),
        (json!({"size": 2}), "/group_by/field", "missing field `field`"),
        (json!("topic"), "/group_by", "expected an object"),
    ] {
        search(&server, json!({"group_by": group_by})).await.assert_error(422, "invalid_request", place, &[words]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lexical_search_finds_groups_ranked_below_a_larger_group() {
    let of = |id: &str, text: &str, topic: &str| json!({"id": id, "text": text, "language": "en", "metadata": {"topic": topic}});
    let documents =
        json!([of("a1", "rain", "a"), of("a2", "rain rain", "a"), of("b", "rain on a long grey afternoon by the sea", "b")]);
    let server = Server::with_documents(documents).await;
    let response = search(&server, json!({"query": "rain", "mode": "lexical", "limit": 2, "group_by": {"field": "topic"}})).await;
    let topics: Vec<_> = response.body["hits"].as_array().expect("hits").iter().map(|hit| &hit["group"]).collect();
    assert_eq!(topics, ["a", "b"], "{}", response.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn balance_languages_includes_distant_documents_without_a_language() {
    let english =
        (0..20).map(|n| json!({"id": format!("en-{n}"), "text": format!("the grey sea rolls {}", 100 + n), "language": "en"}));
    let server = Server::with_documents(english.chain([json!({"id": "none", "text": "7 8 9 10 11 12"})]).collect()).await;
    assert_eq!(server.get("/v1/collections/news/documents/none").await.body["language"], json!(null));
    let page = async |offset: usize| {
        let options = json!({"query": "the grey sea 7 8 9", "balance_languages": true, "limit": 10, "offset": offset});
        ids(&search(&server, options).await).iter().map(|id| (*id).to_owned()).collect::<Vec<_>>()
    };
    let pages = [page(0).await, page(10).await, page(20).await].concat();
    let distinct: std::collections::BTreeSet<&String> = pages.iter().collect();
    assert_eq!((pages.len(), distinct.len()), (21, 21), "{pages:?}");
    assert!(pages[..10].contains(&"none".to_owned()), "{pages:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn balanced_groups_are_filled_even_if_a_language_is_below_score_min() {
    let server = with_sea().await;
    let town = scores(&search(&server, json!({"limit": 13, "languages": ["en"]})).await)[8];
    // No Japanese document reaches the score, which says nothing about English.
    let options = json!({
        "languages": ["en", "ja"], "balance_languages": true, "limit": 2, "score_min": town - 0.01, "group_by": {"field": "topic"},
    });
    assert_eq!(ids(&search(&server, options).await), ["en-0", "en-8"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_found_beyond_documents_whose_margin_is_too_low() {
    let document = |id: &str, text: &str, topic: &str| json!({"id": id, "text": text, "metadata": {"topic": topic}});
    let crowd = (0..10).map(|n| document(&format!("crowd-{n}"), &format!("the grey sea rolls {n}"), "sea"));
    let alone = document("alone", "ein brauner Bär", "bear");
    let server = Server::with_documents(crowd.chain([alone]).collect()).await;
    let request = |limit: usize, score_min: f64| {
        json!({
            "query": "the grey sea rolls und ein Bär", "margin": {}, "limit": limit, "score_min": score_min,
            "group_by": {"field": "topic"},
        })
    };
    let all = server.post(PATH, &request(11, 0.0)).await;
    assert_eq!((ids(&all)[0], ids(&all).len()), ("alone", 2), "{}", all.text);
    // The nearest few belong to the crowd, and none of them reaches the score.
    assert_eq!(ids(&server.post(PATH, &request(1, scores(&all)[0] - 0.01)).await), ["alone"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn balance_languages_alternates_languages() {
    let server = with_sea().await;
    let plain = search(&server, json!({"limit": 4})).await;
    assert!(ids(&plain).iter().all(|id| id.starts_with("en")), "English fills the page: {:?}", ids(&plain));
    for options in [json!({"limit": 4}), json!({"limit": 4, "mode": "hybrid"})] {
        let mut options = options;
        options["balance_languages"] = json!(true);
        let found = search(&server, options.clone()).await;
        let mut first: Vec<&str> = ids(&found)[..3].to_vec();
        first.sort_unstable();
        assert_eq!((first, ids(&found)[3]), (vec!["de-0", "en-0", "fr-0"], "en-1"), "{options}");
    }
    let words = json!({"query": "the grey sea rolls", "mode": "lexical", "balance_languages": true, "limit": 4});
    let found = search(&server, words).await;
    let mut languages: Vec<&str> = ids(&found).iter().map(|id| &id[..2]).collect();
    languages[..3].sort_unstable();
    assert_eq!(languages, ["de", "en", "fr", "en"]);
    let all = search(&server, json!({"limit": 13, "balance_languages": true})).await;
    assert_eq!((ids(&all).len(), ids(&all).last()), (13, Some(&"ja-0")), "a distant hit comes last, whatever its language");
    let two = search(&server, json!({"limit": 2, "balance_languages": true, "languages": ["en", "de", "de"]})).await;
    assert_eq!(ids(&two), ["en-0", "de-0"]);
    let rest = search(&server, json!({"limit": 9, "offset": 4, "balance_languages": true})).await;
    assert_eq!(ids(&rest), ids(&all)[4..]);
}

/// Documents that are all alike are similar to everything. The margin accounts for that, the cosine does not.
#[tokio::test(flavor = "multi_thread")]
async fn the_margin_favors_documents_that_stand_out_from_their_neighbors() {
    let crowd = (0..6).map(|n| json!({"id": format!("crowd-{n}"), "text": format!("the grey sea rolls {n}"), "language": "en"}));
    let alone = json!({"id": "alone", "text": "ein brauner Bär", "language": "de"});
    let server = Server::with_documents(crowd.chain([alone]).collect()).await;
    let query = "the grey sea und ein Bär";
    let plain = server.post(PATH, &json!({"query": query, "mode": "dense"})).await;
    assert!(ids(&plain)[0].starts_with("crowd"), "{:?}", ids(&plain));
    let rescored = server.post(PATH, &json!({"query": query, "margin": {}, "explain": true})).await;
    assert_eq!((ids(&rescored)[0], ids(&rescored).len()), ("alone", 7), "{}", rescored.text);
    assert!(scores(&rescored).is_sorted_by(|a, b| a >= b));
    let hit = &rescored.body["hits"][0];
    assert_ne!(hit["score"], hit["explanation"]["dense"]["score"], "the cosine stays visible");
    for neighbors in [0, 33] {
        let response = server.post(PATH, &json!({"query": "a", "margin": {"neighbors": neighbors}})).await;
        response.assert_error(422, "invalid_request", "/margin/neighbors", &["from 1 to 32"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_margin_works_in_collections_of_zero_or_one_document() {
    let server = Server::with_news().await;
    assert_eq!(ids(&server.post(PATH, &json!({"query": "a", "margin": {}})).await), [""; 0]);
    server.post("/v1/collections/news/documents", &json!({"documents": [{"id": "one", "text": "grey sea"}]})).await;
    let response = server.post(PATH, &json!({"query": "grey sea", "margin": {"neighbors": 2}})).await;
    assert_eq!((ids(&response), scores(&response)), (vec!["one"], vec![1.0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_response_is_refused_with_a_hint_to_shrink_it() {
    let server = Server::with_limits(Limits { answer_bytes_max: 3_000, ..Limits::default() });
    server.create(json!({"name": "news"})).await;
    let text = "grey sea ".repeat(120);
    let documents: Vec<Value> = (0..5).map(|n| json!({"id": format!("d{n}"), "text": text})).collect();
    assert_eq!(server.post("/v1/collections/news/documents", &json!({"documents": documents})).await.status, 200);
    let response = server.post(PATH, &json!({"query": "sea", "include": ["text"]})).await;
    response.assert_error(422, "answer_too_large", "", &["at most 3000", "limit", "include"]);
    assert_eq!(ids(&server.post(PATH, &json!({"query": "sea", "limit": 2, "include": ["text"]})).await).len(), 2);
    assert_eq!(ids(&server.post(PATH, &json!({"query": "sea"})).await).len(), 5);
    let vectors = server.post(PATH, &json!({"query": "sea", "include": ["vector"]})).await;
    vectors.assert_error(422, "answer_too_large", "", &["3840 bytes"]);
    let twice = json!({"searches": vec![json!({"query": "sea", "limit": 2, "include": ["text"]}); 2]});
    server.post("/v1/collections/news/search/batch", &twice).await.assert_error(422, "answer_too_large", "", &["at most 3000"]);
}
