package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/streamdedup/streamdedup/internal/keys"
)

// idSettings say what identifies an event: the same to every command that judges,
// audits or imports IDs.
type idSettings struct {
	keys   []string
	preset string // which gave the keys, or ""
	ids    keys.Options

	key *pflag.Flag
	// table is the name of the flag that says how values are divided into columns.
	table string
}

var (
	idFormatFlag = kindOf[bool]{"FORMAT", func(s string) (uuid bool, err error) {
		switch s {
		case "text":
			return false, nil
		case "uuid":
			return true, nil
		}
		return false, didYouMean(fmt.Errorf("unknown value %q: want text or uuid", s), s, []string{"text", "uuid"})
	}, func(uuid bool) string {
		if uuid {
			return "uuid"
		}
		return "text"
	}}
	tableFlag = kindOf[keys.TableKind]{"FORMAT", func(s string) (keys.TableKind, error) {
		for _, kind := range []keys.TableKind{keys.CSV, keys.TSV} {
			if s == kind.String() {
				return kind, nil
			}
		}
		return keys.NoTable, fmt.Errorf("unknown value %q: want csv or tsv", s)
	}, func(kind keys.TableKind) string { return textUnlessZero(kind, keys.TableKind.String) }}
)

const tableUsage = "of values, for keys and times that are a column of them: csv or tsv"

// bind defines the flags; the defaults are what s holds.
func (s *idSettings) bind(fs *pflag.FlagSet) {
	fs.StringArrayVar(&s.keys, "key", s.keys, "what identifies an event, a key `SPEC`: "+oneOf(keys.Forms)+" (repeat for a composite)")
	s.key = fs.Lookup("key")
	fs.Var(presetValue{s}, "preset", "instead of --key, what identifies the events of a source: "+oneOf(presetNames()))
	fs.StringArrayVar(&s.ids.Ignore, "ignore-id", nil, "an ID that means that there is none, such as -1 or unknown: a `VALUE` as its number or text (repeatable)")
	idFormatFlag.add(fs, &s.ids.UUID, "id-format", "of IDs: text, as they are, or uuid: case, braces, dashes and urn:uuid: of a UUID do not count")
	fs.StringArrayVar(&s.ids.Exclude, "fingerprint-exclude", nil, "a `MEMBER` that --key sha256:json leaves out, such as received_at or meta.sent_at (repeatable)")
}

// bindTable defines the flag for values of topics, which have no header.
func (s *idSettings) bindTable(fs *pflag.FlagSet, name, usage string) {
	s.table = name
	tableFlag.add(fs, &s.ids.Table.Kind, name, usage)
}

// presetValue is the flag --preset. It is no setting of its own but stands for
// others, which therefore show what it is.
type presetValue struct{ ids *idSettings }

func (p presetValue) String() string { return "" }
func (p presetValue) Type() string   { return "NAME" }

func (p presetValue) Set(name string) error {
	preset, err := keys.LookupPreset(name)
	if err != nil {
		return didYouMean(err, name, presetNames())
	}
	if p.ids.preset != "" {
		return fmt.Errorf("it is %s already: give one of them", p.ids.preset)
	}
	p.ids.preset, p.ids.keys = name, slices.Clone(preset.Specs)
	if table := &p.ids.ids.Table.Kind; *table == keys.NoTable {
		*table = preset.Table // else check compares them
	}
	return nil
}

func presetNames() []string {
	names := make([]string, len(keys.Presets))
	for i, p := range keys.Presets {
		names[i] = p.Name
	}
	return names
}

// check refuses what does not go together, also where columns are not known yet.
func (s *idSettings) check() error {
	switch {
	case s.preset != "" && s.key != nil && s.key.Changed:
		return withHint(usagef("--key and --preset both say what identifies an event: give one of them"),
			fmt.Sprintf("--preset %s is the same as %s", s.preset, s.presetFlags()))
	case s.preset != "" && s.expanded().Table != keys.NoTable && s.expanded().Table != s.ids.Table.Kind:
		return usagef("--preset %s is of %s: leave out --%s, or give another", s.preset, s.expanded().Table, s.tableFlag())
	case slices.Contains(s.ids.Ignore, ""):
		return usagef(`--ignore-id "": empty IDs are missing as it is`)
	case len(s.ids.Exclude) > 0 && !slices.Contains(s.keys, "sha256:json"):
		return usagef("--fingerprint-exclude is for --key sha256:json: nothing else leaves members out")
	}
	return nil
}

// extractor compiles the specs.
func (s *idSettings) extractor() (*keys.Extractor, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	e, err := keys.Parse(s.keys, 0, s.ids)
	if err != nil {
		err = usagef("--key: %w", err)
		for _, spec := range slices.Backward(s.keys) { // the hint for the first is the one that counts
			err = nearestSpec(err, spec, keys.Forms)
		}
		return nil, err
	}
	return e, nil
}

// nearestSpec adds to err the spec of one of the forms that was probably meant, where
// spec is of no kind that they have.
func nearestSpec(err error, spec string, forms []string) error {
	kind, name, named := strings.Cut(spec, ":")
	var kinds []string
	for _, form := range forms {
		known, _, takesName := strings.Cut(form, ":")
		if known == kind {
			return err // it is something else that is wrong
		}
		if takesName == named {
			kinds = append(kinds, known)
		}
	}
	near := nearest(kind, kinds)
	switch {
	case near == "":
		return err
	case named:
		near += ":" + name
	}
	return withHint(err, fmt.Sprintf("did you mean %s?", near))
}

// expanded is what the preset stands for.
func (s *idSettings) expanded() keys.Preset {
	p, err := keys.LookupPreset(s.preset)
	if err != nil {
		panic("BUG: a preset that the flag let through: " + err.Error())
	}
	return p
}

func (s *idSettings) tableFlag() string { return cmp.Or(s.table, "format") }

// presetFlags are the flags that the preset stands for.
func (s *idSettings) presetFlags() string {
	p := s.expanded()
	var flags []string
	for _, spec := range p.Specs {
		flags = append(flags, "--key "+spec)
	}
	if p.Table != keys.NoTable {
		flags = append(flags, "--"+s.tableFlag()+" "+p.Table.String())
	}
	return strings.Join(flags, " ")
}

// timed is the warning of a key that the retry of an event may change, or "".
func (s *idSettings) timed() string {
	if s.preset != "" {
		return "" // its source repeats it
	}
	for _, spec := range s.keys {
		if keys.NamesTime(spec) {
			return fmt.Sprintf("--key %s is a time, by its name: a retry with another time is another event, and passes; leave it out unless retries repeat it", spec)
		}
	}
	return ""
}

// log says at the start what the IDs are.
func (s *idSettings) log(log *slog.Logger) {
	if s.preset != "" {
		log.Info("a preset identifies events", "preset", s.preset, "flags", s.presetFlags())
	}
	if text := s.timed(); text != "" {
		log.Warn(text)
	}
}

// print says the same on a stderr without a log.
func (s *idSettings) print(stderr io.Writer) {
	if s.preset != "" {
		fmt.Fprintf(stderr, "--preset %s is %s\n", s.preset, s.presetFlags())
	}
	if text := s.timed(); text != "" {
		fmt.Fprintf(stderr, "warning: %s\n", text)
	}
}
