#!/usr/bin/env bash
# Finds the sentences of two files, one per line, that are translations of each other: align_texts.sh FIRST SECOND
set -euo pipefail
. "$(dirname "$0")/call.sh"

job=$(printf '{"first": {"texts": [%s]}, "second": {"texts": [%s]}, "threshold": 1.2}' "$(strings "$1")" "$(strings "$2")" |
    call mine -H 'content-type: application/json' --data-binary @- | member id)
wait_for "$job"
call "jobs/$job/pairs.tsv"
