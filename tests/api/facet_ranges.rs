//! Facets that aggregate a field's numbers and dates: range and histogram.

use serde_json::{Value, json};

use crate::search::PATH;
use crate::server::{Response, Server};

const FACETS: &str = "/v1/collections/news/facets";

async fn with_prices() -> Server {
    let document = |id: &str, metadata: Value| json!({"id": id, "text": "Il pleut.", "metadata": metadata});
    Server::with_documents(json!([
        document("a", json!({"price": 3, "at": "2025-12-31T23:30:00-01:00", "in": {"n": 1}})),
        document("b", json!({"price": 12.5, "at": "2026-01-01T08:00:00Z", "in": {"n": 2}})),
        document("c", json!({"price": [14, 18, 31], "at": ["2026-02-10", "2026-02-11", "2027-02-11"]})),
        document("d", json!({"price": "12", "at": "soon"})),
        document("e", json!({"price": null, "at": true})),
        document("f", json!({"mixed": ["2026-01-01", 7]})),
    ]))
    .await
}

async fn facet(server: &Server, facet: Value) -> Value {
    let response = server.post(FACETS, &json!({"facets": [facet]})).await;
    assert_eq!(response.status, 200, "{}", response.text);
    response.body["facets"][0].clone()
}

/// The start and the number of documents of each bucket.
fn buckets(facet: &Value) -> Vec<(Value, u64)> {
    let buckets = facet["histogram"].as_array().expect("buckets").iter();
    buckets.map(|bucket| (bucket["from"].clone(), bucket["documents"].as_u64().expect("a number"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_of_a_numeric_field_include_range_sum_and_mean() {
    let server = with_prices().await;
    let price = facet(&server, json!({"field": "price", "stats": true})).await;
    let stats = json!({"count": 5, "min": 3, "max": 31, "sum": 78.5, "mean": 15.7});
    assert_eq!(price, json!({"field": "price", "values": [], "missing": 2, "stats": stats}));
    let nested = facet(&server, json!({"field": "in.n", "stats": true})).await;
    assert_eq!((&nested["stats"]["max"], &nested["missing"]), (&json!(2), &json!(4)));
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_of_a_field_without_numbers_cover_its_dates() {
    let server = with_prices().await;
    let at = facet(&server, json!({"field": "at", "stats": true})).await;
    assert_eq!(at["stats"], json!({"count": 5, "min": "2026-01-01T00:30:00.000Z", "max": "2027-02-11T00:00:00.000Z"}));
    let mixed = facet(&server, json!({"field": "mixed", "stats": true})).await;
    assert_eq!(mixed["stats"], json!({"count": 1, "min": 7, "max": 7, "sum": 7.0, "mean": 7.0}));
    let nothing = facet(&server, json!({"field": "nothing", "stats": true})).await;
    assert_eq!((&nothing["stats"], &nothing["missing"]), (&json!({"count": 0}), &json!(6)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_histogram_counts_each_document_once_per_interval() {
    let server = with_prices().await;
    let by = async |field: &str, interval: Value| {
        buckets(&facet(&server, json!({"field": field, "histogram": {"interval": interval}})).await)
    };
    assert_eq!(by("price", json!(10)).await, [(json!(0), 1), (json!(10), 2), (json!(30), 1)]);
    assert_eq!(by("price", json!(2.5)).await.len(), 4);
    let month = |month: &str| json!(format!("{month}-01T00:00:00.000Z"));
    assert_eq!(by("at", json!("month")).await, [(month("2026-01"), 2), (month("2026-02"), 1), (month("2027-02"), 1)]);
    assert_eq!(by("at", json!("year")).await, [(month("2026-01"), 3), (month("2027-01"), 1)]);
    assert_eq!(by("at", json!("day")).await.len(), 4);
    assert_eq!(by("at", json!(10)).await, [], "dates are in no interval of numbers");
    assert_eq!(by("price", json!("day")).await, []);
    let stored = by("created_at", json!("year")).await;
    assert_eq!((stored.len(), stored[0].1), (1, 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_histogram_and_values_count_only_matching_documents() {
    let server = with_prices().await;
    let facets = json!([{"field": "price", "limit": 1, "stats": true, "histogram": {"interval": 100}}, {"field": "updated_at", "stats": true}]);
    let body = json!({"filter": {"field": "price", "gte": 3}, "facets": facets});
    let response = server.post(FACETS, &body).await;
    let price = &response.body["facets"][0];
    assert_eq!(price["values"], json!([{"value": 3, "documents": 1}]), "{}", response.text);
    assert_eq!((&price["stats"]["count"], buckets(price)), (&json!(2), vec![(json!(0), 2)]), "{}", response.text);
    assert_eq!(response.body["facets"][1]["stats"]["count"], 2, "{}", response.text);
    let search = json!({"query": "Il pleut.", "limit": 1, "include": [], "filter": body["filter"], "facets": facets});
    assert_eq!(server.post(PATH, &search).await.body["facets"][0], *price);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_histogram_with_too_many_buckets_is_refused_with_advice() {
    let document = |n: usize| json!({"id": format!("d{n}"), "text": "Il pleut.", "metadata": {"n": n}});
    let server = Server::with_documents((0..1000).map(document).collect()).await;
    let one_more = json!({"documents": [document(1000)]});
    assert_eq!(server.post("/v1/collections/news/documents", &one_more).await.status, 200);
    let ask = async |filter: Value, interval: f64| -> Response {
        let facets = json!([{"field": "n", "histogram": {"interval": interval}}]);
        server.post(FACETS, &json!({"filter": filter, "facets": facets})).await
    };
    let refused = ask(json!({"and": []}), 1.0).await;
    refused.assert_error(422, "invalid_request", "", &["histogram of n", "more than 1000 buckets", "wider interval"]);
    assert_eq!(ask(json!({"and": []}), 2.0).await.status, 200);
    assert_eq!(ask(json!({"field": "n", "gt": 0}), 1.0).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_stats_or_histograms_report_all_error_locations() {
    let server = with_prices().await;
    let check = async |facet: Value, places: &[&str], words: &[&str]| {
        let response = server.post(FACETS, &json!({"facets": [{"field": "price"}, facet]})).await;
        response.assert_error(422, "invalid_request", places[0], words);
        assert_eq!(response.places(), places, "{}", response.text);
    };
    let day = json!({"interval": "day"});
    check(json!({"field": "language", "stats": true}), &["/facets/1/field"], &["got language"]).await;
    check(json!({"field": "id", "stats": true}), &["/facets/1/field"], &["metadata path", "\"id\""]).await;
    check(json!({"field": "created_at"}), &["/facets/1/field"], &["with stats or histogram"]).await;
    check(json!({"field": "created_at", "histogram": day, "limit": 3}), &["/facets/1/limit"], &["left out"]).await;
    let number = json!({"interval": 5});
    check(json!({"field": "created_at", "histogram": number}), &["/facets/1/histogram/interval"], &["hour, day"]).await;
    for (interval, got) in
        [(json!(0), "got 0"), (json!(-1), "got -1"), (json!("decade"), "got \"decade\""), (json!([]), "got an array")]
    {
        let histogram = json!({ "interval": interval });
        let words = ["a number above 0, or hour, day, week, month, year", got];
        check(json!({"field": "price", "histogram": histogram}), &["/facets/1/histogram/interval"], &words).await;
    }
    check(json!({"field": "price", "histogram": {}}), &["/facets/1/histogram/interval"], &["missing field"]).await;
    let several = json!({"field": "a..b", "limit": 0, "histogram": {"interval": 0}});
    check(several, &["/facets/1/limit", "/facets/1/histogram/interval", "/facets/1/field"], &[]).await;
}
