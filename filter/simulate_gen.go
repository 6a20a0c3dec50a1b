//go:build ignore

// This program writes FPR.md: what the model gives, and what was measured.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/streamdedup/streamdedup/filter/internal/simulate"
)

const seed = 1

func main() {
	table, err := simulate.Table(func(r simulate.Row) (string, error) {
		rate, deviation, err := r.Measure(seed)
		log.Printf("%g %s: %.4g", r.Target, r.Design, rate)
		return fmt.Sprintf("%.3g ± %.1g", rate, deviation), err
	})
	if err != nil {
		log.Fatalf("measure rates: %v", err)
	}
	if err := os.WriteFile("FPR.md", []byte(table), 0o644); err != nil {
		log.Fatalf("write table: %v", err)
	}
}
