// A round trip with the client that hey-api generates: create, write, search, be refused, delete.

import assert from "node:assert/strict";
import { createCollection, deleteCollection, searchDocuments, upsertDocuments } from "./hey/sdk.gen";
import { client } from "./hey/client.gen";

client.setConfig({ baseUrl: process.env.DRAGOMAN_URL! });
const path = { collection: "hey" };

const made = await createCollection({ body: { name: "hey" } });
assert.equal(made.data?.name, "hey");
const documents = [
  { id: "fi", text: "Kirjasto on suljettu maanantaisin.", language: "fi" },
  { id: "el", text: "Το πλοίο φεύγει στις οκτώ το πρωί.", language: "el" },
];
const written = await upsertDocuments({ path, body: { documents } });
assert.equal(written.data?.failed, 0);
const found = await searchDocuments({ path, body: { query: "When does the ship leave?", limit: 1 } });
assert.equal(found.data?.hits[0]?.id, "el");
const refused = await searchDocuments({ path: { collection: "nowhere" }, body: { query: "x" } });
assert.equal(refused.error?.code, "collection_not_found");
const deleted = await deleteCollection({ path });
assert.equal(deleted.response?.status, 204);
console.log("hey-api: ok");
