// Failures as one error class: the server's own errors in its words, and the few that the client adds.

import type { DocumentResult, JobInfo } from "./wire.js";

/** One invalid place in a request: a `pointer` into the body, or a `parameter` of path, query or headers. `field` is whichever is set. */
export interface Violation {
  detail: string;
  pointer?: string;
  parameter?: string;
  field?: string;
}

export interface ErrorParts {
  status?: number;
  violations?: Violation[];
  requestId?: string;
  retryAfterS?: number;
  job?: JobInfo;
  cause?: unknown;
}

/**
 * A request failed. Programs should check `code`.
 *
 * The server's codes are a closed list, which it explains at `/docs/errors`; `status` is the HTTP status. The client adds three codes
 * without a status: `unreachable`, `timeout`, and `bad_answer` when the answer cannot be from Dragoman. A failed job has its own code,
 * and `job` is set.
 */
export class DragomanError extends Error {
  override readonly name = "DragomanError";
  readonly status: number | undefined;
  readonly violations: Violation[];
  readonly requestId: string | undefined;
  readonly retryAfterS: number | undefined;
  readonly job: JobInfo | undefined;
  /** When an upsert of several batches fails: the results of the documents before the failed batch. */
  results: DocumentResult[] = [];

  constructor(
    readonly code: string,
    readonly detail: string,
    parts: ErrorParts = {},
  ) {
    const where = parts.status === undefined ? "" : ` (${parts.status})`;
    const request = parts.requestId === undefined ? "" : ` [request ${parts.requestId}]`;
    super(`${code}${where}: ${detail}${request}`, { cause: parts.cause });
    this.status = parts.status;
    this.violations = parts.violations ?? [];
    this.requestId = parts.requestId;
    this.retryAfterS = parts.retryAfterS;
    this.job = parts.job;
  }
}

interface Problem {
  code: string;
  detail: string;
  errors?: Violation[];
}

/** Reads a problem (RFC 9457), or an error in OpenAI's format, which `/v1/embeddings` uses. */
export function fromAnswer(status: number, headers: Headers, body: string): DragomanError {
  const requestId = headers.get("x-request-id");
  const wait = headers.get("retry-after") ?? "";
  const parts: ErrorParts = { status, ...(requestId === null ? {} : { requestId }), ...(/^\d+$/.test(wait) ? { retryAfterS: Number(wait) } : {}) };
  const problem = readProblem(body);
  if (problem === undefined) return new DragomanError("bad_answer", "the answer is from a proxy or another server, not from Dragoman", parts);
  const violations = (problem.errors ?? []).map((place) => {
    const field = place.pointer ?? place.parameter;
    return field === undefined ? place : { ...place, field };
  });
  return new DragomanError(problem.code, problem.detail, { ...parts, violations });
}

function readProblem(body: string): Problem | undefined {
  try {
    const said = JSON.parse(body);
    if (typeof said.error === "object") {
      const { code, message, param } = said.error;
      return { code, detail: message, errors: param ? [{ parameter: param, detail: message }] : [] };
    }
    return typeof said.code === "string" ? said : undefined;
  } catch {
    return undefined;
  }
}
