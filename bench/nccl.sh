#!/bin/sh
# Has NCCL carry the plans of bench between ranks that share one GPU. Each rank has an NCCL_HOSTID of its own, so that NCCL takes them for
# as many hosts and goes through sockets. The script prints the tables of rank 0, and fails if an element is wrong:
#
#   CGO_ENABLED=0 go build -o bench.bin ./bench
#   BIN=./bench.bin bench/nccl.sh
#
# RANKS and PLANS name what is run; further arguments go to bench.
set -eu
bin=${BIN:?the path of a built bench}
port=${PORT:-29700}
for plans in ${PLANS:-ring tree}; do
	for ranks in ${RANKS:-2 3}; do
		port=$((port + 1))
		pids=
		rank=$ranks
		while [ "$rank" -gt 0 ]; do
			rank=$((rank - 1))
			RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
				NCCL_HOSTID=host$rank NCCL_SOCKET_IFNAME=lo \
				"$bin" all_reduce reduce broadcast all_gather reduce_scatter -device cuda -transport nccl -algo "$plans" \
				-b 0 -e 16Mi -f 16 -d float32,bfloat16 "$@" &
			pids="$pids $!"
		done
		failed=0
		for pid in $pids; do
			wait "$pid" || failed=1
		done
		if [ "$failed" = 1 ]; then
			echo "$plans on $ranks ranks: failed" >&2
			exit 1
		fi
		echo "$plans on $ranks ranks: right"
	done
done
