//! `boosts` and `diversity`: what moves hits, and how far.

use serde_json::{Value, json};

use crate::merged;
use crate::search::{PATH, ids};
use crate::server::{Response, Server};

pub const QUERY: &str = "the grey sea rolls against an old harbor wall tonight";

/// Eight documents, each slightly less similar to the query than the one before; two of them in French.
async fn with_sea() -> Server {
    let words: Vec<&str> = QUERY.split(' ').collect();
    let document = |n: usize| {
        let metadata = json!({"n": n, "published": format!("2026-01-{:02}T12:00:00Z", n + 1), "even": n.is_multiple_of(2)});
        let language = if n < 6 { "en" } else { "fr" };
        json!({"id": format!("d{n}"), "text": words[..10 - n].join(" "), "language": language, "metadata": metadata})
    };
    Server::with_documents((0..8).map(document).collect()).await
}

pub async fn search(server: &Server, options: Value) -> Response {
    let body = merged(json!({"query": QUERY}), &options);
    server.post(PATH, &body).await
}

pub fn hit<'a>(response: &'a Response, id: &str) -> &'a Value {
    let hits = response.body["hits"].as_array().expect("hits");
    hits.iter().find(|hit| hit["id"] == id).unwrap_or(&Value::Null)
}

fn score(response: &Response, id: &str) -> f64 {
    hit(response, id)["score"].as_f64().expect("a score")
}

/// A boost of the document with this number.
fn of(n: usize, weight: f64) -> Value {
    json!({"filter": {"field": "n", "eq": n}, "weight": weight})
}

/// The boosted score.
fn boosted_score(score: f64, factor: f64, mode: &Value) -> f64 {
    if mode == "full" { score * factor / (score * factor + 1.0 - score) } else { score * factor }
}

#[tokio::test(flavor = "multi_thread")]
async fn boosts_follow_their_formula_in_every_mode_and_explain_shows_each() {
    let server = with_sea().await;
    for options in [
        json!({"mode": "full"}),
        json!({"mode": "dense"}),
        json!({"mode": "dense", "margin": {}}),
        json!({"mode": "lexical"}),
        json!({"mode": "hybrid"}),
    ] {
        let with = |boosts: Value| {
            let mut options = options.clone();
            options["boosts"] = boosts;
            options["explain"] = json!(true);
            options
        };
        let plain = search(&server, options.clone()).await;
        assert_eq!(ids(&plain)[0], "d0", "{options}");
        let boosted = search(&server, with(json!([of(2, 50.0), of(0, 0.5), {"filter": {"and": []}, "weight": 2.0}]))).await;
        assert_eq!(ids(&boosted)[0], "d2", "{options}");
        for (id, factors) in [("d2", [50.0, 1.0, 2.0]), ("d0", [1.0, 0.5, 2.0]), ("d1", [1.0, 1.0, 2.0])] {
            let (from, factor) = (score(&plain, id), factors.iter().product::<f64>());
            let expect = boosted_score(from, factor, &options["mode"]);
            assert!((score(&boosted, id) - expect).abs() < 1e-4 * expect, "{id} {options}: {}", boosted.text);
            let explained = &hit(&boosted, id)["explanation"]["boosted"];
            assert_eq!(explained["factors"], json!(factors), "{id} {options}");
            assert!((explained["from"].as_f64().expect("a score") - from).abs() < 1e-6, "{id} {options}");
        }
        assert_eq!(hit(&plain, "d0").get("explanation"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_boost_applies_to_exactly_the_documents_the_filter_finds() {
    let server = with_sea().await;
    for filter in [
        json!({"field": "n", "in": [1, 4, 7]}),
        json!({"not": {"field": "even", "eq": true}}),
        json!({"or": [{"field": "language", "eq": "fr"}, {"field": "published", "lt": "2026-01-03"}]}),
        json!({"field": "id", "prefix": "d"}),
        json!({"field": "missing", "exists": true}),
        json!({"and": [{"field": "created_at", "gt": "2020-01-01T00:00:00Z"}, {"field": "n", "gte": 3}]}),
    ] {
        let mut found: Vec<String> = Vec::new();
        for hit in search(&server, json!({"mode": "dense", "filter": filter})).await.body["hits"].as_array().expect("hits") {
            found.push(hit["id"].as_str().expect("an id").to_owned());
        }
        let boosts = json!([{"filter": filter, "weight": 3}]);
        let boosted = search(&server, json!({"mode": "dense", "boosts": boosts, "explain": true})).await;
        for id in ids(&boosted) {
            let expect = if found.iter().any(|one| one == id) { 3.0 } else { 1.0 };
            assert_eq!(hit(&boosted, id)["explanation"]["boosted"]["factors"], json!([expect]), "{id} {filter}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn decay_boosts_grow_as_a_date_or_number_nears_the_origin() {
    let text = |id: &str, metadata: Value| json!({"id": id, "text": QUERY, "metadata": metadata});
    let server = Server::with_documents(json!([
        text("none", json!({})),
        text("other", json!({"at": "soon", "n": "3"})),
        text("old", json!({"at": "2025-11-01", "n": -40})),
        text("day", json!({"at": "2026-01-30T00:00:00+02:00", "n": 3})),
        text("new", json!({"at": "2026-01-31T00:00:00Z", "n": 5})),
        text("later", json!({"at": "2026-02-20", "n": 14})),
    ]))
    .await;
    let expect = ["new", "day", "later", "old", "none", "other"];
    for mode in ["full", "dense", "lexical", "hybrid"] {
        for (field, origin) in [("at", json!("2026-01-31")), ("n", json!(5))] {
            for shape in ["half_life", "scale"] {
                let boosts = json!([{"field": field, "decay": {"origin": origin, shape: 30}, "weight": 3}]);
                let found = search(&server, json!({"mode": mode, "boosts": boosts, "explain": true})).await;
                // The ranked lists of `hybrid` give equal texts different ranks.
                if mode != "hybrid" {
                    assert_eq!(ids(&found)[..4], expect[..4], "{mode} {field} {shape}");
                }
                let factor = |id: &str| hit(&found, id)["explanation"]["boosted"]["factors"][0].as_f64().expect("a factor");
                assert_eq!([factor("new"), factor("none"), factor("other")], [3.0, 1.0, 1.0], "{mode} {field} {shape}");
                assert!(expect[..4].is_sorted_by(|a, b| factor(a) > factor(b)), "{mode} {field} {shape}: {}", found.text);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_decay_origin_defaults_to_now() {
    let server = with_sea().await;
    let check = async |decay: Value| {
        let boosts = json!([{"field": "updated_at", "decay": decay, "weight": 4}]);
        let found = search(&server, json!({"mode": "dense", "boosts": boosts, "explain": true})).await;
        let factor = hit(&found, "d0")["explanation"]["boosted"]["factors"][0].as_f64().expect("a factor");
        assert!((3.9..=4.0).contains(&factor), "{}", found.text);
    };
    check(json!({"half_life": 30})).await;
    check(json!({"half_life": 30, "origin": "now"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn boosts_lift_hits_from_beyond_the_page_and_pages_stay_consistent() {
    let server = with_sea().await;
    for mode in ["full", "dense", "lexical", "hybrid"] {
        let options =
            |limit: usize, offset: usize| json!({"mode": mode, "limit": limit, "offset": offset, "boosts": [of(2, 100.0)]});
        assert_eq!(ids(&search(&server, options(1, 0)).await), ["d2"], "{mode}");
        let all = search(&server, options(8, 0)).await;
        assert_eq!(ids(&search(&server, options(3, 3)).await), ids(&all)[3..6], "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn boosted_relevance_stays_in_0_to_1_and_score_min_applies_after_boosts() {
    let server = with_sea().await;
    let strongest: Vec<Value> = vec![json!({"filter": {"and": []}, "weight": 100.0}); 10];
    let found = search(&server, json!({"boosts": strongest})).await;
    assert_eq!(ids(&found), ids(&search(&server, json!({})).await), "all alike, the order stays");
    assert!(ids(&found).iter().all(|id| (0.0..=1.0).contains(&score(&found, id))), "{}", found.text);
    let plain = search(&server, json!({"mode": "dense"})).await;
    let (best, third) = (score(&plain, "d0"), score(&plain, "d3"));
    let options = |weight: f64| json!({"mode": "dense", "score_min": best + 0.01, "boosts": [of(3, weight)]});
    assert_eq!(ids(&search(&server, options(2.0 * best / third)).await), ["d3"]);
    assert_eq!(ids(&search(&server, options(1.0)).await), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn boosts_combine_with_filters_groups_and_language_options() {
    let server = with_sea().await;
    let boosts = json!([of(1, 100.0)]);
    let found = async |options: Value| {
        let mut options = options;
        options["boosts"] = boosts.clone();
        let response = search(&server, options).await;
        ids(&response).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for mode in ["full", "dense", "lexical", "hybrid"] {
        let even = json!({"mode": mode, "filter": {"field": "even", "eq": true}, "limit": 2});
        assert_eq!(found(even).await, ["d0", "d2"], "{mode}: a boost adds no hit");
        let groups = json!({"mode": mode, "group_by": {"field": "even"}, "limit": 2});
        assert_eq!(found(groups).await, ["d1", "d0"], "{mode}");
        // In lexical mode the other language's best hit scores less than half of the best, so it is not alternated.
        if mode != "lexical" {
            let turns = json!({"mode": mode, "balance_languages": true, "limit": 1});
            assert_eq!(found(turns).await, ["d1"], "{mode}");
        }
        let preferring = json!({"mode": mode, "prefer_language": ["fr"], "limit": 1});
        // The best relevance is 1, which is not a quarter better than a value just below it.
        if mode != "full" {
            assert_eq!(found(preferring).await, ["d1"], "{mode}: a hundredfold score is far better than a preferred one");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recommendations_and_batches_accept_boosts_and_diversity() {
    let server = with_sea().await;
    let body = json!({"positive": {"texts": [QUERY]}, "limit": 1, "boosts": [of(4, 100.0)], "diversity": 0.1});
    assert_eq!(ids(&server.post("/v1/collections/news/recommend", &body).await), ["d4"]);
    let one = json!({"query": QUERY, "limit": 1, "boosts": [of(4, 100.0)], "diversity": 0.1});
    let batch = server.post(&format!("{PATH}/batch"), &json!({"searches": [one, {"query": QUERY}]})).await;
    let first = |index: usize| batch.body["results"][index]["hits"][0]["id"].clone();
    assert_eq!((first(0), first(1)), (json!("d4"), json!("d0")), "{}", batch.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_boost_names_every_offending_field() {
    let server = with_sea().await;
    let check = async |options: Value, code: &str, places: &[&str], words: &[&str]| {
        let response = search(&server, options).await;
        response.assert_error(422, code, places[0], &words[..1]);
        assert_eq!(response.places(), places, "{}", response.text);
        assert!(words.iter().all(|word| response.text.contains(word)), "{words:?}: {}", response.text);
    };
    let bad = "invalid_request";
    let decay = json!({"half_life": 1});
    check(json!({"boosts": []}), bad, &["/boosts"], &["1 to 10", "got 0"]).await;
    check(json!({"boosts": vec![of(1, 2.0); 11]}), bad, &["/boosts"], &["1 to 10", "got 11"]).await;
    check(json!({"boosts": [{}]}), bad, &["/boosts/0"], &["filter, or field with decay", "got neither"]).await;
    let both = json!({"filter": {"and": []}, "field": "n", "decay": decay});
    check(json!({"boosts": [both]}), bad, &["/boosts/0"], &["got both"]).await;
    check(json!({"boosts": [{"field": "n"}]}), bad, &["/boosts/0/decay"], &["a field needs it"]).await;
    check(json!({"boosts": [{"decay": decay}]}), bad, &["/boosts/0/field"], &["decay needs it"]).await;
    let id = json!({"field": "id", "decay": decay});
    check(json!({"boosts": [id]}), bad, &["/boosts/0/field"], &["a metadata path, created_at or updated_at", "id"]).await;
    let number = json!({"field": "created_at", "decay": {"half_life": 1, "origin": 5}});
    check(json!({"boosts": [number]}), bad, &["/boosts/0/decay/origin"], &["for created_at, got a number"]).await;
    let filter = json!({"filter": {"field": "n", "eq": null}});
    check(json!({"boosts": [of(1, 2.0), filter]}), "invalid_filter", &["/boosts/1/filter/eq"], &["got null"]).await;
    let several = json!({"boosts": [
        {"field": "n", "decay": {"origin": "soon", "half_life": 0, "scale": 1}, "weight": 1000},
        {"field": "n", "decay": {"origin": [], "scale": -1}},
    ], "diversity": 1.5, "limit": 0});
    let places = [
        "/limit",
        "/boosts/0/decay/origin",
        "/boosts/0/decay",
        "/boosts/0/weight",
        "/boosts/1/decay/origin",
        "/boosts/1/decay/scale",
        "/diversity",
    ];
    let words =
        ["from 1 to 1000", "soon", "exactly one of half_life and scale", "0.01 to 100", "got an array", "above 0", "0 to 1"];
    check(several, bad, &places, &words).await;
    let turns = json!({"diversity": 0.5, "balance_languages": true});
    check(turns, bad, &["/diversity"], &["balance_languages"]).await;
    let searches = json!({"searches": [{"query": QUERY}, {"query": QUERY, "boosts": [{}]}]});
    let batch = server.post(&format!("{PATH}/batch"), &searches).await;
    batch.assert_error(422, bad, "/searches/1/boosts/0", &["got neither"]);
}

/// Three points close to each other and to the target, one farther off to the side, one in another direction.
async fn with_points(metric: &str) -> Server {
    let server = Server::start();
    let created = server.post("/v1/collections", &json!({"name": "points", "dimension": 3, "metric": metric})).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let points = json!([
        {"id": "a", "vector": [1.0, 0.1, 0.0], "metadata": {"side": 1}},
        {"id": "b", "vector": [1.0, 0.12, 0.0], "metadata": {"side": 1}},
        {"id": "c", "vector": [1.0, 0.14, 0.0], "metadata": {"side": 1}},
        {"id": "side", "vector": [0.7, -0.7, 0.1], "metadata": {"side": 2}},
        {"id": "far", "vector": [-0.3, 0.1, 1.0], "metadata": {"side": 3}},
    ]);
    let stored = server.post("/v1/collections/points/documents", &json!({"documents": points})).await;
    assert_eq!(stored.status, 200, "{}", stored.text);
    server
}

async fn near(server: &Server, options: Value) -> Response {
    let body = merged(json!({"vector": [1.0, 0.0, 0.0]}), &options);
    server.post("/v1/collections/points/search", &body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn diversity_moves_dissimilar_hits_up_under_every_metric() {
    for metric in ["cosine", "dot", "l2"] {
        let server = with_points(metric).await;
        let plain = near(&server, json!({})).await;
        assert_eq!(ids(&plain), ["a", "b", "c", "side", "far"], "{metric}");
        assert_eq!(ids(&near(&server, json!({"diversity": 0})).await), ids(&plain), "{metric}");
        let diverse = near(&server, json!({"diversity": 0.9, "explain": true})).await;
        assert_eq!(ids(&diverse)[0], "a", "{metric}: the best stays first");
        assert!(!["b", "c"].contains(&ids(&diverse)[1]), "{metric}: {}", diverse.text);
        assert_eq!(score(&diverse, "b"), score(&plain, "b"), "{metric}: scores stay what they are");
        let similarity = |id: &str| hit(&diverse, id)["explanation"]["similarity"].as_f64();
        assert_eq!(similarity("a"), None, "{metric}");
        assert!(similarity("c").is_some_and(|cosine| cosine > 0.99), "{metric}: {}", diverse.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn diversity_lifts_hits_from_beyond_the_page_and_pages_stay_consistent() {
    let server = with_points("cosine").await;
    let all = near(&server, json!({"diversity": 0.5})).await;
    assert_eq!(ids(&all)[..2], ["a", "side"]);
    for offset in 0..4 {
        let page = near(&server, json!({"diversity": 0.5, "limit": 2, "offset": offset})).await;
        assert_eq!(ids(&page), ids(&all)[offset..offset + 2], "{offset}");
    }
    let groups = near(&server, json!({"diversity": 0.5, "group_by": {"field": "side"}})).await;
    assert_eq!(ids(&groups), ["a", "side", "far"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn diversity_demotes_copies_in_every_mode() {
    let other = "the grey sea rolls against a new bridge";
    let server = Server::with_documents(json!([
        {"id": "one", "text": QUERY, "language": "en"},
        {"id": "two", "text": QUERY, "language": "en"},
        {"id": "other", "text": other, "language": "en"},
    ]))
    .await;
    for mode in ["full", "dense", "lexical", "hybrid"] {
        let found = search(&server, json!({"mode": mode, "limit": 2, "diversity": 0.95})).await;
        assert_eq!(ids(&found)[1], "other", "{mode}: {}", found.text);
    }
}
