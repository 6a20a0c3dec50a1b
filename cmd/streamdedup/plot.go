package main

import (
	"fmt"
	"io"
	"os"
)

// drawing is a figure of package chart.
type drawing interface{ WriteSVG(w io.Writer) error }

// plot draws a figure into a file, in place of what was in it.
func plot(file string, d drawing) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	defer func() {
		if closed := f.Close(); err == nil && closed != nil {
			err = fmt.Errorf("plot: %w", closed)
		}
	}()
	return d.WriteSVG(f)
}
