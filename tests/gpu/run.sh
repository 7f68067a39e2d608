#!/usr/bin/env bash
# run.sh [BINARY]: the device conformance suite on this machine's GPU, and a folder to carry to
# another machine.
#
# Builds the preset cuda's formwork_device_tests, unless BINARY is given, and puts it with the
# shared libraries that it needs into build/gpu-bundle/. There `run` needs no package of ours, only
# a driver and a glibc at least as new as the one here. Without a GPU it says so, skips, and exits 0.
set -euo pipefail
cd "$(dirname "$0")/../.."
bundle=build/gpu-bundle

binary=${1:-}
if [ -z "$binary" ]; then
  mkdir -p build
  cmake --preset cuda >build/configure-cuda.log 2>&1 || { cat build/configure-cuda.log; exit 1; }
  cmake --build --preset cuda --target formwork_device_tests -- --quiet
  binary=build/cuda/bin/formwork_device_tests
fi

rm -rf "$bundle"
mkdir -p "$bundle/lib"
cp "$binary" "$bundle/formwork_device_tests"
missing=$(ldd "$binary" | awk '/not found/ {print $1}')
if [ -n "$missing" ]; then
  echo "libraries not found: $missing" >&2
  exit 1
fi
# The C library and the driver belong to the machine that runs it.
ldd "$binary" | awk '$2 == "=>" {print $3}' |
  grep -Ev '/(libc|libm|libdl|libpthread|librt|libresolv|ld-linux[^/]*|libcuda)\.so' |
  xargs -r -I{} cp -L {} "$bundle/lib/"

cat >"$bundle/run" <<'RUN'
#!/usr/bin/env bash
# run [GTEST FLAGS]: the tests on a GPU, and a last line that counts them. Exits 0 if none failed.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$here/formwork_device_tests" --gtest_filter='*/cuda' "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
count() { grep -cE "^\[ +$1 \] [A-Za-z]+/[A-Za-z]+\.[A-Za-z]+/cuda.* \([0-9]+ ms\)$" "$log"; }
passed=$(count OK); failed=$(count FAILED); skipped=$(count SKIPPED)
if [ $((passed + failed + skipped)) = 0 ]; then
  echo "no test ran" >&2
  [ "$status" != 0 ] || status=1
fi
[ "$skipped" = 0 ] || [ "$passed" != 0 ] || echo "no GPU that this build can use is at hand"
echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
RUN
chmod +x "$bundle/run"
echo "bundle: $bundle ($(du -sh "$bundle" | cut -f1))"
"$bundle/run" --gtest_brief=0
