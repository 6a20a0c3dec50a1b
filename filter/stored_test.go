package filter

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// storedSets are the sets whose stored bytes are in testdata, by file.
func storedSets(t *testing.T) map[string]Set {
	t.Helper()
	classic, err := NewClassic(ClassicParams{Bits: 1500, Hashes: 7})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]Set{
		"stored-sliced.bin":  newSliced(t, Params{Lines: 100, LinesPerKey: 3, CellsPerLine: 3}),
		"stored-classic.bin": classic,
	}
}

// storedKeys is how many keys each generation of a stored set holds.
const storedKeys = 100

// fillStored gives s twelve generations of storedKeys keys each, of which the last
// eight are left: those from key 400 on, the newest at age 0.
func fillStored(s Set) {
	for rotation := range uint64(12) {
		if rotation > 0 {
			s.Rotate(1)
		}
		for n := range uint64(storedKeys) {
			h := scatter(rotation*storedKeys + n)
			s.Learn(0, []Hash{h}, []bool{true}, 1, []uint8{0})
		}
	}
}

// checkStored looks up every key of fillStored.
func checkStored(t *testing.T, s Set) {
	t.Helper()
	for key := range uint64(8 * storedKeys) {
		age := Sealed - key/storedKeys
		if got := s.Test(scatter(4*storedKeys + key)); got>>age&1 == 0 {
			t.Fatalf("key %d is not found at age %d but at %08b", 4*storedKeys+key, age, got)
		}
	}
}

// split cuts a stored state into head and body.
func split(s Set, state []byte) (head, body []byte) {
	n := len(s.AppendHead(nil))
	return state[:n], state[n:]
}

// TestCase_STATE_08_StoredFilterIsFoundWhole loads filters that an earlier build
// stored, on some machine: every key must be found, and the same history must still
// give the same bytes. It fails when a hash comes to lie elsewhere.
func TestCase_STATE_08_StoredFilterIsFoundWhole(t *testing.T) {
	for file, s := range storedSets(t) {
		t.Run(file, func(t *testing.T) {
			made := storedSets(t)[file]
			fillStored(made)
			compareGolden(t, file, made.AppendState(nil))
			state, err := os.ReadFile("testdata/" + file)
			if err != nil {
				t.Fatal(err)
			}
			head, body := split(s, state)
			if err := s.Load(head, bytes.NewReader(body)); err != nil {
				t.Fatal(err)
			}
			checkStored(t, s)
			for range Generations {
				s.Rotate(1)
			}
			for key := range uint64(12 * storedKeys) {
				if got := s.Test(scatter(key)); got != 0 {
					t.Fatalf("key %d has ages %08b after eight rotations", key, got)
				}
			}
		})
	}
}

// manyKeys is how many keys one process stores and another looks up.
const manyKeys = 100_000

// TestCase_STATE_08_AnotherProcessFindsAll stores a filter in another process: a
// hash or a seed that differs from process to process would find nothing of it.
func TestCase_STATE_08_AnotherProcessFindsAll(t *testing.T) {
	const child = "STREAMDEDUP_STORE_FILTER"
	p, err := Size(2*manyKeys, 1e-2, Fast)
	if err != nil {
		t.Fatal(err)
	}
	s := newSliced(t, p)
	keys, learn, ages := make([]Hash, manyKeys), make([]bool, manyKeys), make([]uint8, manyKeys)
	for n := range keys {
		keys[n], learn[n] = scatter(uint64(n)), true
	}
	if file := os.Getenv(child); file != "" {
		for age := range Generations {
			from, to := age*manyKeys/Generations, (age+1)*manyKeys/Generations
			s.Learn(age, keys[from:to], learn[from:to], manyKeys, ages[from:to])
		}
		if err := os.WriteFile(file, s.AppendState(nil), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	file := t.TempDir() + "/filter"
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the other process: %v\n%s", err, out)
	}
	state, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, body := split(s, state)
	if err := s.Load(head, bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	for n, h := range keys {
		if age := n * Generations / manyKeys; s.Test(h)>>age&1 == 0 {
			t.Fatalf("key %d is not found at age %d", n, age)
		}
	}
}

// TestCase_STATE_09_GeometryTellsFiltersApart: sets whose bytes mean other things
// have other geometries, which name the version of the format, the number of hashes
// may be the same and the size not. Sets of equal geometries read one another.
func TestCase_STATE_09_GeometryTellsFiltersApart(t *testing.T) {
	classic := func(bits uint64, hashes uint) Set {
		c, err := NewClassic(ClassicParams{Bits: bits, Hashes: hashes})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	all := []Set{
		newSliced(t, Params{Lines: 100, LinesPerKey: 2, CellsPerLine: 4}),
		newSliced(t, Params{Lines: 101, LinesPerKey: 2, CellsPerLine: 4}),
		newSliced(t, Params{Lines: 100, LinesPerKey: 4, CellsPerLine: 2}),
		newSliced(t, Params{Lines: 100, LinesPerKey: 2, CellsPerLine: 5}),
		classic(1500, 7),
		classic(1501, 7), // as many words
		classic(6400, 7), // as many bytes as 100 lines
		classic(1500, 8),
		newSingle(t, SingleParams{Lines: 100, BitsPerLine: 4}),
		newSingle(t, SingleParams{Lines: 100, BitsPerLine: 5}),
		newSingle(t, SingleParams{Lines: 101, BitsPerLine: 4}),
	}
	var words []string
	for _, s := range all {
		g := s.Geometry()
		if slices.Contains(words, g) {
			t.Errorf("two geometries are %q", g)
		}
		if !strings.Contains(g, "format 1") {
			t.Errorf("the geometry %q does not name its format", g)
		}
		words = append(words, g)
	}
	compareGolden(t, "geometries.txt", []byte(strings.Join(words, "\n")+"\n"))

	fillStored(all[0])
	head, body := all[0].AppendHead(nil), all[0].AppendBody(nil, 0, all[0].BodyBytes())
	for i, s := range all[1:] {
		if s.BodyBytes() == all[0].BodyBytes() && len(s.AppendHead(nil)) == len(head) {
			continue // nothing but the geometry tells them apart
		}
		if err := s.Load(head, bytes.NewReader(body)); err == nil {
			t.Errorf("%q loaded what %q stored", words[i+1], words[0])
		}
	}
	same := newSliced(t, Params{Lines: 100, LinesPerKey: 2, CellsPerLine: 4})
	if got := same.Geometry(); got != words[0] {
		t.Errorf("the same geometry is %q and %q", got, words[0])
	}
	if err := same.Load(head, bytes.NewReader(body)); err != nil {
		t.Error(fmt.Errorf("a set of the same geometry: %w", err))
	}
	checkStored(t, same)
}
