package kafkaio

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// golden is what a release left in Kafka: a partition of the changelog and the offset
// metadata beside it. Every later release restores from it.
//
// It is a file of lines of a word and a value: "metadata" and the text, for each
// version that the release reads, and "record" and the value of a changelog record in
// hexadecimal. The input was that of goldenInput. A release adds a file, with
// STREAMDEDUP_GOLDEN=<name>; none is ever changed.
type golden struct {
	metadata []string
	records  [][]byte
}

const goldenIDs = 300

// goldenTime is the time of the i-th record: three a second, so that 100 seconds pass
// and a window of 70 has forgotten the first.
func goldenTime(i int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(i)*1000/3) }

// goldenScene has the input that the release had read.
func goldenScene(t *testing.T) *scene {
	t.Helper()
	s := newScene(t, kafkatest.Fake(t).ListenAddrs(), 1)
	s.rules.Window.Span = 70 * time.Second
	return s
}

func (s *scene) goldenInput(from, to int) {
	s.t.Helper()
	for i := from; i < to; i++ {
		r := s.record(0, fmt.Sprintf("golden-%d", i))
		r.Timestamp = goldenTime(i)
		s.write(r)
	}
}

func readGolden(t *testing.T, name string) golden {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var g golden
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		word, value, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "metadata":
			g.metadata = append(g.metadata, value)
		case "record":
			record, err := hex.DecodeString(value)
			if err != nil {
				t.Fatal(err)
			}
			g.records = append(g.records, record)
		default:
			t.Fatalf("%s has a line that begins with %q", name, word)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return g
}

// everythingKnown writes all IDs again: what the window held then is found, all of
// it, and what it had forgotten passes.
func (s *scene) everythingKnown(t *testing.T) {
	t.Helper()
	want := map[string]int{}
	slice := s.rules.Window.Slice()
	now := goldenTime(goldenIDs - 1)
	for i := range goldenIDs {
		r := s.record(0, fmt.Sprintf("golden-%d", i))
		r.Timestamp = now
		s.write(r)
		if now.UnixMilli()/slice-goldenTime(i).UnixMilli()/slice > 7 {
			want[string(r.Value)] = 1
		}
	}
	r := s.start()
	r.judged(goldenIDs)
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	same(t, s.output(s.cfg.Out), want)
	if len(want) == 0 || len(want) > goldenIDs/3 {
		t.Errorf("%d of %d IDs are forgotten: the test shows little", len(want), goldenIDs)
	}
	if got := r.engine.Snapshot().Partitions[0].Window.Coverage; got != 1 {
		t.Errorf("coverage is %v", got)
	}
}

func TestGoldenState(t *testing.T) {
	t.Parallel()
	if name := os.Getenv("STREAMDEDUP_GOLDEN"); name != "" {
		makeGolden(t, name)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden state: %v", err)
	}
	for _, file := range files {
		g := readGolden(t, file)
		if len(g.records) < 5 || len(g.metadata) < 1 {
			t.Fatalf("%s has %d records and %d texts of metadata", file, len(g.records), len(g.metadata))
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name+"/changelog", func(t *testing.T) {
			s := goldenScene(t)
			s.goldenInput(0, goldenIDs)
			s.cfg.WarmUp = false // nothing of the input is looked at
			session, err := Open(ctx(t), s.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := session.Close(ctx(t), true); err != nil {
				t.Fatal(err)
			}
			id := session.found.inputs[s.cfg.In[0]].id
			writer := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
			for _, value := range g.records {
				r := &kgo.Record{Topic: ChangelogTopic(s.cfg.Group, s.cfg.In[0]), Key: id[:], Value: value}
				if err := writer.ProduceSync(ctx(t), r).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			commitAs(t, s, goldenIDs, g.metadata[0])
			s.everythingKnown(t)
		})
		for _, metadata := range g.metadata {
			word, _, _ := strings.Cut(metadata, " ")
			t.Run(name+"/"+word, func(t *testing.T) {
				s := goldenScene(t)
				s.goldenInput(0, goldenIDs)
				commitAs(t, s, goldenIDs, metadata)
				s.everythingKnown(t)
			})
		}
	}
}

// makeGolden writes what this release leaves.
func makeGolden(t *testing.T, name string) {
	t.Helper()
	s := goldenScene(t)
	r := s.start()
	for i := 0; i < goldenIDs; i += 20 {
		s.goldenInput(i, i+20)
		r.judged(i + 20)
	}
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	metadata := committedOf(t, s, 0).metadata
	if _, err := pipeline.ParseMetadata(metadata); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("metadata %s\nmetadata %s\n", metadata, version1(t, metadata))
	for _, record := range s.read(ChangelogTopic(s.cfg.Group, s.cfg.In[0])) {
		text += fmt.Sprintf("record %x\n", record.Value)
	}
	if err := os.MkdirAll(filepath.Join("testdata", "golden"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", "golden", name+".txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
