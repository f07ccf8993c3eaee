#!/usr/bin/env bash
# Checks on a machine with PyTorch, 2.11 or later, that its analyzer accepts our dumps, and that colligo trace reads PyTorch's: those
# of a job by NCCL where there are two GPUs, else by Gloo. BIN may name a folder with the programs colligo and torch, built before; else they are built with Go.
# Usage: examples/torch/check.sh [FOLDER], which is kept; else one is made and removed. VERBOSE=1 prints all that is said.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

work=${1:-}
if [ -z "$work" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
bin=${BIN:-}
if [ -z "$bin" ]; then
  bin=$work/bin
  mkdir -p "$bin"
  CGO_ENABLED=0 go build -o "$bin/" ./cmd/colligo ./examples/torch
fi
analyzer=(python3 -m torch.distributed.flight_recorder.fr_trace)
failed=0

# expect WORDS COMMAND... runs a command and looks for words in what it prints.
expect() {
  local words=$1 out
  shift
  out=$("$@" 2>&1) || true
  if [ -n "${VERBOSE:-}" ]; then printf '%s\n' "$out"; fi
  if grep -q -- "$words" <<<"$out"; then
    echo "ok: $(grep -m1 -- "$words" <<<"$out")"
  else
    printf 'FAILED: %s\nexpected: %s\n%s\n' "$*" "$words" "$out"
    failed=1
  fi
}

# agreed WORDS COMMAND... is expect, of a trace that finds nothing wrong but, at most, one rank slow, as one can be while a job begins.
agreed() {
  local words=$1 out
  shift
  out=$("$@" 2>&1) || true
  if grep -q -- "$words" <<<"$out" && head -n 1 <<<"$out" | grep -qE '^(all well|rank [0-9]+ is slow)' &&
    ! tail -n +2 <<<"$out" | grep -qvE '^(group: |  )'; then
    echo "ok: $(head -n 1 <<<"$out")"
  else
    printf 'FAILED: %s\nexpected nothing worse than a slow rank, and: %s\n%s\n' "$*" "$words" "$out"
    failed=1
  fi
}

# silent COMMAND... runs a command that has nothing to say but, perhaps, what it goes without: so the analyzer speaks of dumps that agree.
silent() {
  local out
  if out=$("$@" 2>&1) && ! grep -v 'Proceeding without it' <<<"$out" | grep -q '[^[:space:]]'; then
    echo "ok: nothing said of dumps that agree"
  else
    printf 'FAILED: %s\nexpected nothing\n%s\n' "$*" "$out"
    failed=1
  fi
}

echo "== our dumps"
for what in well skip; do
  dir=$work/ours-$what
  mkdir -p "$dir"
  flags=(-dir "$dir")
  if [ "$what" = skip ]; then flags+=(-skip); fi
  timeout 60 "$bin/colligo" run -n 2 -- "$bin/torch" "${flags[@]}"
done
expect "^all well" "$bin/colligo" trace "$work/ours-well"
expect "all_reduce #.* rank 1 has not entered; rank 0" "$bin/colligo" trace -html "$work/ours.html" "$work/ours-skip"
if ! python3 -c 'import torch.distributed.flight_recorder.fr_trace' >/dev/null 2>&1; then
  echo "PyTorch is not here: its analyzer was not asked"
  exit "$failed"
fi
silent timeout 60 "${analyzer[@]}" -p colligo_rank_ "$work/ours-well"
expect "missing ranks: {1}" timeout 60 "${analyzer[@]}" -p colligo_rank_ "$work/ours-skip"

echo "== PyTorch's dumps"
# USE_LIBUV: some builds of PyTorch lack that library.
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29617 USE_LIBUV=0 TORCH_FR_BUFFER_SIZE=100 TORCH_NCCL_ENABLE_TIMING=1
for what in well skip; do
  dir=$work/theirs-$what
  mkdir -p "$dir"
  for rank in 0 1; do
    RANK=$rank timeout 100 python3 examples/torch/job.py "$dir" "$what" >"$dir/log.$rank" 2>&1 &
    pids[rank]=$!
  done
  for rank in 0 1; do
    if ! wait "${pids[rank]}"; then
      printf 'FAILED: rank %d of PyTorch'"'"'s job\n%s\n' "$rank" "$(tail -n 20 "$dir/log.$rank")"
      failed=1
    fi
  done
done
agreed "15 collectives and 0 messages compared, all done up to #15" "$bin/colligo" trace -prefix torch_rank_ "$work/theirs-well"
expect "rank 1 has not entered" "$bin/colligo" trace -prefix torch_rank_ -html "$work/theirs.html" "$work/theirs-skip"
exit "$failed"
