package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// plotFlag is a file to draw into. A name that says another format would be opened as one.
var plotFlag = kindOf[string]{"FILE.svg", func(s string) (string, error) {
	if !strings.EqualFold(filepath.Ext(s), ".svg") {
		return "", fmt.Errorf("figures are SVG: %q does not end in .svg", s)
	}
	return s, nil
}, func(s string) string { return s }}

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
