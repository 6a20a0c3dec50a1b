package kafkaio

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// A topic of our own is made as it must be; one with other settings is an error
// that names what is found and what is expected, and corrected on request.
func TestInternalTopic(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		adm := kadm.NewClient(s.client())
		name := s.cfg.Group + "-made"
		t.Cleanup(func() { _, _ = adm.DeleteTopic(ctx(t), name) })
		want := internalTopic{
			name: name, what: "changelog", partitions: 3, exact: true, settings: anyTime(kept()), leastBytes: 2 << 20,
		}
		for range 2 { // made, then found
			if err := ensureInternal(ctx(t), adm, want, false); err != nil {
				t.Fatal(err)
			}
		}
		// Partitions are added on request, and never taken away.
		want.partitions = 6
		err := ensureInternal(ctx(t), adm, want, false)
		if err == nil || !strings.Contains(err.Error(), "has 3 partitions, want 6") {
			t.Errorf("a topic with 3 partitions instead of 6: %v", err)
		}
		if err := ensureInternal(ctx(t), adm, want, true); err != nil {
			t.Errorf("add partitions: %v", err)
		}
		want.partitions = 3
		err = ensureInternal(ctx(t), adm, want, true)
		if err == nil || !strings.Contains(err.Error(), "has 6 partitions, want 3") {
			t.Errorf("a topic with 6 partitions instead of 3: %v", err)
		}
		want.exact = false
		if err := ensureInternal(ctx(t), adm, want, false); err != nil {
			t.Errorf("any number of partitions: %v", err)
		}

		hour, size := "3600000", "1000"
		want.name = kafkatest.Topic(t, brokers, 6, map[string]*string{"retention.ms": &hour, "max.message.bytes": &size})
		err = ensureInternal(ctx(t), adm, want, false)
		for _, text := range []string{"retention.ms is 3600000, want -1", "max.message.bytes is 1000, want at least 2097152"} {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("a topic with wrong settings: %v, want %q in it", err, text)
			}
		}
		if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Hint(), "--fix-topics") {
			t.Errorf("%v has no hint that names --fix-topics", err)
		}
		for _, fix := range []bool{true, false} {
			if err := ensureInternal(ctx(t), adm, want, fix); err != nil {
				t.Errorf("correct the settings, then check them: %v", err)
			}
		}
	})
}
