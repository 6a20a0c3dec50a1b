package workload

import (
	"strconv"
	"time"

	"github.com/streamdedup/streamdedup/internal/keys"
)

const (
	users   = 100_000
	devices = 10_000

	// recordBytes is more than one record takes of the arena.
	recordBytes = 512

	jitter    = 2 * time.Second
	straggler = 5 * time.Minute
	tenYears  = 10 * 365 * 24 * time.Hour
)

// record makes a record of an event whose first one is at place first of the
// stream, stamped with the time of place shown. All else follows from the event.
func (g *Generator) record(event uint64, first, shown int, repeat bool) Record {
	if need := recordBytes + g.cfg.ValueBytes; cap(g.arena)-len(g.arena) < need {
		g.arena = make([]byte, 0, max(arenaBytes, need))
	}
	r := mix(g.cfg.Seed ^ mix(event))
	rec := Record{Event: event, Copy: repeat}
	var sender uint64
	if g.cfg.Kind == Telemetry {
		sender = event % devices
		rec.Value = g.append(func(b []byte) []byte { return g.pad(appendReading(b, event, g.clock(first), r), b) })
	} else {
		sender = r % users
		rec.Value = g.append(func(b []byte) []byte { return g.pad(appendClick(b, g.clock(first), sender, r), b) })
	}
	rec.Key = g.append(func(b []byte) []byte { return g.appendKey(b, event, sender, r) })
	rec.Partition = int32(partitionHash(rec.Key) % uint64(g.cfg.Partitions))
	rec.Time = g.clock(shown) - g.behind(sender, r)
	rec.Headers = g.headers(r)
	return rec
}

// append lets fill append to the arena and returns what it added.
func (g *Generator) append(fill func([]byte) []byte) []byte {
	at := len(g.arena)
	g.arena = fill(g.arena)
	return g.arena[at:len(g.arena):len(g.arena)]
}

// pad brings the JSON object that was appended to before to its least length.
func (g *Generator) pad(b, before []byte) []byte {
	const member = `,"pad":"`
	missing := g.cfg.ValueBytes - (len(b) - len(before))
	if missing <= 0 {
		return b
	}
	b = append(b[:len(b)-1], member...)
	for range missing - len(member) - 1 {
		b = append(b, '-')
	}
	return append(b, `"}`...)
}

func (g *Generator) appendKey(b []byte, event, sender, r uint64) []byte {
	switch {
	case g.cfg.Kind == Clicks && g.cfg.KeyByID:
		return appendUUID(b, r)
	case g.cfg.Kind == Clicks:
		return appendPadded(append(b, "u-"...), sender, 8)
	case g.cfg.KeyByID:
		b = appendPadded(append(b, "dev-"...), sender, 6)
		return strconv.AppendUint(append(b, '/'), event/devices, 10)
	}
	return appendPadded(append(b, "dev-"...), sender, 6)
}

// behind is by how many milliseconds a record's time is behind stream time.
func (g *Generator) behind(sender, r uint64) int64 {
	limit := g.cfg.Window / 4
	if g.cfg.Skew {
		switch mix(sender^g.cfg.Seed) % 2048 {
		case 0:
			return min(7*time.Minute, limit).Milliseconds()
		case 1:
			return min(3*time.Hour, limit).Milliseconds()
		case 2:
			return -tenYears.Milliseconds()
		}
	}
	most := jitter
	if r>>32%128 == 0 {
		most = straggler
	}
	return int64(r >> 40 % uint64(min(most, limit).Milliseconds()))
}

var (
	fromWeb  = []keys.Header{{Name: "source", Value: []byte("web")}}
	fromApp  = []keys.Header{{Name: "source", Value: []byte("app")}, {Name: "trace", Value: []byte("a1")}, {Name: "trace", Value: []byte{}}}
	fromEdge = []keys.Header{{Name: "source", Value: []byte("edge")}, {Name: "trace", Value: nil}}
)

// headers has none, one, and repeated ones: whoever copies records must keep
// them, in order. They are shared by all records.
func (g *Generator) headers(r uint64) []keys.Header {
	switch r >> 16 % 16 {
	case 0:
		return fromApp
	case 1:
		return fromEdge
	case 2, 3, 4, 5:
		return nil
	}
	return fromWeb
}

var (
	pages = [...]string{"/", "/search?q=red+shoes", "/cart", "/checkout/address", "/product/", "/category/garden", "/account/orders", "/help/returns"}
	refs  = [...]string{"https://www.google.com/", "https://news.example.org/a/17", "", "https://mail.example.com/"}
	uas   = [...]string{
		"Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5) Safari/604.1",
		"Mozilla/5.0 (Windows NT 10.0; Win64) Chrome/126.0",
		"Mozilla/5.0 (Linux; Android 14) Chrome/126.0 Mobile",
	}
)

func appendClick(b []byte, at int64, user, r uint64) []byte {
	b = append(b, `{"event_id":"`...)
	b = appendUUID(b, r)
	b = append(b, `","user":"u-`...)
	b = appendPadded(b, user, 8)
	b = append(b, `","session":"`...)
	b = appendPadded(b, mix(user)+uint64(at/time.Hour.Milliseconds()), 12)
	b = append(b, `","ts":`...)
	b = strconv.AppendInt(b, at, 10)
	b = append(b, `,"page":"`...)
	page := pages[r>>8%uint64(len(pages))]
	b = append(b, page...)
	if page == "/product/" {
		b = strconv.AppendUint(b, r>>20%100_000, 10)
	}
	b = append(b, `","ref":"`...)
	b = append(b, refs[r>>12%uint64(len(refs))]...)
	b = append(b, `","ua":"`...)
	b = append(b, uas[r>>14%uint64(len(uas))]...)
	b = append(b, `","ms":`...)
	b = strconv.AppendUint(b, r>>50, 10)
	return append(b, '}')
}

func appendReading(b []byte, event uint64, at int64, r uint64) []byte {
	b = append(b, `{"device":"dev-`...)
	b = appendPadded(b, event%devices, 6)
	b = append(b, `","seq":`...)
	b = strconv.AppendUint(b, event/devices, 10)
	b = append(b, `,"ts":`...)
	b = strconv.AppendInt(b, at, 10)
	b = append(b, `,"temperature":`...)
	b = strconv.AppendUint(b, r%60, 10)
	b = append(b, '.')
	b = appendPadded(b, r>>8%100, 2)
	b = append(b, `,"humidity":`...)
	b = strconv.AppendUint(b, r>>16%100, 10)
	b = append(b, `,"battery":`...)
	b = strconv.AppendUint(b, r>>24%100, 10)
	b = append(b, `,"gps":[`...)
	b = strconv.AppendUint(b, 40+r>>32%10, 10)
	b = append(b, '.')
	b = appendPadded(b, r>>36%1_000_000, 6)
	b = append(b, ',')
	b = strconv.AppendUint(b, 5+r>>40%10, 10)
	b = append(b, '.')
	b = appendPadded(b, r>>44%1_000_000, 6)
	return append(b, `],"firmware":"4.18.2-lts","state":"nominal","errors":[],"uptime_s":86400}`...)
}

const hexDigits = "0123456789abcdef"

// appendUUID appends a version 4 UUID; equal r give equal ones.
func appendUUID(b []byte, r uint64) []byte {
	high, low := r, mix(r)
	high = high&^0xf000 | 0x4000
	low = low&^(3<<62) | 2<<62
	for i := range 16 {
		w := high
		if i >= 8 {
			w = low
		}
		c := byte(w >> (56 - 8*(i%8)))
		switch i {
		case 4, 6, 8, 10:
			b = append(b, '-')
		}
		b = append(b, hexDigits[c>>4], hexDigits[c&15])
	}
	return b
}

// appendPadded appends the last width digits of n, with zeros before them.
func appendPadded(b []byte, n uint64, width int) []byte {
	at := len(b)
	for range width {
		b = append(b, '0')
	}
	for i := at + width - 1; i >= at; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return b
}

// partitionHash is FNV-1a, then mixed: its low bits alone are poor.
func partitionHash(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range key {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return mix(h)
}
