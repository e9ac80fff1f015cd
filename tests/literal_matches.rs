//! The default search with the shipped model: a passage that has the query's own words or characters is found first, even if
//! the model does not know them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/program.rs"]
mod program;

use program::{Client, Program, marked};
use serde_json::{Value, json};

const MODEL: &str = "models/ems-small";

/// The id of each document, and its text.
const DOCUMENTS: [(&str, &str); 26] = [
    ("night market", "臺灣的夜市很有名。"),
    ("khmer", "ភ្នំពេញជាទីក្រុងធំ"),
    ("amharic", "የኢትዮጵያ ቡና ጣፋጭ ነው"),
    ("lao", "ວຽງຈັນເປັນນະຄອນຫຼວງ"),
    ("party", "The disco party was great 🪩"),
    ("bug", "Fixed the login bug yesterday."),
    ("rainy day", "下雨天路滑，请小心驾驶。"),
    ("rain", "It is raining."),
    ("park", "上野公園で花見をした。"),
    ("parque", "El parque está limpio."),
    ("mint", "Чай із м’ятою заспокоює."),
    ("meat", "Свіже м'ясо продають на ринку."),
    ("mail", "שלחו את הטופס בדוא״ל עד יום שני."),
    ("army", "דובר צה״ל מסר הודעה על התרגיל."),
    ("flour", "Für den Teig braucht man 500 g Mehl und etwas Salz."),
    ("notes of 2.10.1", "Release 2.10.1 starts faster."),
    ("notes of 2.1.10", "Release 2.1.10 mends two errors of the printer driver."),
    ("espresso", "This machine makes espresso with a thick foam."),
    ("laptop", "The laptop costs 1,299.00 euros."),
    ("camera", "The camera costs 299.00 euros."),
    ("commands", "First run pip install -r requirements.txt."),
    ("python", "Pip is the installer of Python packages; update it often."),
    ("lift", "Der Lastenaufzug im Nordflügel steht seit gestern still."),
    ("ham", "A sandwich with ham and mustard, freshly made."),
    ("harbor", "Hamburg has a large harbor, and Hamburg is proud of it."),
    ("crash", "If the viewer ends with GraphicsDeviceLost, update the driver of the graphics card."),
];

fn search(client: &Client, query: &str) -> Vec<Value> {
    let body = json!({"query": query, "limit": 15, "include": ["passage"], "explain": true});
    let (status, response) = client.post("/v1/collections/words/search", &body);
    assert_eq!(status, 200, "{response}");
    response["hits"].as_array().unwrap().clone()
}

#[test]
fn passages_with_the_exact_query_words_rank_first() {
    let (_folder, server) = Program::fresh(MODEL);
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({ "name": "words" })).0, 201);
    let documents: Vec<Value> = DOCUMENTS.iter().map(|(id, text)| json!({"id": id, "text": text})).collect();
    assert_eq!(client.post("/v1/collections/words/documents", &json!({ "documents": documents })).0, 200);
    for (query, expect) in [
        ("臺灣", "night market"),
        ("臺灣夜市", "night market"),
        ("下雨", "rainy day"),
        ("雨天", "rainy day"),
        ("公園", "park"),
        ("м'ятою", "mint"),
        ("м'ясо", "meat"),
        ("בדוא״ל", "mail"),
        ("צה\"ל", "army"),
        ("500 g Mehl", "flour"),
        ("2.1.10", "notes of 2.1.10"),
        ("release 2.10.1", "notes of 2.10.1"),
        ("espr", "espresso"),
        ("machine that makes espr", "espresso"),
        ("1299", "laptop"),
        ("1.299,00 €", "laptop"),
        ("pip install -r requirements.txt", "commands"),
        ("滑", "rainy day"),
        ("v2.1.10", "notes of 2.1.10"),
        ("🪩", "party"),
        ("elevator", "lift"),
        ("ham", "ham"),
    ] {
        let hits = search(&client, query);
        assert_eq!(hits[0]["id"], expect, "{query}: {hits:#?}");
    }
    let hits = search(&client, &log());
    assert_eq!(hits[0]["id"], "crash", "{hits:#?}");
    let harbor = search(&client, "ham").into_iter().find(|hit| hit["id"] == "harbor");
    assert!(harbor.is_none_or(|hit| hit["score"].as_f64().unwrap() < 0.7), "Hamburg has no ham");
    check_unknown_characters(&client);
    check_marks(&client);
    assert!(server.terminate().success());
}

/// A log in which one line says what the error is.
fn log() -> String {
    let line = |number: usize| {
        format!("[{}.{}] queue {} flushed, buffer page {}\n", 4_000 + number, 317 * number, 500 + number, 600 + 7 * number)
    };
    (0..30).map(line).chain(["render thread: GraphicsDeviceLost\n".to_owned()]).chain((30..60).map(line)).collect()
}

#[test]
fn a_document_whose_title_is_or_has_the_query_ranks_first() {
    let (_folder, server) = Program::fresh(MODEL);
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({ "name": "words" })).0, 201);
    let documents = json!({"documents": [
        {"id": "billing", "title": "Billing contact", "text": "Write to this address if an invoice is wrong."},
        {"id": "contact", "title": "Contact", "text": "Our office is open from nine to five."},
        {"id": "lyon", "title": "From Lyon to Paris", "text": "The train takes two hours."},
        {"id": "paris", "title": "Paris", "text": "The capital of France lies on the Seine."},
        {"id": "backpack", "title": "Backpack 40 l", "text": "With rain cover."},
        {"id": "jacket", "title": "Rain jacket Fjord", "text": "Waterproof jacket with sealed seams, for hiking."},
    ]});
    assert_eq!(client.post("/v1/collections/words/documents", &documents).0, 200);
    for (query, expect) in
        [("Contact", "contact"), ("contact?", "contact"), ("Paris", "paris"), ("billing contact", "billing"), ("rain", "jacket")]
    {
        let hits = search(&client, query);
        assert_eq!(hits[0]["id"], expect, "{query}: {hits:#?}");
    }
    assert!(server.terminate().success());
}

/// More passages have the word, and more often, than are listed.
#[test]
fn a_document_titled_like_the_query_is_found_first_among_many_with_its_word() {
    let (_folder, server) = Program::fresh(MODEL);
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({ "name": "words" })).0, 201);
    let common = |number: u32| {
        let text = format!("Harbor, harbor, harbor {number}: гавань, гавань, гавань; 港口，港口，港口; الميناء، الميناء");
        json!({"id": number.to_string(), "title": format!("Notes on the harbor {number}"), "text": text})
    };
    let titled = |title: &str| {
        let text = "Fishing boats leave before sunrise, and the market on the quay opens at noon. Tickets for the ferry are sold at the \
            kiosk, where visitors also rent bicycles and ask for the way to the old lighthouse on the cliff.";
        json!({"id": title, "title": title, "text": text})
    };
    let documents: Vec<Value> = (0..700).map(common).chain(["Harbor!", "Гавань", "港口", "الميناء"].map(titled)).collect();
    for part in documents.chunks(400) {
        assert_eq!(client.post("/v1/collections/words/documents", &json!({ "documents": part })).0, 200);
    }
    for (query, expect) in [("harbor", "Harbor!"), ("гавань", "Гавань"), ("港口", "港口"), ("الميناء", "الميناء")]
    {
        let hits = search(&client, query);
        assert_eq!(hits[0]["id"], expect, "{query}: {hits:#?}");
    }
    assert!(server.terminate().success());
}

/// Characters that the model does not know are one token to it, but do not stand for each other.
fn check_unknown_characters(client: &Client) {
    for query in ["🪲", "ᏣᎳᎩ", "臺", "\u{200b}", "ວຽງຈັນ"] {
        for hit in search(client, query) {
            let has_it = hit["passage"]["text"].as_str().unwrap().contains(query);
            assert!(has_it || hit["score"].as_f64().unwrap() < 0.5, "{query}: {hit}");
            assert!(has_it || marked(&hit).is_empty(), "{query}: {hit}");
        }
    }
    let beetle = search(client, "login bug 🪲");
    assert_eq!((beetle[0]["id"].as_str(), marked(&beetle[0]).concat().contains("bug")), (Some("bug"), true));
    assert!(beetle.iter().all(|hit| hit["id"] != "khmer" || marked(hit).is_empty()), "{beetle:#?}");
}

fn check_marks(client: &Client) {
    for (query, expect) in [
        ("500 g Mehl", &["500 g Mehl", "500", "g", "Mehl"][..]),
        ("м'ятою", &["м’ятою"]),
        ("צה\"ל", &["צה״ל"]),
        ("espr", &["espresso"]),
        ("elevator", &["Lastenaufzug"]),
        ("🪩", &["🪩"]),
    ] {
        let found = marked(&search(client, query)[0]);
        assert!(found.iter().any(|mark| expect.contains(&mark.as_str())), "{query}: {found:?}");
        let other = found.iter().find(|mark| !expect.contains(&mark.as_str()));
        assert_eq!(other, None, "{query}: {found:?}");
    }
    let flour = marked(&search(client, "500 g Mehl")[0]).concat();
    assert!(flour.contains("Mehl") && flour.contains("500"), "{flour}");
}
