package pipeline

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// anyRecord is a record of a few IDs, spelled and damaged in many ways.
func anyRecord(rng *rand.Rand, now int64) Record {
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	id := pick("1", `"1"`, `"\u0031"`, `""`, "null", "[1]", "true", `"a`, "2", `"x-2"`)
	value := pick(`{"n":7,"id":`+id+`,"at":1700000000}`, `{"id":`+id+`}`, `{`, ``, `{"a":{"id":`+id+`}}`, `[]`)
	r := Record{Key: []byte(pick("", "k", "l")), Value: []byte(value), Time: now + rng.Int64N(5000) - 2500}
	switch rng.IntN(10) {
	case 0:
		r.Value = nil
	case 1:
		r.Time = -1
	}
	for range rng.IntN(4) {
		r.Headers = append(r.Headers, Header{Name: pick("id", "other"), Value: []byte(pick("", "1", "2"))})
	}
	return r
}

// Outcomes are the same whether the shard finds the IDs or an Identifier has.
func TestIdentifierChangesNoOutcome(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 20))
	for _, specs := range []string{"key", "value", "header:id", "json:id", "json:/a/id", "json:id header:id", "key json:a.id"} {
		for _, clock := range []string{"record", "arrival", "json:at", TimeNone} {
			change := func(c *Config) {
				c.Keys, c.Time, c.Diverts = strings.Fields(specs), clock, true
				c.OnInvalid, c.OnDuplicate = Divert, TagDuplicates
			}
			alone, helped := shardOf(t, change), shardOf(t, change)
			identifier, err := NewIdentifier(alone.rules)
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				b := batchOf(alone.Next())
				b.Now = epoch0 + alone.Next()*100
				for i := range int64(rng.IntN(3 * chunk)) {
					b.Records = append(b.Records, anyRecord(rng, epoch0+(b.First+i)*100))
					b.Offsets = append(b.Offsets, b.First+i)
				}
				b.Next = b.First + int64(len(b.Records))
				alone.Process(b)
				again := *b
				identifier.Identify(&again)
				again.Outcomes = nil
				helped.Process(&again)
				if !reflect.DeepEqual(b.Outcomes, again.Outcomes) || b.Counts != again.Counts {
					t.Fatalf("%s, time %s: the counts are %+v, with an identifier %+v", specs, clock, b.Counts, again.Counts)
				}
			}
			if string(alone.AppendState(nil)) != string(helped.AppendState(nil)) {
				t.Errorf("%s, time %s: the memories differ", specs, clock)
			}
		}
	}
}

func TestIdentifyDoesNotAllocate(t *testing.T) {
	s := shardOf(t, nil)
	var values []string
	for i := range 3000 {
		values = append(values, fmt.Sprintf(`{"id":%d}`, i))
	}
	b := batchOf(0, values...)
	identifier, err := NewIdentifier(s.rules)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(20, func() {
		identifier.Identify(b)
		s.Process(b)
		s.Rollback()
	}); n != 0 {
		t.Errorf("%v allocations in a batch of %d records", n, len(values))
	}
}

// IDs of another batch must not be taken for those of this one.
func TestShardRefusesTheIDsOfAnotherBatch(t *testing.T) {
	s := shardOf(t, nil)
	identifier, err := NewIdentifier(s.rules)
	if err != nil {
		t.Fatal(err)
	}
	b := batchOf(0, `{"id":1}`)
	identifier.Identify(b)
	b.Records = append(b.Records, b.Records[0])
	defer func() {
		if r := recover(); r == nil {
			t.Error("it judged a record by the ID of none")
		}
	}()
	s.Process(b)
}

func TestNewIdentifierRefuses(t *testing.T) {
	for _, c := range []Config{{Keys: []string{"nonsense"}, Time: "record"}, {Keys: []string{"key"}, Time: "never"}} {
		if _, err := NewIdentifier(c); err == nil {
			t.Errorf("%v, time %s: no error", c.Keys, c.Time)
		}
	}
}
