package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// drawing is a figure of package chart.
type drawing interface{ WriteSVG(w io.Writer) error }

// plot draws a figure into a file, in place of what was in it, and says so.
func (a *app) plot(file string, d drawing) error {
	if err := draw(file, d); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	fmt.Fprintf(a.stderr, "figure written to %s\n", file)
	return nil
}

func draw(file string, d drawing) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return d.WriteSVG(f)
}
