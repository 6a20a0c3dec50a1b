package audit

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// TestPassesWhatTheShardDoes audits the shard itself on streams that nobody
// should have: whatever the times are, its verdicts must pass, with a filter so
// large that it makes no false positives. With one verdict turned round, many
// must fail; where a time is in doubt or an ID in its last slice, both are right.
func TestPassesWhatTheShardDoes(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("STREAMDEDUP_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("STREAMDEDUP_SEED=%d", seed)
	streams := 300
	if os.Getenv("STREAMDEDUP_LONG") == "1" {
		streams = 3000
	}
	var judged struct{ unique, duplicate uint64 }
	caught := 0
	for n := range streams {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		cfg, in := strangeStream(random)
		kept := shardKeeps(t, cfg, in)
		r := auditOf(t, cfg, in, kept)
		if !r.OK {
			t.Fatalf("stream %d: %v\n%s", n, r.Err(), describe(in, kept))
		}
		turned := random.IntN(len(in))
		kept[turned] = !kept[turned]
		if wrong := auditOf(t, cfg, in, kept); !wrong.OK {
			caught++
		}
		judged.unique += r.Unique
		judged.duplicate += r.Duplicate
	}
	if caught < streams/3 {
		t.Errorf("%d of %d turned verdicts were caught, want at least a third", caught, streams)
	}
	if judged.unique < 1000 || judged.duplicate < 1000 {
		t.Errorf("the streams had %d unique and %d duplicate records: too few to mean anything", judged.unique, judged.duplicate)
	}
}

// strange is a record and the wall clock at its reading.
type strange struct {
	keys.Record
	now int64
}

// strangeStream is a window of random length and a stream of few IDs whose time
// walks, jumps, falls back, is missing, or lies ahead of the clock.
func strangeStream(random *rand.Rand) (Config, []strange) {
	span := 7 + random.Int64N(5000)
	started := t0 + random.Int64N(1000)
	now := started
	cfg := rules()
	cfg.Window = time.Duration(span) * time.Millisecond
	cfg.MaxAhead = time.Duration(random.IntN(3)) * time.Duration(random.Int64N(span)) * time.Millisecond
	in := make([]strange, 50+random.IntN(200))
	stream := started - random.Int64N(20*span)
	for i := range in {
		now += random.Int64N(1 + span/50)
		stream = min(stream+random.Int64N(1+span/10), now)
		at := stream
		switch random.IntN(20) {
		case 0:
			at = stream - random.Int64N(3*span) // late
		case 1:
			at = now + random.Int64N(2*span) // perhaps believed
		case 2:
			at = now + 100*span // never believed
		case 3:
			at = []int64{0, -1, -5}[random.IntN(3)]
		case 4:
			stream = min(stream+random.Int64N(3*span), now) // a jump
			at = stream
		}
		in[i].Record = keys.Record{Key: fmt.Appendf(nil, "%d", random.IntN(20)), Value: fmt.Appendf(nil, "%d", i), Time: at}
		in[i].now = now
	}
	// The auditor knows less than the shard: when reading began and ended.
	cfg.ReadFrom, cfg.ReadTo = time.UnixMilli(started), time.UnixMilli(now)
	return cfg, in
}

// shardKeeps is which records the product's own shard lets out.
func shardKeeps(t *testing.T, cfg Config, in []strange) []bool {
	t.Helper()
	shard, err := pipeline.NewShard(pipeline.Config{
		Keys: cfg.Keys, Seed: 1, Time: cfg.Time, Kind: "sliced",
		Window: window.Config{Span: cfg.Window, MaxAhead: cfg.MaxAhead, GenerationCapacity: 1 << 20},
		NewSet: func() (filter.Set, error) {
			return filter.NewSliced(filter.Params{Lines: 1 << 10, LinesPerKey: 4, CellsPerLine: 8})
		},
	}, pipeline.Partition{Topic: "t"}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer shard.Close()
	kept := make([]bool, len(in))
	for i := range in {
		b := pipeline.Batch{
			First: int64(i), Next: int64(i) + 1, Now: in[i].now,
			Records: []keys.Record{in[i].Record}, Offsets: []int64{int64(i)},
		}
		shard.Process(&b)
		kept[i] = b.Outcomes[0].Fate == pipeline.Out
	}
	return kept
}

func auditOf(t *testing.T, cfg Config, in []strange, kept []bool) Report {
	t.Helper()
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := a.Partition(0, false)
	for i := range in {
		if err := p.In(int64(i), &in[i].Record); err != nil {
			t.Fatal(err)
		}
	}
	for i := range in {
		if kept[i] {
			if err := p.Out(int64(i), &in[i].Record); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.Finish()
	return a.Report()
}

func describe(in []strange, kept []bool) (text string) {
	for i, r := range in {
		text += fmt.Sprintf("%3d id %s at %d, read at %d, out %t\n", i, r.Key, r.Time-t0, r.now-t0, kept[i])
	}
	return text
}
