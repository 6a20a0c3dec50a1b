package main

import "github.com/spf13/cobra"

// laterFlags are flags of a command that its documentation promises for a later
// version. Whoever asks for one learns that, and not that it never existed.
var laterFlags = map[string]map[string]string{
	"filter": {
		"memory-limit": ": a filter does not grow yet",
	},
	"run": {
		"memory-limit": ": a filter does not grow yet",
	},
}

// laterCommands are the commands of a later version.
var laterCommands = []string{"doctor", "serve"}

// later says whether a flag of cmd is one of a later version, and what holds
// until then.
func later(cmd *cobra.Command, name string) (why string, ok bool) {
	why, ok = laterFlags[cmd.Name()][name]
	return why, ok
}
