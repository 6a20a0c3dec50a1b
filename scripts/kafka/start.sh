#!/usr/bin/env bash
# Starts a real Apache Kafka for tests: one node, from Maven jars, no container.
# On stdout it prints one line, KAFKA_BROKERS=HOST:PORT; all else goes to stderr.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$here/../.." && pwd)/build
port=${KAFKA_PORT:-19092}
dir=${KAFKA_DIR:-$build/kafka}
heap=${KAFKA_HEAP:-1g}
lib=$build/kafka/lib
resolver=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies
start_limit=120 # seconds; a start takes 3 to 5 on an idle machine

usage() {
	cat <<-USAGE
		usage: scripts/kafka/start.sh [--port N] [--dir DIR]

		  --port N   client port (KAFKA_PORT, default 19092); the controller takes N+1
		  --dir DIR  data, log and pid of this broker (KAFKA_DIR, default build/kafka)

		KAFKA_HEAP sets the Java heap (default 1g). A broker that already runs is left as it is.
	USAGE
}

say() { echo "kafka: $*" >&2; }

# die WHAT HINT
die() {
	echo "error: $1" >&2
	echo "hint: $2" >&2
	exit 1
}

listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# broker_pid prints the pid of the broker of this folder, if it is alive. The
# command line is compared too: after a reboot the number may be another's.
broker_pid() {
	local pid
	pid=$(cat "$dir/broker.pid" 2>/dev/null) || return 1
	ps -ww -p "$pid" -o args= 2>/dev/null | grep -qF "$dir/server.properties" || return 1
	echo "$pid"
}

need_java() {
	local version
	version=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p') || true
	[ "${version:-0}" -ge 17 ] || die "find Java 17 or newer: found ${version:-none}" \
		"apt-get install openjdk-17-jre-headless, or on macOS: brew install openjdk@17"
}

# resolve_jars fills lib once for each version of the pom.
resolve_jars() {
	local tmp=$lib.$$
	cmp -s "$here/pom.xml" "$lib/pom.xml" && return
	command -v mvn >/dev/null || die "find mvn, which fetches Kafka's jars: not installed" \
		"apt-get install maven, or on macOS: brew install maven"
	say "resolving the jars, once"
	rm -rf "$tmp"
	mvn -q -B -f "$here/pom.xml" "$resolver" -DoutputDirectory="$tmp" >&2 ||
		die "resolve Kafka's jars: mvn failed" "its message above names the artifact; check the network or Maven's settings.xml"
	cp "$here/pom.xml" "$tmp/pom.xml"
	rm -rf "$lib"
	mv "$tmp" "$lib"
}

configure() {
	sed -e "s|@PORT@|$port|g" -e "s|@CONTROLLER_PORT@|$((port + 1))|g" -e "s|@DATA@|$dir/data|g" \
		"$here/server.properties" >"$dir/server.properties"
}

cluster_id() {
	local id=-
	# A leading dash would read as an option.
	while [ "${id:0:1}" = - ]; do
		id=$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n')
	done
	echo "$id"
}

format_storage() {
	[ -e "$dir/data/meta.properties" ] && return
	say "formatting $dir/data"
	java -cp "$lib/*" kafka.tools.StorageTool format -t "$(cluster_id)" -c "$dir/server.properties" >"$dir/format.log" 2>&1 ||
		die "format $dir/data: see $dir/format.log" "remove $dir/data and try again"
}

launch() {
	set -m # its own process group: Ctrl-C at a terminal must not reach the broker
	nohup java "-Xmx$heap" -cp "$lib/*" kafka.Kafka "$dir/server.properties" >"$dir/broker.log" 2>&1 </dev/null &
	echo $! >"$dir/broker.pid"
	set +m
	disown
}

# wait_ready returns once the broker is unfenced, which is when it says that it
# started: the port alone opens earlier, and topics made then would be refused.
wait_ready() {
	local deadline=$((SECONDS + start_limit))
	until grep -q 'Kafka Server started' "$dir/broker.log" && listening "$port"; do
		broker_pid >/dev/null || die "start Kafka: it ended at once, see the end of $dir/broker.log" \
			"a data folder of another version or a taken port are the usual causes"
		[ "$SECONDS" -lt "$deadline" ] || die "start Kafka: no answer on port $port after ${start_limit}s, see $dir/broker.log" \
			"scripts/kafka/stop.sh ends it"
		sleep 0.1
	done
}

while [ $# -gt 0 ]; do
	case $1 in
	--port) port=${2:?--port needs a number} && shift 2 ;;
	--dir) dir=${2:?--dir needs a folder} && shift 2 ;;
	-h | --help) usage && exit 0 ;;
	*) usage >&2 && exit 2 ;;
	esac
done
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

if pid=$(broker_pid); then
	grep -q "PLAINTEXT://127.0.0.1:$port," "$dir/server.properties" ||
		die "start Kafka on port $port: pid $pid serves $dir on another port" "stop it (scripts/kafka/stop.sh) or give another --dir"
	wait_ready
	say "already running, pid $pid"
else
	for p in "$port" "$((port + 1))"; do
		! listening "$p" || die "start Kafka: port $p is taken by another process" "choose another with --port"
	done
	need_java
	resolve_jars
	configure
	format_storage
	launch
	wait_ready
	say "running, pid $(broker_pid), log $dir/broker.log"
fi
echo "KAFKA_BROKERS=127.0.0.1:$port"
