#!/usr/bin/env bash
# setup.sh: installs what building, testing and the demo need on Debian 12 (root or sudo), and makes
# build/venv with the Python client in it. Does nothing where all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ cmake ninja-build ccache lld pkg-config python3 python3-venv
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev libtbb-dev
  libspdlog-dev prometheus-cpp-dev libcli11-dev nlohmann-json3-dev
  libdnnl-dev libeigen3-dev ocl-icd-opencl-dev libssl-dev librocksdb-dev
  libleveldb-dev libisal-dev libre2-dev libfarmhash-dev
  libjpeg62-turbo-dev libpng-dev libgif-dev libicu-dev
)
test_packages=(libgtest-dev libgmock-dev prometheus clang libclang-rt-14-dev procps curl)
if [ "${1:-}" = --tests ]; then packages+=("${test_packages[@]}"); fi

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
requirements="tensorflow==2.21.0 scikit-learn tqdm pytest"
stamp=$( (echo "$requirements"; cat proto/formwork/*/*.proto
          find client/python -name '*.py' -o -name '*.toml' | grep -v -e /build/ -e egg-info | sort | xargs cat) |
  sha256sum | cut -d' ' -f1)
if [ ! -x build/venv/bin/python ]; then
  mkdir -p build
  /usr/bin/python3 -m venv build/venv
fi
if [ "$(cat build/venv/formwork.stamp 2>/dev/null)" != "$stamp" ]; then
  # shellcheck disable=SC2086
  build/venv/bin/python -c 'import tensorflow, sklearn, tqdm, pytest' >/dev/null 2>&1 ||
    build/venv/bin/pip install -q --disable-pip-version-check $requirements
  build/venv/bin/pip install -q --disable-pip-version-check --force-reinstall --no-deps ./client/python
  build/venv/bin/pip install -q --disable-pip-version-check ./client/python
  echo "$stamp" >build/venv/formwork.stamp
fi
