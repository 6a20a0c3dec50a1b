package main

import (
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// plainWord is a text that a shell takes as it is.
var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// shellWord writes a text as one word of a shell's line.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// flagText is a flag as it was given, for a shell's line, with a space before it.
func flagText(f *pflag.Flag) string {
	switch v := f.Value.(type) {
	case pflag.SliceValue:
		text := ""
		for _, one := range v.GetSlice() {
			text += " --" + f.Name + " " + shellWord(one)
		}
		return text
	case presetValue:
		return " --" + f.Name + " " + shellWord(v.ids.preset)
	}
	if f.Value.Type() == "bool" {
		return " --" + f.Name + "=" + f.Value.String()
	}
	return " --" + f.Name + " " + shellWord(f.Value.String())
}

// joined is a list as one value of a flag has it.
func joined(list []string) string { return strings.Join(list, ",") }
