package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// Run says what it is going to take in the words of size, and as size's JSON names it in
// the log: whoever planned with the one must know the other.
func TestRunAnnouncesItsPlanAsSizePrintsIt(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 2, nil)
	_, table, _ := exec("", "size", "--elements", "10k", "--peak", "2", "--skew", "1.25", "--partitions", "2")
	_, figures, _ := exec("", "size", "--elements", "10k", "--peak", "2", "--skew", "1.25", "--partitions", "2", "-o", "json")
	table, _, _ = strings.Cut(table, "\nThis plan:")
	var size struct {
		Bytes   uint64 `json:"bytes"`
		Process uint64 `json:"process_bytes"`
	}
	if err := json.Unmarshal([]byte(figures), &size); err != nil {
		t.Fatal(err)
	}

	text := start(t, runArgs(brokers, in, in+"-text")...)
	text.line(t, `(partition restored)`)
	if code := text.end(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	if got := text.stderr.String(); !strings.Contains(got, table) {
		t.Errorf("stderr has not what size says:\n%s\nbut:\n%s", table, got)
	}

	object := start(t, runArgs(brokers, in, in+"-json", "--log-format", "json")...)
	var plan struct {
		Bytes   uint64 `json:"bytes"`
		Process uint64 `json:"process_bytes"`
	}
	if err := json.Unmarshal([]byte(object.line(t, `(?m)^(.*"msg":"plan".*)$`)), &plan); err != nil {
		t.Fatal(err)
	}
	if plan != size || plan.Bytes == 0 || plan.Process <= plan.Bytes {
		t.Errorf("the log says %+v, size %+v", plan, size)
	}
	if code := object.end(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	for line := range strings.Lines(object.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line that is no JSON: %s", line)
		}
	}
}

// What the user says of the heap stands.
func TestRunLeavesGOMEMLIMITAlone(t *testing.T) {
	if _, known := machineMemory(); !known {
		t.Skip("the memory of this machine is not known, so no limit is set")
	}
	for _, given := range []string{"", "3GiB"} {
		t.Setenv("GOMEMLIMIT", given)
		brokers := kafkatest.Fake(t).ListenAddrs()
		in := kafkatest.Topic(t, brokers, 1, nil)
		p := start(t, runArgs(brokers, in, in+"-out")...)
		p.line(t, `(partition restored)`)
		if code := p.end(); code != exitOK {
			t.Fatalf("exit code %d", code)
		}
		if got := strings.Contains(p.stderr.String(), "memory_limit="); got != (os.Getenv("GOMEMLIMIT") == "") {
			t.Errorf("GOMEMLIMIT=%q: a limit is set: %v", given, got)
		}
	}
}
