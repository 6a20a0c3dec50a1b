package sizing

// Elsewhere is what the IDs of one window take in something else that remembers them.
type Elsewhere struct {
	Name       string  `json:"name"`
	BytesPerID float64 `json:"bytes_per_id"`
	Bytes      uint64  `json:"bytes"`
	Source     string  `json:"source"` // where the figure is from
}

// elsewhere compares with the measured ways and the one filter that has no window.
// All of them are for the elements as they are: they have no peak to be planned for.
func elsewhere(m Measured, elements uint64, classic uint64) []Elsewhere {
	all := []Elsewhere{{
		Name:       "one classic filter, no window",
		BytesPerID: float64(classic) / float64(elements), Bytes: classic,
		Source: "m = -n ln p / (ln 2)^2; it never forgets, and fills up",
	}}
	for _, one := range m.Elsewhere {
		one.Bytes = uint64(one.BytesPerID * float64(elements))
		all = append(all, one)
	}
	return all
}
