//! A search and its answer.

use serde::Serialize;
use utoipa::ToSchema;

use super::{DocumentId, Embedding, Facet, FacetRequest, Filter, Language, MetadataObject, MetadataPath};

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

/// A document that answers a search.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = SearchHit)]
pub struct Hit {
    /// The document's id.
    #[schema(value_type = String)]
    pub id: DocumentId,
    /// Higher is better. In mode `full` the relevance, between 0 and 1: how likely the passage answers, the same in every collection and
    /// language. In mode `dense` how near query and best passage are by the collection's metric (cosine: -1 to 1; l2: the
    /// negative of the distance), or their ratio margin when `margin` asks for it; in mode `lexical` BM25; in mode `hybrid` the
    /// fused ranks. Scores of different modes cannot be compared.
    pub score: f32,
    /// ISO 639-1 code of the document's language; omitted when none was recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false)]
    pub language: Option<Language>,
    /// The value that the hit's group shares, as text; omitted without `group_by`, and when the document has no such value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub group: Option<String>,
    /// The document's title; omitted when it has none, and when `include` leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub title: Option<String>,
    /// The document's text; omitted unless `include` asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub text: Option<String>,
    /// The document's metadata; omitted when `include` leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub metadata: Option<MetadataObject>,
    /// The passage of the text that answers best; omitted when `include` leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub passage: Option<HitPassage>,
    /// The embedding of that passage; omitted unless `include` asks for it, and when the passage waits for its embedding.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<f32>>, nullable = false)]
    pub vector: Option<Embedding>,
    /// How the hit was found; omitted unless `explain` asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub explanation: Option<HitPlaces>,
}

/// A passage of a document's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = PassageMatch)]
pub struct HitPassage {
    /// The passage's text.
    pub text: String,
    /// Where it begins in the document's text, in characters (Unicode code points) from 0.
    pub start: usize,
    /// Where it ends, exclusive, in the same unit.
    pub end: usize,
    /// Words of it that answer, in order, at most 100: those that the query has, compared as a search by words does, and in mode
    /// `full` those that are nearest to a word of the query in another language. None without a `query`.
    pub marks: Vec<PassageMark>,
}

/// A place in a passage, never within a character as readers see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct PassageMark {
    /// Where it begins in the text of the passage, in characters (Unicode code points) from 0.
    pub start: usize,
    /// Where it ends, exclusive, in the same unit.
    pub end: usize,
}

/// Where a hit stood in the lists that it was found by; with `balance_languages`, in those of its language.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = HitExplanation)]
pub struct HitPlaces {
    /// Among the nearest embeddings; the score is that of the metric. Omitted when it was not found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub dense: Option<ListPlace>,
    /// Among the passages whose tokens are near to those of the query; the score is that of late interaction, 0 to 1. Omitted when it
    /// was not found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub late: Option<ListPlace>,
    /// Among the passages that share words; the score is BM25. Omitted when it was not found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lexical: Option<ListPlace>,
    /// Among the passages that have the words of the query or translations of them, in any language; the score is about 0 to 1. Omitted
    /// when it was not found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub translated: Option<ListPlace>,
}

/// A place in a list.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[schema(as = ListRank)]
pub struct ListPlace {
    /// From 1.
    #[schema(minimum = 1)]
    pub rank: usize,
    /// The score there.
    pub score: f32,
}

/// `index`: named by the index, which compares with all passages while they are few and walks its graph when they are many.
/// `scan`: by comparing with all passages that match, for `exact` and for a filter that leaves few.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DenseSearchMethod)]
pub enum DenseMethod {
    /// Named by the index.
    Index,
    /// By comparing with all that match.
    Scan,
}

/// What a search did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = SearchExplanation)]
pub struct SearchStatistics {
    /// Documents that were ranked.
    pub candidates: usize,
    /// How the nearest embeddings were found; omitted when none were looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub method: Option<DenseMethod>,
    /// Milliseconds for embedding texts; of a whole batch, whose texts are embedded together.
    #[schema(minimum = 0)]
    pub embedding_ms: f64,
    /// Milliseconds for finding and ranking candidates.
    #[schema(minimum = 0)]
    pub index_ms: f64,
    /// Milliseconds for reading the hits and counting facets.
    #[schema(minimum = 0)]
    pub rows_ms: f64,
}

/// Hits, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchAnswer {
    /// Hits, best first.
    pub hits: Vec<Hit>,
    /// The counts that were asked for, in the order of the request.
    pub facets: Vec<Facet>,
    /// Whether a text to search by was longer than what the model reads, or had more words than are looked for.
    pub query_truncated: bool,
    /// Whether everything that was acknowledged as searchable was searched. Not so while an index catches up after a start.
    pub complete: bool,
    /// What it took.
    pub statistics: SearchStatistics,
}
