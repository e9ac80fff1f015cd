// Sends any number of documents, texts, ids or pairs in as many requests as necessary, and returns the results as if it were one request.

import { DragomanError, type Violation } from "./errors.js";
import type { DocumentInput, DocumentResult, UpsertResult } from "./wire.js";

/** A batch stays well below the server's default limits (`batch_documents_max`, `embedding_inputs_max`, `body_bytes_max`). */
export const BATCH_DOCUMENTS = 1000;
const BATCH_TEXTS = 1000;
export const BATCH_BYTES = 16 * 1024 * 1024;

export type Documents = Iterable<DocumentInput> | AsyncIterable<DocumentInput>;
type Send = (documents: DocumentInput[]) => Promise<UpsertResult>;

export async function upsertInBatches(documents: Documents, countMax: number, bytesMax: number, send: Send): Promise<UpsertResult> {
  const results: DocumentResult[] = [];
  const refusals: DragomanError[] = [];
  try {
    for await (const batch of batches(documents, countMax, bytesMax)) {
      await upsertBatch(batch, results, refusals, send);
    }
  } catch (error) {
    if (error instanceof DragomanError) error.results = results;
    throw error;
  }
  const failed = results.filter((result) => result.status === "failed").length;
  const [first, ...others] = refusals;
  if (first !== undefined && failed === results.length) {
    for (const violation of others.flatMap(({ violations }) => violations)) first.violations.push(violation);
    throw first;
  }
  return { results, failed };
}

/** Sends texts, ids or pairs, and returns the answers. An error's positions in `places` count all of them. */
export async function sendAll<V, T>(values: V[], places: string, send: (values: V[]) => Promise<T>): Promise<T[]> {
  const answers: T[] = [];
  let done = 0;
  for await (const batch of batches(values, BATCH_TEXTS, BATCH_BYTES)) {
    answers.push(await send(batch).catch((error) => Promise.reject(countedFrom(error, places, done))));
    done += batch.length;
  }
  return answers;
}

/** The error with its positions in `places` counted as if there were only one request. */
function countedFrom(error: unknown, places: string, start: number): unknown {
  if (!(error instanceof DragomanError)) return error;
  const moved = (text: string) =>
    text.startsWith(places) ? text.replace(/\d+/, (position) => String(Number(position) + start)) : text;
  const detail = moved(error.detail);
  Object.assign(error, { detail, message: error.message.replace(error.detail, () => detail) });
  for (const place of error.violations) {
    place.detail = moved(place.detail);
    if (place.pointer) place.pointer = place.field = moved(place.pointer);
  }
  return error;
}

async function* batches<T>(values: Iterable<T> | AsyncIterable<T>, countMax: number, bytesMax: number): AsyncGenerator<T[]> {
  const encoder = new TextEncoder();
  let batch: T[] = [];
  let size = 0;
  for await (const value of values) {
    const bytes = encoder.encode(JSON.stringify(value)).length;
    if (batch.length > 0 && (batch.length === countMax || size + bytes > bytesMax)) {
      yield batch;
      [batch, size] = [[], 0];
    }
    batch.push(value);
    size += bytes;
  }
  if (batch.length > 0) yield batch;
}

/** Sends a batch, or its halves if it is too large for the server, and adds its results to those of the documents before. */
async function upsertBatch(batch: DocumentInput[], results: DocumentResult[], refusals: DragomanError[], send: Send): Promise<void> {
  const start = results.length;
  try {
    for (const result of (await send(batch)).results) {
      if (result.error !== undefined) result.error.pointer = moved(result.error.pointer, start);
      results.push(result);
    }
  } catch (error) {
    if (!(error instanceof DragomanError)) throw error;
    if (batch.length > 1 && (error.status === 413 || error.violations.some(({ pointer }) => pointer === "/documents"))) {
      const half = batch.length >> 1;
      await upsertBatch(batch.slice(0, half), results, refusals, send);
      await upsertBatch(batch.slice(half), results, refusals, send);
      return;
    }
    for (const result of refusedResults(error, batch, start)) results.push(result);
    refusals.push(error);
  }
}

/** The results of a batch of which no document was stored. Throws the error if it is not about the documents. */
function refusedResults(error: DragomanError, batch: DocumentInput[], start: number): DocumentResult[] {
  const reasons = new Map<number, Violation>();
  for (const violation of error.violations) {
    const place = placeOf(violation.pointer ?? "");
    if (!reasons.has(place)) reasons.set(place, violation);
    violation.pointer = violation.field = moved(violation.pointer ?? "", start);
  }
  return batch.map((document, place): DocumentResult => {
    const reason = reasons.get(place);
    if (reason === undefined || reasons.has(-1)) throw error;
    const id = typeof document.id === "string" ? { id: document.id } : {};
    return { ...id, status: "failed", error: { code: error.code, pointer: reason.pointer ?? "", detail: reason.detail } };
  });
}

/** The index of the document that a pointer into a batch names, or -1. */
function placeOf(pointer: string): number {
  return Number(/^\/documents\/(\d+)(?:\/|$)/.exec(pointer)?.[1] ?? -1);
}

function moved(pointer: string, start: number): string {
  const place = placeOf(pointer);
  return place < 0 ? pointer : pointer.replace(`/documents/${place}`, `/documents/${place + start}`);
}
