#!/usr/bin/env bash
# Measures `streamdedup filter` against what else removes duplicate lines: awk,
# and the crates runiq and huniq, which it installs into build/cargo. Writes the
# table into docs/BENCHMARKS.md and README.md, between the comments for it. Run
# nothing else meanwhile.
#
#   scripts/bench-filter.sh [--lines N] [--rounds N]
#
# The others compare whole lines; filter does it by a member of the JSON, and by
# whole lines. All write to a file, and it is checked that they write the same.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
lines=2000000 rounds=5
while [ $# -gt 0 ]; do
	case $1 in
	--lines) lines=${2:?} ;;
	--rounds) rounds=${2:?} ;;
	*)
		echo "usage: scripts/bench-filter.sh [--lines N] [--rounds N]" >&2
		exit 2
		;;
	esac
	shift 2
done

go build -o build/bin/streamdedup ./cmd/streamdedup
[ -x build/cargo/bin/runiq ] && [ -x build/cargo/bin/huniq ] ||
	cargo install --quiet --root build/cargo runiq@2.1.0 huniq@2.7.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Clicks of 186 bytes; every tenth repeats one of those before it.
awk -v lines="$lines" '
	function click(n) {
		printf "{\"event_id\":\"%08x-%04x-4%03x-8%03x-%06x%06x\",\"user_id\":\"u-%06d\",\"ts\":%.0f,\"type\":\"click\",\"page\":\"/products/%05d?ref=mail\",\"session\":\"s-%08d\",\"agent\":\"Mozilla/5.0\"}\n",
			(n * 40503) % 2147483647, n % 65536, (n * 7) % 4096, (n * 13) % 4096, n % 16777216, (n * 31) % 16777216,
			n % 1000000, 1767225600000 + n, n % 100000, n
	}
	BEGIN { srand(1); for (i = 0; i < lines; i++) if (i % 10 == 9) click(int(rand() * made)); else click(made++) }
' >"$work/in.ndjson"

names=('filter --key json:event_id' 'filter --key value' "awk '!seen[\$0]++'" 'runiq -f quick' 'huniq')
run() {
	case $1 in
	0) build/bin/streamdedup filter --key json:event_id --summary none "$work/in.ndjson" ;;
	1) build/bin/streamdedup filter --key value --summary none "$work/in.ndjson" ;;
	2) awk '!seen[$0]++' "$work/in.ndjson" ;;
	3) build/cargo/bin/runiq -f quick "$work/in.ndjson" ;;
	4) build/cargo/bin/huniq <"$work/in.ndjson" ;;
	esac
}

TIMEFORMAT='%R %U %S'
for ((round = 0; round <= rounds; round++)); do
	for i in "${!names[@]}"; do
		rm -f "$work/out"
		took=$({ time run "$i" >"$work/out"; } 2>&1)
		if [ "$round" = 0 ]; then # warms up, and is checked
			[ "$i" = 0 ] && mv "$work/out" "$work/want" || cmp "$work/out" "$work/want"
		else
			echo "$round $i $took" >>"$work/times"
		fi
	done
done

{
	awk -v rounds="$rounds" -v lines="$lines" -v names="$(printf '%s|' "${names[@]}")" '
		{ wall[$2, $1] = $3; cpu[$2, $1] = $4 + $5 }
		function median(from, i, ratio,    r, n, j, t, sorted) {
			n = 0
			for (r = 1; r <= rounds; r++) {
				t = from == "cpu" ? cpu[i, r] : wall[i, r]
				if (ratio >= 0) t /= wall[ratio, r]
				for (j = n++; j > 0 && sorted[j - 1] > t; j--) sorted[j] = sorted[j - 1]
				sorted[j] = t
			}
			return n % 2 ? sorted[(n - 1) / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2
		}
		END {
			count = split(names, name, "|") - 1
			printf "%-28s %9s %11s %9s %17s %14s\n", "", "seconds", "lines/s", "CPU s", "by json:event_id", "by whole line"
			for (i = 0; i < count; i++)
				printf "%-28s %9.2f %11d %9.2f %16.1fx %13.1fx\n", name[i + 1], median("wall", i, -1),
					lines / median("wall", i, -1), median("cpu", i, -1), median("wall", i, 0), median("wall", i, 1)
		}' "$work/times"
	echo
	echo "$lines lines, $(($(stat -c %s "$work/in.ndjson") / 1000000)) MB, a tenth duplicates, from a file into a file; all write the same bytes."
	echo "The last two columns: how many times as long as filter takes, by each key; medians of $rounds rounds, ratios of each round's own."
	echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) CPUs, $(awk -W version 2>&1 | head -1), runiq 2.1.0, huniq 2.7.0"
	echo "scripts/bench-filter.sh --lines $lines --rounds $rounds"
} | sed 's/^/    /; s/ *$//' >"$work/block"
cat "$work/block"

for doc in README.md docs/BENCHMARKS.md; do
	awk -v file="$work/block" '
		$0 == "<!-- end bench filter -->" { inside = 0 }
		!inside
		$0 == "<!-- bench filter -->" { inside = 1; print ""; while ((getline line < file) > 0) print line; print "" }
	' "$doc" >"$work/doc"
	cat "$work/doc" >"$doc"
done
