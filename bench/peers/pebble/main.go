// Command pebble removes the copies from the stream of package peers with a Pebble
// store in this process. It is a module of its own for the sake of who tests the
// others.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/streamdedup/streamdedup/bench/peers"
)

func main() {
	events := flag.Int("events", 2_000_000, "records of the stream")
	seed := flag.Uint64("seed", 1, "of the stream")
	dir := flag.String("dir", "build/peers", "folder for the store, which is removed")
	flag.Parse()
	if err := run(*events, *seed, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(events int, seed uint64, dir string) (err error) {
	stream, err := peers.NewStream(events, seed)
	if err != nil {
		return err
	}
	dir = filepath.Join(dir, "pebble")
	if err := os.RemoveAll(dir); err != nil { // left by a run that was killed
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.db.Close()) }()
	r, err := peers.MeasureJudge(peers.Result{
		Peer: "pebble", Version: version(),
		Note: fmt.Sprintf("a key is the time's slot and the ID, %d slots are asked and one is dropped by a range deletion; commits unsynced; bytes are on disk, beside %d MB of cache and memtables", slots, (cacheBytes+memTableBytes)>>20),
	}, stream, s)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, d := range info.Deps {
		if d.Path == "github.com/cockroachdb/pebble/v2" {
			return d.Version
		}
	}
	return "unknown"
}
