package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// put writes values to partition 0 of a topic, all of one time: a record and its
// copy in the output have the same.
func put(t *testing.T, brokers []string, topic string, values ...string) {
	t.Helper()
	cl := client(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for _, v := range values {
		r := &kgo.Record{Topic: topic, Value: []byte(v), Timestamp: time.UnixMilli(1_764_000_000_000)}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// open leaves a transaction of one record open in partition 0 of a topic, and
// returns what ends it: the broker does not, however long the test takes.
func open(t *testing.T, brokers []string, topic, value string) func(kgo.TransactionEndTry) {
	t.Helper()
	cl := client(t, brokers, kgo.TransactionalID(topic), kgo.TransactionTimeout(10*time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return func(how kgo.TransactionEndTry) {
		t.Helper()
		if err := cl.EndTransaction(t.Context(), how); err != nil {
			t.Fatal(err)
		}
	}
}

// What is written to the output behind an open transaction is no absent copy: the
// audit waits for it, and sees both topics as they were when it began.
func TestVerifyWaitsForAnOpenTransactionOfTheOutput(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in, out := kafkatest.Topic(t, brokers, 1, nil), kafkatest.Topic(t, brokers, 1, nil)
	a, b, c := `{"id":"a"}`, `{"id":"b"}`, `{"id":"c"}`
	put(t, brokers, in, a, b, a)
	put(t, brokers, out, a)
	end := open(t, brokers, out, "of a process that was killed") // offset 1
	put(t, brokers, out, b)

	var stdout bytes.Buffer
	verify := &process{code: make(chan int, 1)}
	go func() {
		verify.code <- run(t.Context(), []string{"verify", "--brokers", strings.Join(brokers, ","), "--in", in, "--out", out,
			"--key", "json:id", "-o", "json"}, strings.NewReader(""), &stdout, &verify.stderr)
	}()
	verify.line(t, `waiting up to 1m30s for the (transaction) that is open in partition 0 of "`+out+`" at offset 1\n`)
	put(t, brokers, in, c)
	put(t, brokers, out, c)
	end(kgo.TryAbort)
	if code := <-verify.code; code != exitOK {
		t.Fatalf("exit code %d, stderr:\n%s%s", code, verify.stderr.String(), &stdout)
	}
	if o := object(t, stdout.String()); o["in"] != 3.0 || o["out"] != 2.0 || o["duplicate"] != 1.0 {
		t.Errorf("the report is %v, want 3 in, 2 out, 1 duplicate", o)
	}
}

// Behind an open transaction of the input nothing was read, and so nothing is
// absent. The audit says where it ends.
func TestVerifyEndsAtAnOpenTransactionOfTheInput(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in, out := kafkatest.Topic(t, brokers, 1, nil), kafkatest.Topic(t, brokers, 1, nil)
	put(t, brokers, in, `{"id":"a"}`, `{"id":"a"}`)
	end := open(t, brokers, in, `{"id":"b"}`)
	defer end(kgo.TryAbort)
	put(t, brokers, in, `{"id":"c"}`)
	put(t, brokers, out, `{"id":"a"}`)

	var stderr lockedBuffer
	code := run(t.Context(), []string{"verify", "--brokers", strings.Join(brokers, ","), "--in", in, "--out", out, "--key", "json:id"},
		strings.NewReader(""), io.Discard, &stderr)
	want := `the audit of partition 0 ends at offset 2 of "` + in + `": a transaction is open there`
	if code != exitOK || !strings.Contains(stderr.String(), want) {
		t.Errorf("exit code %d, stderr:\n%swant 0 and %s", code, stderr.String(), want)
	}
}

// A range without a record shows nothing: it is no success.
func TestVerifyOfNothingFails(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in, out := kafkatest.Topic(t, brokers, 1, nil), kafkatest.Topic(t, brokers, 1, nil)
	put(t, brokers, in, `{"id":"a"}`)
	put(t, brokers, out, `{"id":"a"}`)
	for _, given := range [][]string{{"--from", "latest"}, {"--to", "earliest"}} {
		var stderr lockedBuffer
		code := run(t.Context(), append([]string{"verify", "--brokers", strings.Join(brokers, ","), "--in", in, "--out", out, "--key", "json:id"}, given...),
			strings.NewReader(""), io.Discard, &stderr)
		if want := `nothing to audit: topic "` + in + `" has no record`; code != exitFailed || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: exit code %d, stderr:\n%swant 1 and %s", given, code, stderr.String(), want)
		}
	}
}

// A failed audit says what else than the processor may be wrong.
func TestVerifyHints(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in, out := kafkatest.Topic(t, brokers, 1, nil), kafkatest.Topic(t, brokers, 1, nil)
	put(t, brokers, in, `{"id":"a"}`, `{"id":"b"}`, `{"id":"d"}`, `{"id":"e"}`, `{"id":"a","again":true}`)
	put(t, brokers, out, `{"id":"a"}`, `{"id":"a","again":true}`, `{"id":"c"}`)
	code, _, stderr := exec("", "verify", "--brokers", strings.Join(brokers, ","), "--in", in, "--out", out, "--key", "json:id")
	if code != exitFailed {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{"error: audit failed: ", "hint: --key, --time", "hint: absent: ", "--allow-id FILE", "hint: missed: ", "hint: foreign: "} {
		if !strings.Contains(stderr, want) {
			t.Errorf("verify does not say %q:\n%s", want, stderr)
		}
	}
	if strings.Contains(stderr, "hint: extra") {
		t.Errorf("verify explains what it has not found:\n%s", stderr)
	}
}
