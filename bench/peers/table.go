package peers

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/streamdedup/streamdedup/bench"
)

// A group is a part of the table: peers that do the same, and of streamdedup the run
// that they are compared with.
type group struct {
	what, title string
	reference   string
	// others than the reference are compared with, by peer.
	others map[string]string
}

var groups = []group{
	{what: InMemory, title: "Records in memory, a verdict for each; compared with the engine at 1e-2", reference: "engine-1e-2"},
	{what: TopicToTopic, title: "From topic to topic; each compared with run of the same guarantee, Flink with at-least-once", reference: "run-alo",
		others: map[string]string{"run-eos": "run-eos", "streams-eos": "run-eos"}},
	{what: FileToFile, title: "From file to file; compared with filter", reference: "filter"},
}

// titles are what readers call the peers.
var titles = map[string]string{
	"engine-1e-2": "streamdedup engine, 1e-2", "engine-1e-4": "streamdedup engine, 1e-4",
	"ring": "ring of 8 bits-and-blooms", "redis": "Redis", "postgres": "PostgreSQL", "pebble": "Pebble",
	"run-eos": "streamdedup run, exactly-once", "run-alo": "streamdedup run, at-least-once",
	"streams-eos": "Kafka Streams, exactly-once", "streams-alo": "Kafka Streams, at-least-once",
	"flink-heap": "Flink, heap state", "flink-rocksdb": "Flink, RocksDB state",
	"filter": "streamdedup filter", "benthos": "Benthos", "awk": "awk '!seen[$0]++'", "sort": "sort -u",
}

func title(peer string) string { return cmp.Or(titles[peer], peer) }

// WriteTable writes the results as text: for each peer the medians of its rounds, and
// before them the medians of the ratios to streamdedup in the same round.
func WriteTable(w io.Writer, results []Result) error {
	between := ""
	for _, g := range groups {
		rounds := map[string]map[int]Result{}
		var order []string
		for _, r := range results {
			if r.What != g.what {
				continue
			}
			if rounds[r.Peer] == nil {
				rounds[r.Peer] = map[int]Result{}
				order = append(order, r.Peer)
			}
			rounds[r.Peer][r.Round] = r
		}
		if len(order) == 0 {
			continue
		}
		slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
		fmt.Fprintf(w, "%s%s.\n\n", between, g.title)
		between = "\n"
		if err := g.write(w, order, rounds); err != nil {
			return err
		}
	}
	return nil
}

// place is a peer's in the list of all.
func place(peer string) int {
	if i := slices.Index(Names, peer); i >= 0 {
		return i
	}
	return len(Names)
}

func (g group) write(w io.Writer, order []string, rounds map[string]map[int]Result) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\ttimes the CPU\ttimes the bytes/ID\tevents/s\tCPU ns/event\tevents/CPU s\tbytes/ID\tmissed\tlost")
	for _, peer := range order {
		of := rounds[peer]
		reference := rounds[cmp.Or(g.others[peer], g.reference)]
		cpu := func(r Result) *float64 { return &r.CPUNSPerEvent }
		bytes := func(r Result) *float64 { return r.BytesPerID }
		ns := middle(of, cpu)
		perCPU := "-"
		if ns != nil {
			perCPU = grouped(1e9 / *ns)
		}
		fmt.Fprintln(table, strings.Join([]string{
			title(peer), ratio(of, reference, cpu), ratio(of, reference, bytes),
			figure(middle(of, func(r Result) *float64 { return &r.EventsPerSecond }), grouped), figure(ns, grouped), perCPU,
			figure(middle(of, bytes), func(x float64) string { return fmt.Sprintf("%.2f", x) }),
			figure(middle(of, func(r Result) *float64 { return count(r.Missed) }), grouped),
			figure(middle(of, func(r Result) *float64 { return count(r.Lost) }), grouped),
		}, "\t"))
	}
	return table.Flush()
}

// middle is the median of a figure over the rounds that have it.
func middle(rounds map[int]Result, of func(Result) *float64) *float64 {
	var values []float64
	for _, r := range rounds {
		if x := of(r); x != nil {
			values = append(values, *x)
		}
	}
	return median(values)
}

func median(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	half := len(values) / 2
	m := values[half]
	if len(values)%2 == 0 {
		m = (values[half-1] + m) / 2
	}
	return &m
}

// ratio is the median, over the rounds that both have, of a figure to the reference's.
func ratio(rounds, reference map[int]Result, of func(Result) *float64) string {
	var ratios []float64
	for n, r := range rounds {
		if x, y := of(r), of(reference[n]); x != nil && y != nil && *y > 0 {
			ratios = append(ratios, *x / *y)
		}
	}
	return figure(median(ratios), func(x float64) string { return fmt.Sprintf("%.1f", x) })
}

func count(n *uint64) *float64 {
	if n == nil {
		return nil
	}
	x := float64(*n)
	return &x
}

func figure(x *float64, format func(float64) string) string {
	if x == nil {
		return "-"
	}
	return format(*x)
}

// grouped writes a number with commas between its thousands.
func grouped(x float64) string {
	digits := fmt.Sprintf("%.0f", x)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// WriteSection writes the section of the benchmarks' document.
func WriteSection(w io.Writer, results []Result, e bench.Environment) error {
	if len(results) == 0 {
		return errors.New("no results")
	}
	fmt.Fprint(w, sectionText)
	var block bytes.Buffer
	if err := WriteTable(&block, results); err != nil {
		return err
	}
	rounds, events := 0, 0
	for _, r := range results {
		rounds, events = max(rounds, r.Round), max(events, r.Events)
	}
	fmt.Fprintf(&block, "\n%s records of about 230 bytes, a tenth of them copies, %d partitions; rounds: %d, of which the medians stand here, and of the ratios of each.\n%s, %s, seed %d\n%s\n",
		grouped(float64(events)), Partitions, rounds, e.Machine, e.Go, e.Seed, e.Command)
	for line := range strings.Lines(block.String()) {
		fmt.Fprintln(w, strings.TrimRight("    "+line, " \n"))
	}
	fmt.Fprintln(w)
	writeNotes(w, results)
	return nil
}

const sectionText = `## Peers

The same records, and the same exact judge of what came out: missed are copies that passed, lost are events that did not.
CPU is that of the peer's own processes, a server's and its client's together, without a Kafka broker's. The first two columns are
how many times as much as streamdedup takes. A filter of so few IDs lies in caches; the engine's own section has large ones.
` + "`bench/peers/run.sh`" + ` installs, runs and writes all of it.

`

// writeNotes writes, for each peer, its version and what its figures include.
func writeNotes(w io.Writer, results []Result) {
	said := map[string]bool{}
	ordered := slices.Clone(results)
	slices.SortStableFunc(ordered, func(a, b Result) int { return cmp.Compare(place(a.Peer), place(b.Peer)) })
	for _, r := range ordered {
		if said[r.Peer] {
			continue
		}
		said[r.Peer] = true
		fmt.Fprintf(w, "- %s, %s: %s.\n", title(r.Peer), r.Version, r.Note)
	}
}

const (
	beginMark = "<!-- peers:begin -->"
	endMark   = "<!-- peers:end -->"
)

// Replace puts text between the two comments in a document that are for it.
func Replace(document, text string) (string, error) {
	before, rest, found := strings.Cut(document, beginMark+"\n")
	_, after, closed := strings.Cut(rest, endMark)
	if !found || !closed {
		return "", fmt.Errorf("find the place for the table: the document has no lines %s and %s, in this order", beginMark, endMark)
	}
	return before + beginMark + "\n\n" + strings.TrimSpace(text) + "\n\n" + endMark + after, nil
}
