package filter_test

import (
	"os"
	"testing"

	"github.com/streamdedup/streamdedup/filter/internal/geometry"
)

// GEOMETRY.md says which of its rows the layouts take. What was timed there is the
// generator's.
func TestGeometryTableIsCurrent(t *testing.T) {
	doc, err := os.ReadFile("GEOMETRY.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := geometry.Table(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := geometry.WithoutMeasurements(string(doc)); got != want {
		t.Errorf("GEOMETRY.md is not what Size chooses, run go run geometry_gen.go here; it says\n%s\nSize and the model give\n%s", got, want)
	}
}
