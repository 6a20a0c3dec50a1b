package filter

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew: a change of format, which stored filters do not survive")

// compareGolden compares got with a file in testdata.
func compareGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; if the format is meant to change, run go test ./filter -rewrite. Got:\n%s", path, got)
	}
}

// TestGoldenPlaces pins the lines and cells of hashes, at a small and a large
// number of lines.
func TestGoldenPlaces(t *testing.T) {
	var b bytes.Buffer
	for _, h := range []Hash{0, 1, 0xffffffffffffffff, 0x0123456789abcdef, 0xfedcba9876543210} {
		for j := range maxLinesPerKey {
			x := linePick(h, j)
			p := cellPick(x)
			q := cellPickMore(p)
			fmt.Fprintf(&b, "hash %016x line %d: %d of 1000, %d of 2^40, cells", h, j, lineOf(x, 1000), lineOf(x, 1<<40))
			for c := range maxCellsPerLine {
				fmt.Fprintf(&b, " %d", cellOf([]uint64{p, q}[c/cellsPerPick], c))
			}
			b.WriteByte('\n')
		}
	}
	compareGolden(t, "places.txt", b.Bytes())
}

// TestGoldenPicture pins a small filter after a short history that has additions
// at several rotations, stale lines and a sweep under way.
func TestGoldenPicture(t *testing.T) {
	s := newSliced(t, Params{Lines: MinLines, LinesPerKey: 3, CellsPerLine: 3})
	history(s, 4)
	var b bytes.Buffer
	fmt.Fprintf(&b, "rotation %d, cursor %d, owed %d\n", s.clock.rotation, s.clock.cursor, s.clock.owed)
	for i, l := range s.lines {
		fmt.Fprintf(&b, "line %2d stamp %2d:", i, l[stampCell])
		for c, bits := range l[:CellsInLine] {
			if bits != 0 {
				fmt.Fprintf(&b, " %d=%08b", c, bits)
			}
		}
		b.WriteByte('\n')
	}
	compareGolden(t, "picture.txt", b.Bytes())
}

// history adds a few hashes at each of eleven rotations, if s has them.
func history(s Set, each int) {
	f := newFeed(each)
	for range 11 {
		f.fill()
		s.TestAndAdd(f.hashes, f.learn, uint64(each), f.ages)
		if lives(s) > 1 {
			s.Rotate(1)
		}
	}
}

// TestGoldenStates pins AppendState for every kind and kernel by its SHA-256.
func TestGoldenStates(t *testing.T) {
	var b bytes.Buffer
	sum := func(name string, s Set) {
		history(s, 300)
		fmt.Fprintf(&b, "%s %x\n", name, sha256.Sum256(s.AppendState(nil)))
	}
	for d := minLinesPerKey; d <= maxLinesPerKey; d++ {
		for kk := minCellsPerLine; kk <= maxCellsPerLine; kk++ {
			sum(fmt.Sprintf("sliced %dx%d", d, kk), newSliced(t, Params{Lines: 777, LinesPerKey: d, CellsPerLine: kk}))
		}
	}
	c, err := NewClassic(ClassicParams{Bits: 12345, Hashes: 7})
	if err != nil {
		t.Fatal(err)
	}
	sum("classic 7", c)
	for bits := 1; bits <= maxBitsPerLine; bits++ {
		sum(fmt.Sprintf("single 2x%d", bits), newSingle(t, SingleParams{Lines: 777, BitsPerLine: bits}))
	}
	compareGolden(t, "states.txt", b.Bytes())
}
