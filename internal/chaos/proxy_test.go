//go:build unix

package main

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// proxied is a client of embedded brokers that knows a proxy's addresses only.
func proxied(t *testing.T) (*proxy, *kgo.Client) {
	t.Helper()
	c := &cluster{}
	if err := c.connect(t.Context(), kafkatest.Fake(t).ListenAddrs()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.client.Close)
	p, err := newProxy(c.brokers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	if err := c.createTopics(t.Context(), 6, "t"); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(p.addresses()...), kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return p, client
}

// write writes one record, and says how that ended.
func write(ctx context.Context, client *kgo.Client, value string) error {
	return client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr()
}

// TestProxy: a client behind it learns no other address, and what it writes and
// reads is unchanged.
func TestProxy(t *testing.T) {
	p, client := proxied(t)
	adm := kadm.NewClient(client)
	var want []string
	for n := range 100 {
		want = append(want, strconv.Itoa(n))
		if err := write(t.Context(), client, want[n]); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for len(got) < len(want) {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("read %q", got)
	}
	brokers, err := adm.ListBrokers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, b := range brokers {
		said[b.Host+":"+strconv.Itoa(int(b.Port))] = true
	}
	for _, c := range adm.FindGroupCoordinators(t.Context(), "g", "h", "i") {
		said[c.Host+":"+strconv.Itoa(int(c.Port))] = true
	}
	for address := range said {
		if !slices.Contains(p.addresses(), address) {
			t.Errorf("a broker is said to be at %s, and the proxy is at %q", address, p.addresses())
		}
	}
}

// TestProxyFaults: each fault is felt, and is over when it is taken back.
func TestProxyFaults(t *testing.T) {
	p, client := proxied(t)
	if err := write(t.Context(), client, "before"); err != nil {
		t.Fatal(err)
	}
	for _, fault := range []struct {
		name        string
		begin, undo func()
	}{
		{"frozen", p.freeze, p.thaw},
		{"cut", p.sever, p.mend},
	} {
		t.Run(fault.name, func(t *testing.T) {
			fault.begin()
			done := make(chan error, 1)
			go func() { done <- write(t.Context(), client, fault.name) }()
			select {
			case err := <-done:
				t.Errorf("a write came through: %v", err)
			case <-time.After(200 * time.Millisecond):
			}
			fault.undo()
			if err := <-done; err != nil {
				t.Errorf("the write failed afterwards: %v", err)
			}
		})
	}
	const delay = 50 * time.Millisecond
	p.slow(delay)
	began := time.Now()
	if err := write(t.Context(), client, "slow"); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < 2*delay { // there and back
		t.Errorf("a write took %v, each frame is %v late", took, delay)
	}
}
