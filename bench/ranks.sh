# shellcheck shell=sh
# For the scripts beside this one: starts ranks on hosts that are made up. Ranks of one NCCL_HOSTID share a host, so NCCL takes them for as
# many hosts, which talk through sockets of this machine.

# together WHAT HOSTS EACH COMMAND... runs a command as EACH ranks on each of HOSTS hosts, and says whether all have ended well. A rank has
# the GPU of its number on its host. If one fails, the script ends.
together() {
	what=$1 hosts=$2 each=$3
	shift 3
	port=$((port + 1))
	pids=
	rank=$((hosts * each))
	while [ "$rank" -gt 0 ]; do
		rank=$((rank - 1))
		RANK=$rank WORLD_SIZE=$((hosts * each)) LOCAL_RANK=$((rank % each)) LOCAL_WORLD_SIZE=$each MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
			NCCL_HOSTID=host$((rank / each)) NCCL_SOCKET_IFNAME=lo CUDA_DEVICE_MAX_CONNECTIONS=32 "$@" &
		pids="$pids $!"
	done
	failed=0
	for pid in $pids; do
		wait "$pid" || failed=1
	done
	if [ "$failed" = 1 ]; then
		echo "$what: failed" >&2
		exit 1
	fi
	echo "$what: right"
}
