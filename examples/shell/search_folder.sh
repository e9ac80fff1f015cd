#!/usr/bin/env bash
# Indexes a folder of text files in any languages and searches it with a question in any other language: search_folder.sh FOLDER QUESTION
set -euo pipefail
. "$(dirname "$0")/call.sh"
folder=$1 question=$2

call collections/example-folder >/dev/null 2>&1 ||
    call collections -H 'content-type: application/json' -d '{"name": "example-folder"}' >/dev/null

# TSV needs no escapes: a cell is everything between two tabs.
table() {
    printf 'id\ttext\n'
    for file in "$folder"/*.txt; do
        printf '%s\t%s\n' "$(basename "$file")" "$(tr '\n\t' '  ' <"$file")"
    done
}
job=$(table | call collections/example-folder/import -H 'content-type: text/tab-separated-values' --data-binary @- | member id)
wait_for "$job"
call "jobs/$job/results?status=failed" >&2

query=$(printf '%s\n' "$question" | strings -)
call collections/example-folder/search -H 'content-type: application/json' -d "{\"query\": $query, \"limit\": 3, \"include\": []}" |
    grep -o '"id":"[^"]*","score":[0-9.]*' | sed 's/"id":"\(.*\)","score":\(....\).*/\2  \1/'
