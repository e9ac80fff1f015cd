// What goes wrong, as one kind of error: the server's problems as it words them, and the few that the client has by itself.

import type { DocumentResult, JobInfo } from "./wire.js";

/** One wrong place in a request: `pointer` into the body, or `parameter` of path, query or headers. `field` is whichever there is. */
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
 * A request that failed. `code` is what programs switch on.
 *
 * The server's codes are a closed list (`/docs/errors` of a server explains them); `status` is the answer's. Three codes are the
 * client's own, without a status: `unreachable`, `timeout`, and `bad_answer` for what no Dragoman says. A job that failed has its own
 * code, and `job` is set.
 */
export class DragomanError extends Error {
  override readonly name = "DragomanError";
  readonly status: number | undefined;
  readonly violations: Violation[];
  readonly requestId: string | undefined;
  readonly retryAfterS: number | undefined;
  readonly job: JobInfo | undefined;
  /** Of an upsert of several batches: what became of the documents before those that this is about. */
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

/** Reads a problem (RFC 9457), or an error in OpenAI's shape, which `/v1/embeddings` answers. */
export function fromAnswer(status: number, headers: Headers, body: string): DragomanError {
  const requestId = headers.get("x-request-id");
  const wait = headers.get("retry-after") ?? "";
  const parts: ErrorParts = { status, ...(requestId === null ? {} : { requestId }), ...(/^\d+$/.test(wait) ? { retryAfterS: Number(wait) } : {}) };
  const problem = readProblem(body);
  if (problem === undefined) return new DragomanError("bad_answer", `status ${status}, and no problem that can be read`, parts);
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
