//! A search and its result.

use serde::{Deserialize, Serialize};
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

/// Examples of what hits should and should not be like. The documents named here are never hits.
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
    /// Combines all evidence (embeddings, late interaction and words) into one relevance between 0 and 1.
    Full {
        /// Minimum number of passages that embeddings, late interaction and words each propose.
        candidates: usize,
    },
    /// By the similarity of embeddings.
    Dense,
    /// By the words that query and passage share (BM25).
    Lexical,
    /// By both, with their ranks fused.
    Hybrid(Fusion),
}

/// `full`: combines embeddings, late interaction of tokens, and words with their translations into one relevance between 0 and
/// 1, within and across languages. `dense`: compares embeddings only. `lexical`: ranks by the words that query and passage
/// share (BM25), in every script. `hybrid`: fuses the ranks of `dense` and `lexical`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[cfg_attr(feature = "server", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
#[schema(as = SearchMode)]
pub enum SearchModeName {
    /// Combines all evidence into one relevance score between 0 and 1 (the default).
    Full,
    /// Compares embeddings, to find the same meaning across languages.
    Dense,
    /// Ranks by shared words (BM25).
    Lexical,
    /// Fuses the ranks of dense and lexical.
    Hybrid,
}

/// `any`: a passage needs one word of the query; more words, and rarer ones, count more. `all`: a passage needs
/// every word, with or without its accents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[cfg_attr(feature = "server", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum WordMatching {
    /// Any of them (the default).
    Any,
    /// All of them.
    All,
}

/// Reciprocal rank fusion: a document's score is the sum, over both lists, of weight / (rank constant + rank in the list).
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

/// Trades the recall of a search for its speed. `Default` uses the collection's settings.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SearchParameters {
    /// Candidates of the graph search.
    pub ef_search: Option<usize>,
    /// Candidates per requested neighbor to rescore with their stored embeddings; at one, the scores are those of the index.
    pub oversampling: Option<f32>,
}

/// How the words of a query are interpreted, in the modes that search by words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryOptions {
    /// Whether quotes require and minus signs exclude words; otherwise they are part of the text.
    pub operators: bool,
    /// Whether a passage must have every word; otherwise any is enough.
    pub all_words: bool,
}

impl Default for QueryOptions {
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

/// What hits include of their documents.
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
    pub reading: QueryOptions,
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
    /// Parameters of the graph search.
    pub parameters: SearchParameters,
    /// Neighbors for ratio margin scoring; `None` for plain scores.
    pub margin: Option<usize>,
    /// Limits the hits of each group.
    pub grouping: Option<Grouping>,
    /// Whether to interleave the hits of the languages.
    pub balance_languages: bool,
    /// Languages whose documents rank before others that are about as good, most preferred first; empty for none. Not with
    /// `balance_languages`.
    pub prefer_language: Vec<PreferredLanguage>,
    /// Boosts of scores, at most `Boost::COUNT_MAX`.
    pub boosts: Vec<Boost>,
    /// How much hits should differ from each other, from 0 to 1; at 0 only scores determine the order. Not with
    /// `balance_languages`.
    pub diversity: f32,
    /// What hits include.
    pub parts: HitParts,
    /// Fields whose values to count over all documents that match `languages` and `filter`.
    pub facets: Vec<FacetRequest>,
}

impl SearchRequest {
    /// A search with nothing but a target and a limit.
    pub fn new(target: SearchTarget, limit: usize) -> Self {
        Self {
            target,
            mode: SearchMode::Dense,
            reading: QueryOptions::default(),
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
    /// Higher is better. In mode `full`, a relevance between 0 and 1: how likely the passage answers the query, comparable across
    /// collections and languages. In mode `dense`, the similarity of query and best passage by the collection's metric (cosine:
    /// -1 to 1; l2: the negative distance), or with `margin` their ratio margin. In mode `lexical`, BM25. In mode `hybrid`, the
    /// fused ranks. Scores of different modes cannot be compared. `boosts` change the score.
    pub score: f32,
    /// ISO 639-1 code of the document's language; omitted if none was recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub language: Option<Language>,
    /// The value that the hits of this hit's group share, as text; omitted without `group_by`, or if the document has no such
    /// value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The document's title; omitted if it has none, or if `include` leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The words of `title` that match, like the `marks` of the passage; omitted if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub title_marks: Vec<PassageMark>,
    /// The document's text; omitted unless `include` asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The document's metadata; omitted if `include` leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<MetadataObject>,
    /// The passage of the text that answers best; omitted if `include` leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passage: Option<HitPassage>,
    /// The embedding of that passage; omitted unless `include` asks for it, or if the passage is not embedded yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<f32>>)]
    pub vector: Option<Embedding>,
    /// How the hit was found; omitted unless `explain` asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<HitRanks>,
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
    /// The words that match, in order, at most 100: words of the query, as in lexical search, and in mode `full` also those
    /// nearest in meaning to a word of the query in another language. Empty without a `query`.
    pub marks: Vec<PassageMark>,
}

/// A range of a passage or title that never splits a visible character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct PassageMark {
    /// Where it begins in that text, in characters (Unicode code points) from 0.
    pub start: usize,
    /// Where it ends, exclusive, in the same unit.
    pub end: usize,
}

/// The hit's rank and score in each ranking that found it (with `balance_languages`, in the rankings of its language), and what
/// changed its score.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = HitExplanation)]
pub struct HitRanks {
    /// Rank among the nearest embeddings, with the score of the metric. Omitted if the hit is not in this ranking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense: Option<RankedScore>,
    /// Rank among the passages whose tokens are near those of the query, with the score of late interaction, 0 to 1. Omitted if
    /// the hit is not in this ranking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<RankedScore>,
    /// Rank among the passages that share words with the query, with their BM25 score. Omitted if the hit is not in this
    /// ranking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lexical: Option<RankedScore>,
    /// Rank among the passages that contain words of the query, their translations in any language, or names that sound like
    /// them, with a score of about 0 to 1. Omitted if the hit is not in this ranking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub translated: Option<RankedScore>,
    /// How `boosts` changed the score; omitted without `boosts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boosted: Option<BoostedScore>,
    /// With `diversity`, the cosine similarity to the most similar hit before it; omitted for the first hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f32>,
}

/// How boosts changed a score.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct BoostedScore {
    /// The score without boosts.
    pub from: f32,
    /// The factor of each boost, in the order of the request; 1 changes nothing.
    pub factors: Vec<f64>,
}

/// A rank in a ranking.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[schema(as = ListRank)]
pub struct RankedScore {
    /// The rank, from 1.
    #[schema(minimum = 1)]
    pub rank: usize,
    /// The score in that ranking.
    pub score: f32,
}

/// `index`: by the index's graph, or by comparing up to 1,000 passages. `scan`: by comparing all that match: with
/// `exact`, if few match, or mostly up to 131,072 passages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DenseSearchMethod)]
#[expect(missing_docs, reason = "the text above says what the variants are")]
pub enum DenseMethod {
    Index,
    Scan,
}

/// Statistics of a search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = SearchExplanation)]
pub struct SearchStatistics {
    /// Number of documents that were ranked.
    pub candidates: usize,
    /// How the nearest embeddings were found; omitted if none were searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<DenseMethod>,
    /// Milliseconds to embed texts; for a search in a batch, those of the whole batch, because its texts are embedded together.
    #[schema(minimum = 0)]
    pub embedding_ms: f64,
    /// Milliseconds to find and rank candidates.
    #[schema(minimum = 0)]
    pub index_ms: f64,
    /// Milliseconds to read the hits and count facets.
    #[schema(minimum = 0)]
    pub rows_ms: f64,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResults {
    /// Hits, best first.
    pub hits: Vec<Hit>,
    /// The requested counts, in the order of the request.
    pub facets: Vec<Facet>,
    /// Whether a query was longer than the model reads, or had more words than are searched for.
    pub query_truncated: bool,
    /// Whether everything acknowledged as searchable was searched; false while an index catches up after a restart.
    pub complete: bool,
    /// Statistics.
    pub statistics: SearchStatistics,
}
