#!/usr/bin/env bash
# Makes jobs of ranks in Python and in Go by NCCL, on one GPU, and prints a table in the end. Every program has a limit of time. Exits 1 if
# a rank has failed, has wrong results, or was killed for its time, and if a rank in Go does not name the peer that was killed.
# Usage: [BIN=program] examples/torch/nccl/check.sh [FOLDER [CASE...]]. The folder keeps what the ranks print. Without BIN it builds the program with Go.
# PYTHON names the python3 that has PyTorch 2.11 or later, SEED begins the random calls, LIMIT is the time of one program in seconds.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
here=examples/torch/nccl

work=${1:-$(mktemp -d)}
shift || true
mkdir -p "$work"
work=$(cd "$work" && pwd)
python=${PYTHON:-python3}
seed=${SEED:-1}
limit=${LIMIT:-40}
bin=${BIN:-}
if [ -z "$bin" ]; then
  bin=$work/nccl
  CGO_ENABLED=0 go build -o "$bin" ./$here || exit 1
fi
bin=$(realpath "$bin")
if [ -z "${COLLIGO_NCCL_PATH:-}" ]; then # the library that PyTorch has
  COLLIGO_NCCL_PATH=$($python -c 'import glob, os, sysconfig
print(*glob.glob(os.path.join(sysconfig.get_paths()["purelib"], "nvidia", "nccl", "lib", "libnccl.so.2")))')
  export COLLIGO_NCCL_PATH
fi
[ -n "$COLLIGO_NCCL_PATH" ] || unset COLLIGO_NCCL_PATH

# Ranks that share a GPU are taken for hosts of their own.
export NCCL_SOCKET_IFNAME=lo MASTER_ADDR=127.0.0.1 CUDA_DEVICE_MAX_CONNECTIONS=32 PYTHONWARNINGS=ignore TORCH_NCCL_DUMP_ON_TIMEOUT=0
export TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=500 TORCH_CPP_LOG_LEVEL=ERROR
timeout 120 $python -c 'import torch; print("PyTorch", torch.__version__, "NCCL", torch.cuda.nccl.version(), torch.cuda.get_device_name(0))' || exit 1
$python $here/rank.py calls "$seed" >"$work/calls" || exit 1
printf 'all_reduce float32 64 0 sum\ndie float32 64 0 sum\n' >"$work/die0"
printf 'all_reduce float32 64 0 sum\ndie float32 64 1 sum\n' >"$work/die1"
port=$((20000 + $$ % 20000))
table=
failures=0

# missed WHAT notes a failure of the check, and prints it.
missed() {
  failures=$((failures + 1))
  echo "FAIL: $*"
}

# one RANK WHAT FILE runs a rank.
one() {
  export RANK=$1 LOCAL_RANK=$1 NCCL_HOSTID=host$1
  if [ "$2" = go ]; then
    exec timeout -k 5 "$limit" "$bin" -calls "$3" -eager="$EAGER" -limit "${PATIENCE:-20}s"
  fi
  LIMIT=${PATIENCE:-20} exec timeout -k 5 "$limit" "$python" $here/rank.py run "$3"
}

row() { table+=$(printf '%-34s %-22s %-22s %4ss' "$@")$'\n'; }

# right NAME RANK WHAT STATUS holds that a rank has ended well, with right results.
right() {
  [ "$4" = 0 ] || missed "$1: rank $2 in $3 has ended with $4"
  grep -qaE '^over: [0-9]+ calls, 0 wrong' "$work/$1.$2.$3" || missed "$1: rank $2 in $3 has not said that no result is wrong"
}

# lost NAME RANK WHAT STATUS DEAD SECONDS holds that a rank has ended by itself, within seconds, after another rank was killed. In Go it names
# that rank.
lost() {
  case $4 in
  0 | 124 | 137) missed "$1: rank $2 in $3 has ended with $4 after rank $5 was killed" ;;
  esac
  if [ "$3" = go ]; then
    grep -qaE "^failed: .*rank $5\b" "$work/$1.$2.$3" || missed "$1: rank $2 in go does not name rank $5"
  else
    grep -qaE 'NCCL error|ncclRemoteError|Watchdog caught collective operation timeout' "$work/$1.$2.$3" ||
      missed "$1: rank $2 in $3 does not say why it has ended"
  fi
  [ "$6" -le $((PATIENCE + 15)) ] || missed "$1: rank $2 in $3 has taken $6 s, more than $PATIENCE s and the start of the programs"
}

# job NAME EAGER FILE WHAT... runs a job of ranks, each in py or in go. If DEAD is set, that rank kills itself.
job() {
  local name=$1 eager=$2 file=$3 began=$SECONDS rank=0 what status pids=() says=()
  shift 3
  port=$((port + 1))
  export EAGER=$eager MASTER_PORT=$port WORLD_SIZE=$#
  echo "== $name"
  for what in "$@"; do
    (one "$rank" "$what" "$file") >"$work/$name.$rank.$what" 2>&1 &
    pids+=($!)
    rank=$((rank + 1))
  done
  rank=0
  for what in "$@"; do
    wait "${pids[rank]}"
    status=$?
    if [ -z "${DEAD:-}" ]; then
      right "$name" "$rank" "$what" "$status"
    elif [ "$rank" = "$DEAD" ]; then
      [ "$status" = 9 ] || missed "$name: rank $rank in $what has ended with $status, not by itself"
    else
      lost "$name" "$rank" "$what" "$status" "$DEAD" $((SECONDS - began))
    fi
    says+=("$what $status $(grep -a '^over' "$work/$name.$rank.$what" | sed 's/over: //; s/ calls, /, /')")
    grep -a -m 3 -E '^(wrong|failed)' "$work/$name.$rank.$what" | cut -c 1-600 | sed "s/^/rank $rank in $what: /"
    if ! grep -qaE '^(over|failed)' "$work/$name.$rank.$what"; then tail -n 4 "$work/$name.$rank.$what" | cut -c 1-400 | sed "s/^/rank $rank in $what: /"; fi
    rank=$((rank + 1))
  done
  row "$name" "${says[@]}" $((SECONDS - began))
}

# torchrun NAME EAGER runs four ranks under torchrun, of which the odd ones are in Go.
run_torchrun() {
  local name=$1 began=$SECONDS what over=0
  port=$((port + 1))
  export EAGER=$2 bin limit work here python file="$work/calls" name
  cat >"$work/entry.sh" <<'END'
#!/usr/bin/env bash
export NCCL_HOSTID=host$RANK
if [ $((RANK % 2)) = 1 ]; then
  timeout -k 5 "$limit" "$bin" -calls "$file" -eager="$EAGER" >"$work/$name.$RANK.go" 2>&1
else
  LIMIT=20 timeout -k 5 "$limit" "$python" "$here/rank.py" run "$file" >"$work/$name.$RANK.py" 2>&1
fi
END
  chmod +x "$work/entry.sh"
  echo "== $name"
  timeout -k 5 $((limit + 15)) "$python" -m torch.distributed.run --nproc-per-node 4 --master-addr 127.0.0.1 --master-port "$port" \
    --no-python "$work/entry.sh" >"$work/$name.torchrun" 2>&1
  local ended=$?
  [ "$ended" = 0 ] || missed "$name: torchrun has ended with $ended"
  for what in 0.py 1.go 2.py 3.go; do
    if grep -qaE '^over: [0-9]+ calls, 0 wrong' "$work/$name.$what"; then over=$((over + 1)); else missed "$name: $what"; fi
    grep -a -m 3 -E '^(wrong|failed)' "$work/$name.$what" | cut -c 1-600 | sed "s/^/$what: /"
    if ! grep -qaE '^(over|failed)' "$work/$name.$what"; then tail -n 4 "$work/$name.$what" | cut -c 1-400 | sed "s/^/$what: /"; fi
  done
  row "$name" "torchrun $ended" "$over of 4 with 0 wrong" $((SECONDS - began))
}

cases=("$@")
if [ ${#cases[@]} = 0 ]; then cases=(eager lazy killed torchrun); fi
for c in "${cases[@]}"; do
  case $c in
  eager)
    job eager-py0-go1 1 "$work/calls" py go
    job eager-go0-py1 1 "$work/calls" go py
    ;;
  lazy)
    job lazy-py0-go1 0 "$work/calls" py go
    job lazy-go0-py1 0 "$work/calls" go py
    ;;
  killed)
    DEAD=0 PATIENCE=10 job killed-py0 1 "$work/die0" py go
    DEAD=0 PATIENCE=10 job killed-go0 1 "$work/die0" go py
    DEAD=1 PATIENCE=10 job killed-py1-lazy 0 "$work/die1" go py
    ;;
  torchrun)
    run_torchrun torchrun-eager 1
    run_torchrun torchrun-lazy 0
    ;;
  *) missed "there is no case $c" ;;
  esac
done
echo
echo "job, ranks with their exit status, calls and wrong results:"
printf '%s' "$table"
if [ "$failures" -gt 0 ]; then
  echo "$failures failures"
  exit 1
fi
