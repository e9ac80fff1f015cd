//! `/v1/mine` and `/v1/collections/{collection}/duplicates`: jobs that find texts with the same meaning.

pub mod results;

use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::api::Api;
use super::error::{ApiError, Checks, invalid};
use super::jobs::AcceptedJob;
use crate::domain::json::singles;
use crate::domain::{Caller, Code, CollectionName, DistinctJson, Limits, MiningUnit, SearchFilter};
use crate::http::middleware::auth::check_access;
use crate::http::request::extract::{ABOUT_IDEMPOTENCY_KEY, CollectionPath, KeyedBody};
use crate::http::request::filter::{self, FilterNode};
use crate::http::request::values::{
    check_count, check_each, check_integer, check_number, check_parsed, check_text, parse_languages,
};
use crate::service::Error;
use crate::service::json::{object, some_objects};
use crate::service::mining::duplicates::{DuplicatesRequest, DuplicatesSettings, LanguageRule};
use crate::service::mining::{Margin, MineError, MineRequest, MiningSettings, Sentences, Strategy, too_few_sentences};

const NEIGHBORS_MAX: usize = 255;
const KNOWN_PAIRS_MAX: usize = 10_000;
/// Maximum size of a cluster.
const SIZE_MAX: u32 = 1_000;

/// What to mine, and how.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MinePairsRequest {
    /// The sentences of one side.
    #[serde(deserialize_with = "object")]
    pub first: MiningSide,
    /// The sentences of the other side.
    #[serde(deserialize_with = "object")]
    pub second: MiningSide,
    /// Neighbors of each sentence on the other side: the only candidates for its pairs, and what the margin score compares
    /// with. Each side needs at least as many sentences.
    #[serde(default = "mining_neighbors")]
    #[schema(minimum = 1, maximum = 255, default = 4)]
    pub neighbors: usize,
    /// How pairs are scored.
    #[serde(default)]
    #[schema(default = "ratio")]
    pub margin: Margin,
    /// Which pairs are proposed.
    #[serde(default)]
    #[schema(default = "max_score")]
    pub strategy: Strategy,
    /// Whether each sentence is in at most one pair, its best. Always the case with `intersection` and `max_score`.
    #[serde(default)]
    #[schema(default = false)]
    pub one_to_one: bool,
    /// What counts as a sentence of a collection.
    #[serde(default)]
    #[schema(default = "passage")]
    pub unit: MiningUnit,
    /// `true`: compares all sentences with all of the other side. `false`: finds neighbors with indexes, which miss some. By
    /// default, whichever is faster and misses almost nothing.
    pub exact: Option<bool>,
    /// Whether equal texts of a side count as one sentence.
    #[serde(default = "default_true")]
    #[schema(default = true)]
    pub deduplicate: bool,
    /// Whether to leave out pairs of identical texts (but for case and outer spaces), and numbers, dates and codes that both
    /// sides have.
    #[serde(default = "default_true")]
    #[schema(default = true)]
    pub skip_identical: bool,
    /// Only pairs with at least this score. Excludes `known_pairs`.
    pub threshold: Option<f64>,
    /// Known translations, 1 to 10000, by which the job chooses the threshold: a random sample, or all
    /// (`known_pairs_complete`). Their sentences should have no other translation on the other side.
    #[serde(default, deserialize_with = "some_objects")]
    #[schema(min_items = 1, max_items = 10000)]
    pub known_pairs: Option<Vec<KnownPair>>,
    /// Whether `known_pairs` are all translations, so that any other pair is wrong and the measures are exact.
    #[serde(default)]
    #[schema(default = false)]
    pub known_pairs_complete: bool,
}

/// Sentences: either the passages of a collection's documents, or texts.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MiningSide {
    /// Name of the collection whose passages are the sentences. Excludes `texts`.
    pub collection: Option<String>,
    /// Only documents in these languages, as BCP 47 tags; empty or left out for all. With `collection`.
    pub languages: Option<Vec<String>>,
    /// Only documents that match. With `collection`.
    #[schema(value_type = Option<FilterNode>)]
    pub filter: Option<DistinctJson>,
    /// The sentences themselves, none blank. Excludes `collection`.
    #[schema(min_items = 1)]
    pub texts: Option<Vec<String>>,
}

/// Two sentences that are translations of each other: by the ids of their documents, each of one passage or, with
/// `unit: sentence`, of one sentence; or by their positions in `texts`, from 0, as strings.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KnownPair {
    /// The sentence of the first side.
    pub first: String,
    /// The sentence of the second side.
    pub second: String,
}

/// Which duplicates to look for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FindDuplicatesRequest {
    /// Only documents in these languages, as BCP 47 tags; empty or left out for all.
    pub languages: Option<Vec<String>>,
    /// Only documents that match.
    #[schema(value_type = Option<FilterNode>)]
    pub filter: Option<DistinctJson>,
    /// What is compared.
    #[schema(default = "passage")]
    pub unit: MiningUnit,
    /// Minimum cosine similarity of two passages or documents in a cluster.
    #[serde(deserialize_with = "singles")]
    #[schema(minimum = -1, maximum = 1, default = 0.9)]
    pub score_min: f32,
    /// Neighbors to consider for each passage or document.
    #[schema(minimum = 1, maximum = 255, default = 8)]
    pub neighbors: usize,
    /// Maximum passages or documents per cluster, because the ends of a long chain of near-duplicates are not alike. A pair
    /// that would make a cluster larger is ignored. If more texts than this are equal, they form several clusters.
    #[schema(minimum = 2, maximum = 1000, default = 100)]
    pub size_max: u32,
    /// Which languages the two passages or documents of a pair may have.
    #[schema(default = "any")]
    pub pairs: LanguageRule,
}

/// Mine translation pairs
///
/// Starts a job that finds translations between two sets of sentences: passages of two collections or of two parts of one, texts
/// of the request, or one of each. It uses what is stored and embedded when it is accepted. Its details estimate the memory and
/// disk space needed; with too little of either, it is refused. Once it has succeeded, `GET /v1/jobs/{job}/pairs` returns the
/// pairs. After a restart, embeddings of texts are kept and the rest starts over. Of the keys that are restricted to collections,
/// only the one that starts a job with texts can see it.
#[utoipa::path(
    post, path = "/v1/mine", tag = "mining",
    params(("idempotency-key" = Option<String>, Header, description = ABOUT_IDEMPOTENCY_KEY)),
    request_body(content = MinePairsRequest, description = "What to mine, and how."),
    responses(AcceptedJob),
)]
pub async fn mine_pairs(
    State(api): State<Api>,
    caller: Caller,
    KeyedBody(body, key): KeyedBody<MinePairsRequest>,
) -> Result<AcceptedJob, ApiError> {
    let limits = api.service.limits();
    let mut checks = Checks::default();
    checks.add(check_integer("/neighbors", body.neighbors, 1..=NEIGHBORS_MAX));
    checks.add(check_known_pairs(&body));
    let unit = body.unit;
    let first = checks.add(parse_sentences("/first", body.first, unit, limits, &caller));
    let second = checks.add(parse_sentences("/second", body.second, unit, limits, &caller));
    let (first, second) = checks.end_with(first.zip(second))?;
    let request = MineRequest {
        first,
        second,
        settings: MiningSettings {
            neighbors: body.neighbors,
            margin: body.margin,
            strategy: body.strategy,
            one_to_one: body.one_to_one,
            exact: body.exact,
            deduplicate: body.deduplicate,
            skip_identical: body.skip_identical,
        },
        threshold: body.threshold,
        known_pairs: body.known_pairs.map(|known| known.into_iter().map(|pair| (pair.first, pair.second)).collect()),
        known_complete: body.known_pairs_complete,
        key: caller.key().map(|key| key.id.clone()),
    };
    Ok(AcceptedJob(api.service.mine(request, key).await.map_err(locate_error)?))
}

/// Find duplicates
///
/// Starts a job that finds clusters of a collection's passages with the same meaning: near-duplicates and translations. It uses
/// what is stored and embedded when it is accepted. Equal texts belong together, whatever their neighbors; passages of the same
/// document are not compared. Once the job has succeeded, `GET /v1/jobs/{job}/clusters` returns the clusters. After a restart the
/// job starts over.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/duplicates", tag = "mining",
    params(("idempotency-key" = Option<String>, Header, description = ABOUT_IDEMPOTENCY_KEY)),
    request_body(content = FindDuplicatesRequest, description = "Which duplicates to look for."),
    responses(AcceptedJob),
)]
pub async fn find_duplicates(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    KeyedBody(body, key): KeyedBody<FindDuplicatesRequest>,
) -> Result<AcceptedJob, ApiError> {
    let limits = api.service.limits();
    let mut checks = Checks::default();
    checks.add(check_integer("/neighbors", body.neighbors, 1..=NEIGHBORS_MAX));
    checks.add(check_integer("/size_max", body.size_max, 2..=SIZE_MAX));
    checks.add(check_number("/score_min", body.score_min, -1.0..=1.0));
    let languages = checks.add_or_default(parse_languages(&body.languages.unwrap_or_default(), "/languages"));
    let filter = checks.add(filter::parse(body.filter, limits));
    let filter = checks.end_with(filter)?;
    let (score_min, neighbors, size_max, pairs) = (body.score_min, body.neighbors, body.size_max, body.pairs);
    let request = DuplicatesRequest {
        only: SearchFilter { languages, filter },
        unit: body.unit,
        settings: DuplicatesSettings { score_min, neighbors, size_max, pairs },
    };
    Ok(AcceptedJob(api.service.find_duplicates(&collection, request, key).await.map_err(locate_error)?))
}

fn mining_neighbors() -> usize {
    4
}

fn default_true() -> bool {
    true
}

impl Default for FindDuplicatesRequest {
    fn default() -> Self {
        let (unit, pairs) = (MiningUnit::default(), LanguageRule::default());
        Self { languages: None, filter: None, unit, score_min: 0.9, neighbors: 8, size_max: 100, pairs }
    }
}

fn check_known_pairs(body: &MinePairsRequest) -> Result<(), ApiError> {
    match &body.known_pairs {
        None if body.known_pairs_complete => invalid("/known_pairs_complete", "works with known_pairs only"),
        None => Ok(()),
        Some(_) if body.threshold.is_some() => invalid("/known_pairs", "must be left out with threshold: give one of the two"),
        Some(known) => check_count("/known_pairs", known.len(), KNOWN_PAIRS_MAX, "pairs"),
    }
}

fn parse_sentences(
    pointer: &str,
    corpus: MiningSide,
    unit: MiningUnit,
    limits: &Limits,
    caller: &Caller,
) -> Result<Sentences, ApiError> {
    let refuse = |member: &str, detail: &str| invalid(format!("{pointer}{member}"), detail);
    match corpus {
        MiningSide { collection: Some(_), texts: Some(_), .. } | MiningSide { collection: None, texts: None, .. } => {
            refuse("", "must have exactly one of collection and texts")
        }
        MiningSide { collection: Some(name), languages: codes, filter, texts: None } => {
            let name = check_parsed(format!("{pointer}/collection"), CollectionName::parse(&name))?;
            check_access(caller, &name)?;
            let filter = filter::parse(filter, limits).map_err(|error| error.with_base_pointer(pointer))?;
            let languages = parse_languages(&codes.unwrap_or_default(), &format!("{pointer}/languages"))?;
            Ok(Sentences::Collection { name, only: SearchFilter { languages, filter }, unit })
        }
        MiningSide { filter: Some(_), .. } => refuse("/filter", "works with collection only"),
        MiningSide { languages: Some(_), .. } => refuse("/languages", "works with collection only"),
        MiningSide { texts: Some(texts), .. } => {
            if texts.is_empty() {
                return refuse("/texts", "must have at least one text, got none");
            }
            check_each(&format!("{pointer}/texts"), &texts, |pointer, text| check_text(pointer, text, limits))?;
            Ok(Sentences::List(texts))
        }
    }
}

/// The error, at the place in the request that it concerns.
fn locate_error(error: Error) -> ApiError {
    match &error {
        Error::Mine(MineError::KnownPair { index, corpus, problem }) => {
            ApiError::at(Code::InvalidRequest, format!("/known_pairs/{index}/{corpus}"), problem.clone())
        }
        Error::Mine(MineError::TooFewSentences { corpus, expected, got }) => {
            ApiError::at(Code::InvalidRequest, format!("/{corpus}"), too_few_sentences(*expected, *got))
        }
        _ => error.into(),
    }
}
