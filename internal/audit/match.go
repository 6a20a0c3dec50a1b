package audit

import "sort"

// match finds for each output the input that it is, and counts outputs that are
// none or stand in another order.
//
// Where bytes occur once in the input there is nothing to choose. The longest run
// of those in input order is the frame; outputs outside of it are reordered.
// Where bytes occur several times, the output is the earliest of them that fits
// between its neighbours in the frame.
func (p *Partition) match(r *Report) {
	from, to := 0, len(p.out)
	if p.partial {
		from, to = p.known()
		r.Outside += uint64(len(p.out) - (to - from))
	}
	out := p.out[from:to]
	at := p.frame(out)
	upper := make([]int32, len(out)) // where the frame goes on after each output
	next := int32(len(p.in))
	for i := len(out) - 1; i >= 0; i-- {
		upper[i] = next
		if at[i] != none {
			next = at[i]
			p.cameOut(next, out[i])
		}
	}
	lower := int32(none)
	cursors := map[int32]int32{}
	for i, o := range out {
		switch {
		case at[i] != none:
			lower = at[i]
		case o.first == none:
			r.Foreign.add(Place{Partition: p.number, In: none, Out: Offset(o.offset), First: none})
		default:
			if found := p.fitting(o.first, lower, upper[i], cursors); found != none {
				lower = found
				p.cameOut(found, o)
				continue
			}
			p.misplaced(o, r)
		}
	}
}

// known is the part of the output from the first to the last record that the
// input has.
func (p *Partition) known() (from, to int) {
	to = len(p.out)
	for from < to && p.out[from].first == none {
		from++
	}
	for to > from && p.out[to-1].first == none {
		to--
	}
	return from, to
}

// frame gives for each output the index of its input where that is beyond doubt
// and in order, else none.
func (p *Partition) frame(out []output) []int32 {
	at := make([]int32, len(out))
	var unique []int32 // indices into out
	sorted, before := true, int32(none)
	for i, o := range out {
		at[i] = none
		if o.first == none || p.in[o.first].next != none {
			continue
		}
		sorted = sorted && o.first > before
		before = o.first
		unique = append(unique, int32(i))
	}
	if !sorted {
		unique = longestRun(unique, func(i int32) int32 { return out[i].first })
	}
	for _, i := range unique {
		at[i] = out[i].first
	}
	return at
}

// fitting is the first input of the same bytes as first between lower and upper
// that has not come out yet, or none. Lower never falls from call to call.
func (p *Partition) fitting(first, lower, upper int32, cursors map[int32]int32) int32 {
	i, ok := cursors[first]
	if !ok {
		i = first
	}
	for i != none && (i <= lower || p.in[i].out) {
		i = p.in[i].next
	}
	cursors[first] = i
	if i == none || i >= upper {
		return none
	}
	return i
}

// misplaced counts an output whose bytes the input has, but not here.
func (p *Partition) misplaced(o output, r *Report) {
	place := Place{Partition: p.number, In: Offset(p.in[o.first].offset), Out: Offset(o.offset), First: none}
	for i := o.first; i != none; i = p.in[i].next {
		if p.in[i].out {
			r.Extra.add(place)
			return
		}
	}
	p.cameOut(o.first, o)
	r.Reordered.add(place)
}

// cameOut notes that output o is input i.
func (p *Partition) cameOut(i int32, o output) { p.in[i].out, p.in[i].tagged = true, o.tagged }

// longestRun is the longest subsequence with rising values (patience sorting).
func longestRun(items []int32, value func(int32) int32) []int32 {
	if len(items) == 0 {
		return nil
	}
	var tails []int // indices into items: the least end of a run of each length
	before := make([]int, len(items))
	for i, item := range items {
		n := sort.Search(len(tails), func(k int) bool { return value(items[tails[k]]) >= value(item) })
		before[i] = none
		if n > 0 {
			before[i] = tails[n-1]
		}
		if n == len(tails) {
			tails = append(tails, i)
		} else {
			tails[n] = i
		}
	}
	run := make([]int32, len(tails))
	for n, i := len(tails)-1, tails[len(tails)-1]; n >= 0; n, i = n-1, before[i] {
		run[n] = items[i]
	}
	return run
}
