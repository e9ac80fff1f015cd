// The client: a method for each operation of the API. Arguments and answers are named as in the API.

import { BATCH_BYTES, BATCH_DOCUMENTS, type Documents, sendAll, upsertInBatches } from "./batches.js";
import { type Call, type ClientOptions, Connection } from "./connection.js";
import { DragomanError } from "./errors.js";
import { Job } from "./job.js";
import type * as wire from "./wire.js";

export interface UpsertOptions {
  wait?: wire.WaitFor;
  batchDocuments?: number;
  batchBytes?: number;
}

export interface ImportOptions {
  /** `application/x-ndjson`, `text/csv` or `text/tab-separated-values`. Without it, the name of a `File` tells the format. */
  contentType?: string;
  /** `gzip` or `zstd`, if the file is compressed. */
  contentEncoding?: string;
  /** The types of CSV and TSV columns: `year:int,published:date`. */
  types?: string;
  /** `wait` calls this with the job's state after each poll. */
  progress?: (job: wire.JobInfo) => void;
}

export interface ListOptions {
  /** Entries per request. It does not limit the total. */
  limit?: number;
}

interface Keyed {
  /** Without it, the client sends a random key. */
  idempotencyKey?: string;
}

/** The most values that one filter may list. */
const FILTER_VALUES_MAX = 10_000;
const CONTENT_TYPES: Record<string, string> = {
  ndjson: "application/x-ndjson",
  jsonl: "application/x-ndjson",
  csv: "text/csv",
  tsv: "text/tab-separated-values",
};
const ENCODINGS: Record<string, string> = { gz: "gzip", zst: "zstd" };

export class Client {
  #connection: Connection;

  constructor(url = "http://127.0.0.1:7700", options: ClientOptions = {}) {
    this.#connection = new Connection(url, options);
  }

  get url(): string {
    return this.#connection.url;
  }

  /** The same client with other options, such as a `signal` for some requests. */
  with(options: ClientOptions): Client {
    const client = new Client(this.url);
    client.#connection = this.#connection.with(options);
    return client;
  }

  /** Makes any request, for operations that have no method here. */
  request<T = unknown>(method: string, path: string, options: Pick<Call, "query" | "json" | "headers"> = {}): Promise<T> {
    const keyed = Object.keys(options.headers ?? {}).some((name) => name.toLowerCase() === "idempotency-key");
    const repeatable = keyed || ["GET", "HEAD", "PUT", "DELETE"].includes(method.toUpperCase());
    return this.#connection.json<T>({ ...options, method: method.toUpperCase(), path, repeatable });
  }

  // Collections

  createCollection(name: string, { idempotencyKey, ...options }: wire.CollectionOptions & Keyed = {}): Promise<wire.CollectionInfo> {
    return this.#write(path("collections"), { name, ...options }, idempotencyKey);
  }

  /**
   * Returns the collection of this name or alias, and creates it with these options if there is none. Never changes an existing
   * one. Only creating it requires an admin key.
   */
  async getOrCreateCollection(name: string, options: wire.CollectionOptions = {}): Promise<wire.CollectionInfo> {
    const unless = (code: string) => (error: unknown) => {
      if (!(error instanceof DragomanError && error.code === code)) throw error;
      return undefined;
    };
    return (
      (await this.getCollection(name).catch(unless("collection_not_found"))) ??
      (await this.createCollection(name, options).catch(unless("collection_exists"))) ??
      // Somebody else has created it meanwhile.
      this.getCollection(name)
    );
  }

  getCollection(collection: string): Promise<wire.CollectionInfo> {
    return this.#get(path("collections", collection));
  }

  changeCollection(collection: string, change: wire.CollectionChange): Promise<wire.CollectionInfo> {
    return this.#connection.json({ method: "PATCH", path: path("collections", collection), json: change, repeatable: true });
  }

  listCollections(options: ListOptions = {}): AsyncGenerator<wire.CollectionInfo, void, undefined> {
    return this.#pages(path("collections"), { ...options }, "collections");
  }

  deleteCollection(collection: string): Promise<void> {
    return this.#delete(path("collections", collection));
  }

  // Aliases

  /** Points an alias to a collection. An existing alias switches atomically. */
  putAlias(alias: string, collection: string): Promise<wire.AliasInfo> {
    return this.#connection.json({ method: "PUT", path: path("aliases", alias), json: { collection }, repeatable: true });
  }

  listAliases(options: ListOptions = {}): AsyncGenerator<wire.AliasInfo, void, undefined> {
    return this.#pages(path("aliases"), { ...options }, "aliases");
  }

  /** Deletes an alias, but not its collection. */
  deleteAlias(alias: string): Promise<void> {
    return this.#delete(path("aliases", alias));
  }

  // Documents

  /**
   * Stores one document or any number of them, in as many requests as necessary.
   *
   * The answer has one result per document, in the same order; the result of a failed document gives the reason. If no document can be
   * stored, an error lists what is wrong with each. If a request fails, its error has the `results` so far.
   */
  upsert(collection: string, documents: wire.DocumentInput | Documents, options: UpsertOptions = {}): Promise<wire.UpsertResult> {
    const { wait, batchDocuments = BATCH_DOCUMENTS, batchBytes = BATCH_BYTES } = options;
    const every = Symbol.iterator in documents || Symbol.asyncIterator in documents ? documents : [documents];
    return upsertInBatches(every as Documents, batchDocuments, batchBytes, (batch) =>
      this.#write(path("collections", collection, "documents"), { documents: batch }, undefined, { wait }),
    );
  }

  getDocument(collection: string, id: string): Promise<wire.StoredDocument> {
    return this.#get(path("collections", collection, "documents", id));
  }

  /** Changes metadata, language or title. With `ifMatch`, the document must still have this version. */
  patchDocument(
    collection: string,
    id: string,
    patch: wire.DocumentPatch,
    { ifMatch, wait }: { ifMatch?: number; wait?: wire.WaitFor } = {},
  ): Promise<wire.StoredDocument> {
    const to = path("collections", collection, "documents", id);
    const repeatable = ifMatch === undefined;
    return this.#connection.json({ method: "PATCH", path: to, json: patch, query: { wait }, headers: version(ifMatch), repeatable });
  }

  deleteDocument(collection: string, id: string, { ifMatch }: { ifMatch?: number } = {}): Promise<void> {
    return this.#delete(path("collections", collection, "documents", id), version(ifMatch));
  }

  /** Deletes the documents with these ids, or those that match the filter, and returns how many it deleted. */
  async deleteDocuments(collection: string, which: { ids: string[] } | { filter: wire.FilterNode }): Promise<number> {
    const { ids, filter }: { ids?: string[]; filter?: wire.FilterNode } = which;
    // The type accepts an object with both members, and JavaScript one with neither.
    if ((ids === undefined) === (filter === undefined)) {
      throw new TypeError("give either ids or filter; to delete everything, the filter is { and: [] }");
    }
    const parts: object[] = ids === undefined ? [{ filter }] : [];
    for (let at = 0; at < (ids?.length ?? 0); at += FILTER_VALUES_MAX) {
      parts.push({ ids: ids?.slice(at, at + FILTER_VALUES_MAX) });
    }
    let deleted = 0;
    for (const part of parts) {
      const to = path("collections", collection, "documents", "delete");
      deleted += (await this.#write<{ deleted: number }>(to, part)).deleted;
    }
    return deleted;
  }

  /** Changes the metadata and the expiry of the documents with these ids (at most 10,000), or of those that match the filter. */
  updateDocuments(
    collection: string,
    which: { ids: string[] } | { filter: wire.FilterNode },
    change: wire.DocumentsChange,
  ): Promise<wire.UpdatedDocuments> {
    return this.#write(path("collections", collection, "documents", "update"), { ...which, ...change });
  }

  /** All documents, or those that match the filter and have one of these ids (at most 10,000). */
  async *listDocuments(collection: string, { ids, filter, ...options }: wire.ListDocumentsOptions = {}): AsyncGenerator<wire.StoredDocument> {
    const withId = ids === undefined ? undefined : { field: "id", in: ids };
    const both = filter && withId ? { and: [filter, withId] } : (filter ?? withId);
    for (let cursor: string | undefined; ; ) {
      const to = path("collections", collection, "documents", "scroll");
      const page = await this.#ask<{ documents: wire.StoredDocument[]; next_cursor?: string }>(to, { ...options, filter: both, cursor });
      yield* page.documents;
      if (page.next_cursor === undefined) return;
      cursor = page.next_cursor;
    }
  }

  async countDocuments(collection: string, filter?: wire.FilterNode): Promise<number> {
    return (await this.#ask<{ documents: number }>(path("collections", collection, "documents", "count"), { filter })).documents;
  }

  countFacets(collection: string, facets: wire.FacetInput[], filter?: wire.FilterNode): Promise<wire.FacetsResult> {
    return this.#ask(path("collections", collection, "facets"), { facets, filter });
  }

  // Search

  /** Searches for a text in any language. `vector` searches for a vector instead, and `like` for documents like another. */
  search(collection: string, query: string | undefined, options: wire.SearchOptions = {}): Promise<wire.SearchResult> {
    return this.#ask(path("collections", collection, "search"), { query, ...options });
  }

  searchBatch(collection: string, searches: wire.SearchRequest[]): Promise<wire.SearchBatchResult> {
    return this.#ask(path("collections", collection, "search", "batch"), { searches });
  }

  /** Documents like the positive examples and unlike the negative ones. */
  recommend(
    collection: string,
    positive: wire.ExampleInputs,
    options: wire.HitOptions & { negative?: wire.ExampleInputs } = {},
  ): Promise<wire.SearchResult> {
    return this.#ask(path("collections", collection, "recommend"), { positive, ...options });
  }

  // Import, export, jobs, snapshots

  /** Imports an NDJSON, CSV or TSV file, compressed or not. In Node, use `openAsBlob` of `node:fs` and give `contentType`. */
  async importFile(collection: string, file: BodyInit, options: ImportOptions = {}): Promise<Job> {
    const [last = "", before = ""] = file instanceof File ? file.name.split(".").reverse() : [];
    const encoding = options.contentEncoding ?? ENCODINGS[last];
    const type = options.contentType ?? CONTENT_TYPES[last in ENCODINGS ? before : last];
    if (type === undefined) throw new TypeError("neither .ndjson, .jsonl, .csv nor .tsv; give contentType");
    const headers = { "content-type": type, ...(encoding === undefined ? {} : { "content-encoding": encoding }) };
    const call = { method: "POST", path: path("collections", collection, "import"), query: { types: options.types }, body: file, headers };
    return new Job(this.#connection, await this.#connection.json(call), options.progress);
  }

  /** All documents in the format of an import, ordered by id. */
  exportDocuments(collection: string, query: { include?: "vector" } = {}): AsyncGenerator<wire.DocumentInput, void, undefined> {
    return this.#connection.lines({ method: "GET", path: path("collections", collection, "export"), query, repeatable: true });
  }

  async getJob(job: string): Promise<Job> {
    return new Job(this.#connection, await this.#get(path("jobs", job)));
  }

  /** Jobs, newest first. */
  listJobs(options: ListOptions & { type?: string; status?: wire.JobStatus; collection?: string } = {}): AsyncGenerator<wire.JobInfo, void, undefined> {
    return this.#pages(path("jobs"), { ...options }, "jobs");
  }

  /** Makes a snapshot of these collections, or of the whole server. The job's `details` have the snapshot's id. */
  createSnapshot(collections?: string[]): Promise<Job> {
    return this.#job(path("snapshots"), { collections });
  }

  listSnapshots(options: ListOptions = {}): AsyncGenerator<wire.SnapshotInfo, void, undefined> {
    return this.#pages(path("snapshots"), { ...options }, "snapshots");
  }

  /** The archive of a snapshot, as a stream. */
  downloadSnapshot(snapshot: string): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: path("snapshots", snapshot, "archive"), repeatable: true });
  }

  /**
   * Uploads a downloaded archive, under its snapshot's id or another unused UUID. Then `restoreSnapshot` restores it. In Node, use
   * `openAsBlob` of `node:fs`.
   */
  uploadSnapshot(snapshot: string, archive: BodyInit): Promise<wire.SnapshotInfo> {
    const headers = { "content-type": "application/zstd" };
    return this.#connection.json({ method: "PUT", path: path("snapshots", snapshot, "archive"), body: archive, headers });
  }

  restoreSnapshot(snapshot: string, options: wire.RestoreOptions = {}): Promise<Job> {
    return this.#job(path("snapshots", snapshot, "restore"), options);
  }

  deleteSnapshot(snapshot: string): Promise<void> {
    return this.#delete(path("snapshots", snapshot));
  }

  // Classifiers

  /** Creates a classifier and starts the `job` that trains it. */
  createClassifier(
    name: string,
    kind: wire.ClassifierKind,
    { idempotencyKey, ...options }: wire.ClassifierOptions & Keyed = {},
  ): Promise<wire.ClassifierInfo> {
    return this.#write(path("classifiers"), { name, kind, ...options }, idempotencyKey);
  }

  getClassifier(classifier: string): Promise<wire.ClassifierInfo> {
    return this.#get(path("classifiers", classifier));
  }

  listClassifiers(options: ListOptions = {}): AsyncGenerator<wire.ClassifierInfo, void, undefined> {
    return this.#pages(path("classifiers"), { ...options }, "classifiers");
  }

  /** Trains a classifier again; the result replaces it. */
  trainClassifier(classifier: string): Promise<Job> {
    return this.#job(path("classifiers", classifier, "train"));
  }

  /** Predicts the labels of any number of texts, or of stored documents, in the same order. */
  async predict(classifier: string, what: string[] | wire.DocumentsById, options: wire.PredictOptions = {}): Promise<wire.PredictResult> {
    const [values, places] = Array.isArray(what) ? [what, "/texts/"] : [what.ids, "/documents/ids/"];
    const answers = await sendAll(values, places, (part) => {
      const asked = Array.isArray(what) ? { texts: part } : { documents: { ...what, ids: part } };
      return this.#ask<wire.PredictResult>(path("classifiers", classifier, "predict"), { ...asked, ...options });
    });
    return {
      predictions: answers.flatMap((answer) => answer.predictions),
      abstained: answers.reduce((sum, answer) => sum + answer.abstained, 0),
      took_ms: answers.reduce((sum, answer) => sum + answer.took_ms, 0),
    };
  }

  evaluateClassifier(
    classifier: string,
    by: { examples?: wire.LabeledText[]; documents?: wire.LabeledDocuments; threshold?: number },
  ): Promise<Record<string, unknown>> {
    return this.#ask(path("classifiers", classifier, "evaluate"), by);
  }

  /** Writes labels into the metadata of a collection's documents. */
  applyClassifier(classifier: string, collection: string, field: string, options: wire.ApplyOptions = {}): Promise<Job> {
    return this.#job(path("classifiers", classifier, "apply"), { collection, field, ...options });
  }

  deleteClassifier(classifier: string): Promise<void> {
    return this.#delete(path("classifiers", classifier));
  }

  // Embeddings, comparison, mining, models

  /** The embeddings of any number of texts in the same order, with unit length. `inputType` says whether they are documents or queries. */
  async embed(texts: string[], { inputType }: { inputType?: "document" | "query" } = {}): Promise<number[][]> {
    const answers = await sendAll(texts, "/input/", (input) =>
      this.#ask<{ data: { embedding: number[] }[] }>(path("embeddings"), { input, input_type: inputType }),
    );
    return answers.flatMap(({ data }) => data.map((item) => item.embedding));
  }

  /** The languages of any number of texts in the same order; empty where it is no language that the model knows. */
  async detectLanguages(texts: string[]): Promise<wire.LanguageDetection[]> {
    const answers = await sendAll(texts, "/texts/", (part) =>
      this.#ask<{ detections: wire.LanguageDetection[] }>(path("detect"), { texts: part }),
    );
    return answers.flatMap(({ detections }) => detections);
  }

  /** The similarity of the two texts of any number of pairs, in the same order: the cosine of their embeddings. */
  async comparePairs(pairs: wire.TextPair[]): Promise<wire.PairSimilarity[]> {
    const answers = await sendAll(pairs, "/pairs/", (part) =>
      this.#ask<{ results: wire.PairSimilarity[] }>(path("similarity"), { pairs: part }),
    );
    return answers.flatMap(({ results }) => results);
  }

  /** The similarity of each text of one list to each of another list, or of the same list. */
  compareSets(first: string[], second?: string[]): Promise<wire.SimilarityMatrix> {
    return this.#ask(path("similarity", "matrix"), { first, second });
  }

  /** Starts a job that looks for translation pairs between two sides. */
  async minePairs(
    first: wire.MiningSide,
    second: wire.MiningSide,
    { idempotencyKey, ...options }: wire.MiningOptions & Keyed = {},
  ): Promise<Job> {
    return new Job(this.#connection, await this.#write(path("mine"), { first, second, ...options }, idempotencyKey));
  }

  /** Starts a job that looks for documents of a collection that say the same. */
  async findDuplicates(collection: string, { idempotencyKey, ...options }: wire.DuplicatesOptions & Keyed = {}): Promise<Job> {
    const to = path("collections", collection, "duplicates");
    return new Job(this.#connection, await this.#write(to, options, idempotencyKey));
  }

  async listModels(): Promise<wire.ModelInfo[]> {
    return (await this.#get<{ data: wire.ModelInfo[] }>(path("models"))).data;
  }

  // How the methods send their requests

  #get<T>(to: string): Promise<T> {
    return this.#connection.json({ method: "GET", path: to, repeatable: true });
  }

  /** A query that is sent as POST because of its size. It changes nothing. */
  #ask<T>(to: string, json: object): Promise<T> {
    return this.#connection.json({ method: "POST", path: to, json, repeatable: true });
  }

  /** A POST with an idempotency key, so that it can be retried. */
  #write<T>(to: string, json: object, key: string = newKey(), query: Call["query"] = {}): Promise<T> {
    return this.#connection.json({ method: "POST", path: to, json, query, headers: { "idempotency-key": key }, repeatable: true });
  }

  #delete(to: string, headers: Record<string, string> = {}): Promise<void> {
    return this.#connection.json({ method: "DELETE", path: to, headers, repeatable: true });
  }

  async #job(to: string, json?: object): Promise<Job> {
    return new Job(this.#connection, await this.#connection.json({ method: "POST", path: to, json }));
  }

  async *#pages<T>(to: string, query: NonNullable<Call["query"]>, member: string): AsyncGenerator<T, void, undefined> {
    for (let cursor: string | undefined; ; ) {
      type Page = Record<string, T[]> & { next_cursor?: string };
      const page: Page = await this.#connection.json<Page>({ method: "GET", path: to, query: { ...query, cursor }, repeatable: true });
      yield* page[member] ?? [];
      if (page.next_cursor === undefined) return;
      cursor = page.next_cursor;
    }
  }
}

/**
 * The path of a route, with each part escaped. Refuses names that would lead to another route: `fetch` removes `.` and `..`, escaped
 * or not.
 */
function path(...parts: string[]): string {
  for (const part of parts) {
    if (["", ".", ".."].includes(part)) throw new TypeError(`${JSON.stringify(part)} cannot be a name or an id`);
  }
  return `/v1/${parts.map(encodeURIComponent).join("/")}`;
}

function version(ifMatch: number | undefined): Record<string, string> {
  return ifMatch === undefined ? {} : { "if-match": `"${ifMatch}"` };
}

/** 128 random bits. Pages without TLS have no `crypto.randomUUID`. */
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
