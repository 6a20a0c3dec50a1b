package keys

// Header is a view of one header of a record.
type Header struct {
	Name  string
	Value []byte
}

// Record is a view of one record: nothing in it is copied, and it is good for as
// long as the memory of the batch that it came in.
type Record struct {
	// Key and Value are nil where the record has null, and not nil but of length
	// zero where it has zero bytes.
	Key, Value []byte
	// Headers are in the record's own order, with repeats. They may be left nil
	// when [Extractor.NeedsHeaders] is false.
	Headers []Header
	// Time is the timestamp that came with the record, in milliseconds since the
	// epoch; -1 is Kafka's "none".
	Time int64
}

// Outcome says how the search for a record's ID ended.
type Outcome uint8

const (
	// Found: the record has an ID.
	Found Outcome = iota
	// Missing: a part of the ID is absent, null or empty.
	Missing
	// Unsupported: a part of the ID is a JSON array or object. It is handled as
	// Missing and counted apart.
	Unsupported
	// Invalid: the value is malformed before the place of the ID.
	Invalid
)

// String is the outcome in lower case, as metrics and messages show it.
func (o Outcome) String() string {
	switch o {
	case Found:
		return "found"
	case Missing:
		return "missing"
	case Unsupported:
		return "unsupported"
	case Invalid:
		return "invalid"
	}
	panic("BUG: unknown outcome")
}
