#!/usr/bin/env bash
# Runs the commands that README.md shows, as they stand there: each ```sh block
# with the line <!-- ci --> right before it, in order, from the root of the
# repository. A block is one script; the first that fails ends the run.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
doc=${1:-README.md}
blocks=$(mktemp -d)
trap 'rm -rf "$blocks"' EXIT

awk -v dir="$blocks" '
	/^<!-- ci -->[ \t]*$/ { marked = 1; next }
	/^```sh[ \t]*$/ && marked { inside = 1; file = sprintf("%s/%03d", dir, ++n); printf "" > file; next }
	/^```/ && inside { inside = 0; marked = 0; close(file); next }
	inside { print > file; next }
	/[^ \t]/ && marked { printf "%s:%d: <!-- ci --> is not followed by a ```sh block\n", FILENAME, NR > "/dev/stderr"; bad = 1; exit }
	END { if (inside) { printf "%s: the last block does not end\n", FILENAME > "/dev/stderr"; bad = 1 } exit bad }
' "$doc"

count=0
for block in "$blocks"/*; do
	[ -e "$block" ] || break
	sed 's/^/$ /' "$block"
	bash -euo pipefail "$block" </dev/null
	count=$((count + 1))
done
[ "$count" -gt 0 ] || {
	echo "error: find commands in $doc: no \`\`\`sh block is marked with <!-- ci -->" >&2
	exit 1
}
echo "$count blocks of $doc ran"
