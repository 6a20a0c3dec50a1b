//go:build unix

package main

import (
	"bytes"
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// window is W. State must outlive every restart of a run, and no copy comes
	// later than longestDelay, so every copy must be caught.
	window       = 10 * time.Minute
	longestDelay = 9 * time.Minute

	mostCopies = 4
	tick       = 10 * time.Millisecond
)

// load writes events and copies of them to the input, steadily, and remembers
// exactly what it wrote.
type load struct {
	client     *kgo.Client
	topic      string
	partitions int32
	tag        string // of this run, in each ID
	rate       int    // records a second
	random     *rand.Rand
	due        dueCopies

	mu     sync.Mutex
	events []event // by number
	failed error   // the first write whose fate is not known
}

// event is what was written of one event.
type event struct {
	partition     int32
	asked, landed uint8 // copies, the first included: given to the client, acknowledged
}

// dueCopy is a copy that is to be written.
type dueCopy struct {
	number uint64
	at     time.Time
}

type dueCopies []dueCopy

func (d dueCopies) Len() int           { return len(d) }
func (d dueCopies) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d dueCopies) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dueCopies) Push(x any)        { *d = append(*d, x.(dueCopy)) }
func (d *dueCopies) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

func newLoad(seeds []string, topic string, partitions int32, rate int, seed uint64) (*load, error) {
	// An idempotent producer with acks=all, by default; it tries until it succeeds.
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(1_000_000), kgo.MetadataMinAge(250*time.Millisecond), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("make the producer: %w", err)
	}
	return &load{
		client: client, topic: topic, partitions: partitions, rate: rate,
		tag: strconv.FormatUint(seed, 10), random: rand.New(rand.NewPCG(seed, 2)),
	}, nil
}

// run writes until ctx ends, and then waits for what is under way.
func (l *load) run(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	began, written := time.Now(), 0
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case now := <-ticker.C:
			for target := int(now.Sub(began).Seconds() * float64(l.rate)); written < target; written++ {
				l.next(now)
			}
		}
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := l.client.Flush(flush); err != nil {
		return fmt.Errorf("write the rest of the input: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// next writes a copy that is due, or else a new event.
func (l *load) next(now time.Time) {
	if len(l.due) > 0 && !l.due[0].at.After(now) {
		l.write(heap.Pop(&l.due).(dueCopy).number, now)
		return
	}
	l.mu.Lock()
	number := uint64(len(l.events))
	l.events = append(l.events, event{partition: l.random.Int32N(l.partitions)})
	l.mu.Unlock()
	l.write(number, now)
	for range max(0, l.random.IntN(2*mostCopies-1)-mostCopies+1) { // most have none
		heap.Push(&l.due, dueCopy{number, now.Add(l.delay())})
	}
}

// delay is after how long a copy follows: retries in moments, redeliveries in
// seconds, replays in minutes.
func (l *load) delay() time.Duration {
	longest := [...]time.Duration{0, time.Second, 20 * time.Second, 2 * time.Minute, longestDelay}[l.random.IntN(5)]
	return time.Duration(l.random.Int64N(int64(longest) + 1))
}

func (l *load) write(number uint64, now time.Time) {
	l.mu.Lock()
	e := &l.events[number]
	nth, partition := e.asked, e.partition
	e.asked++
	l.mu.Unlock()
	r := &kgo.Record{
		Topic: l.topic, Partition: partition, Timestamp: now,
		Key: strconv.AppendUint(nil, number%1000, 10), Value: l.value(number, nth),
	}
	l.client.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if err == nil {
			l.events[number].landed++
		} else if l.failed == nil {
			l.failed = fmt.Errorf("write event %d to partition %d: %w", number, partition, err)
		}
	})
}

// A value names the event and which copy it is, so that the audit can tell a copy
// that was not caught from a record that came out twice.
const (
	beforeNumber = `{"id":"`
	beforeCopy   = `","copy":`
	afterCopy    = `,"what":"the copies of an event have one ID, and each has bytes of its own"}`
)

func (l *load) value(number uint64, nth uint8) []byte {
	return fmt.Appendf(nil, "%s%s-%d%s%d%s", beforeNumber, l.tag, number, beforeCopy, nth, afterCopy)
}

// parse reads a value; false says that it is not one of ours, byte for byte.
func (l *load) parse(value []byte) (number uint64, nth uint8, ok bool) {
	text, _ := bytes.CutPrefix(value, []byte(beforeNumber+l.tag+"-"))
	digits, rest, _ := bytes.Cut(text, []byte(beforeCopy))
	place, _, _ := bytes.Cut(rest, []byte(afterCopy))
	number, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil || number >= uint64(len(l.events)) {
		return 0, 0, false
	}
	n, err := strconv.ParseUint(string(place), 10, 8)
	if err != nil || !bytes.Equal(l.value(number, uint8(n)), value) {
		return 0, 0, false
	}
	return number, uint8(n), true
}
