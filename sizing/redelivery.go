package sizing

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Redelivery is how late a copy of an event may come, and the window that takes.
type Redelivery struct {
	Source  string        // as it was asked for
	Says    string        // what its documentation says, and where
	Horizon time.Duration // from the first delivery to the last
	Window  time.Duration // that catches the last copy
}

// MarshalJSON writes lengths of time as [ParseDuration] reads them.
func (r Redelivery) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{
		"source": r.Source, "says": r.Says, "horizon": FormatDuration(r.Horizon), "window": FormatDuration(r.Window),
	})
}

// Schedule is how a source delivers again, by its own documentation.
type Schedule struct {
	Name    string
	Horizon time.Duration
	Says    string
}

const day = 24 * time.Hour

// Schedules are the sources that [ParseRedelivery] knows by name. Sources change; the
// page behind each says what holds today.
var Schedules = []Schedule{
	{"stripe", 3 * day, "live mode: up to 3 days, with exponential backoff (docs.stripe.com/webhooks)"},
	{"shopify", 4 * time.Hour, "8 times over 4 hours (shopify.dev, since September 2024)"},
	{"sendgrid", day, "event webhook: up to 24 hours after the event (docs.sendgrid.com)"},
	{"github", 3 * day, "not by itself; by hand or by API within 3 days (docs.github.com/webhooks)"},
	{"svix", sum(5*time.Second, 5*time.Minute, 30*time.Minute, 2*time.Hour, 5*time.Hour, 10*time.Hour, 10*time.Hour),
		"5s, 5m, 30m, 2h, 5h, 10h and 10h after one another (docs.svix.com/retries)"},
	{"sqs", 14 * day, "until a message is deleted or its retention ends: 4 days by default, 14 at most (docs.aws.amazon.com)"},
	{"eventbridge", day, "up to 185 times in 24 hours (docs.aws.amazon.com)"},
	{"eventgrid", day, "up to 30 times in 24 hours (learn.microsoft.com)"},
	{"pubsub", 7 * day, "until acknowledged or retention ends: 7 days by default, 31 at most (cloud.google.com)"},
	{"kafka", 7 * day, "a consumer that goes back reads what is retained: log.retention.hours is 168 by default (kafka.apache.org)"},
	{"kafka-producer", 2 * time.Minute, "a producer without idempotence: until delivery.timeout.ms, 2 minutes by default (kafka.apache.org)"},
}

// rewind is the prefix of a consumer's possible way back.
const rewind = "rewind:"

// ParseRedelivery reads how a source delivers again: the name of one of [Schedules],
// its own delays one after the other ("10s,1m,5m,1h"), or how far back a consumer can
// be reset ("rewind:7d": the retention of its topic).
func ParseRedelivery(s string) (Redelivery, error) {
	if i := slices.IndexFunc(Schedules, func(one Schedule) bool { return one.Name == s }); i >= 0 {
		return redelivery(s, Schedules[i].Says, Schedules[i].Horizon)
	}
	if back, ok := strings.CutPrefix(s, rewind); ok {
		horizon, err := ParseDuration(back)
		if err != nil {
			return Redelivery{}, fmt.Errorf("parse redelivery %q: %w", s, err)
		}
		return redelivery(s, "a consumer that is reset reads again what its topic retains", horizon)
	}
	var horizon time.Duration
	for _, text := range strings.Split(s, ",") {
		delay, err := ParseDuration(strings.TrimSpace(text))
		if err != nil {
			// What was wrong with it as a delay would mislead who meant a name.
			return Redelivery{}, fmt.Errorf("parse redelivery %q: %q is neither a source (%s), nor a delay as in 10s,1m,1h, nor %s7d", s, text, scheduleNames(), rewind)
		}
		if horizon += delay; horizon < 0 {
			return Redelivery{}, fmt.Errorf("parse redelivery %q: the delays add up to more than 292 years", s)
		}
	}
	return redelivery(s, "these delays after one another", horizon)
}

func scheduleNames() string {
	names := make([]string, len(Schedules))
	for i, one := range Schedules {
		names[i] = one.Name
	}
	return strings.Join(names, ", ")
}

// redelivery has a window that is a tenth longer than the horizon, in whole minutes or,
// from 10 hours on, hours: a copy is late by what it was queued for besides, and
// the window is counted from one reading to the other.
func redelivery(source, says string, horizon time.Duration) (Redelivery, error) {
	unit := time.Minute
	if horizon >= 10*time.Hour {
		unit = time.Hour
	}
	window := horizon + horizon/10
	if rest := window % unit; rest != 0 {
		window += unit - rest
	}
	if window < 0 {
		return Redelivery{}, fmt.Errorf("parse redelivery %q: its window, a tenth more than that, is more than 292 years", source)
	}
	return Redelivery{Source: source, Says: says, Horizon: horizon, Window: window}, nil
}

// sum adds delays up.
func sum(delays ...time.Duration) (total time.Duration) {
	for _, d := range delays {
		total += d
	}
	return total
}
