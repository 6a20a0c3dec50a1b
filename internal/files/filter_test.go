package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

const maxLine = 64 << 20

// rules judge the whole line, with room for capacity IDs.
func rules(t testing.TB, capacity uint64, change func(*pipeline.Config)) pipeline.Config {
	t.Helper()
	params, err := filter.SingleSize(max(capacity, 1000), 1e-6)
	if err != nil {
		t.Fatal(err)
	}
	cfg := pipeline.Config{
		Keys: []string{"value"}, Time: pipeline.TimeNone, Kind: "single",
		Window: window.Config{Span: 24 * time.Hour, GenerationCapacity: capacity},
		NewSet: func() (filter.Set, error) { return filter.NewSingle(params) },
	}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

// run filters by rules.
func run(ctx context.Context, t testing.TB, cfg Config, out io.Writer, rules pipeline.Config) (pipeline.Counts, error) {
	t.Helper()
	if cfg.MaxLine == 0 {
		cfg.MaxLine = maxLine
	}
	if cfg.Wall == nil {
		cfg.Wall = time.Now
	}
	door, err := Open(cfg)
	if err != nil {
		return pipeline.Counts{}, err
	}
	rules.IDs.Table = keys.Table{Kind: cfg.Rows, Header: door.Columns()}
	shard, err := pipeline.NewShard(rules, pipeline.Partition{Topic: "files"}, false)
	if err != nil {
		t.Fatal(err)
	}
	counts, err := door.Filter(ctx, Outputs{Survivors: out}, rules, shard)
	if fault := errors.Join(counts.Check(), shard.Close()); fault != nil {
		t.Error(fault)
	}
	return counts, err
}

func key(spec string) func(*pipeline.Config) {
	return func(c *pipeline.Config) { c.Keys = []string{spec} }
}

// filterAll filters src as stdin.
func filterAll(t *testing.T, src io.Reader, limit int, change func(*pipeline.Config)) (string, pipeline.Counts, error) {
	t.Helper()
	var out bytes.Buffer
	counts, err := run(t.Context(), t, Config{Stdin: src, MaxLine: limit}, &out, rules(t, 1<<18, change))
	return out.String(), counts, err
}

// TestCase_KEY_23 has the edges of NDJSON: long lines, byte order marks, line
// ends of both kinds, blank lines, a last line without an end, two objects on one
// line, a truncated last line.
func TestCase_KEY_23(t *testing.T) {
	f := func(name, in, want string, counts string) {
		t.Helper()
		for kind, src := range map[string]io.Reader{
			"whole":       strings.NewReader(in),
			"bytewise":    iotest.OneByteReader(strings.NewReader(in)),
			"data at EOF": iotest.DataErrReader(strings.NewReader(in)),
		} {
			if kind != "whole" && len(in) > 1<<20 {
				continue
			}
			out, n, err := filterAll(t, src, maxLine, key("json:id"))
			if err != nil {
				t.Errorf("%s, read %s: %v", name, kind, err)
			}
			if out != want {
				t.Errorf("%s, read %s: %d bytes %.80q, want %d bytes %.80q", name, kind, len(out), out, len(want), want)
			}
			got := fmt.Sprintf("in %d unique %d duplicate %d missing %d invalid %d", n.In, n.Verdicts[pipeline.Unique],
				n.Verdicts[pipeline.Duplicate], n.Verdicts[pipeline.Missing], n.Verdicts[pipeline.Invalid])
			if got != counts {
				t.Errorf("%s, read %s: %s, want %s", name, kind, got, counts)
			}
		}
	}
	for _, size := range []int{65535, 65536, 1<<20 + 1, maxLine} {
		line := long(size)
		f(fmt.Sprintf("a line of %d bytes", size), line+"\n"+line+"\r\n"+`{"id":"b"}`+"\n", line+"\n"+`{"id":"b"}`+"\n",
			"in 3 unique 2 duplicate 1 missing 0 invalid 0")
	}
	f("a byte order mark", "\xef\xbb\xbf{\"id\":1}\n{\"id\":1}\n", "{\"id\":1}\n", "in 2 unique 1 duplicate 1 missing 0 invalid 0")
	f("a mark alone", "\xef\xbb\xbf", "", "in 0 unique 0 duplicate 0 missing 0 invalid 0")
	f("a mark elsewhere is text", "{\"id\":1}\n\xef\xbb\xbf{\"id\":1}\n", "{\"id\":1}\n\xef\xbb\xbf{\"id\":1}\n",
		"in 2 unique 1 duplicate 0 missing 0 invalid 1")
	f("CRLF", "{\"id\":1}\r\n{\"id\":2}\r\n{\"id\":1}\n", "{\"id\":1}\r\n{\"id\":2}\r\n", "in 3 unique 2 duplicate 1 missing 0 invalid 0")
	f("blank lines", "\n\n{\"id\":1}\n\r\n\n{\"id\":2}\n\n", "{\"id\":1}\n{\"id\":2}\n", "in 2 unique 2 duplicate 0 missing 0 invalid 0")
	f("no end of the last line", "{\"id\":1}\n{\"id\":2}", "{\"id\":1}\n{\"id\":2}\n", "in 2 unique 2 duplicate 0 missing 0 invalid 0")
	f("no end but a carriage return", "{\"id\":1}\r", "{\"id\":1}\r\n", "in 1 unique 1 duplicate 0 missing 0 invalid 0")
	f("two objects on one line", "{\"id\":1}{\"id\":2}\n{\"id\":2}\n{\"id\":1}\n", "{\"id\":1}{\"id\":2}\n{\"id\":2}\n",
		"in 3 unique 2 duplicate 1 missing 0 invalid 0")
	f("truncated before the ID", "{\"id\":1}\n{\"n\":1,\"i", "{\"id\":1}\n{\"n\":1,\"i\n", "in 2 unique 1 duplicate 0 missing 0 invalid 1")
	f("truncated after the ID", "{\"id\":1}\n{\"id\":1,\"n\":", "{\"id\":1}\n", "in 2 unique 1 duplicate 1 missing 0 invalid 0")
	f("nothing", "", "", "in 0 unique 0 duplicate 0 missing 0 invalid 0")
}

// long is a JSON object of that many bytes.
func long(size int) string {
	const head, tail = `{"id":"long","pad":"`, `"}`
	return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
}

func TestACarriageReturnIsNotPartOfTheID(t *testing.T) {
	out, _, err := filterAll(t, strings.NewReader("a\r\na\nb\nb\r\na\r\r\n"), maxLine, nil)
	if want := "a\r\nb\na\r\r\n"; out != want || err != nil {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

// A line over the limit is an error that names it, wherever it stands in what
// was read; every line before it is out.
func TestALineOverTheLimitIsAnError(t *testing.T) {
	const limit = 100
	for _, before := range []int{0, 1, 3, chunkSize / 4} {
		for _, end := range []string{"", "\n", "\r\n", "\nmore\n"} {
			head := strings.Repeat("x\n", before)
			wantOut := ""
			if before > 0 {
				wantOut = "x\n"
			}
			out, counts, err := filterAll(t, strings.NewReader(head+strings.Repeat("y", limit+1)+end), limit, nil)
			if !errors.Is(err, ErrLineTooLong) || !strings.Contains(err.Error(), fmt.Sprintf("stdin line %d:", before+1)) {
				t.Errorf("%d lines before, end %q: error %v, want ErrLineTooLong for line %d", before, end, err, before+1)
			}
			if out != wantOut || counts.In != uint64(before) {
				t.Errorf("%d lines before, end %q: out %q of %d, want %q", before, end, out, counts.In, wantOut)
			}
			out, _, err = filterAll(t, strings.NewReader(head+strings.Repeat("y", limit)+end), limit, nil)
			if err != nil || !strings.HasPrefix(out, wantOut+strings.Repeat("y", limit)) {
				t.Errorf("a line of the limit, %d before, end %q: out %.20q, error %v", before, end, out, err)
			}
		}
	}
}

// An endless line must not take endless memory.
func TestAnEndlessLineIsAnError(t *testing.T) {
	_, _, err := filterAll(t, endless{}, 1<<20, nil)
	if !errors.Is(err, ErrLineTooLong) {
		t.Errorf("error %v, want ErrLineTooLong", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// A read that fails is an error after the whole lines before it, never an end.
func TestAReadErrorIsNoEnd(t *testing.T) {
	broken := errors.New("the disk is on fire")
	src := io.MultiReader(strings.NewReader("a\nb\nhalf a li"), iotest.ErrReader(broken))
	out, counts, err := filterAll(t, src, maxLine, nil)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "read stdin after line 2:") {
		t.Errorf("error %v, want %v after line 2", err, broken)
	}
	if out != "a\nb\n" || counts.In != 2 {
		t.Errorf("out %q of %d, want the two whole lines", out, counts.In)
	}
	if _, _, err := filterAll(t, silent{}, maxLine, nil); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("an input that gives nothing: error %v, want %v", err, io.ErrNoProgress)
	}
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }

func TestAWriteErrorIsNamed(t *testing.T) {
	full := errors.New("no space left")
	_, err := run(t.Context(), t, Config{Stdin: strings.NewReader("a\n")}, failing{full}, rules(t, 10, nil))
	if !errors.Is(err, ErrOutput) || !errors.Is(err, full) {
		t.Errorf("error %v, want ErrOutput and %v", err, full)
	}
}

func TestACancelledFilterIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := run(ctx, t, Config{Stdin: strings.NewReader("a\n")}, io.Discard, rules(t, 10, nil))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

func TestAStopNamesFileAndLine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events.ndjson")
	if err := os.WriteFile(name, []byte("{\"id\":1}\n\n{\"id\":2}\n{\"n\":1}\n{\"id\":3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	counts, err := run(t.Context(), t, Config{Inputs: []string{name}}, &out,
		rules(t, 10, func(c *pipeline.Config) { c.Keys, c.OnMissing = []string{"json:id"}, pipeline.Fail }))
	stopped := (*StoppedError)(nil)
	if !errors.As(err, &stopped) || *stopped != (StoppedError{Input: name, Line: 4, Reason: pipeline.ReasonMissing}) {
		t.Errorf("error %v, want a stop before line 4", err)
	}
	if out.String() != "{\"id\":1}\n{\"id\":2}\n" || counts.In != 2 {
		t.Errorf("out %q of %d, want what stands before", out.String(), counts.In)
	}
}

// The survivors are those of an exact map, however the input is cut into reads.
func TestSurvivorsAreThoseOfAMap(t *testing.T) {
	seed := testSeed(t)
	random := rand.New(rand.NewPCG(seed, 1))
	var in, want bytes.Buffer
	seen := map[string]bool{}
	for range 30_000 {
		id := strconv.Itoa(random.IntN(5_000))
		line := id + strings.Repeat(".", random.IntN(4))
		end := []string{"\n", "\r\n"}[random.IntN(2)]
		in.WriteString(line + end)
		if !seen[line] {
			seen[line] = true
			want.WriteString(line + end)
		}
		if random.IntN(10) == 0 {
			in.WriteString("\n")
		}
	}
	for kind, src := range map[string]io.Reader{
		"whole": bytes.NewReader(in.Bytes()),
		"half":  iotest.HalfReader(bytes.NewReader(in.Bytes())),
		"odd":   &oddReader{bytes.NewReader(in.Bytes()), random},
	} {
		out, _, err := filterAll(t, src, maxLine, nil)
		if err != nil {
			t.Errorf("read %s: %v", kind, err)
		}
		if out != want.String() {
			t.Errorf("read %s: %d bytes survive, the map says %d", kind, len(out), want.Len())
		}
	}
}

// oddReader reads a random number of bytes.
type oddReader struct {
	src    io.Reader
	random *rand.Rand
}

func (r *oddReader) Read(p []byte) (int, error) {
	return r.src.Read(p[:1+r.random.IntN(min(len(p), 5000))])
}

// testSeed is STREAMDEDUP_SEED, or a new one, which the log shows.
func testSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("STREAMDEDUP_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("STREAMDEDUP_SEED=%d", seed)
	return seed
}
