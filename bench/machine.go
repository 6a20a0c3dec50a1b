package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// Environment is what a figure depends on and what repeats it.
type Environment struct {
	Machine string `json:"machine"`
	Go      string `json:"go"`
	Command string `json:"command"`
	Seed    uint64 `json:"seed"`
}

// NewEnvironment describes this machine and a run of command.
func NewEnvironment(command string, seed uint64) Environment {
	return Environment{
		Machine: fmt.Sprintf("%s, %d CPUs, %s/%s", processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH),
		Go:      runtime.Version(),
		Command: command,
		Seed:    seed,
	}
}

// note is what repeats a run, for below its figure.
func (e Environment) note() string {
	return fmt.Sprintf("%s, %s, seed %d\n%s", e.Machine, e.Go, e.Seed, e.Command)
}

func (e Environment) writeText(w io.Writer) error {
	_, err := fmt.Fprintln(w, e.note())
	return err
}

// processor is the processor's name where Linux tells it.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}
