#!/usr/bin/env bash
# Learns labels from examples in one language (one "LABEL<tab>TEXT" per line) and labels messages in any other language:
# classify_messages.sh EXAMPLES MESSAGE...
set -euo pipefail
. "$(dirname "$0")/call.sh"
file=$1
shift

examples=$(sed 's/\\/\\\\/g; s/"/\\"/g; s/\(.*\)\t\(.*\)/{"text": "\2", "labels": ["\1"]}/' "$file" | paste -sd,)
printf '{"name": "example-messages", "kind": "knn", "knn": {"neighbors": 4}, "examples": [%s]}' "$examples" |
    call classifiers -H 'content-type: application/json' --data-binary @- >/dev/null
trap 'call classifiers/example-messages -X DELETE' EXIT
wait_for "$(call classifiers/example-messages | member job)"

printf '{"texts": [%s], "scores": 1}' "$(printf '%s\n' "$@" | strings -)" |
    call classifiers/example-messages/predict -H 'content-type: application/json' --data-binary @- |
    grep -o '"scores":\[{"label":"[^"]*"' | cut -d'"' -f6 | paste - <(printf '%s\n' "$@")
