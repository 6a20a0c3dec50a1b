package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/internal/admin"
	"github.com/streamdedup/streamdedup/pipeline"
)

// talker is a log whose clock the test moves.
type talker struct {
	text    bytes.Buffer
	limited *logLimit
	now     time.Time
}

func newTalker() *talker {
	k := &talker{now: time.Unix(1_700_000_000, 0)}
	k.limited = newLogLimit(slog.NewTextHandler(&k.text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return k
}

func (k *talker) say(t *testing.T, h slog.Handler, level slog.Level, message string, attrs ...slog.Attr) {
	t.Helper()
	r := slog.NewRecord(k.now, level, message, 0)
	r.AddAttrs(attrs...)
	if err := h.Handle(context.Background(), r); err != nil {
		t.Fatal(err)
	}
}

// lines is how many lines have all the texts.
func (k *talker) lines(texts ...string) (n int) {
	for line := range strings.Lines(k.text.String()) {
		has := true
		for _, text := range texts {
			has = has && strings.Contains(line, text)
		}
		if has {
			n++
		}
	}
	return n
}

// suppressed is how many of a line the log says that it does not show.
func (k *talker) suppressed(t *testing.T, line string) (n int) {
	t.Helper()
	pattern := regexp.MustCompile(`msg="log line suppressed" line="?` + line + `"? times=(\d+)`)
	for _, m := range pattern.FindAllStringSubmatch(k.text.String(), -1) {
		times, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		n += times
	}
	return n
}

// TestCase_OPS_08 lets a race warn a hundred times a second for ten minutes: the log
// has ten lines of it a minute, says how many it does not have, and hides no other.
func TestCase_OPS_08(t *testing.T) {
	k := newTalker()
	const warnings = 60_000
	begin := k.now
	for i := range warnings {
		k.now = begin.Add(time.Duration(i) * 10 * time.Millisecond)
		k.say(t, k.limited, slog.LevelWarn, "lost the race", slog.Int("n", i))
		if i%10 == 0 { // six times a minute for each of a hundred
			k.say(t, k.limited, slog.LevelWarn, "other", slog.String("partition", fmt.Sprint("in/", i/10%100)))
		}
	}
	k.limited.flush(k.now)
	shown := k.lines(`msg="lost the race"`)
	if want := 10 * limitLines; shown != want {
		t.Errorf("%d lines in ten minutes, want %d", shown, want)
	}
	if kept := k.suppressed(t, "lost the race"); kept != warnings-shown {
		t.Errorf("%d lines are said to be missing, want %d", kept, warnings-shown)
	}
	if n := k.lines("msg=other"); n != warnings/10 {
		t.Errorf("%d lines of partitions that warn now and then, want all %d", n, warnings/10)
	}
	if n := len(k.limited.shared.kinds); n != 0 {
		t.Errorf("%d kinds are remembered at the end", n)
	}
}

// TestCase_OPS_03 keeps a user from reading a limited log as lost data: what the log
// says of duplicates is for --log-level debug, is limited, and a line that is missing
// is called a line.
func TestCase_OPS_03(t *testing.T) {
	k := newTalker()
	w := newWatcher(slog.New(k.limited), "--capacity", nil)
	settled := w.watch(admin.NewMetrics().Events()).Settled
	for range 1000 {
		settled(pipeline.Committed, 0, &pipeline.Counts{In: 10, Verdicts: [4]uint64{7, 3}}, 0)
	}
	k.limited.flush(time.Now())
	if n := k.lines("level=DEBUG", `msg="duplicates found" records=3 of=10`); n != limitDebug {
		t.Errorf("%d lines of duplicates, want %d at level debug", n, limitDebug)
	}
	if n := k.suppressed(t, "duplicates found"); n != 1000-limitDebug {
		t.Errorf("%d lines are said to be missing, want %d", n, 1000-limitDebug)
	}
	for _, word := range []string{"event", "drop", "lost", "WARN"} {
		if k.lines(word) != 0 {
			t.Errorf("the log says %q:\n%s", word, &k.text)
		}
	}
}

// A stage's lines are not another's.
func TestLogLimitTellsAttributesApart(t *testing.T) {
	k := newTalker()
	stage := k.limited.WithAttrs([]slog.Attr{slog.String("stage", "repartition")})
	for range limitLines + 1 {
		k.say(t, k.limited, slog.LevelInfo, "cycle aborted")
		k.say(t, stage, slog.LevelInfo, "cycle aborted")
	}
	if n := k.lines("cycle aborted"); n != 2*limitLines {
		t.Errorf("%d lines, want %d", n, 2*limitLines)
	}
	k.now = k.now.Add(limitInterval)
	k.say(t, k.limited, slog.LevelInfo, "next")
	if n := k.lines("log line suppressed", "times=1"); n != 2 || k.lines("log line suppressed", `with="stage=repartition"`) != 1 {
		t.Errorf("%d kinds are said to miss a line, want 2, one with its stage:\n%s", n, &k.text)
	}
}
