// Indexes a folder of text files in any languages and searches it with a question in any other language: search_folder FOLDER QUESTION

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Client, type DocumentInput } from "dragoman-client";

const [folder = ".", question = ""] = process.argv.slice(2);
const { DRAGOMAN_SERVER, DRAGOMAN_KEY } = process.env;
const client = new Client(DRAGOMAN_SERVER, DRAGOMAN_KEY ? { apiKey: DRAGOMAN_KEY } : {});

async function* documents(): AsyncGenerator<DocumentInput> {
  for (const name of (await readdir(folder)).sort()) {
    if (name.endsWith(".txt")) yield { id: name, text: await readFile(join(folder, name), "utf8") };
  }
}

await client.getOrCreateCollection("example-folder");
const stored = await client.upsert("example-folder", documents());
for (const { error } of stored.results) if (error) console.error(`not stored: ${error.detail}`);
const found = await client.search("example-folder", question, { limit: 3 });
for (const hit of found.hits) {
  console.log(`${hit.score.toFixed(2)}  ${hit.id}  ${hit.passage?.text.replace(/\s+/g, " ")}`);
}
