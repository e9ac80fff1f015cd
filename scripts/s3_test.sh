#!/usr/bin/env bash
# Tests scheduled snapshots against an independent S3 server (moto, pinned, from PyPI, in .runtime/s3-test): a server stores its
# snapshots in a bucket and prunes them, and an empty server restores the newest one.
#
#     scripts/s3_test.sh [PROGRAM]
#
# PROGRAM is the `dragoman` to run; it defaults to DRAGOMAN_PROGRAM, then to what cargo built in target/. Needs Python 3.10 with
# pip and venv.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-${DRAGOMAN_PROGRAM:-}}
for built in target/release/dragoman target/debug/dragoman; do
    [ -n "$program" ] || { [ -x "$built" ] && program=$built; } || true
done
[ -n "$program" ] || { echo "error: there is no program; build one with cargo, or name one" >&2; exit 1; }
moto=.runtime/s3-test
if [ ! -x "$moto/bin/moto_server" ]; then
    python3 -m venv "$moto"
    "$moto/bin/pip" install --quiet --disable-pip-version-check 'moto[server]==5.1.22'
fi
export AWS_ACCESS_KEY_ID=reader AWS_SECRET_ACCESS_KEY=secret AWS_REGION=us-east-1 NO_PROXY=127.0.0.1
folder=$(mktemp -d)
started=()
finish() { for id in "${started[@]}"; do kill "$id" 2>/dev/null || true; done; rm -rf "$folder"; }
trap finish EXIT
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# Waits up to a minute until a command succeeds.
until_done() { for _ in $(seq 120); do if "$@" >/dev/null 2>&1; then return 0; fi; sleep 0.5; done; echo "error: did not succeed within a minute: $*" >&2; exit 1; }
serve() { "$program" serve --model fake:8 --listen "127.0.0.1:$1" --data "$folder/$1" "${@:2}" 2>"$folder/log-$1" & started+=($!); }

s3=$(port)
"$moto/bin/moto_server" -H 127.0.0.1 -p "$s3" >"$folder/moto" 2>&1 & started+=($!)
until_done curl -sf "http://127.0.0.1:$s3/"
curl -sf -X PUT "http://127.0.0.1:$s3/backups" >/dev/null
target=(--target s3://backups/one --endpoint "http://127.0.0.1:$s3")

first=$(port)
serve "$first" --snapshot-target s3://backups/one --snapshot-endpoint "http://127.0.0.1:$s3" --snapshot-interval-s 1 --snapshot-keep 2
url=http://127.0.0.1:$first
until_done curl -sf "$url/readyz"
unchanged() { curl -sf "$url/metrics" | sed -n 's/^dragoman_scheduled_snapshots_total{result="unchanged"} //p'; }
more_than() { [ "$(unchanged)" -gt "$1" ]; }
curl -sf "$url/v1/collections" -H 'content-type: application/json' -d '{"name": "news"}' >/dev/null
for number in 1 2 3; do
    curl -sf "$url/v1/collections/news/documents" -H 'content-type: application/json' \
        -d "{\"documents\": [{\"id\": \"$number\", \"text\": \"number $number\"}]}" >/dev/null
    until_done more_than "$(unchanged)"
done
listed=$("$program" snapshot list "${target[@]}" --json | wc -l)
[ "$listed" = 2 ] || { echo "error: the bucket has $listed snapshots, not 2" >&2; exit 1; }

second=$(port)
serve "$second"
until_done curl -sf "http://127.0.0.1:$second/readyz"
"$program" snapshot restore latest "${target[@]}" --server "http://127.0.0.1:$second"
documents=$(curl -sf "http://127.0.0.1:$second/v1/collections/news" | python3 -c 'import json, sys; print(json.load(sys.stdin)["documents"])')
[ "$documents" = 3 ] || { echo "error: $documents documents were restored, not 3" >&2; exit 1; }
echo "a server stored its snapshots in S3, and another one restored the newest"
