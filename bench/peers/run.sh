#!/usr/bin/env bash
# Runs streamdedup and its peers on the same events, and writes the section of
# docs/BENCHMARKS.md. It installs what is missing: redis-server and postgresql by
# apt-get, runiq and huniq by cargo, Go modules and the JVM's jars by their clients.
# Servers have ports of their own and leave nothing behind. Run nothing else meanwhile.
#
#   bench/peers/run.sh [--events N] [--rounds N] [--seed N] [--only LIST] [--out FILE.json] [--no-doc]
#
# LIST is names of peers with commas between, such as engine-1e-2,redis,run-eos,
# streams-eos; a wrong one lists all. The section is written only of all peers.
# PEERS_PORT is the port of the Kafka that it starts (29306).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command="bench/peers/run.sh${*:+ $*}"
events=2000000 rounds=3 seed=1 only='' dir=$PWD/build/peers doc=docs/BENCHMARKS.md
out=$dir/results.json
while [ $# -gt 0 ]; do
	case $1 in
	--events) events=${2:?} && shift 2 ;;
	--rounds) rounds=${2:?} && shift 2 ;;
	--seed) seed=${2:?} && shift 2 ;;
	--only) only=${2:?} && shift 2 ;;
	--out) out=$(realpath -m "${2:?}") && shift 2 ;;
	--no-doc) doc=- && shift ;;
	*)
		sed -n 's/^#   /usage: /p' "${BASH_SOURCE[0]}" >&2
		exit 2
		;;
	esac
done
[ -z "$only" ] || doc=-

# wants NAME...: whether one of them is to run.
wants() {
	local name
	[ -n "$only" ] || return 0
	for name; do [[ ,$only, != *",$name,"* ]] || return 0; done
	return 1
}

# need PACKAGE COMMAND [FOLDER...] installs the package where the command is missing.
need() {
	local sudo=
	PATH=$PATH:/usr/sbin command -v "$2" >/dev/null || ls "${@:3}" >/dev/null 2>&1 && return
	[ "$(id -u)" -eq 0 ] || sudo=sudo
	echo "installing $1" >&2
	$sudo apt-get update -qq
	$sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

mkdir -p "$dir/bin"
go build -o "$dir/bin/streamdedup" ./cmd/streamdedup
(cd bench/peers && go build -o "$dir/bin/" ./cmd/...)
if wants pebble; then (cd bench/peers/pebble && go build -o "$dir/bin/pebble" .); fi
if wants benthos; then (cd bench/peers/benthos && go build -o "$dir/bin/benthos" .); fi
for crate in runiq@2.1.0 huniq@2.7.0; do
	name=${crate%@*}
	if wants "$name" && ! "$dir/bin/$name" --version 2>/dev/null | grep -qF "${crate#*@}"; then
		cargo install --quiet --force --root "$dir" "$crate"
	fi
done
if wants redis; then need redis-server redis-server; fi
postgres=
if wants postgres; then
	need postgresql postgres /usr/lib/postgresql/*/bin/postgres
	postgres=$(dirname "$(ls /usr/lib/postgresql/*/bin/postgres 2>/dev/null | sort -V | tail -n 1)")
fi

brokers=
if wants run-eos run-alo streams-eos streams-alo flink-heap flink-rocksdb; then
	export KAFKA_DIR=$dir/kafka
	scripts/kafka/stop.sh # left by a run that was killed
	rm -rf "$KAFKA_DIR"
	trap 'scripts/kafka/stop.sh; rm -rf "$KAFKA_DIR"' EXIT
	brokers=$(scripts/kafka/start.sh --port "${PEERS_PORT:-29306}" | sed 's/^KAFKA_BROKERS=//')
	[ -n "$brokers" ]
fi

# A signal ends the peers first, by way of the command that runs them.
trap 'kill -TERM "$pid"' INT TERM
"$dir/bin/peers" --events "$events" --seed "$seed" --rounds "$rounds" --only "$only" --dir "$dir" --bin "$dir/bin" \
	--postgres "$postgres" --jvm "$PWD/bench/peers/jvm/run.sh" --brokers "$brokers" --out "$out" &
pid=$!
status=0
wait "$pid" || status=$?
while kill -0 "$pid" 2>/dev/null; do wait "$pid" || status=$?; done
trap - INT TERM
if [ -s "$out" ]; then
	"$dir/bin/table" --from "$out" --into "$doc" --command "$command" --seed "$seed"
	# What size --compare says of Redis is what it took here.
	[ "$doc" = - ] || go run ./bench/measured --peers "$out"
fi
exit "$status"
