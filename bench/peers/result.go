package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// What a peer does; figures compare within one of these.
const (
	InMemory     = "memory" // records in memory, a verdict for each
	TopicToTopic = "topic"
	FileToFile   = "file"
)

// Result is what one run of one peer measured, and one line of run.sh's output.
type Result struct {
	Peer    string `json:"peer"`
	Version string `json:"version"`
	What    string `json:"what"`
	Round   int    `json:"round"`
	// Events that Seconds and CPUSeconds are for.
	Events  int     `json:"events"`
	Seconds float64 `json:"seconds"`
	// CPUSeconds are those of the peer's own processes, a server's included, a
	// Kafka broker's not.
	CPUSeconds      float64 `json:"cpu_seconds"`
	EventsPerSecond float64 `json:"events_per_second"`
	CPUNSPerEvent   float64 `json:"cpu_ns_per_event"`
	// BytesPerID is what remembering takes; the note says what is in it.
	BytesPerID *float64 `json:"bytes_per_id"`
	// Missed are the copies that came out, Lost the events that did not.
	Missed *uint64 `json:"missed"`
	Lost   *uint64 `json:"lost"`
	Note   string  `json:"note"`
}

// measured fills the figures that follow from each other.
func (r *Result) measured(events int, took, cpu time.Duration) {
	r.Events, r.Seconds, r.CPUSeconds = events, took.Seconds(), cpu.Seconds()
	r.EventsPerSecond = float64(events) / took.Seconds()
	r.CPUNSPerEvent = float64(cpu.Nanoseconds()) / float64(events)
}

// remembers says how many bytes hold so many IDs.
func (r *Result) remembers(bytes uint64, ids int) {
	perID := float64(bytes) / float64(ids)
	r.BytesPerID = &perID
}

// judged records what an oracle said.
func (r *Result) judged(missed, lost uint64, err error) error {
	r.Missed, r.Lost = &missed, &lost
	return err
}

// ReadResults reads lines of results.
func ReadResults(r io.Reader) ([]Result, error) {
	var results []Result
	for dec := json.NewDecoder(r); ; {
		var one Result
		if err := dec.Decode(&one); errors.Is(err, io.EOF) {
			return results, nil
		} else if err != nil {
			return nil, fmt.Errorf("read result %d: %w", len(results)+1, err)
		}
		results = append(results, one)
	}
}
