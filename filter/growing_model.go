package filter

import (
	"fmt"
	"math"
	"strings"
)

// growingModel is the [Model] of a [Growing]: its first filter, then its slabs.
type growingModel struct {
	filters []slabPlan
	// capacity is how many hashes of a generation the first of them takes. Each next one
	// takes slabShare times fewer.
	capacity uint64
}

const (
	growingGeometry = "growing filter, format %d: %d hashes of a generation in the first of %d filters, half as many in each other: %s"
	growingFormat   = 1
	growingJoint    = " + "
)

// model is what the parameters of g say when it has so many slabs, which are planned.
func (g *Growing) model(slabs int) growingModel {
	first := slabPlan{sliced: g.config.Sliced, single: g.config.Single}
	return growingModel{append([]slabPlan{first}, g.plan[:slabs]...), g.config.GenerationCapacity}
}

func (m growingModel) geometry() string {
	words := make([]string, len(m.filters))
	for i := range m.filters {
		words[i] = m.filters[i].geometry()
	}
	return fmt.Sprintf(growingGeometry, growingFormat, m.capacity, len(words), strings.Join(words, growingJoint))
}

// parseGrowing reads a geometry, if it is one of a [Growing].
func parseGrowing(text string) (m growingModel, ok bool) {
	prefix, _, _ := strings.Cut(growingGeometry, "%s")
	var format, filters int
	if _, err := fmt.Sscanf(text, prefix, &format, &m.capacity, &filters); err != nil {
		return m, false
	}
	_, words, _ := strings.Cut(text, "in each other: ")
	for one := range strings.SplitSeq(words, growingJoint) {
		switch p := parseOne(one).(type) {
		case Params:
			m.filters = append(m.filters, slabPlan{sliced: p})
		case SingleParams:
			m.filters = append(m.filters, slabPlan{single: p})
		default:
			return m, false
		}
	}
	return m, m.geometry() == text && m.capacity > 0
}

// Bytes implements [Model].
func (m growingModel) Bytes() uint64 {
	var bytes uint64
	for i := range m.filters {
		bytes += m.filters[i].lines() * LineBytes
	}
	return bytes
}

// Slabs is how many filters there are besides the first.
func (m growingModel) Slabs() int { return len(m.filters) - 1 }

// FPR implements [Model].
func (m growingModel) FPR(elements uint64) float64 {
	var loads [Generations]uint64
	if m.filters[0].single != (SingleParams{}) {
		loads[0] = elements
	} else {
		for age := range loads {
			loads[age] = generationShare(elements)
		}
	}
	return m.FPRAt(loads)
}

// FPRAt implements [Model]: the last filter has what the others do not take.
func (m growingModel) FPRAt(loads [Generations]uint64) float64 {
	if m.filters[0].single != (SingleParams{}) {
		loads = [Generations]uint64{sum(loads)}
	}
	var right float64
	takes := m.capacity
	for i := range m.filters {
		var in [Generations]uint64
		for age, n := range loads {
			if in[age] = n; i < len(m.filters)-1 {
				in[age] = min(n, takes)
			}
			loads[age] -= in[age]
		}
		right += math.Log1p(-m.filters[i].model().FPRAt(in))
		takes = (m.capacity + slabShare - 1) / slabShare
	}
	return -math.Expm1(right)
}

// Capacity implements [Model].
func (m growingModel) Capacity(fpr float64) uint64 { return capacity(fpr, m.FPR) }

// model is what the filter's own parameters say of it.
func (p *slabPlan) model() Model {
	if p.single != (SingleParams{}) {
		return p.single
	}
	return p.sliced
}

func sum(loads [Generations]uint64) (n uint64) {
	for _, l := range loads {
		n += l
	}
	return n
}
