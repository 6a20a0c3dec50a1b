package pipeline

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A disk that hangs keeps the process for a while only, and one that is slow has its
// time.
func TestEngineLeavesAHungDiskBehind(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes []time.Duration // of each checkpoint that is being written
		want  time.Duration
		hung  bool
	}{
		{"nothing to write", nil, 0, false},
		{"slow", []time.Duration{closeTimeout / 2, closeTimeout - time.Second}, closeTimeout - time.Second, false},
		{"hung", []time.Duration{time.Second, 5 * closeTimeout, 5 * closeTimeout}, closeTimeout, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, text := logged()
				e := &Engine{cfg: EngineConfig{Logger: log}}
				for _, takes := range c.takes {
					w := &bodyWriter{done: make(chan struct{})}
					time.AfterFunc(takes, func() { close(w.done) })
					e.left = append(e.left, w)
				}
				began := time.Now()
				e.awaitDisk()
				if took := time.Since(began); took != c.want {
					t.Errorf("it took %v, want %v", took, c.want)
				}
				if said := strings.Contains(text.String(), "level=WARN"); said != c.hung {
					t.Errorf("it warned: %v, want %v\n%s", said, c.hung, text)
				}
			})
		})
	}
}
