#!/usr/bin/env python3
"""Makes a folder for `dragoman eval search` from FLORES files. Every sentence is a document. For some sentences, each language has a
query of a few of their consecutive words; the sentence and its translations are relevant.

    quoted_words.py DEV WORDS [--languages ar,de,…] [--sentences 100] [--words 4] [--seed 7]

DEV has `flores.xx.txt`, aligned by line. In languages without spaces between words, a query has twice as many characters instead."""

import argparse
import pathlib
import random

WITHOUT_SPACES = {"zh", "ja", "th", "my"}


def quote(language: str, sentence: str, count: int, draw: random.Random) -> str:
    """Returns some consecutive words, or characters, of a sentence; all of it if it has no more."""
    spaced = language not in WITHOUT_SPACES
    parts, count = (sentence.split(), count) if spaced else (list(sentence), 2 * count)
    start = draw.randrange(max(1, len(parts) - count + 1))
    return (" " if spaced else "").join(parts[start : start + count])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dev", type=pathlib.Path)
    parser.add_argument("words", type=pathlib.Path)
    parser.add_argument("--languages", default="ar,de,en,es,fr,hi,ja,ru,sw,zh")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--words", dest="count", type=int, default=4)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    draw = random.Random(asked.seed)
    languages = asked.languages.split(",")
    texts = {code: (asked.dev / f"flores.{code}.txt").read_text(encoding="utf-8").splitlines() for code in languages}
    chosen = sorted(draw.sample(range(len(texts[languages[0]])), asked.sentences))
    asked.words.mkdir(parents=True, exist_ok=True)

    def write(name: str, rows: list[tuple[str, ...]]) -> None:
        lines = ["\t".join(field.replace("\t", " ") for field in row) + "\n" for row in rows]
        (asked.words / name).write_text("".join(lines), encoding="utf-8")

    write("documents.tsv", [(f"{code}-{line}", code, text) for code in languages for line, text in enumerate(texts[code])])
    write("queries.tsv", [(f"{code}-{line}", code, quote(code, texts[code][line], asked.count, draw)) for code in languages for line in chosen])
    write("qrels.tsv", [(f"{code}-{line}", f"{other}-{line}", "1") for code in languages for line in chosen for other in languages])


if __name__ == "__main__":
    main()
