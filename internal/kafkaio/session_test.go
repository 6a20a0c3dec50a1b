package kafkaio

import (
	"testing"
)

func TestSessionEmitsFirstCopiesOnce(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 3)
		s.unique(200)
		s.again()
		r := s.start()
		r.judged(1200)
		s.unique(100)
		s.again()
		r.judged(1200 + 300 + 900)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}
