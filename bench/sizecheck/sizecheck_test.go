package main

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/streamdedup/streamdedup/bench"
	"github.com/streamdedup/streamdedup/filter"
)

// A small plan is filled to the last ID it is planned for, and its rate is the model's.
func TestMeasureRate(t *testing.T) {
	t.Parallel()
	p, err := point{elements: 70_000, fpr: 1e-2, layout: filter.Fast, partitions: 2}.plan()
	if err != nil {
		t.Fatal(err)
	}
	r, err := measureRate(t.Context(), p, 1)
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * filter.Generations * p.GenerationCapacity; r.Added != want {
		t.Errorf("%d IDs were learned, want %d", r.Added, want)
	}
	if r.Model > p.Workload.FPR || math.Abs(r.Measured/r.Model-1) > 5*r.Deviation {
		t.Errorf("measured %+v", r)
	}
}

func TestMeasureTextbook(t *testing.T) {
	t.Parallel()
	bytes, r, err := measureTextbook(t.Context(), point{elements: 100_000, fpr: 1e-2}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if bits := float64(8*bytes) / 1e5; math.Abs(bits-9.585) > 0.01 {
		t.Errorf("%g bits an ID", bits)
	}
	if math.Abs(r.Measured/r.Model-1) > 5*r.Deviation || math.Abs(r.Model/1e-2-1) > 0.01 {
		t.Errorf("measured %+v", r)
	}
}

// The filter that is filled in parts is the one that is filled from one end to the other.
func TestFillTextbook(t *testing.T) {
	t.Parallel()
	const elements, seed = 1001, 5
	bits, hashes, err := filter.TextbookSize(elements, 1e-2)
	if err != nil {
		t.Fatal(err)
	}
	want := bloom.New(uint(bits), hashes)
	for n := range uint64(elements) {
		want.Add(textbookID(seed, n))
	}
	if got, err := fillTextbook(t.Context(), bits, hashes, elements, seed); err != nil || !got.Equal(want) {
		t.Errorf("it has other bits: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := fillTextbook(ended, bits, hashes, elements, seed); !errors.Is(err, context.Canceled) {
		t.Errorf("it did not end when it was told to: %v", err)
	}
}

func TestChosen(t *testing.T) {
	t.Parallel()
	if all, err := chosen("all"); err != nil || len(all) != len(points) {
		t.Errorf("all are %v, %v", all, err)
	}
	if two, err := chosen("1e6x64,1e9"); err != nil || len(two) != 2 || two[0].partitions != 64 || two[1].elements != 1e9 {
		t.Errorf("two are %v, %v", two, err)
	}
	if _, err := chosen("1e6,2e6"); err == nil || !strings.Contains(err.Error(), "textbook") {
		t.Errorf("an unknown point: %v", err)
	}
	for _, p := range points {
		if _, err := p.plan(); err != nil {
			t.Errorf("%s cannot be planned: %v", p.name, err)
		}
	}
}

func TestWriteBlock(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.txt")
	for range 2 { // what is there is replaced
		if _, err := os.Stat(file); err != nil {
			write(t, file, "before\n"+blockBegin+"old\n"+blockEnd+"after\n")
		}
		if err := writeBlock(file, "a table\n\nand a line\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != "before\n"+blockBegin+"\n    a table\n\n    and a line\n\n"+blockEnd+"after\n" {
			t.Fatalf("the document is %q, %v", got, err)
		}
	}
	write(t, file, "no markers\n")
	if err := writeBlock(file, "x"); err == nil || !strings.Contains(err.Error(), "a.txt") {
		t.Errorf("without markers: %v", err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	r := report{Environment: bench.NewEnvironment("go run ./bench/sizecheck", 3), Results: []result{
		{Elements: 1e9, FPR: 0.01, Layout: "compact", Partitions: 1, Bytes: 2e9, ProcessBytes: 2.5e9, PeakBytes: 2.4e9, Rate: rate{Model: 0.01, Measured: 0.0099, Deviation: 0.03}},
		{Elements: 1e9, FPR: 0.01, Layout: "textbook, no window", Bytes: 1.2e9, Rate: rate{Model: 0.01, Measured: 0.01, Deviation: 0.03}},
	}}
	text := r.text()
	for _, want := range []string{"2,500 MB", "2,400 MB  0.960", "0.990 ± 0.030", "1,000,000,000", "seed 3", "textbook"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	file := filepath.Join(t.TempDir(), "a.json")
	if err := r.writeJSON(file); err != nil {
		t.Fatal(err)
	}
	var back report
	if written, err := os.ReadFile(file); err != nil || json.Unmarshal(written, &back) != nil || len(back.Results) != 2 || back.Results[0] != r.Results[0] {
		t.Errorf("the file says %+v, %v", back, err)
	}
}

// The document has a place for the table.
func TestDocumentHasThePlace(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/BENCHMARKS.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), blockBegin) || !strings.Contains(string(text), blockEnd) {
		t.Error("docs/BENCHMARKS.md has lost the markers of the table")
	}
}
