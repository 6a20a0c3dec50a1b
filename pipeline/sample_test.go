package pipeline

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// idsInSample are n IDs that the audit's sample has, as values under json:id.
func idsInSample(s *Shard, n int) []string {
	var ids []string
	for i := 0; len(ids) < n; i++ {
		id := fmt.Sprint("id-", i)
		if h, _ := s.extractor.Hash(&Record{Value: fmt.Appendf(nil, `{"id":%q}`, id)}); isSampled(h) {
			ids = append(ids, id)
		}
	}
	return ids
}

// fillerOr is the value of a record of an ID, or more often of one that is no other's
// and is not in the sample: what it leaves in a small filter makes it wrong.
func fillerOr(s *Shard, rng *rand.Rand, id string) (is bool, value []byte) {
	if rng.IntN(8) == 0 {
		return true, fmt.Appendf(nil, `{"id":%q,"v":%d}`, id, rng.IntN(2))
	}
	for {
		r := Record{Value: fmt.Appendf(nil, `{"id":%d}`, rng.Uint64())}
		if h, _ := s.extractor.Hash(&r); !isSampled(h) {
			return false, r.Value
		}
	}
}

// tiny gives a shard a filter that is wrong about many new IDs.
func tiny(lines uint64, cells int) func(*Config) {
	return func(c *Config) {
		c.NewSet = func() (filter.Set, error) {
			return filter.NewSliced(filter.Params{Lines: lines, LinesPerKey: 2, CellsPerLine: cells})
		}
	}
}

// OPS-06: the measured rate of false positives is the true one, within the error of
// the sample, from small to ruinous.
func TestCase_OPS_06(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 22))
	for _, lines := range []uint64{1 << 12, 1 << 14, 1 << 16} {
		s := shardOf(t, tiny(lines, 2))
		seen := map[uint64]bool{} // what the stream truly had and the filter was taught
		var falsely, fresh float64
		var counts Counts
		var ids [1000]uint64
		for range 1000 {
			b := batchOf(s.Next())
			b.Next = b.First + int64(len(ids))
			for i := range ids {
				ids[i] = rng.Uint64N(2_000_000)
				b.Records = append(b.Records, Record{Value: fmt.Appendf(nil, `{"id":%d}`, ids[i]), Time: epoch0})
				b.Offsets = append(b.Offsets, b.First+int64(i))
			}
			s.Process(b)
			for i, o := range b.Outcomes {
				switch {
				case o.Verdict == Unique:
					fresh++
					seen[ids[i]] = true
				case !seen[ids[i]]:
					falsely++
				}
			}
			counts.Plus(&b.Counts)
			s.Seal()
			s.Commit()
		}
		want, got := falsely/(falsely+fresh), counts.FPR()
		sampled := float64(counts.FalsePositives + counts.SampledNew)
		// Four standard deviations of a share of so many.
		if bound := 4 * math.Sqrt(want*(1-want)/sampled); got < want-bound || got > want+bound {
			t.Errorf("%d lines: measured %.4f, true %.4f, and they may differ by %.4f", lines, got, want, bound)
		}
		if counts.Sampled < 700 || counts.Sampled > 1300 {
			t.Errorf("%d of a million records were sampled", counts.Sampled)
		}
		if want < 0.005 || counts.Clashes != 0 {
			t.Errorf("true rate %.4f, %d clashes: the test is too tame", want, counts.Clashes)
		}
	}
}

// KEY-15: other events under an ID are counted, and a true repeat is not.
func TestCase_KEY_15(t *testing.T) {
	s := shardOf(t, func(c *Config) { c.Keys = []string{"json:event_id"} })
	id := ""
	for i := 0; id == ""; i++ { // as f2d4, and in the sample
		candidate := fmt.Sprintf("f2d4-%d", i)
		if h, _ := s.extractor.Hash(&Record{Value: fmt.Appendf(nil, `{"event_id":%q}`, candidate)}); isSampled(h) {
			id = candidate
		}
	}
	event := func(page string) string {
		return fmt.Sprintf(`{"event_id":%q,"ua":"Googlebot","page":%q}`, id, page)
	}
	b := batchOf(0, event("/a"), event("/b"), event("/a"))
	s.Process(b)
	if got := outcomes(b); got != "unique:out duplicate:dropped:duplicate duplicate:dropped:duplicate" {
		t.Errorf("got %s", got)
	}
	if want := (Audit{Sampled: 3, SampledNew: 1, Clashes: 1}); b.Counts.Audit != want {
		t.Errorf("the audit counted %+v, want %+v", b.Counts.Audit, want)
	}
}

// learnedOnce is where the model last saw an ID learned.
type learnedOnce struct {
	generation int64
	value      string
}

// auditModel is the audit with a map.
type auditModel struct {
	ids     map[string]learnedOnce
	slice   int64
	refresh bool
}

func (m auditModel) clone() auditModel { m.ids = maps.Clone(m.ids); return m }

func (m auditModel) live(id string, generation int64) bool {
	at, is := m.ids[id]
	return is && generation-at.generation < filter.Generations
}

// judge is what the audit must count of a batch with those IDs, where "" is one that
// is not in the sample, and follows it.
func (m auditModel) judge(b *Batch, ids []string) (want Audit) {
	for i, o := range b.Outcomes {
		if ids[i] == "" {
			continue
		}
		generation := floorDiv(b.Records[i].Time, m.slice)
		value := string(b.Records[i].Value)
		want.Sampled++
		switch {
		case o.Age == 0:
			want.SampledNew++
			m.ids[ids[i]] = learnedOnce{generation, value}
			continue
		case !m.live(ids[i], generation):
			want.FalsePositives++
		default:
			if m.ids[ids[i]].value != value {
				want.Clashes++
			}
			value = m.ids[ids[i]].value // a repeat has not the first copy's
		}
		if m.refresh && o.Age&1 == 0 {
			m.ids[ids[i]] = learnedOnce{generation, value}
		}
	}
	return want
}

func floorDiv(a, b int64) int64 { return (a - ((a%b)+b)%b) / b }

// The audit counts what a map says, through random cycles, seals, rollbacks and
// rotations, and a rollback leaves nothing of it.
func TestAuditIsExact(t *testing.T) {
	for _, refresh := range []bool{false, true} {
		auditIsExact(t, rand.New(rand.NewPCG(seed(t), 23)), refresh)
	}
}

func auditIsExact(t *testing.T, rng *rand.Rand, refresh bool) {
	t.Helper()
	s := shardOf(t, func(c *Config) {
		tiny(64, 1)(c)
		c.Window.Span, c.Window.Refresh = 70*time.Second, refresh
	})
	ids := idsInSample(s, 400)
	slice := s.rules.Window.Slice()
	open := auditModel{map[string]learnedOnce{}, slice, refresh}
	base := open.clone()
	var sealed []auditModel
	var times []int64 // where the stream stood at each seal
	now, baseTime := epoch0, epoch0
	var total Audit
	for range 1500 {
		switch p := rng.IntN(10); {
		case p < 5:
			b := batchOf(s.Next())
			var of []string
			for i := range int64(rng.IntN(500)) {
				if now += rng.Int64N(75); rng.IntN(4000) == 0 {
					now += rng.Int64N(20 * slice)
				}
				id := ids[rng.IntN(len(ids))]
				sampled, value := fillerOr(s, rng, id)
				if !sampled {
					id = ""
				}
				of = append(of, id)
				b.Records = append(b.Records, Record{Value: value, Time: now})
				b.Offsets = append(b.Offsets, b.First+i)
				b.Next++
			}
			s.Process(b)
			want := open.judge(b, of)
			if b.Counts.Audit != want {
				t.Fatalf("the audit counted %+v, want %+v", b.Counts.Audit, want)
			}
			total.plus(&want)
		case p < 7:
			s.Seal()
			sealed = append(sealed, open.clone())
			times = append(times, now)
		case p < 9:
			if len(sealed) > 0 {
				s.Commit()
				base, sealed = sealed[0], sealed[1:]
				baseTime, times = times[0], times[1:]
			}
		default:
			s.Rollback()
			open, now = base.clone(), baseTime
			sealed, times = nil, nil
		}
		compareSample(t, s, open, ids, now)
	}
	if total.FalsePositives < 300 || total.Clashes < 300 || total.SampledNew < 3000 {
		t.Errorf("the stream is too tame: %+v", total)
	}
}

// compareSample compares what the sample remembers with the model.
func compareSample(t *testing.T, s *Shard, m auditModel, ids []string, now int64) {
	t.Helper()
	s.sample.advance(s.State().Window.Rotation)
	n := 0
	for _, id := range ids {
		h, _ := s.extractor.Hash(&Record{Value: fmt.Appendf(nil, `{"id":%q}`, id)})
		is := s.sample.remembers(s.sample.table.get(h))
		if want := m.live(id, floorDiv(now, m.slice)); is != want {
			t.Fatalf("%s is remembered: %v, want %v", id, is, want)
		}
		if is {
			n++
		}
	}
	if got := s.sample.ids(); got != n {
		t.Fatalf("%d IDs are counted, %d are remembered", got, n)
	}
}

// What the audit counts does not depend on how the stream is cut, committed and rolled
// back, also when the sample is full.
func TestAuditDoesNotDependOnHowTheShardRuns(t *testing.T) {
	base := rand.New(rand.NewPCG(seed(t), 24)).Uint64()
	var first Counts
	ids := idsInSample(shardOf(t, nil), 1000)
	for i, size := range []int{1, 5000, 63, 1024} {
		rng, luck := rand.New(rand.NewPCG(base, 25)), rand.New(rand.NewPCG(base+uint64(i), 26))
		s := shardOf(t, func(c *Config) {
			tiny(64, 1)(c)
			c.Window.Span, c.Window.GenerationCapacity = 70*time.Second, 750
		})
		s.sample.limit = 200
		var records []Record
		now := epoch0
		for range 40_000 {
			now += rng.Int64N(25)
			_, value := fillerOr(s, rng, ids[rng.IntN(len(ids))])
			records = append(records, Record{Value: value, Time: now})
		}
		var counts Counts
		wasFull := false
		for from := 0; from < len(records); {
			b := batchOf(int64(from))
			b.Records = records[from:min(from+1+luck.IntN(size), len(records))]
			for k := range b.Records {
				b.Offsets = append(b.Offsets, b.First+int64(k))
			}
			b.Next = b.First + int64(len(b.Records))
			s.Process(b)
			wasFull = wasFull || s.SampleStats().Full
			if i > 0 && luck.IntN(3) == 0 {
				s.Rollback()
				continue
			}
			counts.Plus(&b.Counts)
			s.Seal()
			s.Commit()
			from += len(b.Records)
		}
		if !wasFull || counts.FalsePositives == 0 || counts.Sampled == counts.SampledNew || counts.Marked(Unlearned) == 0 {
			t.Errorf("full %v, %+v: the stream is too tame", wasFull, counts)
		}
		if i == 0 {
			first = counts
		} else if counts != first {
			t.Errorf("batches of up to %d: %+v, want %+v", size, counts, first)
		}
	}
}

// restored is how a shard is made again in TestRestoredSample.
type restored struct {
	change                    func(*Config)
	changes                   []Change
	input, checkpoint, sample bool
	known                     float64
	clashes                   bool // the values of first copies are known, too
}

// The sample comes back from the changelog and from a checkpoint. What was learned
// from the input, or from a checkpoint without one, it does not know, and says so.
func TestRestoredSample(t *testing.T) {
	s := shardOf(t, func(c *Config) { c.Window.Span, c.LogChanges = 70*time.Second, true })
	ids := idsInSample(s, 300)
	values := func(ids []string) (values []string) {
		for _, id := range ids {
			values = append(values, fmt.Sprintf(`{"id":%q}`, id))
		}
		return values
	}
	var changes []Change
	var head CheckpointHead
	var body, sample []byte
	for from := 0; from < len(ids); from += 50 {
		s.Process(batchOf(s.Next(), values(ids[from:from+50])...))
		s.Seal()
		at := s.Position()
		changes = append(changes, copyOfChange(t, at.Change))
		s.Commit()
		if from == 200 { // the last change comes after it
			head = s.checkpointHead()
			body, sample = s.copyBody(nil, 0, head.BodyBytes), storedSample(s)
			copy(head.Added[:], loadsOf(s))
		}
	}
	same := func(*Config) {}
	backwards := slices.Clone(changes)
	slices.Reverse(backwards)
	for name, c := range map[string]restored{
		"changelog":           {change: same, changes: changes, known: 1},
		"changelog backwards": {change: same, changes: backwards, known: 1},
		"a longer span":       {change: func(c *Config) { c.Window.Span *= 2 }, changes: changes, known: 1},
		"input":               {change: same, input: true},
		"checkpoint":          {change: same, changes: changes[5:], checkpoint: true, sample: true, known: 1, clashes: true},
		"an old checkpoint":   {change: same, changes: changes[5:], checkpoint: true},
	} {
		cfg := s.rules
		c.change(&cfg)
		r, err := NewRebuild(cfg, p0, s.State())
		if err != nil {
			t.Fatal(err)
		}
		if c.checkpoint {
			stored := slices.Clone(body)
			if c.sample {
				stored = append(stored, sample...)
			}
			if err := r.Load(&head, bytes.NewReader(stored)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range c.changes {
			if err := r.LearnChange(&c.changes[i]); err != nil {
				t.Fatal(err)
			}
		}
		if c.input {
			r.Learn(batchOf(0, values(ids)...))
		}
		again := r.Done(0, s.Next())
		t.Cleanup(func() { _ = again.Close() })
		if stats := again.SampleStats(); stats.Known != c.known || c.known == 1 && cfg.Window == s.rules.Window && stats.IDs != s.SampleStats().IDs {
			t.Errorf("%s: %+v, want that of %+v, known %v", name, stats, s.SampleStats(), c.known)
		}
		b := batchOf(again.Next(), values(ids)...)
		for i := range b.Records {
			b.Records[i].Time = epoch0 + s.Next()*1000 // within the generation
			b.Records[i].Value = append(b.Records[i].Value, ' ')
		}
		again.Process(b)
		duplicates := b.Counts.Verdicts[Duplicate]
		want := Audit{}
		if c.known == 1 {
			want = Audit{Sampled: uint64(len(ids)), SampledNew: uint64(len(ids)) - duplicates}
		}
		if c.clashes { // but of what the changelog alone says the values are not known
			want.Clashes = duplicates - 50
		}
		if got := b.Counts.Audit; got != want || duplicates < 60 {
			t.Errorf("%s: %+v, want %+v, with %d duplicates", name, got, want, duplicates)
		}
	}
}

// storedSample is the stored form, made in steps that are as small as they can be.
func storedSample(s *Shard) (stored []byte) {
	for part := uint64(0); part < s.sample.parts(); {
		var step []byte
		step, part = s.sample.appendFrom(nil, part)
		stored = append(stored, step...)
	}
	return stored
}

func loadsOf(s *Shard) []uint64 { loads := s.Stats().Loads; return loads[:] }

// A damaged sample is refused, as a damaged filter is.
func TestLoadSampleRefuses(t *testing.T) {
	s := shardOf(t, nil)
	for _, id := range idsInSample(s, 3) {
		s.Process(batchOf(s.Next(), fmt.Sprintf(`{"id":%q}`, id)))
	}
	good := storedSample(s)
	if len(good) != 8+3*storedIDBytes {
		t.Fatalf("3 IDs take %d bytes", len(good))
	}
	for n := 1; n <= len(good); n++ {
		again := newSample(1)
		stored, err := again.load(bytes.NewReader(good[:n]))
		if whole := n >= 8 && (n-8)%storedIDBytes == 0; whole != (err == nil) || whole != stored {
			t.Errorf("%d bytes of it: stored %v, %v", n, stored, err)
		}
	}
	bad := slices.Clone(good)
	for i := range 8 {
		bad[8+i] = 0 // no sample has it
	}
	again := newSample(1)
	if _, err := again.load(bytes.NewReader(bad)); err == nil {
		t.Error("a hash that no sample has: no error")
	}
}
