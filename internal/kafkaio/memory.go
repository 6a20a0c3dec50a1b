package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamdedup/streamdedup/pipeline"
)

// memory is one partition's memory while it is restored.
type memory struct {
	restorer  *Restorer
	partition pipeline.Partition
	builder   pipeline.Builder
	past      past
	course    course
	ends      ends

	rebuild *pipeline.Rebuild
	// from is where in the changelog to begin, and first the offset of the input
	// from which on the changelog, or a checkpoint, says what was learned.
	from, first int64
	// reached is what a checkpoint knows all of the input before.
	reached int64
	// gaps are ranges of the input that were judged and that the changelog lacks.
	gaps []gap
	// inputRead says that some of it comes from the input.
	inputRead bool

	said time.Time
}

// gap is a range of offsets of the input, without to.
type gap struct{ from, to int64 }

// restore makes the shard.
func (m *memory) restore(ctx context.Context) (shard *pipeline.Shard, err error) {
	r := m.restorer
	m.said = time.Now()
	defer r.progress.clear(m.partition)
	if err := m.open(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.rebuild.Close())
		}
	}()
	if m.past.last != nil {
		if err := m.readLog(ctx); err != nil {
			return nil, err
		}
	}
	known := m.rebuild.From()
	if m.first > known && known >= 0 {
		if known, err = m.readInput(ctx, known, min(m.first, m.course.next)); err != nil {
			return nil, err
		}
	}
	if m.course.why == tailLost {
		m.gaps = append(m.gaps, gap{m.course.known, m.course.next})
		m.rebuild.Gap()
	}
	for _, gap := range m.gaps {
		from := max(gap.from, m.rebuild.From())
		if from >= gap.to {
			continue // forgotten
		}
		first, err := m.readInput(ctx, from, gap.to)
		if err != nil {
			return nil, err
		}
		if first > from {
			known = max(known, first)
		}
	}
	if n := m.rebuild.Unlearned(); n > 0 {
		r.session.log.Warn("IDs found their generation full while it was restored: repeats of them pass",
			"partition", m.partition.String(), "ids", n)
	}
	return m.rebuild.Done(known, m.course.next), nil
}

// open prepares the shard, with the memory of the newest checkpoint that fits.
func (m *memory) open(ctx context.Context) (err error) {
	r := m.restorer
	if r.checkpoints != nil && m.past.last != nil {
		for _, file := range r.checkpoints.List(m.partition) {
			err := m.follows(ctx, file.Head())
			if err == nil {
				err = m.load(file)
			}
			if err == nil || ctx.Err() != nil || errors.Is(err, pipeline.ErrNoRoom) {
				return err
			}
			r.session.log.Warn("a checkpoint is of no use: restoring from an older one, or from the changelog instead", "partition", m.partition.String(), "file", file.Name(), "error", err)
		}
	}
	m.rebuild, err = m.builder.Rebuild(m.course.state)
	m.from, m.first = m.past.log.start, m.course.next
	return err
}

// follows refuses a checkpoint after which the changelog does not go on where that
// began: it lost its end since, and has another one by now.
func (m *memory) follows(ctx context.Context, h *pipeline.CheckpointHead) error {
	log := m.past.log
	if h.LogBegin < log.start || h.LogBegin > log.stable {
		return nil // what it does not know is forgotten; or it is newer
	}
	next, _, err := m.restorer.session.changeAt(ctx, m.partition, h.LogBegin, log.stable)
	if err != nil {
		return err
	}
	begin := m.past.last.Next
	if next != nil {
		begin = next.Begin
	}
	if begin > h.Begin && (next == nil || !next.Gap) {
		return fmt.Errorf("it began at offset %d of the input and %d of the changelog, and there the changelog goes on with %d",
			h.Begin, h.LogBegin, begin)
	}
	return nil
}

// load begins with a checkpoint.
func (m *memory) load(file pipeline.CheckpointFile) error {
	h := file.Head()
	if h.LogEnd > m.past.log.stable || h.Next > max(m.past.last.Next, m.course.next) {
		return fmt.Errorf("it goes up to offset %d of the input and %d of the changelog, which ends at %d and %d: it is newer",
			h.Next, h.LogEnd, m.past.last.Next, m.past.log.stable)
	}
	// What lay before the changelog's beginning is forgotten, or was reset, which
	// only those checkpoints do not know that nobody could delete.
	if start := m.past.log.start; start > 0 && h.LogEnd <= start {
		return fmt.Errorf("it goes up to offset %d of the changelog, which begins at %d: what it holds is forgotten, or was reset",
			h.LogEnd, start)
	}
	rebuild, err := m.builder.Rebuild(m.course.state)
	if err != nil {
		return err
	}
	body, err := file.Open()
	if err == nil {
		err = errors.Join(rebuild.Load(h, body), body.Close())
	}
	if err != nil {
		return errors.Join(err, rebuild.Close())
	}
	m.rebuild, m.from, m.first, m.reached = rebuild, max(h.LogBegin, m.past.log.start), -1, h.Begin
	return nil
}

// readLog learns the changes.
func (m *memory) readLog(ctx context.Context) error {
	end := m.past.log.stable
	begun := m.first < 0 // a checkpoint knows what lies before
	reached := m.reached
	reading := m.restorer.session.readLog(m.partition, m.from)
	for reading.next < end {
		changes, err := reading.changes(ctx, end)
		if err != nil {
			return err
		}
		for i := range changes {
			c := &changes[i]
			if err := m.rebuild.LearnChange(&c.Change); err != nil {
				return fmt.Errorf("changelog %s, offset %d: %w", reading.partition, c.offset, err)
			}
			if !c.last {
				continue
			}
			if !begun {
				begun, m.first = true, c.Begin
			} else if c.Gap && reached < c.Begin {
				m.gaps = append(m.gaps, gap{reached, c.Begin})
			}
			reached = c.Next
		}
		m.report(reading.next-m.from, end-m.from, "changelog")
	}
	return nil
}

// readInput learns what was judged in a range of the input. It returns the first
// offset that is known: it may be later than asked for, up to the end of the range.
func (m *memory) readInput(ctx context.Context, from, to int64) (first int64, err error) {
	s := m.restorer.session
	first = max(from, min(m.ends.start, to))
	if !s.cfg.WarmUp {
		first = to
	}
	if first > from {
		if first == to && m.past.last == nil && !s.cfg.AllowColdStart {
			return 0, hinted("if duplicates may pass until the window is full again, add --allow-cold-start",
				"restore %s: nothing is left of the records that its state needs, offsets %d to %d", m.partition, from, to-1)
		}
		s.log.Warn("a part of what the window must know is in no changelog, and the input does not have it, or must not be read: duplicates of it pass",
			"partition", m.partition.String(), "from", from, "to", first-1)
	}
	// What was too large when it was read has not come out, whatever fits by now.
	out := m.restorer.out
	if limit := m.rebuild.SizeLimit(); limit > 0 {
		out.maxBytes = int32(min(limit+out.room, int64(out.maxBytes)))
	}
	m.inputRead = m.inputRead || first < to
	read := newReader(s.admin, s.found.inputs[m.partition.Topic].id, m.partition, first)
	// What is longer cannot have come out, and taught nothing.
	read.largest, read.skips = s.largestRecord(), true
	src := &source{}
	for read.next < to {
		records, err := read.read(ctx)
		if errors.Is(err, kerr.OffsetOutOfRange) {
			// Retention is faster than we are.
			var start int64
			if start, err = lookUp(ctx, kadm.NewClient(s.admin).ListStartOffsets, m.partition); err == nil && start > read.next {
				first = min(start, to)
				s.log.Warn("the input loses records while they are restored: duplicates of them pass",
					"partition", m.partition.String(), "from", read.next, "to", first-1)
				read.next = first
				continue
			}
			err = errors.Join(err, fmt.Errorf("offset %d is not in the partition any more", read.next))
		}
		if err != nil {
			return 0, fmt.Errorf("from the input: %w", err)
		}
		for len(records) > 0 && records[len(records)-1].Offset >= to {
			records = records[:len(records)-1]
		}
		m.rebuild.Learn(src.views(records, s.cfg.Headers, &out))
		m.report(read.next-first, to-first, "input")
	}
	return first, nil
}

// reportInterval is how often a long restore says how far it is.
const reportInterval = 5 * time.Second

func (m *memory) report(read, of int64, source string) {
	done := 1.0
	if of > 0 {
		done = float64(read) / float64(of)
	}
	m.restorer.progress.set(m.partition, done)
	if time.Since(m.said) < reportInterval {
		return
	}
	m.said = time.Now()
	m.restorer.session.log.Info("restoring", "partition", m.partition.String(), "from", source,
		"done", fmt.Sprintf("%.0f%%", 100*done))
}
