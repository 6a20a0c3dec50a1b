package filter

import "math"

//go:generate go run simulate_gen.go

// FPR is the model's false-positive rate of the whole window when it holds
// elements distinct IDs at its worst moment, just before a rotation: Sealed
// generations hold an equal share of them each, rounded up, and the filling one
// has just as many. It is the share of new IDs that the filter takes for seen.
// [Params.FPRAt] says how it is derived.
func (p Params) FPR(elements uint64) float64 {
	m := p.model()
	return unionOfEqual(m.rate(p, generationShare(elements)))
}

// FPRAt is the model's false-positive rate for generations that hold loads[i]
// distinct IDs each, in any order. It takes a microsecond or so and is meant to
// be called with the counts of a live filter.
//
// Derivation. A line has C = 63 cells. Each ID of a generation visits d lines and
// throws kk cells onto each, independently and with repetition. With Lines lines
// and n IDs the number of visits to a line is Poisson with mean
//
//	λ = n·d / Lines
//
// because n is large and each line is unlikely. After i visits occ(i) of the
// line's cells are set, and the kk throws of a look-up find them all set with
// probability E[(occ(i)/C)^kk]. A small line varies too much for the textbook's
// (E[occ]/C)^kk, so the mean over occ and over i is taken exactly. Of a look-up's
// throws, D hit different cells:
//
//	P(D = j) = S(kk,j) · C·(C-1)···(C-j+1) / C^kk      S: Stirling, second kind
//
// and l given cells are all empty after i visits with probability (1-l/C)^(kk·i),
// hence, over a Poisson number of visits, with probability
//
//	e(l) = exp(-λ·a(l))      a(l) = 1 - (1-l/C)^kk
//
// By inclusion and exclusion over the D cells, a line hits with probability
//
//	hit(λ) = Σ_j P(D=j) Σ_l (-1)^l binom(j,l) e(l)
//
// which is what running the occupancy chain state by state gives, without its
// cost; a test compares the two. The d lines of a look-up are independent, so a
// generation answers falsely with q = hit(λ)^d, and the window, which holds when
// any generation does, with 1 - Π(1-q).
//
// An overfull filter does worse, since the IDs that it still learns are those that
// find empty cells: with three times the loads it was sized for at 1e-3 the model says
// 58%, and 62% were measured. Up to those loads no difference can be seen.
//
// The Poisson mixture is that of Putze, Sanders and Singler, "Cache-, Hash- and
// Space-Efficient Bloom Filters" (2007), equation 3.
func (p Params) FPRAt(loads [Generations]uint64) float64 {
	m := p.model()
	var sum float64
	for _, n := range loads {
		sum += math.Log1p(-m.rate(p, n))
	}
	return -math.Expm1(sum)
}

// lineModel holds hit(λ) = Σ_l weight[l]·(exp(-λ·decay[l]) - 1), in which terms of
// equal l are gathered. Taking one from each power changes nothing, as the
// weights sum to zero, and keeps the digits of a small λ.
type lineModel struct {
	weight, decay [maxThrows + 1]float64
	throws        int
}

// maxThrows is the most cells or bits that a hash picks in a line.
const maxThrows = max(maxCellsPerLine, maxBitsPerLine)

// newLineModel is of lines that have some cells, of which each visit throws at some.
func newLineModel(cells, throws int) lineModel {
	m := lineModel{throws: throws}
	distinct := distinctCells(cells, throws)
	for l := 1; l <= throws; l++ {
		m.decay[l] = -math.Expm1(float64(throws) * math.Log1p(-float64(l)/float64(cells)))
		for j := l; j <= throws; j++ {
			m.weight[l] += distinct[j] * binomial(j, l)
		}
		if l%2 == 1 {
			m.weight[l] = -m.weight[l]
		}
	}
	return m
}

func (p Params) model() lineModel { return newLineModel(CellsInLine, p.CellsPerLine) }

// rate is q, the false-positive rate of one generation that holds n IDs.
func (m *lineModel) rate(p Params, n uint64) float64 {
	hit := m.hit(float64(n) * float64(p.LinesPerKey) / float64(p.Lines))
	q := hit
	for range p.LinesPerKey - 1 {
		q *= hit
	}
	return q
}

// hit is the chance that a line of so many visits on average has all cells that a
// look-up throws at.
func (m *lineModel) hit(visits float64) float64 {
	var hit float64
	for l := 1; l <= m.throws; l++ {
		hit += m.weight[l] * math.Expm1(-visits*m.decay[l])
	}
	// Rounding may carry a full line past certainty.
	return min(max(hit, 0), 1)
}

// distinctCells is P(D = j), the chance that some throws hit j different cells.
func distinctCells(cells, throws int) (p [maxThrows + 1]float64) {
	of := float64(cells)
	p[0] = 1
	for range throws {
		for j := throws; j >= 1; j-- {
			p[j] = p[j]*float64(j)/of + p[j-1]*float64(cells-j+1)/of
		}
		p[0] = 0
	}
	return p
}

// binomial is n over k, exact for the few cells of a look-up.
func binomial(n, k int) float64 {
	b := 1
	for i := 1; i <= k; i++ {
		b = b * (n - k + i) / i
	}
	return float64(b)
}

// FPR is the false-positive rate of the whole ring when the window holds elements
// distinct IDs at its worst moment; see [Params.FPR].
func (p ClassicParams) FPR(elements uint64) float64 {
	return unionOfEqual(p.rate(generationShare(elements)))
}

// FPRAt is the ring's false-positive rate for filters that hold loads[i] distinct
// IDs each: 1 - Π(1-q) with q = (1 - exp(-k·n/m))^k, the formula of Bloom, "Space/Time
// Trade-offs in Hash Coding with Allowable Errors" (1970), in its usual limit.
func (p ClassicParams) FPRAt(loads [Generations]uint64) float64 {
	var sum float64
	for _, n := range loads {
		sum += math.Log1p(-p.rate(n))
	}
	return -math.Expm1(sum)
}

func (p ClassicParams) rate(n uint64) float64 {
	k := float64(p.Hashes)
	return math.Pow(-math.Expm1(-k*float64(n)/float64(p.Bits)), k)
}

// FPR is the model's false-positive rate when the filter holds elements distinct
// IDs: hit(λ)² with λ = 2·elements/Lines, where a line of 512 bits hits as one of
// as many cells does in [Params.FPRAt]. It has no generations to share the rate.
func (p SingleParams) FPR(elements uint64) float64 {
	m := newLineModel(bitsInLine, p.BitsPerLine)
	hit := m.hit(float64(elements) * SingleLinesPerKey / float64(p.Lines))
	return hit * hit
}

// FPRAt is FPR of the sum of loads.
func (p SingleParams) FPRAt(loads [Generations]uint64) float64 {
	var sum uint64
	for _, n := range loads {
		sum += n
	}
	return p.FPR(sum)
}

// generationShare is what each generation holds of a window's elements.
func generationShare(elements uint64) uint64 {
	share := elements / Sealed
	if elements%Sealed != 0 {
		share++
	}
	return share
}

// unionOfEqual is 1 - (1-q)^Generations without losing the digits of a small q.
func unionOfEqual(q float64) float64 {
	return -math.Expm1(Generations * math.Log1p(-q))
}
