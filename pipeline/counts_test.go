package pipeline

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// KEY-03: a stream without the field keeps every record, and the count of the missing
// tells: in the whole of it, and in a hundredth.
func TestCase_KEY_03(t *testing.T) {
	for every, want := range map[int]uint64{1: 10_000, 100: 100} {
		s := shardOf(t, func(c *Config) { c.Keys = []string{"json:msg"} })
		var values []string
		for i := range 10_000 {
			if i%every == 0 {
				values = append(values, fmt.Sprintf(`{"raw":"level=info n=%d"}`, i))
			} else {
				values = append(values, fmt.Sprintf(`{"msg":"n=%d"}`, i))
			}
		}
		b := batchOf(0, values...)
		s.Process(b)
		if n := b.Counts; n.Verdicts[Missing] != want || n.Fates[Out] != 10_000 {
			t.Errorf("1 in %d lacks it: %d are missing and %d came out, want %d and all", every, n.Verdicts[Missing], n.Fates[Out], want)
		}
		if n := b.Counts.Sampled; n > 0 && want == 10_000 {
			t.Errorf("the audit judged %d records without an ID", n)
		}
	}
}

// KEY-14: an ID belongs to its topic. Of two inputs with the same IDs all come out.
func TestCase_KEY_14(t *testing.T) {
	s := newStream(0)
	eu, us := Partition{"eu-1", 0}, Partition{"us-1", 0}
	want := map[Partition][]int64{}
	for _, p := range []Partition{eu, us} {
		for i := range 100 {
			id := fmt.Sprint(i % 50)
			s.in[p] = append(s.in[p], Record{Key: []byte(id), Time: epoch0 + int64(i)})
			if i < 50 {
				want[p] = append(want[p], int64(i))
			}
		}
	}
	e, err := run(t, s, newMember(s, 1, 30, nil), engineConfig())
	if err != nil {
		t.Fatal(err)
	}
	checkOutput(t, s, want)
	if n := e.Snapshot().Counts; n.Verdicts[Unique] != 100 || n.Verdicts[Duplicate] != 100 {
		t.Errorf("counts are %+v", n)
	}
}

// OPS-04: both sums hold at every commit, under every policy and through faults, and
// what was counted is what came out.
func TestCase_OPS_04(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 30))
	for _, onDuplicate := range []DuplicatePolicy{DropDuplicates, DivertDuplicates, TagDuplicates} {
		for _, odd := range []Policy{Pass, Drop, Divert} {
			s := newStream(2)
			fill(s, rng, 5_000)
			s.sizeLimit = 40 // of a value: a few are made larger
			for p := range s.in {
				for i := range s.in[p] {
					switch r := &s.in[p][i]; rng.IntN(100) {
					case 0, 1, 2, 3:
						r.Key = nil
					case 4, 5, 6, 7:
						r.Time -= (2 * time.Hour).Milliseconds()
					case 8:
						r.Value = append(r.Value, "                              "...)
					}
				}
			}
			cfg := engineConfig()
			cfg.Rules.Diverts, cfg.Rules.OnDuplicate, cfg.Rules.OnMissing, cfg.Rules.OnLate = true, onDuplicate, odd, odd
			var sum, last Counts
			commits := 0
			cfg.Events.Settled = func(how Settlement, _ time.Duration, counts *Counts, _ int64) {
				if err := counts.Check(); err != nil {
					t.Error(err)
				}
				if how == Committed {
					commits++
				} else if counts.In != 0 {
					t.Errorf("%d records are counted of a cycle that was %s", counts.In, how)
				}
				sum.Plus(counts)
				if sum.Fates[Dropped] < last.Fates[Dropped] || sum.In < last.In {
					t.Error("a counter fell")
				}
				last = sum
			}
			m := newMember(s, rng.Uint64(), 200, nil)
			m.fault = func(int) fault { return []fault{faultNone, faultNone, faultAbort, faultDeliver}[rng.IntN(4)] }
			e, err := run(t, s, m, cfg)
			if err != nil {
				t.Fatal(err)
			}
			out, aside := 0, 0
			for p := range s.in {
				out, aside = out+len(s.out[p]), aside+len(s.diverted[p])
			}
			n := e.Snapshot().Counts
			if n != sum || n.In != 5_000 || commits < 5 {
				t.Errorf("duplicates %s, odd ones %s: %+v after %d commits, want %+v", onDuplicate, odd, n, commits, sum)
			}
			if n.Fates[Out] != uint64(out) || n.Fates[Diverted] != uint64(aside) || aside == 0 || n.Verdicts[Duplicate] == 0 {
				t.Errorf("duplicates %s, odd ones %s: %d came out and %d went aside, counted %+v", onDuplicate, odd, out, aside, n)
			}
		}
	}
}
