package pipeline

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

const (
	hour   = int64(time.Hour / time.Millisecond)
	minute = int64(time.Minute / time.Millisecond)
)

// backlog fills a delta with hours of events, of which every other one is written to
// two partitions: its copies lie up to a window less a slice apart.
func backlog(d *delta, rules Config, events int) {
	far := rules.Window.Span.Milliseconds() - rules.Window.Slice()
	type event struct {
		id string
		t  int64
	}
	parts := make([][]event, len(d.in))
	for i := range events {
		t := epoch0 + int64(i)*6*hour/int64(events)
		e := event{fmt.Sprintf("id-%d", i), t}
		p := d.rng.IntN(len(parts))
		parts[p] = append(parts[p], e)
		if i%2 == 0 {
			e.t += d.rng.Int64N(2*far+1) - far
			p = (p + 1 + d.rng.IntN(len(parts)-1)) % len(parts)
			parts[p] = append(parts[p], e)
		}
	}
	for p, events := range parts {
		sortBy(events, func(e event) int64 { return e.t })
		for _, e := range events {
			d.add(p, e.id, e.t)
		}
	}
}

func sortBy[T any](all []T, key func(T) int64) {
	for i := 1; i < len(all); i++ { // nearly sorted
		for j := i; j > 0 && key(all[j]) < key(all[j-1]); j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
}

// A backlog of six hours is read with a window of one, and one partition gives a
// record where the others give hundreds. No repeat passes; and were the others not
// held back, many would.
func TestRouterLeavesNoPartitionBehind(t *testing.T) {
	f := func(hold bool, gates int) int {
		d := newDelta(t, 4)
		backlog(d, rules(), 20_000)
		d.slice = rules().Window.Slice()
		for n := range gates {
			var own []int32
			for p := n; p < 4; p += gates {
				own = append(own, int32(p))
			}
			g := d.join(3, rules(), own...)
			g.batch[Partition{"in", 0}] = 1
			if !hold {
				d.slice, g.router.slice = 0, 0
			}
		}
		d.flow(d.end)
		d.exact(d.end)
		return d.judge(rules())
	}
	for gates := 1; gates <= 2; gates++ {
		if n := f(true, gates); n > 0 {
			t.Errorf("%d instances: %d repeats within the window pass", gates, n)
		}
		if n := f(false, gates); n < 1000 {
			t.Errorf("%d instances, nobody held back: only %d repeats pass: the test has lost its skew", gates, n)
		}
	}
}

// Whatever befalls the transactions, each record is routed once, in order.
func TestRouterIsExactThroughAborts(t *testing.T) {
	d := newDelta(t, 3)
	d.fault = 4
	backlog(d, rules(), 5000)
	d.slice = rules().Window.Slice()
	g, other := d.join(5, rules(), 0, 1), d.join(5, rules(), 2)
	for range 20 { // a partition goes to and fro meanwhile
		for range 10 {
			for _, g := range d.gates {
				if err := g.router.cycle(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		p := Partition{"in", 1}
		g.take(p)
		g, other = other, g
		g.give(p)
	}
	d.flow(d.end)
	d.exact(d.end)
	if n := d.judge(rules()); n > 0 {
		t.Errorf("%d repeats within the window pass", n)
	}
}

// A partition that comes from another instance has a backlog of which nothing is read
// yet. What waits for it before it is ours waits for it after, too.
func TestRouterWaitsForWhatItTakesOver(t *testing.T) {
	d := newDelta(t, 3)
	backlog(d, rules(), 5000)
	d.slice = rules().Window.Slice()
	p := Partition{"in", 1}
	g := d.join(5, rules(), 0, 1, 2)
	g.batch[p] = 1
	cycle := func() {
		if err := g.router.cycle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		cycle() // asks where it goes on
		for g.router.locates.pending > len(g.router.locates.answers) {
			runtime.Gosched() // so that it is located at once, and mostly before a new survey
		}
		for range 10 {
			cycle()
		}
		g.take(p)
		for range d.rng.IntN(2 * surveyed) {
			cycle()
		}
		g.give(p)
	}
	d.flow(d.end)
	d.exact(d.end)
	if n := d.judge(rules()); n > 0 {
		t.Errorf("%d repeats within the window pass", n)
	}
}

// A batch that spans hours is cut inside, at the first record that is too far ahead.
func TestRouterCutsABatch(t *testing.T) {
	d := newDelta(t, 2)
	for i := range int64(100) {
		d.add(0, fmt.Sprintf("a%d", i), epoch0+i*minute)
		d.add(1, fmt.Sprintf("b%d", i), epoch0+i*minute)
	}
	d.stable[Partition{"in", 0}] = 10 // behind it a transaction is open
	d.slice = rules().Window.Slice()
	g := d.join(2, rules(), 0, 1)
	g.batch[Partition{"in", 0}] = 1
	d.flow(d.end)
	// Partition 0 was at minute 9 and then held nobody back.
	if got := d.committed[Partition{"in", 1}].Next; got != 100 {
		t.Errorf("partition 1 is at %d: an open transaction holds it back", got)
	}
	if g.deliverd < 20 {
		t.Errorf("%d deliveries: no batch was cut", g.deliverd)
	}
	// Of partition 0 the next record is not known before it is read: its last is.
	if want := d.slice - 2*minute; d.spare < want {
		t.Errorf("the fastest was %d ms ahead at most, want %d: it waits longer than it must", d.spare, want)
	}
}

// Nobody waits for what does not come, and two that wait for each other do not.
func TestRouterDoesNotStandStill(t *testing.T) {
	p0 := Partition{"in", 0}
	f := func(name string, fill func(d *delta), instances [][]int32) {
		t.Run(name, func(t *testing.T) {
			d := newDelta(t, 2)
			fill(d)
			for _, own := range instances {
				d.join(2, rules(), own...)
			}
			wanted := func(p Partition) int64 {
				if stop, ok := d.stops[p]; ok {
					return stop
				}
				return d.end(p)
			}
			d.flow(wanted)
			d.exact(wanted)
		})
	}
	for name, instances := range map[string][][]int32{"one instance": {{0, 1}}, "two instances": {{0}, {1}}} {
		f(name+", a gap in both", func(d *delta) {
			for i := range int64(10) {
				for p := range 2 {
					d.add(p, fmt.Sprint(p, i), epoch0+i+i/5*8*hour+int64(p))
				}
			}
		}, instances)
		f(name+", one without times", func(d *delta) {
			for i := range int64(300) {
				d.add(0, fmt.Sprint("a", i), -1)
				d.add(1, fmt.Sprint("b", i), epoch0+i*hour)
			}
		}, instances)
		f(name+", one stopped", func(d *delta) {
			for i := range int64(300) {
				d.add(0, fmt.Sprint("a", i), epoch0+i*minute)
				d.add(1, fmt.Sprint("b", i), epoch0+i*hour)
			}
			d.stops[p0] = 30
		}, instances)
		f(name+", one empty, one far ahead of the clock", func(d *delta) {
			for i := range int64(300) {
				d.add(1, fmt.Sprint("b", i), farFuture+i*24*hour)
			}
		}, instances)
		f(name+", times that go back", func(d *delta) {
			for i := range int64(300) {
				d.add(0, fmt.Sprint("a", i), epoch0+i%7*hour)
				d.add(1, fmt.Sprint("b", i), epoch0+d.rng.Int64N(24)*hour)
			}
		}, instances)
		f(name+", behind an open transaction from the start", func(d *delta) {
			for i := range int64(300) {
				d.add(0, fmt.Sprint("a", i), epoch0+i)
				d.add(1, fmt.Sprint("b", i), epoch0+i*hour)
			}
			d.stable[p0] = 0
		}, instances)
	}
}

// Records without an ID keep the order of their partition.
func TestRouterKeepsTheOrderOfRecordsWithoutID(t *testing.T) {
	d := newDelta(t, 3)
	for i := range int64(500) {
		for p := range 3 {
			d.add(p, "", epoch0+i)
		}
	}
	d.join(2, rules(), 0, 1, 2)
	d.flow(d.end)
	d.exact(d.end)
	for q, drops := range d.out {
		for _, drop := range drops {
			if drop.from.Number%2 != q {
				t.Fatalf("a record of %s without an ID went to partition %d", drop.from, q)
			}
		}
	}
}

// With another number of partitions IDs would move: that is refused by name.
func TestRouterRefusesAnotherNumberOfPartitions(t *testing.T) {
	d := newDelta(t, 1)
	d.add(0, "a", epoch0)
	d.join(2, rules(), 0)
	d.flow(d.end)
	d.gates = nil
	g := d.join(3, rules(), 0)
	var err error
	for range 100_000 {
		if err = g.router.cycle(t.Context()); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrOtherTargets) || !strings.Contains(err.Error(), "in/0: IDs were shared out to 2 partitions, now there are 3") {
		t.Errorf("three partitions after two: %v", err)
	}
}

func TestRouteStateRoundTrip(t *testing.T) {
	f := func(s RouteState, want string) {
		t.Helper()
		if got := s.String(); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
		back, err := ParseRouteState(want)
		if err != nil || !reflect.DeepEqual(back, s) {
			t.Errorf("%q is %+v, %v; want %+v", want, back, err, s)
		}
	}
	f(RouteState{Partitions: 6, Unread: true}, "streamdedup-route/1 6 - - unread")
	f(RouteState{Partitions: 6}, "streamdedup-route/1 6 - - routed")
	f(RouteState{Partitions: 1, Time: 5, Next: 7}, "streamdedup-route/1 1 5 7 routed")
	f(RouteState{Partitions: 1, Time: 5, Stopped: true}, "streamdedup-route/1 1 5 - stopped")
	for _, text := range []string{"", "x", "streamdedup/2 a", "streamdedup-route/1", "streamdedup-route/1 0 - - routed",
		"streamdedup-route/1 1 - -5 routed", "streamdedup-route/1 1 - - running", "streamdedup-route/2 1 - - routed",
		"streamdedup-route/1 1 - - routed more"} {
		if s, err := ParseRouteState(text); err == nil {
			t.Errorf("%q is %+v, want an error", text, s)
		}
	}
}

func TestParseScope(t *testing.T) {
	for _, s := range []Scope{ScopePartition, ScopeTopic} {
		if got, err := ParseScope(s.String()); err != nil || got != s {
			t.Errorf("ParseScope(%q) = %v, %v", s, got, err)
		}
	}
	if _, err := ParseScope("cluster"); err == nil || !strings.Contains(err.Error(), `"cluster"`) {
		t.Errorf("an unknown scope: %v", err)
	}
}
