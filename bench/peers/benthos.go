package peers

import (
	"fmt"
	"os"
	"path/filepath"
)

// benthosConfig dedupes lines by the JSON field, with a memory cache. Lines go
// through it in batches, which suits it much better than one by one; without the
// period it would wait for ever for the rest of the last one.
const benthosConfig = `http: { enabled: false }
logger: { level: error, file: { path: "" } }
input:
  batched:
    child:
      file: { paths: [ %q ], scanner: { lines: {} } }
    policy: { count: 512, period: 100ms }
pipeline:
  processors:
    - dedupe: { cache: seen, key: '${! json("event_id") }' }
output:
  file: { path: %q, codec: lines }
cache_resources:
  - label: seen
    memory: { default_ttl: 24h }
`

// Benthos is its dedupe processor between two files.
func Benthos(binary, dir, input string) (Command, error) {
	output, config := filepath.Join(dir, "benthos.out"), filepath.Join(dir, "benthos.yaml")
	if err := os.RemoveAll(output); err != nil { // it appends
		return Command{}, err
	}
	if err := os.WriteFile(config, fmt.Appendf(nil, benthosConfig, input, output), 0o644); err != nil {
		return Command{}, err
	}
	version, err := dependency(binary, "github.com/redpanda-data/benthos/v4")
	return Command{
		Peer: "benthos", Version: version, Note: "dedupe with a memory cache, lines in batches of 512; " + wholeProcess,
		Args: []string{binary, "run", config}, Output: output,
	}, err
}
