#!/usr/bin/env bash
# One visit to a machine with an NVIDIA GPU: does warp physics agree with C, do the four modules learn on three seeds,
# how fast is everything and where does the time go?
#   experiments/checks/gpu_check.sh OUT
# Leaves in OUT a log per part, parity.json, run-SEED/, suite/, profile/, summary.txt, and results.tgz with all of it and
# Warp's compiled kernels (warp-kernels.tgz, which the next visit can start from).
#
# Packages: those of the machine's python3, or PACKED=DIR, with pieces of a packed site folder (piece.00, piece.01, ...)
# and perhaps a warp-kernels.tgz, which are unpacked below OUT; or WHEELS=DIR, wheels that pip installs without a network.
# By environment, with defaults: LIMIT=570 seconds for the whole visit (a part gets what is left), TRAIN_SECONDS=130 a seed,
# PROFILE_SECONDS=150, SUITE_SECONDS=400, SEEDS="0 1 2", PHYSICS=warp, PRESET=gpu, WORLDS=64 for parity, and more options in TRAIN_ARGS, SUITE_ARGS, PROFILE_ARGS.
# A rehearsal without a GPU: see tests/test_gpu_check.py.
set -uo pipefail
out=${1:?usage: gpu_check.sh OUT}
limit=${LIMIT:-570} train_seconds=${TRAIN_SECONDS:-130} seeds=${SEEDS:-0 1 2} worlds=${WORLDS:-64}
physics=${PHYSICS:-warp} preset=${PRESET:-gpu}
read -ra train_args <<<"${TRAIN_ARGS:-}"; read -ra profile_args <<<"${PROFILE_ARGS:-}"
read -ra suite_args <<<"${SUITE_ARGS:---physics $physics}"
mkdir -p "$out"; out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.." || exit 2
export PYTHONUNBUFFERED=1 XLA_PYTHON_CLIENT_PREALLOCATE=false TF_CPP_MIN_LOG_LEVEL=2
export JAX_COMPILATION_CACHE_DIR=${JAX_COMPILATION_CACHE_DIR:-$out/xla-cache}
failed=0

say() { echo "$*" | tee -a "$out/summary.txt"; }

part() {  # part NAME SECONDS COMMAND...: runs, keeps the log, says how it went; a failed part does not stop the visit
  local name=$1 seconds=$2 start=$SECONDS status; shift 2
  (( seconds > limit - SECONDS )) && seconds=$((limit - SECONDS))
  if (( seconds < 10 )); then say "== $name: skipped, no time left"; failed=1; return; fi
  timeout -s INT -k 20 "$seconds" "$@" >"$out/$name.log" 2>&1; status=$?
  say "== $name: exit $status after $((SECONDS - start)) s"
  tail -n "${TAIL:-3}" "$out/$name.log" | cut -c -400 | tee -a "$out/summary.txt"
  # A training that is interrupted at its time has done what it was asked for.
  [[ $status == 0 || ($name == train-* && ($status == 124 || $status == 130)) ]] || failed=1
}

install() {
  if compgen -G "${PACKED:-/nowhere}/piece.*" >/dev/null; then
    cat "$PACKED"/piece.* | xz -dc -T0 | tar -xf - -C "$out" || return 1
    export PYTHONPATH=$out/site${PYTHONPATH:+:$PYTHONPATH}
    [[ -f $PACKED/warp-kernels.tgz ]] && mkdir -p ~/.cache && tar -xzf "$PACKED/warp-kernels.tgz" -C ~/.cache
  elif [[ -d ${WHEELS:-} ]]; then
    python3 -m pip install -q --no-index --find-links "$WHEELS" -c constraints.txt ".[warp]" || return 1
  fi
  return 0
}

: >"$out/summary.txt"
install || { say "the packages could not be installed"; exit 1; }
say "$(git log -1 --format='commit %h' 2>/dev/null || echo 'no git')"
say "$(nvidia-smi -L 2>/dev/null || echo 'no NVIDIA GPU: a rehearsal')"
part versions 60 python3 -c 'import jax, mujoco, warp; print(jax.__version__, jax.devices(), mujoco.__version__, warp.__version__)'
part parity 200 python3 -m experiments.checks.parity --physics "$physics" --worlds "$worlds" --out "$out/parity.json"
for seed in $seeds; do
  part "train-$seed" "$train_seconds" python3 -m curious_jax.train --modules reach,push,pnp,stack --preset "$preset" \
    --physics "$physics" --seed "$seed" --out "$out/run-$seed" "${train_args[@]}"
done
part profile "${PROFILE_SECONDS:-150}" python3 -m curious_jax.benchmark --seconds 2 --preset "$preset" --physics "$physics" \
  --profile "$out/profile" "${profile_args[@]}"
TAIL=40 part suite "${SUITE_SECONDS:-400}" python3 -m curious_jax.benchmark --seconds 2 --preset "$preset" \
  --suite "$out/suite" "${suite_args[@]}"

cache=$(python3 -c 'import warp; warp.config.log_level = warp.LOG_WARNING; warp.init(); print(warp.config.kernel_cache_dir)' | tail -n 1)
[[ -d $cache ]] && tar -czf "$out/warp-kernels.tgz" -C "$(dirname "$(dirname "$cache")")" "$(basename "$(dirname "$cache")")"
tar -czf "$out/results.tgz" -C "$out" --exclude results.tgz --exclude site --exclude 'state-*' --exclude xla-cache .
say "== all in $out/results.tgz after $SECONDS s"
exit "$failed"
