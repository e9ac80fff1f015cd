#!/bin/sh
# Creates the database at the first start, then runs the server on all addresses, for every user with a password.
set -eu
data=/var/lib/postgresql/data
if [ ! -s "$data/PG_VERSION" ]; then
    [ -n "$POSTGRES_PASSWORD" ] || { echo "POSTGRES_PASSWORD is not set" >&2; exit 1; }
    echo "$POSTGRES_PASSWORD" >/tmp/password
    initdb --username "$POSTGRES_USER" --pwfile /tmp/password --auth scram-sha-256 --encoding UTF8 --locale C.UTF-8 "$data" >/dev/null
    rm /tmp/password
    echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
    echo "create database \"$POSTGRES_DB\"" | postgres --single -D "$data" postgres >/dev/null
fi
exec postgres -D "$data" -c "listen_addresses=*" -c unix_socket_directories=/tmp
