package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/streamdedup/streamdedup/internal/keys"
)

// docs/OPERATING.md has each preset with the flags that it stands for.
func TestDocsHaveThePresets(t *testing.T) {
	doc, err := os.ReadFile("../../docs/OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, p := range keys.Presets {
		s := idSettings{preset: p.Name}
		fmt.Fprintf(&rows, "| `%s` | `%s` | %s |\n", p.Name, s.presetFlags(), p.About)
	}
	if want := "| `--preset` | is | the ID is |\n| --- | --- | --- |\n" + rows.String() + "\n"; !strings.Contains(string(doc), want) {
		t.Errorf("the table of presets in docs/OPERATING.md is not\n%s", want)
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

// What an ID is, goes to every command that hashes IDs: an import teaches the ones
// that the run meets, and an audit judges by them.
func TestCommandsAgreeOnWhatAnIDIs(t *testing.T) {
	const plain, braces, other = "5c3f1f0e-8a51-4a54-9c9b-3f5a0c5d0001", "{5C3F1F0E8A514A549C9B3F5A0C5D0001}", "5c3f1f0e-8a51-4a54-9c9b-3f5a0c5d0002"
	options := []string{"--id-format", "uuid", "--ignore-id", "none"}
	with := func(first ...string) []string { return append(first, options...) }

	r := newRemembering(t, 1)
	r.write(0, plain, braces, other, "none", "none")
	r.run(options...)
	r.checkCame(plain, other, "none*2")
	audit := []string{"verify", "--brokers", strings.Join(r.brokers, ","), "--in", r.in, "--out", r.out, "--key", "json:id"}
	if code, _, stderr := exec("", with(audit...)...); code != exitOK {
		t.Errorf("verify: exit code %d, stderr:\n%s", code, stderr)
	}
	if code, _, stderr := exec("", audit...); code != exitFailed || !strings.Contains(stderr, "audit failed") {
		t.Errorf("verify without the options: exit code %d, stderr:\n%s", code, stderr)
	}

	taught := newRemembering(t, 1)
	id := fmt.Sprintf(`{"id":%q,"time":%q,"partition":0}`, braces, time.Now().UTC().Format(time.RFC3339))
	taught.must(id, "import", with("--key", "json:id")...)
	taught.write(0, plain, other)
	taught.run(options...)
	taught.checkCame(other)
	code, _, stderr := taught.state(strings.ReplaceAll(id, braces, "none"), "import", with("--key", "json:id")...)
	if code != exitFailed || !strings.Contains(stderr, "it is one of the IDs to ignore, and means that there is none") {
		t.Errorf("an import of an ID to ignore: exit code %d, stderr:\n%s", code, stderr)
	}
	if code, _, stderr := taught.state(id, "import", "--key", "json:id"); code != exitFailed || !strings.Contains(stderr, "the group has fingerprint ") {
		t.Errorf("an import without the options: exit code %d, stderr:\n%s", code, stderr)
	}
}
