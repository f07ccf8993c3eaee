#!/bin/sh
# Times all-reduces of ranks on several hosts in one level, by NCCL alone, and in two: peer within the hosts, NCCL between them. The hosts
# are made up: ranks of one NCCL_HOSTID share one, and hosts talk through sockets of this machine. Each has the machine's first LOCAL GPUs.
# The script prints the tables of rank 0, and fails if an element is wrong:
#
#   CGO_ENABLED=0 go build -o bench.bin ./bench
#   BIN=./bench.bin HOSTS=2 LOCAL=2 bench/twolevel.sh
#
# ALGOS names what is run, "nccl" being one level; further arguments go to bench.
set -eu
bin=${BIN:?the path of a built bench}
hosts=${HOSTS:-2}
each=${LOCAL:-2}
port=${PORT:-29800}
for algo in ${ALGOS:-nccl two_level nccl two_level}; do
	port=$((port + 1))
	flag="-algo $algo"
	[ "$algo" != nccl ] || flag=
	pids=
	rank=$((hosts * each))
	while [ "$rank" -gt 0 ]; do
		rank=$((rank - 1))
		# shellcheck disable=SC2086 # flag is two words or none
		RANK=$rank WORLD_SIZE=$((hosts * each)) LOCAL_RANK=$((rank % each)) LOCAL_WORLD_SIZE=$each MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
			NCCL_HOSTID=host$((rank / each)) NCCL_SOCKET_IFNAME=lo CUDA_DEVICE_MAX_CONNECTIONS=32 \
			"$bin" all_reduce -device cuda -backend nccl $flag -b 4Ki -e 256Mi -f 4 "$@" &
		pids="$pids $!"
	done
	failed=0
	for pid in $pids; do
		wait "$pid" || failed=1
	done
	if [ "$failed" = 1 ]; then
		echo "$algo on $hosts hosts of $each: failed" >&2
		exit 1
	fi
	echo "$algo on $hosts hosts of $each: right"
done
