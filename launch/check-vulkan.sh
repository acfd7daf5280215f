#!/usr/bin/env bash
# Builds the backend for Vulkan and runs the tests of GPUs on a machine that has none: Mesa's lavapipe computes. It lies in a
# copy of the package. Not a part of check.sh, because the build takes minutes more.
set -euo pipefail

LLGTRT_ROOT=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
# shellcheck source=launch/setup.sh
. "$LLGTRT_ROOT/launch/setup.sh"
cd "$LLGTRT_ROOT"

packages=(glslc libvulkan-dev mesa-vulkan-drivers spirv-headers)
driver=$(compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' || true)
if ! command -v glslc >/dev/null || [[ -z $driver ]]; then
    if [[ $(id -u) != 0 ]]; then refuse "packages are missing; install them: $(apt_line "${packages[@]}")"; fi
    say "packages: ${packages[*]}"
    mkdir -p .build
    logged apt sh -c "apt-get update && apt-get install -y --no-install-recommends ${packages[*]}"
    driver=$(compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json')
fi

(setup_all dev)
export VIRTUAL_ENV="${LLGTRT_CACHE:-$LLGTRT_ROOT}/.venv"
target="${CARGO_TARGET_DIR:-${LLGTRT_CACHE:-$LLGTRT_ROOT}/target}"
export LLGTRT_PACKAGE="$target/package-vulkan"
rm -rf "$LLGTRT_PACKAGE"
mkdir -p "$LLGTRT_PACKAGE"
cp -r python/llgtrt "$LLGTRT_PACKAGE/"
launch/build-gpu.sh vulkan "$LLGTRT_PACKAGE/llgtrt/backends"

# lavapipe calls itself a processor, which ggml takes only by its number. Mesa 22 crashes with fused operations, and where one
# process has two devices: for these tests take the package of Debian's backports.
mesa=$(dpkg-query -W -f '${Version}' mesa-vulkan-drivers)
if dpkg --compare-versions "$mesa" ge 25; then export LLGTRT_TWO_GPUS=1; fi
export VK_ICD_FILENAMES="$driver" VK_DRIVER_FILES="$driver" GGML_VK_VISIBLE_DEVICES=0 GGML_VK_DISABLE_FUSION=1
PYTHONPATH="$LLGTRT_PACKAGE" exec "$VIRTUAL_ENV/bin/python" -m pytest -q -p no:cacheprovider -m gpu "$@" tests/server/test_gpu.py
