// Sizecheck holds the calculator to what really happens. For points from a million to
// a billion IDs it fills every generation with IDs through a shard, compares the rate
// of false positives with the model's, starts `streamdedup run` with the flags that
// `size` prints, and compares the most memory that the process ever had with
// process_bytes. It writes the table into docs/BENCHMARKS.md once all points are there.
//
//	go run ./bench/sizecheck                                    all points in one run, 3 GB; the large ones take long
//	go run ./bench/sizecheck --points 1e6,1e7 --json FILE       some of them, beside the others that FILE has of runs before
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/streamdedup/streamdedup/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		tell("error: %v", err)
		stop()
		os.Exit(1)
	}
}

// tell says how far it is.
func tell(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

// settings are the flags.
type settings struct {
	points   string
	brokers  string
	binary   string
	document string
	json     string
	seed     uint64
	records  int
}

func run(ctx context.Context) error {
	var s settings
	flag.StringVar(&s.points, "points", "all", "names of `POINTS`, separated by commas: "+strings.Join(names(), ", "))
	flag.StringVar(&s.brokers, "brokers", "", "`HOST:PORT` of a broker (default one inside this process)")
	flag.StringVar(&s.binary, "binary", "", "the streamdedup `FILE` to run (default one built for it)")
	flag.StringVar(&s.document, "document", "docs/BENCHMARKS.md", "`FILE` that gets the table between its markers, when all points are there")
	flag.StringVar(&s.json, "json", "", "`FILE` for the figures as JSON, point by point; those it has of other points stay")
	flag.Uint64Var(&s.seed, "seed", 1, "of the IDs")
	flag.IntVar(&s.records, "records", 1_500_000, "records that the process is given, as fast as it takes them")
	flag.Parse()
	todo, err := chosen(s.points)
	if err != nil {
		return err
	}
	// Before anything else: a file that cannot be used is not to cost an hour.
	report, err := earlier(s.json, bench.NewEnvironment(command(s), s.seed))
	if err != nil {
		return err
	}
	runner, err := newRunner(ctx, s)
	if err != nil {
		return err
	}
	defer runner.close()
	for _, p := range todo {
		tell("%s: %s", p.name, p)
		r, err := runner.check(ctx, p)
		if err != nil {
			return fmt.Errorf("point %s: %w", p.name, err)
		}
		tell("%s: %s", p.name, r)
		report.put(r)
		if err := report.writeJSON(s.json); err != nil {
			return err
		}
	}
	fmt.Print(report.text())
	if missing := report.missing(); len(missing) > 0 {
		tell("the document stays as it is: %s are missing", strings.Join(missing, ", "))
		return nil
	}
	return writeBlock(s.document, report.text())
}

// command is how to repeat the run, for all points.
func command(s settings) string {
	text := "go run ./bench/sizecheck"
	if s.brokers != "" {
		text += " --brokers " + s.brokers
	}
	return text
}

// The table stands between these lines of the document.
const blockBegin, blockEnd = "<!-- sizecheck -->\n", "<!-- end sizecheck -->\n"

// writeBlock puts a text between the markers of a document, as an indented block.
func writeBlock(document, text string) error {
	whole, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(whole), blockBegin)
	_, after, ends := strings.Cut(rest, blockEnd)
	if !begins || !ends {
		return errors.New("write the table: " + document + " does not have the lines " + strings.TrimSpace(blockBegin) + " and " + strings.TrimSpace(blockEnd))
	}
	var block strings.Builder
	for line := range strings.Lines(text) {
		if line != "\n" {
			block.WriteString("    ")
		}
		block.WriteString(line)
	}
	return os.WriteFile(document, []byte(before+blockBegin+"\n"+block.String()+"\n"+blockEnd+after), 0o644)
}
