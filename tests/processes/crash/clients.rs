//! The clients of the kill loop. Each knows which of its writes were acknowledged and which got no response.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::path::Path;
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::program::Client;

/// The collection that all clients write to.
pub const COLLECTION: &str = "crash";
/// Documents of one writer. Together, all writers have more than 1,000, below which even a search of the graph compares with all.
const DOCUMENTS_MAX: u64 = 200;
/// Documents that a writer starts with.
const DOCUMENTS_AT_FIRST: u64 = 165;
/// Maximum number of documents in one request.
const BATCH_MAX: u64 = 12;
/// Documents that one request looks up, each with two searches.
const SEARCHES: usize = 50;
/// The width of the searches of the graph. Without a width, a search compares with all passages.
const EF_SEARCH: u64 = 400;

/// The server's documents, by id.
pub type Documents = BTreeMap<String, Value>;

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A version of a document: its text, and a number in its metadata.
type Version = (String, u64);

/// What a writer knows about one of its documents.
#[derive(Debug, Clone, Default)]
struct Expected {
    /// The version that was acknowledged last; `None` after a deletion.
    version: Option<Version>,
    /// Whether that version was acknowledged as searchable.
    searchable: bool,
}

/// A client with its own documents.
pub struct Writer {
    number: usize,
    random: Random,
    documents: BTreeMap<String, Expected>,
    /// The request that was not answered before the kill: it was applied either completely or not at all.
    unanswered: BTreeMap<String, Option<Version>>,
}

impl Writer {
    pub fn new(number: usize, seed: u64) -> Self {
        Self { number, random: Random(seed), documents: BTreeMap::new(), unanswered: BTreeMap::new() }
    }

    /// Stores the documents that it starts with.
    pub fn begin(&mut self, client: &Client) {
        assert!(self.put(client, DOCUMENTS_AT_FIRST));
    }

    /// Writes until the server is gone; reports each acknowledged change.
    pub fn write(&mut self, client: &Client, acknowledged: &mpsc::Sender<()>) {
        while self.change(client) {
            // After the kill, nobody receives any more.
            let _ = acknowledged.send(());
        }
    }

    /// Sends one request. Returns whether the server answered.
    fn change(&mut self, client: &Client) -> bool {
        let present: Vec<_> =
            self.documents.iter().filter(|(_, expected)| expected.version.is_some()).map(|(id, _)| id.clone()).collect();
        let one_of = |random: &mut Random| present.get(random.below(present.len().max(1) as u64) as usize).cloned();
        match self.random.below(10) {
            0 | 1 => match one_of(&mut self.random) {
                Some(id) => self.delete(client, id),
                None => self.put(client, 1),
            },
            2 => match one_of(&mut self.random) {
                Some(id) => self.search(client, &id),
                None => self.put(client, 1),
            },
            3..=5 => {
                let size = 2 + self.random.below(BATCH_MAX - 1);
                self.put(client, size)
            }
            _ => self.put(client, 1),
        }
    }

    /// Creates or replaces documents.
    fn put(&mut self, client: &Client, size: u64) -> bool {
        let (mut documents, mut versions) = (Vec::new(), BTreeMap::new());
        while (versions.len() as u64) < size {
            let id = format!("w{}-{}", self.number, self.random.below(DOCUMENTS_MAX));
            let version = (self.text(), self.random.below(1_000));
            if let Entry::Vacant(place) = versions.entry(id) {
                let (id, (text, number)) = (place.key(), &version);
                let mut document = json!({ "id": id, "text": text, "language": "en", "metadata": { "n": number } });
                if let Some(title) = title(text, *number) {
                    document["title"] = title.into();
                }
                documents.push(document);
                place.insert(Some(version));
            }
        }
        let wait = if self.random.below(3) == 0 { "stored" } else { "indexed" };
        self.unanswered = versions;
        let path = format!("/v1/collections/{COLLECTION}/documents?wait={wait}");
        let Ok((status, body)) = client.try_post(&path, &json!({ "documents": documents })) else { return false };
        assert_eq!(status, 200, "{body}");
        for (id, version) in std::mem::take(&mut self.unanswered) {
            self.documents.insert(id, Expected { version, searchable: wait == "indexed" });
        }
        true
    }

    /// Words of random letters, so that no two texts are similar.
    fn text(&mut self) -> String {
        let letter = |random: &mut Random| char::from(b'a' + random.below(26) as u8);
        let words = (0..6).map(|_| (0..8).map(|_| letter(&mut self.random)).collect::<String>());
        words.collect::<Vec<_>>().join(" ")
    }

    fn delete(&mut self, client: &Client, id: String) -> bool {
        let path = format!("/v1/collections/{COLLECTION}/documents/{id}");
        self.unanswered = BTreeMap::from([(id.clone(), None)]);
        let Ok((status, body)) = client.try_delete(&path) else { return false };
        assert_eq!(status, 204, "{body}");
        self.unanswered.clear();
        self.documents.insert(id, Expected::default());
        true
    }

    /// Finds a document that was acknowledged as searchable, while all clients write.
    fn search(&mut self, client: &Client, id: &str) -> bool {
        let expected = &self.documents[id];
        let Some((text, _)) = expected.version.as_ref().filter(|_| expected.searchable) else { return true };
        let path = format!("/v1/collections/{COLLECTION}/search");
        let Ok((status, body)) = client.try_post(&path, &json!({ "query": text, "limit": 3, "include": ["text"] })) else {
            return false;
        };
        assert_eq!(status, 200, "{body}");
        assert!(body["hits"][0]["id"] == id && body["hits"][0]["text"] == *text, "{id} with {text} is not first: {body}");
        true
    }

    /// Compares all documents with those of the restarted server and records the outcome of the unanswered request. Returns the
    /// number of documents.
    pub fn check_stored(&mut self, stored: &Documents) -> usize {
        let version_of = |id: &String| {
            let document = stored.get(id)?;
            let (text, number) = (document["text"].as_str().unwrap(), document["metadata"]["n"].as_u64().unwrap());
            assert_eq!(document["title"].as_str(), title(text, number), "{id} has the title of another version");
            Some((text.to_owned(), number))
        };
        let unanswered = std::mem::take(&mut self.unanswered);
        let happened = unanswered.iter().filter(|(id, version)| version_of(id) == **version).count();
        assert!(
            happened == 0 || happened == unanswered.len(),
            "only {happened} changes of an unanswered request were applied: {unanswered:?}"
        );
        if happened > 0 {
            for (id, version) in unanswered {
                self.documents.insert(id, Expected { version, searchable: false });
            }
        }
        for (id, expected) in &self.documents {
            assert_eq!(version_of(id), expected.version, "{id}");
        }
        self.documents.values().filter(|expected| expected.version.is_some()).count()
    }

    /// Searches for every document by its own text, both by default and by the graph alone.
    pub fn check_found(&mut self, client: &Client) {
        let mut present: Vec<_> = self.documents.iter_mut().filter(|(_, expected)| expected.version.is_some()).collect();
        for part in present.chunks_mut(SEARCHES) {
            let texts: Vec<&str> = part.iter().filter_map(|(_, expected)| Some(expected.version.as_ref()?.0.as_str())).collect();
            let found = first_hits(client, &texts);
            for ((id, expected), hit) in part.iter_mut().zip(found) {
                let Some((text, _)) = &expected.version else { continue };
                if hit["id"] != **id || hit["text"] != *text {
                    assert!(!expected.searchable, "{id} was acknowledged as searchable, and a search for its text finds {hit}");
                    client.wait_until(&format!("{id} is found"), |client| {
                        let hit = &first_hits(client, &[text])[0];
                        hit["id"] == **id && hit["text"] == *text
                    });
                }
                expected.searchable = true;
            }
        }
    }
}

/// The first hit of the default search for each text, or that of the graph alone if it has another text.
fn first_hits(client: &Client, texts: &[&str]) -> Vec<Value> {
    let both = |text: &&str| {
        [
            json!({ "query": text, "limit": 1, "include": ["text"] }),
            json!({ "query": text, "mode": "dense", "ef_search": EF_SEARCH, "limit": 1, "include": ["text"] }),
        ]
    };
    let searches: Vec<Value> = texts.iter().flat_map(both).collect();
    let path = format!("/v1/collections/{COLLECTION}/search/batch");
    let (status, body) = client.post(&path, &json!({ "searches": searches }));
    assert_eq!(status, 200, "{body}");
    let first = |(pair, text): (&[Value], &&str)| {
        let mut hits = pair.iter().map(|result| &result["hits"][0]);
        let other = hits.clone().find(|hit| hit["text"] != **text);
        other.or_else(|| hits.next()).cloned().unwrap_or_default()
    };
    body["results"].as_array().unwrap().chunks(2).zip(texts).map(first).collect()
}

/// A client that creates and deletes collections.
pub struct Namer {
    random: Random,
    present: BTreeSet<String>,
    unanswered: Option<String>,
    made: u64,
}

impl Namer {
    pub fn new(seed: u64) -> Self {
        Self { random: Random(seed), present: BTreeSet::new(), unanswered: None, made: 0 }
    }

    /// Works until the server is gone.
    pub fn write(&mut self, client: &Client) {
        loop {
            let name = self.present.first().filter(|_| self.random.below(5) < 2).cloned();
            let status = match name {
                Some(name) => {
                    self.present.remove(&name);
                    self.unanswered = Some(name.clone());
                    client.try_delete(&format!("/v1/collections/{name}")).map(|(status, _)| assert_eq!(status, 204))
                }
                None => {
                    self.made += 1;
                    let name = format!("temporary-{}", self.made);
                    self.unanswered = Some(name.clone());
                    let created = client.try_post("/v1/collections", &json!({ "name": name }));
                    created.map(|(status, body)| {
                        assert_eq!(status, 201, "{body}");
                        self.present.insert(name);
                    })
                }
            };
            if status.is_err() {
                return;
            }
            self.unanswered = None;
        }
    }

    /// Compares its collections with those of the restarted server, and their number with the number of folders.
    pub fn check(&mut self, client: &Client, data: &Path) {
        let (_, page) = client.get("/v1/collections?limit=1000");
        let listed = page["collections"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned());
        let mut listed: BTreeSet<String> = listed.collect();
        assert!(listed.remove(COLLECTION), "{page}");
        if let Some(name) = self.unanswered.take() {
            self.present.remove(&name);
            self.present.extend(listed.get(&name).cloned());
        }
        assert_eq!(listed, self.present);
        let folders = std::fs::read_dir(data.join("collections")).unwrap().count();
        assert_eq!(folders, listed.len() + 1, "a folder is left over");
    }
}

/// The title of a document with this text and number; every second document has none.
fn title(text: &str, number: u64) -> Option<&str> {
    text.split(' ').next().filter(|_| number % 2 == 1)
}
