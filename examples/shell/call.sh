# Sourced by the examples beside it: `call PATH [curl's options]` asks the server, `wait_for JOB` waits until a job has ended.
# DRAGOMAN_SERVER and DRAGOMAN_KEY say where it is and who asks. Answers are JSON on one line, so grep is enough to read a member of them.

call() {
    local path=$1
    shift
    # The key goes through a file descriptor: arguments of a program can be seen by other users of the machine.
    curl --silent --show-error --fail-with-body --config <(printf 'header = "authorization: Bearer %s"\n' "${DRAGOMAN_KEY:-none}") \
        "${DRAGOMAN_SERVER:-http://127.0.0.1:7700}/v1/$path" "$@"
}

# The first member of this name in JSON on standard input, when it is a string.
member() { grep -o "\"$1\":\"[^\"]*\"" | head -1 | cut -d'"' -f4; }

wait_for() {
    local status=queued
    while [ "$status" = queued ] || [ "$status" = running ]; do
        sleep 0.2
        status=$(call "jobs/$1" | member status)
    done
    [ "$status" = succeeded ] || { echo "job $1: $status" >&2; return 1; }
}

# Each line of a file as a JSON string, with commas between.
strings() { sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&"/' "$1" | paste -sd,; }
