#!/usr/bin/env bash
# Make all lock files anew from the .in files; needs uv. The torch line is resolved and then left out, and so
# are the CUDA packages that torch asks for on Linux: whoever installs torch chooses its build.
set -euo pipefail
cd "$(dirname "$0")"
compile="uv pip compile --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet"
$compile --no-emit-package torch "$@" requirements.in -o requirements.lock
awk '/^[a-z]/ { keep = !/^(nvidia-|cuda-|triton)/ } keep' requirements.lock >requirements.kept
mv requirements.kept requirements.lock
$compile "$@" dev.in -o dev.lock
$compile "$@" llamacpp-build.in -o llamacpp-build.lock
$compile "$@" llamacpp.in -o llamacpp.lock
