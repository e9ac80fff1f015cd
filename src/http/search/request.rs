//! What a search may ask for, on the wire.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use utoipa::ToSchema;

use crate::domain::Code;
use crate::http::error::ApiError;
use crate::http::facets::FacetInput;
use crate::http::filter::FilterNode;
use crate::service::json::{Object, objects, some_objects};

/// A search: exactly one of `query`, `vector` and `like`, and what restricts and orders the hits.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchDocumentsRequest {
    /// The query, in any language: not blank, at most the server's limit for texts (1 MiB unless configured otherwise). In the modes
    /// `full`, `lexical` and `hybrid` passages must have what stands in quotes, word by word as it is spelled, and must not have a word or
    /// quote behind a minus: `"heavy rain" -wind`.
    #[serde(default)]
    #[schema(nullable = false, min_length = 1)]
    pub query: Option<String>,
    /// An embedding to be near to: as many values as the collection's embeddings have; under the metric cosine not all zeros.
    /// The other modes than `dense` need `query`.
    #[serde(default)]
    #[schema(nullable = false, min_items = 1)]
    pub vector: Option<Vec<f32>>,
    /// Id of a document to be near to: to the mean of its passages' embeddings. The document itself is no hit. The other
    /// modes than `dense` need `query`.
    #[serde(default)]
    #[schema(nullable = false, min_length = 1, max_length = 512)]
    pub like: Option<String>,
    /// How hits are found. Left out, `full` for a `query`; `dense` for a `vector`, for `like`, and with `margin`.
    #[serde(default)]
    #[schema(value_type = SearchMode, required = false)]
    pub mode: Option<SearchMode>,
    /// Whether a passage must have every word of the `query`, or any is enough. Of the modes `full`, `lexical` and `hybrid`; left out,
    /// `any`.
    #[serde(default)]
    #[schema(value_type = WordMatching, required = false)]
    pub words: Option<WordMatching>,
    /// Whether quotes and minus signs in the `query` say what passages must have and must not have, in the modes `full`, `lexical` and
    /// `hybrid`. Set it to false where the query is a text that somebody wrote for another purpose. `dense` reads none.
    #[serde(default)]
    #[schema(nullable = false, default = true)]
    pub operators: Option<bool>,
    /// Of mode `full`: how many passages each ranking proposes (embeddings, tokens, words) before all of them are scored, from 10 to
    /// 10000. More candidates find more and take longer.
    #[serde(default)]
    #[schema(nullable = false, minimum = 10, maximum = 10000, default = 100)]
    pub candidates: Option<usize>,
    /// What the lists of mode `hybrid` weigh.
    #[serde(default, deserialize_with = "object")]
    #[schema(nullable = false)]
    pub weights: Option<SearchWeights>,
    /// Of mode `hybrid`, from 1 to 1000: a document gets weight / (rank constant + its rank) of each list. The larger, the less
    /// the first ranks stand out.
    #[serde(default)]
    #[schema(nullable = false, minimum = 1, maximum = 1000, default = 60)]
    pub rank_constant: Option<f32>,
    /// Hits at most, from 1 to the server's limit (1000 unless configured otherwise).
    #[serde(default)]
    #[schema(nullable = false, minimum = 1, default = 10)]
    pub limit: Option<usize>,
    /// Hits left out before the first one. With `limit` at most the server's limit.
    #[serde(default)]
    #[schema(nullable = false, minimum = 0, default = 0)]
    pub offset: Option<usize>,
    /// Hits only in these languages, as BCP 47 tags; empty for all, left out for the `default_languages` of the collection.
    #[serde(default)]
    #[schema(nullable = false)]
    pub languages: Option<Vec<String>>,
    /// Hits only where this holds.
    #[serde(default)]
    #[schema(value_type = Option<FilterNode>, nullable = false)]
    pub filter: Option<Value>,
    /// Hits only with at least this score. What a score means depends on the mode and on `margin`.
    #[serde(default)]
    #[schema(nullable = false)]
    pub score_min: Option<f32>,
    /// Whether to compare with all embeddings instead of asking the index, which may miss a near one. Slow in a large
    /// collection, and writes wait meanwhile.
    #[serde(default)]
    #[schema(nullable = false, default = false)]
    pub exact: Option<bool>,
    /// Candidates while searching the index, as `hnsw.ef_search` of the collection, which it is when left out: more miss
    /// less and take longer. Not of mode `lexical`.
    #[serde(default)]
    #[schema(nullable = false, minimum = 8, maximum = 4096)]
    pub ef_search: Option<usize>,
    /// How many passages per passage wanted the index names before they are compared again by their stored values, from 1 to 64;
    /// at 1 none is. Left out, what the collection's quantization needs: 2 for `i8`, 8 for `b1`, 1 for the others. Not of mode
    /// `lexical`.
    #[serde(default)]
    #[schema(nullable = false, minimum = 1, maximum = 64)]
    pub oversampling: Option<f32>,
    /// Of mode `dense`: scores the nearest documents anew by their ratio margin, which makes scores of different languages
    /// comparable.
    #[serde(default, deserialize_with = "object")]
    #[schema(nullable = false)]
    pub margin: Option<MarginScoring>,
    /// Allows only some hits of each group.
    #[serde(default, deserialize_with = "object")]
    #[schema(nullable = false)]
    pub group_by: Option<GroupBy>,
    /// Whether languages take turns: first the best hit of each language, then the second best of each, and so on. A hit takes a
    /// turn only when it is at least half as near as the nearest, or its BM25 is at least half of the best one's; the others
    /// follow by score.
    #[serde(default)]
    #[schema(nullable = false, default = false)]
    pub balance_languages: Option<bool>,
    /// Languages to prefer, 1 to 62, the first one most, as BCP 47 tags; `auto` is the query's own. Their documents go before others whose
    /// score is less than a quarter better; scores stay what they are. Not with `balance_languages`.
    #[serde(default)]
    #[schema(nullable = false, min_items = 1, max_items = 62)]
    pub prefer_language: Option<Vec<String>>,
    /// Fields whose values are counted, 1 to 20, among all documents that `languages` and `filter` leave, be they hits or not.
    /// The searches of a batch have at most 20 together.
    #[serde(default, deserialize_with = "some_objects")]
    #[schema(nullable = false, min_items = 1, max_items = 20)]
    pub facets: Option<Vec<FacetInput>>,
    /// What hits carry besides id, score and language; title, metadata and passage when left out.
    #[serde(default)]
    #[schema(nullable = false)]
    pub include: Option<Vec<HitPart>>,
    /// Whether the answer says how hits were found and what took how long.
    #[serde(default)]
    #[schema(nullable = false, default = false)]
    pub explain: Option<bool>,
}

/// `full`: by all there is, within and across languages: embeddings, late interaction of tokens, and words with their translations
/// become one relevance between 0 and 1. `dense`: by the similarity of embeddings alone. `lexical`: by the words that query and passage share (BM25), in every
/// script. `hybrid`: by embeddings and words, their ranks fused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchMode {
    /// By all there is.
    Full,
    /// By the similarity of embeddings.
    Dense,
    /// By shared words.
    Lexical,
    /// By both.
    Hybrid,
}

/// `any`: a passage that has any word of the query may be a hit; more words, and rarer ones, count more. `all`: only passages that have
/// every word, with or without its accents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WordMatching {
    /// Any is enough.
    Any,
    /// Every word.
    All,
}

/// What the lists of a hybrid search weigh. Zero takes a list out; both cannot be zero.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchWeights {
    /// Of the list by meaning.
    #[serde(default)]
    #[schema(nullable = false, minimum = 0, default = 1)]
    pub dense: Option<f32>,
    /// Of the list by words.
    #[serde(default)]
    #[schema(nullable = false, minimum = 0, default = 1)]
    pub lexical: Option<f32>,
}

/// Ratio margin scoring: the cosine of query and passage divided by the mean cosine of both with their nearest neighbors. Above
/// 1 the two are nearer to each other than to their neighborhoods. The nearest documents, four for each hit asked for and at
/// most 200, are scored anew. Only under the metric cosine.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MarginScoring {
    /// How many neighbors make a neighborhood, from 1 to 32.
    #[serde(default)]
    #[schema(nullable = false, minimum = 1, maximum = 32, default = 4)]
    pub neighbors: Option<usize>,
}

/// Allows only some hits with the same value. A document without it, or with one that is no string, number or boolean, is a
/// group of its own.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupBy {
    /// `language`, or a path in metadata as in filters.
    #[schema(min_length = 1, examples("language", "topic", "author.name"))]
    pub field: String,
    /// Hits of each group at most, from 1 to the server's limit for hits.
    #[serde(default)]
    #[schema(nullable = false, minimum = 1, default = 1)]
    pub size: Option<usize>,
}

/// What a hit may carry: `title`, the document's title; `text`, all of its text; `metadata`; `passage`, the passage that answers best,
/// with the words in it that do; `vector`, the embedding of that passage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HitPart {
    /// The document's title.
    Title,
    /// Its text.
    Text,
    /// Its metadata.
    Metadata,
    /// The passage that answers best.
    Passage,
    /// The embedding of that passage.
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

/// Refuses what stands at `pointer`.
pub fn invalid<T>(pointer: &str, detail: String) -> Result<T, ApiError> {
    Err(ApiError::at(Code::InvalidRequest, pointer, detail))
}

/// Reads an object that may be left out or null.
pub fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(Option::<Object<T>>::deserialize(deserializer)?.map(|Object(value)| value))
}
