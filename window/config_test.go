package window

import (
	"strings"
	"testing"
	"time"
)

func TestConfigValidateReportsEveryFault(t *testing.T) {
	err := Config{Span: 6 * time.Millisecond, MaxAhead: -1, OnFull: 9, LearnLate: true, StopAtLate: true}.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"Span is 6ms", "MaxAhead is -1ns", "GenerationCapacity is 0", "OnFull is OnFull(9)", "StopAtLate excludes"} {
		if !strings.Contains(err.Error(), "window.Config."+field) {
			t.Errorf("%q does not name %s", err, field)
		}
	}
	for _, c := range []Config{
		{Span: 7*time.Millisecond + 1, GenerationCapacity: 1},
		{Span: 7 * time.Millisecond, GenerationCapacity: 1, MaxAhead: time.Microsecond},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "whole milliseconds") {
			t.Errorf("%+v: error %v", c, err)
		}
	}
	if _, err := New(Config{}, newExactSet()); err == nil {
		t.Error("New takes the zero Config")
	}
	if err := (Config{Span: 7 * time.Millisecond, GenerationCapacity: 1}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestSliceAndMaxAhead(t *testing.T) {
	for _, c := range []struct {
		span, maxAhead       time.Duration
		wantSlice, wantAhead int64
	}{
		{7 * time.Millisecond, 0, 1, 1},
		{8 * time.Millisecond, 0, 2, 2},
		{14 * time.Millisecond, 0, 2, 2},
		{time.Minute, 0, 8572, 8572},
		{35 * time.Minute, 0, 300_000, 300_000},
		{24 * time.Hour, 0, 12_342_858, 300_000},
		{24 * time.Hour, time.Hour, 12_342_858, 3_600_000},
	} {
		cfg := Config{Span: c.span, MaxAhead: c.maxAhead}
		if slice, ahead := cfg.Slice(), cfg.maxAheadMillis(); slice != c.wantSlice || ahead != c.wantAhead {
			t.Errorf("span %v: slice %d, max ahead %d, want %d and %d", c.span, slice, ahead, c.wantSlice, c.wantAhead)
		}
	}
}

func TestParseOnFull(t *testing.T) {
	for _, o := range []OnFull{PassWhenFull, FailWhenFull, GrowWhenFull} {
		if got, err := ParseOnFull(o.String()); got != o || err != nil {
			t.Errorf("parse %q: %v, %v", o, got, err)
		}
	}
	for text, want := range map[string]string{"shrink": "want", "Pass": "want", "": "want"} {
		if _, err := ParseOnFull(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse %q: error %v, want %q", text, err, want)
		}
	}
}

func TestStrings(t *testing.T) {
	for want, got := range map[string]string{
		"none":                              Marks(0).String(),
		"late+unlearned":                    (MarkUnlearned | MarkLate).String(),
		"late+ahead+no_time+jump+unlearned": Marks(31).String(),
		"jump+Marks(0xc0)":                  (MarkJump | 0xc0).String(),
		"full":                              StopFull.String(),
		"late":                              StopLate.String(),
		"Stop(7)":                           Stop(7).String(),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := StopNone.String(); got != "none" {
		t.Errorf("got %q", got)
	}
}
