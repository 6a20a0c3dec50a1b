package e2e

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// bufferMemory is what a process may take besides its filters, by the guarantees.
const bufferMemory = 512 << 20

var peakMemory = regexp.MustCompile(`VmHWM:\s*(\d+) kB`)

// peak is the most memory that the process ever had resident.
func (d *daemon) peak() int64 {
	d.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	found := peakMemory.FindSubmatch(text)
	if found == nil {
		d.t.Fatalf("no peak in %s", text)
	}
	kB, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		d.t.Fatal(err)
	}
	return kB << 10
}

// within fails the test where the process took more than its filters and buffers.
func (d *daemon) within() {
	d.t.Helper()
	peak, filters := d.peak(), int64(d.metric("streamdedup_filter_bytes"))
	d.t.Logf("at most %d MiB, of them filters %d MiB", peak>>20, filters>>20)
	if peak > filters+bufferMemory {
		d.t.Errorf("the process had %d MiB, want at most the filters' %d MiB and %d MiB", peak>>20, filters>>20, bufferMemory>>20)
	}
}

// limitMemory is as the documentation tells to, which leaves some for the program itself.
func limitMemory(t *testing.T) { t.Setenv("GOMEMLIMIT", "448MiB") }

// TestCase_MEM_01: while the output stands still, what was read and not written takes no
// more than the buffers; then the stream goes on, with no rebalance. A minute in the long
// run.
func TestCase_MEM_01(t *testing.T) {
	limitMemory(t)
	const partitions, each, length = 64, 16, 200_000
	outage := 6 * time.Second
	if long() {
		outage = time.Minute
	}
	s := newScene(t, partitions, nil, nil)
	p := newProxy(t, s.brokers[0])
	s.flags["brokers"] = p.address()
	d := s.run()
	d.ready(partitions)
	s.ids(0, "before")
	s.caughtUp(d)
	members, restores := s.members(), d.metric("streamdedup_restore_seconds_count")
	fault := blockades[0].begin(p)
	random := rand.NewChaCha8([32]byte{byte(seed(t))})
	fill := make([]byte, length/2)
	for i := range each {
		var records []*kgo.Record
		for n := range int32(partitions) {
			if _, err := random.Read(fill); err != nil {
				t.Fatal(err)
			}
			r := event(n, "")
			r.Value = fmt.Appendf(nil, `{"id":"%d-%d","fill":"%x"}`, n, i, fill)
			records = append(records, r)
			s.expect(n, string(r.Value))
		}
		s.write(records...)
	}
	fault.wait(t, d)
	time.Sleep(outage) // it is the outage, and not a wait for luck
	d.within()
	if got := s.members(); got != members {
		t.Errorf("the group's members were %s, now they are %s", members, got)
	}
	p.heal()
	s.caughtUp(d)
	d.within()
	if n := d.metric("streamdedup_restore_seconds_count"); n != restores {
		t.Errorf("partitions were restored %v times more", n-restores)
	}
	d.stop()
	s.check()
}

// TestCase_MEM_02: a few bytes that open to 500 MB take no more than the buffers. As many
// records they are all judged; as one, it stops its partition by name, each time, and no
// other. A fifth of that without the long run. The codecs are tested in internal/kafkaio.
func TestCase_MEM_02(t *testing.T) {
	limitMemory(t)
	opens := 100_000_000
	if long() {
		opens *= 5
	}
	t.Run("many records", func(t *testing.T) {
		const ids, length = 20_000, 250
		s := newScene(t, 1, settings{"max.message.bytes": "67108864"}, nil)
		value := func(i int) []byte {
			return fmt.Appendf(nil, `{"id":"%0*d"}`, length-9, i%ids)
		}
		records := opens / length
		_, size := kafkatest.WriteBatch(t, s.brokers, s.in, 0, kafkatest.Batch{
			Codec: kgo.CodecZstd, Records: records, Value: kafkatest.Values(value)})
		t.Logf("%d bytes open to %d", size, opens)
		for i := range ids {
			s.expect(0, string(value(i)))
		}
		s.ids(0, "after")
		d := s.run()
		s.caughtUp(d)
		d.within()
		if sum := d.stop(); sum.In != uint64(records)+1 || sum.Out != ids+1 {
			t.Errorf("%d in and %d out, want %d and %d", sum.In, sum.Out, records+1, ids+1)
		}
		s.check()
	})
	t.Run("one record", func(t *testing.T) {
		s := newScene(t, 2, settings{"max.message.bytes": "8388608"}, nil)
		s.ids(0, "before")
		offset, size := kafkatest.WriteBatch(t, s.brokers, s.in, 0, kafkatest.Batch{Codec: kgo.CodecZstd, Records: 1,
			Value: func(int) (int, func(io.Writer)) { return kafkatest.Zeros(opens) }})
		t.Logf("%d bytes open to %d", size, opens)
		for start := range 2 {
			s.ids(1, fmt.Sprint(start))
			d := s.run("capacity=100k")
			d.says("partition stopped")
			s.caughtUp(d, 1)
			d.within()
			await(t, "health says that a partition stands", func() bool { // the log may say it first
				status, page := d.get("/healthz")
				return status == 200 && strings.HasPrefix(page, "degraded")
			}, d.done)
			d.signal(syscall.SIGTERM)
			d.ends(1)
			d.line("error: ", fmt.Sprintf("the record at offset %d of %s/0 opens to", offset, s.in))
			d.line("hint: ", "--to-offset "+strconv.FormatInt(offset+1, 10))
		}
		s.check()
	})
}

// A record of 20 MiB comes out as it is where the output takes it, lies in the divert
// topic where only that does, and stops its partition where nothing does.
func TestRecordOf20MiB(t *testing.T) {
	limitMemory(t)
	const large = 20 << 20
	roomy := settings{"max.message.bytes": strconv.Itoa(large + 1000)}
	head := []byte(`{"id":"large"`)
	write := func(w io.Writer) {
		_, _ = w.Write(head) // into memory, here and below
		_, _ = w.Write(bytes.Repeat([]byte(" "), large-len(head)-1))
		_, _ = w.Write([]byte("}"))
	}
	var value bytes.Buffer
	write(&value)
	fill := func(t *testing.T, codec kgo.CompressionCodecType, out settings) (s *scene, offset int64) {
		s = newScene(t, 2, roomy, out)
		s.ids(0, "before")
		s.ids(1, "other")
		offset, _ = kafkatest.WriteBatch(t, s.brokers, s.in, 0, kafkatest.Batch{Codec: codec, Records: 1,
			Value: func(int) (int, func(io.Writer)) { return large, write }})
		s.written++
		return s, offset
	}
	for _, codec := range []kgo.CompressionCodecType{kgo.CodecNone, kgo.CodecZstd} {
		t.Run(fmt.Sprintf("fits, codec %d", codec), func(t *testing.T) {
			s, _ := fill(t, codec, roomy)
			s.expect(0, value.String())
			s.ids(0, "after")
			d := s.run()
			s.caughtUp(d)
			d.within()
			d.stop()
			s.check()
		})
	}
	t.Run("diverted", func(t *testing.T) {
		s, offset := fill(t, kgo.CodecZstd, nil)
		s.ids(0, "after")
		aside := roomy.topic(t, s.brokers, 1)
		d := s.run("divert-topic=" + aside)
		s.caughtUp(d)
		d.within()
		d.stop()
		s.check()
		got := s.read(aside)[0]
		if len(got) != 1 || !bytes.Equal(got[0].Value, value.Bytes()) {
			t.Fatalf("the divert topic has %d records, or another value", len(got))
		}
		origin(t, got[0], "too_large", s.in, 0, offset)
	})
	t.Run("stops", func(t *testing.T) {
		s, offset := fill(t, kgo.CodecNone, nil)
		d := s.run()
		d.says("partition stopped")
		s.caughtUp(d, 1)
		d.within()
		d.signal(syscall.SIGTERM)
		d.ends(1)
		d.line("error: ", s.in+"/0", fmt.Sprintf("offset %d", offset), "too large for the output")
		s.check()
	})
}

// TestCase_MEM_03: a stream of new IDs only, ten windows long. What it took after one of
// them and a rotation is what it takes at the end, with IDs that live for a window from
// their last copy, too.
func TestCase_MEM_03(t *testing.T) {
	t.Parallel()
	const windows, perWindow = 10, 7
	window := int64(7 * time.Hour / time.Millisecond)
	each := 2_000 // IDs of a slice
	if long() {
		each *= 10
	}
	for _, refresh := range []string{"false", "true"} {
		t.Run("refresh "+refresh, func(t *testing.T) {
			t.Parallel()
			s := newSceneOn(t, kafkatest.Fake(t, kfake.NumBrokers(1)).ListenAddrs(), 1, nil, nil)
			// What the broker keeps is none of the process', which has the metrics' own noise.
			d := s.run("window=7h", fmt.Sprintf("capacity=%d", perWindow*each), "fpr=1e-4", "refresh="+refresh)
			d.ready(1)
			begin := time.Now().Add(-windows * 7 * time.Hour).UnixMilli()
			var heap, filters []float64
			for slice := range windows * perWindow {
				records := make([]*kgo.Record, each)
				for i := range records {
					id := slice*each + i
					records[i] = event(0, strconv.Itoa(id))
					records[i].Timestamp = time.UnixMilli(begin + int64(id)*window/int64(perWindow*each))
				}
				s.write(records...)
				s.caughtUp(d)
				if slice%perWindow == perWindow-1 {
					heap, filters = append(heap, d.heap()), append(filters, d.metric("streamdedup_filter_bytes"))
				}
			}
			t.Logf("live heap in KiB after each window: %.0f, filters %.0f", kiB(heap), kiB(filters))
			// After two windows one and the rotation behind it are over. What never goes
			// away is there at every sample, and other things at some.
			settled, last := highest(heap[1:3]), slices.Min(heap[windows-3:])
			if last > settled+(1<<20) {
				t.Errorf("the heap grows: %.0f bytes after two and three windows, at least %.0f after the last ones", settled, last)
			}
			if highest(filters) != filters[0] {
				t.Errorf("the filters grow: %.0f bytes", filters)
			}
			if sum := d.stop(); sum.Duplicate > uint64(windows*perWindow*each/1000) || sum.Unlearned > 0 {
				t.Errorf("%d of %d new IDs were taken for duplicates, %d were not learned", sum.Duplicate, sum.In, sum.Unlearned)
			}
		})
	}
}

func kiB(bytes []float64) (all []float64) {
	for _, n := range bytes {
		all = append(all, n/1024)
	}
	return all
}
