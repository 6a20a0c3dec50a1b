package sizing

import (
	_ "embed"
	"encoding/json"
	"math"
	"slices"

	"github.com/streamdedup/streamdedup/filter"
)

// Measured are figures of one machine, from which a plan's speed and restore time are
// worked out. A program measured them and wrote measured.json, as scripts/bench.sh
// does for everybody's own machine.
type Measured struct {
	Machine string `json:"machine"`
	Go      string `json:"go"`
	Command string `json:"command"`
	// Engine is the time of one event in a shard, hash, window, journal and commits
	// included: for each number of lines per look-up at growing sizes.
	Engine []EngineSpeed `json:"engine"`
	// KafkaNS is the CPU time of one record from topic to topic, exactly once, with all
	// that the client does.
	KafkaNS float64 `json:"kafka_cpu_ns_per_record"`
	// RestoreIDs are the IDs a second that come back from a changelog, and
	// RestoreBytes the bytes a second of a checkpoint that no cache has.
	RestoreIDs   float64 `json:"restore_ids_per_second"`
	RestoreBytes float64 `json:"restore_checkpoint_bytes_per_second"`
	// Elsewhere is what an ID takes in what else remembers IDs.
	Elsewhere []Rival `json:"elsewhere"`
}

// EngineSpeed is one measurement of the engine.
type EngineSpeed struct {
	Filter string  `json:"filter"`
	Lines  float64 `json:"lines_per_lookup"`
	Bytes  uint64  `json:"bytes"`
	NS     float64 `json:"ns_per_event"`
}

//go:embed measured.json
var measuredJSON []byte

// measured is what measured.json says.
var measured = func() Measured {
	var m Measured
	if err := json.Unmarshal(measuredJSON, &m); err != nil {
		panic("BUG: measured.json does not parse: " + err.Error())
	}
	return m
}()

// MeasuredHere returns the figures that reports use.
func MeasuredHere() Measured { return measured }

// eventNS is the time of an event in a filter of a kind with so many lines per look-up
// and so many bytes: between two measurements in proportion to the logarithm of the
// size and to the lines, beyond them as at the nearest.
func (m Measured) eventNS(kind Kind, lines float64, bytes uint64) float64 {
	byLines := map[float64][]EngineSpeed{}
	var counts []float64
	for _, one := range m.Engine {
		if one.Filter != kind.String() {
			continue
		}
		if byLines[one.Lines] == nil {
			counts = append(counts, one.Lines)
		}
		byLines[one.Lines] = append(byLines[one.Lines], one)
	}
	slices.Sort(counts)
	ns := make([]float64, len(counts))
	for i, count := range counts {
		ns[i] = atSize(byLines[count], bytes)
	}
	return between(counts, ns, lines)
}

// atSize is the time of one series of measurements at a size.
func atSize(series []EngineSpeed, bytes uint64) float64 {
	var sizes, ns []float64
	for _, one := range series {
		sizes, ns = append(sizes, math.Log(float64(one.Bytes))), append(ns, one.NS)
	}
	return between(sizes, ns, math.Log(float64(bytes)))
}

// between is the value at x of the line through the points, which come in the order of
// xs; outside of them it is that of the nearest.
func between(xs, ys []float64, x float64) float64 {
	i, _ := slices.BinarySearch(xs, x)
	switch {
	case len(xs) == 0:
		return math.NaN()
	case i == 0:
		return ys[0]
	case i == len(xs):
		return ys[i-1]
	}
	part := (x - xs[i-1]) / (xs[i] - xs[i-1])
	return ys[i-1] + part*(ys[i]-ys[i-1])
}

// Speed is how many events a second one core judges, in memory and from topic to topic.
type Speed struct {
	Engine float64 `json:"engine_events_per_second_per_core"`
	Kafka  float64 `json:"kafka_events_per_second_per_core"`
}

// speed expects of the measured machine what so many bytes of the plan's filters make
// of it. What an event costs in Kafka was measured with filters in the processor's
// caches; larger ones cost as much more as they cost the engine.
func (m Measured) speed(p Plan, bytes uint64) Speed {
	lines := p.LinesPerLookup()
	ns := m.eventNS(p.Workload.Kind, lines, bytes)
	cached := m.eventNS(Sliced, 4, 0)
	return Speed{Engine: 1e9 / ns, Kafka: 1e9 / (m.KafkaNS + max(0, ns-cached))}
}

// Restore is how many seconds the memory takes to come back after a start.
type Restore struct {
	Changelog  float64 `json:"from_changelog_seconds"`
	Checkpoint float64 `json:"from_checkpoint_seconds"`
}

// restore is for so many partitions of the plan with the average of IDs in each of
// their generations.
func (m Measured) restore(p Plan, partitions int) Restore {
	ids := float64(p.Elements) / float64(p.Workload.Partitions) * filter.Generations / filter.Sealed
	return Restore{
		Changelog:  ids * float64(partitions) / m.RestoreIDs,
		Checkpoint: float64(p.BytesPerPartition) * float64(partitions) / m.RestoreBytes,
	}
}
