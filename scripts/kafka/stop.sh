#!/usr/bin/env bash
# Ends the broker that start.sh started, and waits until it is gone. Its data stays.
set -euo pipefail

dir=${KAFKA_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/kafka}
stop_limit=30 # seconds for a clean stop

case ${1:-} in
--dir) dir=${2:?--dir needs a folder} ;;
'') ;;
*)
	echo "usage: scripts/kafka/stop.sh [--dir DIR]   (KAFKA_DIR, default build/kafka)" >&2
	exit 2
	;;
esac
dir=$(cd "$dir" 2>/dev/null && pwd) || dir=/nonexistent

# Only the broker of this folder: after a reboot the number may be another's.
ours() { ps -ww -p "$1" -o args= 2>/dev/null | grep -qF "$dir/server.properties"; }

pid=$(cat "$dir/broker.pid" 2>/dev/null) || pid=
if [ -z "$pid" ] || ! ours "$pid"; then
	echo "kafka: no broker of $dir is running" >&2
	exit 0
fi
kill "$pid"
deadline=$((SECONDS + stop_limit))
while ours "$pid"; do
	if [ "$SECONDS" -ge "$deadline" ]; then
		echo "kafka: pid $pid did not stop in ${stop_limit}s, killing it" >&2
		kill -9 "$pid"
		deadline=$((SECONDS + stop_limit))
	fi
	sleep 0.1
done
rm -f "$dir/broker.pid"
echo "kafka: stopped, pid $pid" >&2
