"""Indexes a folder of text files in any languages and searches it with a question in any other language.

python search_folder.py FOLDER QUESTION
"""

import os
import sys
from pathlib import Path

from dragoman import Client
from dragoman.wire import DocumentInput

folder, question = Path(sys.argv[1]), sys.argv[2]
documents: list[DocumentInput] = [
    {"id": file.name, "text": file.read_text(encoding="utf-8"), "metadata": {"bytes": file.stat().st_size}}
    for file in sorted(folder.glob("*.txt"))
]

with Client(os.environ.get("DRAGOMAN_SERVER", "http://127.0.0.1:7700"), api_key=os.environ.get("DRAGOMAN_KEY")) as client:
    client.get_or_create_collection("example-folder")
    stored = client.upsert("example-folder", documents)
    for result in stored["results"]:
        if "error" in result:
            print(f"not stored: {result['error']['detail']}", file=sys.stderr)
    for hit in client.search("example-folder", question, limit=3)["hits"]:
        passage = " ".join(hit["passage"]["text"].split())
        print(f"{hit['score']:.2f}  {hit['id']}  {passage}")
