package kafkaio

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// tinyRecords is enough of them to take more memory than a batch may.
const tinyRecords = largestBatch/recordMemory + 1000

// tiny is a batch that is read in pieces: IDs of partition 0, each many times.
func tiny(s *scene, codec kgo.CompressionCodecType, ids int) kafkatest.Batch {
	first := s.next[0]
	s.next[0] += ids
	return kafkatest.Batch{Codec: codec, Records: tinyRecords, Value: kafkatest.Values(func(i int) []byte {
		return fmt.Appendf(nil, "p0-%d", first+i%ids)
	})}
}

// newLargeScene is a scene whose input takes them, compressed by any codec.
func newLargeScene(t *testing.T, brokers []string, partitions int) *scene {
	s := newScene(t, brokers, partitions)
	s.cfg.In = []string{kafkatest.Topic(t, brokers, int32(partitions), map[string]*string{"max.message.bytes": kadm.StringPtr("8388608")})}
	s.deleteAfter(ChangelogTopic(s.cfg.Group, s.cfg.In[0]))
	return s
}

// Batches of every codec in one partition come out as what they are, also those that
// take too much memory to be opened at once: these are read in pieces, while transactions
// of ours are given up in the middle of them. Nobody sees the one that was aborted.
func TestCase_MEM_02(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newLargeScene(t, brokers, 2)
		rng := random(t)
		var session *checked
		s.around = func(of *Session, r pipeline.Restorer) (pipeline.Session, pipeline.Restorer) {
			session = &checked{Session: of, t: t, random: rand.New(rand.NewPCG(rng.Uint64(), 1)),
				next: map[pipeline.Partition]int64{}, committed: map[pipeline.Partition]int64{}}
			return session, r
		}
		write := func(b kafkatest.Batch) { kafkatest.WriteBatch(t, brokers, s.cfg.In[0], 0, b) }
		s.unique(10)
		for _, codec := range []kgo.CompressionCodecType{kgo.CodecGzip, kgo.CodecZstd, kgo.CodecSnappy, kgo.CodecNone, kgo.CodecLz4} {
			first := s.next[0]
			s.next[0] += 100
			write(kafkatest.Batch{Codec: codec, Records: 200, Value: kafkatest.Values(func(i int) []byte {
				return fmt.Appendf(nil, "p0-%d", first+i/2)
			})})
			if codec != kgo.CodecNone {
				write(tiny(s, codec, 500))
			}
			s.again()
		}
		upstream := s.client(kgo.TransactionalID("upstream-"+s.cfg.Group), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for _, commit := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
			next := s.next[0]
			if err := upstream.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := upstream.ProduceSync(ctx(t), s.record(0, fmt.Sprintf("p0-%d", next))).FirstErr(); err != nil {
				t.Fatal(err)
			}
			producer, epoch, err := upstream.ProducerID(ctx(t))
			if err != nil {
				t.Fatal(err)
			}
			b := tiny(s, kgo.CodecZstd, 300)
			b.Transaction = &kafkatest.Transaction{ID: "upstream-" + s.cfg.Group, Producer: producer, Epoch: epoch, Sequence: 1}
			write(b)
			if err := upstream.EndTransaction(ctx(t), commit); err != nil {
				t.Fatal(err)
			}
			if commit == kgo.TryAbort {
				s.next[0] = next // they come only with the second
				upstream = s.client(kgo.TransactionalID("upstream-"+s.cfg.Group), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			}
		}
		s.unique(10)
		run := s.start()
		s.caughtUp()
		if err := run.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
		t.Logf("%d transactions were given up", session.aborts)
		if session.aborts == 0 {
			t.Error("no transaction was given up: the test has lost its fault")
		}
	})
}

// A batch that begins before the committed offset and takes too much memory is read from
// the offset on; and the input's memory is made again from such batches, too.
func TestLargeBatchAfterARestart(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newLargeScene(t, brokers, 1)
		s.cfg.Changelog, s.rules.LogChanges = false, false
		kafkatest.WriteBatch(t, brokers, s.cfg.In[0], 0, tiny(s, kgo.CodecLz4, 200))
		run := s.start()
		s.caughtUp()
		if err := run.finish(); err != nil {
			t.Fatal(err)
		}
		kafkatest.WriteBatch(t, brokers, s.cfg.In[0], 0, tiny(s, kgo.CodecLz4, 200))
		s.again()
		run = s.start()
		s.caughtUp()
		if err := run.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// A record that opens to more than there is memory for stops its partition, by name, and
// no other. Moved past it the group goes on.
func TestRecordThatIsTooLongForMemory(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.unique(3)
		offset, _ := kafkatest.WriteBatch(t, brokers, s.cfg.In[0], 0, kafkatest.Batch{Codec: kgo.CodecZstd, Records: 1,
			Value: func(int) (int, func(io.Writer)) { return kafkatest.Zeros(longestRecord + 1) }})
		s.unique(3)
		run := s.start()
		run.judged(3 + 6)
		until(t, "the partition stops", func() bool {
			return slices.ContainsFunc(run.engine.Snapshot().Partitions, func(p pipeline.PartitionSnapshot) bool { return p.Stopped != nil })
		})
		err := run.finish()
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the record at offset %d of %s/0 opens to", offset, s.cfg.In[0])) {
			t.Fatalf("error %v", err)
		}
		past := kadm.Offsets{}
		past.AddOffset(s.cfg.In[0], 0, offset+1, -1)
		if err := kadm.NewClient(s.client()).CommitAllOffsets(ctx(t), s.cfg.Group, past); err != nil {
			t.Fatal(err)
		}
		run = s.start()
		s.caughtUp()
		if err := run.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// Under the scope of the topic a large batch waits, as any, while other partitions are
// behind it, and neither stage loses a record of it.
func TestLargeBatchUnderScopeTopic(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newLargeScene(t, brokers, 2)
		kafkatest.WriteBatch(t, brokers, s.cfg.In[0], 0, tiny(s, kgo.CodecZstd, 500))
		s.unique(50)
		kafkatest.WriteBatch(t, brokers, s.cfg.In[0], 0, tiny(s, kgo.CodecGzip, 500))
		s.again()
		r := s.startStages(s.cfg)
		r.judged(2*tinyRecords + 100 + 1000 + 100)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// One that waits for another is closed while that is open, and goes on where it was.
func TestLargeBatchesThatWaitForEachOther(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newLargeScene(t, brokers, 2)
		ahead, behind := tiny(s, kgo.CodecZstd, 500), tiny(s, kgo.CodecLz4, 500)
		ahead.Age, behind.Age = 10*time.Minute, 50*time.Minute
		old := s.record(1, "p1-0")
		old.Timestamp = time.Now().Add(-behind.Age)
		s.write(old)
		s.next[1] = 1
		kafkatest.WriteBatch(t, brokers, s.cfg.In[0], 0, ahead)
		kafkatest.WriteBatch(t, brokers, s.cfg.In[0], 1, behind)
		r := s.startStages(s.cfg)
		r.judged(2*tinyRecords + 1)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// Of several there is memory for one: what waits, or has stopped, gives its own away.
func TestOneLargeBatchIsOpen(t *testing.T) {
	of := func(n int32) pipeline.Partition { return pipeline.Partition{Topic: "in", Number: n} }
	open := func() *reader { return &reader{large: &largeBatch{}} }
	s := &Session{parts: map[pipeline.Partition]*tenancy{
		of(0): {running: true}, of(1): {running: true, paused: true, large: open()}, of(2): {large: open()}, of(3): {running: true, large: &reader{}},
	}}
	p, turn := s.turn()
	if p != of(3) {
		t.Fatalf("it is the turn of %v, want the one that neither waits nor has stopped", p)
	}
	turn.large.large = &largeBatch{}
	s.onlyOpen(turn)
	for p, of := range s.parts {
		if of != turn && of.large != nil && of.large.large != nil || of == turn && of.large.large == nil {
			t.Errorf("%v is open: %t", p, of.large.large != nil)
		}
	}
}

// A reader of our own, as restores have one, reads what stands before a large batch in
// one answer of the broker, and knows which transactions had ended there: that its
// producer aborted one does not make the next one aborted.
func TestReaderOfALargeBatchBehindOthers(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newLargeScene(t, brokers, 1)
		s.unique(10)
		name := "upstream-" + s.cfg.Group
		upstream := s.client(kgo.TransactionalID(name), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
			if err := upstream.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			value := "given up"
			if end == kgo.TryCommit {
				value = fmt.Sprintf("p0-%d", s.next[0])
			}
			if err := upstream.ProduceSync(ctx(t), s.record(0, value)).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if end == kgo.TryCommit {
				producer, epoch, err := upstream.ProducerID(ctx(t))
				if err != nil {
					t.Fatal(err)
				}
				b := tiny(s, kgo.CodecZstd, 300)
				b.Transaction = &kafkatest.Transaction{ID: name, Producer: producer, Epoch: epoch, Sequence: 1}
				kafkatest.WriteBatch(t, brokers, s.cfg.In[0], 0, b)
			}
			if err := upstream.EndTransaction(ctx(t), end); err != nil {
				t.Fatal(err)
			}
		}
		got := s.output(s.cfg.In[0])
		for id := range got {
			got[id] = 1
		}
		same(t, got, s.wanted())
	})
}
