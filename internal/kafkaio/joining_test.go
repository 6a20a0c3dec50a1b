package kafkaio

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// A group admits nobody before its dead members' sessions are over. Who is told to stop
// meanwhile does not wait for that, and who looks into the log is told of it.
func TestCloseWhileTheGroupAdmitsNobody(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Fake(t, kfake.NumBrokers(1))
	s := newScene(t, cluster.ListenAddrs(), 1)
	asked, answer := make(chan struct{}), make(chan struct{})
	defer close(answer)
	var once sync.Once
	cluster.ControlKey(kmsg.NewPtrJoinGroupRequest().Key(), func(kmsg.Request) (kmsg.Response, error, bool) {
		once.Do(func() { close(asked) })
		cluster.SleepControl(func() { <-answer })
		return nil, nil, false
	})
	heard := s.listen()
	session, err := Open(ctx(t), s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	session.member.Load().polled = time.Now().Add(-admissionPatience)
	if _, err := session.Poll(ctx(t), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	closing, cancel := context.WithTimeout(ctx(t), 100*time.Millisecond)
	defer cancel()
	if err := session.Close(closing, true); err != nil {
		t.Error(err)
	}
	if heard.line("level=INFO", "the group has not admitted us yet", "session_timeout=6s") == "" ||
		heard.line("level=WARN", "going without the group's answer") == "" {
		t.Errorf("nothing is said of it:\n%s", &heard.text)
	}
}
