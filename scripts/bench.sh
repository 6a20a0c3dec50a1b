#!/usr/bin/env bash
# Measures what README.md and docs/BENCHMARKS.md say, and writes it there: the
# engine in memory, the search for IDs, the whole path on a broker, and a restore.
# Run nothing else meanwhile.
#
#   scripts/bench.sh [--memory SIZE] [--records N] [--pairs N]
#
# The broker is the one in KAFKA_BROKERS, or else that of scripts/kafka/start.sh.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
memory=1GiB records=4M pairs=9
while [ $# -gt 0 ]; do
	case $1 in
	--memory) memory=${2:?} ;;
	--records) records=${2:?} ;;
	--pairs) pairs=${2:?} ;;
	*)
		echo "usage: scripts/bench.sh [--memory SIZE] [--records N] [--pairs N]" >&2
		exit 2
		;;
	esac
	shift 2
done

go build -o build/bin/streamdedup ./cmd/streamdedup
brokers=${KAFKA_BROKERS:-$(scripts/kafka/start.sh | sed 's/^KAFKA_BROKERS=//')}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

build/bin/streamdedup bench engine --memory "$memory" --fpr 0.01 >"$out/engine"
go test -run '^$' -bench '^Benchmark(Extract|ExtractOptions|Odd)$' -benchmem ./internal/keys >"$out/log"
awk '/^BenchmarkExtract/ { sub(/^BenchmarkExtract(Options)?\//, ""); sub(/-[0-9]+ /, " ")
	printf "%-40s %8.1f ns %4s allocations\n", $1, $3, $(NF - 1) }' "$out/log" >"$out/ids"
awk '/^BenchmarkOdd/ { sub(/^BenchmarkOdd\/one-percent=/, ""); sub(/-[0-9]+ /, " ")
	for (i = 2; i < NF; i++) if ($(i + 1) == "%cost") printf "1%% of records with %-10s %7.1f%% of the throughput in bytes\n", $1 ":", $i }' "$out/log" >"$out/odd"
STREAMDEDUP_REQUIRE_KAFKA=1 STREAMDEDUP_LONG=1 KAFKA_BROKERS=$brokers go test -count=1 -timeout 20m -v \
	-run '^TestRestoreOfManyIDs$' ./internal/e2e >"$out/log"
sed -n 's/^.*figure: //p' "$out/log" >"$out/restore"
build/bin/streamdedup bench kafka --brokers "$brokers" --records "$records" --pairs "$pairs" >"$out/kafka"

# What size makes its speeds and restore times from.
build/bin/streamdedup bench kafka --brokers "$brokers" --records "$records" --pairs 3 -o json >"$out/kafka.json"
go run ./bench/measured
go run ./bench/measured --kafka "$out/kafka.json" --restore "$out/restore"

# block prints a measurement as an indented block.
block() { sed 's/^/    /; s/ *$//' "$out/$1"; }

# What another script measured stays.
sed -n '/^<!-- bench filter -->$/,/^<!-- end bench filter -->$/p' docs/BENCHMARKS.md >"$out/filter"
sed -n '/^## The calculator/,/^<!-- end sizecheck -->$/p' docs/BENCHMARKS.md >"$out/sizecheck"
sed -n '/^<!-- peers:begin -->$/,/^<!-- peers:end -->$/p' docs/BENCHMARKS.md >"$out/peers"

{
	cat <<'TEXT'
# Benchmarks

Written by `scripts/bench.sh`; run it to have your own figures here. Absolute figures say more about the machine than about
the program, so each run has its references beside it: read the ratios.

## The engine, in memory

One core; hash of the ID, stamps, cleaning, journal and commits included; a window's worth of generations, one record in ten a duplicate.

TEXT
	block engine
	cat <<'TEXT'

A random line is what the memory allows: one random line of 64 bytes, read, changed and written, for each step.

## An ID is found

From the value of a record to the hash of its ID, one core, the same record again and again; the hash is in it. `BenchmarkExtract`, `BenchmarkExtractOptions`.

TEXT
	block ids
	cat <<'TEXT'

What odd records cost a stream of others, in turns with one that has none; less than nothing is a gain. `BenchmarkOdd`.

TEXT
	block odd
	cat <<'TEXT'

## The whole path, on a real Kafka

From topic to topic on one broker that shares the processors with the client, by the same client with the same options, in turn.

TEXT
	block kafka
	cat <<'TEXT'

## A memory comes back

A hundred million IDs in one partition, 1% false positives, layout fast: from the changelog on that broker, and after a kill -9 from a checkpoint on the local disk.
`TestRestoreOfManyIDs` measures it, and checks that what was known is known.

TEXT
	block restore
	cat <<'TEXT'

## Files

`filter` and what else removes duplicate lines; `scripts/bench-filter.sh` measures it.

TEXT
	cat "$out/filter"
	echo
	cat "$out/sizecheck"
	echo
	cat "$out/peers"
} >docs/BENCHMARKS.md

# In the README the same stands between two comments.
for what in engine kafka; do
	block "$what" >"$out/$what.block"
	awk -v what="$what" -v file="$out/$what.block" '
		$0 == "<!-- end bench " what " -->" { inside = 0 }
		!inside
		$0 == "<!-- bench " what " -->" { inside = 1; print ""; while ((getline line < file) > 0) print line; print "" }
	' README.md >"$out/README.md"
	cat "$out/README.md" >README.md
done
