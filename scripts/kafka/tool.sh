#!/usr/bin/env bash
# Kafka's own command-line tools, from the jars that start.sh fetched. The rest of
# the arguments are the tool's own; --bootstrap-server is filled in.
#
#   scripts/kafka/tool.sh topics --create --topic clicks --partitions 4
#   scripts/kafka/tool.sh produce --topic clicks < events.ndjson
#   scripts/kafka/tool.sh consume --topic clicks-unique --isolation-level read_committed --from-beginning
set -euo pipefail

# The jars are where start.sh puts them, whatever folder the broker has.
lib=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/kafka/lib${KAFKA_VERSION:+-$KAFKA_VERSION}
brokers=${KAFKA_BROKERS:-127.0.0.1:${KAFKA_PORT:-19092}}
case ${1:-} in
topics) class=org.apache.kafka.tools.TopicCommand ;;
produce) class=org.apache.kafka.tools.ConsoleProducer ;;
consume) class=org.apache.kafka.tools.consumer.ConsoleConsumer ;;
groups) class=org.apache.kafka.tools.consumer.group.ConsumerGroupCommand ;;
*)
	echo "usage: scripts/kafka/tool.sh topics|produce|consume|groups OPTION..." >&2
	exit 2
	;;
esac
[ -d "$lib" ] || {
	echo "error: no jars in $lib: run scripts/kafka/start.sh first" >&2
	exit 1
}
shift
exec java -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$lib/*" "$class" --bootstrap-server "$brokers" "$@"
