#!/usr/bin/env bash
# Ends the brokers that start.sh started, and waits until they are gone. Their data
# stays.
set -euo pipefail

dir=${KAFKA_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/kafka}
node=       # the only one to end, of a cluster
signal=TERM # what ends them
stop_limit=30 # seconds for a clean stop

usage() {
	cat <<-USAGE
		usage: scripts/kafka/stop.sh [--dir DIR] [--node I] [--kill]

		  --dir DIR  the folder that start.sh was given (KAFKA_DIR, default build/kafka)
		  --node I   end one broker of a cluster only
		  --kill     end as a crash does (kill -9)
	USAGE
}

while [ $# -gt 0 ]; do
	case $1 in
	--dir) dir=${2:?--dir needs a folder} && shift 2 ;;
	--node) node=${2:?--node needs a number} && shift 2 ;;
	--kill) signal=KILL && shift ;;
	*) usage >&2 && exit 2 ;;
	esac
done
dir=$(cd "$dir" 2>/dev/null && pwd) || dir=/nonexistent

# ours PID HOME: only the broker of this folder: after a reboot the number may be
# another's.
ours() { ps -ww -p "$1" -o args= 2>/dev/null | grep -qF "$2/server.properties"; }

# await_end PID HOME
await_end() {
	local deadline=$((SECONDS + stop_limit))
	while ours "$1" "$2"; do
		if [ "$SECONDS" -ge "$deadline" ]; then
			echo "kafka: pid $1 did not stop in ${stop_limit}s, killing it" >&2
			kill -9 "$1"
			deadline=$((SECONDS + stop_limit))
		fi
		sleep 0.1
	done
	rm -f "$2/broker.pid"
	echo "kafka: stopped, pid $1" >&2
}

# All are told before one is waited for: the last of a cluster cannot end well alone.
homes=("$dir" "$dir"/node-*)
[ -z "$node" ] || homes=("$dir/node-$node")
pids=()
for home in "${homes[@]}"; do
	pid=$(cat "$home/broker.pid" 2>/dev/null) || continue
	if ours "$pid" "$home"; then
		kill -s "$signal" "$pid"
		pids+=("$pid $home")
	fi
done
if [ ${#pids[@]} -eq 0 ]; then
	echo "kafka: no broker of $dir is running" >&2
	exit 0
fi
for pid in "${pids[@]}"; do await_end "${pid%% *}" "${pid#* }"; done
