package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// told is an input, and what an exact map says must come of it.
type told struct {
	rows                         keys.TableKind
	in, out, diverts, doubles    bytes.Buffer
	unique, duplicate, withoutID uint64
}

// tell makes n records of a third as many IDs, some without one, with line ends of
// both kinds, blank lines, a few long ones, and in CSV line ends between quotes.
func tell(random *rand.Rand, rows keys.TableKind, n int) *told {
	x := &told{rows: rows}
	seen := map[int]bool{}
	for range n {
		id := random.IntN(n / 3)
		pad := strings.Repeat("x", random.IntN(60))
		if random.IntN(500) == 0 {
			pad = strings.Repeat("y", random.IntN(20_000))
		}
		without := random.IntN(20) == 0
		line := fmt.Sprintf(`{"id":%d,"pad":"%s"}`, id, pad)
		if rows == keys.CSV {
			line = fmt.Sprintf(`"%d","%s ""%s",%s`, id, pad, strings.Repeat("\n", random.IntN(3)), pad)
		}
		if without {
			line = strings.Replace(line, strconv.Itoa(id), map[bool]string{false: "null", true: ""}[rows == keys.CSV], 1)
		}
		line += []string{"\n", "\r\n"}[random.IntN(2)]
		x.in.WriteString(line)
		if random.IntN(10) == 0 {
			x.in.WriteString("\n")
		}
		switch {
		case without:
			x.withoutID++
			x.diverts.WriteString(line)
		case seen[id]:
			x.duplicate++
			x.doubles.WriteString(line)
		default:
			seen[id] = true
			x.unique++
			x.out.WriteString(line)
		}
	}
	return x
}

// Verdicts and outputs are those of an exact map, whatever the number of
// workers and cores, the size of chunks, and how the input arrives.
func TestWorkersChangeNothing(t *testing.T) {
	seed := testSeed(t)
	for _, cores := range []int{1, 2, 8} {
		t.Run(fmt.Sprintf("cores=%d", cores), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
			random := rand.New(rand.NewPCG(seed, uint64(cores)))
			for _, rows := range []keys.TableKind{keys.NoTable, keys.CSV} {
				x := tell(random, rows, 20_000)
				for _, workers := range []int{0, 1, 2, 8} {
					x.check(t, random, workers)
				}
			}
		})
	}
}

func (x *told) check(t *testing.T, random *rand.Rand, workers int) {
	t.Helper()
	sources := map[string]io.Reader{
		"whole": bytes.NewReader(x.in.Bytes()),
		"odd":   &oddReader{bytes.NewReader(x.in.Bytes()), random},
		"half":  iotest.HalfReader(bytes.NewReader(x.in.Bytes())),
	}
	for kind, src := range sources {
		var out, diverts, doubles bytes.Buffer
		size := 1 + random.IntN(4096)
		r := rules(t, 1<<15, func(c *pipeline.Config) {
			c.Keys, c.OnMissing, c.Diverts = []string{"json:id"}, pipeline.Divert, true
			if c.IDs.Table.Kind = x.rows; x.rows == keys.CSV {
				c.Keys = []string{"column:1"}
			}
		})
		door, err := Open(Config{
			Stdin: src,
			Rows:  x.rows, MaxLine: maxLine, Workers: workers, Wall: time.Now,
		})
		if err != nil {
			t.Fatal(err)
		}
		door.stream.chunkSize = size
		shard, err := pipeline.NewShard(r, pipeline.Partition{Topic: "files"}, false)
		if err != nil {
			t.Fatal(err)
		}
		counts, err := door.Filter(t.Context(), Outputs{Survivors: &out, Diverted: &diverts, Duplicates: &doubles}, r, shard)
		if err := errors.Join(err, counts.Check(), shard.Close()); err != nil {
			t.Errorf("%d workers, chunks of %d, read %s: %v", workers, size, kind, err)
		}
		v := counts.Verdicts
		if v[pipeline.Unique] != x.unique || v[pipeline.Duplicate] != x.duplicate || v[pipeline.Missing] != x.withoutID {
			t.Errorf("%d workers, chunks of %d, read %s: verdicts %v, want %d, %d, %d", workers, size, kind, v, x.unique, x.duplicate, x.withoutID)
		}
		for what, b := range map[string][2]*bytes.Buffer{
			"survivors": {&out, &x.out}, "diverted": {&diverts, &x.diverts}, "duplicates": {&doubles, &x.doubles},
		} {
			if !bytes.Equal(b[0].Bytes(), b[1].Bytes()) {
				t.Errorf("%d workers, chunks of %d, read %s: %d bytes of %s, the map says %d others", workers, size, kind, b[0].Len(), what, b[1].Len())
			}
		}
	}
}

// The window moves with the records, not with the chunks: times, lateness and
// forgetting are those of one worker.
func TestWorkersKeepStreamTime(t *testing.T) {
	seed := testSeed(t)
	random := rand.New(rand.NewPCG(seed, 7))
	var in bytes.Buffer
	for i := range 20_000 {
		fmt.Fprintf(&in, "{\"id\":%d,\"t\":%d}\n", random.IntN(2000), 1_700_000_000+i+random.IntN(5000)-4000)
	}
	filtered := func(workers int) (string, pipeline.Counts) {
		var out bytes.Buffer
		counts, err := run(t.Context(), t, Config{Stdin: bytes.NewReader(in.Bytes()), Workers: workers}, &out, rules(t, 1<<15, func(c *pipeline.Config) {
			c.Keys, c.Time, c.Kind, c.OnLate = []string{"json:id"}, "json:t", "sliced", pipeline.Drop
			c.Window = window.Config{Span: 20 * time.Minute, GenerationCapacity: 1 << 15}
			c.NewSet = slicedSet(t)
		}))
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), counts
	}
	wantOut, want := filtered(1)
	if want.Marked(pipeline.Late) == 0 || want.Verdicts[pipeline.Duplicate] == 0 {
		t.Fatalf("the input shows nothing: %+v", want)
	}
	for _, workers := range []int{2, 8} {
		if out, counts := filtered(workers); out != wantOut || counts != want {
			t.Errorf("%d workers: %+v, one: %+v", workers, counts, want)
		}
	}
}

// A long line is carried alone, so that many of them do not take as much memory
// as there are workers.
func TestLongLinesComeThrough(t *testing.T) {
	long := strings.Repeat("x", 3*chunkSize)
	var in, want strings.Builder
	for i := range 40 {
		fmt.Fprintf(&in, "%d%s\n%d\n", i/2, long, i)
		if i%2 == 0 {
			fmt.Fprintf(&want, "%d%s\n", i/2, long)
		}
		fmt.Fprintf(&want, "%d\n", i)
	}
	var out strings.Builder
	if _, err := run(t.Context(), t, Config{Stdin: strings.NewReader(in.String()), Workers: 8}, &out, rules(t, 1000, nil)); err != nil {
		t.Fatal(err)
	}
	if out.String() != want.String() {
		t.Errorf("%d bytes came out, want %d", out.Len(), want.Len())
	}
}

// However a filter ends, no goroutine of it goes on, also where its input waits.
func TestNothingIsLeftBehind(t *testing.T) {
	broken := errors.New("broken")
	many := strings.Repeat("some line\n", 100_000)
	damaged := filepath.Join(t.TempDir(), "damaged.zst")
	if err := os.WriteFile(damaged, packed(t, ".zst", many)[:200], 0o600); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for i := range 1_000_000 {
		fmt.Fprintln(&lines, i)
	}
	large := filepath.Join(t.TempDir(), "large.zst")
	if err := os.WriteFile(large, packed(t, ".zst", lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(name string, waits bool, change func(*Config, *pipeline.Config), out io.Writer) {
		t.Helper()
		cfg := Config{}
		r := rules(t, 1000, nil)
		if waits { // for more, after some lines
			in, more, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = errors.Join(in.Close(), more.Close()) }()
			cfg.Stdin = in
			if _, err := more.WriteString("a\nb\nc\n"); err != nil {
				t.Fatal(err)
			}
		}
		change(&cfg, &r)
		if _, err := run(t.Context(), t, cfg, out, r); err == nil || strings.Contains(err.Error(), "close") {
			t.Errorf("%s: error %v, want the one there was", name, err)
		}
		nothingLeft(t, name)
	}
	f("an output that fails", true, func(*Config, *pipeline.Config) {}, failing{broken})
	f("a policy", true, func(_ *Config, r *pipeline.Config) { r.Keys, r.OnInvalid = []string{"json:id"}, pipeline.Fail }, io.Discard)
	f("a line that is too long", false, func(c *Config, _ *pipeline.Config) {
		c.Stdin, c.MaxLine = io.MultiReader(strings.NewReader(many), endless{}), 1<<20
	}, io.Discard)
	f("a read that fails", false, func(c *Config, _ *pipeline.Config) {
		c.Stdin = io.MultiReader(strings.NewReader(many), iotest.ErrReader(broken))
	}, io.Discard)
	f("damage", false, func(c *Config, _ *pipeline.Config) { c.Inputs = []string{damaged} }, io.Discard)
	f("a policy, in the middle of a file", false, func(c *Config, r *pipeline.Config) {
		c.Inputs, r.Window.OnFull = []string{large}, window.FailWhenFull
	}, io.Discard)
}

// What ends the stream between two inputs ends it before the next one is read, which
// might wait for ever.
func TestNoInputIsReadAfterAnError(t *testing.T) {
	lines := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(lines, []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := make(chan struct{})
	s, err := openStream(&Config{Inputs: []string{lines, Stdin}, Stdin: unwanted{t}, MaxLine: maxLine}, broken)
	if err != nil {
		t.Fatal(err)
	}
	c := &chunk{}
	if more, err := s.next(c); !more || err != nil {
		t.Fatalf("there is a chunk: %t, error %v", more, err)
	}
	if err := s.close(); err != nil { // as next does at the end of an input
		t.Fatal(err)
	}
	close(broken)
	if !s.interrupt() {
		t.Error("there is a read that waits, and nothing is open")
	}
	if more, _ := s.next(c); more {
		t.Error("there is a chunk after the end")
	}
}

// unwanted is an input that must not be read.
type unwanted struct{ t *testing.T }

func (u unwanted) Read([]byte) (int, error) {
	u.t.Error("an input is read after the stream has broken off")
	return 0, io.EOF
}

// nothingLeft waits until the goroutines of a filter are gone.
func nothingLeft(t *testing.T, name string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); strings.Contains(stacks(), "internal/files.(*Door)"); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: this is left:\n%s", name, stacks())
		}
	}
}

func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}
