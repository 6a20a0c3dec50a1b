package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/streamdedup/streamdedup/internal/keys"
)

// The README has each preset with the flags that it stands for.
func TestREADMEHasThePresets(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, p := range keys.Presets {
		s := idSettings{preset: p.Name}
		fmt.Fprintf(&rows, "| `%s` | `%s` | %s |\n", p.Name, s.presetFlags(), p.About)
	}
	if want := "| `--preset` | is | the ID is |\n| --- | --- | --- |\n" + rows.String() + "\n"; !strings.Contains(string(readme), want) {
		t.Errorf("the README's table of presets is not\n%s", want)
	}
}

// A preset is the flags that it prints.
func TestPresetsAreTheirFlags(t *testing.T) {
	parse := func(flags ...string) *idSettings {
		t.Helper()
		s := &idSettings{}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		s.bind(fs)
		s.bindTable(fs, "format", tableUsage)
		if err := fs.Parse(flags); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, p := range keys.Presets {
		short := parse("--preset", p.Name)
		long := parse(strings.Fields(short.presetFlags())...)
		for _, s := range []*idSettings{short, long} {
			e, err := s.extractor()
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			want, err := keys.Parse(p.Specs, 0, keys.Options{Table: keys.Table{Kind: p.Table}})
			if err != nil {
				t.Fatal(err)
			}
			if e.String() != want.String() {
				t.Errorf("%s: got %s, want %s", p.Name, e, want)
			}
		}
	}
}
