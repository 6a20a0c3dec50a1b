package sizing

import (
	"fmt"
	"os"
	"strings"
	"testing"

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
