package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/window"
)

var p0 = Partition{"in", 0}

// batchOf is a batch of values, each at a time a second after the one before.
func batchOf(first int64, values ...string) *Batch {
	b := &Batch{Partition: p0, Now: farFuture, First: first, Next: first + int64(len(values))}
	for i, v := range values {
		b.Records = append(b.Records, Record{Value: []byte(v), Time: epoch0 + first*1000 + int64(i)*1000})
		b.Offsets = append(b.Offsets, first+int64(i))
	}
	return b
}

// shardOf is a new shard under the rules of most tests, changed by change.
func shardOf(t *testing.T, change func(*Config)) *Shard {
	t.Helper()
	cfg := rules()
	cfg.Keys = []string{"json:id"}
	if change != nil {
		change(&cfg)
	}
	s, err := NewShard(cfg, p0, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// outcomes is each outcome as verdict:fate:reason.
func outcomes(b *Batch) string {
	var words []string
	for _, o := range b.Outcomes {
		word := o.Verdict.String() + ":" + o.Fate.String()
		if o.Reason != NoReason {
			word += ":" + o.Reason.String()
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		values []string
		want   string
		stop   Reason
	}{
		{"pass", nil, []string{`{"id":1}`, `{"n":1}`, `{"id`, `{"id":1}`},
			"unique:out missing:out invalid:out duplicate:dropped:duplicate", NoReason},
		{"drop", func(c *Config) { c.OnMissing, c.OnInvalid = Drop, Drop }, []string{`{"id":1}`, `{"id":null}`, `{"id`},
			"unique:out missing:dropped:missing invalid:dropped:invalid", NoReason},
		{"divert", func(c *Config) { c.OnMissing, c.OnInvalid, c.Diverts = Divert, Divert, true }, []string{`{"id":""}`, `nonsense`},
			"missing:diverted:missing invalid:diverted:invalid", NoReason},
		{"fail at missing", func(c *Config) { c.OnMissing = Fail }, []string{`{"id":1}`, `{"id":[]}`, `{"id":2}`},
			"unique:out", ReasonMissing},
		{"fail at invalid", func(c *Config) { c.OnInvalid = Fail }, []string{`{"id":1}`, `}`, `{"id":2}`},
			"unique:out", ReasonInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := shardOf(t, c.change)
			b := batchOf(0, c.values...)
			s.Process(b)
			if got := outcomes(b); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if err := b.Counts.Check(); err != nil {
				t.Error(err)
			}
			if c.stop == NoReason {
				if b.Stopped != nil {
					t.Errorf("stopped: %v", b.Stopped)
				}
				return
			}
			if b.Stopped == nil || b.Stopped.Reason != c.stop || b.Stopped.Offset != int64(len(b.Outcomes)) {
				t.Fatalf("stopped: %v, want %s", b.Stopped, c.stop)
			}
			if s.Next() != b.Stopped.Offset {
				t.Errorf("the next offset is %d, want that of the record it stopped before", s.Next())
			}
		})
	}
}

// A late first copy that a policy keeps from the output teaches nothing: a copy
// that is not late comes out.
func TestLateRecordUnderAPolicyDoesNotTeach(t *testing.T) {
	for _, policy := range []Policy{Drop, Divert} {
		s := shardOf(t, func(c *Config) { c.OnLate, c.Diverts = policy, true })
		b := batchOf(0, `{"id":"now"}`, `{"id":"x"}`, `{"id":"x"}`, `{"id":"x"}`)
		b.Records[1].Time -= (2 * time.Hour).Milliseconds()
		s.Process(b)
		fate := map[Policy]string{Drop: "dropped", Divert: "diverted"}[policy]
		want := "unique:out unique:" + fate + ":late unique:out duplicate:dropped:duplicate"
		if got := outcomes(b); got != want {
			t.Errorf("%v: got  %s\nwant %s", policy, got, want)
		}
		if b.Counts.Marked(Late) != 1 {
			t.Errorf("%v: %d records are marked late, want 1", policy, b.Counts.Marked(Late))
		}
	}
	s := shardOf(t, func(c *Config) { c.OnLate = Fail })
	b := batchOf(0, `{"id":"now"}`, `{"id":"x"}`)
	b.Records[1].Time -= (2 * time.Hour).Milliseconds()
	s.Process(b)
	if b.Stopped == nil || b.Stopped.Reason != ReasonLate || b.Stopped.Offset != 1 {
		t.Errorf("fail: stopped %v", b.Stopped)
	}
}

// What is too large for the output is diverted where there is a place for it,
// and stops the partition by name where there is none, or where that place
// refuses it too. It teaches nothing.
func TestTooLargeRecord(t *testing.T) {
	values := []string{`{"id":1}`, `{"id":2}`, `{"id":2}`}
	diverts := func(c *Config) { c.Diverts = true }

	known := batchOf(0, values...)
	known.Oversize = []bool{false, true, false}
	s := shardOf(t, diverts)
	s.Process(known)
	want := "unique:out unique:diverted:too_large unique:out"
	if got := outcomes(known); got != want {
		t.Errorf("known beforehand: got  %s\nwant %s", got, want)
	}

	told := batchOf(0, values...)
	s = shardOf(t, diverts)
	s.Refuse(Refusal{Partition: p0, Offset: 1, Err: errTooLarge})
	s.Process(told)
	if got := outcomes(told); got != want {
		t.Errorf("refused by the output: got  %s\nwant %s", got, want)
	}

	s.Rollback()
	s.Refuse(Refusal{Partition: p0, Offset: 1, Diverted: true, Err: errTooLarge})
	s.Process(told)
	if got := outcomes(told); got != "unique:out" || told.Stopped == nil || !errors.Is(told.Stopped, errTooLarge) {
		t.Errorf("refused by both: %s, stopped %v", got, told.Stopped)
	}

	s = shardOf(t, nil)
	s.Process(known)
	if known.Stopped == nil || known.Stopped.Error() != "partition in/0 stopped before offset 1: record too large for the output" {
		t.Errorf("nowhere to divert: stopped %v", known.Stopped)
	}
}

// A record that a policy drops needs no room in the output.
func TestTooLargeRecordThatIsDropped(t *testing.T) {
	s := shardOf(t, func(c *Config) { c.OnMissing, c.OnInvalid = Drop, Drop })
	b := batchOf(0, `{"no":1}`, `{`, `{"id":1}`)
	b.Oversize = []bool{true, true, true}
	s.Process(b)
	want := "missing:dropped:missing invalid:dropped:invalid"
	if got := outcomes(b); got != want || b.Stopped == nil || b.Stopped.Offset != 2 {
		t.Errorf("outcomes are %q, want %q and a stop before offset 2, not %v", got, want, b.Stopped)
	}
}

// A committed cycle clears what was refused in it; a rolled-back one does not.
func TestRefusalsLastUntilCommitted(t *testing.T) {
	s := shardOf(t, func(c *Config) { c.Diverts = true })
	s.Refuse(Refusal{Partition: p0, Offset: 0, Err: errTooLarge})
	s.Process(batchOf(0, `{"id":1}`))
	s.Rollback()
	if !s.refused(0) {
		t.Error("a rollback forgot a refusal")
	}
	s.Process(batchOf(0, `{"id":1}`))
	s.Seal()
	s.Commit()
	if s.refused(0) {
		t.Error("a commit kept a refusal for a record that is past")
	}
}

// After a rollback the state is, byte for byte, the one at the cycle's start,
// also when the cycle spanned rotations.
func TestRollbackRestoresEveryByte(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 6))
	s := shardOf(t, func(c *Config) { c.Window.Span = time.Minute })
	next := int64(0)
	some := func() *Batch {
		var values []string
		for range 1 + rng.IntN(3000) {
			values = append(values, fmt.Sprintf(`{"id":%d}`, rng.IntN(20_000)))
		}
		return batchOf(next, values...)
	}
	for range 40 {
		before := s.AppendState(nil)
		start := s.Next()
		s.Process(some())
		s.Process(&Batch{Partition: p0, Now: farFuture, First: s.Next(), Next: s.Next() + 1})
		s.Rollback()
		if !bytes.Equal(before, s.AppendState(nil)) || s.Next() != start {
			t.Fatal("a rollback left something behind")
		}
		b := some()
		s.Process(b)
		s.Seal()
		s.Commit()
		next = b.Next
	}
	if n := s.Stats(); n.Full || len(n.Generations) != 8 {
		t.Errorf("the run did not rotate as it should: %+v", n)
	}
}

// What is judged after a seal belongs to the next cycle: the commit of the sealed
// one does not cover it.
func TestCommitDoesNotCoverWhatCameAfterTheSeal(t *testing.T) {
	s := shardOf(t, nil)
	s.Process(batchOf(0, `{"id":1}`))
	s.Seal()
	sealed := s.AppendState(nil)
	s.Process(batchOf(1, `{"id":2}`))
	s.Refuse(Refusal{Partition: p0, Offset: 1, Err: errTooLarge})
	s.Commit()
	s.Rollback()
	if s.Next() != 1 {
		t.Errorf("reading goes on at %d, want 1: what was rolled back must be read again", s.Next())
	}
	if !bytes.Equal(s.AppendState(nil), sealed) {
		t.Error("the state is not that of the seal")
	}
	b := batchOf(1, `{"id":2}`)
	s.Process(b)
	if b.Stopped == nil || b.Stopped.Offset != 1 {
		t.Errorf("the refusal of a record that is read again was forgotten: %s", outcomes(b))
	}
}

func TestTimeNoneIsOneWindow(t *testing.T) {
	s := shardOf(t, func(c *Config) { c.Time = TimeNone })
	b := batchOf(0, `{"id":1}`, `{"id":2}`, `{"id":1}`)
	b.Records[2].Time += 365 * 24 * time.Hour.Milliseconds()
	s.Process(b)
	if got := outcomes(b); got != "unique:out unique:out duplicate:dropped:duplicate" {
		t.Errorf("got %s", got)
	}
	if b.Counts.Marks != [8]uint64{} {
		t.Errorf("marks %v, want none: nobody asked for the time", b.Counts.Marks)
	}
}

// KEY-01: null is absence, not a value that rows have in common.
func TestCase_KEY_01(t *testing.T) {
	s := shardOf(t, func(c *Config) { c.Keys = []string{"json:event_id"} })
	b := batchOf(0, `{"event_id":null,"n":1}`, `{"event_id":null,"n":2}`, `{"event_id":"<nil>","n":3}`)
	s.Process(b)
	if got := outcomes(b); got != "missing:out missing:out unique:out" {
		t.Errorf("got %s", got)
	}
}

// WIN-11: the stream time is a partition's own.
func TestCase_WIN_11(t *testing.T) {
	noon, dawn := epoch0+12*time.Hour.Milliseconds(), epoch0+6*time.Hour.Milliseconds()
	fast, slow := shardOf(t, nil), shardOf(t, nil)
	for _, c := range []struct {
		shard *Shard
		at    int64
	}{{fast, noon}, {slow, dawn}, {fast, noon + 1}, {slow, dawn + 1}} {
		b := batchOf(c.shard.Next(), `{"id":"same"}`)
		b.Records[0].Time = c.at
		c.shard.Process(b)
		want := "unique:out"
		if b.First == 1 {
			want = "duplicate:dropped:duplicate"
		}
		if got := outcomes(b); got != want {
			t.Errorf("at %d: got %s, want %s", c.at, got, want)
		}
		if b.Counts.Marks != [8]uint64{} {
			t.Errorf("at %d: marks %v", c.at, b.Counts.Marks)
		}
	}
}

func TestProcessDoesNotAllocate(t *testing.T) {
	jsonOf := func(i int) string { return fmt.Sprintf(`{"id":%d,"text":"with \u00fc"}`, i) }
	for name, c := range map[string]struct {
		change func(*Config)
		value  func(i int) string
	}{
		"json": {nil, jsonOf},
		"refreshed and tagged": {func(c *Config) {
			c.Window.Refresh, c.OnDuplicate, c.Diverts, c.LogChanges = true, TagDuplicates, true, true
			c.Window.Span = 70 * time.Second
		}, func(i int) string {
			if i%6 == 1 {
				return jsonOf(i - 19) // of a generation before
			}
			return jsonOf(i)
		}},
		"UUIDs": {func(c *Config) { c.IDs = IDOptions{UUID: true, Ignore: []string{"none", "0"}} },
			func(i int) string { return fmt.Sprintf(`{"id":"{%08X-0000-4000-8000-\u0061bcdef012345}"}`, i) }},
		"columns": {func(c *Config) {
			c.Keys, c.Time, c.IDs = []string{"column:2"}, "column:1", IDOptions{Table: keys.Table{Kind: keys.CSV}}
		}, func(i int) string { return fmt.Sprintf(`%d,"a ""quoted"" %d"`, epoch0+int64(i), i) }},
		"digests": {func(c *Config) { c.Keys = []string{"sha256:value"} }, jsonOf},
	} {
		s := shardOf(t, c.change)
		var values []string
		for i := range 3000 {
			values = append(values, c.value(i))
		}
		b := batchOf(0, values...)
		b.Oversize = make([]bool, len(values))
		for i := range b.Oversize {
			b.Oversize[i] = s.rules.Diverts && i%6 == 5
		}
		run := func() {
			s.Process(b)
			s.Rollback()
		}
		run()
		if b.Stopped != nil || b.Counts.Sampled == 0 || b.Counts.Verdicts[Unique] < 2000 {
			t.Errorf("%s: stopped %v, %+v: the batch is too tame", name, b.Stopped, b.Counts)
		}
		if n := testing.AllocsPerRun(20, run); n != 0 {
			t.Errorf("%s: %v allocations in a batch of %d records", name, n, len(values))
		}
	}
}

func TestConfigNamesEveryFault(t *testing.T) {
	err := Config{Keys: []string{"nonsense"}, Time: "never", Window: window.Config{}, OnLate: Divert}.Validate()
	for _, field := range []string{"Keys", "Time", "Window", "OnLate", "NewSet"} {
		if err == nil || !strings.Contains(err.Error(), "pipeline.Config."+field) {
			t.Errorf("%s is not named: %v", field, err)
		}
	}
}
