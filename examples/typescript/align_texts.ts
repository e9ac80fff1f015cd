// Finds the sentences of two files, one per line, that are translations of each other: align_texts FIRST SECOND

import { readFile } from "node:fs/promises";
import { Client } from "dragoman-client";

const [first = "", second = ""] = process.argv.slice(2);
const { DRAGOMAN_SERVER, DRAGOMAN_KEY } = process.env;
const client = new Client(DRAGOMAN_SERVER, DRAGOMAN_KEY ? { apiKey: DRAGOMAN_KEY } : {});

async function sentences(file: string): Promise<string[]> {
  return (await readFile(file, "utf8")).split("\n").filter((line) => line.trim() !== "");
}

const job = await client.minePairs({ texts: await sentences(first) }, { texts: await sentences(second) }, { threshold: 1.2 });
await job.wait({ timeoutMs: 600_000, progress: (info) => console.error(`${info.status}…`) });
for await (const pair of job.pairs()) {
  console.log([pair.score.toFixed(2), pair.first.text, pair.second.text].join("\t"));
}
