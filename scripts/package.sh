#!/usr/bin/env bash
# Gathers what runs the server in one folder: the program without symbols, ONNX Runtime, the shipped model, the licenses; and what the
# program can say of itself for shells and readers, completions and a man page, where it has the commands for that.
#
#     scripts/package.sh PROGRAM FOLDER
#
# The folder is made anew. The program finds library and model beside itself. Needs what `make runtime` fetches, and cargo for the list
# of licenses.
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
