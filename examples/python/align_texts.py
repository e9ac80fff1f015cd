"""Finds the sentences of two files, one per line, that are translations of each other.

python align_texts.py FIRST SECOND
"""

import os
import sys
from pathlib import Path

from dragoman import Client

first, second = (Path(name).read_text(encoding="utf-8").splitlines() for name in sys.argv[1:3])

with Client(os.environ.get("DRAGOMAN_SERVER", "http://127.0.0.1:7700"), api_key=os.environ.get("DRAGOMAN_KEY")) as client:
    job = client.mine_pairs({"texts": first}, {"texts": second}, threshold=1.2)
    job.wait(timeout=600, progress=lambda info: print(f"{info['status']}…", file=sys.stderr))
    for pair in job.pairs():
        print(f"{pair['score']:.2f}\t{pair['first']['text']}\t{pair['second']['text']}")
