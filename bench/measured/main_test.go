package main

import (
	"math"
	"slices"
	"testing"

	"github.com/streamdedup/streamdedup/sizing"
)

func TestTakeRestore(t *testing.T) {
	t.Parallel()
	var m sizing.Measured
	err := takeRestore([]byte(`from the changelog: 100000000 IDs in 8.862s, 11.3 million a second; 8.7 s of CPU; ready 9.053s after the launch
from a checkpoint of 343 MB that no cache has: in 963ms, a plain read of its file takes 192ms; ready 1.045s after the launch
`), &m)
	if err != nil || m.RestoreIDs != 11.3e6 || math.Abs(m.RestoreBytes-343e6/0.963) > 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if err := takeRestore([]byte("nothing"), &m); err == nil {
		t.Error("nothing is taken for figures")
	}
}

func TestTakeKafka(t *testing.T) {
	t.Parallel()
	var m sizing.Measured
	err := takeKafka([]byte(`{"cases":[{"results":[{"name":"plain copy","median_cpu_ns_per_event":1283},{"name":"exactly-once dedup","median_cpu_ns_per_event":1604}]}]}`), &m)
	if err != nil || m.KafkaNS != 1604 {
		t.Errorf("%+v, %v", m, err)
	}
	if err := takeKafka([]byte(`{"cases":[{"results":[]}]}`), &m); err == nil {
		t.Error("nothing is taken for a figure")
	}
}

func TestTakePeers(t *testing.T) {
	t.Parallel()
	results := `{"peer":"ring","bytes_per_id":2}
{"peer":"redis","bytes_per_id":107.04}
{"peer":"redis","bytes_per_id":null}
{"peer":"redis","bytes_per_id":120}
{"peer":"redis","bytes_per_id":90}
`
	m := sizing.MeasuredHere()
	m.Elsewhere = slices.Clone(m.Elsewhere)
	if err := takePeers([]byte(results), &m); err != nil || m.Elsewhere[0].BytesPerID != 107 {
		t.Errorf("took %+v, %v", m.Elsewhere[0], err)
	}
	for _, bad := range []string{"", `{"peer":"redis","bytes_per_id":null}`, `{"peer":`} {
		if err := takePeers([]byte(bad), &m); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
