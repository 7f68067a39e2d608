#!/usr/bin/env bash
# quickstart.sh: from a fresh Debian 12 to a model that is trained and served.
#
# Installs what is needed, builds, starts a server, lets two worker processes train a Keras network
# on it, serves predictions from a third, shows what the server holds, and stops it cleanly.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$1"; }

step "Installing packages"
bash deploy/setup.sh

step "Building (some minutes the first time)"
cmake --preset release >build/configure.log || { cat build/configure.log; exit 1; }
cmake --build --preset release -- --quiet

step "Starting the server"
log=build/quickstart-server.log
build/release/bin/formwork-server --port 0 --http-port 0 >"$log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
for _ in $(seq 100); do
  grep -q 'formwork-server ready' "$log" && break
  kill -0 "$server" 2>/dev/null || { cat "$log"; exit 1; }
  sleep 0.05
done
grpc=$(sed -n 's/.*formwork-server ready.* grpc=\([^ ]*\).*/\1/p' "$log" | head -n 1)
http=$(sed -n 's/.*formwork-server ready.* http=\([^ ]*\).*/\1/p' "$log" | head -n 1)
[ -n "$grpc" ] || { cat "$log"; exit 1; }
echo "gRPC on $grpc, HTTP on $http"

step "Training handwritten digits with two workers, then serving them"
build/venv/bin/python client/python/examples/digits.py --server "$grpc"

step "formwork functions"
build/release/bin/formwork --server "$grpc" functions
step "formwork variables"
build/release/bin/formwork --server "$grpc" variables | head -n 25

step "Metrics"
build/venv/bin/python - "$http" <<'PY'
import sys, urllib.request
text = urllib.request.urlopen("http://%s/metrics" % sys.argv[1]).read().decode()
wanted = ("formwork_calls_total", "formwork_variables", "formwork_function_cache_", "formwork_variable_bytes")
for line in text.splitlines():
  if line.startswith(wanted) and not line.endswith("} 0"):
    print(line)
PY

step "Stopping the server"
kill -TERM "$server"
wait "$server"
trap - EXIT
echo "The server has stopped cleanly."
