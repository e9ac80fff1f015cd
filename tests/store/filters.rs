//! Filters through the three methods that take one. The meaning of filters is tested next to their compiler, and what holds for
//! every engine in `tests/engines/filters.rs`.

use dragoman::domain::{Field, Filter, MetadataPath, PassageId, Scalar, Test};
use dragoman::store::{DocumentStore, PreparedDocument, SearchFilter};
use serde_json::json;

use crate::{cut, delete, document, embed, keys, language, put, store};

/// Three documents: `b` has two passages, `c` waits for its embedding. Returns their keys.
fn filled(store: &DocumentStore) -> [Vec<PassageId>; 3] {
    let with = |document: PreparedDocument, code: &str, year: i64| {
        let metadata = json!({"year": year, "odd.\"key": {"ключ": "да"}}).as_object().unwrap().clone();
        put(store, PreparedDocument { language: language(code), metadata, ..document })
    };
    let a = with(document("a", "un train part"), "fr", 2020);
    let b = with(cut("b", "eins zwei", vec![0..4, 5..9]), "de", 2020);
    let c = with(document("c", "trois"), "fr", 2021);
    embed(store, &a.pending);
    embed(store, &b.pending);
    [a, b, c].map(|outcome| keys(&outcome.pending))
}

fn filter(languages: &[&str], equals: &[(&[&str], Scalar)]) -> SearchFilter {
    let condition = |(path, value): &(&[&str], Scalar)| {
        let path = MetadataPath::new(path.iter().map(|&key| key.to_owned()).collect()).unwrap();
        Filter::Field(Field::Metadata(path), Test::Eq(value.clone()))
    };
    SearchFilter {
        languages: languages.iter().filter_map(|code| language(code)).collect(),
        filter: Filter::And(equals.iter().map(condition).collect()),
    }
}

#[test]
fn counting_filtering_and_listing_return_the_same_matches() {
    let (_folder, store) = store();
    let [a, b, c] = filled(&store);
    let year = |year| (["year"].as_slice(), Scalar::Integer(year));
    let odd = (["odd.\"key", "ключ"].as_slice(), Scalar::Text("да".to_owned()));
    let all = [a.clone(), b.clone(), c.clone()].concat();
    let check = |filter: &SearchFilter, documents: usize, passages: &[&[PassageId]]| {
        assert_eq!(store.count_matching(filter, 10).unwrap(), documents, "{filter:?}");
        assert_eq!(store.keep_matching(filter, &all).unwrap(), passages.concat(), "{filter:?}");
        let mut found = store.matching_passages(filter, None).unwrap().passages;
        found.sort();
        assert_eq!(found, passages.concat(), "{filter:?}");
    };
    check(&filter(&[], &[]), 3, &[&a, &b, &c]);
    check(&filter(&["fr"], &[]), 2, &[&a, &c]);
    check(&filter(&["fr", "de"], &[year(2020)]), 2, &[&a, &b]);
    check(&filter(&["fr"], &[year(2021)]), 1, &[&c]);
    check(&filter(&[], std::slice::from_ref(&odd)), 3, &[&a, &b, &c]);
    check(&filter(&["de"], &[odd, year(2020)]), 1, &[&b]);
    check(&filter(&["ja"], &[]), 0, &[]);
}

#[test]
fn keep_matching_preserves_order_and_drops_missing_passages() {
    let (_folder, store) = store();
    let [a, b, c] = filled(&store);
    delete(&store, "a");
    let asked = [c[0], a[0], b[1], PassageId(999), b[0], PassageId(u64::MAX)];
    assert_eq!(store.keep_matching(&SearchFilter::default(), &asked).unwrap(), [c[0], b[1], b[0]]);
}
