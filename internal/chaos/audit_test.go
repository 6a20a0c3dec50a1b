//go:build unix

package main

import (
	"fmt"
	"testing"
)

// record is one of the audit's, as number.copy in a partition.
type record struct {
	partition int32
	number    uint64
	nth       uint8
}

// each writes the records of partitions one after the other, with offsets that
// count within their partition.
func each(l *load, take func(int32, int64, []byte), records []record) {
	next := map[int32]int64{}
	for _, r := range records {
		take(r.partition, next[r.partition], l.value(r.number, r.nth))
		next[r.partition]++
	}
}

// TestAudit: each way in which an output can be wrong is counted as what it is.
func TestAudit(t *testing.T) {
	// Events 0 and 1 in partition 0, the first with three copies; event 2 in 1.
	input := []record{{0, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 0, 2}, {1, 2, 0}}
	whole := verdict{Records: 5, Events: 3}
	tests := []struct {
		name   string
		output []record
		want   func(*verdict)
	}{
		{"right", []record{{0, 0, 0}, {0, 1, 0}, {1, 2, 0}}, func(*verdict) {}},
		{"lost", []record{{0, 0, 0}, {1, 2, 0}}, func(v *verdict) { v.Lost = 1 }},
		{"all lost", nil, func(v *verdict) { v.Lost = 3 }},
		{"missed", []record{{0, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 0, 2}, {1, 2, 0}}, func(v *verdict) { v.Missed = 2 }},
		{"twice", []record{{0, 0, 0}, {0, 1, 0}, {0, 1, 0}, {1, 2, 0}}, func(v *verdict) { v.Extra = 1 }},
		{"a later copy instead", []record{{0, 0, 1}, {0, 1, 0}, {1, 2, 0}}, func(v *verdict) { v.Swapped = 1 }},
		{"another partition", []record{{0, 0, 0}, {0, 1, 0}, {0, 2, 0}}, func(v *verdict) { v.Foreign, v.Lost = 1, 1 }},
		{"of no event", []record{{0, 0, 0}, {0, 1, 0}, {1, 2, 0}, {1, 3, 0}}, func(v *verdict) { v.Foreign = 1 }},
		{"disorder", []record{{0, 1, 0}, {0, 0, 0}, {1, 2, 0}}, func(v *verdict) { v.Disordered = 1 }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := &load{tag: "7", events: []event{{0, 3, 3}, {0, 1, 1}, {1, 1, 1}}}
			a := newAudit(l)
			each(l, a.input, input)
			each(l, a.output, test.output)
			want := whole
			want.Out = uint64(len(test.output))
			test.want(&want)
			got := a.finish()
			if shown := fmt.Sprint(got.examples); got.ok() != (len(got.examples) == 0) {
				t.Errorf("ok is %t with the examples %s", got.ok(), shown)
			}
			got.examples = nil
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// An input that is not what was written is no ground for a verdict.
func TestAuditOfAnotherInput(t *testing.T) {
	for name, input := range map[string][]record{
		"one copy too few":  {{0, 0, 0}},
		"one copy too many": {{0, 0, 0}, {0, 0, 1}, {0, 0, 1}},
		"another partition": {{1, 0, 0}, {0, 0, 0}, {0, 0, 1}},
		"of no event":       {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}},
	} {
		l := &load{tag: "7", events: []event{{0, 2, 2}}}
		a := newAudit(l)
		each(l, a.input, input)
		each(l, a.output, []record{{0, 0, 0}})
		if got := a.finish(); got.Unwritten != 1 {
			t.Errorf("%s: got %+v, want one record that is not as written", name, got)
		}
	}
}

// Only the very bytes of a copy are that copy.
func TestParse(t *testing.T) {
	l := &load{tag: "7", events: make([]event, 12)}
	good := string(l.value(11, 2))
	if number, nth, ok := l.parse([]byte(good)); !ok || number != 11 || nth != 2 {
		t.Errorf("%s is copy %d of %d, %t", good, nth, number, ok)
	}
	for _, bad := range []string{
		"", "{}", good[1:], good + " ", good[:len(good)-1], string(l.value(12, 0)),
		`{"id":"8-11` + good[len(`{"id":"7-11`):], `{"id":"7-011` + good[len(`{"id":"7-11`):],
	} {
		if number, nth, ok := l.parse([]byte(bad)); ok {
			t.Errorf("%q is copy %d of %d", bad, nth, number)
		}
	}
}
