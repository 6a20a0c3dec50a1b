package e2e

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// TestCrashes kills the process again and again in the middle of its work, and
// starts it anew at once: a reader of committed records sees each event once.
// 20 kills in the long run.
func TestCrashes(t *testing.T) {
	const events, copies = 300_000, 30_000
	kills := 5
	if long() {
		kills = 20
	}
	w := clicks(t, 10, false)
	w.Events, w.Copies = events, copies
	s := newStream(t, w)
	random := rand.New(rand.NewPCG(w.Seed, 1))
	args := []string{"--capacity", "10M", "--fpr", "1e-6", "--session-timeout", "6s", "--commit-interval", "50ms"}

	left := int64(w.Records())
	for n := range kills {
		p := s.run(t, args...)
		// Each process gets about its share of what is left done, and dies at any
		// point of a transaction of 50 ms.
		share := left / int64(kills+1-n)
		s.awaitLag(t, left-share/2-random.Int64N(share+1))
		time.Sleep(time.Duration(random.IntN(50_000)) * time.Microsecond)
		p.kill(t)
		var err error
		if left, _, err = s.broker.Lag(t.Context(), s.group, s.in); err != nil {
			t.Fatal(err)
		}
		t.Logf("killed with %d of %d records to go", left, w.Records())
	}
	p := s.run(t, args...)
	s.awaitLag(t, 0)
	p.stop(t)
	s.verify(t, 1e-6)
	s.checkOnce(t, 0)
}

func itoa(n int) string { return strconv.Itoa(n) }

// lastLine is the last line of a text.
func lastLine(text []byte) []byte {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return lines[len(lines)-1]
}
