package main

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// mirrored is the same stream on another cluster: topics of the same names, in which the
// same records have other offsets, and nothing of the group.
func (r *remembering) mirrored(t *testing.T) *remembering {
	t.Helper()
	m := *r
	m.brokers = kafkatest.Fake(t, kfake.ClusterID("mirror")).ListenAddrs()
	if _, err := kadm.NewClient(client(t, m.brokers)).CreateTopic(t.Context(), 1, -1, nil, m.in); err != nil {
		t.Fatal(err)
	}
	m.write(0, "b", "c") // a was deleted before it was mirrored
	return &m
}

// TestCase_OPS_12: what is remembered belongs to a cluster and its topics. After a
// fail-over to a mirror the old offsets mean nothing there, and neither do checkpoints,
// also in the same folder under the same names. What was exported before comes along.
func TestCase_OPS_12(t *testing.T) {
	r := newRemembering(t, 1)
	flags := []string{"--hash-seed", "7", "--state-dir", r.dir}
	r.write(0, "a", "b", "c")
	r.checkpointed("--hash-seed", "7")
	r.checkCame("a", "b", "c")
	exported, _ := r.must("", "export")

	t.Run("with nothing brought along", func(t *testing.T) {
		m := r.mirrored(t)
		m.write(0, "d")
		said := m.run(flags...)
		m.checkCame("b", "c", "d")
		if strings.Contains(said, "from=checkpoint") {
			t.Errorf("the other cluster's checkpoint was taken:\n%s", said)
		}
		m.write(0, "b", "e")
		m.run(flags...)
		m.checkCame("b", "c", "d", "e")
	})
	t.Run("with what was exported", func(t *testing.T) {
		m := r.mirrored(t)
		m.must(exported, "import", "--key", "json:id", "--hash-seed", "7", "-")
		m.write(0, "a", "d", "b")
		m.run(flags...)
		m.checkCame("d")
	})
}
