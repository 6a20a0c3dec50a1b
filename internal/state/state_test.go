package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// seeded returns a generator for a test's random choices. STREAMDEDUP_SEED
// repeats those of a run that failed.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(1)
	if text := os.Getenv("STREAMDEDUP_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 0, 64); err != nil {
			t.Fatalf("STREAMDEDUP_SEED: %v", err)
		}
	}
	t.Logf("STREAMDEDUP_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 7))
}

var (
	p0     = pipeline.Partition{Topic: "orders", Number: 0}
	p1     = pipeline.Partition{Topic: "orders", Number: 1}
	topics = Identity{Input: [16]byte{1, 2, 3}, Changelog: [16]byte{4, 5, 6}}
)

// house is a folder of a test, and what it logged.
type house struct {
	*Folder
	t   testing.TB
	log *bytes.Buffer
}

func configOf(dir string, log io.Writer) Config {
	return Config{
		Dir: dir, Group: "billing", Instance: "a",
		IDs:    func(string) (Identity, error) { return topics, nil },
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
}

func open(t testing.TB, dir string) *house {
	t.Helper()
	h := &house{t: t, log: new(bytes.Buffer)}
	var err error
	if h.Folder, err = Open(configOf(dir, h.log)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// headOf is a head with something in every field.
func headOf(p pipeline.Partition, begin int64, body []byte) *pipeline.CheckpointHead {
	h := &pipeline.CheckpointHead{
		Partition: p,
		State: pipeline.State{
			Fingerprint: "0123456789abcdef",
			Window:      window.State{StreamTime: 1_700_000_007_000, Believed: true, KnownFrom: 1_700_000_000_000, Slice: 1000, Rotation: 12345},
			Limit:       pipeline.SizeLimit{Now: 1 << 20, Before: 1 << 19, Since: begin},
		},
		Begin: begin, Next: begin + 1000, LogBegin: begin / 10, LogEnd: begin/10 + 7,
		Geometry: "sliced lines=16 lines-per-key=3 cells-per-line=3", SetHead: []byte{9, 8, 7, 0, 255},
		BodyBytes: uint64(len(body)),
	}
	for i := range h.Added {
		h.Added[i] = uint64(begin) + uint64(i)
		h.State.Window.Generations = append(h.State.Window.Generations, window.Generation{
			Number: 1_700_000_000 + int64(i), FirstOffset: begin - 100*int64(filter.Generations-i), LateKept: i%2 == 1,
		})
	}
	return h
}

// begin writes a body in pieces and leaves it unfinished.
func (h *house) begin(p pipeline.Partition, body []byte, piece int) *Writer {
	h.t.Helper()
	w, err := h.Create(p)
	if err != nil {
		h.t.Fatal(err)
	}
	for b := body; len(b) > 0; {
		n := min(piece, len(b))
		if _, err := w.Write(b[:n]); err != nil {
			h.t.Fatal(err)
		}
		b = b[n:]
	}
	return w.(*Writer)
}

// save writes a whole checkpoint.
func (h *house) save(p pipeline.Partition, begin int64, body []byte) *pipeline.CheckpointHead {
	h.t.Helper()
	head := headOf(p, begin, body)
	if err := h.begin(p, body, sectionBytes).Finish(head); err != nil {
		h.t.Fatal(err)
	}
	return head
}

// load reads all of a checkpoint. What came before an error is returned, too.
func load(f pipeline.CheckpointFile, buffer int) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	var got bytes.Buffer
	_, err = io.CopyBuffer(&got, struct{ io.Reader }{r}, make([]byte, buffer))
	return got.Bytes(), errors.Join(err, r.Close())
}

// holds expects that p's checkpoints begin at these offsets, the newest first,
// and are whole.
func (h *house) holds(p pipeline.Partition, bodies map[int64][]byte, begins ...int64) {
	h.t.Helper()
	var got []int64
	for _, f := range h.List(p) {
		begin := f.Head().Begin
		got = append(got, begin)
		if want := headOf(p, begin, bodies[begin]); !reflect.DeepEqual(f.Head(), want) {
			h.t.Errorf("%s: head\ngot  %+v\nwant %+v", f.Name(), f.Head(), want)
		}
		if body, err := load(f, sectionBytes); err != nil || !bytes.Equal(body, bodies[begin]) {
			h.t.Errorf("%s: body of %d bytes, want %d, error %v", f.Name(), len(body), len(bodies[begin]), err)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(begins) {
		h.t.Errorf("checkpoints of %s begin at %v, want %v; log:\n%s", p, got, begins, h.log)
	}
}

// files are the names in the folder but for the lock's.
func (h *house) files() []string {
	h.t.Helper()
	found, err := os.ReadDir(h.path)
	if err != nil {
		h.t.Fatal(err)
	}
	var names []string
	for _, f := range found {
		if f.Name() != lockName {
			names = append(names, f.Name())
		}
	}
	return names
}

// crash leaves the folder as a killed process does: nothing is ended, the lock is
// free.
func (h *house) crash() { _ = h.lock.Close() }

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	r := seeded(t)
	h := open(t, t.TempDir())
	for i, size := range []int{0, 1, 64, sectionBytes - 1, sectionBytes, sectionBytes + 1, 3*sectionBytes + 12345} {
		body := random(r, size)
		for _, piece := range []int{4093, sectionBytes, 4 * sectionBytes} {
			begin := int64(100*i + piece)
			head := headOf(p0, begin, body)
			if err := h.begin(p0, body, piece).Finish(head); err != nil {
				t.Fatal(err)
			}
			f := h.List(p0)[0]
			if !reflect.DeepEqual(f.Head(), head) {
				t.Fatalf("head\ngot  %+v\nwant %+v", f.Head(), head)
			}
			for _, buffer := range []int{1, 4095, sectionBytes, 8 * sectionBytes} {
				if buffer == 1 && size > sectionBytes {
					continue // as slow as it is dull
				}
				if got, err := load(f, buffer); err != nil || !bytes.Equal(got, body) {
					t.Fatalf("body of %d bytes in pieces of %d, read by %d: %d bytes, error %v", size, piece, buffer, len(got), err)
				}
			}
		}
	}
	if h.log.Len() > 0 {
		t.Errorf("log: %s", h.log)
	}
}

// TestFilterReadsWithoutACopy has a filter that is not of whole sections load its
// body straight from the file.
func TestFilterReadsWithoutACopy(t *testing.T) {
	h := open(t, t.TempDir())
	set := func() *filter.Sliced {
		s, err := filter.NewSliced(filter.Params{Lines: 2*sectionBytes/filter.LineBytes + 77, LinesPerKey: 3, CellsPerLine: 3})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	from, to := set(), set()
	r := seeded(t)
	hashes := make([]filter.Hash, 1000)
	for i := range hashes {
		hashes[i] = filter.Hash(r.Uint64())
	}
	learn, ages := slices.Repeat([]bool{true}, len(hashes)), make([]uint8, len(hashes))
	from.TestAndAdd(hashes, learn, uint64(len(hashes)), ages)
	want := from.AppendBody(nil, 0, from.BodyBytes())
	h.save(p0, 1, want)

	file, err := h.List(p0)[0].(*File).Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(to.Load(from.AppendHead(nil), file), file.Close()); err != nil {
		t.Fatal(err)
	}
	if got := to.AppendBody(nil, 0, to.BodyBytes()); !bytes.Equal(got, want) {
		t.Error("the body that was loaded is another")
	}
	if file.(*body).buf != nil {
		t.Error("got a buffer for the sections, want them read into the filter")
	}
}

func TestOnlyTheNewestTwoAreKept(t *testing.T) {
	h := open(t, t.TempDir())
	bodies := map[int64][]byte{}
	save := func(h *house, p pipeline.Partition, begin int64) {
		bodies[begin] = fmt.Appendf(nil, "body of %d", begin)
		h.save(p, begin, bodies[begin])
	}
	save(h, p1, 7)
	for begin := range int64(12) {
		save(h, p0, 100+begin)
	}
	h.holds(p0, bodies, 111, 110)
	h.holds(p1, bodies, 7)

	// Numbers go on where they ended.
	dir := h.cfg.Dir
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = open(t, dir)
	save(h, p0, 112)
	h.holds(p0, bodies, 112, 111)
	if got := h.files(); len(got) != 3 {
		t.Errorf("files: %q", got)
	}
}

// The one that ends last is the newest, whatever began first.
func TestTwoWritersOfAPartition(t *testing.T) {
	h := open(t, t.TempDir())
	bodies := map[int64][]byte{1: []byte("one"), 2: []byte("two"), 3: []byte("three")}
	h.save(p0, 3, bodies[3])
	first := h.begin(p0, bodies[1], 10)
	second := h.begin(p0, bodies[2], 10)
	if err := errors.Join(second.Finish(headOf(p0, 2, bodies[2])), first.Finish(headOf(p0, 1, bodies[1]))); err != nil {
		t.Fatal(err)
	}
	h.holds(p0, bodies, 1, 2)
}

// Engine and restorers use a folder at the same time.
func TestManyPartitionsAtOnce(t *testing.T) {
	h := open(t, t.TempDir())
	bodies := map[int64][]byte{}
	for begin := range int64(8) {
		bodies[begin] = bytes.Repeat([]byte{byte(begin)}, 100_000)
	}
	partition := func(n int) pipeline.Partition { return pipeline.Partition{Topic: "orders", Number: int32(n)} }
	var done sync.WaitGroup
	for n := range 6 {
		p := partition(n)
		done.Go(func() {
			for begin := range int64(8) {
				w, err := h.Create(p)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := w.Write(bodies[begin]); err != nil {
					t.Error(err)
				}
				if err := w.Finish(headOf(p, begin, bodies[begin])); err != nil {
					t.Error(err)
				}
			}
		})
		done.Go(func() {
			for range 20 {
				for _, f := range h.List(p) {
					body, err := load(f, sectionBytes)
					if errors.Is(err, os.ErrNotExist) {
						continue // pruned meanwhile
					}
					if want := bodies[f.Head().Begin]; err != nil || !bytes.Equal(body, want) {
						t.Errorf("%s: %d bytes, want %d, error %v", f.Name(), len(body), len(want), err)
					}
				}
			}
		})
	}
	done.Wait()
	if h.log.Len() > 0 {
		t.Errorf("log: %s", h.log)
	}
	for n := range 6 {
		h.holds(partition(n), bodies, 7, 6)
	}
}

func TestAbortLeavesNothing(t *testing.T) {
	h := open(t, t.TempDir())
	w := h.begin(p0, []byte("body"), 1)
	w.Abort()
	w.Abort()
	if _, err := w.Write([]byte("more")); err == nil || !strings.Contains(err.Error(), "given up") {
		t.Errorf("write after the end: %v", err)
	}
	if err := w.Finish(headOf(p0, 1, []byte("body"))); err == nil {
		t.Error("finished after the end")
	}
	if got := h.files(); len(got) > 0 {
		t.Errorf("files: %q", got)
	}

	// Nor does an Abort behind a Finish, as a deferred one is.
	w = h.begin(p0, []byte("body"), 1)
	if err := w.Finish(headOf(p0, 1, []byte("body"))); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	if err := w.Finish(headOf(p0, 1, []byte("body"))); err == nil {
		t.Error("finished twice")
	}
	h.holds(p0, map[int64][]byte{1: []byte("body")}, 1)
}

func TestFinishRefusesAWrongHead(t *testing.T) {
	h := open(t, t.TempDir())
	body := []byte("body")
	for name, c := range map[string]struct {
		change func(*pipeline.CheckpointHead)
		want   string
	}{
		"partition": {func(h *pipeline.CheckpointHead) { h.Partition = p1 }, "its head is of orders/1"},
		"length":    {func(h *pipeline.CheckpointHead) { h.BodyBytes++ }, "a body of 4 bytes"},
		"offsets":   {func(h *pipeline.CheckpointHead) { h.Next = h.Begin - 1 }, "before its begin"},
		"log":       {func(h *pipeline.CheckpointHead) { h.LogEnd = h.LogBegin - 1 }, "of the changelog, before its begin"},
		"too long":  {func(h *pipeline.CheckpointHead) { h.SetHead = make([]byte, headerBytes) }, "there is room for 16384"},
	} {
		head := headOf(p0, 1, body)
		c.change(head)
		if err := h.begin(p0, body, 10).Finish(head); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if got := h.files(); len(got) > 0 {
			t.Errorf("%s: files: %q", name, got)
		}
	}
}

// However far a checkpoint came when the process was killed, those before it
// load, and what is left of it goes.
func TestCrashAtAnyStep(t *testing.T) {
	bodies := map[int64][]byte{1: []byte("one"), 2: []byte("two"), 3: bytes.Repeat([]byte("three"), sectionBytes/2)}
	var w *Writer
	steps := []struct {
		name string
		do   func(h *house) error
		want []int64 // after all steps up to this one
	}{
		{"nothing", func(*house) error { return nil }, []int64{2, 1}},
		{"begun", func(h *house) error { w = h.begin(p0, nil, 1); return nil }, []int64{2, 1}},
		{"half the body", func(*house) error { _, err := w.Write(bodies[3][:sectionBytes+1]); return err }, []int64{2, 1}},
		{"all the body", func(*house) error { _, err := w.Write(bodies[3][sectionBytes+1:]); return err }, []int64{2, 1}},
		{"sealed", func(*house) error { return w.seal(headOf(p0, 3, bodies[3])) }, []int64{2, 1}},
		{"named", func(*house) error { return w.publish() }, []int64{3, 2, 1}},
		{"pruned", func(h *house) error { h.prune(p0); return nil }, []int64{3, 2}},
	}
	for last := range steps {
		t.Run(steps[last].name, func(t *testing.T) {
			dir := t.TempDir()
			h := open(t, dir)
			h.save(p0, 1, bodies[1])
			h.save(p0, 2, bodies[2])
			for _, step := range steps[:last+1] {
				if err := step.do(h); err != nil {
					t.Fatal(err)
				}
			}
			h.crash()
			h = open(t, dir)
			h.holds(p0, bodies, steps[last].want...)
			if got := h.files(); len(got) != len(steps[last].want) {
				t.Errorf("files: %q", got)
			}
			bodies[4] = []byte("four")
			h.save(p0, 4, bodies[4])
			h.holds(p0, bodies, 4, steps[last].want[0])
		})
	}
}

func TestOpenRemovesOnlyItsOwnLeftovers(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir)
	h.save(p0, 1, nil)
	h.crash()
	for _, name := range []string{fileName("orders-0", 77) + temporary, "notes.tmp", "notes.txt", "x" + suffix + temporary} {
		if err := os.WriteFile(filepath.Join(h.path, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h = open(t, dir)
	got, want := h.files(), []string{"notes.tmp", "notes.txt", fileName("orders-0", 2), "x" + suffix + temporary}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("files: %q, want %q", got, want)
	}
	h.save(p0, 2, nil)
	if want := fileName("orders-0", 79); !strings.HasSuffix(h.List(p0)[0].Name(), want) {
		t.Errorf("the newest is %s, want %s", h.List(p0)[0].Name(), want)
	}
}
