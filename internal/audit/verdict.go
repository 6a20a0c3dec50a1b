package audit

// copyOf is what is known of an ID so far, as indices of inputs.
type copyOf struct {
	learned  int32 // the last copy that came out
	withheld int32 // the last first copy that is absent
}

// verdicts judges every input in order, given which came out.
func (p *Partition) verdicts(r *Report) {
	beginning := p.stream.beginning()
	known := make([]copyOf, len(p.byID))
	for i := range known {
		known[i] = copyOf{none, none}
	}
	for i := range p.in {
		e := &p.in[i]
		if e.stream.lo == unknown {
			e.stream = beginning
		}
		if e.id == none {
			r.NoID++
		}
		// Where duplicates are tagged everything comes out.
		if !e.out && (e.id == none || r.tags) || e.id == none && e.tagged {
			r.Lost.add(p.place(e, none))
			continue
		}
		if e.id == none {
			continue
		}
		p.verdict(int32(i), &known[e.id], r)
	}
}

// verdict judges input i, whose ID has the past k.
func (p *Partition) verdict(i int32, k *copyOf, r *Report) {
	e := &p.in[i]
	span, forgotten := p.auditor.cfg.Window.Milliseconds(), p.auditor.cfg.forgotten()
	since := bounds{unknown, unknown} // since the ID was learned
	if k.learned != none {
		since = moved(p.in[k.learned].stream, e.stream)
	}
	if e.out && !e.tagged {
		if since.hi <= span {
			r.Missed.add(p.place(e, k.learned))
		} else {
			r.Unique++
		}
		k.learned = i
		return
	}
	switch {
	case since.lo <= forgotten:
		r.Duplicate++
	case k.withheld != none && moved(p.in[k.withheld].stream, e.stream).lo <= forgotten:
		r.Duplicate++ // of a first copy that was counted as withheld
	case p.partial && e.stream.lo-p.in[0].stream.hi <= forgotten:
		r.Excused++
	default:
		r.Withheld.add(p.place(e, none))
		k.withheld = i
	}
}

func (p *Partition) place(e *input, first int32) Place {
	at := Place{Partition: p.number, In: Offset(e.offset), Out: none, First: none}
	if first != none {
		at.First = Offset(p.in[first].offset)
	}
	return at
}
