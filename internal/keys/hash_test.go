package keys

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/streamdedup/streamdedup/filter"
)

// TestGolden pins the hash of fixed IDs: a change of any of these values would
// make every stored state useless.
func TestGolden(t *testing.T) {
	r := &Record{
		Key:     []byte("user-42"),
		Headers: []Header{{"ce_id", []byte("A234-1234-1234")}},
		Value: []byte(`{"id":"5c3f1f0e-8a51-4a54-9c9b-3f5a0c5d0001","n":9007199254740993,"t":true,"f":false,"e":"K\u00f6ln \ud83d\ude00 \ud83d",` +
			`"l":"` + strings.Repeat("0123456789abcdef", 4096) + `"}`),
	}
	for _, g := range []struct {
		seed  uint64
		specs string
		want  filter.Hash
	}{
		{0, "key", 0xe8a03773a68fead7},
		{1, "key", 0x737f1bbb5d2a566f},
		{math.MaxUint64, "key", 0x2138c17e0fed3875},
		{0, "header:ce_id", 0x3934ada15037140e},
		{0, "value", 0x0a0087a48d6803f5},
		{0, "json:id", 0x1e5faa7d516d21af},
		{42, "json:id", 0xba77f02331e21fe7},
		{0, "json:n", 0xeea1e3d42ed65910},
		{0, "json:t", 0x13642dae8206ba06},
		{0, "json:f", 0x072f3ba1fb8cf980},
		{0, "json:e", 0x6ef1197e3d530900},
		{0, "json:l", 0x1efaa9839b2e5d1a},
		{0, "json:id json:n", 0x3fbb63914a1df544},
		{0, "json:n json:id", 0x1e9289b8215f8e11},
		{42, "key header:ce_id json:e json:l", 0xb839b48f5596159e},
	} {
		e, err := Parse(strings.Fields(g.specs), g.seed, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, outcome := e.Hash(r); got != g.want || outcome != Found {
			t.Errorf("seed %d, %s: got %#016x %v, want %#016x found", g.seed, g.specs, got, outcome, g.want)
		}
	}
}

// TestHashIsXXHash builds the hashed bytes by hand: what package keys says about
// its hash is enough to compute it elsewhere.
func TestHashIsXXHash(t *testing.T) {
	word := func(kind, length int) []byte {
		return binary.LittleEndian.AppendUint64(nil, uint64(kind)<<56|uint64(length))
	}
	long := strings.Repeat(`\u00e9x`, 3000)
	e, err := Parse([]string{"key", "json:s", "json:n", "json:b"}, 77, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := e.Hash(&Record{Key: []byte("k"), Value: []byte(`{"s":"` + long + `","n":-1e5,"b":true}`)})
	d := xxhash.NewWithSeed(77)
	decoded := strings.Repeat("éx", 3000)
	d.Write(bytes.Join([][]byte{word(2, 1), []byte("k"), word(3, len(decoded)), []byte(decoded), word(4, 4), []byte("-1e5"), word(5, 4), []byte("true")}, nil))
	if want := filter.Hash(d.Sum64()); got != want {
		t.Errorf("got %x, want %x", got, want)
	}
}
