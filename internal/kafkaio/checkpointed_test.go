package kafkaio

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/pipeline"
)

// A changelog lost its end, and has another by now, from an instance that had no
// checkpoint. One of before, which does not go further, leads into the middle of that:
// what lies between is in neither.
func TestCheckpointOfALostEnd(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.checkpoints = newShelf()
		p := pipeline.Partition{Topic: s.cfg.In[0]}
		r := s.start()
		s.unique(100)
		r.judged(100)
		until(t, "there is a checkpoint", func() bool { return s.checkpoints.at(p) == 100 })
		s.checkpoints.close()
		for n := 150; n <= 250; n += 50 {
			s.unique(50)
			r.judged(n)
		}
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		name := ChangelogTopic(s.cfg.Group, s.cfg.In[0])
		old := s.read(name)
		s.remove(name)
		until(t, "the changelog is made again", func() bool {
			session, err := Open(ctx(t), s.cfg)
			return err == nil && session.Close(ctx(t), true) == nil
		})
		writer := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for _, r := range old {
			if c, _, err := pipeline.ParseRecord(r.Value); err != nil || c.Next <= 100 {
				continue // lost
			}
			again := &kgo.Record{Topic: name, Key: r.Key, Value: r.Value}
			if err := writer.ProduceSync(ctx(t), again).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		heard := s.listen()
		s.repeats(250)
		same(t, s.output(s.cfg.Out), s.wanted())
		if heard.line("level=WARN", "a checkpoint is of no use", "the changelog goes on") == "" {
			t.Errorf("nothing is said of it:\n%s", &heard.text)
		}
	})
}

// That there is no room for a filter is not the checkpoint's fault: it is what the
// partition begins with once there is.
func TestCheckpointWaitsForRoom(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.checkpoints = newShelf()
		s.unique(100)
		r := s.start()
		r.judged(100)
		until(t, "there is a checkpoint", func() bool { return s.checkpoints.at(pipeline.Partition{Topic: s.cfg.In[0]}) == 100 })
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		opened, refused, newSet := s.checkpoints.opened, 0, s.rules.NewSet
		s.rules.NewSet = func() (filter.Set, error) {
			if refused++; refused == 1 {
				return nil, pipeline.ErrNoRoom
			}
			return newSet()
		}
		heard := s.listen()
		s.repeats(100)
		same(t, s.output(s.cfg.Out), s.wanted())
		if heard.line("level=ERROR", "a partition waits for memory") == "" || heard.line("of no use") != "" || s.checkpoints.opened != opened+1 {
			t.Errorf("the checkpoint was opened %d times:\n%s", s.checkpoints.opened-opened, &heard.text)
		}
	})
}
