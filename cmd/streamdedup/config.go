package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// environmentPrefix is that of the variables that stand for flags: --window is
// STREAMDEDUP_WINDOW. Variables that name no flag are left alone, since a
// cluster may set some of its own for a service of our name; where one is nearly a
// flag's, that is said.
const environmentPrefix = "STREAMDEDUP_"

// configurable gives a command the flags --config and --print-config, and its
// other flags a key in the file and a variable in the environment. Flags win
// over the environment, and that over the file; of flags that exclude each other
// the one from the highest place stands. Secrets are the flags that
// --print-config must not show.
type configurable struct {
	file      string
	print     bool
	exclusive [][]string
	secrets   []string
}

// bind defines the two flags.
func (c *configurable) bind(fs *pflag.FlagSet) {
	fs.StringVar(&c.file, "config", "", "YAML file with a key for each flag; environment (STREAMDEDUP_WINDOW) and flags win over it")
	fs.BoolVar(&c.print, "print-config", false, "print the effective configuration, secrets masked, and exit")
}

// load sets the flags that the command line left alone. It reports all faults at
// once. What looks wrong but may be right it leaves to [mistyped], which speaks in the
// log: how that is written is among the flags.
func (c *configurable) load(cmd *cobra.Command) error {
	merged := koanf.New(" ") // no name has a space: names are not paths
	var lines map[string]int
	if c.file != "" {
		layer, l, err := readConfig(c.file, cmd)
		if err != nil {
			return err
		}
		lines = l
		c.put(merged, layer)
	}
	environment := layer{}
	for _, f := range settings(cmd) {
		// An empty variable is how scripts leave one out.
		if text := os.Getenv(variable(f)); text != "" {
			environment[f.Name] = strings.Split(text, "\n")
			delete(lines, f.Name)
		}
	}
	c.put(merged, environment)
	for _, f := range settings(cmd) {
		if f.Changed {
			c.yield(merged, f.Name)
		}
	}
	var faults []error
	for _, f := range settings(cmd) {
		for _, text := range merged.Strings(f.Name) {
			if err := cmd.Flags().Set(f.Name, text); err != nil {
				place := variable(f)
				if line, ok := lines[f.Name]; ok {
					place = fmt.Sprintf("%s line %d: %s", c.file, line, f.Name)
				}
				faults = append(faults, usagef("%s: %w", place, cause(err)))
				break
			}
		}
	}
	return errors.Join(faults...)
}

// put lays a layer over what is there.
func (c *configurable) put(merged *koanf.Koanf, l layer) {
	for name := range l {
		c.yield(merged, name)
	}
	if err := merged.Load(l, nil); err != nil {
		panic("BUG: a layer of values cannot fail to load: " + err.Error())
	}
}

// yield takes away what a value from a higher place replaces: its own and those
// it excludes.
func (c *configurable) yield(merged *koanf.Koanf, name string) {
	merged.Delete(name)
	for _, group := range c.exclusive {
		if slices.Contains(group, name) {
			for _, rival := range group {
				merged.Delete(rival)
			}
		}
	}
}

// layer is the values of one place by flag name. It is a koanf.Provider.
type layer map[string][]string

// Read returns the values for koanf.
func (l layer) Read() (map[string]any, error) {
	m := make(map[string]any, len(l))
	for name, values := range l {
		m[name] = values
	}
	return m, nil
}

// ReadBytes is the other way to provide, for providers that need a parser.
func (l layer) ReadBytes() ([]byte, error) {
	return nil, errors.New("a layer of values has no bytes")
}

// settings are the flags of cmd that may stand in a file.
func settings(cmd *cobra.Command) []*pflag.Flag {
	var all []*pflag.Flag
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "config" && f.Name != "print-config" {
			all = append(all, f)
		}
	})
	return all
}

// variable is the name of a flag in the environment.
func variable(f *pflag.Flag) string {
	return environmentPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// ofCluster are the variables that Kubernetes sets for a service of our name.
var ofCluster = regexp.MustCompile(`^(SERVICE_(HOST|PORT)|PORT)(_|$)`)

// mistyped says which variables are nearly a flag's.
func mistyped(cmd *cobra.Command, environment []string) (texts []string) {
	var names []string
	for _, f := range settings(cmd) {
		names = append(names, strings.TrimPrefix(variable(f), environmentPrefix))
	}
	for _, pair := range environment {
		full, value, _ := strings.Cut(pair, "=")
		name, ours := strings.CutPrefix(full, environmentPrefix)
		if !ours || value == "" || ofCluster.MatchString(name) || slices.Contains(names, name) {
			continue
		}
		if near := nearest(name, names); near != "" {
			texts = append(texts, fmt.Sprintf("%s is no flag's: did you mean %s%s?", full, environmentPrefix, near))
		}
	}
	return texts
}

// readConfig reads a file: its values as written, and the line of each.
func readConfig(path string, cmd *cobra.Command) (layer, map[string]int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read configuration: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, nil, usagef("%s: %w", path, err)
	}
	values, lines := layer{}, map[string]int{}
	if len(doc.Content) == 0 { // an empty file
		return values, lines, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, nil, usagef("%s line %d: want keys and values, as in \"window: 24h\"", path, root.Line)
	}
	var faults []error
	fault := func(line int, err error) {
		faults = append(faults, fmt.Errorf("%s line %d: %w", path, line, err))
	}
	for i := 0; i < len(root.Content); i += 2 {
		key, node := root.Content[i], root.Content[i+1]
		f := cmd.LocalFlags().Lookup(key.Value)
		if f == nil || !slices.Contains(settings(cmd), f) {
			fault(key.Line, unknownKey(cmd, key.Value))
			continue
		}
		if line, twice := lines[f.Name]; twice {
			fault(key.Line, usagef("%s stands on line %d already", key.Value, line))
			continue
		}
		texts, err := scalars(node)
		if err != nil {
			fault(node.Line, usagef("%s: %w", key.Value, err))
			continue
		}
		values[f.Name], lines[f.Name] = texts, key.Line
	}
	return values, lines, errors.Join(faults...)
}

// unknownKey is the error for a key that no flag has.
func unknownKey(cmd *cobra.Command, key string) error {
	var names []string
	for _, f := range settings(cmd) {
		names = append(names, f.Name)
	}
	err := usagef("unknown key %q", key)
	if near := nearest(key, names); near != "" {
		return withHint(err, fmt.Sprintf("did you mean %q?", near))
	}
	return withHint(err, fmt.Sprintf("keys are the names of the flags: `%s --help` lists them", cmd.CommandPath()))
}

// scalars are the texts of a value or of a list of values.
func scalars(n *yaml.Node) ([]string, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	var texts []string
	for _, n := range nodes {
		if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
			return nil, errors.New("want a value or a list of values")
		}
		texts = append(texts, n.Value)
	}
	return texts, nil
}

// write prints the effective configuration as a file that --config reads, but
// for the secrets.
func (c *configurable) write(w io.Writer, cmd *cobra.Command) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range settings(cmd) {
		key, node := scalar(f.Name), &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		many, isList := f.Value.(pflag.SliceValue)
		switch {
		case isList:
			for _, text := range many.GetSlice() {
				node.Content = append(node.Content, scalar(text))
			}
		case f.Value.String() != "" && slices.Contains(c.secrets, f.Name):
			node = scalar("********")
		default:
			node = scalar(f.Value.String())
		}
		if isList && len(node.Content) == 0 || !isList && node.Value == "" {
			continue // not set, and no default
		}
		root.Content = append(root.Content, key, node)
	}
	text, err := yaml.Marshal(root)
	if err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	_, err = w.Write(text)
	return err
}

func scalar(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: text}
}

// cause drops what pflag wraps around a value's own error, since whoever prints it
// names the place itself, and what Go's parser says about a switch.
func cause(err error) error {
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		err = invalid.Unwrap()
	}
	if number := (*strconv.NumError)(nil); errors.As(err, &number) && number.Func == "ParseBool" {
		return fmt.Errorf("unknown value %q: want true or false", number.Num)
	}
	return err
}
