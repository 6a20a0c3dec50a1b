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
//	streamdedup/1 <fingerprint> <slice> <stream time> <record|arrival> <known from> <limit>,<before>,<since> <number>@<offset> ...
//
// The slice and the times are in milliseconds. "record" says that the stream
// time comes from a record, "arrival" that it comes from the wall clock. The limit
// is how large a record the output takes, in bytes, zero where that is not known,
// and what it was before the offset since. A
// number and an offset stand for each live generation that has begun, oldest
// first: its number, the offset of the record that began it, and "-late" when a
// policy may have kept late records from the output while it was filling. Since stream
// time never falls, a generation is a range of offsets, and that is all it takes
// to put every record of the input back into its generation. With 8 generations
// the text stays below 600 bytes of the 4,096 that Kafka allows.
const MetadataVersion = 1

const metadataName = "streamdedup/"

const (
	clockRecord  = "record"
	clockArrival = "arrival"
	lateKept     = "-late"
)

func (s *Shard) metadata() string {
	st := s.window.State()
	b := make([]byte, 0, 600)
	b = append(b, metadataName...)
	b = strconv.AppendInt(b, MetadataVersion, 10)
	b = append(b, ' ')
	b = append(b, s.print...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, st.Slice, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, st.StreamTime, 10)
	b = append(b, ' ')
	if st.Believed {
		b = append(b, clockRecord...)
	} else {
		b = append(b, clockArrival...)
	}
	b = append(b, ' ')
	b = strconv.AppendInt(b, st.KnownFrom, 10)
	limit := s.limit
	if len(st.Generations) > 0 {
		limit = limit.from(st.Generations[0].FirstOffset)
	}
	b = append(b, ' ')
	b = append(b, limit.String()...)
	for _, g := range st.Generations {
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

// parseMetadata reads what metadata wrote. print is the fingerprint that it must
// have.
func parseMetadata(text, print string) (st window.State, limit sizeLimit, err error) {
	words := strings.Fields(text)
	if len(words) == 0 || !strings.HasPrefix(words[0], metadataName) {
		return st, limit, fmt.Errorf("read offset metadata %q: %w", text, ErrNoState)
	}
	version, err := strconv.Atoi(words[0][len(metadataName):])
	if err != nil {
		return st, limit, fmt.Errorf("read offset metadata %q: %w", text, ErrNoState)
	}
	if version != MetadataVersion {
		return st, limit, fmt.Errorf("read offset metadata: it has format version %d, this program reads %d: %w",
			version, MetadataVersion, ErrForeignState)
	}
	if len(words) < 7 {
		return st, limit, fmt.Errorf("read offset metadata %q: it is cut off: %w", text, ErrNoState)
	}
	if words[1] != print {
		return st, limit, fmt.Errorf("read offset metadata: key spec, seed, scope or filter kind have changed "+
			"(fingerprint %s, now %s): %w", words[1], print, ErrForeignState)
	}
	bad := func(what, word string) error {
		return fmt.Errorf("read offset metadata: %s %q is no number: %w", what, word, ErrNoState)
	}
	if st.Slice, err = strconv.ParseInt(words[2], 10, 64); err != nil {
		return st, limit, bad("slice", words[2])
	}
	if st.StreamTime, err = strconv.ParseInt(words[3], 10, 64); err != nil {
		return st, limit, bad("stream time", words[3])
	}
	if words[4] != clockRecord && words[4] != clockArrival {
		return st, limit, fmt.Errorf("read offset metadata: clock %q is neither record nor arrival: %w", words[4], ErrNoState)
	}
	st.Believed = words[4] == clockRecord
	if st.KnownFrom, err = strconv.ParseInt(words[5], 10, 64); err != nil {
		return st, limit, bad("time known from", words[5])
	}
	if limit, err = parseLimit(words[6]); err != nil {
		return st, limit, bad("limit", words[6])
	}
	for _, word := range words[7:] {
		var g window.Generation
		word, g.LateKept = strings.CutSuffix(word, lateKept)
		number, offset, _ := strings.Cut(word, "@")
		if g.Number, err = strconv.ParseInt(number, 10, 64); err != nil {
			return st, limit, bad("generation", word)
		}
		if g.FirstOffset, err = strconv.ParseInt(offset, 10, 64); err != nil {
			return st, limit, bad("generation's offset", word)
		}
		st.Generations = append(st.Generations, g)
	}
	return st, limit, nil
}
