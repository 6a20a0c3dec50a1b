package pipeline

import "fmt"

// Scope says among which records of an input an ID is looked for.
type Scope uint8

const (
	// ScopePartition is the partition: two copies in two partitions are two first
	// copies.
	ScopePartition Scope = iota
	// ScopeTopic is the whole topic: a [Router] comes first.
	ScopeTopic
)

var scopeNames = [...]string{"partition", "topic"}

// String is the name that [ParseScope] reads.
func (s Scope) String() string { return scopeNames[s] }

// ParseScope reads "partition" or "topic".
func ParseScope(s string) (Scope, error) {
	for i, name := range scopeNames {
		if s == name {
			return Scope(i), nil
		}
	}
	return 0, fmt.Errorf(`parse scope %q: want "partition" or "topic"`, s)
}
