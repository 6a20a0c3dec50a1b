package keys

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

const uuid = "5c3f1f0e-8a51-4a54-9c9b-3f5a0c5d0001"

// clicks are records of 230 bytes with the ID at one end or the other.
var clicks = map[string]string{
	"first": `{"event_id":"` + uuid + `",` + clickRest + `}`,
	"last":  `{` + clickRest + `,"event_id":"` + uuid + `"}`,
}

const clickRest = `"ts":1767225600123,"type":"click","user":{"id":90071992,"country":"de"},"page":"/shop/p/4711?utm_source=mail",` +
	`"price":19.99,"ok":true,"ref":null,"ua":"Mozilla/5.0 (X11; Linux x86_64)","n":12345`

func BenchmarkExtract(b *testing.B) {
	header := []Header{{"ce_type", []byte("click")}, {"ce_id", []byte(uuid)}}
	for _, bm := range []struct {
		name  string
		specs []string
		r     Record
	}{
		{"spec=key/bytes=36", []string{"key"}, Record{Key: []byte(uuid)}},
		{"spec=header/bytes=36", []string{"header:ce_id"}, Record{Headers: header}},
		{"spec=value/bytes=230", []string{"value"}, Record{Value: []byte(clicks["first"])}},
		{"spec=json/at=first/bytes=230", []string{"json:event_id"}, Record{Value: []byte(clicks["first"])}},
		{"spec=json/at=last/bytes=230", []string{"json:event_id"}, Record{Value: []byte(clicks["last"])}},
		{"spec=json/at=missing/bytes=230", []string{"json:nowhere"}, Record{Value: []byte(clicks["last"])}},
		{"spec=json,json/at=last/bytes=230", []string{"json:user.id", "json:event_id"}, Record{Value: []byte(clicks["last"])}},
		{"spec=json/at=last/bytes=1M", []string{"json:id"}, Record{Value: []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `","id":"1"}`)}},
		{"spec=json/at=last/depth=5000", []string{"json:id"}, Record{Value: deep(5000)}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			e, err := Parse(bm.specs, 1, Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(bm.r.Key) + len(bm.r.Value)))
			for b.Loop() {
				e.Hash(&bm.r)
			}
		})
	}
}

// deep is an object with a member of that depth before its id.
func deep(depth int) []byte {
	return []byte(`{"a":` + strings.Repeat(`[{"b":`, depth/2) + `0` + strings.Repeat(`}]`, depth/2) + `,"id":"x"}`)
}

func BenchmarkHash(b *testing.B) {
	for _, n := range []int{16, 36, 230, 4096} {
		b.Run(fmt.Sprintf("bytes=%d", n), func(b *testing.B) {
			p := part{kind: text, bytes: bytes.Repeat([]byte("x"), n)}
			h := hasher{seed: 1}
			b.ReportAllocs()
			for b.Loop() {
				h.reset()
				h.add(&p)
				h.sum()
			}
		})
	}
}
