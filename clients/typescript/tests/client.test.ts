// Tests of the client against a real server.

import assert from "node:assert/strict";
import { openAsBlob } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { gzipSync } from "node:zlib";
import { Client, DragomanError, type DocumentInput, type JobInfo } from "dragoman-client";
import { Server } from "./server.js";

const TEXTS: DocumentInput[] = [
  { id: "de", text: "Wegen eines Streiks fahren am Freitag keine Züge.", metadata: { topic: "transport" } },
  { id: "zh", text: "工人们正在修复被洪水冲毁的桥。", metadata: { topic: "transport" } },
  { id: "fr", text: "De fortes pluies sont attendues demain dans le nord du pays.", metadata: { topic: "weather" } },
  { id: "el", text: "Η ορχήστρα έδωσε δωρεάν συναυλία στην πλατεία.", metadata: { topic: "music" } },
];

let server: Server;
let client: Client;
before(async () => {
  server = await Server.start();
  client = new Client(server.url);
});
after(() => server.remove());
beforeEach(async () => {
  await client.createCollection("news", { metadata_indexes: ["topic"] });
  await client.upsert("news", TEXTS);
});
afterEach(() => client.deleteCollection("news"));

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const every: T[] = [];
  for await (const value of values) every.push(value);
  return every;
}

/** The error of a failed call. */
async function errorOf(call: Promise<unknown>): Promise<DragomanError> {
  const error = await call.then(
    () => assert.fail("there is no error"),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof DragomanError, String(error));
  return error;
}

test("a search finds what was said in another language", async () => {
  const found = await client.search("news", "Are there trains on Friday?", { limit: 1 });
  assert.equal(found.hits[0]?.id, "de");
  assert.deepEqual(found.hits[0]?.metadata, { topic: "transport" });
});

test("the options of a search reach the server", async () => {
  const found = await client.search("news", "Züge", {
    mode: "lexical",
    languages: ["de", "fr"],
    filter: { field: "topic", eq: "transport" },
    include: ["text"],
    facets: [{ field: "topic" }],
  });
  assert.deepEqual(
    found.hits.map((hit) => hit.text),
    ["Wegen eines Streiks fahren am Freitag keine Züge."],
  );
  assert.deepEqual(found.facets?.[0]?.values, [{ value: "transport", documents: 1 }]);
});

test("searches are made in batches and by examples", async () => {
  const batch = await client.searchBatch("news", [{ query: "concert", limit: 1 }, { like: "fr" }]);
  assert.equal(batch.results[0]?.hits[0]?.id, "el");
  assert.ok(batch.results[1]?.hits.every((hit) => hit.id !== "fr"));
  const alike = await client.recommend("news", { texts: ["Heavy rain is coming."] }, { negative: { ids: ["el"] }, limit: 1 });
  assert.equal(alike.hits[0]?.id, "fr");
});

test("a collection is made once, listed page by page, changed and deleted", async () => {
  await client.getOrCreateCollection("once", { description: "The first words stay." });
  const again = await client.getOrCreateCollection("once", { description: "These come too late." });
  assert.equal(again.description, "The first words stay.");
  assert.deepEqual((await all(client.listCollections({ limit: 1 }))).map((made) => made.name), ["news", "once"]);
  assert.equal((await client.changeCollection("once", { description: "Changed." })).description, "Changed.");
  await client.deleteCollection("once");
  assert.equal((await errorOf(client.getCollection("once"))).code, "collection_not_found");
});

test("one document is stored, read, patched and deleted", async () => {
  await client.upsert("news", { id: "한 글/?#", title: "Meer", text: "과학자들이 새로운 물고기를 발견했다." });
  const read = await client.getDocument("news", "한 글/?#");
  assert.deepEqual([read.title, read.language], ["Meer", "ko"]);
  const found = await client.search("news", "Meer", { mode: "lexical" });
  assert.deepEqual(found.hits[0]?.title_marks, [{ start: 0, end: 4 }]);
  const patched = await client.patchDocument("news", "한 글/?#", { title: null, metadata: { sea: true } }, { ifMatch: read.version });
  assert.deepEqual([patched.title, patched.metadata], [undefined, { sea: true }]);
  const late = await errorOf(client.deleteDocument("news", "한 글/?#", { ifMatch: read.version }));
  assert.deepEqual([late.code, late.status], ["precondition_failed", 412]);
  await client.deleteDocument("news", "한 글/?#");
  assert.equal(await client.countDocuments("news"), 4);
});

test("no id leads to another route", async () => {
  for (const id of ["", ".", ".."]) {
    await assert.rejects(async () => client.deleteDocument("news", id), TypeError);
    await assert.rejects(async () => client.getDocument("news", id), TypeError);
  }
  assert.equal(await client.countDocuments("news"), 4);
});

test("many documents are cut into batches, wherever they come from", async () => {
  async function* documents(): AsyncGenerator<DocumentInput> {
    for (let number = 0; number < 25; number += 1) yield { id: `n${number}`, text: `Nachricht ${number}` };
  }
  const answer = await client.upsert("news", documents(), { batchDocuments: 10 });
  assert.deepEqual(answer.results.map((result) => result.id), Array.from({ length: 25 }, (_, number) => `n${number}`));
  assert.equal(await client.deleteDocuments("news", { filter: { field: "id", prefix: "n" } }), 25);
});

test("a batch larger than the server takes is halved", async () => {
  await client.createCollection("points", { dimension: 2 });
  const points = Array.from({ length: 1500 }, (_, number) => ({ vector: [1, number] }));
  const answer = await client.upsert("points", points, { batchDocuments: 1500 });
  assert.deepEqual([answer.failed, new Set(answer.results.map((result) => result.id)).size], [0, 1500]);
  await client.deleteCollection("points");
});

test("a partial failure is told by document", async () => {
  const documents = [{ id: "a", text: "Guten Tag" }, { id: "b", text: " " }, { id: "c", text: "x", language: "is" }];
  const answer = await client.upsert("news", documents, { batchDocuments: 2 });
  assert.equal(answer.failed, 2);
  assert.deepEqual(
    answer.results.map((result) => result.error?.pointer),
    [undefined, "/documents/1/text", "/documents/2/language"],
  );
});

test("when all fail the error names every field", async () => {
  const error = await errorOf(client.upsert("news", [{ text: " " }, { text: "" }, { text: "\n" }], { batchDocuments: 1 }));
  assert.equal(error.code, "invalid_request");
  assert.deepEqual(error.violations.map((place) => place.field), ["/documents/0/text", "/documents/1/text", "/documents/2/text"]);
});

test("what was stored before an error is told", async () => {
  async function* documents(): AsyncGenerator<DocumentInput> {
    yield { id: "before", text: "Vorher" };
    yield { id: "after", text: "Nachher" };
    await client.deleteCollection("news");
    yield { id: "more", text: "Mehr" };
  }
  const error = await errorOf(client.upsert("news", documents(), { batchDocuments: 1 }));
  await client.createCollection("news");
  assert.equal(error.code, "collection_not_found");
  assert.deepEqual(error.results.map((result) => result.id), ["before"]);
});

test("documents are listed and deleted by ids and by filter", async () => {
  const ids = (await all(client.listDocuments("news", { ids: ["zh", "el", "none"], limit: 1 }))).map((document) => document.id);
  assert.deepEqual(ids, ["el", "zh"]);
  const both = await all(client.listDocuments("news", { ids: ["zh", "el"], filter: { field: "topic", eq: "music" } }));
  assert.deepEqual(both.map((document) => document.id), ["el"]);
  assert.equal(await client.deleteDocuments("news", { ids: ["de", "none"] }), 1);
  assert.equal(await client.deleteDocuments("news", { ids: [] }), 0);
  assert.equal(await client.countDocuments("news", { field: "topic", eq: "transport" }), 1);
});

test("a deletion by both ids and a filter is refused, because it could mean either of them or both", async () => {
  const both = { ids: ["ja"], filter: { field: "topic", eq: "music" } };
  await assert.rejects(client.deleteDocuments("news", both), /either ids or filter/);
  await assert.rejects(client.deleteDocuments("news", {} as typeof both), /either ids or filter/);
});

test("facets are counted", async () => {
  const counted = await client.countFacets("news", [{ field: "topic" }], { not: { field: "language", eq: "el" } });
  assert.deepEqual(counted.facets[0]?.values[0], { value: "transport", documents: 2 });
});

test("a file is imported with progress and results by line", async () => {
  const lines = '{"id": "ja", "text": "新しい列車"}\n{"id": "bad", "text": " "}\n';
  const seen: JobInfo[] = [];
  const file = new File([gzipSync(lines)], "lines.ndjson.gz");
  const job = await (await client.importFile("news", file, { progress: (info) => seen.push(info) })).wait({ timeoutMs: 60_000 });
  assert.equal(seen.at(-1)?.status, "succeeded");
  assert.deepEqual((await all(job.results("failed"))).map((line) => line.line), [2]);
  assert.equal((await client.getDocument("news", "ja")).text, "新しい列車");
});

test("a file of the disk is imported, and one of no known kind refused", async () => {
  const path = join(server.folder, "table.tsv");
  await writeFile(path, "id\ttext\tyear\nsw\tBasi la jioni limechelewa.\t2026\n");
  const job = await client.importFile("news", await openAsBlob(path), { contentType: "text/tab-separated-values" });
  await job.wait();
  assert.deepEqual((await client.getDocument("news", "sw")).metadata, { year: "2026" });
  const typed = { contentType: "text/tab-separated-values", types: "year:int" };
  await (await client.importFile("news", await openAsBlob(path), typed)).wait();
  assert.deepEqual((await client.getDocument("news", "sw")).metadata, { year: 2026 });
  await assert.rejects(client.importFile("news", "text"), /give contentType/);
});

test("an export is what was stored, whatever separates lines", async () => {
  const text = "Zeile\u2028Zeile\u0085Zeile\rZeile\nZeile";
  await client.upsert("news", { id: "lines", text });
  const exported = await all(client.exportDocuments("news"));
  assert.deepEqual([exported.length, exported.find((document) => document.id === "lines")?.text], [5, text]);
  for await (const document of client.exportDocuments("news")) {
    assert.equal(document.id, "de");
    break;
  }
});

test("a job that takes too long goes on, and can be canceled", async () => {
  const lines = Array.from({ length: 3000 }, (_, number) => JSON.stringify({ id: `n${number}`, text: `Nachricht Nummer ${number}` }));
  const job = await client.importFile("news", lines.join("\n"), { contentType: "application/x-ndjson" });
  const late = await errorOf(job.wait({ timeoutMs: 0 }));
  assert.deepEqual([late.code, late.job?.id], ["timeout", job.id]);
  await job.cancel();
  assert.equal((await errorOf(job.wait({ timeoutMs: 60_000 }))).code, "canceled");
  assert.equal((await client.getJob(job.id)).info.status, "canceled");
  assert.ok((await all(client.listJobs({ type: "import", status: "canceled" }))).some((info) => info.id === job.id));
});

test("a classifier answers in languages that it never saw, and labels a collection", async () => {
  const made = await client.createClassifier("topics", "knn", {
    knn: { neighbors: 3 },
    examples: [
      { text: "The train to the coast is cancelled.", labels: ["transport"] },
      { text: "A new bus line opens next week.", labels: ["transport"] },
      { text: "It will snow in the mountains tonight.", labels: ["weather"] },
      { text: "Heavy rain is expected on Sunday.", labels: ["weather"] },
    ],
  });
  await (await client.getJob(made.job)).wait();
  const told = await client.predict("topics", ["Basi la jioni limechelewa.", "Morgen wird es regnen."], { explain: 1 });
  assert.deepEqual(told.predictions.map((prediction) => prediction.labels), [["transport"], ["weather"]]);
  assert.equal((await client.predict("topics", { collection: "news", ids: ["fr"] })).predictions[0]?.id, "fr");
  const judged = await client.evaluateClassifier("topics", { examples: [{ text: "Der Flug hat Verspätung.", labels: ["transport"] }] });
  assert.ok("all" in judged);
  await (await client.trainClassifier("topics")).wait();
  assert.equal((await client.getClassifier("topics")).version, 2);
  await (await client.applyClassifier("topics", "news", "told")).wait();
  assert.equal((await client.getDocument("news", "fr")).metadata.told, "weather");
  assert.deepEqual((await all(client.listClassifiers())).map((classifier) => classifier.name), ["topics"]);
  await client.deleteClassifier("topics");
});

test("translation pairs are mined, duplicates found", async () => {
  const german = ["Wo ist der Bahnhof?", "Die Suppe ist zu heiß.", "Meine Schwester lernt Chinesisch.", "Morgen wird es schneien."];
  const turkish = ["Yarın kar yağacak.", "Kız kardeşim Çince öğreniyor.", "Kedi masanın altında uyuyor.", "Çorba çok sıcak."];
  const job = await (await client.minePairs({ texts: german }, { texts: turkish }, { threshold: 1.5 })).wait();
  const pairs = (await all(job.pairs())).map((pair) => `${pair.first.id} ${pair.second.id}`);
  assert.deepEqual(pairs.sort(), ["1 3", "2 1", "3 0"]);
  await client.upsert("news", { id: "nl", text: "Morgen wordt in het hele noorden van het land zware regen verwacht." });
  const found = await (await client.findDuplicates("news", { score_min: 0.4, pairs: "different" })).wait();
  const clusters = await all(found.clusters());
  assert.deepEqual(clusters.map((cluster) => cluster.members.map((member) => member.id).sort()), [["fr", "nl"]]);
});

test("texts are detected, compared and embedded", async () => {
  const detected = await client.detectLanguages(["Kje je postaja?", "12345"]);
  assert.deepEqual([detected[0]?.language, detected[1]], ["sl", {}]);
  const pairs = ["雨が降っています。", "Der Zug ist voll."].map((second) => ({ first: "Es regnet.", second }));
  const [near, far] = await client.comparePairs(pairs);
  assert.ok(near && far && near.score > far.score);
  assert.equal((await client.compareSets(["Es regnet.", "Es schneit."])).scores.length, 2);
  const [model] = await client.listModels();
  assert.deepEqual((await client.embed(["Es regnet."])).map((values) => values.length), [model?.dimension]);
  assert.equal((await client.embed(["Wann regnet es?"], { inputType: "query" }))[0]?.length, model?.dimension);
});

test("any number of texts is embedded and detected", async () => {
  const texts = Array.from({ length: 2500 }, (_, number) => `Zimmer ${number}`);
  const embedded = await client.embed(texts);
  assert.equal(embedded.length, texts.length);
  const [alone] = await client.embed(texts.slice(-1));
  const product = embedded.at(-1)!.reduce((sum, value, index) => sum + value * alone![index]!, 0);
  assert.ok(product > 0.999, String(product));
  const detected = await client.detectLanguages([...texts, "Kje je postaja?"]);
  assert.deepEqual([detected.length, detected.at(-1)?.language], [2501, "sl"]);
  assert.deepEqual(await client.embed([]), []);
});

test("any number of pairs is compared", async () => {
  const pairs = Array.from({ length: 2500 }, (_, number) => ({ first: "Es regnet.", second: number === 2499 ? "Es regnet." : "Der Zug ist voll." }));
  const results = await client.comparePairs(pairs);
  assert.equal(results.length, 2500);
  assert.ok(results[2499]!.score > 0.999 && results[0]!.score < 0.9, String(results[0]!.score));
  assert.deepEqual(await client.comparePairs([]), []);
});

test("labels are predicted for any number of texts", async () => {
  const labels = [
    { name: "transport", descriptions: ["trains and buses"] },
    { name: "weather", descriptions: ["rain and snow"] },
  ];
  const made = await client.createClassifier("subjects", "prototype", { labels });
  await (await client.getJob(made.job)).wait();
  const texts = [...Array.from({ length: 2499 }, () => "Der Zug ist voll."), "Il neige."];
  const told = await client.predict("subjects", texts, { scores: 1 });
  assert.deepEqual([told.predictions.length, told.abstained], [2500, 0]);
  assert.deepEqual([told.predictions[0]?.labels, told.predictions[2499]?.labels], [["transport"], ["weather"]]);
  const unsure = await client.predict("subjects", texts, { threshold: 1 });
  assert.equal(unsure.abstained, 2500);
  const refused = await client.predict("subjects", [...texts, " "]).catch((error: unknown) => error);
  assert.ok(refused instanceof DragomanError && refused.violations[0]?.pointer === "/texts/2500", String(refused));
  await client.deleteClassifier("subjects");
});

test("an alias is set, switched, listed and deleted", async () => {
  assert.deepEqual(await client.putAlias("current", "news"), { alias: "current", collection: "news" });
  assert.equal(await client.countDocuments("current"), 4);
  await client.createCollection("news-next");
  await client.putAlias("current", "news-next");
  assert.deepEqual(await all(client.listAliases()), [{ alias: "current", collection: "news-next" }]);
  await client.deleteAlias("current");
  assert.deepEqual(await all(client.listAliases()), []);
  await client.deleteCollection("news-next");
});

test("the place of a bad text counts all texts", async () => {
  const texts = [...Array.from({ length: 1002 }, () => "Hallo"), " "];
  await assert.rejects(client.embed(texts), { detail: "/input/1002: must not be blank" });
  const refused = await client.detectLanguages(texts).catch((error: unknown) => error);
  assert.ok(refused instanceof DragomanError && refused.status === 422, String(refused));
  assert.deepEqual([refused.detail, refused.violations[0]?.field], ["/texts/1002: must not be blank", "/texts/1002"]);
});

test("a snapshot is made, downloaded and restored", async () => {
  const job = await (await client.createSnapshot(["news"])).wait();
  const snapshot = String(job.info.details.snapshot);
  assert.ok((await all(client.listSnapshots())).some((made) => made.id === snapshot));
  const archive = new Uint8Array(await new Response(await client.downloadSnapshot(snapshot)).arrayBuffer());
  assert.deepEqual([...archive.slice(0, 4)], [0x28, 0xb5, 0x2f, 0xfd]);
  await (await client.restoreSnapshot(snapshot, { collection: "news", rename_to: "news-copy" })).wait();
  assert.equal(await client.countDocuments("news-copy"), 4);
  await client.deleteCollection("news-copy");
  await client.deleteSnapshot(snapshot);
  assert.equal((await client.uploadSnapshot(snapshot, archive)).archive_bytes, archive.length);
  await client.deleteSnapshot(snapshot);
});

test("what has no method is asked by request", async () => {
  const to = "/v1/collections/news/documents/ferry";
  const put = await client.request<{ status: string }>("PUT", to, { json: { text: "Die Fähre fährt um acht.", language: "de" } });
  assert.equal(put.status, "created");
  assert.equal(await client.request("DELETE", to), undefined);
  await assert.rejects(client.request("GET", "@elsewhere.example/"), /slash/);
});
