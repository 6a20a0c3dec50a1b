package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
)

// readAllowed reads the IDs of --allow-id, one a line, as hashes. A line that is a
// JSON string, number or array, or true or false, is that; any other is a text.
func readAllowed(path string, specs []string, seed uint64, o keys.Options) ([]filter.Hash, error) {
	extractor, err := keys.Parse(specs, seed, o)
	if err != nil {
		return nil, usagef("--key: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, withHint(fmt.Errorf("read --allow-id: %w", err), "it is a file of IDs, one a line, not an ID; leave the flag out where none is to pass")
	}
	var allowed []filter.Hash
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			continue
		}
		hash := extractor.HashText
		if keys.IsLiteral(line) {
			hash = extractor.HashWritten
		}
		h, err := hash(line)
		if err != nil {
			return nil, withHint(fmt.Errorf("read --allow-id %s: line %d: %.80q is no ID: %w", path, n, line, err),
				`an ID a line: text as it is, numbers as in the records, a text of digits in quotes, a composite as an array, ["a",1]`)
		}
		allowed = append(allowed, h)
	}
	return allowed, nil
}
