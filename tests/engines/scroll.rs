//! Lists ordered by a metadata value.

use dragoman::domain::{DocumentOrder, Filter, MetadataPath, ScrollRequest};
use serde_json::{Value, json};

use crate::contract::{Engine, document, over_both_engines, with};

/// All pages of two documents, concatenated.
fn in_order(engine: &Engine, path: &str, descending: bool) -> String {
    let order = DocumentOrder::Metadata(MetadataPath::parse(path).unwrap());
    let mut request = ScrollRequest { filter: Filter::default(), order, descending, limit: 2, after: None };
    let mut names: Vec<String> = Vec::new();
    loop {
        let page = engine.scroll(&request, u64::MAX).unwrap();
        names.extend(page.documents.iter().map(|document| document.id.to_string()));
        assert!(names.len() < 100, "the pages never end: {names:?}");
        match page.next {
            Some(next) => request.after = Some(next),
            None => return names.join(" "),
        }
    }
}

fn put_all(engine: &Engine, values: &[(&str, Value)]) {
    for (name, value) in values {
        engine.put(with(document(name, "text"), json!({"x": value})));
    }
}

over_both_engines! {
    fn numbers_sort_before_strings_and_missing_values_last(engine) {
        put_all(engine, &[
            ("text", json!("b")), ("accent", json!("é")), ("digit", json!("10")), ("two", json!(2)), ("half", json!(1.5)),
            ("true", json!(true)), ("one", json!(1)), ("false", json!(false)), ("null", json!(null)), ("less", json!(-7)),
        ]);
        engine.put(document("none", "text"));
        assert_eq!(in_order(engine, "x", false), "less false one true half two digit text accent none null");
        assert_eq!(in_order(engine, "x", true), "accent text digit two half true one false less null none");
    }

    fn integers_that_are_the_same_float_sort_by_value(engine) {
        const BIG: i64 = 9_007_199_254_740_992;
        put_all(engine, &[("a", json!(BIG + 3)), ("b", json!(BIG + 1)), ("c", json!(BIG + 2)), ("d", json!(BIG)), ("e", json!(-BIG - 1))]);
        assert_eq!(in_order(engine, "x", false), "e d b c a");
        engine.set_metadata_indexes(vec![MetadataPath::parse("x").unwrap()]).unwrap();
        assert_eq!(in_order(engine, "x", true), "a c b d e");
    }

    fn arrays_and_objects_sort_by_their_json_as_sent(engine) {
        put_all(engine, &[
            ("object", json!({"z": 1, "a": {"zero": "\0"}})), ("longer", json!([1, 2])), ("array", json!([1])), ("real", json!([1.0])),
            ("text", json!("a")), ("texts", json!(["a\0"])),
        ]);
        assert_eq!(in_order(engine, "x", false), "texts longer real array text object");
        assert_eq!(in_order(engine, "x.a.zero", false), "object array longer real text texts");
    }

    fn ordered_pages_reflect_changes_and_respect_filters(engine) {
        put_all(engine, &[("a", json!(3)), ("b", json!(2)), ("c", json!(1))]);
        engine.set_metadata_indexes(vec![MetadataPath::parse("x").unwrap()]).unwrap();
        assert_eq!(in_order(engine, "x", false), "c b a");
        put_all(engine, &[("c", json!(9))]);
        assert_eq!(in_order(engine, "x", false), "b a c");
        assert_eq!(in_order(engine, "missing", true), "c b a");
    }
}
