// Learns labels from examples in one language (one "LABEL<tab>TEXT" per line) and labels messages in any other language:
// classify_messages EXAMPLES MESSAGE...

import { readFile } from "node:fs/promises";
import { Client } from "dragoman-client";

const [file = "", ...messages] = process.argv.slice(2);
const { DRAGOMAN_SERVER, DRAGOMAN_KEY } = process.env;
const client = new Client(DRAGOMAN_SERVER, DRAGOMAN_KEY ? { apiKey: DRAGOMAN_KEY } : {});

const lines = (await readFile(file, "utf8")).trimEnd().split("\n");
const examples = lines.map((line) => {
  const [label = "", text = ""] = line.split("\t");
  return { text, labels: [label] };
});

const made = await client.createClassifier("example-messages", "knn", { knn: { neighbors: 4 }, examples });
await (await client.getJob(made.job)).wait({ timeoutMs: 60_000 });
const { predictions } = await client.predict("example-messages", messages);
for (const [place, told] of predictions.entries()) {
  const probability = told.scores[0]?.probability.toFixed(2);
  console.log([told.labels.join(", ") || "?", probability, messages[place]].join("\t"));
}
await client.deleteClassifier("example-messages");
