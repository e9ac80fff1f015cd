//! The request for a search.

use serde::Deserialize;
use utoipa::ToSchema;

use super::boosts::BoostInput;
use crate::domain::json::singles;
use crate::domain::{DistinctJson, SearchModeName, WordMatching};
use crate::http::request::filter::FilterNode;
use crate::http::search::facets::FacetInput;
use crate::service::json::{objects, some_object, some_objects};

/// A search: exactly one of `query`, `vector` and `like`, and options that restrict and order the hits.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchDocumentsRequest {
    /// The query, in any language: not blank, at most the server's limit for texts (1 MiB unless configured otherwise). In the
    /// modes `full`, `lexical` and `hybrid`, quotes require words exactly as spelled and in this order, and a minus excludes a
    /// word or a quote: `"heavy rain" -wind`.
    #[schema(min_length = 1)]
    pub query: Option<String>,
    /// An embedding to find the nearest passages to, with as many values as the collection's embeddings; with the metric cosine
    /// not all zeros. Only for mode `dense`; the other modes need `query`.
    #[serde(default, deserialize_with = "singles")]
    #[schema(min_items = 1)]
    pub vector: Option<Vec<f32>>,
    /// Id of a document to find similar ones to: those nearest to the mean of its passages' embeddings. The document itself is
    /// never a hit. Only for mode `dense`; the other modes need `query`.
    #[schema(min_length = 1, max_length = 512)]
    pub like: Option<String>,
    /// The search mode. Defaults to `full` for a `query`, and to `dense` for a `vector`, for `like`, and with `margin`.
    pub mode: Option<SearchModeName>,
    /// Whether a passage must have any word of the `query` or all of them. For modes `full`, `lexical` and `hybrid`. Defaults
    /// to `any`.
    pub words: Option<WordMatching>,
    /// Whether quotes and minus signs in the `query` require and exclude words, in modes `full`, `lexical` and
    /// `hybrid`. Set it to false if the query was not written for a search engine. `dense` ignores both.
    #[schema(default = true)]
    pub operators: Option<bool>,
    /// For mode `full`: how many passages each ranking (embeddings, tokens, words) proposes before all of them are scored, from
    /// 10 to 10000. More candidates improve recall, but take longer.
    #[schema(minimum = 10, maximum = 10000, default = 50)]
    pub candidates: Option<usize>,
    /// Weights of the rankings in mode `hybrid`.
    #[serde(default, deserialize_with = "some_object")]
    pub weights: Option<SearchWeights>,
    /// For mode `hybrid`, from 1 to 1000: each ranking adds weight / (rank constant + rank) to a document's score. A larger
    /// constant dampens the differences between the first ranks.
    #[serde(default, deserialize_with = "singles")]
    #[schema(minimum = 1, maximum = 1000, default = 60)]
    pub rank_constant: Option<f32>,
    /// Maximum number of hits, from 1 to the server's limit (1000 unless configured otherwise).
    #[schema(minimum = 1, default = 10)]
    pub limit: Option<usize>,
    /// Number of hits to skip. Together with `limit`, at most the server's limit.
    #[schema(minimum = 0, default = 0)]
    pub offset: Option<usize>,
    /// Only hits in these languages, as BCP 47 tags; empty for all. Defaults to the collection's `default_languages`.
    pub languages: Option<Vec<String>>,
    /// Only hits that match.
    #[schema(value_type = Option<FilterNode>)]
    pub filter: Option<DistinctJson>,
    /// Only hits with at least this score, after `boosts`. What a score means depends on the mode and on `margin`.
    #[serde(default, deserialize_with = "singles")]
    pub score_min: Option<f32>,
    /// Whether to compare all embeddings instead of searching the index, which may miss a near one. Slow in a large collection,
    /// and writes wait until it is done. Not for mode `lexical`.
    #[schema(default = false)]
    pub exact: Option<bool>,
    /// Searches the graph of the index with this many candidates, even where the server would otherwise scan all embeddings.
    /// In larger collections the default is `hnsw.ef_search`. More candidates improve recall, but take longer. Not for mode
    /// `lexical`, nor with `exact`.
    #[schema(minimum = 8, maximum = 4096)]
    pub ef_search: Option<usize>,
    /// Candidates per requested passage that the index returns to be rescored with their stored embeddings, from 1 to 64; 1
    /// skips rescoring. The default depends on the collection's quantization: 2 for `i8`, 8 for `b1`, otherwise 1. Not for mode
    /// `lexical`.
    #[serde(default, deserialize_with = "singles")]
    #[schema(minimum = 1, maximum = 64)]
    pub oversampling: Option<f32>,
    /// For mode `dense`: rescores the nearest documents by their ratio margin, which makes scores comparable between
    /// languages.
    #[serde(default, deserialize_with = "some_object")]
    pub margin: Option<MarginScoring>,
    /// Limits the hits of each group.
    #[serde(default, deserialize_with = "some_object")]
    pub group_by: Option<GroupBy>,
    /// Whether to interleave languages: first the best hit of each language, then the second best of each, and so on. A hit
    /// takes part only if its relevance (in mode `full`), its cosine or its BM25 score is at least half of the best one's, or
    /// with `l2` if it is at most twice as far away as the nearest; the others follow by score.
    #[schema(default = false)]
    pub balance_languages: Option<bool>,
    /// Languages to prefer, 1 to 62, most preferred first, as BCP 47 tags; `auto` means the query's own. Their documents rank
    /// before others whose score is less than a quarter better; scores do not change. Not with `balance_languages`.
    #[schema(min_items = 1, max_items = 62)]
    pub prefer_language: Option<Vec<String>>,
    /// Boosts that raise or lower the scores of hits, 1 to 10.
    #[serde(default, deserialize_with = "some_objects")]
    #[schema(min_items = 1, max_items = 10)]
    pub boosts: Option<Vec<BoostInput>>,
    /// How much hits should differ from each other (maximal marginal relevance), from 0 to 1. Not with `balance_languages`.
    #[serde(default, deserialize_with = "singles")]
    #[schema(minimum = 0, maximum = 1, default = 0)]
    pub diversity: Option<f32>,
    /// Fields whose values to count, 1 to 20, over all documents that match `languages` and `filter`, whether or not they are
    /// hits. The searches of a batch may have at most 20 together.
    #[serde(default, deserialize_with = "some_objects")]
    #[schema(min_items = 1, max_items = 20)]
    pub facets: Option<Vec<FacetInput>>,
    /// What hits include besides id, score and language; by default title, metadata and passage.
    pub include: Option<Vec<HitPart>>,
    /// Whether to report how hits were found and how long each step took.
    #[schema(default = false)]
    pub explain: Option<bool>,
}

/// Weights of the rankings of a hybrid search. Zero leaves a ranking out; they cannot both be zero.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchWeights {
    /// Weight of the ranking by meaning.
    #[serde(default, deserialize_with = "singles")]
    #[schema(minimum = 0, default = 1)]
    pub dense: Option<f32>,
    /// Weight of the ranking by words.
    #[serde(default, deserialize_with = "singles")]
    #[schema(minimum = 0, default = 1)]
    pub lexical: Option<f32>,
}

/// Ratio margin scoring: the cosine of query and passage divided by the mean cosine of both with their nearest neighbors. Above
/// 1, the two are nearer to each other than to their neighborhoods. The nearest documents, four per requested hit and at most
/// 200, are rescored. Only with the metric cosine.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MarginScoring {
    /// Size of a neighborhood, from 1 to 32.
    #[schema(minimum = 1, maximum = 32, default = 4)]
    pub neighbors: Option<usize>,
}

/// Limits the hits with the same value. A document without the value, or whose value is not a string, number or boolean, is a
/// group of its own.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupBy {
    /// `language`, or a metadata path as in filters.
    #[schema(min_length = 1, examples("language", "topic", "author.name"))]
    pub field: String,
    /// Maximum hits per group, from 1 to the server's limit for hits.
    #[schema(minimum = 1, default = 1)]
    pub size: Option<usize>,
}

/// What a hit may include: `title`, the document's title; `text`, its whole text; `metadata`; `passage`, the passage that
/// answers best, with the words in it that match; `vector`, the embedding of that passage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HitPart {
    Title,
    Text,
    Metadata,
    Passage,
    Vector,
}

/// Several searches of one collection.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchBatchRequest {
    /// The searches: at least one, at most the server's limit (100 unless configured otherwise).
    #[serde(deserialize_with = "objects")]
    #[schema(min_items = 1)]
    pub searches: Vec<SearchDocumentsRequest>,
}
