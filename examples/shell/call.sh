# The examples in this folder source it: `call PATH [curl's options]` sends a request, `wait_for JOB` waits until a job has ended.
# DRAGOMAN_SERVER is the server's address, DRAGOMAN_KEY an API key. Answers are JSON on one line, so grep can read a member.

call() {
    local path=$1
    shift
    # The key goes through a file descriptor, because other users of the machine can see a program's arguments.
    curl --silent --show-error --fail-with-body --config <(printf 'header = "authorization: Bearer %s"\n' "${DRAGOMAN_KEY:-none}") \
        "${DRAGOMAN_SERVER:-http://127.0.0.1:7700}/v1/$path" "$@"
}

# Prints the first member of this name in JSON on standard input, if it is a string.
member() { grep -o "\"$1\":\"[^\"]*\"" | head -1 | cut -d'"' -f4; }

wait_for() {
    local status=queued
    while [ "$status" = queued ] || [ "$status" = running ]; do
        sleep 0.2
        status=$(call "jobs/$1" | member status)
    done
    [ "$status" = succeeded ] || { echo "job $1: $status" >&2; return 1; }
}

# Prints each line of a file as a JSON string, separated by commas.
strings() { sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&"/' "$1" | paste -sd,; }
