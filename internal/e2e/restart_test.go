//go:build unix

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestRestartRemembers: a process that stops, or dies, and starts again catches
// the duplicates of what was read before, whatever the clock. What the window has
// forgotten passes again.
func TestRestartRemembers(t *testing.T) {
	now := time.Now()
	// at is an event that happened so long ago. Its value has the time of the clock
	// that is tested, and its record a time that is right only for that clock.
	at := map[string]func(id string, ago time.Duration) *kgo.Record{
		"record": func(id string, ago time.Duration) *kgo.Record {
			r := event(0, id)
			r.Timestamp = now.Add(-ago)
			return r
		},
		"arrival": func(id string, _ time.Duration) *kgo.Record {
			r := event(0, id)
			r.Timestamp = time.UnixMilli(1)
			return r
		},
		"json:ts": func(id string, ago time.Duration) *kgo.Record {
			r := event(0, id)
			r.Value = fmt.Appendf(nil, `{"id":%q,"ts":%d}`, id, now.Add(-ago).UnixMilli())
			r.Timestamp = time.UnixMilli(now.UnixMilli())
			return r
		},
	}
	anyTime := settings{"message.timestamp.before.max.ms": "9223372036854775807"}
	for clock, at := range at {
		t.Run(clock, func(t *testing.T) {
			s := newScene(t, 1, anyTime, anyTime)
			s.flags["time"] = clock
			s.odd("jump")
			write := func(ids []string, ago time.Duration, pass bool) {
				t.Helper()
				var records []*kgo.Record
				for _, id := range ids {
					r := at(id, ago)
					records = append(records, r)
					if pass {
						s.expectAgain(0, string(r.Value))
					}
				}
				s.write(records...)
			}
			old, young := series("old", 30), series("young", 30)
			d := s.run()
			write(old, 3*time.Hour, true)
			write(young, 50*time.Minute, true)
			write(young[:5], 40*time.Minute, false)
			s.caughtUp(d)
			d.stop()

			d = s.run()
			write([]string{"new", "new"}, 0, false)
			s.want[0] = append(s.want[0], string(at("new", 0).Value))
			write(young, 0, false)
			s.caughtUp(d)
			// The commit is seen before what the process says of itself.
			await(t, "coverage is 1 after a clean restart", func() bool {
				return d.metric("streamdedup_window_coverage_ratio") == 1
			}, d.done)
			d.kill()

			d = s.run()
			write(young, 0, false)
			write([]string{"new"}, 0, false)
			write(old, 0, clock != "arrival") // which saw all of them a moment ago
			s.caughtUp(d)
			if sum := d.stop(); sum.In != 61 {
				t.Errorf("the last process committed %d records, want 61: the one before had committed the rest", sum.In)
			}
			s.check()
		})
	}
}

// TestRebalanceRemembers: duplicates of what another instance read are caught,
// when a partition moves and when it comes back.
func TestRebalanceRemembers(t *testing.T) {
	s := newScene(t, 2, nil, nil)
	both := func(prefix string) {
		for p := range int32(2) {
			s.ids(p, series(fmt.Sprintf("%s-p%d-", prefix, p), 20)...)
		}
	}
	a := s.run()
	a.ready(2)
	both("first")
	s.caughtUp(a)
	b := s.run("instance=b")
	b.ready(1)
	a.ready(1)
	both("first")
	both("second")
	s.caughtUp(a)
	sum := a.stop()
	b.ready(2)
	both("first")
	both("second")
	both("third")
	s.caughtUp(b)
	a = s.run()
	a.ready(1)
	b.ready(1)
	both("third")
	s.caughtUp(b)
	for _, d := range []*daemon{a, b} {
		more := d.stop()
		sum.In, sum.Out = sum.In+more.In, sum.Out+more.Out
	}
	if sum.In != uint64(s.written) || sum.Out != 120 {
		t.Errorf("%d in and %d out, want %d and 120", sum.In, sum.Out, s.written)
	}
	s.check()
}

// TestColdStart: a group whose offsets say nothing of a state is not taken over
// without a word.
func TestColdStart(t *testing.T) {
	s := newScene(t, 2, nil, nil)
	values := []string{"a", "b", "c"}
	for p := range int32(2) {
		s.ids(p, values...)
	}
	var at kadm.Offsets
	at.Add(kadm.Offset{Topic: s.in, Partition: 0, At: 2, LeaderEpoch: -1})
	at.Add(kadm.Offset{Topic: s.in, Partition: 1, At: 3, LeaderEpoch: -1, Metadata: "of another consumer"})
	if err := s.admin.CommitAllOffsets(s.ctx(), s.group, at); err != nil {
		t.Fatal(err)
	}
	refused := s.run()
	refused.ends(1)
	refused.line("error: ", s.in, s.group, "offset", "state is missing")
	refused.line("hint: ", "--allow-cold-start")

	s.want = map[int32][]string{0: {string(event(0, "c").Value)}}
	s.ids(0, "c")
	s.expectAgain(0, string(event(0, "a").Value))
	s.ids(0, "a") // its first copy is not known
	s.expectAgain(1, string(event(1, "b").Value))
	s.ids(1, "b", "b")
	d := s.run("allow-cold-start=true")
	s.caughtUp(d)
	d.ready(2)
	d.says("cold start")
	for p := range 2 {
		if c := d.metric("streamdedup_window_coverage_ratio", fmt.Sprintf(`partition="%d"`, p)); c >= 1 {
			t.Errorf("coverage of partition %d is %v after a cold start, want below 1", p, c)
		}
	}
	d.stop()
	s.check()

	// From now on there is a state.
	d = s.run()
	s.ids(0, "a", "c")
	s.caughtUp(d)
	d.stop()
	s.check()
}

// TestForeignState: a state of other settings is refused by name, with the way
// out.
func TestForeignState(t *testing.T) {
	s := newScene(t, 1, nil, nil)
	s.ids(0, "a", "b", "a")
	d := s.run()
	s.caughtUp(d)
	d.stop()
	for _, change := range []string{"key=value", "key=json:n", "hash-seed=1", "filter=classic"} {
		t.Run(change, func(*testing.T) {
			refused := s.run(change)
			refused.ends(1)
			refused.line("error: ", s.in+"/0", "key spec, seed, scope or filter kind have changed")
			refused.line("hint: ", "--group")
		})
	}
	d = s.run("fpr=0.001", "capacity=500k") // the size may change
	s.ids(0, "b", "c")
	s.caughtUp(d)
	d.stop()
	s.check()
}

// deleteBefore deletes the records of a partition of the input before an offset,
// as its retention would.
func (s *scene) deleteBefore(partition int32, offset int64) {
	s.t.Helper()
	var to kadm.Offsets
	to.Add(kadm.Offset{Topic: s.in, Partition: partition, At: offset})
	answers, err := s.admin.DeleteRecords(s.ctx(), to)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		s.t.Fatalf("delete the records of %s/%d before %d: %v", s.in, partition, offset, err)
	}
}

// loseMemory deletes all that a restart would be restored from, except the input.
func (s *scene) loseMemory() {
	s.t.Helper()
	changelog := s.group + "-" + s.in + "-seen"
	if _, err := s.admin.DeleteTopic(s.ctx(), changelog); err != nil {
		s.t.Fatalf("delete %s: %v", changelog, err)
	}
	await(s.t, "the changelog is gone", func() bool {
		topics, err := s.admin.ListTopics(s.ctx(), changelog)
		return err == nil && topics[changelog].Err != nil
	}, nil)
	s.flags["state-dir"] = "off"
}

// TestRetentionLowersCoverage: without a changelog, what was deleted from the input
// cannot be learned again. That is said, and duplicates of the rest are caught.
func TestRetentionLowersCoverage(t *testing.T) {
	s := newScene(t, 1, nil, nil)
	ids := series("id", 40)
	var records []*kgo.Record
	for i, id := range ids {
		r := event(0, id)
		r.Timestamp = time.Now().Add(-time.Hour).Add(time.Duration(i+1) * 89 * time.Second)
		records = append(records, r)
		s.expect(0, string(r.Value))
	}
	s.write(records...)
	d := s.run()
	s.caughtUp(d)
	d.stop()

	const deleted = 20
	s.loseMemory()
	s.deleteBefore(0, deleted)
	d = s.run()
	d.ready(1)
	d.line("level=WARN", "the input does not have it", s.in+"/0", "from=0", fmt.Sprintf("to=%d", deleted-1))
	if c := d.metric("streamdedup_window_coverage_ratio"); c >= 1 || c <= 0 {
		t.Errorf("coverage is %v, want a part of 1", c)
	}
	s.ids(0, ids[deleted:]...)
	s.ids(0, "new")
	s.caughtUp(d)
	s.check()

	forgotten := slices.Clone(s.want[0][:deleted])
	s.ids(0, ids[:deleted]...)
	s.expectAgain(0, forgotten...)
	s.caughtUp(d)
	d.stop()
	s.check()
}

// TestRetentionTookAll: when there is no changelog, and nothing is left to learn from, the start is a cold
// one; and records that nobody has read are not skipped without a word.
func TestRetentionTookAll(t *testing.T) {
	s := newScene(t, 1, nil, nil)
	s.ids(0, "a", "b")
	d := s.run()
	s.caughtUp(d)
	d.stop()
	s.loseMemory()
	s.deleteBefore(0, 2)
	refused := s.run()
	refused.ends(1)
	refused.line("error: ", s.in+"/0", "nothing is left", "offsets 0 to 1")
	refused.line("hint: ", "--allow-cold-start")
	d = s.run("allow-cold-start=true")
	d.ready(1)
	if c := d.metric("streamdedup_window_coverage_ratio"); c >= 1 {
		t.Errorf("coverage is %v after a cold start, want below 1", c)
	}
	s.ids(0, "a", "c")
	s.expectAgain(0, string(event(0, "a").Value))
	s.want[0][2], s.want[0][3] = s.want[0][3], s.want[0][2] // it came before c
	s.caughtUp(d)
	d.stop()
	s.check()

	s.ids(0, "d", "e")
	s.deleteBefore(0, 5)
	refused = s.run("allow-cold-start=true")
	refused.ends(1)
	refused.line("error: ", s.in+"/0", "records from offset 4 to 4 were deleted before they were read")
	refused.line("hint: ", "--reset-offsets")
}
