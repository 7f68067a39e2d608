#!/usr/bin/env bash
# run.sh [--fast | --slow | --attacks | --cuda]: installs what the tests need and runs them.
#
#   (nothing)  what CI runs: unit, op, device and concurrency tests, the client's, conformance with
#              TensorFlow, end to end; the C++ ones again under AddressSanitizer with UBSan; a
#              minute of fuzzing the importer, half of one the ops, and half of one the readers
#              of files
#   --fast     without the sanitizers and the fuzzing
#   --slow     also ThreadSanitizer, op cases at every level of vector instructions, 10,000 schedules
#              of the simulated device, the Python tests on a server that runs on it, ten minutes of a
#              server's life, the examples in TensorFlow's docstrings, and ten minutes of each fuzzing
#   --attacks  only what clients, peers and machines may do to a server, against the release build
#   --cuda     only what the preset cuda adds: CUDA's headers and libraries from PyPI, the build, kernels'
#              texts through NVRTC, the bundle for a GPU and, where there is one, its tests; the server
#              without one. Everything else needs no CUDA
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-}
started=$(date +%s)
step() { printf '\n== %s (%d s)\n' "$1" $(($(date +%s) - started)); }
failed=()
attempt() { "$@" || failed+=("$*"); }
# What runs in the background: its output, once it has ended, and its status.
ended() {  # PID LOG
  local rc=0
  wait "$1" || rc=$?
  cat "$2"
  return "$rc"
}

step "Installing packages"
bash deploy/setup.sh --tests

build() {  # PRESET TARGET...
  local preset=$1; shift
  cmake --preset "$preset" >"build/configure-$preset.log" || { cat "build/configure-$preset.log"; exit 1; }
  cmake --build --preset "$preset" ${1:+--target "$@"} -- --quiet
}

if [ "$mode" = --attacks ]; then
  step "Building release"
  build release formwork-server formwork
  step "Attacks"
  FORMWORK_BIN=$PWD/build/release/bin exec build/venv/bin/python tests/attacks/run.py
fi

if [ "$mode" = --cuda ]; then
  step "Installing CUDA's headers and libraries"
  bash deploy/setup.sh --cuda
  step "Building cuda"
  build cuda formwork-server
  step "The GPU's tests, and the bundle"
  attempt bash tests/gpu/run.sh
  step "The server"
  FORMWORK_BIN=$PWD/build/cuda/bin attempt build/venv/bin/python -m pytest -q tests/e2e/gpu_device_test.py
  step "Done"
  if [ "${#failed[@]}" -gt 0 ]; then
    printf 'FAILED: %s\n' "${failed[@]}"
    exit 1
  fi
  exit
fi

step "Building dev"
build dev

step "Unit, op, graph and concurrency tests"
attempt ctest --test-dir build/dev -j 2 --output-on-failure -L fast

asan_targets=(formwork_unit_tests formwork_op_tests formwork_device_tests formwork_stream_tests import_fuzzer
              op_fuzzer checkpoint_fuzzer store_fuzzer json_fuzzer infer_fuzzer)
if [ "$mode" != --fast ]; then
  # Python tests leave most of a core idle.
  step "Building asan (clang, with the fuzz targets) meanwhile"
  (renice -n 19 "$BASHPID" >/dev/null; build asan "${asan_targets[@]}") >build/asan.log 2>&1 &
  asan_build=$!
fi

# A test that hangs, or takes longer than any should, says where, so that it has a name when the run
# is cut off.
pytest_options=(--durations=5 -o faulthandler_timeout=60)
# Those end to end wait for the most part.
step "Layering, client and conformance tests, and beside them those end to end"
export FORMWORK_BIN=$PWD/build/dev/bin
build/venv/bin/python -m pytest -q "${pytest_options[@]}" tests/e2e >build/e2e.log 2>&1 &
e2e=$!
attempt build/venv/bin/python -m pytest -q "${pytest_options[@]}" tests/layering_test.py tests/python
step "The tests end to end"
attempt ended "$e2e" build/e2e.log

if [ "$mode" != --fast ]; then
  step "Waiting for asan"
  wait "$asan_build" || { cat build/asan.log; exit 1; }
  step "The C++ tests under AddressSanitizer and UBSan"
  export ASAN_OPTIONS=detect_stack_use_after_return=1 FORMWORK_SCHEDULES=50
  asan_tests=(ctest --test-dir build/asan -j 2 --output-on-failure -L fast)
  # What counts to millions, or compares millions of numbers, touches no memory that shorter tests
  # do not, and takes two fifths of the time.
  long='FloatMathTest.*:DoubleMathTest.*:ScalarsTest.CommonOpsGiveTheBitsOfTheirKernels'
  long+=':EngineTimelineTest.ATenMillionIterationsLongLoopHasABoundedOne:TrainingTest.LargeVariablesStepAlike'
  long+=':EngineSuspensionTest.ALoopMakesRoomAndThenEndsAsItWould:FunctionStateTest.PathsThatMultiplyAreRefused'
  long+=':EngineSuspensionTest.LoopsThatTakeTurnsGiveWhatEachGivesAlone:ExecutionTest.CallsNestAsDeepAsThereIsMemory'
  long+=':DatasetTest.ABatchOrABufferWithoutEndIsRefused:EngineMemoryTest.AFewBytesCannotAskForManyValues'
  long+=':ImportTest.DeepNestsAreTaken:EngineSuspensionTest.TenThousandThatWaitForAVariableAreCancelledSoon'
  long+=':VariableKernels.AChangeForWhoseCopyThereIsNoMemoryIsMadeInPlace:RadixSortTest/*'
  long+=':Metrics.StaySmallAndUsefulWhateverNamesClientsMakeUp:OperandTest.RunsAreThoseOfTheBroadcastOperand'
  if [ "$mode" = --slow ]; then
    attempt "${asan_tests[@]}"
  else
    FORMWORK_HISTORIES=100 GTEST_FILTER="-$long" attempt "${asan_tests[@]}"
  fi
  fuzz() {  # FUZZER SECONDS OPTIONS...
    local corpus=build/fuzz-corpus/$1 time=(-max_total_time="$2" -seed=1)
    # The same start each time, so that what it finds is of the change; --slow goes elsewhere.
    [ "$mode" != --slow ] || time=(-max_total_time="${slow_seconds:-600}")
    rm -rf "$corpus" && mkdir -p "$corpus"
    "build/asan/bin/$1" "${time[@]}" -rss_limit_mb=4096 -timeout=20 -print_final_stats=1 \
      -print_funcs=0 -verbosity=0 "$corpus" "${@:3}"
  }
  step "Fuzzing the importer meanwhile"
  fuzz import_fuzzer 60 tests/fuzz/seeds >build/import_fuzzer.log 2>&1 &
  importer=$!
  step "Fuzzing the ops"
  # A call is drawn from some hundred bytes; where they have ended all is zeros.
  ops=(op_fuzzer 30 -len_control=0 -max_len=256 -malloc_limit_mb=1024)
  if [ "$mode" = --slow ]; then
    for family in $(build/dev/bin/formwork_draw_ops --families); do
      echo "$family"
      slow_seconds=15 FORMWORK_FUZZ_FAMILY=$family attempt fuzz "${ops[@]}"
    done
  else
    attempt fuzz "${ops[@]}"
  fi
  # What is edited is short; a long input is damaged in many places, of which one is found.
  step "Fuzzing the readers of checkpoints and data directories"
  attempt fuzz checkpoint_fuzzer 15 -len_control=0 -max_len=64
  attempt fuzz store_fuzzer 15 -len_control=0 -max_len=32 -entropic=0
  step "Fuzzing the readers of requests in JSON and of the Open Inference Protocol"
  attempt fuzz json_fuzzer 10 -len_control=0 -max_len=256 -dict=tests/fuzz/json.dict
  attempt fuzz infer_fuzzer 10 -len_control=0 -max_len=256 tests/fuzz/infer_seeds
  step "The importer"
  attempt ended "$importer" build/import_fuzzer.log
fi

if [ "$mode" = --slow ]; then
  step "Servers killed 200 times under load, by durability"
  FORMWORK_KILLS=200 FORMWORK_SEED=$RANDOM attempt build/venv/bin/python -m pytest -q -s \
    tests/e2e/sync_test.py tests/e2e/counters_test.py -k "whenever or counters"

  step "20,000 histories of concurrent clients"
  FORMWORK_HISTORIES=20000 FORMWORK_SEED=$RANDOM attempt build/dev/bin/formwork_unit_tests \
    --gtest_filter='HistoriesTest.*'

  step "Ten minutes of functions, variables and tables that come and go"
  FORMWORK_SOAK=600 attempt build/venv/bin/python -m pytest -q -s tests/e2e/soak_test.py

  step "Checkpoints of more than 2 GiB"
  FORMWORK_LARGE=1 attempt build/venv/bin/python -m pytest -q tests/e2e/checkpoint_test.py -k count

  step "Op cases at lower levels of vector instructions"
  attempt ctest --test-dir build/dev --output-on-failure -L slow
  attempt ctest --test-dir build/asan --output-on-failure -L slow

  step "Client, conformance and end to end tests on the simulated device"
  FORMWORK_BIN=$PWD/build/dev/bin/simulated attempt build/venv/bin/python -m pytest -q \
    "${pytest_options[@]}" tests/python tests/e2e

  step "The examples in TensorFlow's docstrings"
  attempt build/venv/bin/python tests/python/docstrings.py

  step "Building tsan"
  build tsan formwork_unit_tests formwork_stream_tests
  # Of the engine's own threads: oneTBB is built without it, so that what kernels split looks racy.
  # Without a test of a hundred rounds of failures, which takes a quarter of an hour.
  tests='AccessTicket*:AtomicCall*:RelaxedCall*:Histories*:Engine*:Execution*:Lanes*:FunctionCache*:Resource*:Metrics*'
  tests+=':Beside*:Prefetch*:*RandomPipelines*:ConnectionListener*:AnswerWindow*:Queue*:Accumulator*'
  export TSAN_OPTIONS=suppressions=$PWD/tests/tsan-suppressions.txt
  attempt build/tsan/bin/formwork_unit_tests --gtest_brief=1 \
    --gtest_filter="$tests:-EngineMemoryTest.WhateverFails*"
  # In a process of their own, which has no threads of oneTBB's.
  attempt build/tsan/bin/formwork_unit_tests --gtest_brief=1 --gtest_filter='*EngineParked*:*DeviceTimeline*'
  attempt build/tsan/bin/formwork_stream_tests --gtest_brief=1
fi

step "Done"
if [ "${#failed[@]}" -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}"
  exit 1
fi
