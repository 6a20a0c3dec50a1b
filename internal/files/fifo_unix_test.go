//go:build unix

package files

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/streamdedup/streamdedup/pipeline"
)

// writing fails when a door has begun with its last input.
type writing struct {
	door *Door
	err  error
}

func (w *writing) Write([]byte) (int, error) {
	for w.door.stream.where() != "pipe" {
		runtime.Gosched()
	}
	return 0, w.err
}

// A named pipe without a writer, which cannot even be opened, holds up nobody when the
// stream has failed.
func TestANamedPipeWithoutAWriter(t *testing.T) {
	broken := errors.New("broken")
	t.Chdir(t.TempDir())
	if err := errors.Join(os.WriteFile("lines", []byte("a\nb\n"), 0o600), unix.Mkfifo("pipe", 0o600)); err != nil {
		t.Fatal(err)
	}
	door, err := Open(Config{Inputs: []string{"lines", "pipe"}, MaxLine: maxLine, Wall: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	r := rules(t, 10, nil)
	shard, err := pipeline.NewShard(r, pipeline.Partition{Topic: "files"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := door.Filter(t.Context(), Outputs{Survivors: &writing{door, broken}}, r, shard); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	if err := shard.Close(); err != nil {
		t.Error(err)
	}
	// Whoever waits for a writer, or is about to, gets one.
	writer, err := os.OpenFile("pipe", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, "a pipe that got its writer")
	if err := writer.Close(); err != nil {
		t.Error(err)
	}
}
