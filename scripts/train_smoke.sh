#!/usr/bin/env bash
# Goes from a few sentences to a bundle in about a minute: runs the main subcommands of the trainer once each, on text written
# here.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=runs/smoke
config=training/configs/smoke.toml
rm -rf "$folder"
mkdir -p "$folder/raw"
$(command -v python3) - "$folder/raw" <<'PYTHON'
import itertools, pathlib, sys

folder = pathlib.Path(sys.argv[1])
words = {
    "en": (["the dog", "the cat", "my brother", "the teacher"], ["sees", "likes", "finds"], ["the house", "the river", "a book", "the bread"]),
    "de": (["der Hund", "die Katze", "mein Bruder", "der Lehrer"], ["sieht", "mag", "findet"], ["das Haus", "den Fluss", "ein Buch", "das Brot"]),
    "fr": (["le chien", "le chat", "mon frère", "le professeur"], ["voit", "aime", "trouve"], ["la maison", "la rivière", "un livre", "le pain"]),
}
for code, parts in words.items():
    lines = [" ".join(sentence) + "." for sentence in itertools.product(*parts)]
    (folder / f"tiny.{code}.txt").write_text("\n".join(lines) + "\n")
PYTHON
train() { cargo run --quiet --release -p dragoman-training -- "$@"; }
train tokenizer --config "$config" --raw "$folder/raw" --out "$folder/tokenizer.json"
train prepare --raw "$folder/raw" --tokenizer "$folder/tokenizer.json" --out "$folder/shards"
train train --config "$config" --data "$folder/shards" --tokenizer "$folder/tokenizer.json" --run "$folder/run"
train export --config "$config" --weights "$folder/run/joint.safetensors" --tokenizer "$folder/tokenizer.json" \
    --bundle-version 0.0.1 --out "$folder/bundle" --calibration "$folder/raw"
ls -l "$folder/bundle"
