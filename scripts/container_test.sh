#!/usr/bin/env bash
# Builds the image with a real Docker engine and runs it as in docker-compose.yml: it must start with a read-only root as user
# 10001, keep documents over a restart and over `down`, and report a data folder that it cannot write. Prints the image's size and
# startup time.
#
#     scripts/container_test.sh PROGRAM
#
# PROGRAM is the built `dragoman` to package, so that no toolchain has to be downloaded. Needs a Docker engine with BuildKit and
# compose, curl, and the output of `make runtime`; without an engine, it prints a message and exits with 0. If a base image cannot
# be pulled, a stand-in with its name is made, from Debian's packages (root and debootstrap) or, for the database, from the tests'
# PostgreSQL, and removed at the end. To start an engine for a test, as root:
#
#     dockerd --data-root DIR/data --exec-root DIR/run --pidfile DIR/pid --host unix://DIR/socket --iptables=false
#     DOCKER_HOST=unix://DIR/socket make container-test
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/.."

IMAGE_MB_MAX=150
DEBIAN=$(sed -n 's/^ARG DEBIAN=//p' Dockerfile)
PROMETHEUS=$(sed -n 's/^ *image: \(prom\/prometheus:.*\)$/\1/p' docker-compose.yml)
PGVECTOR=$(sed -n 's/^ *image: \(pgvector\/pgvector:.*\)$/\1/p' docker-compose.yml)
project=dragoman-test-$$
export DRAGOMAN_IMAGE=$project:test DOCKER_BUILDKIT=1 COMPOSE_DOCKER_CLI_BUILD=1

say() { printf '\n== %s\n' "$*"; }
skip() { printf 'skipped: %s\n' "$*"; exit 0; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

command -v docker >/dev/null || skip "there is no docker command"
docker info >/dev/null 2>&1 || skip "no Docker engine answers: $(docker info 2>&1 | grep -im1 'cannot connect\|error' || true)"
# A newly installed client has no BuildKit without the buildx plugin; an older client from the system may have it.
has_buildkit() { printf 'FROM scratch\nLABEL probe=yes\n' | "$1" build --quiet --tag "$project:probe" - >/dev/null 2>&1; }
if ! has_buildkit docker; then
    has_buildkit /usr/bin/docker || skip "the docker command cannot build with BuildKit: its plugin buildx is missing"
    docker() { /usr/bin/docker "$@"; }
fi
if docker compose version >/dev/null 2>&1; then compose() { docker compose --project-name "$project" "$@"; }
elif command -v docker-compose >/dev/null; then compose() { docker-compose --project-name "$project" "$@"; }
else skip "there is no compose: neither docker compose nor docker-compose"; fi

work=$(mktemp -d)
made=()
clean_up() {
    compose --profile observability --profile postgres down --volumes --timeout 10 >/dev/null 2>&1 || true
    docker rmi --force "$project:probe" "$DRAGOMAN_IMAGE" "${made[@]}" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean_up EXIT

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
now_ms() { date +%s%3N; }
# Calls the server: METHOD PATH [BODY].
call() {
    curl --silent --show-error --fail-with-body --max-time 30 --request "$1" "http://$DRAGOMAN_PUBLISHED$2" \
        -H 'content-type: application/json' ${3:+--data "$3"}
}
await_ready() {
    for _ in $(seq 600); do
        if curl --silent --fail --max-time 2 --output /dev/null "http://$DRAGOMAN_PUBLISHED/readyz"; then return; fi
        sleep 0.05
    done
    compose logs dragoman | tail -20
    fail "the server is not ready after 30 s"
}
# Checks that a question finds the document `de`.
check_found() {
    local answer
    answer=$(call POST /v1/collections/news/search '{"query": "no trains because of the strike", "limit": 1}' 2>&1) || true
    case $answer in *'"id":"de"'*) ;; *) fail "$1: $answer" ;; esac
}

say "base image: $DEBIAN"
if ! docker image inspect "$DEBIAN" >/dev/null 2>&1 && ! docker pull --quiet "$DEBIAN" 2>/dev/null; then
    if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
        skip "$DEBIAN cannot be pulled, and a stand-in takes root and debootstrap"
    fi
    release=${DEBIAN#*:}
    debootstrap --variant=minbase "${release%-slim}" "$work/debian" >"$work/debootstrap.log" 2>&1 || {
        tail -3 "$work/debootstrap.log"
        skip "$DEBIAN cannot be pulled, and debootstrap cannot make a stand-in"
    }
    tar --directory "$work/debian" --create . | docker import - "$DEBIAN" >/dev/null
    rm -rf "$work/debian"
    made+=("$DEBIAN")
    echo "a stand-in, made by debootstrap"
fi

say "build"
scripts/package.sh "$program" "$work/package"
docker build --quiet --build-arg PROGRAM=packaged --file Dockerfile --target cpu --tag "$DRAGOMAN_IMAGE" "$work/package"
bytes=$(docker image inspect --format '{{.Size}}' "$DRAGOMAN_IMAGE")
echo "size: $((bytes / 1000000)) MB, of it the program $(($(stat --format %s "$work/package/dragoman") / 1000000)) MB"
[ "$bytes" -le $((IMAGE_MB_MAX * 1000000)) ] || fail "the image has more than $IMAGE_MB_MAX MB"
[ "$(docker image inspect --format '{{.Config.User}}' "$DRAGOMAN_IMAGE")" = 10001:10001 ] || fail "the image has another user than 10001:10001"
docker run --rm --read-only --entrypoint dragoman "$DRAGOMAN_IMAGE" --version

say "compose: the file, with every profile"
compose --profile gpu --profile observability --profile postgres config >"$work/compose.yml"

say "up"
export DRAGOMAN_PUBLISHED=127.0.0.1:$(free_port)
begun=$(now_ms)
compose up --no-build --detach dragoman
await_ready
echo "ready $(($(now_ms) - begun)) ms after up began"
id=$(compose ps --quiet dragoman)
[ "$(docker inspect --format '{{.HostConfig.ReadonlyRootfs}}' "$id")" = true ] || fail "the root can be written"
docker top "$id" -eo uid,gid,pid,comm >"$work/top"
grep -qE '^ *10001 +10001 .*dragoman' "$work/top" || fail "the server runs as another user: $(cat "$work/top")"
started=$(date +%s%3N --date "$(docker inspect --format '{{.State.StartedAt}}' "$id")")
docker logs --timestamps "$id" >"$work/log" 2>&1
listening=$(sed -n '/ listening /{s/ .*//p;q}' "$work/log")
echo "listening $(($(date +%s%3N --date "$listening") - started)) ms after the container had started"

say "documents, through HTTP and through the command line in the container"
call POST /v1/collections '{"name": "news"}' >/dev/null
call POST /v1/collections/news/documents '{"documents": [
    {"id": "de", "text": "Wegen eines Streiks fahren am Freitag keine Züge."},
    {"id": "fr", "text": "De fortes pluies sont attendues demain dans tout le nord du pays."}]}' >/dev/null
check_found "the document is not found"
# Reads all output, because `grep -q` exits at the first match and docker would fail to write the rest.
found=$(docker exec "$id" dragoman search news "there are no trains")
[[ $found == *Streiks* ]] || fail "the command line in the container does not find it: $found"
docker exec "$id" dragoman health || fail "the server does not call itself well"

say "restart"
begun=$(now_ms)
compose restart dragoman
await_ready
echo "stopped, started and ready in $(($(now_ms) - begun)) ms"
check_found "the document is lost after a restart"
for _ in $(seq 300); do
    health=$(docker inspect --format '{{.State.Health.Status}}' "$id")
    [ "$health" = starting ] || break
    sleep 0.1
done
[ "$health" = healthy ] || fail "the health check says $health"

say "down keeps the volume"
compose down --timeout 60
docker volume inspect "${project}_data" >/dev/null || fail "down removed the data"
compose up --no-build --detach dragoman
await_ready
check_found "the document is lost after down"

say "metrics"
curl --silent --fail "http://$DRAGOMAN_PUBLISHED/metrics" >"$work/metrics"
if command -v promtool >/dev/null; then
    promtool check metrics <"$work/metrics"
    promtool check config observability/prometheus.yml
    promtool test rules observability/alerts.test.yml
else
    echo "skipped: there is no promtool"
fi
python3 - <<'PYTHON'
import json, pathlib
for path in pathlib.Path("observability").rglob("*.json"):
    json.loads(path.read_text())
PYTHON

say "the profile observability: Prometheus"
if ! docker image inspect "$PROMETHEUS" >/dev/null 2>&1 && ! docker pull --quiet "$PROMETHEUS" 2>/dev/null && command -v prometheus >/dev/null; then
    mkdir "$work/prometheus"
    cp "$(command -v prometheus)" "$work/prometheus/"
    printf 'FROM %s\nCOPY prometheus /bin/\nRUN install -d -o 65534 -g 65534 /prometheus\nUSER 65534\nENTRYPOINT ["/bin/prometheus"]\n' "$DEBIAN" \
        >"$work/prometheus/Dockerfile"
    docker build --quiet --tag "$PROMETHEUS" "$work/prometheus" >/dev/null
    made+=("$PROMETHEUS")
    echo "a stand-in, with this machine's prometheus"
fi
if docker image inspect "$PROMETHEUS" >/dev/null 2>&1; then
    export PROMETHEUS_PUBLISHED=127.0.0.1:$(free_port)
    compose --profile observability up --no-build --detach dragoman prometheus
    await_ready
    for _ in $(seq 60); do
        documents=$(curl --silent --get "http://$PROMETHEUS_PUBLISHED/api/v1/query" --data-urlencode 'query=sum(dragoman_collection_documents)' || true)
        case $documents in *'"2"]'*) break ;; esac
        sleep 1
    done
    case $documents in *'"2"]'*) echo "it has scraped the server: $documents" ;; *) fail "Prometheus has not scraped the server: $documents" ;; esac
else
    echo "skipped: $PROMETHEUS cannot be pulled, and this machine has no prometheus for a stand-in"
fi

say "the profile postgres: two servers over one database"
if ! docker image inspect "$PGVECTOR" >/dev/null 2>&1 && ! docker pull --quiet "$PGVECTOR" 2>/dev/null && [ -d .runtime/postgres ]; then
    cp -r scripts/postgres_stand_in "$work/postgres"
    cp -r .runtime/postgres "$work/postgres/runtime"
    docker build --quiet --build-arg DEBIAN="$DEBIAN" --tag "$PGVECTOR" "$work/postgres" >/dev/null
    made+=("$PGVECTOR")
    echo "a stand-in, with the database of this checkout's tests"
fi
if docker image inspect "$PGVECTOR" >/dev/null 2>&1; then
    compose down --timeout 60
    export POSTGRES_PASSWORD=test$$ FIRST_PUBLISHED=127.0.0.1:$(free_port) SECOND_PUBLISHED=127.0.0.1:$(free_port)
    compose --profile postgres up --no-build --detach dragoman-1 dragoman-2
    [ -z "$(docker port "$(compose --profile postgres ps --quiet database)")" ] || fail "the database is published"
    for DRAGOMAN_PUBLISHED in "$FIRST_PUBLISHED" "$SECOND_PUBLISHED"; do await_ready; done
    DRAGOMAN_PUBLISHED=$FIRST_PUBLISHED
    call POST /v1/collections '{"name": "news"}' >/dev/null
    call POST /v1/collections/news/documents '{"documents": [
        {"id": "de", "text": "Wegen eines Streiks fahren am Freitag keine Züge."}]}' >/dev/null
    DRAGOMAN_PUBLISHED=$SECOND_PUBLISHED
    check_found "the second server does not find what the first has stored"
    compose --profile postgres restart database
    # A request may arrive before the database is up again, so it is repeated.
    for _ in $(seq 60); do
        call POST /v1/collections/news/search '{"query": "trains"}' >/dev/null 2>&1 && break
        sleep 0.5
    done
    check_found "the document is lost after a restart of the database"
else
    echo "skipped: $PGVECTOR cannot be pulled, and there is no stand-in without \`make postgres-runtime\`"
fi

say "a folder that cannot be written is named, with the user"
mkdir --mode 755 "$work/mounted"
if docker run --rm --volume "$work/mounted:/data" --env DRAGOMAN_INSECURE=true "$DRAGOMAN_IMAGE" 2>"$work/refused"; then
    fail "the server runs on a folder of another user"
fi
tail -1 "$work/refused"
grep -q 'user 10001 of group 10001.*cannot write the data directory /data: /data belongs to user' "$work/refused" || fail "the error does not name path and user"
if docker run --rm --volume "$work/mounted:/data:ro" --env DRAGOMAN_INSECURE=true --user "$(id -u)" "$DRAGOMAN_IMAGE" 2>"$work/refused"; then
    fail "the server runs on a folder that is mounted read-only"
fi
tail -1 "$work/refused"
grep -q 'mounted read-only' "$work/refused" || fail "the error does not say that the folder is read-only"

say "all is well"
