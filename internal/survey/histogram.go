package survey

import (
	"math"
	"math/bits"
)

// stepBits is how finely ages are told apart: to one in 2^stepBits, rounded up.
const stepBits = 7

// histogram counts ages in milliseconds: exactly below 2^(stepBits+1), else to less than
// a hundredth.
type histogram struct {
	counts []uint64
	total  uint64
	oldest int64 // exact
}

// step is the number of the count that an age goes to, and last the largest age there.
func step(age int64) int {
	if age < 1<<(stepBits+1) {
		return int(age)
	}
	shift := bits.Len64(uint64(age)) - (stepBits + 1)
	return shift<<stepBits + int(age>>shift)
}

func last(step int) int64 {
	if step < 1<<(stepBits+1) {
		return int64(step)
	}
	shift := step>>stepBits - 1
	return int64(step-shift<<stepBits+1)<<shift - 1
}

func (h *histogram) add(age int64) {
	i := step(age)
	if i >= len(h.counts) {
		h.counts = append(h.counts, make([]uint64, i+1-len(h.counts))...)
	}
	h.counts[i]++
	h.total++
	h.oldest = max(h.oldest, age)
}

func (h *histogram) plus(other *histogram) {
	if n := len(other.counts); n > len(h.counts) {
		h.counts = append(h.counts, make([]uint64, n-len(h.counts))...)
	}
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.oldest = max(h.oldest, other.oldest)
}

// quantile is the age that a share of the copies do not exceed.
func (h *histogram) quantile(share float64) int64 {
	rank := uint64(math.Ceil(min(max(share, 0), 1) * float64(h.total)))
	var sum uint64
	for i, n := range h.counts {
		if sum += n; sum >= rank && sum > 0 {
			return min(last(i), h.oldest)
		}
	}
	return h.oldest
}

// above is how many copies are older, to the fineness of the histogram.
func (h *histogram) above(age int64) uint64 {
	var sum uint64
	for _, n := range h.counts[min(step(age)+1, len(h.counts)):] {
		sum += n
	}
	return sum
}
