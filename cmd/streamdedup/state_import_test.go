package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/window"
)

// A group that is taught another's hashes knows what that knew: into a new group,
// and into one that has judged something.
func TestStateExportAndImport(t *testing.T) {
	for format, lines := range map[string]int{"ndjson": 4, "csv": 5} {
		t.Run(format, func(t *testing.T) {
			from := newRemembering(t, 2)
			from.write(0, "a", "b", "a")
			from.write(1, "c")
			from.run("--hash-seed", "7")
			exported, said := from.must("", "export", "--format", format)
			if n := strings.Count(exported, "\n"); n != lines {
				t.Errorf("%d lines, want %d:\n%s", n, lines, exported)
			}
			if !strings.Contains(said, "3 lines of hashes written, fingerprint ") {
				t.Errorf("export says %q", said)
			}
			file := written(t, "seen."+format, exported)
			again := written(t, "x", "")
			if _, _ = from.must("", "export", "--format", format, "-o", again); read(t, again) != exported {
				t.Errorf("-o wrote\n%swant\n%s", read(t, again), exported)
			}

			to := newRemembering(t, 2)
			same := []string{"--key", "json:id", "--hash-seed", "7", file}
			if code, _, stderr := to.state("", "import", "--key", "json:id", file); code != exitFailed || !strings.Contains(stderr, "they would stand for other IDs") {
				t.Errorf("with another seed: exit code %d, stderr:\n%s", code, stderr)
			}
			_, said = to.must("", "import", same...)
			if !strings.Contains(said, "3 IDs taught to 2 partitions, 0 older than the window left out") {
				t.Errorf("import says %q", said)
			}
			if s := to.inspect("--count").Partitions[0].State; len(s.Generations) != 8 || *s.Generations[7].Added != 2 {
				t.Errorf("the state is %+v", s)
			}
			to.write(0, "a", "c", "b", "d", "d")
			to.write(1, "a", "c")
			to.run("--hash-seed", "7")
			to.checkCame("a", "c", "d") // c is known in partition 1, a and b in 0

			// A group that has begun goes on where it was, and knows more.
			more := newRemembering(t, 2)
			more.write(0, "x", "y")
			more.run("--hash-seed", "7")
			more.must("", "import", same...)
			more.must("", "import", same...) // does no harm
			more.write(0, "x", "a", "y", "z")
			more.run("--hash-seed", "7")
			more.checkCame("x", "y", "z")
		})
	}
}

// IDs of elsewhere are those that the records have: types count, and the partition
// is the one that producers choose.
func TestStateImportOfIDs(t *testing.T) {
	r := newRemembering(t, 3)
	now := time.Now().UTC()
	line := func(id string, age time.Duration) string {
		return fmt.Sprintf(`{"id":%s,"time":%q}`+"\n", id, now.Add(-age).Format(time.RFC3339Nano))
	}
	ids := line(`"known"`, time.Hour) + line(`"ol\u0064"`, 20*time.Hour) + "\n" + line(`"k\"1"`, 0)
	_, said := r.must(ids, "import", "--key", "key", "--partitioner", "kafka")
	if !strings.Contains(said, " IDs taught to 3 partitions, ") {
		t.Errorf("import says %q", said)
	}
	cl := client(t, r.brokers, kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	for _, key := range []string{"known", "old", `k"1`, "new", "known", "new"} {
		record := &kgo.Record{Topic: r.in, Key: []byte(key), Value: fmt.Appendf(nil, `{"id":%q}`, key)}
		if err := cl.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	args := runArgs(r.brokers, r.in, r.out)
	for i := range args {
		if args[i] == "json:id" {
			args[i] = "key"
		}
	}
	p := start(t, args...)
	r.caughtUp(p)
	if code := p.end(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	r.checkCame("new")
}

// TestStateImportPutsIDsIntoTheirGenerations, so that each is forgotten when it
// would have been; and all says what it costs by its result.
func TestStateImportPutsIDsIntoTheirGenerations(t *testing.T) {
	r := newRemembering(t, 2)
	slice := window.Config{Span: 24 * time.Hour}.Slice()
	var csv strings.Builder
	fmt.Fprintln(&csv, "time,id,note")
	for age := range 10 {
		fmt.Fprintf(&csv, "%d,id%d,x\n", r.at.UnixMilli()-int64(age)*slice, age)
	}
	fmt.Fprintf(&csv, "%d,17,x\n", r.at.UnixMilli())
	_, said := r.must(csv.String(), "import", "--format", "csv", "--key", "json:id", "--partitioner", "all", "--capacity", "7", "--peak", "1", "--skew", "1")
	for _, want := range []string{"18 IDs taught to 2 partitions, 4 older than the window left out", "warning: 1 IDs are digits",
		"warning: partition 1: the generation from ", " gets 2 IDs, and the plan has room for 1"} {
		if !strings.Contains(said, want) {
			t.Errorf("import does not say %q:\n%s", want, said)
		}
	}
	for _, p := range r.inspect("--count").Partitions {
		for i, g := range p.State.Generations {
			if want := map[bool]uint64{true: 2, false: 1}[i == 7]; *g.Added != want {
				t.Errorf("generation %d of 8 has %d IDs, want %d", i, *g.Added, want)
			}
		}
		if p.State.Coverage != 1 {
			t.Errorf("coverage %v, want 1", p.State.Coverage)
		}
	}
	r.write(1, "id0", "id7", "id8", "id9", "17")
	r.run()
	r.checkCame("id8", "id9")
}

// TestStateImportSaysWhatWillBeLate to the millisecond, once, and only of a group
// that has not begun.
func TestStateImportSaysWhatWillBeLate(t *testing.T) {
	r := newRemembering(t, 2)
	newest := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	earliest := newest.Add(-24 * time.Hour)
	ids := fmt.Sprintf(`{"id":"known","time":%d,"partition":0}`+"\n"+`{"id":"other","time":%d,"partition":1}`, newest.UnixMilli(), earliest.UnixMilli())
	_, said := r.must(ids, "import", "--key", "json:id")
	want := fmt.Sprintf("warning: records that are older than the newest ID of their partition by more than the window will be late, "+
		"which run's --on-late is about: in partition 0 those from before %s\n", stamp(earliest.UnixMilli()))
	if !strings.Contains(said, want) {
		t.Errorf("import does not say %q:\n%s", want, said)
	}
	cl := client(t, r.brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for id, at := range map[string]time.Time{"late": earliest.Add(-time.Millisecond), "in-time": earliest} {
		record := &kgo.Record{Topic: r.in, Timestamp: at, Value: fmt.Appendf(nil, `{"id":%q}`, id)}
		if err := cl.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	r.run("--on-late", "drop")
	r.checkCame("in-time")
	if _, said := r.must(ids, "import", "--key", "json:id"); strings.Contains(said, "will be late") {
		t.Errorf("of a group that has begun import says:\n%s", said)
	}
}

// TestStateImportSaysWhatIsAheadOfTheStream: those IDs are remembered, but a window
// from where the stream is.
func TestStateImportSaysWhatIsAheadOfTheStream(t *testing.T) {
	r := newRemembering(t, 2)
	m := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	cl := client(t, r.brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for p, at := range []time.Time{m, m.Add(-time.Minute)} {
		record := &kgo.Record{Topic: r.in, Partition: int32(p), Timestamp: at, Value: []byte(`{"id":"x"}`)}
		if err := cl.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	r.run()
	line := func(partition int, ahead time.Duration) string {
		return fmt.Sprintf(`{"id":"e%d","time":%d,"partition":%d}`+"\n", ahead, m.Add(ahead).UnixMilli(), partition)
	}
	_, said := r.must(line(0, 0)+line(1, -time.Minute), "import", "--key", "json:id")
	if strings.Contains(said, "warning") {
		t.Errorf("of IDs that are not ahead import says:\n%s", said)
	}
	_, said = r.must(line(0, time.Millisecond)+line(0, time.Minute)+line(1, 0), "import", "--key", "json:id")
	want := "warning: 3 IDs are newer than the stream time of their partition, which in partition 1 is " +
		stamp(m.Add(-time.Minute).UnixMilli()) + ": they are held for a window from that on, not from their own times\n"
	if !strings.Contains(said, want) {
		t.Errorf("import does not say %q:\n%s", want, said)
	}
	r.write(0, "e1000000", "e60000000000", "new")
	r.write(1, "e0")
	r.run()
	r.checkCame("new", "x*2")
}

func TestStateImportRefuses(t *testing.T) {
	r := newRemembering(t, 1)
	f := func(stdin, want string, more ...string) {
		t.Helper()
		code, _, stderr := r.state(stdin, "import", append(more, "--key", "json:id")...)
		if code == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%s%v: exit code %d, stderr:\n%swant %s", stdin, more, code, stderr, want)
		}
	}
	const at = `"time":1748779200000,"partition":0}`
	f(`{"id":"a",`+at+"\n{", "import stdin: line 2: unexpected end of JSON input")
	f(`{`+at, `line 1: there is no "id" and no "hash"`)
	f(`{"id":null,`+at, `line 1: id null: null is no ID`)
	f(`{"id":["a","b"],`+at, `line 1: id ["a","b"]: want an array of one part`)
	f(`{"hash":"0123456789abcdef",`+at, "a hash means nothing without the first line of its export")
	f(`{"id":"a","partition":0}`, `line 1: there is no "time"`)
	f(`{"id":"a","time":"soon","partition":0}`, `line 1: time "soon" is none that can be read`)
	f(`{"id":"a","time":1748779200000000,"partition":0}`, "is ahead of the clock", "--time-format", "unix-ms")
	f(`{"id":"a","time":1748779200000}`, `line 1: there is no "partition"`)
	f(`{"id":"a","time":1748779200000,"partition":1}`, "line 1: there is no partition 1, the input has 1")
	f(`{"streamdedup_export":2}`, "line 1: the export has format version 2, this program reads 1")
	f("", "there is no line with the names of the columns", "--format", "csv")
	f("id,time,partition\na,,0\n", `line 2: time "" is none that can be read`, "--format", "csv")
	f("id,partition\na,0\n", `line 2: there is no "time"`, "--format", "csv")
	f("id,time\na,1748779200000\n", `line 2: there is no "partition"`, "--format", "csv")
	f("id,time,partition\n\na,1748779200000,x\n", `line 3: partition "x" is none`, "--format", "csv")
	if i := r.inspect(); i.Partitions[0].Committed != nil || i.Changelog != "" {
		t.Errorf("a refused import left something: %+v", i)
	}

	r.write(0, "a")
	p := start(t, runArgs(r.brokers, r.in, r.out)...)
	r.caughtUp(p)
	f(`{"id":"a",`+at, "has 1 member: a (")
	if code := p.end(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	f(`{"id":"a",`+at, "give the --key, --hash-seed and --filter of the run", "--filter", "classic")
}
