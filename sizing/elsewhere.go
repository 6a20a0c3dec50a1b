package sizing

// Rival is something else that remembers IDs.
type Rival struct {
	Name       string  `json:"name"`
	BytesPerID float64 `json:"bytes_per_id"`
	Source     string  `json:"source"` // where the figure is from
}

// Elsewhere is what the IDs of one window take in a rival.
type Elsewhere struct {
	Rival
	Bytes uint64 `json:"bytes"`
}

// elsewhere compares with the rivals, and with the one filter that has no window. All of
// them are for the elements as they are: they have no peak to be planned for.
func elsewhere(rivals []Rival, elements, classic uint64) []Elsewhere {
	all := []Elsewhere{{
		Rival{"one classic filter, no window", float64(classic) / float64(elements), "m = -n ln p / (ln 2)^2; it never forgets, and fills up"},
		classic,
	}}
	for _, one := range rivals {
		all = append(all, Elsewhere{one, uint64(one.BytesPerID * float64(elements))})
	}
	return all
}
