//! A search and its result.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Boost, DocumentId, Embedding, Facet, FacetRequest, Filter, Language, MetadataObject, MetadataPath};

/// What to search for.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchTarget {
    /// A text in any language.
    Text(String),
    /// A caller's own embedding.
    Vector(Embedding),
    /// A document of the collection, which is not a hit itself.
    Like(DocumentId),
    /// Positive and negative examples.
    Examples(Examples),
}

/// What hits should be like, and what not. The documents named here are never hits.
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

/// The search mode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SearchMode {
    /// All evidence together: embeddings, late interaction and words, as one relevance between 0 and 1.
    Full(FullSearch),
    /// By the similarity of embeddings.
    Dense,
    /// By the words that query and passage share (BM25).
    Lexical,
    /// By both, with their ranks fused.
    Hybrid(Fusion),
}

/// How many passages a search in mode `full` considers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullSearch {
    /// Passages that each of embeddings, late interaction and words proposes, at least.
    pub candidates: usize,
}

impl FullSearch {
    /// Its limits.
    pub const CANDIDATES: std::ops::RangeInclusive<usize> = 10..=10_000;
}

impl Default for FullSearch {
    fn default() -> Self {
        Self { candidates: 50 }
    }
}

/// Reciprocal rank fusion: a document gets, for each list, weight / (rank constant + its rank there), added up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fusion {
    /// Dampens the differences between the first ranks.
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

/// How much work a search does to find everything. `Default` is the collection's setting.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SearchParameters {
    /// Candidates of the graph search.
    pub ef_search: Option<usize>,
    /// Candidates per requested neighbor to compare by their stored values; at one, the scores are those of the index.
    pub oversampling: Option<f32>,
}

/// How the words of a query are interpreted, in the modes that search by words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryReading {
    /// Whether quotes require and minus signs exclude words; otherwise they are part of the text.
    pub operators: bool,
    /// Whether a passage must have every word; otherwise any is enough.
    pub all_words: bool,
}

impl Default for QueryReading {
    fn default() -> Self {
        Self { operators: true, all_words: false }
    }
}

/// Limits the hits of each group.
#[derive(Debug, Clone, PartialEq)]
pub struct Grouping {
    /// What defines a group.
    pub by: GroupKey,
    /// Maximum hits per group, at least 1.
    pub size: usize,
}

/// What defines a group.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupKey {
    /// The documents' language.
    Language,
    /// The metadata value at this path.
    Metadata(MetadataPath),
}

/// A language whose documents rank before others that are about as good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreferredLanguage {
    /// This one.
    Of(Language),
    /// The query's own, if recognized.
    Query,
}

impl PreferredLanguage {
    /// The value that stands for the query's own language.
    pub const QUERY: &'static str = "auto";
}

/// What hits include of their document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HitParts {
    /// Its title.
    pub title: bool,
    /// Its text.
    pub text: bool,
    /// Its metadata.
    pub metadata: bool,
    /// The best passage.
    pub passage: bool,
    /// The embedding of that passage.
    pub vector: bool,
}

impl Default for HitParts {
    fn default() -> Self {
        Self { title: true, text: false, metadata: true, passage: true, vector: false }
    }
}

/// A validated search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRequest {
    /// What to search for.
    pub target: SearchTarget,
    /// The mode.
    pub mode: SearchMode,
    /// How the words of a query are interpreted.
    pub reading: QueryReading,
    /// Maximum hits, at least 1.
    pub limit: usize,
    /// Hits to skip.
    pub offset: usize,
    /// Only hits in these languages; `None` means the collection's default, empty means all.
    pub languages: Option<Vec<Language>>,
    /// Only hits that match.
    pub filter: Filter,
    /// Only hits with at least this score.
    pub score_min: Option<f32>,
    /// Whether to compare with all embeddings instead of searching the graph.
    pub exact: bool,
    /// How much work the graph search does.
    pub parameters: SearchParameters,
    /// Neighbors for ratio margin scoring; `None` for plain scores.
    pub margin: Option<usize>,
    /// Limits the hits of each group.
    pub grouping: Option<Grouping>,
    /// Whether languages take turns.
    pub balance_languages: bool,
    /// Languages whose documents rank before others that are about as good, most preferred first; empty for none. Not with
    /// `balance_languages`.
    pub prefer_language: Vec<PreferredLanguage>,
    /// What moves scores, at most `Boost::COUNT_MAX`.
    pub boosts: Vec<Boost>,
    /// How much hits should differ from each other, from 0 to 1; at 0 the score alone makes the order. Not with `balance_languages`.
    pub diversity: f32,
    /// What hits include.
    pub parts: HitParts,
    /// Fields whose values to count among all documents that `languages` and `filter` leave.
    pub facets: Vec<FacetRequest>,
}

impl SearchRequest {
    /// A search with nothing but a target and a limit.
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
            boosts: Vec::new(),
            diversity: 0.0,
            parts: HitParts::default(),
            facets: Vec::new(),
        }
    }
}

/// A document that a search found.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = SearchHit)]
pub struct Hit {
    /// The document's id.
    #[schema(value_type = String)]
    pub id: DocumentId,
    /// Higher is better. In mode `full`, the relevance between 0 and 1: how likely the passage answers, comparable across
    /// collections and languages. In mode `dense`, the similarity of query and best passage by the collection's metric (cosine:
    /// -1 to 1; l2: the negative distance), or their ratio margin if `margin` asks for it. In mode `lexical`, BM25. In mode
    /// `hybrid`, the fused ranks. Scores of different modes cannot be compared. `boosts` move it.
    pub score: f32,
    /// ISO 639-1 code of the document's language; omitted if none was recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub language: Option<Language>,
    /// The value that the hit's group shares, as text; omitted without `group_by`, or if the document has no such value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The document's title; omitted if it has none, or if `include` leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The document's text; omitted unless `include` asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The document's metadata; omitted if `include` leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<MetadataObject>,
    /// The passage of the text that answers best; omitted if `include` leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passage: Option<HitPassage>,
    /// The embedding of that passage; omitted unless `include` asks for it, or if the passage waits for its embedding.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<f32>>)]
    pub vector: Option<Embedding>,
    /// How the hit was found; omitted unless `explain` asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
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
    /// The words in it that match, in order, at most 100: those of the query, compared as in lexical search, and in mode
    /// `full` those nearest in meaning to a word of the query in another language. None without a `query`.
    pub marks: Vec<PassageMark>,
}

/// A range of a passage, which never splits a visible character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct PassageMark {
    /// Where it begins in the text of the passage, in characters (Unicode code points) from 0.
    pub start: usize,
    /// Where it ends, exclusive, in the same unit.
    pub end: usize,
}

/// The hit's place in each ranking that found it; with `balance_languages`, in the rankings of its language. Also what moved it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = HitExplanation)]
pub struct HitPlaces {
    /// Among the nearest embeddings; the score is that of the metric. Omitted if not found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense: Option<ListPlace>,
    /// Among the passages whose tokens are near those of the query; the score is that of late interaction, 0 to 1. Omitted if not
    /// found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<ListPlace>,
    /// Among the passages that share words; the score is BM25. Omitted if not found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lexical: Option<ListPlace>,
    /// Among the passages that have the words of the query or their translations in any language; the score is about 0 to 1.
    /// Omitted if not found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub translated: Option<ListPlace>,
    /// What `boosts` did; omitted without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boosted: Option<BoostedScore>,
    /// With `diversity`, the cosine with the most similar hit before it; omitted for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f32>,
}

/// How boosts moved a score.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct BoostedScore {
    /// The score without them.
    pub from: f32,
    /// The factor of each, in the order of the request; 1 changes nothing.
    pub factors: Vec<f64>,
}

/// A place in a ranking.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[schema(as = ListRank)]
pub struct ListPlace {
    /// The rank, from 1.
    #[schema(minimum = 1)]
    pub rank: usize,
    /// The score in that ranking.
    pub score: f32,
}

/// `index`: from the index, which compares with all passages while they are few and searches its graph when they are many.
/// `scan`: by comparing with all matching passages, for `exact` and for a filter that leaves few.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DenseSearchMethod)]
pub enum DenseMethod {
    /// From the index.
    Index,
    /// By comparing with all matching passages.
    Scan,
}

/// Statistics of a search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = SearchExplanation)]
pub struct SearchStatistics {
    /// Documents that were ranked.
    pub candidates: usize,
    /// How the nearest embeddings were found; omitted if none were searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<DenseMethod>,
    /// Milliseconds for embedding texts; for a batch, of the whole batch, whose texts are embedded together.
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
    /// The requested counts, in the order of the request.
    pub facets: Vec<Facet>,
    /// Whether a query was longer than the model reads, or had more words than are searched for.
    pub query_truncated: bool,
    /// Whether everything acknowledged as searchable was searched; false while an index catches up after a start.
    pub complete: bool,
    /// Statistics.
    pub statistics: SearchStatistics,
}
