#!/usr/bin/env bash
# Runs one peer on the JVM, once, after a warm-up in the same JVM, and prints its
# result, a line of JSON; all else goes to stderr. It installs Java and Maven where
# they are missing, and builds the peer with its jars below build/peers/jvm.
#
#   bench/peers/jvm/run.sh --peer streams-eos|streams-alo|flink-heap|flink-rocksdb \
#     --brokers LIST --in TOPIC --out TOPIC --events N
#
# The input must have exactly N records, and the output must be there.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$here/../../.." && pwd)/build/peers/jvm
peer=
for ((i = 1; i < $#; i++)); do
	[ "${!i}" != --peer ] || { i=$((i + 1)) && peer=${!i}; }
done
case $peer in
streams-*) module=streams main=StreamsPeer ;;
flink-*) module=flink main=FlinkPeer ;;
*)
	sed -n "s/^#   b/usage: b/p; s/^#     -/         -/p" "${BASH_SOURCE[0]}" >&2
	exit 2
	;;
esac

# install PACKAGE...
install() {
	local sudo=
	[ "$(id -u)" -eq 0 ] || sudo=sudo
	echo "installing $*" >&2
	$sudo apt-get update -qq >&2
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# jdk is the version of the compiler, which is that of the runtime.
jdk() { javac -version 2>/dev/null | sed -n 's/^javac \([0-9]*\).*/\1/p'; }

version=$(jdk) || true
[ "${version:-0}" -ge 17 ] || install openjdk-17-jdk-headless
command -v mvn >/dev/null || install maven

# The stamp is older than what has changed since the last build.
stamp=$build/$module/built
if [ ! -e "$stamp" ] || [ -n "$(find "$here" -newer "$stamp" -not -path '*/target*' -print -quit)" ]; then
	mvn -q -B -f "$here/pom.xml" -pl "$module" -am -Dpeers.build="$build" clean package >&2
	touch "$stamp"
fi

exec java -Xmx2g -Dorg.slf4j.simpleLogger.defaultLogLevel="${PEERS_LOG:-error}" \
	-cp "$build/$module/$module-1.jar:$build/$module/lib/*" "com.github.streamdedup.peers.$main" "$@" --state "$build/state-$peer"
