#!/usr/bin/env bash
# Tests the client packages as users install them: builds clients/python and clients/typescript, installs the packages into a
# fresh virtual environment and a fresh folder, and runs their tests, their READMEs, docs/clients.md and examples/ against live
# servers.
#
#     scripts/client_packages.sh [PROGRAM]
#
# PROGRAM is the `dragoman` to run; it defaults to DRAGOMAN_PROGRAM, then to what cargo built in target/. Needs Python 3.10 with
# pip and venv, Node 20 with npm, and cargo; everything else is pinned and comes from PyPI, npm and the Rust registry into
# .runtime/clients-python, .runtime/clients-typescript and .runtime/examples-rust.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD python=$PWD/.runtime/clients-python node=$PWD/.runtime/clients-typescript
program=${1:-${DRAGOMAN_PROGRAM:-}}
for built in target/release/dragoman target/debug/dragoman; do
    [ -n "$program" ] || { [ -x "$built" ] && program=$built; } || true
done
[ -n "$program" ] || { echo "error: there is no program; build one with cargo, or name one" >&2; exit 1; }
DRAGOMAN_PROGRAM=$(realpath "$program")
export DRAGOMAN_PROGRAM DRAGOMAN_ROOT=$root
export ORT_DYLIB_PATH=${ORT_DYLIB_PATH:-$root/.runtime/onnxruntime/libonnxruntime.so}
say() { printf '\n== %s\n' "$*"; }

say "python: what the tests need"
requirements=clients/python/requirements-test.txt
if ! cmp -s "$requirements" "$python/requirements"; then
    rm -rf "$python" && mkdir -p "$python"
    python3 -m venv "$python/venv"
    "$python/venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"
    cp "$requirements" "$python/requirements"
fi
bin=$python/venv/bin

say "python: types (mypy --strict) and style (ruff)"
(cd clients/python && "$bin/mypy" --cache-dir "$python/mypy" src tests)
"$bin/ruff" check --no-cache --config clients/python/pyproject.toml clients/python examples/python
"$bin/ruff" format --no-cache --config clients/python/pyproject.toml --check clients/python examples/python

say "python: the wheel, built and installed"
rm -rf "$python/dist"
"$bin/python" -m build --wheel --no-isolation --outdir "$python/dist" clients/python >"$python/build.log" || { cat "$python/build.log"; exit 1; }
"$bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$python"/dist/*.whl
ls "$python/dist"

say "python: tests"
"$bin/pytest" -q -p no:cacheprovider -c clients/python/pyproject.toml --rootdir clients/python clients/python/tests

say "typescript: what building and testing need"
if ! cmp -s clients/typescript/package-lock.json "$node/installed"; then
    rm -rf "$node" && mkdir -p "$node"
    cp clients/typescript/package-lock.json clients/typescript/package.json clients/typescript/.npmrc "$node/"
    (cd "$node" && npm ci --loglevel=error --no-audit --no-fund --ignore-scripts)
    cp clients/typescript/package-lock.json "$node/installed"
fi
tsc=$node/node_modules/.bin/tsc

say "typescript: the package, built and installed into a folder of its own"
rm -rf "$node/package" "$node/tests" && mkdir -p "$node/package" "$node/tests"
cp -r clients/typescript/{src,package.json,tsconfig.json,README.md} "$node/package/"
"$tsc" --project "$node/package/tsconfig.json"
npm pack "$node/package" --loglevel=error --ignore-scripts --pack-destination "$node/tests" >"$node/pack.log" || { cat "$node/pack.log"; exit 1; }
echo '{"private": true, "type": "module"}' >"$node/tests/package.json"
(cd "$node/tests" && npm install --loglevel=error --no-audit --no-fund --no-save ./*.tgz)
ls "$node"/tests/*.tgz

say "typescript: types against the description, and tests"
"$node/node_modules/.bin/openapi-typescript" openapi/openapi.json --output "$node/tests/schema.ts"
cp clients/typescript/tests/* examples/typescript/*.ts "$node/tests/"
"$tsc" --project "$node/tests/tsconfig.json"
node --test --test-reporter=spec "$node"/tests/built/*.test.js

say "documents and examples, against a live server"
export CARGO_TARGET_DIR=$root/.runtime/examples-rust
PYTHONPATH=clients/python/tests "$bin/python" clients/python/tests/documents.py "$node/tests"
say "both packages work"
