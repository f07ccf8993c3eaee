#!/bin/sh
# Has NCCL carry the plans of bench between ranks that share one GPU, each on a made-up host of its own. The script prints the tables of
# rank 0, and fails if an element is wrong:
#
#   CGO_ENABLED=0 go build -o bench.bin ./bench
#   BIN=./bench.bin bench/nccl.sh
#
# RANKS and PLANS name what is run; further arguments go to bench.
set -eu
. "$(dirname "$0")/ranks.sh"
bin=${BIN:?the path of a built bench}
port=${PORT:-29700}
for plans in ${PLANS:-ring tree}; do
	for ranks in ${RANKS:-2 3}; do
		together "$plans on $ranks ranks" "$ranks" 1 \
			"$bin" all_reduce reduce broadcast all_gather reduce_scatter -device cuda -transport nccl -algo "$plans" \
			-b 0 -e 16Mi -f 16 -d float32,bfloat16 "$@"
	done
done
