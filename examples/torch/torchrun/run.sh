#!/usr/bin/env bash
# Starts a job under torchrun on this host.
# Usage: examples/torch/torchrun/run.sh go|mixed. AGENT may name a port, at which torchrun serves the store in place of rank 0. RENDEZVOUS may
# name one for torchrun itself, for --standalone of PyTorch 1.13 always takes the same. RANKS, STEPS and PYTHON say how many there are and
# which python3 has PyTorch, and TORCH its version if that is known. KILL is a rank that is killed in the first attempt. BIN may name the
# program, built before; else it is built with Go.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
here=examples/torch/torchrun
what=${1:-go}
export STEPS=${STEPS:-20} KILL=${KILL:--1} PYTHON=${PYTHON:-python3} GO_RANK=${BIN:-} TORCH
if [ -z "${TORCH:-}" ]; then
  TORCH=$("$PYTHON" -c 'import torch; print(".".join(torch.__version__.split(".")[:2]))')
fi
if [ -z "$GO_RANK" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  GO_RANK=$work/rank
  CGO_ENABLED=0 go build -o "$GO_RANK" ./$here
fi
export GLOO_SOCKET_IFNAME=${GLOO_SOCKET_IFNAME:-lo} OMP_NUM_THREADS=1 USE_LIBUV=0

# --no_python starts a program of any language. With --standalone PyTorch 1.13 has rank 0 serve a store in each attempt. Without it
# torchrun serves one store for all attempts. Later versions serve one in both cases.
launch=("$PYTHON" -m torch.distributed.run --standalone)
if [ -n "${RENDEZVOUS:-}" ]; then
  launch=("$PYTHON" -m torch.distributed.run --rdzv_backend c10d --rdzv_endpoint "localhost:$RENDEZVOUS" --rdzv_id "$RENDEZVOUS")
fi
if [ -n "${AGENT:-}" ]; then
  launch=("$PYTHON" -m torch.distributed.run --master_addr 127.0.0.1 --master_port "$AGENT")
fi
launch+=(--nproc_per_node "${RANKS:-2}" --max_restarts 1 --no_python)
if [ "$TORCH" = 1.13 ]; then
  launch+=(-r 9:1 -t 9:1) # a file for the output of local rank 9 alone, for its default crashes under Python 3.11
fi
case $what in
go) "${launch[@]}" "$GO_RANK" -steps "$STEPS" -kill "$KILL" ;;
mixed) "${launch[@]}" $here/rank.sh ;;
*)
  echo "usage: $0 go|mixed" >&2
  exit 2
  ;;
esac
