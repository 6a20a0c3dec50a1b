package pipeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/streamdedup/streamdedup/filter"
)

// traffic gives a shard n records, of which each is of the ID "hot" with probability
// share, and else of another that next makes. One in ten has no ID.
func traffic(s *Shard, rng *rand.Rand, n int, share float64, next func(i int) string) {
	for from := 0; from < n; from += 500 {
		var values []string
		for i := range 500 {
			id := next(from + i)
			if rng.Float64() < share {
				id = "hot"
			}
			value := fmt.Sprintf(`{"id":%q}`, id)
			if rng.IntN(10) == 0 {
				value = `{}`
			}
			values = append(values, value)
		}
		s.Process(batchOf(s.Next(), values...))
		s.Seal()
		s.Commit()
	}
}

// An ID with much of the traffic is named with its share, and with its text only
// where that is wanted.
func TestHotIDIsNamed(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 27))
	hot := Record{Value: []byte(`{"id":"hot"}`)}
	for _, share := range []float64{0.1, 0.3, 0.9, 1} {
		for _, show := range []bool{true, false} {
			s := shardOf(t, func(c *Config) { c.ShowIDs = show })
			traffic(s, rng, 100_000, share, func(i int) string { return fmt.Sprint(i) })
			got := s.Hot()
			if hash, _ := s.extractor.Hash(&hot); got.Hash != hash {
				t.Errorf("share %v: hash %x is named, want %x", share, got.Hash, hash)
			}
			// Four standard deviations of what so many glances see, and what the
			// candidates lose: less than a 16th of the rest.
			bound := 4*math.Sqrt(share*(1-share)/hotGlances) + (1-share)/hotCandidates
			if math.Abs(got.Share-share) > bound {
				t.Errorf("share %v: %v is reported, and they may differ by %.3f", share, got.Share, bound)
			}
			if (got.Text == `"hot"`) != show || (got.Text != "") != show {
				t.Errorf("show %v: the text is %q", show, got.Text)
			}
		}
	}
}

// A stream in which no ID stands out names none: neither new ones, nor a few in turn,
// in whatever rhythm, nor a busy one that is gone.
func TestNoIDIsNamedWhereNoneStandsOut(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 28))
	for name, next := range map[string]func(i int) string{
		"new ones":         func(i int) string { return fmt.Sprint(i) },
		"a thousand":       func(int) string { return fmt.Sprint(rng.IntN(1000)) },
		"64 in turn":       func(i int) string { return fmt.Sprint(i % hotEvery) },
		"127 in turn":      func(i int) string { return fmt.Sprint(i % (2*hotEvery - 1)) },
		"a rhythm of 1024": func(i int) string { return fmt.Sprint(i % 1024) },
	} {
		s := shardOf(t, func(c *Config) { c.ShowIDs = true })
		traffic(s, rng, 100_000, 0, next)
		if got := s.Hot(); got != (Hot{}) {
			t.Errorf("%s: %+v is named", name, got)
		}
	}
	s := shardOf(t, nil)
	traffic(s, rng, 100_000, 0.5, func(i int) string { return fmt.Sprint(i) })
	if s.Hot().Share == 0 {
		t.Error("none is named where one is half of the traffic")
	}
	traffic(s, rng, 100_000, 0, func(i int) string { return fmt.Sprint(i) })
	if got := s.Hot(); got != (Hot{}) {
		t.Errorf("%+v is still named", got)
	}
}

// An ID that all records have is named within some thousand of them, and one that was
// but the first to come is forgotten within its round.
func TestAClearHotIDIsNamedEarly(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 30))
	other := func(i int) string { return fmt.Sprint(i) }
	for share, records := range map[float64]int{1: 2000, 0.8: 3000, 0.5: 8000} {
		s := shardOf(t, func(c *Config) { c.ShowIDs = true })
		for luck := range uint64(10) {
			s.hot = hotIDs{luck: luck}
			traffic(s, rng, records, share, other)
			if got := s.Hot(); got.Text != `"hot"` || math.Abs(got.Share-share) > 0.4 || share == 1 && got.Share != 1 {
				t.Errorf("after %d records of which it has %v: %+v", records, share, got)
			}
		}
	}
	s := shardOf(t, nil)
	traffic(s, rng, 2000, 1, other)
	if s.Hot().Share == 0 {
		t.Error("none is named at the beginning")
	}
	traffic(s, rng, 20_000, 0, other)
	if got := s.Hot(); got != (Hot{}) {
		t.Errorf("%+v is still named after ten times as many others", got)
	}
}

// Few glances are not taken for more than they are: of rounds in which twenty IDs share
// the traffic, one in ten thousand may name one too early.
func TestFewGlancesNameNobodyByChance(t *testing.T) {
	rounds := 20_000
	if os.Getenv("STREAMDEDUP_LONG") == "1" {
		rounds = 1_000_000
	}
	for ids, allowed := range map[int]int{20: rounds / 10_000, 1000: 0} {
		rng, named := rand.New(rand.NewPCG(seed(t), 31)), 0
		for range rounds {
			var h hotIDs
			for range hotGlances - 1 {
				if h.glance(filter.Hash(rng.IntN(ids))); h.early {
					named++
					break
				}
			}
		}
		if named > allowed {
			t.Errorf("%d IDs: one is named in %d of %d rounds, want %d at most", ids, named, rounds, allowed)
		}
	}
}

// The text of a long ID is cut.
func TestTextOfALongHotID(t *testing.T) {
	s := shardOf(t, func(c *Config) { c.ShowIDs = true })
	long := strings.Repeat("x", 500)
	traffic(s, rand.New(rand.NewPCG(seed(t), 29)), 100_000, 0, func(int) string { return long })
	if got := s.Hot().Text; len(got) != hotTextBytes {
		t.Errorf("the text has %d bytes", len(got))
	}
}
