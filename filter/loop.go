package filter

//go:generate go run gen_kernels.go

// addLoop is the kernel for every geometry: what the unrolled kernels do, and
// what they are tested against.
func addLoop(s *Sliced, to target, hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	d := s.params.LinesPerKey
	locateLoop(s.lines, hashes, d, &s.spots)
	prefetch(s.lines, s.spots.lines[:len(hashes)*d])

	log := s.journal.reserve(len(hashes) * (addWords + d*lineWords))
	for i, h := range hashes {
		lines, cells := s.spots.lines[i*d:][:d], s.spots.cells[i*d:][:d]
		held := byte(0xff)
		for j, n := range lines {
			held &= s.lineHolds(&s.lines[n], cells[j])
		}
		ages[i] = s.ages(held)
		if ages[i]&to.known != 0 || !learn[i] || added >= room {
			continue
		}
		added++
		var set uint32
		for j, n := range lines {
			if s.lines[n][stampCell] != s.stamp {
				log = s.clean(n, log)
			}
			set |= s.addToLine(&s.lines[n], cells[j], 1<<to.bit) << (j * s.params.CellsPerLine)
		}
		log = append(log, uint64(h), uint64(to.bit)<<bitShift|uint64(set))
	}
	s.journal.keep(log)
	return added
}

// locateLoop finds the lines of some hashes, and the bits that pick cells in them.
func locateLoop(lines []line, hashes []Hash, linesPerKey int, to *spots) {
	for i, h := range hashes {
		for j := range linesPerKey {
			x := linePick(h, j)
			to.lines[i*linesPerKey+j] = lineOf(x, uint64(len(lines)))
			to.cells[i*linesPerKey+j] = cellPick(x)
		}
	}
}

// lineHolds is the set of bits that all cells of a line have, without those that
// expired since the line was cleaned. A look-up therefore writes nothing: only
// an addition and the sweep clean lines.
func (s *Sliced) lineHolds(l *line, pick uint64) byte {
	held := s.fresh[l[stampCell]]
	for c := range s.params.CellsPerLine {
		if c == cellsPerPick {
			pick = cellPickMore(pick)
		}
		held &= l[cellOf(pick, c)]
	}
	return held
}

// addToLine sets the given bit in the cells of a clean line and returns the set of
// cells that did not have it.
func (s *Sliced) addToLine(l *line, pick uint64, bit byte) (set uint32) {
	for c := range s.params.CellsPerLine {
		if c == cellsPerPick {
			pick = cellPickMore(pick)
		}
		cell := &l[cellOf(pick, c)]
		if *cell&bit == 0 {
			set |= 1 << c
			*cell |= bit
		}
	}
	return set
}
