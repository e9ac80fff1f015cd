// Stores any number of documents in as many requests as necessary, and returns one result per document as if it were one request.

import { DragomanError, type Violation } from "./errors.js";
import type { DocumentInput, DocumentResult, UpsertResult } from "./wire.js";

/** A batch stays well below the server's default limits (`batch_documents_max`, `body_bytes_max`). */
export const BATCH_DOCUMENTS = 1000;
export const BATCH_BYTES = 16 * 1024 * 1024;

export type Documents = Iterable<DocumentInput> | AsyncIterable<DocumentInput>;
type Send = (documents: DocumentInput[]) => Promise<UpsertResult>;

export async function upsertInBatches(documents: Documents, countMax: number, bytesMax: number, send: Send): Promise<UpsertResult> {
  const results: DocumentResult[] = [];
  const refusals: DragomanError[] = [];
  try {
    for await (const batch of batches(documents, countMax, bytesMax)) {
      results.push(...(await upsertBatch(batch, results.length, refusals, send)));
    }
  } catch (error) {
    if (error instanceof DragomanError) error.results = results;
    throw error;
  }
  const failed = results.filter((result) => result.status === "failed").length;
  const [first, ...others] = refusals;
  if (first !== undefined && failed === results.length) {
    first.violations.push(...others.flatMap((refusal) => refusal.violations));
    throw first;
  }
  return { results, failed };
}

async function* batches(documents: Documents, countMax: number, bytesMax: number): AsyncGenerator<DocumentInput[]> {
  const encoder = new TextEncoder();
  let batch: DocumentInput[] = [];
  let size = 0;
  for await (const document of documents) {
    const bytes = encoder.encode(JSON.stringify(document)).length;
    if (batch.length > 0 && (batch.length === countMax || size + bytes > bytesMax)) {
      yield batch;
      [batch, size] = [[], 0];
    }
    batch.push(document);
    size += bytes;
  }
  if (batch.length > 0) yield batch;
}

/** Sends a batch, or its halves if it is too large for the server. `start` is the number of documents sent before. */
async function upsertBatch(batch: DocumentInput[], start: number, refusals: DragomanError[], send: Send): Promise<DocumentResult[]> {
  try {
    const { results } = await send(batch);
    for (const { error } of results) if (error !== undefined) error.pointer = moved(error.pointer, start);
    return results;
  } catch (error) {
    if (!(error instanceof DragomanError)) throw error;
    if (batch.length > 1 && (error.status === 413 || error.violations.some(({ pointer }) => pointer === "/documents"))) {
      const half = batch.length >> 1;
      const first = await upsertBatch(batch.slice(0, half), start, refusals, send);
      return [...first, ...(await upsertBatch(batch.slice(half), start + half, refusals, send))];
    }
    return refusedResults(error, batch, start, refusals);
  }
}

/** The results of a batch of which no document was stored. Throws the error if it is not about the documents. */
function refusedResults(error: DragomanError, batch: DocumentInput[], start: number, refusals: DragomanError[]): DocumentResult[] {
  const reasons = new Map<number, Violation>();
  for (const violation of error.violations) {
    const place = placeOf(violation.pointer ?? "");
    if (!reasons.has(place)) reasons.set(place, violation);
    violation.pointer = violation.field = moved(violation.pointer ?? "", start);
  }
  const results = batch.map((document, place): DocumentResult => {
    const reason = reasons.get(place);
    if (reason === undefined || reasons.has(-1)) throw error;
    const id = typeof document.id === "string" ? { id: document.id } : {};
    return { ...id, status: "failed", error: { code: error.code, pointer: reason.pointer ?? "", detail: reason.detail } };
  });
  refusals.push(error);
  return results;
}

/** The index of the document that a pointer into a batch names, or -1. */
function placeOf(pointer: string): number {
  return Number(/^\/documents\/(\d+)(?:\/|$)/.exec(pointer)?.[1] ?? -1);
}

function moved(pointer: string, start: number): string {
  const place = placeOf(pointer);
  return place < 0 ? pointer : pointer.replace(`/documents/${place}`, `/documents/${place + start}`);
}
