#!/usr/bin/env bash
# run.sh [NAME...]: measures Formwork beside its peers in one run, prints a table of ratios (our time
# / the peer's, medians) and writes build/bench/results.json. No test: nothing is asserted.
# run.sh peers [NAME...]: the engine beside TensorFlow, XLA, ONNX Runtime and OpenVINO on models, one
# thread and then two. They are installed into build/bench-peers.
# run.sh state: snapshots of a gigabyte of variables, and the calls beside them; increments a second
# in memory and with each on disk, and beside TensorFlow's remote runtime; readers beside a writer.
# run.sh ops [NAME...]: single ops beside TensorFlow, by dtypes and sizes, and families of ops with their
# geometric means (NAME "families": these alone).
# run.sh data [NAME...]: pipelines of tf.data beside TensorFlow's, elements per second.
set -euo pipefail
cd "$(dirname "$0")/../.."
bash deploy/setup.sh
mkdir -p build/bench
cmake --preset release -DFORMWORK_BUILD_BENCH=ON >build/configure.log || { cat build/configure.log; exit 1; }
cmake --build --preset release -- --quiet
bin=build/release/bin

if [ "${1:-}" = peers ]; then
  shift
  peers=build/bench-peers/bin
  if ! "$peers/python" -c 'import tensorflow, onnxruntime, openvino, tf2onnx' >/dev/null 2>&1; then
    /usr/bin/python3 -m venv build/bench-peers
    "$peers/pip" install -q --disable-pip-version-check tensorflow-cpu==2.21.0 onnx onnxruntime \
      openvino requests
    # It asks for an older protobuf than TensorFlow needs, and works with this one.
    "$peers/pip" install -q --disable-pip-version-check --no-deps tf2onnx
  fi
  for threads in 1 2; do
    "$peers/python" tests/bench/peers.py --engine "$bin/engine_bench" --threads "$threads" \
      --out "build/bench/peers-$threads.json" "$@"
  done
  exit
fi
if [ "${1:-}" = state ]; then
  build/venv/bin/python tests/bench/state_bench.py --server "$bin/formwork-server" \
    --out build/bench/state.json
  build/venv/bin/python tests/bench/commit_bench.py --server "$bin/formwork-server" \
    --bench "$bin/commit_bench" --out build/bench/commit.json
  build/venv/bin/python tests/bench/readers_bench.py --server "$bin/formwork-server" \
    --bench "$bin/commit_bench" --out build/bench/readers.json
  exit
fi
if [ "${1:-}" = ops ]; then
  shift
  build/venv/bin/python tests/bench/ops.py --engine "$bin/engine_bench" \
    --out build/bench/ops.json "$@"
  exit
fi
if [ "${1:-}" = data ]; then
  shift
  build/venv/bin/python tests/bench/data.py --engine "$bin/engine_bench" \
    --out build/bench/data.json "$@"
  exit
fi
start() {  # LOG COMMAND...: runs a server and waits for its ready line
  local log=$1; shift
  "$@" >"$log" 2>&1 &
  pids+=($!)
  for _ in $(seq 100); do grep -q ready "$log" && return; sleep 0.05; done
  cat "$log"; exit 1
}
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true' EXIT
address() { sed -n 's/.*grpc=\([^ ]*\).*/\1/p' "$1" | head -n 1; }

start build/bench/server.log "$bin/formwork-server" --port 0 --http-port 0
start build/bench/echo.log "$bin/echo_server" 0
server=$(address build/bench/server.log)
echo=127.0.0.1:$(sed -n 's/^echo ready //p' build/bench/echo.log)

"$bin/grpc_bench" "$server" "$echo" >build/bench/grpc.jsonl
build/venv/bin/python tests/bench/python_bench.py --server "$server" --out build/bench/python.json
kill "${pids[@]}"; wait "${pids[@]}" 2>/dev/null || true; pids=()
build/venv/bin/python tests/bench/engine_bench.py --engine "$bin/engine_bench" \
  --out build/bench/engine.json "$@"
build/venv/bin/python tests/bench/report.py build/bench
