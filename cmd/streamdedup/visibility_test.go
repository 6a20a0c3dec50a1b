package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// send writes records at once, n of them, the i-th as record makes it.
func send(t *testing.T, brokers []string, topic string, n int, record func(i int) (partition int32, value string)) {
	t.Helper()
	cl := client(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	records, at := make([]*kgo.Record, n), time.Now() // as in produce
	for i := range records {
		partition, value := record(i)
		records[i] = &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value), Timestamp: at}
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// TestCase_KEY_03 reads 10,000 records without the ID, of which the log and the health
// page must say so, and in the run after it 10,000 of which one in a hundred lacks it,
// which is nothing to talk about.
func TestCase_KEY_03(t *testing.T) {
	const records = 10_000
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 1, nil)
	f := func(missing int, wrong bool) {
		t.Helper()
		send(t, brokers, in, records, func(i int) (int32, string) {
			if i%(records/missing) == records/missing-1 { // no look at the first of them alone finds most missing
				return 0, fmt.Sprintf(`{"n":%d}`, i)
			}
			return 0, fmt.Sprintf(`{"id":%d,"n":%d}`, i, i)
		})
		p := start(t, runArgs(brokers, in, in+"-out", "--capacity", "100k", "--fpr", "1e-9")...)
		address := p.line(t, `serving metrics.* address=(\S+)`)
		m := awaitCounted(t, address, records)
		if got := m.sum("streamdedup_records_total", "verdict=missing"); got != float64(missing) {
			t.Errorf("%v records are missing, want %d", got, missing)
		}
		if got := m.sum("streamdedup_fate_total", "fate=out"); got != records {
			t.Errorf("%v records came out, want all %d", got, records)
		}
		if got := m.sum("streamdedup_health_warning", "check=no_id") == 1; got != wrong {
			t.Errorf("the health flag is up: %v, want %v", got, wrong)
		}
		if got, want := m.sum("streamdedup_missing_ratio"), float64(missing)/records; got != want {
			t.Errorf("the share of the missing is %v, want %v", got, want)
		}
		text := fmt.Sprintf("%d of %d records have no ID: is --key right?", missing, records)
		if code, page := get(t, address, "/healthz"); code != http.StatusOK || strings.Contains(page, "\nwarning: "+text) != wrong {
			t.Errorf("/healthz: %d; want a warning: %v\n%s", code, wrong, page)
		}
		if code := p.end(); code != exitOK {
			t.Fatalf("exit code %d after a stop, want 0", code)
		}
		if n := strings.Count(p.stderr.String(), "records have no ID"); n != map[bool]int{true: 1}[wrong] {
			t.Errorf("the log says %d times that IDs are missing; it was looked at for less than a minute", n)
		}
	}
	f(records, true)
	f(records/100, false)
}

// TestCase_OPS_04 scrapes a process while it works: both sums hold every time, and what
// was counted is never taken back. What is in flight is in neither.
func TestCase_OPS_04(t *testing.T) {
	const records = 40_000
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 4, nil)
	divert := kafkatest.Topic(t, brokers, 4, nil)
	p := start(t, runArgs(brokers, in, in+"-out", "--capacity", "100k", "--divert-topic", divert, "--on-missing", "divert", "--commit-interval", "5ms")...)
	address := p.line(t, `serving metrics.* address=(\S+)`)
	cl := client(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(records))
	write := func(from, to int) {
		for i := from; i < to; i++ {
			value := fmt.Appendf(nil, `{"id":%d}`, i/20*20+i%4) // up to five of each
			if i%10 == 9 {
				value = []byte("{}")
			}
			cl.Produce(t.Context(), &kgo.Record{Topic: in, Partition: int32(i % 4), Value: value}, nil)
		}
	}
	write(0, records/2) // the rest when a scrape has seen some of them
	before, scrapes, between := 0.0, 0, 0
	for before < records && t.Context().Err() == nil {
		m := scrape(t, address)
		verdicts, fates := m.sum("streamdedup_records_total"), m.sum("streamdedup_fate_total")
		if verdicts != fates {
			t.Fatalf("scrape %d: %v verdicts and %v fates", scrapes, verdicts, fates)
		}
		if verdicts < before {
			t.Fatalf("scrape %d: %v records are counted, %v were", scrapes, verdicts, before)
		}
		if verdicts > 0 && verdicts < records {
			between++
		}
		if before == 0 && verdicts > 0 {
			write(records/2, records)
		}
		before = verdicts
		scrapes++
	}
	if between == 0 {
		t.Errorf("none of %d scrapes was under way", scrapes)
	}
	m := scrape(t, address)
	for _, want := range []struct {
		metric, label string
		n             float64
	}{
		{"records_total", "verdict=missing", records / 10}, {"fate_total", "fate=diverted", records / 10},
		{"records_total", "verdict=duplicate", m.sum("streamdedup_fate_total", "fate=dropped")},
		{"records_total", "verdict=unique", m.sum("streamdedup_fate_total", "fate=out")},
	} {
		if got := m.sum("streamdedup_"+want.metric, want.label); got != want.n || got == 0 {
			t.Errorf("%s{%s} is %v, want %v", want.metric, want.label, got, want.n)
		}
	}
	if code := p.end(); code != exitOK {
		t.Fatalf("exit code %d after a stop, want 0", code)
	}
}

// TestCase_OPS_09 asks a process whether duplicates are looked for at all: by which key,
// within which window, how much of that is known, and how many records have no ID.
func TestCase_OPS_09(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 1, nil)
	produce(t, brokers, in, 1, `{"id":1}`, `{"id":1}`, `{"id":2}`, `{"n":1}`)
	p := start(t, runArgs(brokers, in, in+"-out", "--window", "7d", "--on-duplicate", "tag")...)
	address := p.line(t, `serving metrics.* address=(\S+)`)
	m := awaitCounted(t, address, 4)
	for metric, labels := range map[string][]string{
		"config_info":           {"key=json:id", "window=7d", "time=record", "scope=partition", "delivery=exactly-once", "on_duplicate=tag"},
		"window_coverage_ratio": {"topic=" + in, "partition=0"},
	} {
		if got := m.sum("streamdedup_"+metric, labels...); got != 1 {
			t.Errorf("%s%v is %v, want 1", metric, labels, got)
		}
	}
	if got := m.sum("streamdedup_missing_ratio"); got != 0.25 {
		t.Errorf("missing_ratio is %v, want 0.25", got)
	}
	code, page := get(t, address, "/healthz")
	want := "alive\n" + "group g-" + in + "-out, instance a: " + in + " to " + in + "-out, deduplicated by json:id within 7d\n" +
		"ready: 1 partition\n" +
		"memory: 100% of the window is known, 0 new IDs not learned since the start at TIME\n" +
		"recently: 4 records, 25.0% without an ID, 0.0% malformed before it, 0.0% ahead of the clock\n"
	page = regexp.MustCompile(`start at 20\S+Z`).ReplaceAllString(page, "start at TIME")
	if code != http.StatusOK || page != want {
		t.Errorf("/healthz: %d\n%swant\n%s", code, page, want)
	}
	if code := p.end(); code != exitOK {
		t.Fatalf("exit code %d after a stop, want 0", code)
	}
}

// TestCase_BLOOM_08 puts 80% of the new IDs into one of 16 partitions: that one alone
// says that it is full, and the others look for duplicates as they did. More --skew is
// the room for it.
func TestCase_BLOOM_08(t *testing.T) {
	const (
		partitions = 16
		ids        = 4000
		hot        = 5
	)
	for skew, full := range map[string]bool{"1.25": true, "16": false} {
		brokers := kafkatest.Fake(t).ListenAddrs()
		in := kafkatest.Topic(t, brokers, partitions, nil)
		send(t, brokers, in, ids, func(i int) (int32, string) {
			if i%5 < 4 {
				return hot, fmt.Sprintf(`{"id":%d}`, i)
			}
			return int32(i / 5 % partitions), fmt.Sprintf(`{"id":%d}`, i)
		})
		p := start(t, runArgs(brokers, in, in+"-out", "--capacity", "16000", "--skew", skew)...)
		address := p.line(t, `serving metrics.* address=(\S+)`)
		m := awaitCounted(t, address, ids)
		alerts := map[string]float64{"generation_full": m.sum("streamdedup_generation_full"),
			"health_warning": m.sum("streamdedup_health_warning", "check=filter_full"),
			"its generation": m.sum("streamdedup_generation_full", fmt.Sprint("partition=", hot))}
		if code := p.end(); code != exitOK {
			t.Fatalf("exit code %d after a stop, want 0", code)
		}
		stderr := p.stderr.String()
		alerts["log"] = float64(strings.Count(stderr, `msg="the filter is full`))
		alerts["log of it"] = float64(strings.Count(stderr, fmt.Sprintf(`raise --capacity, or --memory-limit where the filter has not grown to 16 times its plan" partition=%s/%d records=`, in, hot)))
		for where, n := range alerts {
			if want := map[bool]float64{true: 1}[full]; n != want {
				t.Errorf("--skew %s: %s has %v alerts, want %v", skew, where, n, want)
			}
		}
	}
}

// TestCase_BLOOM_03 sends three times what is planned for, all of it new. The alert
// comes before the filter's rate is twice the budget, and what the rate is stays in
// sight: no more is withheld than was allowed.
func TestCase_BLOOM_03(t *testing.T) {
	const (
		planned = 10_000
		budget  = 1e-3
	)
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 1, nil)
	p := start(t, runArgs(brokers, in, in+"-out", "--capacity", fmt.Sprint(planned), "--fpr", fmt.Sprint(budget), "--peak", "1", "--skew", "1", "--window", "7m",
		"--hash-seed", "1", "--commit-interval", "20ms")...)
	address := p.line(t, `serving metrics.* address=(\S+)`)
	// All within one window of stream time.
	cl := client(t, brokers)
	begin := time.Now().Add(-time.Hour).Truncate(time.Minute) // with a generation
	alerted := false
	for step := range 30 {
		records := make([]*kgo.Record, 3*planned/30)
		for i := range records {
			id := step*len(records) + i
			at := begin.Add(time.Duration(id) * 7 * time.Minute / (3 * planned))
			records[i] = &kgo.Record{Topic: in, Value: fmt.Appendf(nil, `{"id":%d}`, id), Timestamp: at}
		}
		if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		m := awaitCounted(t, address, float64((step+1)*len(records)))
		alerted = alerted || m.sum("streamdedup_health_warning", "check=filter_full") == 1
		if rate := m.sum("streamdedup_filter_fpr_estimate"); rate > 2*budget || rate > 1.2*budget && !alerted {
			t.Fatalf("after %d IDs the rate is %v, alerted: %v", (step+1)*len(records), rate, alerted)
		}
	}
	m := scrape(t, address)
	if withheld := m.sum("streamdedup_fate_total", "fate=dropped"); !alerted || withheld > 3*planned*budget*2 {
		t.Errorf("%v of %d first copies are withheld, alerted: %v", withheld, 3*planned, alerted)
	}
	if m.sum("streamdedup_marks_total", "mark=unlearned") == 0 {
		t.Error("it was never full: the test proves nothing")
	}
	if code := p.end(); code != exitOK {
		t.Fatalf("exit code %d after a stop, want 0", code)
	}
}

// Times ten years ahead are not believed, and when they are most of all somebody must
// look: it may be our own clock that is wrong. They come last: most of all are ahead only
// with the last record, whenever the watcher looks.
func TestRunWarnsOfClocksAhead(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 1, nil)
	send := func(n, ahead int) {
		t.Helper()
		records := make([]*kgo.Record, n)
		for i := range records {
			records[i] = &kgo.Record{Topic: in, Value: fmt.Appendf(nil, `{"id":"%d of %d"}`, i, n), Timestamp: time.Now()}
			if i >= n-ahead {
				records[i].Timestamp = time.Now().AddDate(10, 0, 0)
			}
		}
		if err := client(t, brokers).ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, runArgs(brokers, in, in+"-out")...)
	address := p.line(t, `serving metrics.* address=(\S+)`)
	sent := 0
	for _, step := range []struct{ n, ahead, warned int }{{1000, 500, 0}, {1001, 501, 1}} {
		send(step.n, step.ahead)
		sent += step.n
		m := awaitCounted(t, address, float64(sent))
		if got := m.sum("streamdedup_health_warning", "check=ahead"); got != float64(step.warned) {
			t.Errorf("with %v of %v ahead the health flag is %v, want %d", m.sum("streamdedup_marks_total", "mark=ahead"),
				m.sum("streamdedup_records_total"), got, step.warned)
		}
	}
	if code := p.end(); code != exitOK {
		t.Fatalf("exit code %d after a stop, want 0", code)
	}
	if n := strings.Count(p.stderr.String(), `level=WARN msg="1001 of 2001 records are ahead of the clock: whose is wrong, the producers' or ours?"`); n != 1 {
		t.Errorf("the log says it %d times, want once", n)
	}
}

// A default that a producer left in is the ID of a fifth of all records: it is named, by
// its hash, and by its text only to who asked for that.
func TestAHotIDIsNamed(t *testing.T) {
	const records = 100_000
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 1, nil)
	send(t, brokers, in, records, func(i int) (int32, string) {
		if i%5 == 0 {
			return 0, fmt.Sprintf(`{"id":"unknown","n":%d}`, i)
		}
		return 0, fmt.Sprintf(`{"id":"%d"}`, i)
	})
	f := func(pattern string, more ...string) {
		t.Helper()
		out := kafkatest.Topic(t, brokers, 1, nil)
		p := start(t, append(runArgs(brokers, in, out, "--capacity", "1M"), more...)...)
		address := p.line(t, `serving metrics.* address=(\S+)`)
		m := awaitCounted(t, address, records)
		if share := m.sum("streamdedup_hot_id_share", "topic="+in, "partition=0"); share < 0.15 || share > 0.25 {
			t.Errorf("the share is %v, want 0.2 or so", share)
		}
		if got := m.sum("streamdedup_health_warning", "check=hot_id"); got != 1 {
			t.Errorf("the health flag is %v, want 1", got)
		}
		saying := func(share string) *regexp.Regexp {
			return regexp.MustCompile(`(?m)partition ` + in + `/0: the ID ` + pattern + ` is that of ` + share + `% of the records: if it means none, --ignore-id says so; or is --key too coarse\?`)
		}
		if _, page := get(t, address, "/healthz"); !saying(`(1[5-9]|2[0-5])`).MatchString(page) {
			t.Errorf("/healthz does not name the ID:\n%s", page)
		}
		if code := p.end(); code != exitOK {
			t.Fatalf("exit code %d after a stop, want 0", code)
		}
		// The log may have it early, by the first dozens of glances.
		said := saying(`[1-4][0-9]`)
		if log := strings.ReplaceAll(p.stderr.String(), `\"`, `"`); len(said.FindAllString(log, -1)) != 1 {
			t.Errorf("the log does not say once %v", said)
		}
	}
	f(`with hash [0-9a-f]{16} \(--show-ids shows it\)`)
	f(`"unknown", with hash [0-9a-f]{16},`, "--show-ids")
}

// A key that events of a type share drops all but the first of each. A few thousand
// records are enough to show that.
func TestAKeyThatIsTooCoarseShows(t *testing.T) {
	const records = 5000
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 1, nil)
	send(t, brokers, in, records, func(i int) (int32, string) { return 0, fmt.Sprintf(`{"n":%d,"id":"click"}`, i) })
	p := start(t, append(runArgs(brokers, in, in+"-out"), "--show-ids")...)
	address := p.line(t, `serving metrics.* address=(\S+)`)
	m := awaitCounted(t, address, records)
	if got := m.sum("streamdedup_hot_id_share", "topic="+in); got != 1 {
		t.Errorf("the share is %v, want 1", got)
	}
	text := regexp.MustCompile(`the ID "click", with hash [0-9a-f]{16}, is that of 100% of the records: .*; or is --key too coarse\?`)
	if _, page := get(t, address, "/healthz"); !text.MatchString(page) {
		t.Errorf("/healthz does not say %v:\n%s", text, page)
	}
	if code := p.end(); code != exitOK {
		t.Fatalf("exit code %d after a stop, want 0", code)
	}
	if log := strings.ReplaceAll(p.stderr.String(), `\"`, `"`); !text.MatchString(log) {
		t.Errorf("the log does not say %v:\n%s", text, log)
	}
}

// A --time with a typo finds no time in any record, which nothing else would show. Half
// of the records without one are nothing to talk about.
func TestRunWarnsOfRecordsWithoutATime(t *testing.T) {
	const records = 1000
	for without, wrong := range map[int]bool{records: true, records / 2: false} {
		brokers := kafkatest.Fake(t).ListenAddrs()
		in := kafkatest.Topic(t, brokers, 1, nil)
		send(t, brokers, in, records, func(i int) (int32, string) {
			if i >= records-without { // last, so that they are never most of what was looked at
				return 0, fmt.Sprintf(`{"id":%d,"at":%d}`, i, time.Now().Unix())
			}
			return 0, fmt.Sprintf(`{"id":%d,"att":%d}`, i, time.Now().Unix())
		})
		p := start(t, append(runArgs(brokers, in, in+"-out"), "--time", "json:att")...)
		address := p.line(t, `serving metrics.* address=(\S+)`)
		m := awaitCounted(t, address, records)
		if got := m.sum("streamdedup_health_warning", "check=no_time") == 1; got != wrong {
			t.Errorf("%d without a time: the health flag is up: %v, want %v", without, got, wrong)
		}
		const why = " records have no time, and are judged at the stream's time: is --time json:att right?"
		text := fmt.Sprintf("%d of %d%s", without, records, why)
		if _, page := get(t, address, "/healthz"); strings.Contains(page, "\nwarning: "+text) != wrong {
			t.Errorf("%d without a time: /healthz; want a warning: %v\n%s", without, wrong, page)
		}
		if code := p.end(); code != exitOK {
			t.Fatalf("exit code %d after a stop, want 0", code)
		}
		if n := strings.Count(p.stderr.String(), why); n != map[bool]int{true: 1}[wrong] { // maybe of the first of them
			t.Errorf("%d without a time: the log says it %d times", without, n)
		}
	}
}

// Copies with another value than their first ones are told from those that are alike: by
// the audited sample, of which there are some among so many.
func TestClashingIDsShow(t *testing.T) {
	const ids = 20_000
	brokers := kafkatest.Fake(t).ListenAddrs()
	for _, alike := range []bool{true, false} {
		in := kafkatest.Topic(t, brokers, 1, nil)
		send(t, brokers, in, 2*ids, func(i int) (int32, string) {
			if n := i / ids; !alike {
				return 0, fmt.Sprintf(`{"id":%d,"copy":%d}`, i%ids, n)
			}
			return 0, fmt.Sprintf(`{"id":%d}`, i%ids)
		})
		p := start(t, runArgs(brokers, in, in+"-out", "--capacity", "100k", "--hash-seed", "1")...)
		m := awaitCounted(t, p.line(t, `serving metrics.* address=(\S+)`), 2*ids)
		clashes := m.sum("streamdedup_id_clashes_total")
		copies := m.sum("streamdedup_audited_records_total") - m.sum("streamdedup_audited_new_records_total")
		if want := map[bool]float64{false: copies}[alike]; clashes != want || copies < 5 {
			t.Errorf("alike: %v: %v clashes of %v audited copies", alike, clashes, copies)
		}
		if got := m.sum("streamdedup_health_warning", "check=id_clashes") == 1; got == alike {
			t.Errorf("alike: %v: the health flag is up: %v", alike, got)
		}
		if code := p.end(); code != exitOK {
			t.Fatalf("exit code %d after a stop, want 0", code)
		}
		if n := strings.Count(p.stderr.String(), "audited records have the ID of an earlier one and another value"); n != map[bool]int{false: 1}[alike] {
			t.Errorf("alike: %v: the log says it %d times", alike, n)
		}
	}
}

// A full filter's unlearned IDs are on the page beside the window that it knows. A
// process that starts counts its own, and says since when.
func TestUnlearnedIDsShow(t *testing.T) {
	t.Parallel()
	const ids = 5000
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 1, nil)
	args := runArgs(brokers, in, in+"-out", "--capacity", "1000", "--peak", "1", "--skew", "1", "--on-full", "pass")
	said := regexp.MustCompile(`\nmemory: 100% of the window is known, (\d+) new IDs not learned since the start at (20\S+Z)`)
	for _, records := range []int{ids, 1} {
		began := time.Now().Truncate(time.Second) // as the page says it
		send(t, brokers, in, records, func(i int) (int32, string) { return 0, fmt.Sprintf(`{"id":%d}`, i) })
		p := start(t, args...)
		address := p.line(t, `serving metrics.* address=(\S+)`)
		m := awaitCounted(t, address, float64(records))
		_, page := get(t, address, "/healthz")
		found := said.FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("/healthz does not say what was not learned:\n%s", page)
		}
		n := m.sum("streamdedup_marks_total", "mark=unlearned")
		if found[1] != strconv.Itoa(int(n)) || (n > 0) != (records == ids) {
			t.Errorf("of %d records %v were not learned, /healthz says %s", records, n, found[1])
		}
		if at, err := time.Parse(time.RFC3339, found[2]); err != nil || at.Before(began) || at.After(time.Now()) {
			t.Errorf("a process that was started after %v says it was at %s", began, found[2])
		}
		if code := p.end(); code != exitOK {
			t.Fatalf("exit code %d after a stop, want 0", code)
		}
	}
}
