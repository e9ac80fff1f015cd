// The bodies of requests and answers, named as in openapi/openapi.json. An optional member of an answer is omitted when it has no
// value; it is never null. A newer server may send more members.

/** One node of a filter: `and`, `or` or `not` with further nodes, or a `field` with exactly one operator. */
export interface FilterNode {
  and?: FilterNode[];
  or?: FilterNode[];
  not?: FilterNode;
  field?: string;
  eq?: unknown;
  ne?: unknown;
  in?: unknown[];
  any?: unknown[];
  gt?: unknown;
  gte?: unknown;
  lt?: unknown;
  lte?: unknown;
  exists?: boolean;
  prefix?: string;
}

export type Metadata = Record<string, unknown>;
export type SearchMode = "full" | "dense" | "lexical" | "hybrid";
export type HitPart = "title" | "text" | "metadata" | "passage" | "vector";
export type WaitFor = "stored" | "indexed";
export type JobStatus = "queued" | "running" | "succeeded" | "failed" | "canceled";

// Collections

export interface HnswOptions {
  m?: number;
  ef_construction?: number;
  ef_search?: number;
}

export interface PassageOptions {
  tokens_max?: number;
  overlap_tokens?: number;
}

/** The options of a new collection. */
export interface CollectionOptions {
  description?: string;
  model?: string;
  dimension?: number;
  metric?: "cosine" | "dot" | "l2";
  quantization?: "f32" | "bf16" | "f16" | "i8" | "b1";
  hnsw?: HnswOptions;
  passage_bounds?: PassageOptions;
  default_languages?: string[];
  metadata_indexes?: string[];
}

export interface HnswChange {
  ef_search?: number;
}

export interface CollectionChange {
  description?: string;
  hnsw?: HnswChange;
  default_languages?: string[];
  metadata_indexes?: string[];
}

export interface LanguageCount {
  language?: string;
  documents: number;
}

export interface CollectionInfo {
  name: string;
  description?: string;
  model?: string;
  model_fingerprint?: string;
  dimension: number;
  metric: string;
  quantization: string;
  hnsw: HnswOptions;
  passage_bounds?: PassageOptions;
  default_languages: string[];
  metadata_indexes: string[];
  created_at: string;
  documents: number;
  passages: number;
  passages_pending: number;
  languages: LanguageCount[];
  disk_bytes: number;
  cut_by_older_rules?: boolean;
  index_state: "ready" | "recovering" | "damaged";
  damage?: Record<string, string>[];
}

// Documents

export interface DocumentInput {
  id?: string;
  title?: string;
  text?: string;
  vector?: number[];
  language?: string;
  metadata?: Metadata;
  expires_at?: string;
  ttl_seconds?: number;
}

/** Metadata is merged as in RFC 7396; an expiry of null removes the expiry. */
export interface DocumentsChange {
  metadata?: Metadata;
  expires_at?: string | null;
  ttl_seconds?: number;
}

/** The same for one document; a title of null removes the title. */
export interface DocumentPatch extends DocumentsChange {
  title?: string | null;
  language?: string;
}

export interface StoredDocument {
  id: string;
  title?: string;
  text: string;
  language?: string;
  language_confidence?: number;
  metadata: Metadata;
  passages: number;
  indexed: boolean;
  created_at: string;
  updated_at: string;
  expires_at?: string;
  version: number;
}

export interface UpdatedDocuments {
  matched: number;
  updated: number;
}

export interface DocumentFailure {
  code: string;
  pointer: string;
  detail: string;
}

export interface DocumentResult {
  id?: string;
  status: "created" | "updated" | "failed";
  version?: number;
  error?: DocumentFailure;
}

export interface UpsertResult {
  results: DocumentResult[];
  failed: number;
}

export interface FacetInput {
  field: string;
  limit?: number;
  stats?: boolean;
  histogram?: { interval: number | "hour" | "day" | "week" | "month" | "year" };
}

export interface FacetValue {
  value: string | number | boolean;
  documents: number;
}

export interface FacetStats {
  count: number;
  min?: number | string;
  max?: number | string;
  sum?: number;
  mean?: number;
}

export interface FacetBucket {
  from: number | string;
  documents: number;
}

export interface Facet {
  field: string;
  values: FacetValue[];
  missing: number;
  stats?: FacetStats;
  histogram?: FacetBucket[];
}

export interface FacetsResult {
  documents: number;
  facets: Facet[];
}

export interface ListDocumentsOptions {
  ids?: string[];
  filter?: FilterNode;
  order?: "id" | "created_at" | "updated_at";
  descending?: boolean;
  /** Orders by any field; replaces `order` and `descending`. */
  order_by?: { field: string; direction?: "asc" | "desc" };
  /** Documents per request. It does not limit the total. */
  limit?: number;
}

// Search

export interface SearchWeights {
  dense?: number;
  lexical?: number;
}

export interface MarginScoring {
  neighbors?: number;
}

export interface GroupBy {
  field: string;
  size?: number;
}

/** Which documents get the weight: those that match `filter`, or those whose `field` is near an origin (see `decay`). */
export interface BoostInput {
  filter?: FilterNode;
  field?: string;
  decay?: { origin?: number | string; half_life?: number; scale?: number };
  weight?: number;
}

/** Which hits a search or a recommendation returns, in what order, and with which parts. */
export interface HitOptions {
  limit?: number;
  offset?: number;
  languages?: string[];
  filter?: FilterNode;
  score_min?: number;
  exact?: boolean;
  ef_search?: number;
  oversampling?: number;
  group_by?: GroupBy;
  balance_languages?: boolean;
  prefer_language?: string[];
  boosts?: BoostInput[];
  diversity?: number;
  include?: HitPart[];
  explain?: boolean;
}

/** The options of a search. `vector` or `like` replaces the query. */
export interface SearchOptions extends HitOptions {
  vector?: number[];
  like?: string;
  mode?: SearchMode;
  words?: "any" | "all";
  operators?: boolean;
  candidates?: number;
  weights?: SearchWeights;
  rank_constant?: number;
  margin?: MarginScoring;
  facets?: FacetInput[];
}

export interface SearchRequest extends SearchOptions {
  query?: string;
}

export interface ExampleInputs {
  ids?: string[];
  vectors?: number[][];
  texts?: string[];
}

export interface PassageMark {
  start: number;
  end: number;
}

export interface PassageMatch {
  text: string;
  start: number;
  end: number;
  marks: PassageMark[];
}

export interface SearchHit {
  id: string;
  score: number;
  language?: string;
  group?: string;
  title?: string;
  title_marks?: PassageMark[];
  text?: string;
  metadata?: Metadata;
  passage?: PassageMatch;
  vector?: number[];
  explanation?: Record<string, unknown>;
}

export interface SearchResult {
  hits: SearchHit[];
  facets?: Facet[];
  query_truncated: boolean;
  incomplete?: boolean;
  explanation?: Record<string, unknown>;
  took_ms: number;
}

export interface SearchBatchResult {
  results: SearchResult[];
  took_ms: number;
}

// Jobs

export interface JobProblem {
  code: string;
  detail: string;
}

export interface JobProgressInfo {
  done: number;
  total: number;
  unit: string;
  rate?: number;
  eta_s?: number;
}

export interface JobInfo {
  id: string;
  type: string;
  status: JobStatus;
  collection?: string;
  progress: JobProgressInfo;
  details: Record<string, unknown>;
  cancel_requested: boolean;
  error?: JobProblem;
  created_at: string;
  started_at?: string;
  finished_at?: string;
}

/** The result of one line of an import. */
export interface LineResult {
  line: number;
  id?: string;
  status: "created" | "updated" | "failed";
  error?: DocumentFailure;
}

export interface AliasInfo {
  alias: string;
  collection: string;
}

export interface SnapshotInfo {
  id: string;
  created_at: string;
  server_version: string;
  collections: Record<string, unknown>[];
  aliases: AliasInfo[];
  classifiers: Record<string, string>[];
  archive_bytes: number;
  archive_sha256: string;
}

export interface RestoreOptions {
  collection?: string;
  rename_to?: string;
  replace?: boolean;
}

// Classifiers

export type ClassifierKind = "knn" | "mlp" | "prototype";

export interface PredictOptions {
  threshold?: number;
  scores?: number;
  explain?: number;
}

export interface ApplyOptions {
  probability_field?: string;
  filter?: FilterNode;
  threshold?: number;
}

export interface LabeledText {
  text: string;
  labels: string[];
  language?: string;
}

export interface LabeledDocuments {
  collection: string;
  field: string;
  filter?: FilterNode;
}

export interface LabelInput {
  name: string;
  descriptions?: string[];
}

/** What a new classifier learns from, and how. */
export interface ClassifierOptions {
  description?: string;
  multi_label?: boolean;
  threshold?: number;
  source?: LabeledDocuments;
  examples?: LabeledText[];
  labels?: LabelInput[];
  knn?: Record<string, unknown>;
  mlp?: Record<string, unknown>;
}

export interface ClassifierInfo {
  name: string;
  kind: ClassifierKind;
  state: "training" | "ready" | "failed" | "outdated";
  job: string;
  next_job?: string;
  version: number;
  description?: string;
  multi_label: boolean;
  threshold?: number;
  source?: LabeledDocuments;
  knn?: Record<string, unknown>;
  mlp?: Record<string, unknown>;
  model: string;
  model_fingerprint: string;
  training?: Record<string, unknown>;
  error?: JobProblem;
  created_at: string;
  trained_at?: string;
}

export interface LabelProbability {
  label: string;
  probability: number;
}

export interface LabeledNeighborInfo {
  id?: string;
  text: string;
  labels: string[];
  language?: string;
  score: number;
}

export interface PredictionInfo {
  id?: string;
  language?: string;
  labels: string[];
  abstained: boolean;
  scores: LabelProbability[];
  neighbors?: LabeledNeighborInfo[];
}

export interface PredictResult {
  predictions: PredictionInfo[];
  abstained: number;
  took_ms: number;
}

export interface DocumentsById {
  collection: string;
  ids: string[];
}

// Embeddings, comparison, mining

/** Empty if the text is in none of the languages that the model knows. */
export interface LanguageDetection {
  language?: string;
  confidence?: number;
}

export interface TextPair {
  first: string;
  second: string;
}

export interface PairSimilarity {
  score: number;
  truncated?: boolean;
}

export interface SimilarityMatrix {
  scores: number[][];
  first_truncated?: number[];
  second_truncated?: number[];
}

/** A collection, a part of one, or texts. */
export interface MiningSide {
  collection?: string;
  languages?: string[];
  filter?: FilterNode;
  texts?: string[];
}

export interface MiningOptions {
  neighbors?: number;
  margin?: "ratio" | "distance" | "absolute";
  strategy?: "max_score" | "intersection" | "forward" | "backward";
  one_to_one?: boolean;
  unit?: "passage" | "document";
  exact?: boolean;
  deduplicate?: boolean;
  skip_identical?: boolean;
  threshold?: number;
  known_pairs?: TextPair[];
  known_pairs_complete?: boolean;
}

export interface DuplicatesOptions {
  languages?: string[];
  filter?: FilterNode;
  unit?: "passage" | "document";
  score_min?: number;
  neighbors?: number;
  size_max?: number;
  pairs?: "any" | "same" | "different";
}

export interface MinedSentence {
  id: string;
  language?: string;
  text: string;
  start?: number;
  end?: number;
}

export interface MinedPair {
  score: number;
  first: MinedSentence;
  second: MinedSentence;
}

export interface DuplicateCluster {
  size: number;
  representative: string;
  members: MinedSentence[];
}

export interface ModelInfo {
  id: string;
  object: string;
  created: number;
  owned_by: string;
  version: string;
  fingerprint: string;
  dimension: number;
  tokens_max: number;
  languages: Record<string, string>[];
  device: string;
  device_note?: string;
  quality: Record<string, number>;
}
