package survey

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/axiomhq/hyperloglog"
)

// Reasons why a stream cannot be planned for.
var (
	ErrNoRecords = errors.New("there are no records")
	ErrNoIDs     = errors.New("no record has an ID")
	ErrNoTimes   = errors.New("no record has a usable time")
	ErrOneTime   = errors.New("all records have the same time")
)

// Report is what a survey has found.
type Report struct {
	Counts
	RecordBytes float64   `json:"record_bytes"` // key, value and headers, on average
	From        time.Time `json:"from"`         // the first stream time
	To          time.Time `json:"to"`           // and the last
	Span        Seconds   `json:"span_seconds"`

	Rate     float64 `json:"records_per_second"`      // on average over the span
	PeakRate float64 `json:"records_per_second_peak"` // in the busiest minute

	// IDs are those of each partition, which its filter is to remember: one that comes in
	// two counts twice. IDsError is the most that is wrong with them, in 19 of 20 cases,
	// as a share; 0 is exact.
	IDs      uint64  `json:"ids"`
	IDsError float64 `json:"ids_error"`
	// DuplicateShare is how many of the records with an ID are copies in a partition that
	// has had it, and ElsewhereShare how many are the first there, but not in the topic.
	DuplicateShare float64 `json:"duplicate_share"`
	ElsewhereShare float64 `json:"elsewhere_share"`

	Ages   []Quantile `json:"duplicate_ages"`
	Oldest Seconds    `json:"oldest_duplicate_seconds"`
	Sample Sample     `json:"sample"`

	// Skew is by how many times the IDs of the fullest partition are more than its share.
	Partitions int     `json:"partitions"`
	Skew       float64 `json:"skew"`

	ages   histogram
	behind histogram
	firsts map[int64]uint64
}

// Seconds is a duration that is a number of seconds in JSON.
type Seconds time.Duration

// MarshalJSON implements [encoding/json.Marshaler].
func (s Seconds) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%g", time.Duration(s).Seconds()), nil
}

// Quantile is an age that a share of the duplicates do not exceed. Among those of all IDs
// it lies between Low and High in 19 of 20 cases; where the sample has all IDs they are
// equal.
type Quantile struct {
	Share float64 `json:"share"`
	Age   Seconds `json:"seconds"`
	Low   Seconds `json:"low_seconds"`
	High  Seconds `json:"high_seconds"`
}

// Sample is what ages are those of.
type Sample struct {
	OneIn      uint64 `json:"one_id_in"` // 1 is all
	IDs        uint64 `json:"ids"`
	Duplicates uint64 `json:"duplicates"`
}

// quantiles are the shares of duplicates whose ages are reported.
var quantiles = []float64{0.5, 0.9, 0.99, 0.999}

// Report works out what was found of a topic with so many partitions.
func (s *Survey) Report(partitions int) (*Report, error) {
	r := &Report{Counts: s.counts, Partitions: partitions, behind: s.behind}
	if err := r.span(s); err != nil {
		return nil, err
	}
	r.RecordBytes = float64(s.bytes) / float64(s.counts.Records)
	r.Rate = float64(s.counts.Records) / r.seconds()
	for _, n := range s.minutes {
		r.PeakRate = max(r.PeakRate, float64(n)/min(60, r.seconds()))
	}
	r.PeakRate = max(r.PeakRate, r.Rate)
	counted, fullest, err := s.countIDs()
	if err != nil {
		return nil, err
	}
	r.count(s.sample, counted)
	r.Skew = max(1, fullest/counted*float64(partitions))
	return r, nil
}

// span is what the records' times say, if they say anything.
func (r *Report) span(s *Survey) error {
	switch {
	case s.counts.Records == 0:
		return ErrNoRecords
	case s.counts.WithID() == 0:
		return ErrNoIDs
	}
	from, to := int64(math.MaxInt64), int64(0)
	for _, p := range s.parts {
		if p.from != 0 {
			from, to = min(from, p.from), max(to, p.stream)
		}
	}
	switch {
	case to == 0:
		return ErrNoTimes
	case from == to:
		return ErrOneTime
	}
	r.From, r.To = time.UnixMilli(from).UTC(), time.UnixMilli(to).UTC()
	r.Span = Seconds(r.To.Sub(r.From))
	return nil
}

func (r *Report) seconds() float64 { return time.Duration(r.Span).Seconds() }

// countIDs is how many IDs the sketches have seen, of all partitions and of the fullest.
func (s *Survey) countIDs() (all, fullest float64, err error) {
	for _, number := range slices.Sorted(maps.Keys(s.parts)) {
		// A copy: estimating may change a sketch.
		sketch := hyperloglog.New16()
		if err := sketch.Merge(s.parts[number].ids); err != nil {
			return 0, 0, fmt.Errorf("count the IDs of partition %d: %w", number, err)
		}
		n := float64(sketch.Estimate())
		all, fullest = all+n, max(fullest, n)
	}
	return all, fullest, nil
}

// count sets what is said of IDs and duplicates, from the sample and from how many IDs
// were counted.
func (r *Report) count(s *sample, counted float64) {
	tally := s.total()
	var most uint32
	r.ages = tally.ages
	r.firsts, most = s.firsts()
	held := uint64(len(s.ids) + len(s.more))
	r.Sample = Sample{OneIn: 1 << s.level, IDs: held, Duplicates: tally.ages.total}
	with := float64(r.WithID())
	if tally.records > 0 {
		r.DuplicateShare = float64(tally.ages.total) / float64(tally.records)
		r.ElsewhereShare = float64(tally.elsewhere) / float64(tally.records)
	}
	r.IDs = held
	unseen := 0.
	if s.level > 0 {
		// A frequent ID is in the sample with all of its copies, or is not: where its
		// share of duplicates cannot be that of all, the count says what it can be.
		const doubt = 3 * sketchError
		sampled := r.DuplicateShare
		r.DuplicateShare = min(max(sampled, 1-counted*(1+doubt)/with, 0), max(1-counted*(1-doubt)/with, 0))
		unseen = max(0, 1-sampled/r.DuplicateShare)
		r.IDs = min(uint64(counted+0.5), r.WithID())
		r.IDsError = 2 * sketchError
	}
	r.Oldest = millis(r.ages.oldest)
	if r.ages.total == 0 {
		return
	}
	for _, share := range quantiles {
		q := Quantile{Share: share, Age: millis(r.ages.quantile(share))}
		q.Low, q.High = q.Age, q.Age
		if s.level > 0 {
			// The copies of one ID are in the sample together, or are not: those of the most
			// frequent in it, and what is missing in it by the count.
			doubt := 1.96*math.Sqrt(share*(1-share)/float64(r.ages.total)) + float64(most)/float64(r.ages.total) + unseen
			q.Low, q.High = millis(r.ages.quantile(share-doubt)), millis(r.ages.quantile(share+doubt))
		}
		r.Ages = append(r.Ages, q)
	}
}

func millis(n int64) Seconds { return Seconds(time.Duration(n) * time.Millisecond) }
