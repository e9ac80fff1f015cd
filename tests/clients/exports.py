"""Writes what Chroma and Qdrant export of the same three records, and the documents that they are.

    exports.py FOLDER
"""

import json
import sys
from pathlib import Path

import chromadb
from chromadb.config import Settings
from qdrant_client import QdrantClient, models

folder = Path(sys.argv[1])
TEXTS = {"1": "Kirjasto on suljettu maanantaisin.", "2": "Το πλοίο φεύγει στις οκτώ το πρωί.", "3": "감자를 씻어서 얇게 썬다."}
METADATA = [
    {"language": "fi", "year": 2025, "open": False},
    {"language": "el", "share": 0.5},
    {"language": "ko", "tags": ["food", "kitchen"]},
]
VECTORS = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]

chroma = chromadb.PersistentClient(path=str(folder / "chroma"), settings=Settings(anonymized_telemetry=False))
chroma.create_collection("other", embedding_function=None).add(ids=["x"], embeddings=[[1.0]], documents=["not this one"])
collection = chroma.create_collection("news", embedding_function=None)
collection.upsert(ids=list(TEXTS), embeddings=VECTORS, documents=list(TEXTS.values()), metadatas=METADATA)
got = collection.get(include=["documents", "metadatas", "embeddings"])
with open(folder / "chroma.json", "w", encoding="utf-8") as file:
    json.dump({**got, "embeddings": [list(map(float, one)) for one in got["embeddings"]]}, file)

qdrant = QdrantClient(":memory:")
qdrant.create_collection("news", vectors_config=models.VectorParams(size=3, distance=models.Distance.COSINE))
points = [
    models.PointStruct(id=int(id), vector=vector, payload={"text": text, **metadata})
    for (id, text), vector, metadata in zip(TEXTS.items(), VECTORS, METADATA)
]
qdrant.upsert("news", points=points)
pages, offset = [], None
with open(folder / "qdrant.jsonl", "w", encoding="utf-8") as lines:
    while True:
        records, offset = qdrant.scroll("news", limit=2, offset=offset, with_vectors=True)
        lines.writelines(record.model_dump_json() + "\n" for record in records)
        answer = {"points": [json.loads(record.model_dump_json()) for record in records], "next_page_offset": offset}
        pages.append({"result": answer, "status": "ok", "time": 0.001})
        if offset is None:
            break
(folder / "qdrant.json").write_text("\n".join(map(json.dumps, pages)), encoding="utf-8")

with open(folder / "expected.ndjson", "w", encoding="utf-8") as file:
    for (id, text), metadata in zip(TEXTS.items(), METADATA):
        rest = {name: value for name, value in metadata.items() if name != "language"}
        document = {"id": id, "text": text, "language": metadata["language"], "metadata": rest}
        file.write(json.dumps(document, ensure_ascii=False) + "\n")
