#!/usr/bin/env bash
# setup.sh [--tests] [--cuda]: installs what building and the demo need on Debian 12 (root or sudo),
# and makes build/venv with the Python client in it. Does nothing where all is there.
#
#   --tests  also what tests/run.sh needs
#   --cuda   also CUDA 13's and cuDNN's headers and libraries for the preset cuda, in build/cuda-toolkit
#            (1.3 GB, from PyPI); no driver, which only the machine with the GPU needs
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ cmake ninja-build ccache lld pkg-config python3 python3-venv
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev libtbb-dev
  libspdlog-dev prometheus-cpp-dev libcli11-dev nlohmann-json3-dev rapidjson-dev libmicrohttpd-dev
  libdnnl-dev libasmjit-dev libeigen3-dev ocl-icd-opencl-dev libssl-dev libgnutls28-dev librocksdb-dev
  libleveldb-dev libisal-dev libre2-dev libfarmhash-dev
  libjpeg62-turbo-dev libpng-dev libgif-dev libwebp-dev libicu-dev
)
test_packages=(libgtest-dev libgmock-dev prometheus clang libclang-rt-14-dev procps curl openssl)
cuda=
for option; do
  case $option in
    --tests) packages+=("${test_packages[@]}") ;;
    --cuda) cuda=1; packages+=(xz-utils) ;;
    *) echo "setup.sh: no such option: $option" >&2; exit 2 ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' ||
    missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
  sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
fi

# The client is installed again where it or the wire has changed.
requirements="tensorflow==2.21.0 tensorflow-serving-api==2.21.0 scikit-learn tqdm pytest
              python-rapidjson==1.25 geventhttpclient==2.6.1"
# Triton's client, with what it needs above: it asks for a protobuf before TensorFlow's, and works with that.
alone="tritonclient==2.73.0"
stamp=$( (echo "$requirements" "$alone"; cat proto/formwork/*/*.proto
          find client/python -name '*.py' -o -name '*.toml' | grep -v -e /build/ -e egg-info | sort | xargs cat) |
  sha256sum | cut -d' ' -f1)
if [ ! -x build/venv/bin/python ]; then
  mkdir -p build
  /usr/bin/python3 -m venv build/venv
fi
if [ "$(cat build/venv/formwork.stamp 2>/dev/null)" != "$stamp" ]; then
  # shellcheck disable=SC2086
  build/venv/bin/python -c 'import tensorflow, tensorflow_serving, sklearn, tqdm, pytest, tritonclient.grpc, tritonclient.http' \
    >/dev/null 2>&1 || {
    build/venv/bin/pip install -q --disable-pip-version-check $requirements
    build/venv/bin/pip install -q --disable-pip-version-check --no-deps $alone
  }
  build/venv/bin/pip install -q --disable-pip-version-check --force-reinstall --no-deps ./client/python
  build/venv/bin/pip install -q --disable-pip-version-check ./client/python
  echo "$stamp" >build/venv/formwork.stamp
fi

# The runtime, NVRTC and cuBLASLt, and the headers that theirs include: all of one release; cuDNN. Put in
# place whole, so that what was interrupted is begun again.
if [ -n "$cuda" ]; then
  wheels="nvidia-cuda-runtime==13.0.96 nvidia-cuda-nvrtc==13.0.88 nvidia-cublas==13.1.0.3
          nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85 nvidia-cudnn-cu13==9.19.0.56"
  toolkit=build/cuda-toolkit
  if [ "$(cat $toolkit/wheels 2>/dev/null)" != "$wheels" ]; then
    rm -rf $toolkit $toolkit.new
    # shellcheck disable=SC2086
    build/venv/bin/pip install -q --disable-pip-version-check --no-deps --target $toolkit.new $wheels
    echo "$wheels" >$toolkit.new/wheels
    mv $toolkit.new $toolkit
  fi
fi
