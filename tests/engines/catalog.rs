//! Collections, aliases, keys and idempotency records in the catalog.

use dragoman::domain::{
    Alias, Collection, CollectionId, CollectionModel, CollectionName, HnswSettings, Key, KeyId, Language, Metric, Page,
    PassageBounds, Quantization, RequestKey, Scope,
};
use dragoman::storage::CatalogStorage;
use dragoman::store::{CatalogContents, StoreError, StoredKey};

use crate::catalogs::over_both_catalogs;

/// How long a record is kept.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

fn name(text: &str) -> CollectionName {
    CollectionName::parse(text).unwrap()
}

pub fn collection(text: &str) -> Collection {
    Collection {
        id: CollectionId(format!("id-of-{text}")),
        name: name(text),
        description: Some("Nachrichten\0aus\u{1}aller Welt".to_owned()),
        model: Some(CollectionModel { name: "ems-small".to_owned(), fingerprint: "c0ffee".to_owned() }),
        dimension: 256,
        metric: Metric::Cosine,
        quantization: Quantization::I8,
        hnsw: HnswSettings { m: 32, ef_construction: 200, ef_search: 50 },
        passages: Some(PassageBounds { tokens_max: 64, overlap_tokens: 16 }),
        default_languages: ["fr", "ja"].map(|code| Language::parse(code).unwrap()).to_vec(),
        created_at_ms: 1_700_000_000_123,
    }
}

fn all(catalog: &dyn CatalogStorage) -> Vec<Collection> {
    catalog.list(&Page { limit: 100, after: None }).unwrap()
}

fn request(key: &str, fingerprint: &str) -> RequestKey {
    RequestKey::new(key, fingerprint.to_owned()).unwrap()
}

fn key(digit: &str, collections: Option<&[&str]>) -> StoredKey {
    let names = |names: &[&str]| names.iter().map(|text| name(text)).collect();
    let key = Key {
        id: KeyId::parse(&digit.repeat(32)).unwrap(),
        name: "Suche für die Website".to_owned(),
        scope: Scope::Read,
        collections: collections.map(names),
        created_at_ms: 1_700_000_000_123,
        expires_at_ms: collections.map(|_| 1_800_000_000_000),
    };
    StoredKey { key, secret_sha256: [7; 32] }
}

over_both_catalogs! {
    fn collections_are_found_after_a_restart_as_they_were_created(catalog) {
        let plain = Collection {
            description: None,
            model: None,
            metric: Metric::L2,
            passages: None,
            default_languages: Vec::new(),
            ..collection("plain")
        };
        catalog.create(&collection("news"), None).unwrap();
        catalog.create(&plain, None).unwrap();
        catalog.restart();
        assert_eq!(all(&*catalog), [collection("news"), plain]);
    }

    fn a_name_is_taken_once(catalog) {
        catalog.create(&collection("news"), None).unwrap();
        let second = Collection { id: CollectionId("other".to_owned()), ..collection("news") };
        let error = catalog.create(&second, Some(&request("r", "1"))).unwrap_err();
        assert!(matches!(&error, StoreError::CollectionExists { name } if name.as_str() == "news"), "{error:?}");
        catalog.restart();
        assert_eq!(all(&*catalog), [collection("news")]);
        assert_eq!(catalog.find_created_by(&request("r", "1"), 1_700_000_000_124).unwrap(), None);
    }

    fn what_may_change_changes_for_good(catalog) {
        catalog.create(&collection("news"), None).unwrap();
        let mut changed = collection("news");
        changed.description = None;
        changed.hnsw.ef_search = 300;
        changed.default_languages = Vec::new();
        assert!(catalog.update(&changed).unwrap());
        catalog.restart();
        assert_eq!(all(&*catalog), [changed]);
        assert!(!catalog.update(&collection("absent")).unwrap());
    }

    fn a_deleted_collection_frees_its_name_and_takes_its_aliases_along(catalog) {
        catalog.create(&collection("news"), None).unwrap();
        catalog.set_alias(&name("latest"), &collection("news").id).unwrap();
        assert_eq!(catalog.delete(&name("news")).unwrap(), Some(collection("news")));
        assert_eq!(catalog.delete(&name("news")).unwrap(), None);
        assert_eq!(catalog.aliases().unwrap(), []);
        catalog.create(&collection("news"), None).unwrap();
        catalog.restart();
        assert_eq!(all(&*catalog).len(), 1);
    }

    fn pages_follow_each_other_in_the_order_of_names(catalog) {
        ["b", "Z", "a", "a-1"].iter().for_each(|text| catalog.create(&collection(text), None).unwrap());
        let page = |limit, after: Option<&str>| {
            let rows = catalog.list(&Page { limit, after: after.map(name) }).unwrap();
            rows.iter().map(|row| row.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(page(3, None), ["Z", "a", "a-1"]);
        assert_eq!(page(3, Some("a-1")), ["b"]);
        assert_eq!(page(3, Some("b")), [""; 0]);
        assert_eq!(page(0, None), [""; 0]);
        catalog.restart();
    }

    fn an_alias_points_where_it_was_set_last(catalog) {
        ["news", "blog"].iter().for_each(|text| catalog.create(&collection(text), None).unwrap());
        catalog.set_alias(&name("latest"), &collection("news").id).unwrap();
        catalog.set_alias(&name("latest"), &collection("blog").id).unwrap();
        let taken = catalog.set_alias(&name("news"), &collection("blog").id).unwrap_err();
        assert!(matches!(&taken, StoreError::CollectionExists { .. }), "{taken:?}");
        catalog.restart();
        assert_eq!(catalog.aliases().unwrap(), [Alias { name: name("latest"), collection: name("blog") }]);
        assert!(catalog.delete_alias(&name("latest")).unwrap());
        assert!(!catalog.delete_alias(&name("latest")).unwrap());
    }

    fn a_request_creates_one_thing_and_is_remembered_for_a_day(catalog) {
        let news = Collection { created_at_ms: 5_000, ..collection("news") };
        catalog.create(&news, Some(&request("r1", "f1"))).unwrap();
        catalog.restart();
        let before = |fingerprint, now_ms| catalog.find_created_by(&request("r1", fingerprint), now_ms);
        assert_eq!(before("f1", 6_000).unwrap(), Some(news.id.0.clone()));
        assert_eq!(before("f1", 5_000 + DAY_MS).unwrap(), None);
        let reused = before("f2", 6_000);
        assert!(matches!(reused, Err(StoreError::KeyReused { .. })), "{reused:?}");
        let again = catalog.create(&Collection { created_at_ms: 6_000, ..collection("blog") }, Some(&request("r1", "f2")));
        assert!(matches!(again, Err(StoreError::KeyReused { .. })), "{again:?}");
        assert_eq!(all(&*catalog).len(), 1, "the refused request created nothing");
        let later = Collection { created_at_ms: 6_000 + DAY_MS, ..collection("blog") };
        catalog.create(&later, Some(&request("r1", "f2"))).unwrap();
        assert_eq!(catalog.find_created_by(&request("r1", "f2"), 7_000 + DAY_MS).unwrap(), Some(later.id.0));
    }

    fn keys_are_found_after_a_restart_as_they_were_added(catalog) {
        let keys = [key("0", None), key("1", Some(&["news", "blog"])), key("2", Some(&[]))];
        keys.iter().rev().for_each(|key| catalog.add_key(key).unwrap());
        catalog.restart();
        assert_eq!(catalog.keys().unwrap(), keys);
        assert!(catalog.remove_key(&keys[1].key.id).unwrap());
        assert!(!catalog.remove_key(&keys[1].key.id).unwrap());
        assert_eq!(catalog.keys().unwrap().len(), 2);
    }

    fn a_catalog_is_copied_completely(catalog) {
        let alias = |text: &str, collection: &str| Alias { name: name(text), collection: name(collection) };
        let whole = CatalogContents {
            collections: vec![collection("blog"), collection("news")],
            aliases: vec![alias("latest", "news"), alias("old", "news")],
            keys: vec![key("0", None), key("1", Some(&["news"]))],
        };
        let own = StoredKey { secret_sha256: [9; 32], ..key("0", None) };
        catalog.add_key(&own).unwrap();
        catalog.import_contents(&whole).unwrap();
        catalog.restart();
        assert_eq!((all(&*catalog), catalog.aliases().unwrap()), (whole.collections, whole.aliases));
        assert_eq!(catalog.keys().unwrap(), [own, key("1", Some(&["news"]))], "an existing key stays");
    }

    fn a_catalog_with_a_taken_name_is_not_taken_in_at_all(catalog) {
        catalog.create(&collection("news"), None).unwrap();
        catalog.set_alias(&name("latest"), &collection("news").id).unwrap();
        let refused = |collections: &[&str], aliases: &[&str]| {
            let collections: Vec<Collection> = collections.iter().map(|text| collection(text)).collect();
            let aliases = aliases.iter().map(|text| Alias { name: name(text), collection: collections[0].name.clone() }).collect();
            catalog.import_contents(&CatalogContents { collections, aliases, keys: vec![key("1", None)] }).unwrap_err()
        };
        let error = refused(&["blog", "news"], &[]);
        assert!(matches!(&error, StoreError::CollectionExists { name: taken } if *taken == name("news")), "{error:?}");
        let error = refused(&["blog"], &["news"]);
        assert!(matches!(&error, StoreError::CollectionExists { name: taken } if *taken == name("news")), "{error:?}");
        for (collections, aliases) in [(&["blog"][..], &["latest"][..]), (&["latest"][..], &[][..])] {
            let error = refused(collections, aliases);
            assert!(matches!(&error, StoreError::AliasExists { name: taken } if *taken == name("latest")), "{error:?}");
        }
        catalog.restart();
        assert_eq!((all(&*catalog), catalog.keys().unwrap()), (vec![collection("news")], Vec::new()));
        assert_eq!(catalog.aliases().unwrap().len(), 1);
    }
}
