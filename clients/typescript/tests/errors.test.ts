// The errors that the client throws when the request, the key, the server or the connection is at fault.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { inspect } from "node:util";
import { Client, DragomanError } from "dragoman-client";
import { Server } from "./server.js";

const ADMIN_KEY = "an-admin-key-of-the-tests-0123456789";

let server: Server;
let guarded: Server;
before(async () => {
  [server, guarded] = await Promise.all([Server.start(), Server.start("--admin-key", ADMIN_KEY)]);
});
after(() => Promise.all([server.remove(), guarded.remove()]));

async function errorOf(call: Promise<unknown>): Promise<DragomanError> {
  const error = await call.then(
    () => assert.fail("there is no error"),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof DragomanError, String(error));
  return error;
}

test("a bad member is named with its limit and what came", async () => {
  const client = new Client(server.url);
  await client.createCollection("news");
  const error = await errorOf(client.search("news", "Züge", { limit: 0 }));
  assert.deepEqual([error.code, error.status, error.violations[0]?.field], ["invalid_request", 422, "/limit"]);
  assert.match(error.violations[0]?.detail ?? "", /1.*got 0/);
  assert.ok(error.requestId && error.message.includes(error.requestId));
});

test("a bad parameter is named", async () => {
  const error = await errorOf(new Client(server.url).request("GET", "/v1/collections", { query: { limit: "many" } }));
  assert.deepEqual([error.violations[0]?.parameter, error.violations[0]?.field], ["limit", "limit"]);
});

test("an unknown collection has its code", async () => {
  const error = await errorOf(new Client(server.url).search("nowhere", "Züge"));
  assert.deepEqual([error.code, error.status], ["collection_not_found", 404]);
});

test("an error in the shape of OpenAI is the same error", async () => {
  const error = await errorOf(new Client(server.url).embed([" "]));
  assert.deepEqual([error.code, error.status], ["invalid_request", 400]);
  assert.match(error.violations[0]?.field ?? "", /input/);
});

test("the address of a server ends before its version", async () => {
  const error = await errorOf(new Client(`${server.url}/v1`).search("news", "Züge"));
  assert.deepEqual([error.code, error.status], ["route_not_found", 404]);
  assert.match(error.detail, /\/v1\/v1\/collections\/news\/search; give clients the server's address without \/v1$/);
});

test("a guarded server asks for a key, and a key may be too narrow", async () => {
  const error = await errorOf(new Client(guarded.url).listModels());
  assert.deepEqual([error.code, error.status], ["unauthorized", 401]);
  const admin = new Client(guarded.url, { apiKey: ADMIN_KEY });
  const { secret } = await admin.request<{ secret: string }>("POST", "/v1/keys", { json: { name: "reader", scope: "read" } });
  const narrow = await errorOf(admin.with({ apiKey: secret }).createCollection("news"));
  assert.deepEqual([narrow.code, narrow.status], ["forbidden", 403]);
});

test("a collection that exists needs no right to create it", async () => {
  const admin = new Client(guarded.url, { apiKey: ADMIN_KEY });
  await admin.createCollection("shared");
  await admin.request("PUT", "/v1/aliases/current", { json: { collection: "shared" } });
  const { secret } = await admin.request<{ secret: string }>("POST", "/v1/keys", { json: { name: "writer", scope: "write" } });
  const client = admin.with({ apiKey: secret });
  assert.equal((await client.getOrCreateCollection("shared")).name, "shared");
  assert.equal((await client.getOrCreateCollection("current")).name, "shared");
  assert.equal((await errorOf(client.getOrCreateCollection("missing"))).code, "forbidden");
});

test("a key is in no text of a client or of an error", async () => {
  const client = new Client(guarded.url, { apiKey: ADMIN_KEY });
  const error = await errorOf(client.getCollection("nowhere"));
  const away = await errorOf(new Client("http://127.0.0.1:9", { apiKey: ADMIN_KEY, retries: 0 }).listModels());
  const shown = inspect([client, error, away], { depth: 9, showHidden: true }) + JSON.stringify([client, error, away]);
  assert.ok(!shown.includes(ADMIN_KEY));
});

test("a URL with a key, and a key that would end the header, are refused", () => {
  assert.throws(() => new Client("http://user:secret@127.0.0.1:7700"), /url must be/);
  assert.throws(() => new Client("http://127.0.0.1:7700/?key=1"), /url must be/);
  assert.throws(() => new Client("127.0.0.1:7700"), /url must be/);
  assert.throws(() => new Client("http://127.0.0.1:7700", { apiKey: "key\r\nhost: elsewhere" }), /apiKey must be/);
});

test("a server that is away is unreachable after some attempts", async () => {
  const error = await errorOf(new Client("http://127.0.0.1:9", { retries: 1 }).listModels());
  assert.deepEqual([error.code, error.status], ["unreachable", undefined]);
  assert.match(error.detail, /^http:\/\/127\.0\.0\.1:9: .*[^ ]$/);
});

test("an error in a web page of another origin names the setting of the server", async () => {
  const page = { value: { origin: "http://shop.example" }, configurable: true };
  Object.defineProperty(globalThis, "location", page);
  try {
    const error = await errorOf(new Client("http://127.0.0.1:9", { retries: 0 }).listModels());
    assert.match(error.detail, /; if the server runs, its cors_origins must list http:\/\/shop\.example$/);
  } finally {
    Reflect.deleteProperty(globalThis, "location");
  }
});

test("a server that comes back is asked again", async () => {
  const other = await Server.start();
  const client = new Client(other.url, { retries: 8 });
  await client.createCollection("kept");
  await other.stop();
  const [found] = await Promise.all([
    client.getCollection("kept"),
    new Promise((resolve) => setTimeout(resolve, 500)).then(() => other.start()),
  ]);
  assert.equal(found.name, "kept");
  await other.remove();
});

interface Answer {
  status: number;
  headers?: Record<string, string>;
  body: string;
  /** Keeps the answer open. */
  open?: boolean;
}

/** Sends a request to a server that gives these answers in turn, and returns the idempotency keys that it received. */
async function answering(answers: Answer[], ask: (url: string) => Promise<unknown>): Promise<(string | undefined)[]> {
  const asked: (string | undefined)[] = [];
  const other = createServer((request, response) => {
    asked.push(request.headers["idempotency-key"] as string | undefined);
    const answer = answers[Math.min(asked.length, answers.length) - 1]!;
    response.writeHead(answer.status, answer.headers);
    response.write(answer.body);
    if (!answer.open) response.end();
  });
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  try {
    await ask(`http://127.0.0.1:${(other.address() as AddressInfo).port}`);
  } finally {
    other.closeAllConnections();
    other.close();
  }
  return asked;
}

const BUSY: Answer = { status: 503, headers: { "retry-after": "0" }, body: '{"code": "overloaded", "detail": "a queue is full"}' };
const STORED: Answer = { status: 200, body: '{"results": [{"id": "a", "status": "created", "version": 1}], "failed": 0}' };

test("a write that is sent again keeps its idempotency key", async () => {
  const keys = await answering([BUSY, { ...BUSY, status: 429 }, STORED], async (url) => {
    assert.equal((await new Client(url).upsert("news", { id: "a", text: "Hallo" })).failed, 0);
  });
  assert.equal(keys.length, 3);
  assert.ok(keys[0] && new Set(keys).size === 1);
});

test("what a batch stored before it failed is told", async () => {
  const tooLarge = { status: 413, body: '{"code": "body_too_large", "detail": "the body is too large"}' };
  const broken = { status: 500, body: '{"code": "internal", "detail": "the server failed"}' };
  await answering([tooLarge, STORED, broken], async (url) => {
    const error = await errorOf(
      new Client(url).upsert("news", [
        { id: "a", text: "Hallo" },
        { id: "b", text: "Welt" },
      ]),
    );
    assert.deepEqual([error.code, error.results?.map(({ id }) => id)], ["internal", ["a"]]);
  });
});

test("what is wrong with very many documents is told", async () => {
  const batchDocuments = 130_000;
  const errors = Array.from({ length: batchDocuments }, (_, at) => ({ pointer: `/documents/${at}/text`, detail: "blank" }));
  const refused = { status: 422, body: JSON.stringify({ code: "invalid_request", detail: "no text", errors }) };
  await answering([refused], async (url) => {
    const documents = Array.from({ length: 2 * batchDocuments }, () => ({ text: "" }));
    const error = await errorOf(new Client(url).upsert("news", documents, { batchDocuments }));
    assert.deepEqual([error.code, error.violations.length], ["invalid_request", documents.length]);
  });
});

test("a deletion whose answer was lost has succeeded", async () => {
  const lost = { status: 200, headers: { "content-length": "100", connection: "close" }, body: "{" };
  const gone = { status: 404, body: '{"code": "document_not_found", "detail": "there is no document a"}' };
  const keys = await answering([lost, gone], (url) => new Client(url).deleteDocument("news", "a"));
  assert.equal(keys.length, 2);
  await answering([gone], async (url) => {
    assert.equal((await errorOf(new Client(url).deleteDocument("news", "a"))).code, "document_not_found");
  });
});

test("the attempts are bounded", async () => {
  const keys = await answering([BUSY], async (url) => {
    assert.equal((await errorOf(new Client(url, { retries: 2 }).listModels())).code, "overloaded");
  });
  assert.equal(keys.length, 3);
});

test("what may not be done twice is sent once", async () => {
  const keys = await answering([BUSY], async (url) => {
    assert.equal((await errorOf(new Client(url).createSnapshot())).code, "overloaded");
  });
  assert.deepEqual(keys, [undefined]);
});

test("an answer that no Dragoman gives is told as such", async () => {
  await answering([{ status: 502, body: "<html>" }, { status: 200, body: "<html>" }], async (url) => {
    const error = await errorOf(new Client(url).listModels());
    const said = "the answer is from a proxy or another server, not from Dragoman";
    assert.deepEqual([error.code, error.status, error.detail], ["bad_answer", 502, said]);
    assert.equal((await errorOf(new Client(url).listModels())).code, "bad_answer");
  });
});

test("a server that is silent is given up, once", async () => {
  const keys = await answering([{ status: 200, body: "{", open: true }], async (url) => {
    assert.equal((await errorOf(new Client(url, { timeoutMs: 200 }).listModels())).code, "timeout");
  });
  assert.equal(keys.length, 1);
});

test("a caller ends a request with a reason of its own", async () => {
  await answering([{ status: 200, body: "{", open: true }], async (url) => {
    const signal = AbortSignal.timeout(200);
    await assert.rejects(new Client(url, { signal }).listModels(), { name: "TimeoutError" });
    await assert.rejects(new Client(url, { signal: AbortSignal.abort(new Error("no more")) }).listModels(), /no more/);
  });
});

test("a caller ends a stream with a reason of its own", async () => {
  await answering([{ status: 200, body: '{"id": "a", "text": "Hallo"}\n', open: true }], async (url) => {
    const controller = new AbortController();
    const documents = new Client(url, { signal: controller.signal }).exportDocuments("news");
    assert.equal((await documents.next()).value?.id, "a");
    controller.abort(new Error("no more"));
    await assert.rejects(documents.next(), /no more/);
  });
});
