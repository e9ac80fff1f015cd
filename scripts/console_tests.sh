#!/bin/sh
# Clicks through the web console in headless Chromium (tests/console). Needs a built program, Node.js and Debian's package
# chromium, which is installed if this runs as root. npm packages, pinned by the lock file, and screenshots of all pages go to
# .runtime/console. If anything is missing, it prints a message and tests nothing.
set -eu
cd "$(dirname "$0")/.."

skip() {
    echo "skipped: $1"
    exit 0
}

command -v npm >/dev/null || skip "npm is missing (on Debian: the packages nodejs and npm)"
CHROMIUM="${CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}"
if [ -z "$CHROMIUM" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium fonts-noto-core fonts-noto-cjk fonts-noto-color-emoji >/dev/null
    CHROMIUM="$(command -v chromium || true)"
fi
[ -n "$CHROMIUM" ] || skip "chromium is missing (on Debian: the packages chromium, fonts-noto-core and fonts-noto-cjk)"
export CHROMIUM

DRAGOMAN_CONSOLE_MODULES="${DRAGOMAN_CONSOLE_MODULES:-$PWD/.runtime/console}"
export DRAGOMAN_CONSOLE_MODULES
mkdir -p "$DRAGOMAN_CONSOLE_MODULES"
cp tests/console/package.json tests/console/package-lock.json "$DRAGOMAN_CONSOLE_MODULES"
npm ci --prefix "$DRAGOMAN_CONSOLE_MODULES" --no-audit --no-fund --silent
node --test --test-concurrency=1 --test-reporter=spec tests/console/console.test.mjs
