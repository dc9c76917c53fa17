#!/usr/bin/env bash
# One visit to a machine with an NVIDIA GPU: does warp physics agree with C, how fast is everything, and do the
# four modules learn?
#   experiments/gpu_check.sh OUT [TRAIN_SECONDS] [SEEDS]      (defaults: 280 seconds, seed 0)
# Needs `pip install -c constraints.txt .[warp,cuda,dev]`, or the same packages on PYTHONPATH. Leaves in OUT one log per
# part, the run folders, and results.tgz with all of it and Warp's kernel cache, which the next machine can start from.
# PHYSICS=warp PRESET=gpu unless set; a rehearsal on a CPU: PRESET=cpu SIZES="8" TRAIN_ARGS="--episodes 64 ..." .
set -uo pipefail
out=${1:?usage: gpu_check.sh OUT [TRAIN_SECONDS] [SEEDS]}; seconds=${2:-280}; seeds=${3:-0}
physics=${PHYSICS:-warp} preset=${PRESET:-gpu} sizes=${SIZES:-2048 4096 8192} train_args=${TRAIN_ARGS:-}
mkdir -p "$out"; out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.." || exit 2
export PYTHONUNBUFFERED=1 XLA_PYTHON_CLIENT_PREALLOCATE=false

part() {  # part NAME SECONDS COMMAND...: runs, keeps the log, says how it went; a failed part does not stop the visit
  local name=$1 limit=$2 start=$SECONDS; shift 2
  timeout -s INT -k 30 "$limit" "$@" >"$out/$name.log" 2>&1; local status=$?
  echo "== $name: exit $status after $((SECONDS - start)) s"; tail -n "${TAIL:-4}" "$out/$name.log"
}

nvidia-smi -L || echo "no NVIDIA GPU: a rehearsal"
python3 -c 'import jax, mujoco, warp; print(jax.__version__, jax.devices(), mujoco.__version__, warp.__version__)'
part parity 150 python3 -m pytest -q -o addopts= tests/test_physics_backends.py -k warp
for seed in $seeds; do
  # shellcheck disable=SC2086
  part "train-$seed" $((seconds + 120)) timeout -s INT "$seconds" python3 -m curious_jax.train \
    --modules reach,push,pnp,stack --preset "$preset" --physics "$physics" --seed "$seed" --out "$out/run-$seed" $train_args
  TAIL=10 part "evaluate-$seed" 90 python3 -m curious_jax.evaluate "$out/run-$seed" --episodes 200
done
for size in $sizes; do
  part "benchmark-$size" 120 python3 -m curious_jax.benchmark --json --seconds 3 --preset "$preset" \
    --physics "$physics" --num-envs "$size"
done
cache=$(python3 -c 'import warp; warp.config.quiet = True; warp.init(); print(warp.config.kernel_cache_dir)' | tail -n 1)
tar -czf "$out/results.tgz" -C "$out" --exclude results.tgz . -C "$(dirname "$(dirname "$cache")")" "$(basename "$(dirname "$cache")")"
echo "== all in $out/results.tgz"
