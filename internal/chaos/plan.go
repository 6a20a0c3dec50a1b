//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// kind is what a fault does.
type kind int

const (
	kill   kind = iota // kill -9 of an instance, and its restart
	pause              // SIGSTOP beyond the session time-out, then SIGCONT
	term               // SIGTERM, and its restart
	join               // one more instance for a while
	slow               // every frame of an instance's connections is late
	freeze             // an instance's connections stand still, then go on
	cut                // an instance's connections are cut
	crash              // kill -9 of a broker, and its return
	kinds
)

var kindNames = [kinds]string{
	"kill -9 of an instance", "SIGSTOP of an instance", "SIGTERM of an instance", "a new instance",
	"slow connections", "frozen connections", "cut connections", "kill -9 of a broker",
}

func (k kind) String() string { return kindNames[k] }

// onNetwork is whether a fault is the network's; an instance can have one of
// those and one of its own at the same time.
func (k kind) onNetwork() bool { return k == slow || k == freeze || k == cut }

// fault is one of the plan.
type fault struct {
	kind kind
	// after is the time since the fault before.
	after time.Duration
	// target is an instance or a broker, counted from zero.
	target int
	// lasts is how long the instance, the broker or the network is away.
	lasts time.Duration
	// delay is that of a slow network.
	delay time.Duration
	// hard is whether a new instance leaves by kill -9.
	hard bool
}

func (f fault) String() string {
	return fmt.Sprintf("%v, target %d, for %v", f.kind, f.target+1, f.lasts.Round(time.Millisecond))
}

// planFaults fills a time with faults: every kind comes once before one comes
// again. It depends on its arguments alone.
func planFaults(seed uint64, length time.Duration, instances, brokers int) []fault {
	random := rand.New(rand.NewPCG(seed, 1))
	between := func(from, to time.Duration) time.Duration { return from + time.Duration(random.Int64N(int64(to-from))) }
	var plan []fault
	for elapsed := time.Duration(0); ; {
		for _, k := range random.Perm(int(kinds)) {
			f := fault{
				kind: kind(k), after: between(2*time.Second, 6*time.Second), target: random.IntN(instances),
				lasts: between(lasting[k][0], lasting[k][1]), delay: between(20*time.Millisecond, 400*time.Millisecond), hard: random.IntN(2) == 0,
			}
			if f.kind == crash {
				if brokers == 0 {
					continue
				}
				f.target = random.IntN(brokers)
			}
			if elapsed += f.after; elapsed > length {
				return plan
			}
			plan = append(plan, f)
		}
	}
}

// lasting is how long the faults of each kind last: less than the session's
// time-out, and more; a paused instance is always missed.
var lasting = [kinds][2]time.Duration{
	kill:   {0, sessionTimeout + 2*time.Second},
	pause:  {sessionTimeout + time.Second, 2 * sessionTimeout},
	term:   {0, 5 * time.Second},
	join:   {5 * time.Second, 20 * time.Second},
	slow:   {3 * time.Second, 10 * time.Second},
	freeze: {time.Second, 2 * txnTimeout},
	cut:    {time.Millisecond, sessionTimeout + 2*time.Second},
	crash:  {time.Second, 12 * time.Second},
}
