#!/usr/bin/env bash
# One visit to a machine with an NVIDIA GPU, all of it packed to take home.
#   experiments/checks/gpu_check.sh OUT [OPTIONS of python -m experiments.checks.gpu_visit]
# Leaves in OUT gpu.json, gpu.md and a log of each part, as gpu_visit says, and results.tgz with all of it and Warp's
# compiled kernels (warp-kernels.tgz, which the next visit can start from).
#
# Packages: those of the machine's python3, or PACKED=DIR, with pieces of a packed site folder (piece.00, piece.01, ...)
# and perhaps a warp-kernels.tgz, which are unpacked below OUT; or WHEELS=DIR, wheels (setuptools among them) that pip installs without
# a network.
set -uo pipefail
out=${1:?usage: gpu_check.sh OUT}; shift
for folder in PACKED WHEELS; do  # given from where the user stands
  [[ -n ${!folder:-} ]] || continue
  place=$(cd "${!folder}" 2>/dev/null && pwd) || { echo "$folder=${!folder}: is no folder that can be opened" >&2; exit 2; }
  declare "$folder=$place"
done
mkdir -p "$out"; out=$(cd "$out" && pwd)
cd "$(dirname "$0")/../.." || exit 2
export PYTHONUNBUFFERED=1 XLA_PYTHON_CLIENT_PREALLOCATE=false TF_CPP_MIN_LOG_LEVEL=2
export JAX_COMPILATION_CACHE_DIR=${JAX_COMPILATION_CACHE_DIR:-$out/xla-cache}

install() {
  if [[ -n ${PACKED:-} ]] && ! compgen -G "$PACKED/piece.*" >/dev/null; then echo "$PACKED holds no piece.*"; return 1; fi
  if compgen -G "${PACKED:-/nowhere}/piece.*" >/dev/null; then
    cat "$PACKED"/piece.* | xz -dc -T0 | tar -xf - -C "$out" || return 1
    export PYTHONPATH=$out/site${PYTHONPATH:+:$PYTHONPATH}
    [[ -f $PACKED/warp-kernels.tgz ]] && mkdir -p ~/.cache && tar -xzf "$PACKED/warp-kernels.tgz" -C ~/.cache
  elif [[ -d ${WHEELS:-} ]]; then
    python3 -m pip install -q --no-index --find-links "$WHEELS" -c constraints.txt ".[cuda]" || return 1
  fi
  return 0
}

install || { echo "the packages could not be installed"; exit 1; }
{ git log -1 --format='commit %h' || echo 'no git'; } 2>/dev/null | tee "$out/summary.txt"
python3 -c 'import jax, mujoco; print("jax", jax.__version__, "mujoco", mujoco.__version__)' 2>&1 | tail -n 1 | tee -a "$out/summary.txt"
python3 -m experiments.checks.gpu_visit "$out" --limit "$((500 - SECONDS))" "$@" 2>&1 | tee -a "$out/summary.txt"
status=${PIPESTATUS[0]}

cache=$(python3 -c 'import warp; warp.config.log_level = warp.LOG_WARNING; warp.init(); print(warp.config.kernel_cache_dir)' | tail -n 1)
[[ -d $cache ]] && tar -czf "$out/warp-kernels.tgz" -C "$(dirname "$(dirname "$cache")")" "$(basename "$(dirname "$cache")")"
tar -czf "$out/results.tgz" -C "$out" --exclude results.tgz --exclude site --exclude checkpoints --exclude xla-cache .
echo "== all in $out/results.tgz after $SECONDS s"
exit "$status"
