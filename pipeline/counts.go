package pipeline

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
)

// Counts is how many records got which outcome. The zero value counts none.
type Counts struct {
	In       uint64
	Verdicts [verdicts]uint64
	Fates    [fates]uint64
	// Marks has the count of mark 1<<i at i; see [Counts.Marked].
	Marks [8]uint64
	// Unsupported are the missing ones whose ID is an array or an object.
	Unsupported uint64
	// RepeatedHeaders are records with more than one header of a name that is
	// part of the ID.
	RepeatedHeaders uint64
	// Ages are the duplicates by how many generations ago the first copy was read.
	Ages [filter.Generations]uint64
	// Audit compares what the shards answered with what is true.
	Audit
}

// Audit counts the records with an ID of the sample: the one of 1,024 hashes of which
// a shard also keeps an exact record. It is in neither sum.
type Audit struct {
	// Sampled are those that were judged: none while the sample does not know all that
	// the live generations hold, see [SampleStats].
	Sampled uint64
	// SampledNew are those that nothing held.
	SampledNew uint64
	// FalsePositives are those that were taken for seen and were not.
	FalsePositives uint64
	// Clashes are the duplicates whose value is not that of the first copy: either
	// copies differ, as they do behind producers that stamp each attempt, or two
	// events have one ID.
	Clashes uint64
}

// FPR is the measured share of new records that were taken for seen, 0 while none
// was sampled.
func (a *Audit) FPR() float64 {
	if n := a.FalsePositives + a.SampledNew; n > 0 {
		return float64(a.FalsePositives) / float64(n)
	}
	return 0
}

// plus adds b to a.
func (a *Audit) plus(b *Audit) {
	a.Sampled += b.Sampled
	a.SampledNew += b.SampledNew
	a.FalsePositives += b.FalsePositives
	a.Clashes += b.Clashes
}

// Marked is how many records have mark m.
func (c *Counts) Marked(m Marks) uint64 { return c.Marks[bits.TrailingZeros8(uint8(m))] }

// add counts one outcome.
func (c *Counts) add(o Outcome) {
	c.In++
	c.Verdicts[o.Verdict]++
	c.Fates[o.Fate]++
	if o.Verdict == Duplicate {
		c.Ages[bits.TrailingZeros8(o.Age)]++
	}
	c.mark(o.Marks)
}

// addUnique counts n outcomes that are the zero Outcome: new, sent out, not marked.
func (c *Counts) addUnique(n uint64) {
	c.In += n
	c.Verdicts[Unique] += n
	c.Fates[Out] += n
}

// found counts what a record's ID has to say beside the outcome.
func (c *Counts) found(f keys.Outcome, repeated bool) {
	if f == keys.Unsupported {
		c.Unsupported++
	}
	if repeated {
		c.RepeatedHeaders++
	}
}

// mark counts marks that were given after the outcome was counted.
func (c *Counts) mark(m Marks) {
	for ; m != 0; m &= m - 1 {
		c.Marks[bits.TrailingZeros8(uint8(m))]++
	}
}

// Plus adds d to c.
func (c *Counts) Plus(d *Counts) {
	c.In += d.In
	for i := range d.Verdicts {
		c.Verdicts[i] += d.Verdicts[i]
	}
	for i := range d.Fates {
		c.Fates[i] += d.Fates[i]
	}
	for i := range d.Marks {
		c.Marks[i] += d.Marks[i]
	}
	c.Unsupported += d.Unsupported
	c.RepeatedHeaders += d.RepeatedHeaders
	for i := range d.Ages {
		c.Ages[i] += d.Ages[i]
	}
	c.plus(&d.Audit)
}

// Check returns an error when one of the two sums does not hold: then a record
// was judged twice or not at all, which is a bug.
func (c *Counts) Check() error {
	var faults []error
	var sum uint64
	for _, n := range c.Verdicts {
		sum += n
	}
	if sum != c.In {
		faults = append(faults, fmt.Errorf("check counts: %d records in, but %d verdicts", c.In, sum))
	}
	sum = 0
	for _, n := range c.Fates {
		sum += n
	}
	if sum != c.In {
		faults = append(faults, fmt.Errorf("check counts: %d records in, but %d fates", c.In, sum))
	}
	return errors.Join(faults...)
}
