package pipeline

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/streamdedup/streamdedup/window"
)

// MetadataVersion is the version of the text that is kept beside a committed
// offset.
//
// The text is words with a space between them:
//
//	streamdedup/2 <fingerprint> <slice> <stream time> <record|arrival> <known from> <limit>,<before>,<since> <rotation> <number>@<offset> ...
//
// The slice and the times are in milliseconds. "record" says that the stream
// time comes from a record, "arrival" that it comes from the wall clock. The limit
// is how large a record the output takes, in bytes, zero where that is not known,
// and what it was before the offset since. The rotation is that of the generation
// that is filling. A
// number and an offset stand for each live generation that has begun, oldest
// first: its number, the offset of the record that began it, and "-late" when a
// policy may have kept late records from the output while it was filling. Since stream
// time never falls, a generation is a range of offsets, and that is all it takes
// to put every record of the input back into its generation. With 8 generations
// the text stays below 620 bytes of the 4,096 that Kafka allows.
//
// Version 1 had no rotation; it is read as well.
const MetadataVersion = 2

const metadataName = "streamdedup/"

const (
	clockRecord  = "record"
	clockArrival = "arrival"
	lateKept     = "-late"
)

// Metadata is s as the text to keep beside an offset.
func (s State) Metadata() string {
	w := &s.Window
	b := make([]byte, 0, 620)
	b = append(b, metadataName...)
	b = strconv.AppendInt(b, MetadataVersion, 10)
	b = append(b, ' ')
	b = append(b, s.Fingerprint...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, w.Slice, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, w.StreamTime, 10)
	b = append(b, ' ')
	if w.Believed {
		b = append(b, clockRecord...)
	} else {
		b = append(b, clockArrival...)
	}
	b = append(b, ' ')
	b = strconv.AppendInt(b, w.KnownFrom, 10)
	b = append(b, ' ')
	b = append(b, s.Limit.String()...)
	b = append(b, ' ')
	b = strconv.AppendUint(b, w.Rotation, 10)
	for _, g := range w.Generations {
		b = append(b, ' ')
		b = strconv.AppendInt(b, g.Number, 10)
		b = append(b, '@')
		b = strconv.AppendInt(b, g.FirstOffset, 10)
		if g.LateKept {
			b = append(b, lateKept...)
		}
	}
	return string(b)
}

// ParseMetadata reads what [State.Metadata] wrote, of this version or an earlier
// one. It fails with [ErrNoState] for a text of another program, and with
// [ErrForeignState] for one of a later version.
func ParseMetadata(text string) (s State, err error) {
	words := strings.Fields(text)
	if len(words) == 0 || !strings.HasPrefix(words[0], metadataName) {
		return s, fmt.Errorf("read offset metadata %q: %w", text, ErrNoState)
	}
	version, err := strconv.Atoi(words[0][len(metadataName):])
	if err != nil || version < 1 {
		return s, fmt.Errorf("read offset metadata %q: %w", text, ErrNoState)
	}
	if version > MetadataVersion {
		return s, fmt.Errorf("read offset metadata: it has format version %d, this program reads up to %d: %w",
			version, MetadataVersion, ErrForeignState)
	}
	r := metadataReader{text: text, words: words[1:]}
	s.Fingerprint = r.word()
	w := &s.Window
	w.Slice = r.number("slice")
	w.StreamTime = r.number("stream time")
	clock := r.word()
	w.Believed = clock == clockRecord
	if clock != clockRecord && clock != clockArrival {
		r.fail("clock", clock)
	}
	w.KnownFrom = r.number("time known from")
	limit := r.word()
	if s.Limit, err = parseLimit(limit); err != nil {
		r.fail("limit", limit)
	}
	if version > 1 {
		w.Rotation = uint64(r.number("rotation"))
	}
	for len(r.words) > 0 && r.err == nil {
		w.Generations = append(w.Generations, r.generation())
	}
	if version == 1 && len(w.Generations) > 0 {
		w.Rotation = uint64(len(w.Generations) - 1)
	}
	return s, r.err
}

// metadataReader takes words off a text. After the first failure it gives zeros.
type metadataReader struct {
	text  string
	words []string
	err   error
}

func (r *metadataReader) fail(what, word string) {
	if r.err == nil {
		r.err = fmt.Errorf("read offset metadata %q: %s is %q: %w", r.text, what, word, ErrNoState)
	}
	r.words = nil
}

func (r *metadataReader) word() string {
	if len(r.words) == 0 {
		r.fail("its end", "")
		return ""
	}
	w := r.words[0]
	r.words = r.words[1:]
	return w
}

func (r *metadataReader) number(what string) int64 {
	w := r.word()
	n, err := strconv.ParseInt(w, 10, 64)
	if err != nil {
		r.fail(what, w)
	}
	return n
}

func (r *metadataReader) generation() (g window.Generation) {
	word := r.word()
	short, late := strings.CutSuffix(word, lateKept)
	number, offset, _ := strings.Cut(short, "@")
	var err error
	if g.Number, err = strconv.ParseInt(number, 10, 64); err != nil {
		r.fail("generation", word)
	}
	if g.FirstOffset, err = strconv.ParseInt(offset, 10, 64); err != nil {
		r.fail("generation's offset", word)
	}
	g.LateKept = late
	return g
}
