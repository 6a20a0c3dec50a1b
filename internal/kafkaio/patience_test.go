package kafkaio

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/pipeline"
)

// limit bounds a test's waiting for anything. It is far above what the thing takes, also
// under the race detector on a machine that has much else to do.
const limit = 5 * time.Minute

// until waits for a state of the world.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	untilOr(t, func() string { return what }, ok)
}

// untilOr is until for a wait that can say, at its end, what it saw instead.
func untilOr(t *testing.T, what func() string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s\n%s", what(), everybody())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// judged waits until so many records are committed, repeats included.
func (r *run) judged(n int) {
	r.t.Helper()
	untilOr(r.t, func() string { return fmt.Sprintf("%d records judged\n%s", n, seen(r.engine)) }, func() bool {
		select {
		case err := <-r.end:
			close(r.end)
			r.t.Fatalf("the engine ended after %d records: %v", r.engine.Snapshot().Counts.In, err)
		default:
		}
		return r.engine.Snapshot().Counts.In >= uint64(n)
	})
}

// finish stops the engine, once, and returns its end.
func (r *run) finish() error {
	r.stop()
	select {
	case err, ok := <-r.end:
		if ok {
			close(r.end)
		}
		return err
	case <-time.After(limit):
		r.t.Errorf("the engine does not stop\n%s%s", seen(r.engine), everybody())
		return errors.New("does not stop")
	}
}

// seen is what an engine has come to, as a test that waits in vain tells it.
func seen(e *pipeline.Engine) string {
	s := e.Snapshot()
	text := fmt.Sprintf("judged %+v, settled %v", s.Counts, s.Settled)
	for _, p := range s.Partitions {
		text += fmt.Sprintf("\n%s: restored %t, next %d, stopped %v", p.Partition, p.Restored, p.Next, p.Stopped)
	}
	return text + "\n"
}

var toldOfEverybody sync.Once

// everybody is where all goroutines are, once: of what waits in vain together one
// text tells.
func everybody() (text string) {
	text = "where the goroutines were is told above"
	toldOfEverybody.Do(func() {
		buf := make([]byte, 16<<20)
		text = string(buf[:runtime.Stack(buf, true)])
	})
	return text
}

// testLog is shown when the test fails. STREAMDEDUP_TEST_LOG=debug or info shows it
// at once.
func testLog(t *testing.T) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(os.Getenv("STREAMDEDUP_TEST_LOG"))); err == nil {
		return slog.New(slog.NewTextHandler(prefixed(t.Name()), &slog.HandlerOptions{Level: level}))
	}
	kept := &logged{}
	t.Cleanup(func() {
		if text := kept.String(); t.Failed() && text != "" {
			t.Logf("its log:\n%s", text)
		}
	})
	return slog.New(slog.NewTextHandler(kept, nil))
}

// prefixed writes to stderr, with a name before each line.
type prefixed string

func (p prefixed) Write(line []byte) (int, error) {
	_, err := fmt.Fprintf(os.Stderr, "%s %s", string(p), line)
	return len(line), err
}

// logged is a log that a test reads while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
