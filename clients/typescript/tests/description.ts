// The types of the package match openapi/openapi.json: this file compiles only if their types are assignable to each other.
// openapi-typescript generates `schema.ts` first.

import type * as wire from "dragoman-client";
import type { components } from "./schema.js";

type Schemas = components["schemas"];
type Free = Record<string, unknown>;

/** Compiles if A is assignable to B. */
type Fits<A extends B, B> = A;
/** Members that only A or only B has. */
type Apart<A, B> = Exclude<keyof A, keyof B> | Exclude<keyof B, keyof A>;
/** Compiles if there are no such members. */
type None<Members extends [never]> = Members;

// Requests: the server accepts everything that the package can send.
export type Sent = [
  Fits<wire.CollectionOptions & { name: string }, Schemas["CreateCollectionRequest"]>,
  Fits<wire.CollectionChange, Schemas["ChangeCollectionRequest"]>,
  Fits<wire.DocumentInput, Schemas["DocumentInput"]>,
  Fits<wire.DocumentPatch, Schemas["PatchDocumentRequest"]>,
  Fits<wire.DocumentsChange, Schemas["UpdateDocumentsRequest"]>,
  Fits<wire.SearchRequest, Schemas["SearchDocumentsRequest"]>,
  Fits<wire.HitOptions & { positive: wire.ExampleInputs }, Schemas["RecommendDocumentsRequest"]>,
  Fits<Omit<wire.ListDocumentsOptions, "ids">, Schemas["ScrollDocumentsRequest"]>,
  Fits<wire.RestoreOptions, Schemas["RestoreSnapshotRequest"]>,
  Fits<Omit<wire.ClassifierOptions, "knn" | "mlp"> & { name: string; kind: wire.ClassifierKind }, Schemas["CreateClassifierRequest"]>,
  Fits<wire.PredictOptions & { documents: wire.DocumentsById }, Schemas["PredictRequest"]>,
  Fits<wire.ApplyOptions & { collection: string; field: string }, Schemas["ApplyClassifierRequest"]>,
  Fits<wire.MiningOptions & { first: wire.MiningSide; second: wire.MiningSide }, Schemas["MinePairsRequest"]>,
  Fits<wire.DuplicatesOptions, Schemas["FindDuplicatesRequest"]>,
];

// Answers: the package has types for everything that the server returns.
export type Answered = [
  Fits<Omit<Schemas["CollectionInfo"], "damage">, Omit<wire.CollectionInfo, "damage">>,
  Fits<Schemas["AliasInfo"], wire.AliasInfo>,
  Fits<Schemas["StoredDocument"], wire.StoredDocument>,
  Fits<Schemas["UpsertResult"], wire.UpsertResult>,
  Fits<Omit<Schemas["SearchHit"], "explanation">, Omit<wire.SearchHit, "explanation">>,
  Fits<Schemas["PredictResult"], wire.PredictResult>,
  Fits<Omit<Schemas["JobInfo"], "details">, Omit<wire.JobInfo, "details">>,
  Fits<Schemas["LanguageDetections"]["detections"], wire.LanguageDetection[]>,
  Fits<Schemas["PairSimilarities"]["results"], wire.PairSimilarity[]>,
  Fits<Schemas["SimilarityMatrix"], wire.SimilarityMatrix>,
];

// Both sides have the same members.
export type Complete = [
  None<[Apart<wire.SearchRequest, Schemas["SearchDocumentsRequest"]>]>,
  None<[Apart<wire.HitOptions & { positive: Free; negative: Free }, Schemas["RecommendDocumentsRequest"]>]>,
  None<[Apart<wire.CollectionOptions & { name: string }, Schemas["CreateCollectionRequest"]>]>,
  None<[Apart<wire.CollectionInfo, Schemas["CollectionInfo"]>]>,
  None<[Apart<wire.DocumentInput, Schemas["DocumentInput"]>]>,
  None<[Apart<wire.StoredDocument, Schemas["StoredDocument"]>]>,
  None<[Apart<wire.SearchHit, Schemas["SearchHit"]>]>,
  None<[Apart<wire.SearchResult, Schemas["SearchResult"]>]>,
  None<[Apart<wire.FilterNode, Schemas["FilterNode"]>]>,
  None<[Apart<wire.JobInfo, Schemas["JobInfo"]>]>,
  None<[Apart<wire.SnapshotInfo, Schemas["SnapshotInfo"]>]>,
  None<[Apart<wire.ClassifierInfo, Schemas["ClassifierInfo"]>]>,
  None<[Apart<wire.ClassifierOptions & { name: string; kind: string }, Schemas["CreateClassifierRequest"]>]>,
  None<[Apart<wire.MiningOptions & { first: Free; second: Free }, Schemas["MinePairsRequest"]>]>,
  None<[Apart<wire.DuplicatesOptions, Schemas["FindDuplicatesRequest"]>]>,
  None<[Apart<wire.ModelInfo, Schemas["LoadedModel"]>]>,
];
