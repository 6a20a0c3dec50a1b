package keys

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
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

// manyClicks are records like clicks with other values in each, the ID last. One of
// a hundred is odd in the given way.
func manyClicks(odd string) (values [][]byte, size float64) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 1000 {
		const format = `{"ts":%d,"type":"%s","user":{"id":%d,"country":"de"},"page":"/shop/%s","price":%d.%02d,"ok":%v,"ref":%s,"ua":"Mozilla/5.0 (%s)","n":%d,"event_id":"%s"}`
		agent, id := "X11; Linux x86_64", fmt.Sprintf("%08x%s", i, uuid[8:])
		if i%100 == 50 {
			switch odd {
			case "escapes":
				agent, id = `X11;\tLinux \"x86_64\"`, strings.ReplaceAll(id, "a", `\u0061`)
			case "64KiB":
				agent = strings.Repeat("x", 64<<10)
			}
		}
		value := fmt.Appendf(nil, format, 1767225600123+i, []string{"click", "view", "purchase"}[rng.IntN(3)], rng.IntN(1e8), strings.Repeat("p", 5+rng.IntN(30)),
			rng.IntN(1000), rng.IntN(100), rng.IntN(4) > 0, []string{"null", `"/home"`}[rng.IntN(2)], agent, rng.IntN(1e5), id)
		values = append(values, value)
		size += float64(len(value))
	}
	return values, size
}

// BenchmarkOdd takes turns between records of which none is odd and records of
// which one in a hundred is, and reports the quickest turn of each, which other work
// on the machine disturbed least: also as the share of the throughput in bytes that
// the odd ones cost.
func BenchmarkOdd(b *testing.B) {
	for _, odd := range []string{"none", "escapes", "64KiB"} {
		b.Run("one-percent="+odd, func(b *testing.B) {
			e := mustParse(b, "json:event_id")
			var streams [2][][]byte
			var sizes, quickest [2]float64
			streams[0], sizes[0] = manyClicks("")
			streams[1], sizes[1] = manyClicks(odd)
			b.ReportAllocs()
			for b.Loop() {
				for i, values := range streams {
					start := time.Now()
					for _, v := range values {
						e.Hash(&Record{Value: v})
					}
					if ns := float64(time.Since(start).Nanoseconds()); quickest[i] == 0 || ns < quickest[i] {
						quickest[i] = ns
					}
				}
			}
			plain, mixed := sizes[0]/quickest[0], sizes[1]/quickest[1]
			b.ReportMetric(quickest[0]/float64(len(streams[0])), "ns/plain")
			b.ReportMetric(1e3*plain, "MB/s-plain")
			b.ReportMetric(1e3*mixed, "MB/s-odd")
			b.ReportMetric(100*(1-mixed/plain), "%cost")
			b.ReportMetric(100*(quickest[1]/quickest[0]-1), "%time")
		})
	}
}

// TestCase_MEM_06: odd records neither allocate nor have other IDs. What they cost
// is for BenchmarkOdd.
func TestCase_MEM_06(t *testing.T) {
	plain, _ := manyClicks("")
	for _, odd := range []string{"escapes", "64KiB"} {
		e := mustParse(t, "json:event_id")
		values, _ := manyClicks(odd)
		different := 0
		for i, v := range values {
			h, o := e.Hash(&Record{Value: v})
			if p, _ := e.Hash(&Record{Value: plain[i]}); h != p || o != Found {
				t.Fatalf("%s: record %d: got %x, %v, want %x", odd, i, h, o, p)
			}
			if string(v) != string(plain[i]) {
				different++
			}
		}
		if different != len(values)/100 {
			t.Errorf("%s: got %d odd records of %d", odd, different, len(values))
		}
		if n := testing.AllocsPerRun(1, func() {
			for _, v := range values {
				e.Hash(&Record{Value: v})
			}
		}); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", odd, n)
		}
	}
}

func BenchmarkExtractOptions(b *testing.B) {
	click := Record{Value: []byte(clicks["first"])}
	for _, bm := range []struct {
		name string
		spec string
		o    Options
		r    Record
	}{
		{"uuid", "json:event_id", Options{UUID: true}, click},
		{"ignore", "json:event_id", Options{Ignore: []string{"-1", "unknown"}}, click},
		{"csv", "column:4", Options{Table: csvTable}, Record{Value: []byte(`1767225600123,click,"/shop/p/4711?utm_source=mail",` + uuid + `,de,19.99`)}},
		{"tsv", "column:7", Options{Table: tsvTable}, Record{Value: []byte("shop\tweb\t2026-01-01 00:00:09.120\t2026-01-01 00:00:01.511\t\tpage_view\t" + uuid + "\t\tsp1")}},
		{"sha256:value", "sha256:value", Options{}, click},
		{"sha256:json", "sha256:json", Options{Exclude: []string{"ts"}}, click},
	} {
		b.Run(bm.name, func(b *testing.B) {
			e := parseWith(b, bm.o, bm.spec)
			b.ReportAllocs()
			b.SetBytes(int64(len(bm.r.Value)))
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
