package keys

// Options say what key specs take for an ID, and how they read a value. The zero
// value takes each ID as it is.
type Options struct {
	// Ignore are IDs that mean that there is none: the characters of a number, the
	// decoded text of a string.
	Ignore []string
	// UUID makes the spellings of a UUID one ID: letter case, braces, dashes and
	// the prefix urn:uuid: do not count. What is no UUID is taken as it is.
	UUID bool
	// Exclude are the members of the value that sha256:json leaves out: a name or
	// path as in a json spec.
	Exclude []string
	// Table is how column specs read a value.
	Table Table
}

// Table is how a value is divided into columns.
type Table struct {
	Kind TableKind
	// Header has the names of the columns, nil where only their numbers are known.
	Header []string
}

// TableKind is a format of rows.
type TableKind uint8

const (
	// NoTable: a value has no columns.
	NoTable TableKind = iota
	// CSV is a row of RFC 4180, without its line end.
	CSV
	// TSV is a row of columns between tabs, without quoting.
	TSV
)

// String is the kind in lower case.
func (k TableKind) String() string { return [...]string{"none", "csv", "tsv"}[k] }
