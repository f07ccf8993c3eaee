#!/bin/sh
# Times all-reduces of ranks on several hosts in one level, by NCCL alone, and in two: peer within the hosts, NCCL between them. The hosts
# are made up, and each has the machine's first LOCAL GPUs. The script prints the tables of rank 0, and fails if an element is wrong:
#
#   CGO_ENABLED=0 go build -o bench.bin ./bench
#   BIN=./bench.bin HOSTS=2 LOCAL=2 bench/twolevel.sh
#
# ALGOS names what is run, "nccl" being one level; further arguments go to bench.
set -eu
. "$(dirname "$0")/ranks.sh"
bin=${BIN:?the path of a built bench}
port=${PORT:-29800}
for algo in ${ALGOS:-nccl two_level nccl two_level}; do
	flag="-algo $algo"
	[ "$algo" != nccl ] || flag=
	# shellcheck disable=SC2086 # flag is two words or none
	together "$algo on ${HOSTS:-2} hosts of ${LOCAL:-2}" "${HOSTS:-2}" "${LOCAL:-2}" \
		"$bin" all_reduce -device cuda -backend nccl $flag -b 4Ki -e 256Mi -f 4 "$@"
done
