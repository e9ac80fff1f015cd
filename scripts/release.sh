#!/usr/bin/env bash
# Makes dist/dragoman-VERSION-MACHINE-linux.tar.gz from the output of `scripts/package.sh`, for the current machine's
# architecture.
#
#     scripts/release.sh PROGRAM
#
# Linux only. Not tested on macOS, where ONNX Runtime has to come from elsewhere (ORT_DYLIB_PATH).
set -euo pipefail
if [ "$(uname -s)" != Linux ]; then
    echo "error: release archives can be made only on Linux, not on $(uname -s)" >&2
    exit 1
fi
program=$(realpath "$1")
cd "$(dirname "$0")/.."
version=$("$program" --version | cut -d ' ' -f 2)
name=dragoman-$version-$(uname -m)-linux
scripts/package.sh "$program" "dist/$name"
# Reproducible: the same content gives the same archive.
changed=$(git log -1 --format=%ct 2>/dev/null || echo 0)
tar --create --directory dist --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$changed" "$name" | gzip -9n >"dist/$name.tar.gz"
(cd dist && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
ls -l "dist/$name.tar.gz"
