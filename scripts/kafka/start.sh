#!/usr/bin/env bash
# Starts a real Apache Kafka for tests, from Maven jars, no container: one node, or
# a cluster of several. On stdout it prints one line, KAFKA_BROKERS=HOST:PORT,... with
# all of them; all else goes to stderr.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$here/../.." && pwd)/build
port=${KAFKA_PORT:-19092}
dir=${KAFKA_DIR:-$build/kafka}
brokers=1
node= # the only one to start, of a cluster that exists
# Each version has its jars to itself, so that a change resolves nothing again.
lib=$build/kafka/lib${KAFKA_VERSION:+-$KAFKA_VERSION}
resolver=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies
start_limit=120 # seconds; a start takes 3 to 5 on an idle machine

usage() {
	cat <<-USAGE
		usage: scripts/kafka/start.sh [--port N] [--dir DIR] [--brokers COUNT]
		       scripts/kafka/start.sh [--dir DIR] --node I

		  --port N         client port (KAFKA_PORT, default 19092); the controller takes N+1,
		                   the second broker N+2 and N+3, and so on
		  --dir DIR        data, log and pid (KAFKA_DIR, default build/kafka); each broker of a
		                   cluster has a folder node-I in it
		  --brokers COUNT  a cluster of so many brokers, 1 to 9 (default 1)
		  --node I         start one broker of a cluster again, after stop.sh --node I

		KAFKA_HEAP sets the Java heap (default 1g, in a cluster 512m for each broker).
		KAFKA_VERSION takes another version of Kafka, such as 3.9.2, in a --dir of its own.
		A broker that already runs is left as it is.
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

# broker_pid HOME prints the pid of the broker of this folder, if it is alive. The
# command line is compared too: after a reboot the number may be another's.
broker_pid() {
	local pid
	pid=$(cat "$1/broker.pid" 2>/dev/null) || return 1
	ps -ww -p "$pid" -o args= 2>/dev/null | grep -qF "$1/server.properties" || return 1
	echo "$pid"
}

# home_of I is the folder of a broker.
home_of() { [ "$brokers" -eq 1 ] && echo "$dir" || echo "$dir/node-$1"; }

# port_of I is a broker's client port; its controller takes the next one.
port_of() { echo "$((port + 2 * ($1 - 1)))"; }

# configured_port HOME is the client port that a broker was configured with.
configured_port() { sed -n 's|^advertised.listeners=PLAINTEXT://127.0.0.1:||p' "$1/server.properties"; }

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
	mvn -q -B -f "$here/pom.xml" "$resolver" ${KAFKA_VERSION:+-Dkafka.version="$KAFKA_VERSION"} -DoutputDirectory="$tmp" >&2 ||
		die "resolve Kafka's jars: mvn failed" "its message above names the artifact; check the network or Maven's settings.xml"
	cp "$here/pom.xml" "$tmp/pom.xml"
	rm -rf "$lib"
	mv "$tmp" "$lib"
}

# configure I writes a broker's settings. Topics have three copies where there are
# three brokers, and a write needs two of them: it survives the loss of one broker.
configure() {
	local home voters=() i copies=$((brokers < 3 ? brokers : 3))
	home=$(home_of "$1")
	for ((i = 1; i <= brokers; i++)); do voters+=("$i@127.0.0.1:$(($(port_of "$i") + 1))"); done
	sed -e "s|@NODE@|$1|g" -e "s|@PORT@|$(port_of "$1")|g" -e "s|@CONTROLLER_PORT@|$(($(port_of "$1") + 1))|g" \
		-e "s|@VOTERS@|$(IFS=, && echo "${voters[*]}")|g" -e "s|@DATA@|$home/data|g" \
		-e "s|@COPIES@|$copies|g" -e "s|@MIN_ISR@|$((copies < 3 ? 1 : 2))|g" \
		"$here/server.properties" >"$home/server.properties"
}

# cluster_id is that of a broker which was formatted before, else a new one.
cluster_id() {
	local id=-
	cat "$dir"/data/meta.properties "$dir"/node-*/data/meta.properties 2>/dev/null | sed -n 's/^cluster.id=//p' | grep -m 1 . && return
	# A leading dash would read as an option.
	while [ "${id:0:1}" = - ]; do
		id=$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n')
	done
	echo "$id"
}

# format_storage HOME ID
format_storage() {
	[ -e "$1/data/meta.properties" ] && return
	say "formatting $1/data"
	java -cp "$lib/*" kafka.tools.StorageTool format -t "$2" -c "$1/server.properties" >"$1/format.log" 2>&1 ||
		die "format $1/data: see $1/format.log" "remove $1/data and try again"
}

# launch HOME
launch() {
	set -m # its own process group: Ctrl-C at a terminal must not reach the broker
	nohup java "-Xmx$heap" -cp "$lib/*" kafka.Kafka "$1/server.properties" >"$1/broker.log" 2>&1 </dev/null &
	local pid=$!
	echo "$pid" >"$1/broker.pid"
	set +m
	disown
	# Until it is Java the process is a copy of this script, which would be taken for a
	# broker that has ended.
	until broker_pid "$1" >/dev/null || ! kill -0 "$pid" 2>/dev/null; do sleep 0.01; done
}

# cause HOME prints what a broker that ended says of why: its last exception, or its
# last error, or the Java VM's last line.
cause() {
	local pattern
	for pattern in '^(Caused by: )?[a-z.]+\.[A-Za-z.$]+(Exception|Error)' ' ERROR ' .; do
		grep -E "$pattern" "$1/broker.log" | tail -n 1 | sed "s|^Caused by: ||" | cut -c 1-500 | grep . && return
	done
	echo "it said nothing"
}

# wait_ready HOME returns once the broker is unfenced, which is when it says that it
# started: the port alone opens earlier, and topics made then would be refused.
wait_ready() {
	local deadline=$((SECONDS + start_limit)) port
	port=$(configured_port "$1")
	until grep -q 'Kafka Server started' "$1/broker.log" && listening "$port"; do
		broker_pid "$1" >/dev/null || die "start Kafka: it ended at once: $(cause "$1"); see $1/broker.log" \
			"a data folder of another version or a taken port are the usual causes"
		[ "$SECONDS" -lt "$deadline" ] || die "start Kafka: no answer on port $port after ${start_limit}s, see $1/broker.log" \
			"scripts/kafka/stop.sh ends it"
		sleep 0.1
	done
}

# check I ends the script when a broker cannot start, or runs as something else.
check() {
	local home p pid
	home=$(home_of "$1")
	if pid=$(broker_pid "$home"); then
		[ "$(configured_port "$home")" = "$(port_of "$1")" ] ||
			die "start Kafka on port $(port_of "$1"): pid $pid serves $home on another port" "stop it (scripts/kafka/stop.sh) or give another --dir"
		return
	fi
	for p in "$(port_of "$1")" "$(($(port_of "$1") + 1))"; do
		! listening "$p" || die "start Kafka: port $p is taken by another process" "choose another with --port"
	done
}

# start_all starts those that do not run, and waits for all: none of a cluster is
# ready before most of them are there.
start_all() {
	local i home pid id before=()
	for ((i = 1; i <= brokers; i++)); do check "$i"; done
	for ((i = 1; i <= brokers; i++)); do
		home=$(home_of "$i")
		if before[i]=$(broker_pid "$home"); then continue; fi
		need_java
		resolve_jars
		mkdir -p "$home"
		configure "$i"
		id=${id:-$(cluster_id)}
		format_storage "$home" "$id"
		launch "$home"
	done
	for ((i = 1; i <= brokers; i++)); do
		home=$(home_of "$i")
		wait_ready "$home"
		pid=$(broker_pid "$home")
		if [ "$pid" = "${before[i]}" ]; then
			say "already running, pid $pid"
		else
			say "running, pid $pid, log $home/broker.log"
		fi
	done
}

# start_node starts one broker of the cluster again, as it was configured.
start_node() {
	local home=$dir/node-$node pid
	[ -e "$home/server.properties" ] || die "start broker $node: there is no $home" \
		"make a cluster first: scripts/kafka/start.sh --brokers 3"
	if pid=$(broker_pid "$home"); then
		wait_ready "$home"
		say "already running, pid $pid"
		return
	fi
	need_java
	resolve_jars
	launch "$home"
	wait_ready "$home"
	say "running, pid $(broker_pid "$home"), log $home/broker.log"
}

# addresses prints the client address of each broker.
addresses() {
	local home homes=("$dir") list=
	[ -z "$node" ] && [ "$brokers" -eq 1 ] || homes=("$dir"/node-*)
	for home in "${homes[@]}"; do list+=,127.0.0.1:$(configured_port "$home"); done
	echo "${list#,}"
}

while [ $# -gt 0 ]; do
	case $1 in
	--port) port=${2:?--port needs a number} && shift 2 ;;
	--dir) dir=${2:?--dir needs a folder} && shift 2 ;;
	--brokers) brokers=${2:?--brokers needs a number} && shift 2 ;;
	--node) node=${2:?--node needs a number} && shift 2 ;;
	-h | --help) usage && exit 0 ;;
	*) usage >&2 && exit 2 ;;
	esac
done
[[ $brokers =~ ^[1-9]$ && $node =~ ^[1-9]?$ ]] || { usage >&2 && exit 2; }
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

if [ -n "$node" ]; then
	heap=${KAFKA_HEAP:-512m}
	start_node
else
	heap=${KAFKA_HEAP:-$([ "$brokers" -eq 1 ] && echo 1g || echo 512m)}
	start_all
fi
echo "KAFKA_BROKERS=$(addresses)"
