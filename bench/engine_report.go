package bench

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/streamdedup/streamdedup/sizing"
)

// EngineReport is the result of [RunEngine]. Its JSON names are a contract.
type EngineReport struct {
	Environment
	// RandomLineNS is the time to read, change and write one line of 64 bytes at a
	// random place of as much memory, in a plain loop.
	RandomLineNS float64        `json:"random_line_ns"`
	Results      []EngineResult `json:"results"`
}

// EngineResult is what was measured of one set.
type EngineResult struct {
	Name            string  `json:"name"`
	Filter          string  `json:"filter"`
	Layout          string  `json:"layout"`
	FPR             float64 `json:"fpr"`
	Bytes           uint64  `json:"bytes"`
	NSPerEvent      float64 `json:"ns_per_event"`
	EventsPerSecond float64 `json:"events_per_second"`
	BytesPerID      float64 `json:"bytes_per_id"`
	// IDs are those of a full window, Events those measured, and Generations how
	// many generations these filled. Much less than one has not paid for all the
	// cleaning that its rotation made, or has paid for it twice.
	IDs         uint64  `json:"ids"`
	Events      uint64  `json:"events"`
	Generations float64 `json:"generations"`
}

// WriteText prints the report for people.
func (r EngineReport) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "One core, hash of the ID, window, journal and commits included; 90%% new IDs, full filters.\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tns/event\tevents/s\trandom lines\tmemory\tbytes/ID\tIDs\tgenerations measured")
	for _, x := range r.Results {
		fmt.Fprintf(t, "%s\t%.1f\t%s\t%.1f\t%s\t%.2f\t%s\t%.2f\n", x.Name, x.NSPerEvent, sizing.FormatCount(uint64(x.EventsPerSecond)),
			x.NSPerEvent/r.RandomLineNS, sizing.FormatBytes(x.Bytes), x.BytesPerID, sizing.FormatCount(x.IDs), x.Generations)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nA random line of 64 bytes, read, changed and written, takes %.1f ns here.\n", r.RandomLineNS)
	return r.Environment.writeText(w)
}

func (e Environment) writeText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s, %s, seed %d\n%s\n", e.Machine, e.Go, e.Seed, e.Command)
	return err
}
