#!/usr/bin/env bash
# Measures what README.md and docs/BENCHMARKS.md say, and writes it there, between
# the comments for it: the engine in memory, the search for IDs, the whole path on a
# broker, and a restore. It rewrites sizing/measured.json and the figures in docs, too.
# Run nothing else meanwhile; it takes about an hour.
#
#   scripts/bench.sh [--memory SIZE] [--sizes LIST] [--largest SIZE] [--records N] [--pairs N] [--only LIST]
#
# --only measures some parts: engine, ids, kafka, restore. The broker is the one in
# KAFKA_BROKERS, or else that of scripts/kafka/start.sh. --records and --pairs are those of
# the first measurement on it; the others take fewer, and never more than these.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
memory=2GB sizes=512KiB,4MiB,32MiB,256MiB,2GiB largest=8GiB records=4M pairs=9 only=engine,ids,kafka,restore
while [ $# -gt 0 ]; do
	case $1 in
	--memory) memory=${2:?} ;;
	--sizes) sizes=${2:?} ;;
	--largest) largest=${2:?} ;;
	--records) records=${2:?} ;;
	--pairs) pairs=${2:?} ;;
	--only) only=${2:?} ;;
	*)
		sed -n 's/^#   scripts/usage: scripts/p' "$0" >&2
		exit 2
		;;
	esac
	shift 2
done

sd=build/bin/streamdedup
go build -o $sd ./cmd/streamdedup
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# asked is whether a part is to be measured.
asked() { [[ ,$only, == *,$1,* ]]; }

# say tells what is measured next.
say() { echo "bench: $*" >&2; }

# smaller is the smaller one of two numbers such as 500k.
smaller() {
	awk -v a="$1" -v b="$2" '
		function count(s) { gsub(/,/, "", s); return s * (s ~ /[kK]$/ ? 1e3 : s ~ /M$/ ? 1e6 : s ~ /G$/ ? 1e9 : 1) }
		BEGIN { print count(b) < count(a) ? b : a }'
}

# put writes a measurement, indented, between the comments that name it.
put() {
	local doc
	sed 's/^/    /; s/ *$//' "$out/$1" >"$out/block"
	if [ -f "docs/bench-$1.svg" ]; then
		printf '\n![the same as a figure](bench-%s.svg)\n' "$1" >>"$out/block"
	fi
	for doc in "${@:2}"; do
		awk -v what="$1" -v file="$out/block" '
			$0 == "<!-- end bench " what " -->" { inside = 0 }
			!inside
			$0 == "<!-- bench " what " -->" { inside = 1; print ""; while ((getline line < file) > 0) print line; print "" }
		' "$doc" >"$out/doc"
		cat "$out/doc" >"$doc"
	done
}

if asked engine; then
	say "the engine, $memory at 1 in 100"
	$sd bench engine --memory "$memory" --fpr 0.01 --duration 30s >"$out/engine"
	put engine README.md docs/BENCHMARKS.md
	say "the engine, $memory at 1 in 10,000"
	$sd bench engine --memory "$memory" --fpr 0.0001 --duration 20s --filter sliced >"$out/engine-strict"
	put engine-strict docs/BENCHMARKS.md
	say "the engine, all workloads"
	$sd bench engine --memory "$memory" --fpr 0.01 --duration 10s --filter sliced --workload all >"$out/workloads"
	put workloads docs/BENCHMARKS.md
	say "the engine, $sizes"
	$sd bench engine --memory "$sizes" --fpr 0.01 --duration 4s --plot docs/bench-sizes.svg >"$out/sizes"
	put sizes docs/BENCHMARKS.md
	say "the engine's pauses, $largest"
	# Five minutes. Generations are cut short, as the whole of them would take half an hour;
	# what each rotation owes is cleaned within a few seconds.
	$sd bench engine --memory "$largest" --fpr 0.01 --duration 12s --filter sliced >"$out/pauses"
	put pauses docs/BENCHMARKS.md
	say "the speeds of size, into sizing/measured.json"
	go run ./bench/measured # what size makes its speeds from; below its times on Kafka
fi

if asked ids; then
	say "the search for IDs"
	go test -run '^$' -bench '^Benchmark(Extract|ExtractOptions|Odd)$' -benchmem ./internal/keys >"$out/log"
	awk '/^BenchmarkExtract/ { sub(/^BenchmarkExtract(Options)?\//, ""); sub(/-[0-9]+ /, " ")
		printf "%-40s %8.1f ns %4s allocations\n", $1, $3, $(NF - 1) }' "$out/log" >"$out/ids"
	put ids docs/BENCHMARKS.md
	awk '/^BenchmarkOdd/ { sub(/^BenchmarkOdd\/one-percent=/, ""); sub(/-[0-9]+ /, " ")
		for (i = 2; i < NF; i++) if ($(i + 1) == "%cost") printf "1%% of records with %-10s %7.1f%% of the throughput in bytes\n", $1 ":", $i }' "$out/log" >"$out/odd"
	put odd docs/BENCHMARKS.md
fi

if asked kafka || asked restore; then
	brokers=${KAFKA_BROKERS:-$(scripts/kafka/start.sh | sed 's/^KAFKA_BROKERS=//')}
fi

if asked kafka; then
	# compare WHAT RECORDS PAIRS FLAG...
	compare() {
		say "on Kafka, $1: $2 records, $3 rounds"
		$sd bench kafka --brokers "$brokers" --records "$2" --pairs "$3" "${@:4}"
	}
	compare "all ways" "$records" "$pairs" >"$out/kafka"
	put kafka README.md docs/BENCHMARKS.md
	# Of one thing at a time, with fewer records, but enough that the first touches of the
	# filters do not decide; fewer of values of ten kilobytes.
	sweep() { compare "$1" "$(smaller "$2" "$records")" "$(smaller 3 "$pairs")" "${@:3}"; }
	sweep "for size, into sizing/measured.json" 2M -o json >"$out/kafka.json"
	go run ./bench/measured --kafka "$out/kafka.json"
	sweep compression 2M --compression none,lz4,zstd >"$out/compression"
	put compression docs/BENCHMARKS.md
	sweep partitions 2M --partitions 1,4,16,64 --plot docs/bench-partitions.svg >"$out/partitions"
	put partitions docs/BENCHMARKS.md
	sweep "sizes of values" 300k --value-bytes 100,1000,10000 --plot docs/bench-values.svg >"$out/values"
	put values docs/BENCHMARKS.md
	# Several seconds, for some commits of each; and one load for the latency of all.
	sweep latency 4M --commit-interval 10ms,100ms,1s --latency 3s --rate 100k --plot docs/bench-latency.svg >"$out/latency"
	put latency docs/BENCHMARKS.md
fi

if asked restore; then
	say "a restore, into sizing/measured.json"
	STREAMDEDUP_REQUIRE_KAFKA=1 STREAMDEDUP_LONG=1 KAFKA_BROKERS=$brokers go test -count=1 -timeout 20m -v \
		-run '^TestRestoreOfManyIDs$' ./internal/e2e >"$out/log"
	sed -n 's/^.*figure: //p' "$out/log" >"$out/restore"
	put restore docs/BENCHMARKS.md
	go run ./bench/measured --restore "$out/restore"
fi
