package survey

import (
	"errors"
	"fmt"
	"time"

	"github.com/axiomhq/hyperloglog"

	"github.com/streamdedup/streamdedup/internal/keys"
)

const (
	// DefaultSample is how many IDs are remembered exactly, in about 100 MB.
	DefaultSample = 1 << 21
	// maxAhead is how far ahead of the clock a time is believed, as with all windows
	// but short ones.
	maxAhead = 5 * time.Minute
	// sketchError is the standard error of a count of IDs: 1.04 over the root of the
	// registers of a HyperLogLog of precision 16.
	sketchError = 1.04 / 256
)

// Config says what identifies the events of a stream, and what time they have.
type Config struct {
	Keys       []string
	IDs        keys.Options
	Time       string
	TimeFormat string
	// Now is the wall clock: times far ahead of it are not believed.
	Now time.Time
	// Sample is the most IDs that are remembered exactly.
	Sample int
}

// Survey is a survey under way. It has one owner.
type Survey struct {
	ids   *keys.Extractor
	clock *keys.Clock
	now   int64

	counts  Counts
	bytes   uint64
	minutes map[int64]uint64 // records of each minute of stream time
	behind  histogram        // by how far records are behind the stream
	parts   map[int32]*partition
	sample  *sample
}

// partition is what is known of one.
type partition struct {
	// from and stream are the first and the present stream time, 0 before the first.
	from, stream int64
	ids          *hyperloglog.Sketch
}

// Counts are those of records.
type Counts struct {
	Records uint64 `json:"records"`
	// Of them without an ID, and malformed before the place of one.
	WithoutID uint64 `json:"without_id"`
	Invalid   uint64 `json:"invalid"`
	// Without a usable time, and with one too far ahead of the clock.
	WithoutTime uint64 `json:"without_time"`
	Ahead       uint64 `json:"ahead"`
}

// WithID is how many records have one.
func (c Counts) WithID() uint64 { return c.Records - c.WithoutID - c.Invalid }

// New begins a survey.
func New(cfg Config) (*Survey, error) {
	if cfg.Sample < 1 {
		return nil, fmt.Errorf("begin a survey: Sample is %d, want at least 1", cfg.Sample)
	}
	if cfg.Time == "none" || cfg.Time == "arrival" {
		return nil, errors.New("begin a survey: rates and ages are those of the records' own times")
	}
	s := &Survey{
		now: cfg.Now.UnixMilli(), minutes: map[int64]uint64{}, parts: map[int32]*partition{}, sample: newSample(cfg.Sample),
	}
	var err error
	if s.ids, err = keys.Parse(cfg.Keys, 0, cfg.IDs); err != nil {
		return nil, err
	}
	if s.clock, err = keys.ParseClock(cfg.Time, cfg.TimeFormat, cfg.IDs.Table); err != nil {
		return nil, err
	}
	return s, nil
}

// Add takes the next record of a partition.
func (s *Survey) Add(number int32, r *keys.Record) {
	p := s.parts[number]
	if p == nil {
		p = &partition{ids: hyperloglog.New16()}
		s.parts[number] = p
	}
	s.counts.Records++
	s.bytes += uint64(size(r))
	s.observe(p, r)
	if p.stream != 0 {
		s.minutes[p.stream/millisAMinute]++
	}
	id, outcome := s.ids.Hash(r)
	switch outcome {
	case keys.Found:
		p.ids.InsertHash(uint64(id))
		s.sample.add(id, number, p.stream)
	case keys.Invalid:
		s.counts.Invalid++
	default:
		s.counts.WithoutID++
	}
}

// observe moves the stream time of a partition on.
func (s *Survey) observe(p *partition, r *keys.Record) {
	t, ok := s.clock.Time(r, s.now)
	switch {
	case !ok:
		s.counts.WithoutTime++
	case t > s.now+maxAhead.Milliseconds():
		s.counts.Ahead++
	default:
		if p.from == 0 {
			p.from = t
		}
		if t < p.stream {
			s.behind.add(p.stream - t)
		}
		p.stream = max(p.stream, t)
	}
}

// Records is how many there were so far.
func (s *Survey) Records() uint64 { return s.counts.Records }

// size is how many bytes of a record count into buffers and limits.
func size(r *keys.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Name) + len(h.Value)
	}
	return n
}

const millisAMinute = 60_000
