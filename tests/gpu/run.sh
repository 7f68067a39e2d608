#!/usr/bin/env bash
# run.sh: the device conformance suite, the kernels' tests, a server's and a benchmark on this
# machine's GPU, and a folder to carry to another machine.
#
# Builds the preset cuda's tests and puts them with the shared libraries that they need, but for
# CUDA's, into build/gpu-bundle/, and that into build/gpu-bundle.tar.xz, to be carried. There `run`
# needs no package of ours, only a driver, CUDA 13's libraries and a glibc at least as new as the one
# here; what is of a server needs the client's dependencies, and the benchmark PyTorch. Without a GPU
# it says so, skips what needs one, and exits 0.
set -euo pipefail
cd "$(dirname "$0")/../.."
bundle=build/gpu-bundle
programs=(formwork_device_tests formwork_gpu_tests engine_bench formwork-server)

mkdir -p build
cmake --preset cuda -DFORMWORK_BUILD_BENCH=ON >build/configure-cuda.log 2>&1 ||
  { cat build/configure-cuda.log; exit 1; }
cmake --build --preset cuda --target "${programs[@]}" -- --quiet

rm -rf "$bundle"
mkdir -p "$bundle/lib" "$bundle/tests/ops"
for program in "${programs[@]}"; do
  binary=build/cuda/bin/$program
  missing=$(ldd "$binary" | awk '/not found/ {print $1}')
  if [ -n "$missing" ]; then
    echo "$program: libraries not found: $missing" >&2
    exit 1
  fi
  strip -o "$bundle/$program" "$binary"
  # The C library, the driver and CUDA belong to the machine that runs it.
  ldd "$binary" | awk '$2 == "=>" {print $3}' |
    grep -Ev '/lib(c|m|dl|pthread|rt|resolv|cuda|cudart|nvrtc|cublas|cublasLt)\.so|/ld-linux' |
    xargs -r -I{} cp -Lu {} "$bundle/lib/"
done
cp tests/ops/*.optest "$bundle/tests/ops/"
cp tests/gpu/bench.py tests/gpu/server_checks.py tests/bench/rounds.py "$bundle/"
mkdir "$bundle/python"
cp -r build/venv/lib/python3*/site-packages/formwork "$bundle/python/"
build/venv/bin/python tests/gpu/functions.py "$bundle/functions" 2>build/gpu-functions.log ||
  { cat build/gpu-functions.log; exit 1; }

cat >"$bundle/run" <<'RUN'
#!/usr/bin/env bash
# run [GTEST FLAGS OF THE KERNELS' TESTS]: the tests on a GPU, the benchmark beside PyTorch, whose results are in
# results.json, and a last line that counts the tests. Exits 0 if none failed.
set -uo pipefail
cd "$(dirname "$0")"
# CUDA's libraries where its installer, or pip, puts them.
for folder in /usr/local/cuda/lib64 $(python3 -c 'import site, sys
for p in site.getsitepackages() + sys.path: print(p)' 2>/dev/null | sed 's:$:/nvidia/*/lib:'); do
  [ -d "$folder" ] && LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
done
export LD_LIBRARY_PATH="$PWD/lib:${LD_LIBRARY_PATH:-}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
./formwork_device_tests --gtest_filter='*/cuda' 2>&1 | tee "$log" || status=1
./formwork_gpu_tests "$@" 2>&1 | tee -a "$log" || status=1
count() { grep -cE "^\[ +$1 \] [A-Za-z]+[/.][A-Za-z/.]+.* \([0-9]+ ms\)$" "$log"; }
# Tests of plans skip where cuDNN is missing, all others where a GPU is.
has_gpu() { ! grep -E '^\[ +SKIPPED \] ' "$log" | grep -qv CudnnPlansTest; }
if has_gpu; then
  if python3 -c 'import google.protobuf, grpc, ml_dtypes, numpy' 2>/dev/null; then
    PYTHONPATH=python python3 server_checks.py --server ./formwork-server --functions functions 2>&1 |
      tee -a "$log" || status=1
  else
    echo "no grpcio, protobuf, ml_dtypes or numpy: the server is not tried"
  fi
fi
passed=$(count OK); failed=$(count FAILED); skipped=$(count SKIPPED)
if [ $((passed + failed + skipped)) = 0 ]; then
  echo "no test ran" >&2
  [ "$status" != 0 ] || status=1
fi
if has_gpu; then
  python3 bench.py --engine ./engine_bench --functions functions --out results.json
else
  echo "no GPU that this build can use is at hand"
fi
echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
RUN
chmod +x "$bundle/run"
XZ_OPT=-T0 tar -C build -cJf "$bundle.tar.xz" "${bundle#build/}"
mib=$(du -m --apparent-size "$bundle.tar.xz" | cut -f1)
echo "$bundle.tar.xz: $mib MiB, $(du -sm "$bundle" | cut -f1) unpacked"
[ "$mib" -le 60 ] || { echo "the bundle is larger than 60 MiB" >&2; exit 1; }
exec "$bundle/run"
