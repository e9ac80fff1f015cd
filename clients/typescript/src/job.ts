// Work that continues after the answer: its state, waiting for it, and its results.

import type { Connection } from "./connection.js";
import { DragomanError } from "./errors.js";
import type { DocumentResult, DuplicateCluster, JobInfo, LineResult, MinedPair } from "./wire.js";

export interface WaitOptions {
  timeoutMs?: number;
  /** Called with the job's state after each poll. */
  progress?: (job: JobInfo) => void;
}

export class Job {
  readonly #connection: Connection;
  readonly #progress: ((job: JobInfo) => void) | undefined;

  constructor(
    connection: Connection,
    /** The job's last known state. */
    public info: JobInfo,
    progress?: (job: JobInfo) => void,
  ) {
    this.#connection = connection;
    this.#progress = progress;
  }

  get id(): string {
    return this.info.id;
  }

  /**
   * Waits until the job has succeeded. Polls quickly at first, then every two seconds.
   *
   * A failed or canceled job throws its own code. A job that takes longer than `timeoutMs` throws `timeout`, but continues.
   */
  async wait({ timeoutMs = Infinity, progress = this.#progress }: WaitOptions = {}): Promise<this> {
    const end = performance.now() + timeoutMs;
    for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 1.5, 2000)) {
      const { status, error } = (await this.refresh()).info;
      progress?.(this.info);
      if (status === "succeeded") return this;
      if (status === "failed" || status === "canceled") {
        throw new DragomanError(error?.code ?? status, error?.detail ?? `job ${this.id} was ${status}`, { job: this.info });
      }
      if (performance.now() + pauseMs > end) {
        throw new DragomanError("timeout", `job ${this.id} is ${status} after ${timeoutMs} ms`, { job: this.info });
      }
      await this.#connection.pause(pauseMs);
    }
  }

  async refresh(): Promise<this> {
    this.info = await this.#connection.json({ method: "GET", path: this.#path(), repeatable: true });
    return this;
  }

  async cancel(): Promise<this> {
    this.info = await this.#connection.json({ method: "POST", path: this.#path("/cancel"), repeatable: true });
    return this;
  }

  /** The result of each line of an import. */
  results(status?: DocumentResult["status"]): AsyncGenerator<LineResult, void, undefined> {
    return this.#connection.lines({ method: "GET", path: this.#path("/results"), query: { status }, repeatable: true });
  }

  /** The translation pairs that the job found, best first. */
  pairs(): AsyncGenerator<MinedPair, void, undefined> {
    return this.#connection.lines({ method: "GET", path: this.#path("/pairs"), repeatable: true });
  }

  /** The clusters of duplicates that the job found. */
  clusters(): AsyncGenerator<DuplicateCluster, void, undefined> {
    return this.#connection.lines({ method: "GET", path: this.#path("/clusters"), repeatable: true });
  }

  #path(of = ""): string {
    return `/v1/jobs/${encodeURIComponent(this.id)}${of}`;
  }
}
