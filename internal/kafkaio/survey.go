package kafkaio

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/streamdedup/streamdedup/pipeline"
)

// surveyor asks the brokers, again and again, how far all partitions of an input
// are, those of other instances too: a router must not leave one behind.
type surveyor struct {
	session *Session
	cancel  context.CancelFunc
	done    chan struct{}
	last    atomic.Pointer[pipeline.Survey]
	hurry   atomic.Bool
}

// surveyInterval is how often, and hurriedInterval how often while we wait for
// others: what they have done meanwhile lets us go on that much later.
const (
	surveyInterval  = time.Second
	hurriedInterval = 100 * time.Millisecond
)

// survey asks until it is closed.
func (s *Session) survey() *surveyor {
	ctx, cancel := context.WithCancel(context.Background())
	v := &surveyor{session: s, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(v.done)
		for {
			if survey, err := v.ask(ctx); err == nil {
				v.last.Store(survey)
			} else if ctx.Err() == nil {
				s.warn.warn("cannot ask how far the input's partitions are: those ahead wait", "error", err)
			}
			for waited := time.Duration(0); waited < surveyInterval; waited += hurriedInterval {
				if pause(ctx, hurriedInterval) != nil {
					return
				}
				if v.hurry.Load() {
					break
				}
			}
		}
	}()
	return v
}

func (v *surveyor) close() {
	v.cancel()
	<-v.done
}

// Survey implements [pipeline.RouteSession].
func (s *RouteSession) Survey(hurry bool) *pipeline.Survey {
	s.surveyor.hurry.Store(hurry)
	return s.surveyor.last.Load()
}

func (v *surveyor) ask(ctx context.Context) (*pipeline.Survey, error) {
	s := v.session
	adm := kadm.NewClient(s.admin)
	// The ends last: rather something is left to read than nothing.
	offsets, err := groupOffsets(ctx, adm, s.cfg.Group, s.cfg.In...)
	if err != nil {
		return nil, err
	}
	starts, err := adm.ListStartOffsets(ctx, s.cfg.In...)
	if err != nil {
		return nil, err
	}
	ends, err := adm.ListCommittedOffsets(ctx, s.cfg.In...)
	if err != nil {
		return nil, err
	}
	survey := &pipeline.Survey{}
	ends.Each(func(end kadm.ListedOffset) {
		at := pipeline.Source{Partition: pipeline.Partition{Topic: end.Topic, Number: end.Partition}, Stable: end.Offset}
		if start, ok := starts.Lookup(end.Topic, end.Partition); ok {
			at.Next = start.Offset
		}
		if o, ok := offsets.Lookup(end.Topic, end.Partition); ok && o.Err == nil && o.At >= 0 {
			at.Next, at.Metadata = o.At, o.Metadata
		}
		if end.Err != nil {
			err = end.Err // what is known of it stays as it is
		}
		survey.Sources = append(survey.Sources, at)
	})
	return survey, err
}
