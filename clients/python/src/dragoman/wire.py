"""The bodies of requests and answers, named as in openapi/openapi.json: plain dictionaries with types.

A `NotRequired` member is omitted when it has no value; it is never null. A newer server may send more members.
"""

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

Metadata = dict[str, Any]
SearchMode = Literal["full", "dense", "lexical", "hybrid"]
HitPart = Literal["title", "text", "metadata", "passage", "vector"]
WaitFor = Literal["stored", "indexed"]
JobStatus = Literal["queued", "running", "succeeded", "failed", "canceled"]

# `and`, `or`, `not` and `in` are Python keywords, so this type is written as a call.
FilterNode = TypedDict(
    "FilterNode",
    {
        "and": "list[FilterNode]",
        "or": "list[FilterNode]",
        "not": "FilterNode",
        "field": str,
        "eq": Any,
        "ne": Any,
        "in": list[Any],
        "any": list[Any],
        "gt": Any,
        "gte": Any,
        "lt": Any,
        "lte": Any,
        "exists": bool,
        "prefix": str,
    },
    total=False,
)


# Collections


class HnswOptions(TypedDict, total=False):
    m: int
    ef_construction: int
    ef_search: int


class PassageOptions(TypedDict, total=False):
    tokens_max: int
    overlap_tokens: int


class CollectionOptions(TypedDict, total=False):
    """The options of a new collection."""

    description: str
    model: str
    dimension: int
    metric: Literal["cosine", "dot", "l2"]
    quantization: Literal["f32", "bf16", "f16", "i8", "b1"]
    hnsw: HnswOptions
    passage_bounds: PassageOptions
    default_languages: list[str]
    metadata_indexes: list[str]


class HnswChange(TypedDict, total=False):
    ef_search: int


class CollectionChange(TypedDict, total=False):
    description: str
    hnsw: HnswChange
    default_languages: list[str]
    metadata_indexes: list[str]


class AliasInfo(TypedDict):
    alias: str
    collection: str


class LanguageCount(TypedDict):
    language: NotRequired[str]
    documents: int


class CollectionInfo(TypedDict):
    name: str
    description: NotRequired[str]
    model: NotRequired[str]
    model_fingerprint: NotRequired[str]
    dimension: int
    metric: str
    quantization: str
    hnsw: HnswOptions
    passage_bounds: NotRequired[PassageOptions]
    default_languages: list[str]
    metadata_indexes: list[str]
    created_at: str
    documents: int
    passages: int
    passages_pending: int
    languages: list[LanguageCount]
    disk_bytes: int
    cut_by_older_rules: NotRequired[bool]
    index_state: Literal["ready", "recovering", "damaged"]
    damage: NotRequired[list[dict[str, str]]]


# Documents


class OrderBy(TypedDict):
    field: str
    direction: NotRequired[Literal["asc", "desc"]]


class DocumentInput(TypedDict, total=False):
    id: str
    title: str
    text: str
    vector: list[float]
    language: str
    metadata: Metadata
    expires_at: str
    ttl_seconds: int


class DocumentPatch(TypedDict, total=False):
    """Metadata is merged as in RFC 7396; None removes a title or an expiry."""

    title: str | None
    metadata: Metadata
    language: str
    expires_at: str | None
    ttl_seconds: int


class DocumentsChange(TypedDict, total=False):
    """Metadata is merged as in RFC 7396; an expiry of None removes the expiry."""

    metadata: Metadata
    expires_at: str | None
    ttl_seconds: int


class StoredDocument(TypedDict):
    id: str
    title: NotRequired[str]
    text: str
    language: NotRequired[str]
    language_confidence: NotRequired[float]
    metadata: Metadata
    passages: int
    indexed: bool
    created_at: str
    updated_at: str
    expires_at: NotRequired[str]
    version: int


class UpdatedDocuments(TypedDict):
    matched: int
    updated: int


class DocumentFailure(TypedDict):
    code: str
    pointer: str
    detail: str


class DocumentResult(TypedDict):
    id: NotRequired[str]
    status: Literal["created", "updated", "failed"]
    version: NotRequired[int]
    error: NotRequired[DocumentFailure]


class UpsertResult(TypedDict):
    results: list[DocumentResult]
    failed: int


class HistogramInput(TypedDict):
    interval: float | Literal["hour", "day", "week", "month", "year"]


class FacetInput(TypedDict):
    field: str
    limit: NotRequired[int]
    stats: NotRequired[bool]
    histogram: NotRequired[HistogramInput]


class FacetValue(TypedDict):
    value: str | float | bool
    documents: int


class FacetStats(TypedDict):
    count: int
    min: NotRequired[float | str]
    max: NotRequired[float | str]
    sum: NotRequired[float]
    mean: NotRequired[float]


FacetBucket = TypedDict("FacetBucket", {"from": float | str, "documents": int})


class Facet(TypedDict):
    field: str
    values: list[FacetValue]
    missing: int
    stats: NotRequired[FacetStats]
    histogram: NotRequired[list[FacetBucket]]


class FacetsResult(TypedDict):
    documents: int
    facets: list[Facet]


# Search


class SearchWeights(TypedDict, total=False):
    dense: float
    lexical: float


class MarginScoring(TypedDict, total=False):
    neighbors: int


class GroupBy(TypedDict):
    field: str
    size: NotRequired[int]


class DecayInput(TypedDict, total=False):
    origin: float | str
    half_life: float
    scale: float


class BoostInput(TypedDict, total=False):
    """Which documents get the weight: those that match `filter`, or those whose `field` is near an origin (see `decay`)."""

    filter: FilterNode
    field: str
    decay: DecayInput
    weight: float


class HitOptions(TypedDict, total=False):
    """Which hits a search or a recommendation returns, in what order, and with which parts."""

    limit: int
    offset: int
    languages: list[str]
    filter: FilterNode
    score_min: float
    exact: bool
    ef_search: int
    oversampling: float
    group_by: GroupBy
    balance_languages: bool
    prefer_language: list[str]
    boosts: list[BoostInput]
    diversity: float
    include: list[HitPart]
    explain: bool


class SearchOptions(HitOptions, total=False):
    """The options of a search. `vector` or `like` replaces the query."""

    vector: list[float]
    like: str
    mode: SearchMode
    words: Literal["any", "all"]
    operators: bool
    candidates: int
    weights: SearchWeights
    rank_constant: float
    margin: MarginScoring
    facets: list[FacetInput]


class SearchRequest(SearchOptions, total=False):
    query: str


class ExampleInputs(TypedDict, total=False):
    ids: list[str]
    vectors: list[list[float]]
    texts: list[str]


class PassageMark(TypedDict):
    start: int
    end: int


class PassageMatch(TypedDict):
    text: str
    start: int
    end: int
    marks: list[PassageMark]


class SearchHit(TypedDict):
    id: str
    score: float
    language: NotRequired[str]
    group: NotRequired[str]
    title: NotRequired[str]
    title_marks: NotRequired[list[PassageMark]]
    text: NotRequired[str]
    metadata: NotRequired[Metadata]
    passage: NotRequired[PassageMatch]
    vector: NotRequired[list[float]]
    explanation: NotRequired[dict[str, Any]]


class SearchResult(TypedDict):
    hits: list[SearchHit]
    facets: NotRequired[list[Facet]]
    query_truncated: bool
    incomplete: NotRequired[bool]
    explanation: NotRequired[dict[str, Any]]
    took_ms: float


class SearchBatchResult(TypedDict):
    results: list[SearchResult]
    took_ms: float


# Jobs


class JobProblem(TypedDict):
    code: str
    detail: str


class JobProgressInfo(TypedDict):
    done: int
    total: int
    unit: str
    rate: NotRequired[float]
    eta_s: NotRequired[float]


class JobInfo(TypedDict):
    id: str
    type: str
    status: JobStatus
    collection: NotRequired[str]
    progress: JobProgressInfo
    details: dict[str, Any]
    cancel_requested: bool
    error: NotRequired[JobProblem]
    created_at: str
    started_at: NotRequired[str]
    finished_at: NotRequired[str]


class LineResult(TypedDict):
    """The result of one line of an import."""

    line: int
    id: NotRequired[str]
    status: Literal["created", "updated", "failed"]
    error: NotRequired[DocumentFailure]


class SnapshotInfo(TypedDict):
    id: str
    created_at: str
    server_version: str
    collections: list[dict[str, Any]]
    aliases: list[AliasInfo]
    classifiers: list[dict[str, str]]
    archive_bytes: int
    archive_sha256: str


# Classifiers


class LabeledText(TypedDict):
    text: str
    labels: list[str]
    language: NotRequired[str]


class LabeledDocuments(TypedDict):
    collection: str
    field: str
    filter: NotRequired[FilterNode]


class LabelInput(TypedDict):
    name: str
    descriptions: NotRequired[list[str]]


class ClassifierOptions(TypedDict, total=False):
    """What a new classifier learns from, and how."""

    description: str
    multi_label: bool
    threshold: float
    source: LabeledDocuments
    examples: list[LabeledText]
    labels: list[LabelInput]
    knn: dict[str, Any]
    mlp: dict[str, Any]


class ClassifierInfo(TypedDict):
    name: str
    kind: Literal["knn", "mlp", "prototype"]
    state: Literal["training", "ready", "failed", "outdated"]
    job: str
    next_job: NotRequired[str]
    version: int
    description: NotRequired[str]
    multi_label: bool
    threshold: NotRequired[float]
    source: NotRequired[LabeledDocuments]
    knn: NotRequired[dict[str, Any]]
    mlp: NotRequired[dict[str, Any]]
    model: str
    model_fingerprint: str
    training: NotRequired[dict[str, Any]]
    error: NotRequired[JobProblem]
    created_at: str
    trained_at: NotRequired[str]


class LabelProbability(TypedDict):
    label: str
    probability: float


class LabeledNeighborInfo(TypedDict):
    id: NotRequired[str]
    text: str
    labels: list[str]
    language: NotRequired[str]
    score: float


class PredictionInfo(TypedDict):
    id: NotRequired[str]
    language: NotRequired[str]
    labels: list[str]
    abstained: bool
    scores: list[LabelProbability]
    neighbors: NotRequired[list[LabeledNeighborInfo]]


class PredictResult(TypedDict):
    predictions: list[PredictionInfo]
    abstained: int
    took_ms: float


class DocumentsById(TypedDict):
    collection: str
    ids: list[str]


# Embeddings, comparison, mining


class LanguageDetection(TypedDict, total=False):
    """Empty if the text is in none of the languages that the model knows."""

    language: str
    confidence: float


class TextPair(TypedDict):
    first: str
    second: str


class PairSimilarity(TypedDict):
    score: float
    truncated: NotRequired[bool]


class SimilarityMatrix(TypedDict):
    scores: list[list[float]]
    first_truncated: NotRequired[list[int]]
    second_truncated: NotRequired[list[int]]


class MiningSide(TypedDict, total=False):
    """A collection, a part of one, or texts."""

    collection: str
    languages: list[str]
    filter: FilterNode
    texts: list[str]


class MiningOptions(TypedDict, total=False):
    neighbors: int
    margin: Literal["ratio", "distance", "absolute"]
    strategy: Literal["max_score", "intersection", "forward", "backward"]
    one_to_one: bool
    unit: Literal["passage", "document"]
    exact: bool
    deduplicate: bool
    skip_identical: bool
    threshold: float
    known_pairs: list[TextPair]
    known_pairs_complete: bool


class DuplicatesOptions(TypedDict, total=False):
    languages: list[str]
    filter: FilterNode
    unit: Literal["passage", "document"]
    score_min: float
    neighbors: int
    size_max: int
    pairs: Literal["any", "same", "different"]


class MinedSentence(TypedDict):
    id: str
    language: NotRequired[str]
    text: str
    start: NotRequired[int]
    end: NotRequired[int]


class MinedPair(TypedDict):
    score: float
    first: MinedSentence
    second: MinedSentence


class DuplicateCluster(TypedDict):
    size: int
    representative: str
    members: list[MinedSentence]


class ModelInfo(TypedDict):
    id: str
    object: str
    created: int
    owned_by: str
    version: str
    fingerprint: str
    dimension: int
    tokens_max: int
    languages: list[dict[str, str]]
    device: str
    device_note: NotRequired[str]
    quality: dict[str, float]
