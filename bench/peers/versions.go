package peers

import (
	"debug/buildinfo"
	"fmt"
	"os/exec"
	"regexp"
)

// dependency is the version of a module that a Go program was built with.
func dependency(binary, module string) (string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", fmt.Errorf("read what %s was built with: %w", binary, err)
	}
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version, nil
		}
	}
	return "", fmt.Errorf("%s was built without %s", binary, module)
}

var versionNumber = regexp.MustCompile(`\d+(\.\d+)+`)

// reported is the first version number that a program prints.
func reported(args ...string) (string, error) {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	version := versionNumber.FindString(string(out))
	if version == "" {
		return "", fmt.Errorf("ask %s for its version: %w: %q", args[0], err, out)
	}
	return version, nil
}
