// A client for Dragoman, a vector-search database across languages: `new Client("http://127.0.0.1:7700")`.

export { Client, type ImportOptions, type ListOptions, type UpsertOptions } from "./client.js";
export type { Call, ClientOptions } from "./connection.js";
export { DragomanError, type Violation } from "./errors.js";
export { Job, type WaitOptions } from "./job.js";
export type * from "./wire.js";
