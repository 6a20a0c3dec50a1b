package sizing

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// The README's table of bits is what the calculator says.
func TestReadmeShowsTheBitsThatArePlanned(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	const elements = 1_000_000_000
	for _, row := range []struct {
		name string
		fpr  float64
	}{{"1 in 100", 1e-2}, {"1 in 1,000", 1e-3}, {"1 in 10,000", 1e-4}} {
		cells := []string{row.name}
		for _, layout := range []filter.Layout{filter.Compact, filter.Fast} {
			params, err := filter.Size(elements, row.fpr, layout)
			if err != nil {
				t.Fatal(err)
			}
			cells = append(cells, fmt.Sprintf("%.1f", float64(8*params.Bytes())/elements))
		}
		bits, _, err := filter.TextbookSize(elements, row.fpr)
		if err != nil {
			t.Fatal(err)
		}
		cells = append(cells, fmt.Sprintf("%.1f", float64(bits)/elements))
		want := "| " + strings.Join(cells, " | ") + " |"
		if !strings.Contains(string(readme), want+"\n") {
			t.Errorf("README.md does not have the row %s", want)
		}
	}
}

// So is what the README says of the same in words.
func TestReadmeSaysWhatIsPlanned(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	w := Workload{Elements: 1_000_000_000, Window: 24 * time.Hour, FPR: 1e-4, Peak: 1, Skew: 1, Partitions: 8}
	bare := solve(t, w)
	tiers, err := bare.tiers(math.MaxUint64)
	if err != nil {
		t.Fatal(err)
	}
	var grown, taken uint64
	for _, one := range tiers {
		if taken >= 3*bare.GenerationCapacity {
			break
		}
		grown, taken = grown+one.bytes, taken+one.capacity
	}
	if times := float64(grown) / float64(bare.BytesPerPartition); math.Round(times) != 4 {
		t.Errorf("three times the plan takes %.2f times the memory, the README says about four", times)
	}
	at := slices.IndexFunc(measured.Elsewhere, func(one Rival) bool { return strings.HasPrefix(one.Name, "Redis") })
	if at < 0 {
		t.Fatal("measured.json has no Redis")
	}
	redis := measured.Elsewhere[at]
	w.Peak, w.Skew = DefaultPeak, DefaultSkew
	single := func(fpr float64) float64 {
		p, err := filter.SingleSize(w.Elements, fpr)
		if err != nil {
			t.Fatal(err)
		}
		return float64(8*p.Bytes()) / float64(w.Elements)
	}
	for _, want := range []string{
		fmt.Sprintf("%.0f bytes an ID, %.0f with the reserve that `run` plans", bare.BitsPerElement()/8, solve(t, w).BitsPerElement()/8),
		fmt.Sprintf("%.0f bits an ID at 1%%, %.0f at 1 in 10,000", single(1e-2), single(1e-4)),
		fmt.Sprintf("instead of the %.0f of a Redis key", redis.BytesPerID),
		"Three times the plan, all the time, takes about\nfour times the memory",
	} {
		if !strings.Contains(string(readme), want) {
			t.Errorf("README.md does not say %q", want)
		}
	}
}

// What is calculated of the filters that were measured at 2 GB is what is calculated now:
// else they were measured before something changed.
func TestBenchmarksAreOfTheFiltersThatArePlanned(t *testing.T) {
	const memory = 1953125 << 10
	for _, block := range []struct {
		name, file string
		fpr        float64
	}{
		{"engine", "../README.md", 1e-2}, {"engine", "../docs/BENCHMARKS.md", 1e-2}, {"engine-strict", "../docs/BENCHMARKS.md", 1e-4},
	} {
		text, err := os.ReadFile(block.file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "<!-- bench "+block.name+" -->")
		table, _, ends := strings.Cut(rest, "<!-- end bench "+block.name+" -->")
		if !ends || !strings.Contains(table, fmt.Sprintf("--memory %dKiB --fpr %g ", memory>>10, block.fpr)) {
			t.Errorf("%s has no figures of %d bytes at %g", block.file, memory, block.fpr)
			continue
		}
		words := strings.Join(strings.Fields(table), " ")
		for _, layout := range []filter.Layout{filter.Compact, filter.Fast} {
			p, err := ForMemory(Workload{Window: 7 * time.Hour, FPR: block.fpr, Peak: 1, Skew: 1, Partitions: 1, Layout: layout}, memory)
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf(" %s %.2f %s ", FormatBytes(p.Bytes), float64(p.Bytes)/float64(p.Elements), FormatCount(p.Elements))
			if !strings.Contains(words, want) {
				t.Errorf("%s, %s, %v: the table does not have %q", block.file, block.name, layout, want)
			}
		}
	}
}

// The line that size prints is that of the README's first steps, so that it runs there
// as it is.
func TestReadmeRunsTheLineThatIsPrinted(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	oneLine := strings.ReplaceAll(string(readme), " \\\n  ", " ")
	if want := "build/bin/" + exampleRun + " "; !strings.Contains(oneLine, want) {
		t.Errorf("README.md does not have %q", want)
	}
}
