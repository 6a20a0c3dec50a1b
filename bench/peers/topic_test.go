package peers

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/streamdedup/streamdedup/bench"
)

// TestRunTopic lets streamdedup run twice, as in two rounds, on so few records that a
// single commit has them all.
func TestRunTopic(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "./cmd/streamdedup")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	broker, err := bench.EmbeddedBroker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	s := Setup{Events: testRecords, Seed: testSeed, Dir: dir, Bin: dir, Brokers: broker.Addresses(), Topic: "in"}
	if err := Fill(t.Context(), s.Brokers, s.Topic, s.Events, s.Seed); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"run-eos", "run-alo", "run-eos", "run-alo"} {
		r, err := s.Run(t.Context(), name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r.Events != s.Events || r.Seconds <= 0 || *r.Missed != 0 || *r.Lost > 1 || *r.BytesPerID <= 0 {
			t.Errorf("%s: %+v: missed %d, lost %d, %g bytes per ID, want all of %d records judged", name, r, *r.Missed, *r.Lost, *r.BytesPerID, s.Events)
		}
	}
}
