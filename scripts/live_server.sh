# Sourced by scripts that need a live server: `live_server PROGRAM FOLDER` starts one on a free local port with its data in
# FOLDER, waits until it listens, and sets `address` (HOST:PORT). When the script exits, the server is stopped and FOLDER is
# removed.
live_server() {
    export ORT_DYLIB_PATH=${ORT_DYLIB_PATH:-$PWD/.runtime/onnxruntime/libonnxruntime.so}
    "$1" serve --listen 127.0.0.1:0 --data "$2/data" --log-format json 2>"$2/log" &
    live_server_process=$! live_server_folder=$2
    trap 'kill "$live_server_process" 2>/dev/null || true; wait "$live_server_process" 2>/dev/null || true; rm -rf "$live_server_folder"' EXIT
    address=
    for _ in $(seq 300); do
        address=$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' "$2/log" | head -1)
        [ -z "$address" ] || return 0
        kill -0 "$live_server_process" || break
        sleep 0.1
    done
    cat "$2/log" >&2
    echo "error: the server does not listen" >&2
    return 1
}
