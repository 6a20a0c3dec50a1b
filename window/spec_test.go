package window

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// TestSpec is the behaviour of a window as scripts. Unless a case says otherwise,
// the span is 70 ms and a generation 10 ms long. A line is a record or a command,
// with what must come of it after the arrow:
//
//	NOW TIME ID -> new | duplicate of AGE | no ID | stop REASON, then the marks
//	state -> stream time, what it rests on, and each generation as number@offset
//	rollback, commit (seal and commit), coverage -> ratio
//
// A time or ID of "-" is missing; an ID with "!" behind it must not be learned. What is
// learned although it is not new is "learned".
// A record that the window stopped at is not read; the next one has its offset.
func TestSpec(t *testing.T) {
	small := config(70 * time.Millisecond)
	small.GenerationCapacity = 2
	failing := small
	failing.OnFull = FailWhenFull
	refresh := config(70 * time.Millisecond)
	refresh.Refresh = true
	smallRefresh, failingRefresh := small, failing
	smallRefresh.Refresh, failingRefresh.Refresh = true, true
	refreshLate := refresh
	refreshLate.LearnLate = false
	divertLate := config(70 * time.Millisecond)
	divertLate.LearnLate = false
	failLate := divertLate
	failLate.StopAtLate = true

	for _, c := range []struct {
		name, script string
		cfg          Config
	}{
		{"a repeat is a duplicate for the span and at most one slice more", `
			1000 1000 a -> new
			1000 1000 a -> duplicate of 0s
			1000 1000 b -> new
			1070 1070 a -> duplicate of 70ms jump
			1079 1079 b -> duplicate of 70ms
			1080 1080 a -> new
			state -> 1080 record 101@3 102@3 103@3 104@3 105@3 106@3 107@3 108@5`, config(70 * time.Millisecond)},
		{"a repeat does not extend the window", `
			1000 1000 a -> new
			1040 1040 a -> duplicate of 40ms jump
			1080 1080 a -> new jump`, config(70 * time.Millisecond)},
		{"a repeat extends the window where it is told to", `
			1000 1000 a -> new
			1000 1000 a -> duplicate of 0s
			1040 1040 a -> duplicate of 40ms jump learned
			1041 1041 a -> duplicate of 0s
			1110 1110 a -> duplicate of 70ms jump learned
			1119 1119 a! -> duplicate of 0s
			1180 1180 a! -> duplicate of 70ms jump
			1190 1190 a -> new`, refresh},
		{"a late repeat extends it only where late records teach", `
			1000 1000 a -> new
			1040 1040 b -> new jump
			1040  969 a -> duplicate of 40ms late
			1079 1079 a -> duplicate of 70ms jump learned`, refreshLate},
		{"a repeat that finds its generation full extends nothing", `
			1000 1000 a -> new
			1010 1010 b -> new
			1010 1010 a -> duplicate of 10ms learned
			1010 1010 a -> duplicate of 0s
			1020 1020 c -> new
			1020 1020 d -> new
			1020 1020 d -> duplicate of 0s
			1020 1020 a -> duplicate of 10ms unlearned
			1020 1020 a! -> duplicate of 10ms
			1080 1080 a -> duplicate of 70ms jump learned`, smallRefresh},
		{"a repeat that finds its generation full stops the window", `
			1000 1000 a -> new
			1010 1010 b -> new
			1010 1010 c -> new
			1010 1010 b -> duplicate of 0s
			1010 1010 a -> stop full
			1010 1010 a! -> duplicate of 10ms
			1020 1020 a -> duplicate of 20ms learned`, failingRefresh},
		{"an old record is judged by when it was read", `
			1000 1000 a -> new
			1060 1060 b -> new jump
			1060 1000 c -> new
			1060  999 d -> new
			1060  990 e -> new
			1060  989 f -> new late
			1060    1 f -> duplicate of 0s late
			1120 1120 f -> duplicate of 60ms jump`, config(70 * time.Millisecond)},
		{"late records are not learned where a policy keeps them from the output", `
			1000 1000 a -> new
			1000  930 b -> new
			1000  929 c -> new late
			1000  929 c -> new late
			1000  929 a -> duplicate of 0s late
			1000 1000 c -> new
			1000 1000 c -> duplicate of 0s`, divertLate},
		{"a late record stops the window", `
			1000 1000 a -> new
			1000  930 b -> new
			1000  929 c -> stop late
			1000  929 - -> stop late
			1000 1000 c -> new
			state -> 1000 record 100@0`, failLate},
		{"a time ahead of the clock is not believed", `
			1000 1000 a -> new
			1000 1010 b -> new
			1000 1011 c -> new ahead
			1000 315360001000 d -> new ahead
			1000 1011 c -> duplicate of 0s ahead
			1001 1011 a -> duplicate of 10ms
			state -> 1011 record 100@0 101@1`, config(70 * time.Millisecond)},
		{"what is no time is judged at the stream time", `
			1000 1000 a -> new
			5000 - b -> new no_time
			5000 0 b -> duplicate of 0s no_time
			5000 -1 b -> duplicate of 0s no_time
			5000 9223372036854775807 c -> new no_time
			5000 4611686018427387905 c -> duplicate of 0s no_time
			5000 4611686018427387904 c -> duplicate of 0s ahead
			5000 -62135596800000 a -> duplicate of 0s no_time
			state -> 1000 record 100@0`, config(70 * time.Millisecond)},
		{"the clock stands in for a time until there is one", `
			1000 - a -> new no_time
			1035 - b -> new no_time
			1020 - a -> duplicate of 30ms no_time
			state -> 1035 clock 100@0 101@1 102@1 103@1
			1035 9999 c -> new ahead
			1045 9999 a -> duplicate of 40ms ahead
			state -> 1045 clock 100@0 101@1 102@1 103@1 104@4
			1045 501 a -> duplicate of 40ms
			state -> 501 record 46@0 47@1 48@1 49@1 50@4
			9000 - a -> duplicate of 40ms no_time
			9000 539 a -> duplicate of 70ms jump
			9000 540 a -> new`, config(70 * time.Millisecond)},
		{"a wall clock that steps back moves nothing until it is where it was", `
			5000 - a -> new no_time
			5035 - b -> new no_time
			1035 - b -> duplicate of 0s no_time
			1035 - c -> new no_time
			state -> 5035 clock 500@0 501@1 502@1 503@1
			1105 - c -> duplicate of 0s no_time
			5034 - a -> duplicate of 30ms no_time
			5105 - b -> duplicate of 70ms no_time
			5109 - c -> duplicate of 70ms no_time
			5110 - c -> new no_time`, config(70 * time.Millisecond)},
		{"where it is the only clock, an idle gap passes its time", `
			5000 - a -> new no_time
			5069 - a -> duplicate of 60ms no_time
			5100 - a -> new no_time
			99000 - a -> new no_time
			99000 - a -> duplicate of 0s no_time
			state -> 99000 clock 9893@3 9894@3 9895@3 9896@3 9897@3 9898@3 9899@3 9900@3`, config(70 * time.Millisecond)},
		{"an idle gap of a stream with times is as long as they say, however long we waited", `
			2000 1000 a -> new
			99000 1060 a -> duplicate of 60ms jump
			99000 1079 a -> duplicate of 70ms
			99000 9000 a -> new jump
			5000 9001 a -> duplicate of 0s ahead
			5000 5000 a -> duplicate of 0s late
			state -> 9000 record 893@3 894@3 895@3 896@3 897@3 898@3 899@3 900@3`, config(70 * time.Millisecond)},
		{"the first time never leaves less of the filling generation", `
			1000 - a -> new no_time
			1009 - b -> new no_time
			1010 - c -> new no_time
			1010 508 d -> new
			state -> 508 record 50@0 51@2
			1010 519 e -> new
			state -> 519 record 50@0 51@2
			1010 577 b -> duplicate of 70ms jump
			1010 579 d -> duplicate of 60ms
			1010 580 a -> new
			1010 589 d -> duplicate of 70ms`, config(70 * time.Millisecond)},
		{"it leaves a first generation as it is", `
			1000 - a -> new no_time
			1000 509 b -> new
			state -> 509 record 50@0
			1010 510 c -> new
			1010 579 a -> duplicate of 70ms jump`, config(70 * time.Millisecond)},
		{"the first time of all sets the stream time", `
			9000 501 a -> new
			9000 - a -> duplicate of 0s no_time
			state -> 501 record 50@0`, config(70 * time.Millisecond)},
		{"a gap passes generations", `
			2000 1000 a -> new
			2000 1010 b -> new
			2000 1039 c -> new jump
			state -> 1039 record 100@0 101@1 102@2 103@2
			2000 1999 d -> new jump
			2000 1999 a -> new
			state -> 1999 record 192@3 193@3 194@3 195@3 196@3 197@3 198@3 199@3`, config(70 * time.Millisecond)},
		{"without an ID only the time counts", `
			1000 1000 - -> no ID
			1000 1010 - -> no ID
			1010 1000 a -> new
			1010 900 - -> no ID late
			state -> 1010 record 100@0 101@1`, config(70 * time.Millisecond)},
		{"what does not come out is not learned", `
			1000 1000 a! -> new
			1000 1000 a! -> new
			1000 1000 a -> new
			1000 1000 a! -> duplicate of 0s`, config(70 * time.Millisecond)},
		{"a full generation passes records unlearned", `
			1000 1000 a -> new
			1000 1000 b -> new
			1000 1000 c -> new unlearned
			1000 1000 c -> new unlearned
			1000 1000 c! -> new
			1000 1000 a -> duplicate of 0s
			1010 1010 c -> new
			1010 1010 c -> duplicate of 0s
			1010 1010 d -> new
			1010 1010 e -> new unlearned`, small},
		{"a full generation stops the window, and moves nothing for the record", `
			1000 1000 a -> new
			1000 1001 b -> new
			1000 1009 c -> stop full
			state -> 1001 record 100@0
			1000 1009 a -> duplicate of 0s
			1000 1009 c! -> new
			1000 1009 - -> no ID
			1000 1009 c -> stop full
			1010 1010 c -> new`, failing},
		{"a full generation does not keep a first believed time", `
			1000 - a -> new no_time
			1000 - b -> new no_time
			1000 501 c -> stop full
			state -> 1000 clock 100@0
			1000 501 a -> duplicate of 0s
			state -> 501 record 50@0`, failing},
		{"a rollback forgets what was not committed", `
			1000 1000 a -> new
			commit
			1000 1005 b -> new
			1090 1090 c -> new jump
			rollback
			state -> 1000 record 100@0
			1090 1005 b -> new
			1090 1005 a -> duplicate of 0s
			1090 1090 c -> new jump`, config(70 * time.Millisecond)},
		{"a cold window comes to know its span", `
			cold
			coverage -> 0.00
			1000 - a -> new no_time
			coverage -> 0.00
			1035 - a -> duplicate of 30ms no_time
			coverage -> 0.50
			1035 7 a -> duplicate of 30ms
			coverage -> 0.50
			1035 14 a -> duplicate of 30ms
			coverage -> 0.60
			rollback
			coverage -> 0.00
			2000 1000 a -> new
			2000 1070 a -> duplicate of 70ms jump
			coverage -> 1.00
			2000 1999 a -> new jump
			coverage -> 1.00`, config(70 * time.Millisecond)},
	} {
		t.Run(c.name, func(t *testing.T) { runScript(t, c.cfg, c.script) })
	}
}

func runScript(t *testing.T, cfg Config, script string) {
	t.Helper()
	s := interpreter{w: mustNew(t, cfg, newExactSet())}
	for line := range strings.Lines(strings.TrimSpace(script)) {
		command, want, _ := strings.Cut(strings.TrimSpace(line), " -> ")
		if got := s.run(t, strings.Fields(command)); got != want {
			t.Errorf("%s -> %s, want %s", command, got, want)
		}
	}
}

// interpreter runs the lines of a script.
type interpreter struct {
	w      *Window
	reader reader
	offset int64
}

func (s *interpreter) run(t *testing.T, fields []string) string {
	t.Helper()
	switch fields[0] {
	case "state":
		return describe(s.w.State())
	case "coverage":
		return fmt.Sprintf("%.2f", s.w.Coverage())
	case "cold":
		s.w.MarkCold()
	case "commit":
		s.w.Seal()
		s.w.Commit()
	case "rollback":
		s.w.Rollback()
	default:
		return s.read(t, fields)
	}
	return ""
}

func (s *interpreter) read(t *testing.T, fields []string) string {
	t.Helper()
	id, noLearn := strings.CutSuffix(fields[2], "!")
	rec := record{
		offset: s.offset, now: number(t, fields[0]), time: number(t, fields[1]),
		hash: filter.Hash(id[0]), noID: id == "-", noLearn: noLearn,
	}
	verdicts, stop := s.reader.read(s.w, []record{rec})
	if stop != StopNone {
		return "stop " + stop.String()
	}
	s.offset++
	v := verdicts[0]
	var text string
	switch {
	case rec.noID && v.ages == 0:
		text = "no ID"
	case v.ages != 0:
		text = fmt.Sprintf("duplicate of %v", s.w.AgeOf(v.ages))
	default:
		text = "new"
	}
	if v.marks != 0 {
		text += " " + v.marks.String()
	}
	if usual := v.ages == 0 && !rec.noID && !noLearn; v.learned && !usual {
		text += " learned"
	}
	return text
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	if text == "-" {
		return NoTime
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func describe(s State) string {
	text := fmt.Sprintf("%d clock", s.StreamTime)
	if s.Believed {
		text = fmt.Sprintf("%d record", s.StreamTime)
	}
	for _, g := range s.Generations {
		text += fmt.Sprintf(" %d@%d", g.Number, g.FirstOffset)
	}
	return text
}
