package filter

import (
	"strings"
	"testing"
)

func TestParseGeometryReadsWhatSetsSay(t *testing.T) {
	sliced := Params{Lines: 123, LinesPerKey: 3, CellsPerLine: 5}
	classic := ClassicParams{Bits: 6400, Hashes: 7}
	single := SingleParams{Lines: 123, BitsPerLine: 6}
	s, err := NewSliced(sliced)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := NewClassic(classic)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := ParseGeometry(s.Geometry()); err != nil || got != sliced {
		t.Errorf("%s: %+v, %v", s.Geometry(), got, err)
	}
	if got, err := ParseGeometry(c.Geometry()); err != nil || got != classic {
		t.Errorf("%s: %+v, %v", c.Geometry(), got, err)
	}
	one := newSingle(t, single)
	if got, err := ParseGeometry(one.Geometry()); err != nil || got != single {
		t.Errorf("%s: %+v, %v", one.Geometry(), got, err)
	}
	for _, text := range []string{"", one.Geometry() + ".", strings.Replace(one.Geometry(), "2 of them", "3 of them", 1), "a filter", s.Geometry() + ".", c.Geometry() + " and more", strings.Replace(s.Geometry(), "format 1", "format 2", 1),
		strings.Replace(c.Geometry(), "format 1", "format 0", 1), strings.Replace(s.Geometry(), "123", "0123", 1),
		strings.Replace(s.Geometry(), "format 1", "format  1", 1), "sliced filter, format 1: 1 lines, 2 of them a hash, 4 cells in each", "classic filter, format 1: 6400 bits"} {
		if got, err := ParseGeometry(text); err == nil {
			t.Errorf("%q: %+v, want an error", text, got)
		}
	}
}
