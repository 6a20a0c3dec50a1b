package keys

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var (
	csvTable = Table{Kind: CSV}
	tsvTable = Table{Kind: TSV}
)

// parseWith compiles specs with options and a fixed seed.
func parseWith(t testing.TB, o Options, specs ...string) *Extractor {
	t.Helper()
	e, err := Parse(specs, 1, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// columnOf is the text of a column of a row, or an outcome.
func columnOf(t testing.TB, table Table, number int, row string) string {
	t.Helper()
	e := parseWith(t, Options{Table: table}, fmt.Sprintf("column:%d", number))
	hash, outcome := e.Hash(&Record{Value: []byte(row)})
	if outcome != Found {
		return outcome.String()
	}
	p := e.columns.found[0]
	text := string(p.appendTo(nil))
	if whole, _ := mustParse(t, "value").Hash(&Record{Value: []byte(text)}); hash != whole {
		t.Errorf("column %d of %q: got hash %x, that of %q is %x", number, row, hash, text, whole)
	}
	return "found " + text
}

func TestColumns(t *testing.T) {
	f := func(table Table, row string, want ...string) {
		t.Helper()
		for i := range want {
			if got := columnOf(t, table, i+1, row); got != want[i] {
				t.Errorf("column %d of %q: got %q, want %q", i+1, row, got, want[i])
			}
		}
	}
	f(csvTable, "a,b", "found a", "found b", "missing")
	f(csvTable, "a, b \n", "found a", "found  b ", "missing") // spaces count
	f(csvTable, "a,b\r\n", "found a", "found b", "missing")
	f(csvTable, "a,b\r", "found a", "found b", "missing")
	f(csvTable, "a\rb,c", "found a\rb", "found c")
	f(csvTable, ",,c", "missing", "missing", "found c")
	f(csvTable, "a,", "found a", "missing", "missing")
	f(csvTable, "", "missing", "missing")
	f(csvTable, "\n", "missing", "missing")
	f(csvTable, `"a","",c`, "found a", "missing", "found c")
	f(csvTable, `"a,b","say ""hi""",""""`, "found a,b", `found say "hi"`, `found "`, "missing")
	f(csvTable, "\"line one\r\nline two\",b\n", "found line one\r\nline two", "found b")
	f(csvTable, "\xff\xfe,é", "found \xff\xfe", "found é")
	f(csvTable, strings.Repeat("x", 100)+","+strings.Repeat("y", 100), "found "+strings.Repeat("x", 100), "found "+strings.Repeat("y", 100))
	// Malformed from a place on.
	f(csvTable, `a,b"c,d`, "found a", "invalid", "invalid")
	f(csvTable, `a,"b`, "found a", "invalid", "invalid")
	f(csvTable, `a,"b"c,d`, "found a", "invalid", "invalid")
	f(csvTable, `a,"b" ,d`, "found a", "invalid", "invalid")
	f(csvTable, "a,b\nc,d", "found a", "invalid", "invalid") // two rows are no row
	f(csvTable, "a,\"b\"\nc,d", "found a", "invalid", "invalid")
	f(csvTable, "a,b\n\n", "found a", "invalid", "invalid")

	f(tsvTable, "a\tb", "found a", "found b", "missing")
	f(tsvTable, "a\tb\r\n", "found a", "found b", "missing")
	f(tsvTable, "\t\tc\n", "missing", "missing", "found c")
	f(tsvTable, "a\t", "found a", "missing", "missing")
	f(tsvTable, `"a"`+"\t"+`b"",c`, `found "a"`, `found b"",c`)
	f(tsvTable, "a\tb\nc\td", "found a", "invalid", "invalid")
	f(tsvTable, "", "missing")
}

// Several columns are found in one pass, in the order of the specs, a column twice
// where two specs name it.
func TestManyColumns(t *testing.T) {
	row := &Record{Value: []byte(`a,"b",,d`)}
	e := parseWith(t, Options{Table: csvTable}, "column:4", "column:1", "column:4", "column:2")
	got, _ := e.Hash(row)
	want, err := e.HashWritten([]byte(`["d","a","d","b"]`))
	if err != nil || got != want {
		t.Errorf("got %x, want %x, %v", got, want, err)
	}
	if _, o := parseWith(t, Options{Table: csvTable}, "column:4", "column:3").Hash(row); o != Missing {
		t.Errorf("one part empty: got %v, want missing", o)
	}
	if _, o := parseWith(t, Options{Table: csvTable}, "column:1", "column:9").Hash(row); o != Missing {
		t.Errorf("one column too many: got %v, want missing", o)
	}
}

func TestColumnNames(t *testing.T) {
	o := Options{Table: Table{Kind: CSV, Header: []string{"id", "at", "id", "7", "a:b"}}}
	row := &Record{Value: []byte("1,2,3,4,5")}
	f := func(spec, want, canonical string) {
		t.Helper()
		e := parseWith(t, o, spec)
		got, outcome := e.Hash(row)
		hash, err := e.HashText([]byte(want))
		if outcome != Found || err != nil || got != hash {
			t.Errorf("%s: got %x, %v; that of %s is %x, %v", spec, got, outcome, want, hash, err)
		}
		if e.String() != canonical {
			t.Errorf("%s: got %s, want %s", spec, e, canonical)
		}
	}
	f("column:id", "1", `"column:1" csv`) // the first of equal names
	f("column:at", "2", `"column:2" csv`)
	f("column:a:b", "5", `"column:5" csv`)
	f("column:3", "3", `"column:3" csv`)
	f("column:03", "3", `"column:3" csv`)

	fails := func(spec string, o Options, want string) {
		t.Helper()
		if _, err := Parse([]string{spec}, 0, o); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", spec, err, want)
		}
	}
	fails("column:ID", o, `parse key spec "column:ID": no column has that name: there are ["id" "at" "id" "7" "a:b"]`)
	fails("column:7", Options{}, `parse key spec "column:7": column: needs csv or tsv input`)
	fails("column:0", o, `parse key spec "column:0": there is no column 0: the first is column 1`)
	fails("column:-1", o, `parse key spec "column:-1": there is no column -1: the first is column 1`)
	fails("column:", o, `parse key spec "column:": the column is missing: write column:NUMBER, from 1, or column:NAME`)
	fails("column:id", Options{Table: tsvTable}, `parse key spec "column:id": no names of columns are known: write the number of the column, from 1`)
	if _, err := Parse([]string{"column:id"}, 0, Options{Table: tsvTable}); !errors.Is(err, ErrNoHeader) {
		t.Errorf("got %v, want ErrNoHeader", err)
	}
}

func TestHeaderColumns(t *testing.T) {
	f := func(kind TableKind, row string, want ...string) {
		t.Helper()
		if got, err := Columns(kind, []byte(row)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v, want %q", row, got, err, want)
		}
	}
	f(CSV, "click_id,ts,ref,note\r\n", "click_id", "ts", "ref", "note")
	f(CSV, `"a ""b""",,"c,d"`, `a "b"`, "", "c,d")
	f(TSV, "a\t\"b\"\t\n", "a", `"b"`, "")
	if _, err := Columns(CSV, []byte(`a,b"`)); err == nil || !strings.HasPrefix(err.Error(), "column 2 is malformed: ") {
		t.Errorf("a bare quote: got %v", err)
	}
}

func TestColumnTimes(t *testing.T) {
	f := func(table Table, spec, row string, want int64) {
		t.Helper()
		c, err := ParseClock(spec, "", table)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := c.Time(&Record{Value: []byte(row), Time: 5}, 9)
		if got != want || ok != (want != 0) {
			t.Errorf("%s of %q: got %d %v, want %d", spec, row, got, ok, want)
		}
	}
	f(csvTable, "column:2", `x,2026-01-01T00:00:00.123Z`, 1767225600123)
	f(csvTable, "column:2", `x,"2026-01-01T01:00:00.123+01:00"`, 1767225600123)
	f(csvTable, "column:2", `x,1767225600`, 1767225600000)
	f(csvTable, "column:2", `x,"17""67225600"`, 0)
	f(csvTable, "column:2", `x`, 0)
	f(csvTable, "column:2", `x,"`, 0)
	f(csvTable, "column:2", ``, 0)
	f(Table{Kind: CSV, Header: []string{"id", "ts"}}, "column:ts", `x,1767225600123`, 1767225600123)
	f(tsvTable, "column:3", "a\tb\t2026-01-01 00:00:09.120", 1767225609120)
	f(tsvTable, "column:1", "0\tb", 0)
	if _, err := ParseClock("column:ts", "", csvTable); !errors.Is(err, ErrNoHeader) {
		t.Errorf("got %v, want ErrNoHeader", err)
	}
	if _, err := ParseClock("column:2", "unix", csvTable); err != nil {
		t.Errorf("a column with a format: %v", err)
	}
}

func TestColumnAllocations(t *testing.T) {
	r := &Record{Value: []byte(`1767225600,"a ""b"" c",d`)}
	e := parseWith(t, Options{Table: csvTable}, "column:3", "column:2")
	c, err := ParseClock("column:1", "unix", csvTable)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, o := e.Hash(r); o != Found {
			t.Fatal(o)
		}
		if _, ok := c.Time(r, 0); !ok {
			t.Fatal("no time")
		}
	}); n != 0 {
		t.Errorf("got %v allocations a record, want none", n)
	}
}

// csvReference is what encoding/csv says of a column of a row: up to where a row is
// malformed it gives the columns before, as we do. It knows no single row: what it
// says of the next line end is that the row is malformed there.
func csvReference(row string, number int) string {
	row = strings.TrimSuffix(row, "\n")
	if row == "" {
		return "missing"
	}
	if row[0] == '\n' { // which it would skip
		return "invalid"
	}
	r := csv.NewReader(strings.NewReader(row))
	fields, err := r.Read()
	whole := len(fields)
	if err == nil && row[r.InputOffset()-1] == '\n' {
		whole--
		err = errors.New("a second row")
	}
	switch {
	case number <= whole && fields[number-1] == "":
		return "missing"
	case number <= whole:
		return "found " + fields[number-1]
	case err != nil:
		return "invalid"
	}
	return "missing"
}

// FuzzCSV compares columns with those of encoding/csv. Carriage returns are left
// out: it drops them before line ends inside quotes too, where they are data.
func FuzzCSV(f *testing.F) {
	for _, row := range []string{
		"a,b,c", `"a ""b""","c,d",`, "\"a\nb\",c\n", `a"b,c`, `"a"b,c`, `"a`, ",,", "\n", "a\nb", "a,b\n\n", "\"\",\"\"\"\"", " \"a\"", "abcdefgh,ijklmnop,\"qrstuvw\"", "\x00\xff,\x80", `"a",`, `","`,
	} {
		f.Add(row)
	}
	f.Fuzz(func(t *testing.T, row string) {
		if strings.Contains(row, "\r") {
			return
		}
		for number := 1; number <= 4; number++ {
			if got, want := columnOf(t, csvTable, number, row), csvReference(row, number); got != want {
				t.Errorf("column %d of %q: got %q, want %q", number, row, got, want)
			}
		}
	})
}

// FuzzTSV compares columns with those of a split at tabs.
func FuzzTSV(f *testing.F) {
	for _, row := range []string{"a\tb\tc", "\t\t", "a\nb\tc", "a\t\"b\t\"", "\r\n", "a\tb\r\n", "\n\n"} {
		f.Add([]byte(row))
	}
	f.Fuzz(func(t *testing.T, row []byte) {
		trimmed := bytes.TrimSuffix(bytes.TrimSuffix(row, []byte("\n")), []byte("\r"))
		fields := bytes.Split(trimmed, []byte("\t"))
		for number := 1; number <= 4; number++ {
			want := "missing"
			if upTo := fields[:min(number, len(fields))]; bytes.Contains(bytes.Join(upTo, nil), []byte("\n")) {
				want = "invalid"
			} else if number <= len(fields) && len(fields[number-1]) > 0 {
				want = "found " + string(fields[number-1])
			}
			if got := columnOf(t, tsvTable, number, string(row)); got != want {
				t.Errorf("column %d of %q: got %q, want %q", number, row, got, want)
			}
		}
	})
}
