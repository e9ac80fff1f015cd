#!/usr/bin/env bash
# Collects everything needed to run the server in one folder: the stripped program, ONNX Runtime, the shipped model, the licenses,
# and, if the program has the commands for them, shell completions and a man page.
#
#     scripts/package.sh PROGRAM FOLDER
#
# An existing folder is replaced. The program finds the library and the model next to itself. Needs the output of `make runtime`,
# and cargo for the list of licenses.
set -euo pipefail
program=$(realpath "$1") folder=$(realpath --canonicalize-missing "$2")
cd "$(dirname "$0")/.."
rm -rf "$folder"
mkdir -p "$folder/models"
strip -o "$folder/dragoman" "$program"
cp .runtime/onnxruntime/libonnxruntime.so LICENSE "$folder"
for name in LICENSE ThirdPartyNotices.txt; do
    cp ".runtime/onnxruntime/$name" "$folder/onnxruntime-$name"
done
cp -r models/ems-small "$folder/models/"
python3 scripts/licenses.py "$(uname -m)-unknown-linux-gnu" >"$folder/third-party-licenses.txt"

for shell in bash zsh fish; do
    mkdir -p "$folder/completions"
    "$folder/dragoman" completions "$shell" >"$folder/completions/dragoman.$shell" 2>/dev/null || rm -rf "$folder/completions"
done
"$folder/dragoman" man >"$folder/dragoman.1" 2>/dev/null || rm -f "$folder/dragoman.1"
chmod -R u=rwX,go=rX "$folder"
