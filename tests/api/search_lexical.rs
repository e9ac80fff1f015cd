//! Lexical search in every kind of script, and hybrid search.

use dragoman::embed::QueryText;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::merged;
use crate::search::{PATH, documents, ids};
use crate::server::Server;

/// Sentences written for these tests: id, language, text. The two sentences of each language share as few words as possible.
const SENTENCES: &[(&str, &str, &str)] = &[
    ("de-1", "de", "Der Zug nach Basel hat eine Stunde Verspätung."),
    ("de-2", "de", "Die Bäckerei öffnet schon um sechs."),
    ("fr-1", "fr", "L'été dernier, nous avons visité un musée."),
    ("fr-2", "fr", "Le boulanger vend du pain frais."),
    ("pl-1", "pl", "Łódź jest dużym miastem."),
    ("vi-1", "vi", "Hôm nay trời mưa ở Đà Nẵng."),
    ("tr-1", "tr", "İstanbul'da hava güneşli."),
    ("ru-1", "ru", "Ёжик спит под старой яблоней."),
    ("ru-2", "ru", "Поезд прибывает на третий путь."),
    ("el-1", "el", "Ο λόγος του ήταν σύντομος."),
    ("el-2", "el", "Η θάλασσα είναι ήρεμη σήμερα."),
    ("ar-1", "ar", "افتتحت المدينة مكتبة جديدة."),
    ("ar-2", "ar", "القطار متأخر اليوم."),
    ("fa-1", "fa", "می\u{200c}خواهم یک کتاب بخرم."),
    ("he-1", "he", "הספרייה סגורה ביום שישי."),
    ("he-2", "he", "הרכבת מאחרת היום."),
    ("hi-1", "hi", "पुस्तकालय सोमवार को बंद रहता है।"),
    ("hi-2", "hi", "आज बारिश हो रही है।"),
    ("bn-1", "bn", "আজ সকালে বৃষ্টি হয়েছে।"),
    ("ta-1", "ta", "இன்று மழை பெய்கிறது."),
    ("ka-1", "ka", "ბიბლიოთეკა ორშაბათს დაკეტილია."),
    ("hy-1", "hy", "Գրադարանը փակ է երկուշաբթի օրը։"),
    ("zh-1", "zh", "双方昨天签订了合约。"),
    ("zh-2", "zh", "图书馆星期一休息。"),
    ("ja-1", "ja", "今日は天気がとてもいいです。"),
    ("ja-2", "ja", "東京タワーは夜に光ります。"),
    ("ko-1", "ko", "도서관에서 책을 빌렸습니다."),
    ("ko-2", "ko", "오늘은 비가 옵니다."),
    ("th-1", "th", "วันนี้อากาศดีมาก"),
    ("th-2", "th", "ห้องสมุดปิดวันจันทร์"),
    ("my-1", "my", "ရန်ကုန်မြို့မှာ မိုးရွာနေတယ်။"),
    ("my-2", "my", "စာကြည့်တိုက် ပိတ်ထားတယ်။"),
    ("lo-1", "", "ຫໍສະໝຸດປິດວັນຈັນ"),
    ("km-1", "", "បណ្ណាល័យបិទនៅថ្ងៃចន្ទ។"),
];

async fn with_sentences() -> Server {
    let sentences = SENTENCES.iter().map(|(id, language, text)| match *language {
        "" => json!({"id": id, "text": text}),
        language => json!({"id": id, "text": text, "language": language}),
    });
    Server::with_documents(sentences.collect()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn words_are_found_in_every_script() {
    let server = with_sentences().await;
    let check = async |query: &str, expect: &str| {
        let response = server.post(PATH, &json!({"query": query, "mode": "lexical"})).await;
        assert_eq!(ids(&response).first(), Some(&expect), "{query}: {}", response.text);
        assert!(response.body["hits"][0]["score"].as_f64().is_some_and(|score| score > 0.0), "{}", response.text);
    };
    for (query, expect) in [
        ("Verspätung", "de-1"),
        ("verspatung", "de-1"),
        ("BÄCKEREI", "de-2"),
        ("ete", "fr-1"),
        ("l’été au musee", "fr-1"),
        ("lodz", "pl-1"),
        ("da nang", "vi-1"),
        ("istanbul", "tr-1"),
        ("ежик", "ru-1"),
        ("ПОЕЗД", "ru-2"),
        ("ΛΟΓΟΣ", "el-1"),
        ("θαλασσα", "el-2"),
        ("مكتبه", "ar-1"),
        ("مَكْتَبَة", "ar-1"),
        ("كتاب", "fa-1"),
        ("می خواهم", "fa-1"),
        ("הספרייה", "he-1"),
        ("पुस्तकालय", "hi-1"),
        ("বৃষ্টি", "bn-1"),
        ("மழை", "ta-1"),
        ("ბიბლიოთეკა", "ka-1"),
        ("գրադարանը", "hy-1"),
        ("合约", "zh-1"),
        ("馆", "zh-2"),
        ("息", "zh-2"),
        ("天気", "ja-1"),
        ("ﾀﾜｰ", "ja-2"),
        ("東", "ja-2"),
        ("도서관", "ko-1"),
        ("책", "ko-1"),
        ("อากาศ", "th-1"),
        ("ห้องสมุด", "th-2"),
        ("ရန်ကုန်", "my-1"),
        ("စာကြည့်တိုက်", "my-2"),
        ("ຫໍສະໝຸດ", "lo-1"),
        ("បណ្ណាល័យ", "km-1"),
    ] {
        check(query, expect).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_documents_sharing_a_word_are_found() {
    let server = with_sentences().await;
    let found = async |query: &str| {
        let response = server.post(PATH, &json!({"query": query, "mode": "lexical"})).await;
        ids(&response).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(found("Zug Brot").await, ["de-1"]);
    assert_eq!(found("vehicle").await, [""; 0]);
    assert_eq!(found("?! … 。、 →").await, [""; 0], "a query of punctuation alone has no hits");
    let mut both = found("pain Zug").await;
    both.sort();
    assert_eq!(both, ["de-1", "fr-2"], "any of the words is enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exact_spelling_ranks_above_a_folded_match() {
    let server = Server::with_documents(json!([
        {"id": "plain", "text": "Das Haus ist schon alt", "language": "de"},
        {"id": "umlaut", "text": "Das Haus ist schön alt", "language": "de"},
    ]))
    .await;
    for (query, expect) in [("schön", ["umlaut", "plain"]), ("schon", ["plain", "umlaut"])] {
        assert_eq!(ids(&server.post(PATH, &json!({"query": query, "mode": "lexical"})).await), expect, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_languages_and_paging_apply_to_lexical_search() {
    let server = Server::with_documents(documents()).await;
    let update = json!({"documents": [
        {"id": "fr-2", "text": "Le marché est fermé.", "language": "fr", "metadata": {"year": 2021}},
        {"id": "en", "text": "She wrote le marché in her notes.", "language": "en", "metadata": {"year": 2021}},
    ]});
    assert_eq!(server.post("/v1/collections/news/documents", &update).await.status, 200);
    let check = async |restriction: Value, expect: &[&str]| {
        for mode in ["lexical", "hybrid"] {
            let body = merged(json!({"query": "marché", "mode": mode}), &restriction);
            let response = server.post(PATH, &body).await;
            let mut found = ids(&response);
            if mode == "hybrid" {
                found.retain(|id| ["fr", "fr-2", "en"].contains(id));
            }
            found.sort_unstable();
            assert_eq!(found, expect, "{mode} {restriction}");
        }
    };
    check(json!({}), &["en", "fr", "fr-2"]).await;
    check(json!({"languages": ["fr"]}), &["fr", "fr-2"]).await;
    check(json!({"filter": {"field": "year", "eq": 2021}}), &["en", "fr-2"]).await;
    check(json!({"languages": ["fr"], "filter": {"field": "year", "eq": 2021}}), &["fr-2"]).await;
    let first = server.post(PATH, &json!({"query": "marché", "mode": "lexical", "limit": 2})).await;
    let second = server.post(PATH, &json!({"query": "marché", "mode": "lexical", "limit": 2, "offset": 2})).await;
    assert_eq!((ids(&first).len(), ids(&second).len()), (2, 1));
    assert!(!ids(&first).contains(&ids(&second)[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn lexical_search_reflects_updates_and_deletions() {
    let server = Server::with_documents(documents()).await;
    let found = async |query: &str| {
        let response = server.post(PATH, &json!({"query": query, "mode": "lexical"})).await;
        ids(&response).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(found("marché").await, ["fr"]);
    let update = json!({"documents": [{"id": "fr", "text": "Wir suchen einen Gärtner."}]});
    assert_eq!(server.post("/v1/collections/news/documents", &update).await.status, 200);
    assert_eq!((found("marché").await.len(), found("Gärtner").await), (0, vec!["fr".to_owned()]));
    assert_eq!(server.delete("/v1/collections/news/documents/fr").await.status, 204);
    assert_eq!(found("Gärtner").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lexical_search_finds_a_just_stored_document_and_its_best_passage() {
    let server = Server::paused_with_news().await;
    let long = "Das Meer ist heute grau und still und weit, und niemand geht am Strand entlang. \
                Am Abend kommt ein Sturm mit Regen und Wind, und alle Boote liegen fest im Hafen.";
    let body = json!({"documents": [{"id": "long", "text": long, "language": "de"}]});
    assert_eq!(server.post("/v1/collections/news/documents?wait=stored", &body).await.status, 200);
    let response = server.post(PATH, &json!({"query": "Sturm", "mode": "lexical", "include": ["passage"]})).await;
    assert_eq!(ids(&response), ["long"]);
    let passage = &response.body["hits"][0]["passage"];
    assert!(passage["text"].as_str().is_some_and(|text| text.contains("Sturm") && !text.contains("Meer")), "{passage}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hybrid_fuses_the_ranks_of_both_lists() {
    let server = with_sentences().await;
    let query = "Verspätung eines Zuges";
    let body = json!({"query": query, "mode": "hybrid", "explain": true, "limit": 30});
    let response = server.post(PATH, &body).await;
    assert_eq!(ids(&response)[0], "de-1");
    for hit in response.body["hits"].as_array().expect("hits") {
        let share = |list: &str| hit["explanation"][list]["rank"].as_f64().map_or(0.0, |rank| 1.0 / (60.0 + rank));
        let expect = share("dense") + share("lexical");
        assert!((hit["score"].as_f64().expect("a score") - expect).abs() < 1e-6, "{hit}");
    }
    let weighted = json!({"query": query, "mode": "hybrid", "weights": {"dense": 0, "lexical": 2}, "rank_constant": 1});
    let response = server.post(PATH, &weighted).await;
    assert_eq!((ids(&response), response.body["hits"][0]["score"].as_f64()), (vec!["de-1"], Some(1.0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_fusion_options_are_refused() {
    let server = Server::with_news().await;
    let check = async |body: Value, place: &str, words: &[&str]| {
        server.post(PATH, &body).await.assert_error(422, "invalid_request", place, words);
    };
    check(json!({"query": "a", "weights": {"dense": 1}}), "/weights", &["hybrid only"]).await;
    check(json!({"query": "a", "mode": "lexical", "rank_constant": 60}), "/rank_constant", &["hybrid only"]).await;
    check(json!({"query": "a", "mode": "hybrid", "weights": {"dense": -1}}), "/weights/dense", &["at least 0", "-1"]).await;
    check(json!({"query": "a", "mode": "hybrid", "weights": {"dense": 0, "lexical": 0}}), "/weights", &["both be 0"]).await;
    check(json!({"query": "a", "mode": "hybrid", "weights": {"sparse": 1}}), "/weights/sparse", &["unknown field"]).await;
    check(json!({"query": "a", "mode": "hybrid", "weights": [1, 1]}), "/weights", &["expected an object"]).await;
    check(json!({"query": "a", "mode": "hybrid", "rank_constant": 0}), "/rank_constant", &["from 1 to 1000"]).await;
    check(json!({"query": "a", "mode": "lexical", "exact": true}), "/exact", &["lexical"]).await;
    check(json!({"query": "a", "mode": "lexical", "margin": {}}), "/margin", &["dense only"]).await;
    check(json!({"vector": vec![1.0; 64], "mode": "lexical"}), "/mode", &["need query"]).await;
    check(json!({"like": "x", "mode": "hybrid"}), "/mode", &["need query"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_with_too_many_words_is_reported_as_truncated() {
    let server = Server::with_documents(documents()).await;
    let many: String = (0..300).map(|n| format!("wort{n} ")).collect();
    for (query, truncated) in [(many.clone(), true), (format!("marché {many}"), true), ("marché".to_owned(), false)] {
        let response = server.post(PATH, &json!({"query": query, "mode": "lexical"})).await;
        assert_eq!((response.status, &response.body["query_truncated"]), (200, &json!(truncated)), "{}", response.text);
        assert_eq!(ids(&response).len(), usize::from(query.contains("marché")));
    }
}

/// Queries of any kind, most of them unlike anything a person would type.
fn queries() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[\"'*^:()+\\-{} ]{0,12}",
        "(NEAR|AND|OR|NOT|words|folded|rank|:|\"| |\\*){0,8}",
        "[ก-๛အ-႟가-힣一-十ぁ-ん]{0,20}",
    ]
}

#[test]
fn any_nonblank_query_succeeds_when_operators_are_disabled() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let server = runtime.block_on(with_sentences());
    proptest!(ProptestConfig::with_cases(200), |(query in queries(), mode in prop_oneof![Just("lexical"), Just("hybrid")])| {
        let request = json!({"query": query, "mode": mode, "operators": false});
        let response = runtime.block_on(server.post(PATH, &request));
        prop_assert_eq!(response.status, if query.trim().is_empty() { 422 } else { 200 }, "{:?}: {}", query, response.text);
    });
}

#[test]
fn a_query_with_operators_is_refused_only_without_search_words() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let server = runtime.block_on(with_sentences());
    proptest!(ProptestConfig::with_cases(200), |(query in queries(), mode in prop_oneof![Just("lexical"), Just("hybrid")])| {
        let response = runtime.block_on(server.post(PATH, &json!({"query": query, "mode": mode})));
        let says_something = !query.trim().is_empty() && QueryText::parse(&query, |_, _| false).check().is_ok();
        prop_assert_eq!(response.status, if says_something { 200 } else { 422 }, "{:?}: {}", query, response.text);
    });
    let response = runtime.block_on(server.post(PATH, &json!({"query": "-rain", "mode": "lexical"})));
    assert_eq!(response.status, 422);
}
