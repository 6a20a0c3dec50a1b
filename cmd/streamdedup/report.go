package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/pflag"
)

// The formats of a report.
const (
	reportText = "text"
	reportJSON = "json"
)

// bindOutput defines -o for a command whose result is a report.
func bindOutput(fs *pflag.FlagSet, format *string) {
	*format = reportText
	fs.VarP(&value[string]{format, "FORMAT", choiceFlag("", reportText, reportJSON).parse, func(s string) string { return s }},
		"output", "o", "text or json")
}

// textReport is a result that people and programs can read.
type textReport interface{ WriteText(w io.Writer) error }

// report prints a result to stdout.
func (a *app) report(r textReport, format string) error {
	if format == reportText {
		return r.WriteText(a.stdout)
	}
	e := json.NewEncoder(a.stdout)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
