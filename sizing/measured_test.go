package sizing

import (
	"math"
	"testing"

	"github.com/streamdedup/streamdedup/filter"
)

func TestMeasured_EventNS(t *testing.T) {
	t.Parallel()
	m := Measured{Engine: []EngineSpeed{
		{"sliced", 2, 1 << 20, 20}, {"sliced", 2, 1 << 30, 60},
		{"sliced", 4, 1 << 20, 30}, {"sliced", 4, 1 << 30, 100},
		{"classic", 26, 1 << 30, 2000},
	}}
	f := func(kind Kind, lines float64, bytes uint64, want float64) {
		t.Helper()
		if got := m.eventNS(kind, lines, bytes); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v, %g lines, %d bytes: %g ns, want %g", kind, lines, bytes, got, want)
		}
	}
	f(Sliced, 2, 1<<20, 20)
	f(Sliced, 2, 1<<25, 40) // half way by the logarithm
	f(Sliced, 3, 1<<30, 80) // half way by the lines
	f(Sliced, 2, 1, 20)
	f(Sliced, 9, 1<<40, 100)
	f(Classic, 40, 1<<20, 2000)
}

// What reports say of speed and restores has a machine, and all that it is made from.
func TestMeasured_IsComplete(t *testing.T) {
	t.Parallel()
	m := MeasuredHere()
	if m.Machine == "" || m.Go == "" || m.Command == "" || m.KafkaNS <= 0 || m.RestoreIDs <= 0 || m.RestoreBytes <= 0 {
		t.Errorf("measured.json lacks a figure: %+v", m)
	}
	for _, one := range m.Elsewhere {
		if one.Name == "" || one.BytesPerID <= 0 || one.Source == "" {
			t.Errorf("elsewhere: %+v", one)
		}
	}
	w := billion
	for _, w.Kind = range []Kind{Sliced, Classic} {
		for _, w.Layout = range []filter.Layout{filter.Compact, filter.Fast} {
			for _, w.FPR = range []float64{1e-2, 1e-4, 1e-6} {
				s := m.speed(solve(t, w), 1<<30)
				if !(s.Engine > s.Kafka && s.Kafka > 1000) {
					t.Errorf("%v %v at %g: %+v", w.Kind, w.Layout, w.FPR, s)
				}
			}
		}
	}
}
