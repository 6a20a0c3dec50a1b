// Measured writes sizing/measured.json, when nothing else runs: what this machine takes
// for an event, by lines per look-up and size of the filter, and, from the output of
// other benchmarks, for a record through Kafka and for a restore. The reports of `size`
// are made from it.
//
//	go run ./bench/measured                                the engine: 2 GB, minutes; it says how far it is
//	go run ./bench/measured --kafka FILE --restore FILE --peers FILE    these alone
//
// FILE is what `bench kafka -o json` printed, the figures of TestRestoreOfManyIDs, or
// the results of bench/peers/run.sh.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamdedup/streamdedup/bench"
	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/sizing"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	file := flag.String("file", "sizing/measured.json", "`FILE` to write into")
	kafka := flag.String("kafka", "", "`FILE` with the JSON of bench kafka")
	restore := flag.String("restore", "", "`FILE` with the figures of a restore")
	peers := flag.String("peers", "", "`FILE` with the results of the peers")
	flag.Parse()
	if err := run(ctx, *file, *kafka, *restore, *peers); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, file, kafka, restore, peers string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var m sizing.Measured
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	switch {
	case kafka == "" && restore == "" && peers == "":
		err = engine(ctx, &m)
	default:
		err = errors.Join(fromFile(kafka, &m, takeKafka), fromFile(restore, &m, takeRestore), fromFile(peers, &m, takePeers))
	}
	if err != nil {
		return err
	}
	if text, err = json.MarshalIndent(m, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func fromFile(name string, m *sizing.Measured, take func(text []byte, m *sizing.Measured) error) error {
	if name == "" {
		return nil
	}
	text, err := os.ReadFile(name)
	if err == nil {
		err = take(text, m)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// sizes are those of a cache of one core, of the cache that cores share, and of two
// filters that are in no cache.
var sizes = []uint64{1 << 20, 16 << 20, 256 << 20, 2 << 30}

// designs have two, three and four lines per look-up, and a ring's many.
var designs = []struct {
	kind   sizing.Kind
	layout filter.Layout
	fpr    float64
}{
	{sizing.Sliced, filter.Fast, 1e-2},
	{sizing.Sliced, filter.Compact, 1e-2},
	{sizing.Sliced, filter.Compact, 1e-4},
	{sizing.Classic, filter.Compact, 1e-2},
}

// each is how long one design is measured at one size.
const each = 3 * time.Second

func engine(ctx context.Context, m *sizing.Measured) error {
	m.Engine = nil
	for i, d := range designs {
		r, err := bench.RunEngine(ctx, bench.EngineConfig{
			Memory: sizes, FPR: d.fpr, Layouts: []filter.Layout{d.layout}, Workloads: []bench.Workload{bench.Duplicates},
			Sliced: d.kind == sizing.Sliced, Classic: d.kind == sizing.Classic, Seed: 1, Duration: each, Rotations: 1,
			Progress: func(name string) {
				fmt.Fprintf(os.Stderr, "design %d of %d, at %g: %s\n", i+1, len(designs), d.fpr, name)
			},
		})
		if err != nil {
			return err
		}
		for _, one := range r.Results {
			plan, err := sizing.ForMemory(sizing.Workload{
				Window: 7 * time.Hour, FPR: d.fpr, Peak: 1, Skew: 1, Partitions: 1, Kind: d.kind, Layout: d.layout,
			}, one.Memory)
			if err != nil {
				return err
			}
			m.Engine = append(m.Engine, sizing.EngineSpeed{
				Filter: d.kind.String(), Lines: math.Round(10*plan.LinesPerLookup()) / 10,
				Bytes: one.Bytes, NS: math.Round(10*one.NSPerEvent) / 10,
			})
		}
		m.Machine, m.Go = r.Machine, r.Go
	}
	m.Command = "go run ./bench/measured"
	return nil
}

// takeKafka takes the CPU time of the product, which is the first way that deduplicates.
func takeKafka(text []byte, m *sizing.Measured) error {
	var report bench.KafkaReport
	if err := json.Unmarshal(text, &report); err != nil {
		return err
	}
	for _, one := range report.Cases {
		for _, way := range one.Results {
			if way.Name == "exactly-once dedup" {
				m.KafkaNS = way.MedianCPUNSPerEvent
				return nil
			}
		}
	}
	return errors.New("it has no exactly-once dedup")
}

var (
	fromChangelog  = regexp.MustCompile(`from the changelog: .* ([0-9.]+) million a second`)
	fromCheckpoint = regexp.MustCompile(`from a checkpoint of ([0-9]+) MB .*: in ([0-9.]+m?s),`)
)

// takeRestore takes the two figures that the restore's test logs.
func takeRestore(text []byte, m *sizing.Measured) error {
	log, point := fromChangelog.FindSubmatch(text), fromCheckpoint.FindSubmatch(text)
	if log == nil || point == nil {
		return errors.New("it has no figures from a changelog and a checkpoint")
	}
	millions, err := strconv.ParseFloat(string(log[1]), 64)
	megabytes, err2 := strconv.ParseFloat(string(point[1]), 64)
	took, err3 := time.ParseDuration(string(point[2]))
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	m.RestoreIDs, m.RestoreBytes = millions*1e6, megabytes*1e6/took.Seconds()
	return nil
}

// takePeers takes what an ID takes in Redis, the median of its rounds.
func takePeers(text []byte, m *sizing.Measured) error {
	i := slices.IndexFunc(m.Elsewhere, func(r sizing.Rival) bool { return strings.HasPrefix(r.Name, "Redis") })
	if i < 0 {
		return errors.New("there is no Redis to compare with")
	}
	var rounds []float64
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var one struct {
			Peer       string   `json:"peer"`
			BytesPerID *float64 `json:"bytes_per_id"`
		}
		if err := dec.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if one.Peer == "redis" && one.BytesPerID != nil {
			rounds = append(rounds, *one.BytesPerID)
		}
	}
	if len(rounds) == 0 {
		return errors.New("it has no bytes of Redis")
	}
	slices.Sort(rounds)
	m.Elsewhere[i].BytesPerID = math.Round(10*rounds[len(rounds)/2]) / 10
	m.Elsewhere[i].Source = "measured by bench/peers: SET NX EX, IDs of 36 bytes"
	return nil
}
