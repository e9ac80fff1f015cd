// A round trip with openapi-fetch over the types of openapi-typescript: create, write, search, be refused, delete.

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { paths } from "./schema";

const client = createClient<paths>({ baseUrl: process.env.DRAGOMAN_URL! });
const path = { collection: "fetch" };

const made = await client.POST("/v1/collections", { body: { name: "fetch" } });
assert.equal(made.data?.name, "fetch");
const written = await client.POST("/v1/collections/{collection}/documents", {
  params: { path },
  body: {
    documents: [
      { id: "fi", text: "Kirjasto on suljettu maanantaisin.", language: "fi" },
      { id: "el", text: "Το πλοίο φεύγει στις οκτώ το πρωί.", language: "el" },
    ],
  },
});
assert.equal(written.data?.failed, 0);
const found = await client.POST("/v1/collections/{collection}/search", { params: { path }, body: { query: "When does the ship leave?", limit: 1 } });
assert.equal(found.data?.hits[0]?.id, "el");
const refused = await client.POST("/v1/collections/{collection}/search", { params: { path }, body: { query: " ", limit: 1 } });
assert.equal(refused.response.status, 422);
assert.equal(refused.error?.code, "invalid_request");
const deleted = await client.DELETE("/v1/collections/{collection}", { params: { path } });
assert.equal(deleted.response.status, 204);
console.log("openapi-typescript: ok");
