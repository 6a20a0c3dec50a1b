package survey

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/internal/workload"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// seed is printed where a test fails, and set by STREAMDEDUP_SEED.
func seed(t *testing.T) uint64 {
	t.Helper()
	n := rand.Uint64()
	if text := os.Getenv("STREAMDEDUP_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 0, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("STREAMDEDUP_SEED=%d", n)
		}
	})
	return n
}

// truth is what a survey of records has to find, by maps.
type truth struct {
	ids, duplicates, elsewhere int
	ages                       []int64
	perPartition               map[int32]int
	from, to                   int64
}

// oracle judges records as a survey does, with the events' own numbers for IDs.
func oracle(records []workload.Record, now time.Time) truth {
	type at struct {
		event     uint64
		partition int32
	}
	o := truth{perPartition: map[int32]int{}, from: math.MaxInt64}
	stream, firsts, events := map[int32]int64{}, map[at]int64{}, map[uint64]bool{}
	for _, r := range records {
		if r.Time <= now.Add(maxAhead).UnixMilli() {
			stream[r.Partition] = max(stream[r.Partition], r.Time)
			o.from, o.to = min(o.from, stream[r.Partition]), max(o.to, r.Time)
		}
		m := stream[r.Partition]
		in := at{r.Event, r.Partition}
		if first, ok := firsts[in]; ok {
			o.duplicates++
			o.ages = append(o.ages, m-first)
			continue
		}
		firsts[in] = m
		o.ids++
		o.perPartition[r.Partition]++
		if events[r.Event] {
			o.elsewhere++
		}
		events[r.Event] = true
	}
	slices.Sort(o.ages)
	return o
}

// quantile is the age that a share of all duplicates do not exceed.
func (o *truth) quantile(share float64) int64 {
	return o.ages[max(0, int(math.Ceil(share*float64(len(o.ages))))-1)]
}

// made are the records of a workload. scatter is how many of its copies go to another
// partition than their first.
func made(t *testing.T, cfg workload.Config, scatter float64) []workload.Record {
	t.Helper()
	g, err := workload.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(cfg.Seed, 1))
	var all []workload.Record
	for {
		r, ok := g.Next()
		if !ok {
			return all
		}
		if r.Copy && random.Float64() < scatter {
			r.Partition = (r.Partition + 1) % cfg.Partitions
		}
		all = append(all, r)
	}
}

func surveyOf(t *testing.T, records []workload.Record, kind workload.Kind, most int, now time.Time) *Survey {
	t.Helper()
	s, err := New(Config{Keys: kind.KeySpecs(), Time: "record", Now: now, Sample: most})
	if err != nil {
		t.Fatal(err)
	}
	// Partition by partition, as a topic is read.
	slices.SortStableFunc(records, func(a, b workload.Record) int { return cmp.Compare(a.Partition, b.Partition) })
	for i := range records {
		s.Add(records[i].Partition, &records[i].Record)
	}
	return s
}

func TestSurveyAgainstMaps(t *testing.T) {
	t.Parallel()
	seed := seed(t)
	for i, c := range []struct {
		workload workload.Config
		scatter  float64
		most     int
	}{
		{workload.Config{Kind: workload.Clicks, Events: 30_000, Copies: 6000, Partitions: 4}, 0, DefaultSample},
		{workload.Config{Kind: workload.Telemetry, Events: 30_000, Copies: 30_000, Partitions: 3}, 0.3, DefaultSample},
		{workload.Config{Kind: workload.Clicks, Events: 30_000, Copies: 9000, Partitions: 5, Skew: true}, 0.1, DefaultSample},
		{workload.Config{Kind: workload.Clicks, Events: 60_000, Copies: 20_000, Partitions: 2}, 0.1, 20_000},
		{workload.Config{Kind: workload.Telemetry, Events: 60_000, Copies: 6000, Partitions: 1, Skew: true}, 0, 5000},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			cfg := c.workload
			cfg.Seed, cfg.Start, cfg.Span, cfg.Window = seed+uint64(i), start, 20*time.Hour, 24*time.Hour
			now := start.Add(30 * time.Hour)
			records := made(t, cfg, c.scatter)
			if c.most < cfg.Events {
				// How much a frequent ID weighs in a sample is luck: there is a test for it.
				records = slices.DeleteFunc(records, func(r workload.Record) bool { return r.Copy && r.Event == uint64(cfg.Events/2) })
			}
			s := surveyOf(t, records, cfg.Kind, c.most, now)
			r, err := s.Report(int(cfg.Partitions))
			if err != nil {
				t.Fatal(err)
			}
			agrees(t, r, oracle(records, now), len(records), s.sample)
		})
	}
}

// agrees compares a report with the truth: exactly where the sample has all IDs.
func agrees(t *testing.T, r *Report, want truth, records int, s *sample) {
	t.Helper()
	if r.Records != uint64(records) || r.From.UnixMilli() != want.from || r.To.UnixMilli() != want.to {
		t.Errorf("%d records from %v to %v, want %d from %d to %d", r.Records, r.From, r.To, records, want.from, want.to)
	}
	near := func(what string, got, want, within float64) {
		t.Helper()
		if math.Abs(got-want) > within {
			t.Errorf("%s is %g, want %g to within %g (one ID in %d)", what, got, want, within, r.Sample.OneIn)
		}
	}
	share := func(n int) float64 { return float64(n) / float64(records) }
	exact := r.Sample.OneIn == 1
	if exact != (s.level == 0) || r.Sample.IDs > uint64(s.most) || exact != (want.ids <= s.most) {
		t.Errorf("the sample is %+v of %d IDs", r.Sample, want.ids)
	}
	fullest := 0
	for _, n := range want.perPartition {
		fullest = max(fullest, n)
	}
	near("skew", r.Skew, float64(fullest*r.Partitions)/float64(want.ids), 0.03)
	if exact {
		near("IDs", float64(r.IDs), float64(want.ids), 0)
		near("share of duplicates", r.DuplicateShare, share(want.duplicates), 1e-12)
		near("share elsewhere", r.ElsewhereShare, share(want.elsewhere), 1e-12)
	} else {
		near("IDs", float64(r.IDs), float64(want.ids), 5*sketchError*float64(want.ids))
		near("share of duplicates", r.DuplicateShare, share(want.duplicates), 6*sketchError)
		near("share elsewhere", r.ElsewhereShare, share(want.elsewhere), 0.02)
	}
	if oldest := time.Duration(r.Oldest).Milliseconds(); oldest > want.ages[len(want.ages)-1] || exact && oldest != want.ages[len(want.ages)-1] {
		t.Errorf("the oldest duplicate is %d ms, want %d", oldest, want.ages[len(want.ages)-1])
	}
	for _, q := range r.Ages {
		got, low, high := time.Duration(q.Age).Milliseconds(), want.quantile(q.Share), want.quantile(q.Share)
		if !exact {
			// The second term is for the tail, where the sample has few: that none of n is
			// beyond a share of 12/n has a chance of e^-12.
			n := float64(r.Sample.Duplicates)
			doubt := 5*math.Sqrt(q.Share*(1-q.Share)/n) + 12/n
			low, high = want.quantile(max(0, q.Share-doubt)), want.quantile(min(1, q.Share+doubt))
		}
		if got < low || got > high+high>>stepBits {
			t.Errorf("p%g of the ages is %d ms, want %d to %d", 100*q.Share, got, low, high)
		}
		if q.Low > q.Age || q.Age > q.High || exact && q.Low != q.High {
			t.Errorf("p%g of the ages is %v between %v and %v", 100*q.Share, q.Age, q.Low, q.High)
		}
	}
}

// A frequent ID is in the sample or is not. What is said of the ages allows for both, and
// so does the share of duplicates.
func TestSurveyOfAFrequentID(t *testing.T) {
	t.Parallel()
	in, out := 0, 0
	for hot := range 12 {
		s, err := New(Config{Keys: []string{"key"}, Time: "record", Now: start.Add(day), Sample: 4000})
		if err != nil {
			t.Fatal(err)
		}
		const ids, copies = 16_000, 6000
		// The hot one comes again and again, the others once, within a second.
		frequent := fmt.Appendf(nil, "hot-%d", hot)
		at := start.UnixMilli()
		for i := range ids {
			at += 500
			r := keys.Record{Key: fmt.Appendf(nil, "%d", i), Time: at}
			s.Add(0, &r)
			r.Time += 400
			if s.Add(0, &r); i%(ids/copies) == 0 {
				s.Add(0, &keys.Record{Key: frequent, Time: at + 450})
			}
		}
		r, err := s.Report(1)
		if err != nil {
			t.Fatal(err)
		}
		const repeats = (ids + ids/copies - 1) / (ids / copies)
		duplicates := float64(ids + repeats - 1)
		if want := duplicates / (2*ids + repeats); math.Abs(r.DuplicateShare-want) > 6*sketchError {
			t.Errorf("hot ID %s: the share of duplicates is %g, want %g", frequent, r.DuplicateShare, want)
		}
		if s.sample.level < 2 {
			t.Fatalf("one ID in %d is sampled", r.Sample.OneIn)
		}
		if r.Oldest > Seconds(time.Second) {
			in++
		} else {
			out++
		}
		// Half of the duplicates are one of the many, which come after 400 ms.
		if p50 := r.Ages[0]; time.Duration(p50.Low) > 403*time.Millisecond || time.Duration(p50.High) < 400*time.Millisecond {
			t.Errorf("hot ID %s: half of the duplicates come within %v to %v, want 400ms among them",
				frequent, time.Duration(p50.Low), time.Duration(p50.High))
		}
	}
	if in == 0 || out == 0 {
		t.Errorf("the hot ID was in %d samples and not in %d: want both", in, out)
	}
}

// What has no ID or no time is counted apart, and says nothing of either.
func TestSurveyCounts(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Keys: []string{"json:id"}, Time: "json:at", TimeFormat: "unix", Now: start, Sample: 10})
	if err != nil {
		t.Fatal(err)
	}
	base := start.Unix() - 1000
	for _, line := range []string{
		fmt.Sprintf(`{"id":1,"at":%d}`, base),
		fmt.Sprintf(`{"id":1,"at":%d}`, base+30),
		fmt.Sprintf(`{"id":2,"at":%d}`, start.Unix()+600), // ahead
		`{"id":2}`, // no time: it comes at the stream's
		fmt.Sprintf(`{"at":%d}`, base+60),
		fmt.Sprintf(`{"id":[1],"at":%d}`, base+60),
		`{"id":`, // neither
		fmt.Sprintf(`{"id":1,"at":%d}`, base+100),
	} {
		s.Add(0, &keys.Record{Key: []byte("k"), Value: []byte(line), Headers: []keys.Header{{Name: "h", Value: []byte("v")}}})
	}
	r, err := s.Report(1)
	if err != nil {
		t.Fatal(err)
	}
	want := Counts{Records: 8, WithoutID: 2, Invalid: 1, WithoutTime: 2, Ahead: 1}
	if r.Counts != want || r.IDs != 2 || r.Sample.Duplicates != 3 || r.Span != Seconds(100*time.Second) ||
		r.Oldest != Seconds(100*time.Second) || r.DuplicateShare != 3./5 || r.Skew != 1 {
		t.Errorf("got %+v, want the counts %+v", r, want)
	}
	if r.Rate != 8./100 || r.PeakRate < r.Rate || r.RecordBytes < 10 {
		t.Errorf("got %g records a second, %g at most, of %g bytes", r.Rate, r.PeakRate, r.RecordBytes)
	}
}

// A stream that says too little is no ground for a plan.
func TestSurveyOfTooLittle(t *testing.T) {
	t.Parallel()
	at := start.UnixMilli()
	for _, c := range []struct {
		want    error
		records []keys.Record
	}{
		{ErrNoRecords, nil},
		{ErrNoIDs, []keys.Record{{Time: at}}},
		{ErrNoTimes, []keys.Record{{Key: []byte("a"), Time: -1}}},
		{ErrOneTime, []keys.Record{{Key: []byte("a"), Time: at}, {Key: []byte("b"), Time: at}}},
	} {
		s, err := New(Config{Keys: []string{"key"}, Time: "record", Now: start, Sample: 10})
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.records {
			s.Add(0, &c.records[i])
		}
		if _, err := s.Report(1); !errors.Is(err, c.want) {
			t.Errorf("%d records: %v, want %v", len(c.records), err, c.want)
		}
	}
	for _, cfg := range []Config{
		{Keys: []string{"key"}, Time: "none", Sample: 10},
		{Keys: []string{"key"}, Time: "arrival", Sample: 10},
		{Keys: []string{"key"}, Time: "record"},
		{Keys: []string{"nosuch"}, Time: "record", Sample: 10},
		{Keys: []string{"key"}, Time: "nosuch", Sample: 10},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("no error for %+v", cfg)
		}
	}
}
