//! The cost of a filter: searches of 100,000 documents with filters that keep from a half to a thousandth of them, compared
//! with the same searches without a filter in the same run; first on a static collection, then while documents are written one
//! after the other. Each case reports recall@10 against an exhaustive comparison of every matching document. Two filters depend
//! on the query's subject: one keeps the tenth of the subjects that contains it, one a tenth that does not.
//!
//! The service runs in process with the fake encoder, so that the ratio is that of the search alone; a real encoder adds the
//! same time to both sides. `DRAGOMAN_BENCH_DOCUMENTS` sets another number of documents.

mod measure;
mod random;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dragoman::domain::{
    CollectionName, DocumentId, Embedding, Field, Filter, Language, Limits, Metadata, NewCollection, NewDocument, Scalar,
    SearchRequest, SearchTarget, Test, Wait,
};
use dragoman::embed::Embedder;
use dragoman::service::{Parts, Service};
use measure::median;
use random::Random;

const DIMENSION: usize = 256;
const LIMIT: usize = 10;
const QUERIES: usize = 100;
const ROUNDS: usize = 5;
const RECALL_QUERIES: usize = 25;
const SUBJECTS: usize = 500;
/// Parts that the subjects are dealt into.
const TENTHS: usize = 10;
/// The fractions of the documents that the filters keep: one in this many.
const KEPT: [usize; 6] = [2, 5, 10, 30, 100, 1_000];
const WRITE_PAUSE: Duration = Duration::from_millis(20);

impl Random {
    /// A text about one of 500 subjects, with some random words; and the tenth that its subject belongs to.
    fn text(&mut self) -> Text {
        let subject = self.below(SUBJECTS);
        let words: Vec<String> = (0..12)
            .map(|place| format!("w{}", if place % 3 < 2 { subject * 40 + self.below(40) } else { self.below(20_000) }))
            .collect();
        Text { words: words.join(" "), tenth: subject * TENTHS / SUBJECTS }
    }
}

#[derive(Clone)]
struct Text {
    words: String,
    tenth: usize,
}

/// The filter of a search.
#[derive(Clone, Copy, PartialEq)]
enum Case {
    All,
    OneIn(usize),
    /// The tenth of the subjects that contains the query's subject.
    Near,
    /// A tenth of the subjects that does not contain the query's subject.
    Far,
}

impl Case {
    fn every() -> Vec<Self> {
        [Self::All].into_iter().chain(KEPT.map(Self::OneIn)).chain([Self::Near, Self::Far]).collect()
    }

    fn filter(self, query: &Text) -> Filter {
        let equals = |field: &str, value: usize| {
            Filter::Field(Field::parse(field).expect("a field"), Test::Eq(Scalar::Integer(value as i64)))
        };
        match self {
            Self::All => Filter::default(),
            Self::OneIn(kept) => equals(&format!("of_{kept}"), 0),
            Self::Near => equals("tenth", query.tenth),
            Self::Far => equals("tenth", far(query)),
        }
    }

    fn keeps(self, query: &Text, number: usize, document: &Text) -> bool {
        match self {
            Self::All => true,
            Self::OneIn(kept) => number.is_multiple_of(kept),
            Self::Near => document.tenth == query.tenth,
            Self::Far => document.tenth == far(query),
        }
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => write!(formatter, "without a filter"),
            Self::OneIn(kept) => write!(formatter, "one in {kept}"),
            Self::Near => write!(formatter, "the query's own tenth of the subjects"),
            Self::Far => write!(formatter, "another tenth of the subjects"),
        }
    }
}

fn far(query: &Text) -> usize {
    (query.tenth + TENTHS / 2) % TENTHS
}

fn document(number: usize, text: &Text) -> NewDocument {
    let mut metadata = Metadata::new();
    for kept in KEPT {
        metadata.insert(format!("of_{kept}"), (number % kept).into());
    }
    metadata.insert("tenth".to_owned(), text.tenth.into());
    let id = DocumentId::parse(&format!("d{number}")).expect("an id");
    NewDocument {
        id: Some(id),
        title: None,
        vector: None,
        text: text.words.clone(),
        language: Language::parse("en"),
        metadata,
        expires_at_ms: None,
    }
}

struct Bench {
    service: Service,
    name: CollectionName,
    texts: Vec<Text>,
    queries: Vec<Text>,
}

impl Bench {
    async fn search(&self, query: &Text, case: Case) -> Vec<usize> {
        let target = SearchTarget::Text(query.words.clone());
        let request = SearchRequest { filter: case.filter(query), ..SearchRequest::new(target, LIMIT) };
        let response = self.service.collection(&self.name).expect("a collection").search(request).await.expect("a search");
        response.hits.iter().map(|hit| hit.id.as_str()[1..].parse().unwrap_or(usize::MAX)).collect()
    }

    /// Median times of searches of each case, alternating.
    async fn medians(&self, cases: &[Case]) -> Vec<Duration> {
        let mut times = vec![Vec::new(); cases.len()];
        for _ in 0..ROUNDS {
            for query in &self.queries {
                for (case, times) in cases.iter().zip(&mut times) {
                    let started = Instant::now();
                    self.search(query, *case).await;
                    times.push(started.elapsed());
                }
            }
        }
        times.into_iter().map(median).collect()
    }

    async fn recall(&self, embeddings: &[Embedding], case: Case) -> f64 {
        let (mut hits, mut wanted) = (0, 0);
        for query in self.queries.iter().take(RECALL_QUERIES) {
            let embedded = self.service.embed(vec![query.words.clone()]).await.expect("an embedding").remove(0).embedding;
            let matching = self.texts.iter().enumerate().filter(|(number, text)| case.keeps(query, *number, text));
            let mut scores: Vec<(f32, usize)> =
                matching.map(|(number, _)| (embedded.cosine(&embeddings[number]), number)).collect();
            scores.sort_by(|a, b| b.0.total_cmp(&a.0));
            let expect: HashSet<usize> = scores.iter().take(LIMIT).map(|(_, number)| *number).collect();
            let found = self.search(query, case).await;
            wanted += expect.len();
            hits += found.iter().filter(|number| expect.contains(number)).count();
        }
        hits as f64 / wanted as f64
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let asked = std::env::var("DRAGOMAN_BENCH_DOCUMENTS").ok().and_then(|number| number.parse().ok());
    let documents: usize = asked.unwrap_or(100_000);
    let folder = tempfile::tempdir().expect("a folder");
    let embedder = Embedder::fake(DIMENSION);
    let parts = Parts { data_dir: folder.path().to_owned(), embedder, limits: Limits::default(), power_safe: false };
    let service = Service::open(parts).expect("an empty folder opens");
    let name = CollectionName::parse("bench").expect("a name");
    service.create_collection(NewCollection::new(name.clone()), None).await.expect("a collection");
    let mut random = Random(7);
    let texts: Vec<Text> = (0..documents).map(|_| random.text()).collect();
    let queries = (0..QUERIES).map(|_| random.text()).collect();
    let bench = Arc::new(Bench { service, name, texts, queries });
    let started = Instant::now();
    let mut embeddings = Vec::with_capacity(documents);
    for (part, texts) in bench.texts.chunks(1_000).enumerate() {
        let batch = texts.iter().enumerate().map(|(place, text)| Ok(document(part * 1_000 + place, text))).collect();
        bench
            .service
            .collection(&bench.name)
            .expect("a collection")
            .upsert(batch, Wait::Indexed, None)
            .await
            .expect("documents are stored");
        let embedded = bench.service.embed(texts.iter().map(|text| text.words.clone()).collect()).await.expect("embeddings");
        embeddings.extend(embedded.into_iter().map(|embedded| embedded.embedding));
    }
    println!("{documents} documents stored and indexed in {:.0?}", started.elapsed());

    let cases = Case::every();
    for &case in &cases[1..] {
        let started = Instant::now();
        bench.search(&bench.queries[0], case).await;
        println!("{case}: the first search, which reads the metadata, took {:.2?}", started.elapsed());
    }
    report("idle", &cases, &bench.medians(&cases).await);
    for &case in &cases {
        println!("recall@10, {case}: {:.3}", bench.recall(&embeddings, case).await);
    }

    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writing = tokio::spawn({
        let (bench, stop, written) = (Arc::clone(&bench), Arc::clone(&stop), Arc::clone(&written));
        async move {
            while !stop.load(Ordering::Relaxed) {
                let number = random.below(documents);
                let document = document(number, &random.text());
                bench
                    .service
                    .collection(&bench.name)
                    .expect("a collection")
                    .upsert(vec![Ok(document)], Wait::Indexed, None)
                    .await
                    .expect("a document is stored");
                written.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(WRITE_PAUSE).await;
            }
        }
    });
    report("while documents are written", &cases, &bench.medians(&cases).await);
    stop.store(true, Ordering::Relaxed);
    writing.await.expect("the writer stops");
    println!("{} documents written meanwhile", written.load(Ordering::Relaxed));
    bench.service.shutdown().await.expect("the service stops");
}

fn report(when: &str, cases: &[Case], medians: &[Duration]) {
    let unfiltered = medians[0];
    for (case, &filtered) in cases.iter().zip(medians) {
        println!("{when}: {case} {filtered:.2?}, {:.2} times as long", filtered.as_secs_f64() / unfiltered.as_secs_f64());
    }
}
