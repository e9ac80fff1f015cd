// Turns a call into a request and its answer, with time limits and retries. It knows nothing about the operations.

import { DragomanError, fromAnswer } from "./errors.js";

export interface ClientOptions {
  /** Sent as a bearer token. It appears in no URL, no error and no string form of a client. */
  apiKey?: string;
  /** The time limit from a request to the end of its answer, or to the start of a stream. 0 means no limit. */
  timeoutMs?: number;
  /** How often to retry a repeatable request when the connection fails or the server is busy. */
  retries?: number;
  /** Aborts requests, streams, and waiting for jobs, with its reason. */
  signal?: AbortSignal;
  /** Replaces the platform's `fetch`. */
  fetch?: typeof fetch;
}

export interface Call {
  method: string;
  path: string;
  query?: Record<string, string | number | boolean | undefined>;
  json?: unknown;
  /** Sent unchanged, instead of JSON. */
  body?: BodyInit;
  headers?: Record<string, string>;
  /** Whether sending it twice has the same effect as sending it once. */
  repeatable?: boolean;
}

/** The longest wait before a retry, whatever Retry-After says. */
const RETRY_WAIT_MAX_MS = 30_000;

export class Connection {
  readonly url: string;
  readonly #options: ClientOptions;

  constructor(url: string, options: ClientOptions) {
    const parsed = URL.canParse(url) ? new URL(url) : undefined;
    if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.username || parsed.password || parsed.search || parsed.hash) {
      throw new TypeError("url must be http(s)://HOST[:PORT][/PREFIX], without user, query or fragment");
    }
    if (options.apiKey !== undefined && !/^[\x21-\x7e]+$/.test(options.apiKey)) {
      throw new TypeError("apiKey must be printable ASCII characters");
    }
    this.url = parsed.href.replace(/\/+$/, "");
    this.#options = options;
  }

  /** The same server and key, with other options. */
  with(options: ClientOptions): Connection {
    return new Connection(this.url, { ...this.#options, ...options });
  }

  /** The answer, read as JSON; undefined when it is empty. */
  async json<T>(call: Call): Promise<T> {
    const text = await this.text(call);
    try {
      return (text === "" ? undefined : JSON.parse(text)) as T;
    } catch (cause) {
      throw new DragomanError("bad_answer", "the answer is not JSON", { cause });
    }
  }

  async text(call: Call): Promise<string> {
    return this.#attempt(call, (response) => response.text());
  }

  /** The answer as a stream. */
  async stream(call: Call): Promise<ReadableStream<Uint8Array>> {
    const { signal } = this.#options;
    const body = await this.#attempt(call, async (response) => response.body ?? new Blob([]).stream());
    return signal === undefined ? body : body.pipeThrough(new TransformStream(), { signal });
  }

  /** The values of a stream of lines of JSON. */
  async *lines<T>(call: Call): AsyncGenerator<T, void, undefined> {
    const reader = (await this.stream(call)).getReader();
    const decoder = new TextDecoder();
    let rest = "";
    try {
      for (;;) {
        const { done, value } = await reader.read().catch((cause) => Promise.reject(this.#fault(cause)));
        const lines = (rest + decoder.decode(value, { stream: !done })).split("\n");
        rest = done ? "" : (lines.pop() ?? "");
        for (const line of lines) if (line !== "") yield JSON.parse(line) as T;
        if (done) return;
      }
    } finally {
      await reader.cancel().catch(() => {});
    }
  }

  async pause(ms: number): Promise<void> {
    const { signal } = this.#options;
    await new Promise<void>((resolve, reject) => {
      signal?.throwIfAborted();
      const timer = setTimeout(done, ms);
      function done() {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        if (signal?.aborted) reject(signal.reason);
        else resolve();
      }
      signal?.addEventListener("abort", done);
    });
  }

  async #attempt<T>(call: Call, read: (response: Response) => Promise<T>): Promise<T> {
    let waitMs = 200;
    let lost = false;
    for (let left = this.#options.retries ?? 3; ; left -= 1, waitMs *= 2) {
      try {
        return await this.#once(call, read);
      } catch (error) {
        if (!(error instanceof DragomanError)) throw error;
        // An earlier attempt, whose answer was lost, has probably deleted it.
        if (lost && call.method === "DELETE" && error.status === 404) return read(new Response(""));
        const busy = (error.status === 429 || error.status === 503) && error.retryAfterS !== undefined;
        if (left <= 0 || !call.repeatable || !(busy || error.code === "unreachable")) throw error;
        lost ||= error.code === "unreachable";
        // Many clients may have to wait for the same time. If they all came back at once, most would be refused again.
        const wanted = (error.retryAfterS ?? 0) * 1000 + waitMs * (0.5 + Math.random());
        await this.pause(Math.min(wanted, RETRY_WAIT_MAX_MS));
      }
    }
  }

  async #once<T>(call: Call, read: (response: Response) => Promise<T>): Promise<T> {
    const { apiKey, timeoutMs = 60_000, signal } = this.#options;
    if (!call.path.startsWith("/")) throw new TypeError(`the path must begin with a slash, got ${call.path}`);
    const query = Object.entries(call.query ?? {}).filter(([, value]) => value !== undefined);
    const search = new URLSearchParams(query.map(([name, value]) => [name, String(value)])).toString();
    const headers = new Headers(call.headers);
    if (apiKey !== undefined) headers.set("authorization", `Bearer ${apiKey}`);
    if (call.json !== undefined) headers.set("content-type", "application/json");
    const body = call.json === undefined ? call.body : JSON.stringify(call.json);
    const ends = new AbortController();
    const end = () => ends.abort(signal?.reason);
    signal?.throwIfAborted();
    signal?.addEventListener("abort", end);
    // Uploading a file may take any time.
    const limitMs = call.body === undefined ? timeoutMs : 0;
    const late = new DragomanError("timeout", `no answer within ${limitMs} ms`);
    const timer = limitMs > 0 ? setTimeout(() => ends.abort(late), limitMs) : undefined;
    const request = { method: call.method, headers, body: body ?? null, signal: ends.signal, redirect: "error", duplex: "half" } as RequestInit;
    try {
      const response = await (this.#options.fetch ?? fetch)(this.url + call.path + (search && `?${search}`), request);
      if (response.status >= 300) throw fromAnswer(response.status, response.headers, await response.text());
      return await read(response);
    } catch (cause) {
      throw this.#fault(ends.signal.aborted ? ends.signal.reason : cause);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
    }
  }

  /** The error for a failed connection. If the caller aborted the request, the error is the caller's own reason. */
  #fault(cause: unknown): unknown {
    if (cause instanceof DragomanError || this.#options.signal?.aborted) return cause;
    const inner = cause instanceof Error ? cause.cause : undefined;
    const reason = (inner instanceof Error ? inner.message : String(cause)) || "the connection failed";
    // A browser does not tell a page why it may not read an answer.
    const page = globalThis.location?.origin;
    const hint = page === undefined || page === new URL(this.url).origin ? "" : `; if the server runs, its cors_origins must list ${page}`;
    return new DragomanError("unreachable", `${this.url}: ${reason}${hint}`, { cause });
  }
}
