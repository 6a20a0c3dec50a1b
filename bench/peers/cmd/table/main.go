// Command table writes the peers' section of the benchmarks' document from the
// results of run.sh.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"github.com/streamdedup/streamdedup/bench"
	"github.com/streamdedup/streamdedup/bench/peers"
)

func main() {
	from := flag.String("from", "build/peers/results.json", "results of run.sh")
	into := flag.String("into", "docs/BENCHMARKS.md", "document with the comments that the section stands between; - only prints")
	command := flag.String("command", "bench/peers/run.sh", "how to repeat the run")
	seed := flag.Uint64("seed", 1, "of the stream")
	flag.Parse()
	if err := run(*from, *into, *command, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(from, into, command string, seed uint64) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	results, err := peers.ReadResults(in)
	if err != nil {
		return err
	}
	var section bytes.Buffer
	if err := peers.WriteSection(&section, results, bench.NewEnvironment(command, seed)); err != nil {
		return err
	}
	if into == "-" {
		_, err := os.Stdout.Write(section.Bytes())
		return err
	}
	document, err := os.ReadFile(into)
	if err != nil {
		return err
	}
	replaced, err := peers.Replace(string(document), section.String())
	if err != nil {
		return fmt.Errorf("%s: %w", into, err)
	}
	return os.WriteFile(into, []byte(replaced), 0o644)
}
