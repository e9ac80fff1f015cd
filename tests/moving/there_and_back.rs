//! All of a server's data arrives and answers as before, in a database and then again in a data directory.

use std::io::Cursor;
use std::path::Path;

use serde_json::{Value, json};

use crate::fixture::{FAKE, Places, files, fill, moved, put};
use crate::program::Client;

const MODEL: &str = "models/ems-small";

const TEXTS: [(&str, &str); 8] = [
    ("fr", "Le boulanger ouvre sa boutique à cinq heures du matin et vend du pain encore chaud."),
    ("de", "Die Feuerwehr löschte den Brand in der alten Fabrik noch vor Mitternacht."),
    ("es", "El equipo ganó el partido con un gol en el último minuto."),
    ("tr", "Deprem sırasında binalar sallandı ama kimse yaralanmadı."),
    ("ru", "Учёные обнаружили новую планету, вращающуюся вокруг далёкой звезды."),
    ("ar", "ارتفعت أسعار النفط اليوم بسبب نقص الإنتاج."),
    ("zh", "孩子们在公园里放风筝，笑得很开心。"),
    ("th", "แมวสีดำนอนหลับอยู่บนเก้าอี้ในห้องครัว"),
];

/// A long text with headings, cut into several passages.
const BOOK: &str = "# Bahnhof\n\nDer Zug nach München fährt heute von Gleis sieben ab. Er hat fünf Minuten Verspätung.\n\n\
    ## Fahrkarten\n\nFahrkarten gibt es am Automaten in der Halle. Wer keine hat, zahlt im Zug mehr.\n\n\
    ## Gepäck\n\nKoffer dürfen in den Gängen nicht stehen. Fahrräder brauchen eine eigene Karte und einen Platz.\n";

/// Fills a server with some of everything. Returns the secrets of an admin key and of a key that may read one collection.
fn fill_all(client: &Client) -> [String; 2] {
    let news = json!({
        "name": "news", "description": "Nachrichten\nvon heute", "hnsw": {"m": 8, "ef_search": 64}, "quantization": "i8",
        "passage_bounds": {"tokens_max": 24, "overlap_tokens": 8}, "default_languages": ["de", "fr"], "metadata_indexes": ["year"],
    });
    assert_eq!(client.post("/v1/collections", &news).0, 201);
    let points = json!({"name": "points", "dimension": 3, "metric": "l2"});
    assert_eq!(client.post("/v1/collections", &points).0, 201);
    for (number, (language, text)) in TEXTS.iter().enumerate() {
        let metadata = json!({"year": 2_000 + number, "share": 0.1 * number as f64, "tags": ["a\u{0}b", {"größe": null}, true]});
        put(client, "news", &json!({"id": language, "text": text, "metadata": metadata}));
    }
    put(client, "news", &json!({"id": "book", "title": "Am Bahnhof", "text": BOOK, "language": "de"}));
    put(client, "news", &json!({"id": "soon", "text": "Bald ist das vorbei.", "expires_at": "2100-01-01T00:00:00Z"}));
    put(client, "news", &json!({"id": "gone", "text": "Das ist schon vorbei."}));
    assert_eq!(client.try_delete("/v1/collections/news/documents/gone").unwrap().0, 204);
    put(client, "news", &json!({"id": "es", "text": TEXTS[2].1, "metadata": {"year": 1_999, "changed": true}}));
    for (id, vector) in [("x", [1.0, 0.25, -0.0]), ("y", [0.5, 8.0, 3.0])] {
        put(client, "points", &json!({"id": id, "vector": vector}));
    }
    assert_eq!(client.put("/v1/aliases/latest", &json!({"collection": "news"})).0, 200);
    let example = |text: &str, label: &str| json!({"text": text, "labels": [label]});
    let examples = json!([
        example("Es regnet den ganzen Tag.", "weather"),
        example("Morgen scheint die Sonne.", "weather"),
        example("Ein Sturm zieht auf.", "weather"),
        example("Die Mannschaft gewinnt das Spiel.", "sports"),
        example("Der Torwart hält den Ball.", "sports"),
        example("Das Finale ist am Samstag.", "sports"),
    ]);
    let mlp = json!({"epochs_max": 20, "runs": 1});
    let made = client.post("/v1/classifiers", &json!({"name": "topics", "kind": "mlp", "examples": examples, "mlp": mlp}));
    assert_eq!(made.0, 201, "{made:?}");
    client.wait_until("the classifier is trained", |client| client.get("/v1/classifiers/topics").1["state"] == "ready");
    let secret = |client: &Client, body: Value| {
        let made = client.post("/v1/keys", &body);
        assert_eq!(made.0, 201, "{made:?}");
        made.1["secret"].as_str().unwrap().to_owned()
    };
    let admin = secret(client, json!({"name": "all", "scope": "admin"}));
    let reader = secret(&client.with_key(&admin), json!({"name": "web", "scope": "read", "collections": ["news"]}));
    [admin, reader]
}

/// Everything that a server shows, except what depends on its location: sizes on disk and durations.
fn seen(client: &Client) -> Vec<Value> {
    let get = |path: &str| {
        let (status, body) = client.get(path);
        assert_eq!(status, 200, "{path} {body}");
        body
    };
    let mut collections = get("/v1/collections");
    for row in collections["collections"].as_array_mut().unwrap() {
        row.as_object_mut().unwrap().remove("disk_bytes");
    }
    let mut seen = vec![collections, get("/v1/aliases"), get("/v1/classifiers"), get("/v1/keys")];
    for name in ["news", "points", "latest"] {
        seen.push(client.get_text(&format!("/v1/collections/{name}/export?include=vector")).into());
        seen.push(get(&format!("/v1/collections/{name}/documents?limit=100")));
    }
    for (collection, asked) in [
        ("news", json!({"query": "Where does the train leave?", "mode": "full"})),
        ("latest", json!({"query": "bread in the morning", "mode": "dense", "exact": true, "limit": 20})),
        ("news", json!({"query": "Zug Karte", "mode": "lexical"})),
        ("news", json!({"query": "Koffer im Zug", "mode": "hybrid", "filter": {"field": "language", "eq": "de"}})),
        ("news", json!({"query": "gol", "mode": "dense", "exact": true, "filter": {"field": "year", "lt": 2_003}})),
        ("points", json!({"vector": [1.0, 1.0, 1.0], "exact": true, "include": ["vector"]})),
    ] {
        let mut hits = client.hits(collection, &asked);
        assert!(!hits.is_empty(), "{asked}");
        for hit in hits.iter_mut().filter_map(Value::as_object_mut) {
            let score = hit.remove("score").unwrap().as_f64().unwrap();
            // `full` compares candidates by rounded embeddings, and different summation orders change the last digits.
            if asked["mode"] != "full" {
                hit.insert("score".to_owned(), json!((score * 1e4).round()));
            }
        }
        seen.push(hits.into());
    }
    let texts = json!({"texts": ["Es schneit.", "Das Team verliert.", "Le train part."]});
    let (status, mut predicted) = client.post("/v1/classifiers/topics/predict", &texts);
    assert_eq!(status, 200, "{predicted}");
    predicted.as_object_mut().unwrap().remove("took_ms");
    seen.push(predicted);
    seen
}

#[track_caller]
fn check(client: &Client, [admin, reader]: &[String; 2], expect: &[Value]) {
    for (found, expect) in seen(&client.with_key(admin)).iter().zip(expect) {
        assert_eq!(found, expect);
    }
    assert_eq!(client.get("/v1/collections").0, 401);
    let reader = client.with_key(reader);
    assert_eq!([reader.get("/v1/collections/news").0, reader.get("/v1/collections/points").0], [200, 403]);
}

#[test]
fn all_data_survives_a_move_to_a_database_and_back() {
    if !Path::new(MODEL).join("manifest.json").exists() {
        println!("skipped: there is no {MODEL}/manifest.json");
        return;
    }
    let (places, back) = (Places::new(), Places::new());
    let server = places.serve_folder(MODEL);
    let secrets = fill_all(&server.client());
    let expect = seen(&server.client().with_key(&secrets[0]));
    assert!(server.terminate().success());

    let before = files(places.data.path());
    let there = moved(places.folder(), places.url(), &["--json"]).json();
    assert!(files(places.data.path()) == before, "the source is as it was");
    assert_eq!((&there["aliases"], &there["classifiers"], &there["keys"]), (&json!(1), &json!(1), &json!(2)));
    assert_eq!((&there["collections"][0]["documents"], &there["collections"][1]["passages"]), (&json!(10), &json!(2)));
    let server = places.serve_database(MODEL);
    check(&server.client(), &secrets, &expect);
    assert!(server.terminate().success());
    assert_eq!(moved(places.folder(), places.url(), &["--verify", "--json"]).json(), there);

    let before = places.rows();
    assert_eq!(moved(places.url(), back.folder(), &["--json"]).json(), there, "the checksums are the same");
    assert!(places.rows() == before, "the source is as it was");
    let server = back.serve_folder(MODEL);
    check(&server.client(), &secrets, &expect);
}

#[test]
fn moving_the_data_of_a_killed_server_leaves_the_source_unchanged() {
    let places = Places::new();
    let mut server = places.serve_folder(FAKE);
    fill(&server.client(), 20);
    server.kill();
    let before = files(places.data.path());
    assert!(before.iter().any(|(path, content)| path.ends_with("documents.sqlite-wal") && !content.is_empty()));
    moved(places.folder(), places.url(), &["--json"]).json();
    assert!(files(places.data.path()) == before);
    let server = places.serve_database(FAKE);
    assert_eq!(crate::fixture::counts(&server.client()), [("blog".to_owned(), 1), ("news".to_owned(), 20)]);
}

/// Makes every second passage of the only collection pending again, as if the server had been killed between storing and
/// embedding them. Returns the number of pending passages.
fn leave_pending(data: &Path) -> i64 {
    let folder = std::fs::read_dir(data.join("collections")).unwrap().next().unwrap().unwrap().path();
    let database = rusqlite::Connection::open(folder.join("documents.sqlite")).unwrap();
    database.execute("delete from passage_tokens where passage % 2 = 0", []).unwrap();
    database.execute("update passages set embedded_sequence = null, embedding = null where id % 2 = 0", []).unwrap();
    database.query_row("select count(*) from passages where embedding is null", [], |row| row.get(0)).unwrap()
}

#[test]
fn pending_documents_are_embedded_after_a_move() {
    let places = Places::new();
    let mut server = places.serve_folder(FAKE);
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({"name": "news"})).0, 201);
    let lines: String = (0..3_000).map(|n| json!({"id": format!("n{n}"), "text": format!("w{n}")}).to_string() + "\n").collect();
    assert_eq!(client.post_lines("/v1/collections/news/import", Cursor::new(lines)).0, 202);
    client.wait_until("some are stored", |client| client.get("/v1/collections/news").1["documents"].as_u64() > Some(100));
    server.kill();
    let pending = leave_pending(places.data.path());
    assert!(pending > 0);
    let report = moved(places.folder(), places.url(), &["--leave-jobs", "--json"]).json();
    let documents = report["collections"][0]["documents"].as_u64().unwrap();
    assert_eq!(places.number("select count(*) from dragoman.passages where embedding is null"), pending);
    let server = places.serve_database(FAKE);
    let client = server.client();
    client.wait_until("everything is embedded", |client| client.get("/v1/collections/news").1["passages_pending"] == 0);
    assert_eq!(client.get("/v1/collections/news").1["documents"], documents);
    assert_eq!(client.hits("news", &json!({"query": "w7", "mode": "dense", "limit": 1}))[0]["id"], "n7");
}

#[test]
fn a_move_prints_its_collections_and_that_the_source_was_only_read() {
    let places = Places::new();
    let server = places.serve_folder(FAKE);
    fill(&server.client(), 3);
    assert!(server.terminate().success());
    let run = moved(places.folder(), places.url(), &[]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains("COLLECTION") && run.out.contains("news"), "{run:?}");
    assert!(run.err.contains("the source is unchanged") && run.err.contains("you can delete the source"), "{run:?}");
    let run = moved(places.folder(), places.url(), &["--verify"]);
    assert!(run.code == 0 && run.err.contains("both places have the same data"), "{run:?}");
    assert_eq!(moved(places.folder(), places.url(), &["--verify", "--quiet"]).err, "");
}
