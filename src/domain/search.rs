//! A search and its answer.

use std::ops::Range;

use super::{DocumentId, Embedding, FacetCounts, FacetRequest, Filter, Language, Metadata, MetadataPath};

/// What the hits of a search are to be near to.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchTarget {
    /// A text in any language.
    Text(String),
    /// An embedding of the caller's own.
    Vector(Embedding),
    /// A document of the collection, which is no hit itself.
    Like(DocumentId),
    /// Some examples and not others.
    Examples(Examples),
}

/// What hits are to be like, and what not. None of the documents named here is a hit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Examples {
    /// At least one example.
    pub positive: ExampleSet,
    /// May be empty.
    pub negative: ExampleSet,
}

/// Examples of three kinds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExampleSet {
    /// Documents of the collection.
    pub ids: Vec<DocumentId>,
    /// Embeddings of the caller's own.
    pub vectors: Vec<Embedding>,
    /// Texts in any language.
    pub texts: Vec<String>,
}

/// How hits are found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SearchMode {
    /// By all there is: embeddings, late interaction and words, as one relevance between 0 and 1.
    Full(FullSearch),
    /// By the similarity of embeddings.
    Dense,
    /// By the words that query and passage share (BM25).
    Lexical,
    /// By both, their ranks fused.
    Hybrid(Fusion),
}

/// How far a search by all there is looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullSearch {
    /// Passages that each of embeddings, late interaction and words names, at least.
    pub candidates: usize,
}

impl FullSearch {
    /// What it may be.
    pub const CANDIDATES: std::ops::RangeInclusive<usize> = 10..=10_000;
}

impl Default for FullSearch {
    fn default() -> Self {
        Self { candidates: 100 }
    }
}

/// Reciprocal rank fusion: a document gets the sum over the lists of weight / (rank constant + its rank there).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fusion {
    /// Flattens the difference between the first ranks.
    pub rank_constant: f32,
    /// Weight of the dense list.
    pub dense: f32,
    /// Weight of the lexical list.
    pub lexical: f32,
}

impl Default for Fusion {
    fn default() -> Self {
        Self { rank_constant: 60.0, dense: 1.0, lexical: 1.0 }
    }
}

/// How much work a search does to miss nothing. `Default` is what the collection was made with.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SearchParameters {
    /// Candidates of the walk through the graph.
    pub ef_search: Option<usize>,
    /// Candidates per neighbor wanted that are compared by their stored values; at one, the scores are those of the index.
    pub oversampling: Option<f32>,
}

/// How the words of a query are read, in the modes that search by words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryReading {
    /// Whether quotes and minus signs say what passages must have and must not have; else they are part of the text.
    pub operators: bool,
    /// Whether a passage must have every word; else any is enough.
    pub all_words: bool,
}

impl Default for QueryReading {
    fn default() -> Self {
        Self { operators: true, all_words: false }
    }
}

/// Allows only some hits of each group.
#[derive(Debug, Clone, PartialEq)]
pub struct Grouping {
    /// What makes a group.
    pub by: GroupKey,
    /// Hits of each group at most, at least 1.
    pub size: usize,
}

/// What makes a group.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupKey {
    /// The documents' language.
    Language,
    /// The metadata value at this path.
    Metadata(MetadataPath),
}

/// A language whose documents go before others that are about as good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreferredLanguage {
    /// This one.
    Of(Language),
    /// The query's own, where it is recognized.
    Query,
}

impl PreferredLanguage {
    /// What stands for the query's own language.
    pub const QUERY: &'static str = "auto";
}

/// What of a document a hit carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HitParts {
    /// Its title.
    pub title: bool,
    /// Its text.
    pub text: bool,
    /// Its metadata.
    pub metadata: bool,
    /// The passage that answers best.
    pub passage: bool,
    /// The embedding of that passage.
    pub vector: bool,
}

impl Default for HitParts {
    fn default() -> Self {
        Self { title: true, text: false, metadata: true, passage: true, vector: false }
    }
}

/// A search, checked at the edge.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRequest {
    /// What hits are to be near to.
    pub target: SearchTarget,
    /// How they are found.
    pub mode: SearchMode,
    /// How the words of a text are read.
    pub reading: QueryReading,
    /// Hits at most, at least 1.
    pub limit: usize,
    /// Hits left out before the first one.
    pub offset: usize,
    /// Hits only in these languages; `None` means those that the collection says, empty means all.
    pub languages: Option<Vec<Language>>,
    /// Hits only where this holds.
    pub filter: Filter,
    /// Hits only with at least this score.
    pub score_min: Option<f32>,
    /// Whether to compare with all embeddings instead of asking the graph.
    pub exact: bool,
    /// How much work the graph is worth.
    pub parameters: SearchParameters,
    /// Neighbors for ratio margin scoring; `None` for plain scores.
    pub margin: Option<usize>,
    /// How many hits of one group there may be.
    pub grouping: Option<Grouping>,
    /// Whether languages take turns.
    pub balance_languages: bool,
    /// Languages whose documents go before others that are about as good, the first one most; empty for none. Not with
    /// `balance_languages`.
    pub prefer_language: Vec<PreferredLanguage>,
    /// What hits carry.
    pub parts: HitParts,
    /// Fields whose values are counted among all documents that `languages` and `filter` leave.
    pub facets: Vec<FacetRequest>,
}

impl SearchRequest {
    /// The search that has nothing but a target and a limit.
    pub fn new(target: SearchTarget, limit: usize) -> Self {
        Self {
            target,
            mode: SearchMode::Dense,
            reading: QueryReading::default(),
            limit,
            offset: 0,
            languages: None,
            filter: Filter::default(),
            score_min: None,
            exact: false,
            parameters: SearchParameters::default(),
            margin: None,
            grouping: None,
            balance_languages: false,
            prefer_language: Vec::new(),
            parts: HitParts::default(),
            facets: Vec::new(),
        }
    }
}

/// The passage of a document that answers best.
#[derive(Debug, Clone, PartialEq)]
pub struct HitPassage {
    /// Its text.
    pub text: String,
    /// Character offset (Unicode code points) of its first character in the document's text.
    pub start: usize,
    /// Character offset after its last character.
    pub end: usize,
    /// Where words stand that answer, in characters of `text`, in order and apart from each other.
    pub marks: Vec<Range<usize>>,
}

/// A document that answers a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The document's id.
    pub id: DocumentId,
    /// By the mode: the relevance, how near target and best passage are by the metric, their ratio margin, BM25, or the fused ranks.
    pub score: f32,
    /// The document's language.
    pub language: Option<Language>,
    /// The value that its group shares; `None` without grouping, and for a document that has no such value.
    pub group: Option<String>,
    /// The document's title, when asked for and when it has one.
    pub title: Option<String>,
    /// The document's text, when asked for.
    pub text: Option<String>,
    /// The document's metadata, when asked for.
    pub metadata: Option<Metadata>,
    /// The best passage, when asked for.
    pub passage: Option<HitPassage>,
    /// The best passage's embedding, when asked for and when it has one.
    pub vector: Option<Embedding>,
    /// How it was found.
    pub places: HitPlaces,
}

/// Where a hit stood in the lists that it was found by.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HitPlaces {
    /// Among the nearest embeddings; the score is that of the metric.
    pub dense: Option<ListPlace>,
    /// Among those that late interaction names; the score is its own.
    pub late: Option<ListPlace>,
    /// Among the passages that share words; the score is BM25.
    pub lexical: Option<ListPlace>,
    /// Among those that have the words or translations of them; the score is its own.
    pub translated: Option<ListPlace>,
}

/// A place in a list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ListPlace {
    /// From 1.
    pub rank: usize,
    /// The score there.
    pub score: f32,
}

/// Who named the nearest embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenseMethod {
    /// The index; it compares with all passages while they are few, else it walks its graph.
    Index,
    /// Comparing with all passages that match.
    Scan,
}

/// What a search did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchStatistics {
    /// Documents that were ranked.
    pub candidates: usize,
    /// How the nearest embeddings were found; `None` when none were looked for.
    pub method: Option<DenseMethod>,
    /// Milliseconds for embedding texts, shared by the searches of one batch.
    pub embedding_ms: f64,
    /// Milliseconds for finding and ranking candidates.
    pub index_ms: f64,
    /// Milliseconds for reading the hits and counting facets.
    pub rows_ms: f64,
}

/// Hits, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchAnswer {
    /// Hits, best first.
    pub hits: Vec<Hit>,
    /// The counts that were asked for, in the order of the request.
    pub facets: Vec<FacetCounts>,
    /// Whether a text to search by was longer than what the model reads, or had more words than are looked for.
    pub query_truncated: bool,
    /// Whether everything that was acknowledged as searchable was searched. Not so while an index catches up after a start.
    pub complete: bool,
    /// What it took.
    pub statistics: SearchStatistics,
}
