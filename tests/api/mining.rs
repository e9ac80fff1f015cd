//! `/v1/mine`, `/v1/collections/{collection}/duplicates` and the results of their jobs.

use dragoman::domain::Limits;
use serde_json::{Value, json};

use crate::server::{Response, Server};

const NO_JOB: &str = "/v1/jobs/0198c0de-7a11-7000-8000-2f1de5c0ffee";

/// A made-up word, different for each number.
fn word(number: u64) -> String {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state % 26) as u8)
    };
    (0..8).map(letter).collect()
}

/// A sentence that shares no word with the sentence of another number.
pub fn sentence(number: u64) -> String {
    (0..4).map(|at| word(number * 4 + at)).collect::<Vec<_>>().join(" ")
}

/// What the fake encoder takes for the sentence's translation: mostly the same words.
pub fn translation(number: u64) -> String {
    format!("{} {} {} {}", word(number * 4 + 2), word(number * 4 + 1), word(number * 4), word(900_000 + number))
}

pub async fn collection(server: &Server, name: &str, documents: impl Iterator<Item = (String, String)>) {
    server.create(json!({"name": name})).await;
    let documents: Vec<Value> = documents.map(|(id, text)| json!({"id": id, "text": text})).collect();
    let response = server.post(&format!("/v1/collections/{name}/documents"), &json!({"documents": documents})).await;
    assert_eq!(response.status, 200, "{response:?}");
}

/// The collections `one` and `other` with ten translation pairs, 0 to 9, and five untranslated sentences each.
async fn with_two() -> Server {
    let server = Server::start();
    fill(&server).await;
    server
}

async fn fill(server: &Server) {
    collection(server, "one", (0..15).map(|n| (format!("a{n}"), sentence(n)))).await;
    let alone = (100..105).map(|n| (format!("b{n}"), sentence(n)));
    collection(server, "other", (0..10).map(|n| (format!("b{n}"), translation(n))).chain(alone)).await;
}

pub fn both() -> Value {
    json!({"first": {"collection": "one"}, "second": {"collection": "other"}})
}

/// The request with additional members.
pub fn with(mut request: Value, more: Value) -> Value {
    let more = more.as_object().expect("members").clone();
    request.as_object_mut().expect("an object").extend(more);
    request
}

pub async fn mined(server: &Server, request: &Value) -> (Value, Vec<Value>) {
    let accepted = server.post("/v1/mine", request).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    let job = server.finished(&accepted).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    let response = server.get(&format!("/v1/jobs/{}/pairs", job["id"].as_str().expect("an id"))).await;
    (job, lines(&response))
}

pub fn lines(response: &Response) -> Vec<Value> {
    assert_eq!(response.status, 200, "{response:?}");
    response.text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn ids(pairs: &[Value]) -> Vec<(&str, &str)> {
    let mut ids: Vec<_> = pairs
        .iter()
        .map(|pair| (pair["first"]["id"].as_str().expect("an id"), pair["second"]["id"].as_str().expect("an id")))
        .collect();
    ids.sort_unstable();
    ids
}

fn numbered(first: &str, second: &str, numbers: impl Iterator<Item = u64>) -> Vec<(String, String)> {
    let mut ids: Vec<_> = numbers.map(|n| (format!("{first}{n}"), format!("{second}{n}"))).collect();
    ids.sort_unstable();
    ids
}

fn assert_ids(pairs: &[Value], expect: &[(String, String)]) {
    let expect: Vec<(&str, &str)> = expect.iter().map(|(one, other)| (one.as_str(), other.as_str())).collect();
    assert_eq!(ids(pairs), expect);
}

#[tokio::test(flavor = "multi_thread")]
async fn translations_are_found_between_two_collections() {
    let server = with_two().await;
    let (job, pairs) = mined(&server, &with(both(), json!({"threshold": 1.25}))).await;
    assert_ids(&pairs, &numbered("a", "b", 0..10));
    assert!(pairs.is_sorted_by(|one, other| one["score"].as_f64() >= other["score"].as_f64()));
    let third = pairs.iter().find(|pair| pair["first"]["id"] == "a3").expect("the pair of a3");
    assert_eq!((&third["first"]["text"], &third["second"]["text"]), (&json!(sentence(3)), &json!(translation(3))));
    let details = &job["details"];
    let counts =
        ["first_sentences", "second_sentences", "first_different", "pairs", "gone", "threshold"].map(|name| &details[name]);
    assert_eq!(counts, [&json!(15), &json!(15), &json!(15), &json!(10), &json!(0), &json!(1.25)]);
    assert!(details["memory_bytes"].as_u64() > Some(0) && details["disk_bytes"].as_u64() > Some(0), "{details}");
    assert_eq!((&job["type"], &job["progress"]["done"], &job["progress"]["total"]), (&json!("mine"), &json!(30), &json!(30)));
    let table = server.get(&format!("/v1/jobs/{}/pairs.tsv", job["id"].as_str().expect("an id"))).await;
    assert_eq!(table.header("content-type"), Some("text/tab-separated-values; charset=utf-8"));
    let rows: Vec<Vec<&str>> = table.text.lines().map(|row| row.split('\t').collect()).collect();
    assert_eq!(rows[0], ["score", "first_id", "second_id", "first_text", "second_text"]);
    assert_eq!((rows.len(), rows[1][1]), (11, pairs[0]["first"]["id"].as_str().expect("an id")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_side_may_be_a_filtered_collection_or_a_list_of_texts() {
    let server = Server::start();
    server.create(json!({"name": "mixed"})).await;
    let document =
        |n: u64, language: &str, text: String| json!({"id": format!("{language}{n}"), "language": language, "text": text});
    let mut documents: Vec<Value> = (0..8).map(|n| document(n, "de", sentence(n))).collect();
    documents.extend((0..8).map(|n| document(n, "fr", translation(n))));
    assert_eq!(server.post("/v1/collections/mixed/documents", &json!({"documents": documents})).await.status, 200);
    let part = |code: &str| json!({"collection": "mixed", "languages": [code]});
    let (job, pairs) = mined(&server, &json!({"first": part("de"), "second": part("fr"), "threshold": 1.25})).await;
    assert_ids(&pairs, &numbered("de", "fr", 0..8));
    assert_eq!((&pairs[0]["first"]["language"], &job["collection"]), (&json!("de"), &json!("mixed")));

    let texts: Vec<String> = (0..8).map(translation).collect();
    let even = json!({"or": (0..4).map(|n| json!({"field": "id", "eq": format!("de{}", n * 2)})).collect::<Vec<_>>()});
    let first = json!({"collection": "mixed", "filter": even});
    let (_, pairs) = mined(&server, &json!({"first": first, "second": {"texts": texts}, "threshold": 1.25})).await;
    assert_ids(&pairs, &numbered("de", "", [0, 2, 4, 6].into_iter()));
    let texts = |from: fn(u64) -> String| json!({"texts": (0..20).map(from).collect::<Vec<_>>()});
    let (job, pairs) = mined(&server, &json!({"first": texts(sentence), "second": texts(translation)})).await;
    assert_ids(&pairs, &numbered("", "", 0..20));
    assert_eq!((&job["details"]["first_truncated"], job.get("collection")), (&json!(0), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn overlapping_sides_never_pair_a_passage_with_itself() {
    let server = with_two().await;
    let all_but = |id: &str| json!({"collection": "one", "filter": {"field": "id", "ne": id}});
    let (_, pairs) = mined(&server, &json!({"first": all_but("a1"), "second": all_but("a2"), "strategy": "forward"})).await;
    assert_eq!(pairs.len(), 14);
    assert!(pairs.iter().all(|pair| pair["first"]["id"] != pair["second"]["id"]), "{pairs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn strategy_and_one_to_one_determine_the_proposed_pairs() {
    let server = with_two().await;
    let count = async |more: Value| mined(&server, &with(both(), more)).await.1.len();
    assert_eq!(count(json!({"strategy": "forward"})).await, 15);
    assert_eq!(count(json!({"strategy": "backward", "margin": "distance"})).await, 15);
    let intersection = mined(&server, &with(both(), json!({"strategy": "intersection", "margin": "absolute"}))).await.1;
    assert!((10..=15).contains(&intersection.len()), "{intersection:?}");
    let (_, once) = mined(&server, &with(both(), json!({"strategy": "forward", "one_to_one": true}))).await;
    assert!((10..=15).contains(&once.len()), "{once:?}");
    let mut seconds: Vec<&str> = once.iter().map(|pair| pair["second"]["id"].as_str().expect("an id")).collect();
    seconds.sort_unstable();
    assert!(seconds.windows(2).all(|two| two[0] != two[1]), "{seconds:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_threshold_is_estimated_from_known_pairs() {
    let server = with_two().await;
    let known: Vec<Value> = (0..10).map(|n| json!({"first": format!("a{n}"), "second": format!("b{n}")})).collect();
    let (job, pairs) = mined(&server, &with(both(), json!({"known_pairs": known, "strategy": "forward"}))).await;
    assert_eq!([&job["details"]["f1"], &job["details"]["known_pairs"]], [&json!(1.0), &json!(10)], "{job}");
    let threshold = job["details"]["threshold"].as_f64().expect("a threshold");
    let reaches = |pair: &Value| pair["score"].as_f64() >= Some(threshold);
    assert!(pairs.iter().all(reaches) && pairs.len() >= 10, "{threshold} {pairs:?}");

    let refused = async |pair: Value, place: &str, words: &[&str]| {
        let response = server.post("/v1/mine", &with(both(), json!({"known_pairs": [known[0].clone(), pair]}))).await;
        response.assert_error(422, "invalid_request", place, words);
    };
    refused(json!({"first": "a77", "second": "b1"}), "/known_pairs/1/first", &["one passage", "a77"]).await;
    refused(json!({"first": "a1", "second": ""}), "/known_pairs/1/second", &["1 to 512 bytes"]).await;
    let lists = json!({"first": {"collection": "one"}, "second": {"texts": ["x y", "z w", "u v", "r s"]}});
    let outside = with(lists, json!({"known_pairs": [{"first": "a1", "second": "4"}]}));
    server.post("/v1/mine", &outside).await.assert_error(422, "invalid_request", "/known_pairs/0/second", &["from 0 to 3", "4"]);
    let wrong = json!({"known_pairs": [{"first": "a0", "second": "b104"}], "strategy": "intersection"});
    let job = server.finished(&server.post("/v1/mine", &with(both(), wrong)).await).await;
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("invalid_request")), "{job}");
    let path = format!("/v1/jobs/{}/pairs", job["id"].as_str().expect("an id"));
    server.get(&path).await.assert_error(409, "no_results", "", &["failed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_texts_count_once_unless_deduplication_is_disabled() {
    let server = Server::start();
    let copies = (0..40).map(|n| (format!("copy{n}"), sentence(0)));
    collection(&server, "one", (0..10).map(|n| (format!("a{n}"), sentence(n))).chain(copies)).await;
    collection(&server, "other", (0..10).map(|n| (format!("b{n}"), translation(n)))).await;
    let (job, pairs) = mined(&server, &with(both(), json!({"threshold": 1.25}))).await;
    assert_ids(&pairs, &numbered("a", "b", 0..10));
    assert_eq!([&job["details"]["first_sentences"], &job["details"]["first_different"]], [&json!(50), &json!(10)]);
    let (job, pairs) = mined(&server, &with(both(), json!({"strategy": "forward", "deduplicate": false}))).await;
    assert_eq!((pairs.len(), &job["details"]["first_different"]), (50, &json!(50)));
}

#[tokio::test(flavor = "multi_thread")]
async fn passages_of_long_documents_are_mined_with_their_positions() {
    let server = Server::start();
    let long = format!("{}. {}. {}.", [0, 1, 2].map(sentence).join(" "), [3, 4, 5].map(sentence).join(" "), sentence(6));
    collection(&server, "one", [("long".to_owned(), long.clone()), ("a8".to_owned(), sentence(8))].into_iter()).await;
    let texts: Vec<String> = (6..9).map(translation).collect();
    let request = json!({"first": {"collection": "one"}, "second": {"texts": texts}, "neighbors": 2, "strategy": "backward"});
    let (_, pairs) = mined(&server, &request).await;
    let found = pairs.iter().find(|pair| pair["second"]["id"] == "0").expect("a pair of the first text");
    let (start, end) = (found["first"]["start"].as_u64().expect("a start"), found["first"]["end"].as_u64().expect("an end"));
    let part: String = long.chars().skip(start as usize).take((end - start) as usize).collect();
    assert_eq!((&found["first"]["id"], &found["first"]["text"]), (&json!("long"), &json!(part)));
    assert!(part.contains(&sentence(6)), "{part}");
    let whole = pairs.iter().find(|pair| pair["first"]["id"] == "a8").expect("a pair of a8");
    assert_eq!(whole["first"].get("start"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn unit_document_mines_whole_documents() {
    let server = Server::start();
    let long =
        |n: u64| format!("{}. {}.", [n, n + 1, n + 2].map(sentence).join(" "), [n + 3, n + 4, n + 5].map(sentence).join(" "));
    let longs = (0..8).map(|n| (format!("a{n}"), long(n * 6)));
    collection(&server, "one", longs.chain([("short".to_owned(), sentence(0))])).await;
    let translated = |n: u64| (n * 6..n * 6 + 6).map(translation).collect::<Vec<_>>().join(". ");
    collection(&server, "other", (0..8).map(|n| (format!("b{n}"), translated(n)))).await;
    let passages = server.get("/v1/collections/one").await.body["passages"].clone();
    assert!(passages.as_u64() > Some(9), "{passages}");

    let (job, pairs) = mined(&server, &with(both(), json!({"unit": "document", "strategy": "backward"}))).await;
    assert_ids(&pairs, &numbered("a", "b", 0..8));
    assert_eq!([&job["details"]["first_sentences"], &job["details"]["second_sentences"]], [&json!(9), &json!(8)]);
    let of_a2 = pairs.iter().find(|pair| pair["first"]["id"] == "a2").expect("a pair of a2");
    assert_eq!((&of_a2["first"]["text"], of_a2["first"].get("start")), (&json!(long(12)), None));
    let (job, _) = mined(&server, &both()).await;
    assert_eq!(job["details"]["first_sentences"], passages);

    let known = json!({"known_pairs": [{"first": "a1", "second": "b1"}, {"first": "a2", "second": "b2"}]});
    let words = ["one passage", "a1"];
    server.post("/v1/mine", &with(both(), known.clone())).await.assert_error(
        422,
        "invalid_request",
        "/known_pairs/0/first",
        &words,
    );
    let (job, _) = mined(&server, &with(both(), with(known, json!({"unit": "document"})))).await;
    assert_eq!(job["details"]["known_pairs"], 2);
    let equal = json!({"collection": "one"});
    let same = json!({"first": equal, "second": equal, "unit": "document"});
    server.post("/v1/mine", &same).await.assert_error(422, "invalid_request", "", &["same sentences"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_or_approximate_neighbor_search_can_be_chosen() {
    let server = with_two().await;
    for (choice, exact) in [(json!({}), true), (json!({"exact": true}), true), (json!({"exact": false}), false)] {
        let (job, pairs) = mined(&server, &with(both(), with(json!({"threshold": 1.25}), choice))).await;
        assert_ids(&pairs, &numbered("a", "b", 0..10));
        assert_eq!((&job["details"]["exact"], job["details"].get("candidates").is_some()), (&json!(exact), !exact), "{job}");
    }
    // Without `exact`, lists of texts get their own indexes.
    let texts = |from: fn(u64) -> String| json!({"texts": (0..20).map(from).collect::<Vec<_>>()});
    let (job, pairs) = mined(&server, &json!({"first": texts(sentence), "second": texts(translation), "exact": false})).await;
    assert_ids(&pairs, &numbered("", "", 0..20));
    assert_eq!((&job["progress"]["done"], &job["progress"]["total"]), (&json!(120), &json!(120)), "{job}");
}

async fn refused(server: &Server, request: Value, place: &str, words: &[&str]) {
    server.post("/v1/mine", &request).await.assert_error(422, "invalid_request", place, words);
}

#[tokio::test(flavor = "multi_thread")]
async fn sides_with_too_few_texts_for_the_neighbors_are_refused() {
    let server = with_two().await;
    let response = server.post("/v1/mine", &with(both(), json!({"neighbors": 16}))).await;
    response.assert_error(422, "invalid_request", "/first", &["as neighbors, 16, got 15"]);
    assert!(response.body["errors"][0]["detail"].as_str().is_some_and(|detail| detail.starts_with("must have")), "{response:?}");
    let one = json!({"collection": "one"});
    refused(&server, json!({"first": {"texts": ["a"]}, "second": one}), "/first", &["as neighbors, 4, got 1"]).await;
    let part = json!({"collection": "other", "filter": {"field": "id", "eq": "b1"}});
    refused(&server, json!({"first": one, "second": part}), "/second", &["as neighbors, 4, got 1"]).await;
    // Duplicate texts are only detected by the job.
    let copies = json!({"first": {"texts": ["a", "a", "a", "a", "a"]}, "second": one});
    let job = server.finished(&server.post("/v1/mine", &copies).await).await;
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("invalid_request")), "{job}");
    assert!(job["error"]["detail"].as_str().is_some_and(|detail| detail.contains("as neighbors, 4, got")), "{job}");
    server.create(json!({"name": "empty"})).await;
    refused(&server, json!({"first": {"collection": "empty"}, "second": one}), "/first", &["as neighbors, 4, got 0"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn identical_sides_are_refused() {
    let server = with_two().await;
    let one = json!({"collection": "one"});
    refused(&server, json!({"first": one, "second": one}), "", &["same sentences", "duplicates"]).await;
    let all = json!({"collection": "one", "filter": {"field": "id", "prefix": "a"}});
    refused(&server, json!({"first": one, "second": all}), "", &["same sentences", "duplicates"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_side_is_either_a_collection_or_texts() {
    let server = with_two().await;
    let one = json!({"collection": "one"});
    refused(&server, json!({"first": one, "second": {}}), "/second", &["exactly one"]).await;
    refused(&server, json!({"first": one, "second": [null, null, null, null]}), "/second", &["expected an object"]).await;
    refused(&server, json!({"first": {"collection": "one", "texts": ["a"]}, "second": one}), "/first", &["exactly one"]).await;
    refused(&server, json!({"first": {"texts": ["a"], "languages": ["de"]}, "second": one}), "/first/languages", &[]).await;
    refused(&server, json!({"first": {"texts": ["a"], "filter": {"and": []}}, "second": one}), "/first/filter", &[]).await;
    let missing = server.post("/v1/mine", &json!({"first": {"collection": "none"}, "second": one})).await;
    missing.assert_error(404, "collection_not_found", "", &["none"]);
    refused(&server, json!({"first": {"collection": "a/b"}, "second": one}), "/first/collection", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blank_texts_and_empty_lists_are_refused() {
    let server = with_two().await;
    let one = json!({"collection": "one"});
    refused(&server, json!({"first": {"texts": ["a", " "]}, "second": one}), "/first/texts/1", &["not be blank"]).await;
    refused(&server, json!({"first": {"texts": []}, "second": one}), "/first/texts", &["at least one"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_languages_and_invalid_filters_of_a_side_are_refused() {
    let server = with_two().await;
    let odd = |side: Value| json!({"first": {"collection": "one"}, "second": with(json!({"collection": "other"}), side)});
    let check = async |request: Value, code: &str, place: &str, words: &[&str]| {
        server.post("/v1/mine", &request).await.assert_error(422, code, place, words);
    };
    check(odd(json!({"languages": ["de", "xx"]})), "unknown_language", "/second/languages/1", &["xx"]).await;
    check(odd(json!({"filter": {"field": "id", "like": 1}})), "invalid_filter", "/second/filter/like", &["like"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_mining_options_are_refused() {
    let server = with_two().await;
    refused(&server, with(both(), json!({"neighbors": 0})), "/neighbors", &["1 to 255", "got 0"]).await;
    refused(&server, with(both(), json!({"margin": "best"})), "/margin", &["ratio", "best"]).await;
    refused(&server, with(both(), json!({"unit": "word"})), "/unit", &["document", "word"]).await;
    let two = json!({"threshold": 1, "known_pairs": [{"first": "a1", "second": "b1"}]});
    refused(&server, with(both(), two), "/known_pairs", &["threshold"]).await;
    refused(&server, with(both(), json!({"known_pairs": []})), "/known_pairs", &["1 to 10000"]).await;
    refused(&server, with(both(), json!({"neighbours": 3})), "/neighbours", &["unknown field"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_an_unknown_job_are_not_found() {
    let server = Server::start();
    for what in ["pairs", "pairs.tsv", "clusters", "clusters.tsv"] {
        server.get(&format!("{NO_JOB}/{what}")).await.assert_error(404, "job_not_found", "", &[]);
    }
    server.get(&format!("{NO_JOB}/pairs?all=1")).await.assert_error(422, "invalid_request", "all", &["unknown"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_needing_too_much_memory_or_disk_are_refused_before_they_start() {
    let server = Server::with_limits(Limits { mining_memory_bytes_max: 2_000, ..Limits::default() });
    fill(&server).await;
    let words = ["bytes of memory", "2000", "mining_memory_bytes_max"];
    server.post("/v1/mine", &both()).await.assert_error(422, "invalid_request", "", &words);
    server.post("/v1/collections/one/duplicates", &json!({})).await.assert_error(422, "invalid_request", "", &words);
    let server = Server::with_limits(Limits { disk_reserve_bytes: u64::MAX / 2, ..Limits::default() });
    fill(&server).await;
    server.post("/v1/mine", &both()).await.assert_error(503, "storage_unavailable", "", &["reserve"]);
    server.post("/v1/collections/one/duplicates", &json!({})).await.assert_error(503, "storage_unavailable", "", &[]);
    assert_eq!(server.get("/v1/jobs").await.body["jobs"], json!([]));
}

/// Creates a key with the scope `write` for collections.
async fn key(server: &Server, collections: &[&str]) -> Server {
    let response = server.post("/v1/keys", &json!({"name": "k", "scope": "write", "collections": collections})).await;
    assert_eq!(response.status, 201, "{response:?}");
    server.with_key(response.body["secret"].as_str().expect("a secret"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_key_mines_and_sees_only_its_own_collections() {
    let server = Server::with_admin_key();
    fill(&server).await;
    let (half, whole, stranger) =
        (key(&server, &["one"]).await, key(&server, &["one", "other"]).await, key(&server, &["other"]).await);
    half.post("/v1/mine", &both()).await.assert_error(403, "forbidden", "", &["other"]);
    let (job, pairs) = mined(&whole, &with(both(), json!({"threshold": 1.25}))).await;
    assert_eq!(pairs.len(), 10);
    let path = format!("/v1/jobs/{}", job["id"].as_str().expect("an id"));
    for part in ["", "/pairs", "/pairs.tsv"] {
        half.get(&format!("{path}{part}")).await.assert_error(403, "forbidden", "", &["other"]);
        assert_eq!(server.get(&format!("{path}{part}")).await.status, 200);
    }
    let texts: Vec<String> = (0..4).map(translation).collect();
    let (job, _) = mined(&half, &json!({"first": {"collection": "one"}, "second": {"texts": texts}})).await;
    let path = format!("/v1/jobs/{}/pairs", job["id"].as_str().expect("an id"));
    stranger.get(&path).await.assert_error(403, "forbidden", "", &[]);
    whole.get(&path).await.assert_error(403, "forbidden", "", &["another caller"]);
    assert_eq!((half.get(&path).await.status, server.get(&path).await.status), (200, 200));
    stranger.post("/v1/collections/one/duplicates", &json!({})).await.assert_error(403, "forbidden", "", &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicates_are_clustered_within_and_across_languages() {
    let server = Server::with_news().await;
    let document = |id: &str, language: &str, text: String| json!({"id": id, "language": language, "text": text});
    let mut documents: Vec<Value> = (20..60).map(|n| document(&format!("x{n}"), "de", sentence(n))).collect();
    documents.extend([
        document("de1", "de", sentence(1)),
        document("fr1", "fr", translation(1)),
        document("de1-again", "de", sentence(1)),
        document("de2", "de", sentence(2)),
        document("de2-near", "de", translation(2)),
        // Equal sentences within one document are no duplicates.
        document("song", "de", format!("{s}. {s}. {s}. {s}. {s}. {s}. {s}. {s}.", s = sentence(3))),
    ]);
    assert_eq!(server.post("/v1/collections/news/documents", &json!({"documents": documents})).await.status, 200);
    let found = async |request: Value| -> Vec<Vec<String>> {
        let job = server.finished(&server.post("/v1/collections/news/duplicates", &request).await).await;
        assert_eq!(job["status"], "succeeded", "{job}");
        let path = format!("/v1/jobs/{}/clusters", job["id"].as_str().expect("an id"));
        let clusters = lines(&server.get(&path).await);
        assert_eq!(job["details"]["clusters"], clusters.len(), "{job}");
        let members = |cluster: &Value| {
            let members = cluster["members"].as_array().expect("members").iter();
            let mut ids: Vec<String> = members.map(|member| member["id"].as_str().expect("an id").to_owned()).collect();
            assert!(ids.contains(&cluster["representative"].as_str().expect("an id").to_owned()));
            assert_eq!(cluster["size"], ids.len());
            ids.sort_unstable();
            ids
        };
        let table = server.get(&format!("{path}.tsv")).await.text;
        let rows = clusters.iter().map(|cluster| cluster["members"].as_array().expect("members").len()).sum::<usize>();
        assert_eq!(table.lines().count(), rows + 1, "{table}");
        clusters.iter().map(members).collect()
    };
    let near = json!({"score_min": 0.75});
    assert_eq!(found(near.clone()).await, [vec!["de1", "de1-again", "fr1"], vec!["de2", "de2-near"]]);
    assert_eq!(found(with(near.clone(), json!({"pairs": "same"}))).await, [vec!["de1", "de1-again"], vec!["de2", "de2-near"]]);
    assert_eq!(found(with(near.clone(), json!({"pairs": "different"}))).await, [vec!["de1", "de1-again", "fr1"]]);
    assert_eq!(found(json!({})).await, [vec!["de1", "de1-again"]]);
    let part = json!({"filter": {"field": "id", "in": ["fr1", "de1", "de2", "x20"]}, "score_min": 0.75});
    assert_eq!(found(part).await, [vec!["de1", "fr1"]]);
    assert_eq!(found(with(near, json!({"size_max": 2}))).await.iter().map(Vec::len).max(), Some(2));
    assert_eq!(found(json!({"languages": ["ja"]})).await, Vec::<Vec<String>>::new());

    let refused = async |body: Value, place: &str, words: &[&str]| {
        let response = server.post("/v1/collections/news/duplicates", &body).await;
        response.assert_error(422, "invalid_request", place, words);
    };
    refused(json!({"score_min": 1.5}), "/score_min", &["-1 to 1", "1.5"]).await;
    refused(json!({"size_max": 1}), "/size_max", &["2 to 1000", "got 1"]).await;
    refused(json!({"neighbors": 256}), "/neighbors", &["1 to 255"]).await;
    refused(json!({"pairs": "few"}), "/pairs", &["different"]).await;
    let response = server.post("/v1/collections/none/duplicates", &json!({})).await;
    response.assert_error(404, "collection_not_found", "", &["none"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mining_job_has_no_clusters_and_no_import_results_but_the_error_names_its_pairs() {
    let server = with_two().await;
    let (job, _) = mined(&server, &both()).await;
    let path = format!("/v1/jobs/{}", job["id"].as_str().expect("an id"));
    server.get(&format!("{path}/clusters")).await.assert_error(409, "no_results", "", &["mine", "duplicates"]);
    let listed = server.get("/v1/jobs?type=mine&status=succeeded").await.body["jobs"].clone();
    assert_eq!(listed[0]["id"], job["id"]);
    let pairs = format!("GET {path}/pairs");
    server.get(&format!("{path}/results")).await.assert_error(409, "no_results", "", &["of type mine", "only imports", &pairs]);
}

#[tokio::test(flavor = "multi_thread")]
async fn own_vectors_are_mined_by_cosine() {
    let server = Server::start();
    for name in ["one", "other"] {
        let new = json!({"name": name, "dimension": 8, "metric": "l2"});
        assert_eq!(server.post("/v1/collections", &new).await.status, 201);
        let length = if name == "one" { 1.0 } else { 7.0 };
        let vector = |n: usize| (0..8).map(|at| if at == n { length } else { 0.1 * length }).collect::<Vec<_>>();
        let documents: Vec<Value> = (0..8).map(|n| json!({"id": format!("{name}{n}"), "vector": vector(n)})).collect();
        let response = server.post(&format!("/v1/collections/{name}/documents"), &json!({"documents": documents})).await;
        assert_eq!(response.status, 200, "{}", response.text);
    }
    let (job, pairs) = mined(&server, &with(both(), json!({"margin": "absolute", "threshold": 0.9}))).await;
    assert_ids(&pairs, &numbered("one", "other", 0..8));
    assert!(pairs.iter().all(|pair| pair["score"].as_f64() > Some(0.999)), "{pairs:?}");
    assert_eq!(job["details"]["first_different"], 8, "blank texts are not equal");
    let texts = json!({"texts": (0..8).map(sentence).collect::<Vec<_>>()});
    let mixed = json!({"first": {"collection": "one"}, "second": texts});
    let words = ["vectors of 8 values", "model fake"];
    server.post("/v1/mine", &mixed).await.assert_error(422, "invalid_request", "", &words);
}
