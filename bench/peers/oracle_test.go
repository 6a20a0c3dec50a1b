package peers

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

const (
	testRecords = 1000
	testSeed    = 7
)

// TestOracle gives an oracle outputs whose faults are known.
func TestOracle(t *testing.T) {
	t.Parallel()
	var input bytes.Buffer
	if err := WriteLines(&input, testRecords, testSeed); err != nil {
		t.Fatal(err)
	}
	all := slices.Collect(strings.Lines(input.String()))
	seen := map[string]bool{}
	var firsts []string
	for _, line := range all {
		if id := string(idOf([]byte(line))); !seen[id] {
			seen[id] = true
			firsts = append(firsts, line)
		}
	}
	copies := uint64(testRecords / copiesShare)
	for _, test := range []struct {
		name         string
		output       []string
		missed, lost uint64
		foreign      bool
	}{
		{name: "right", output: firsts},
		{name: "in another order", output: append(firsts[500:len(firsts):len(firsts)], firsts[:500]...)},
		{name: "nothing removed", output: all, missed: copies},
		{name: "nothing came out", output: nil, lost: testRecords - copies},
		{name: "one lost", output: firsts[1:], lost: 1},
		{name: "one came out for another", output: append(firsts[1:len(firsts):len(firsts)], firsts[5]), missed: 1, lost: 1},
		{name: "made up", output: []string{`{"event_id":"00000000-0000-0000-0000-000000000000"}`}, foreign: true},
		{name: "no ID", output: []string{"{}"}, foreign: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			oracle, err := NewOracle(testRecords, testSeed)
			if err != nil {
				t.Fatal(err)
			}
			if err := oracle.Lines(strings.NewReader(strings.Join(test.output, ""))); err != nil {
				t.Fatal(err)
			}
			missed, lost, err := oracle.Verdict()
			if (err != nil) != test.foreign {
				t.Fatalf("error %v, want one: %t", err, test.foreign)
			}
			if missed != test.missed || lost != test.lost {
				t.Errorf("missed %d, lost %d, want %d, %d", missed, lost, test.missed, test.lost)
			}
		})
	}
}

// TestStream compares the stream in memory with the lines of the file, and the two
// ways to judge.
func TestStream(t *testing.T) {
	t.Parallel()
	stream, err := NewStream(testRecords, testSeed)
	if err != nil {
		t.Fatal(err)
	}
	var input, values bytes.Buffer
	if err := WriteLines(&input, testRecords, testSeed); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	passed := make([]bool, stream.Len())
	for i := range stream.Len() {
		values.Write(append(stream.Value(i), '\n'))
		id := string(stream.ID(i))
		passed[i], seen[id] = !seen[id], true
	}
	if !bytes.Equal(input.Bytes(), values.Bytes()) {
		t.Error("the stream and the file have other records")
	}
	if missed, lost, err := verdictOf(stream, passed); missed != 0 || lost != 0 || err != nil {
		t.Errorf("missed %d, lost %d, error %v of an exact answer", missed, lost, err)
	}
	passed[0] = !passed[0]
	if missed, lost, err := verdictOf(stream, passed); missed != 0 || lost != 1 || err != nil {
		t.Errorf("missed %d, lost %d, error %v where the first record is withheld", missed, lost, err)
	}
}

// TestJudges holds those that run here to what they promise: no copy passes, and
// the share of events lost is about the rate that they are made for.
func TestJudges(t *testing.T) {
	t.Parallel()
	const records, fpr = 20_000, 1e-2
	stream, err := NewStream(records, testSeed)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := NewEngine(stream, fpr)
	if err != nil {
		t.Fatal(err)
	}
	for name, judge := range map[string]Judge{"engine": engine, "ring": NewRing(stream, fpr)} {
		r, err := MeasureJudge(Result{Peer: name}, stream, judge)
		if err != nil {
			t.Fatal(err)
		}
		if *r.Missed != 0 {
			t.Errorf("%s: %d copies passed", name, *r.Missed)
		}
		if most := uint64(fpr * records); *r.Lost > most {
			t.Errorf("%s: lost %d events, want at most %d", name, *r.Lost, most)
		}
		if r.Events != records || *r.BytesPerID < 1 || *r.BytesPerID > 4 {
			t.Errorf("%s: %d events, %g bytes per ID", name, r.Events, *r.BytesPerID)
		}
	}
}
