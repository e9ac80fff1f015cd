"""Learns labels from examples in one language (one "LABEL<tab>TEXT" per line) and labels messages in any other language.

python classify_messages.py EXAMPLES MESSAGE...
"""

import os
import sys
from pathlib import Path

from dragoman import Client
from dragoman.wire import LabeledText

examples: list[LabeledText] = []
for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
    label, text = line.split("\t")
    examples.append({"text": text, "labels": [label]})

with Client(os.environ.get("DRAGOMAN_SERVER", "http://127.0.0.1:7700"), api_key=os.environ.get("DRAGOMAN_KEY")) as client:
    made = client.create_classifier("example-messages", "knn", knn={"neighbors": 4}, examples=examples)
    client.get_job(made["job"]).wait(timeout=60)
    messages = sys.argv[2:]
    for message, told in zip(messages, client.predict("example-messages", messages)["predictions"], strict=True):
        print(f"{', '.join(told['labels']) or '?'}\t{told['scores'][0]['probability']:.2f}\t{message}")
    client.delete_classifier("example-messages")
