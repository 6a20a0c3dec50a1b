package peers

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/bench"
)

func TestResultsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	var r Result
	r.Peer, r.What = "redis", InMemory
	r.measured(1000, 2*time.Second, time.Second)
	r.remembers(500, 50)
	if err := r.judged(3, 4, nil); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"peer":"redis","version":"","what":"memory","round":0,"events":1000,"seconds":2,"cpu_seconds":1,` +
		`"events_per_second":500,"cpu_ns_per_event":1000000,"bytes_per_id":10,"missed":3,"lost":4,"note":""}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	// A figure without a subject is null, and further members are no error.
	read, err := ReadResults(strings.NewReader(want + "\n" + `{"peer":"x","bytes_per_id":null,"heap":1}`))
	if err != nil || len(read) != 2 || *read[0].Lost != 4 || read[1].BytesPerID != nil || read[1].Missed != nil {
		t.Errorf("read %+v, %v", read, err)
	}
	if _, err := ReadResults(strings.NewReader(want + "{")); err == nil {
		t.Error("half a result was read")
	}
}

// run is a result of 1,000,000 events.
func run(peer, what string, round int, nsPerEvent, bytesPerID float64) Result {
	r := Result{Peer: peer, Version: "1.2", What: what, Round: round, Note: "as it is"}
	r.measured(1_000_000, time.Second, time.Duration(nsPerEvent*1e6))
	if bytesPerID > 0 {
		r.BytesPerID = &bytesPerID
	}
	return r
}

func TestTable(t *testing.T) {
	t.Parallel()
	results := []Result{
		// A machine that is slow in round 2 is so for both.
		run("redis", InMemory, 1, 3000, 100), run("engine-1e-2", InMemory, 1, 100, 2),
		run("redis", InMemory, 2, 9000, 100), run("engine-1e-2", InMemory, 2, 300, 2),
		run("redis", InMemory, 3, 4000, 100), run("engine-1e-2", InMemory, 3, 100, 2),
		run("redis", InMemory, 4, 9999, 100), // nobody to compare it with
		run("streams-eos", TopicToTopic, 1, 30000, 0), run("streams-alo", TopicToTopic, 1, 28000, 0),
		run("run-eos", TopicToTopic, 1, 1500, 4), run("run-alo", TopicToTopic, 1, 1400, 4),
	}
	var out bytes.Buffer
	if err := WriteTable(&out, results); err != nil {
		t.Fatal(err)
	}
	const want = `
Records in memory, a verdict for each; compared with the engine at 1e-2.

                          times the CPU  times the bytes/ID  events/s   CPU ns/event  events/CPU s  bytes/ID  missed  lost
streamdedup engine, 1e-2  1.0            1.0                 1,000,000  100           10,000,000    2.00      -       -
Redis                     30.0           50.0                1,000,000  6,500         153,846       100.00    -       -

From topic to topic; each compared with run of the same guarantee, Flink with at-least-once.

                                times the CPU  times the bytes/ID  events/s   CPU ns/event  events/CPU s  bytes/ID  missed  lost
streamdedup run, exactly-once   1.0            1.0                 1,000,000  1,500         666,667       4.00      -       -
streamdedup run, at-least-once  1.0            1.0                 1,000,000  1,400         714,286       4.00      -       -
Kafka Streams, exactly-once     20.0           -                   1,000,000  30,000        33,333        -         -       -
Kafka Streams, at-least-once    20.0           -                   1,000,000  28,000        35,714        -         -       -
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestSection(t *testing.T) {
	t.Parallel()
	var section bytes.Buffer
	if err := WriteSection(&section, []Result{run("runiq", FileToFile, 1, 1000, 10)}, bench.NewEnvironment("run.sh --events 1", 5)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## Peers\n", "\n    runiq", "seed 5", "    run.sh --events 1\n", "- runiq, 1.2: as it is.\n"} {
		if !strings.Contains(section.String(), want) {
			t.Errorf("the section does not have %q:\n%s", want, section.String())
		}
	}
	document := "before\n" + beginMark + "\nold\n" + endMark + "\nafter\n"
	for range 2 { // a second time changes nothing
		var err error
		if document, err = Replace(document, "new\n"); err != nil {
			t.Fatal(err)
		}
		if want := "before\n" + beginMark + "\n\nnew\n\n" + endMark + "\nafter\n"; document != want {
			t.Errorf("got %q, want %q", document, want)
		}
	}
	for _, bad := range []string{"", beginMark + "\n", endMark + "\n" + beginMark + "\n"} {
		if _, err := Replace(bad, "new"); err == nil {
			t.Errorf("replaced something in %q", bad)
		}
	}
	if err := WriteSection(&section, nil, bench.Environment{}); err == nil {
		t.Error("wrote a section of nothing")
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	const line = "17 (a (b) c) S 1 17 17 0 -1 4194560 100 200 0 0 7 11 13 17 20 0 1 0 5 6 7 8"
	got, err := parseStat([]byte(line))
	if want := (7 + 11 + 13 + 17) * tick; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	for _, bad := range []string{"", "17 (x) S 1", strings.Replace(line, " 11 ", " x ", 1)} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("read times from %q", bad)
		}
	}
}
