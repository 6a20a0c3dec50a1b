package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/streamdedup/streamdedup/internal/durable"
	"github.com/streamdedup/streamdedup/pipeline"
)

// kept is how many checkpoints of a partition are kept. One would do but for a
// disk that damages it.
const kept = 2

var errClosed = errors.New("the state folder is closed")

// Config is what a folder needs to know.
type Config struct {
	// Dir is the folder of all state on this machine. It is made if its parent
	// exists: a disk that is not mounted must not be taken for an empty one.
	Dir string
	// Group and Instance name the folder below Dir.
	Group, Instance string
	// IDs is the identity of a partition's topics, by the input's name. It is asked
	// for each checkpoint that is made or listed.
	IDs func(topic string) (Identity, error)
	// Logger gets what is refused, and why. It is required.
	Logger *slog.Logger
}

// Folder keeps the checkpoints of one instance of a group. All methods may be
// called at any time, from any goroutine.
type Folder struct {
	cfg  Config
	path string
	lock *os.File

	mu     sync.Mutex
	last   int64 // the largest sequence number so far, of all partitions
	closed bool
}

var _ pipeline.Checkpoints = (*Folder)(nil)

// owner is what the lock file says, for people and for [Look].
type owner struct {
	Group    string `json:"group"`
	Instance string `json:"instance"`
	PID      int    `json:"pid"` // of the process that had the lock last
}

// Open takes the folder, makes what is missing, and removes what a process that
// was killed left unfinished. An error that the system gave has a Hint: without a
// folder there are no checkpoints, and a restore takes longer.
func Open(cfg Config) (*Folder, error) {
	f := &Folder{cfg: cfg, path: filepath.Join(cfg.Dir, escape(cfg.Group), escape(cfg.Instance))}
	if err := f.open(); err != nil {
		if f.lock != nil {
			_ = f.lock.Close() // the first error is the one to know
		}
		return nil, failed(err, "open state folder %s", f.path)
	}
	return f, nil
}

func (f *Folder) open() error {
	for _, dir := range []string{f.cfg.Dir, filepath.Dir(f.path), f.path} {
		if err := makeFolder(dir); err != nil {
			return err
		}
	}
	lock, err := os.OpenFile(filepath.Join(f.path, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	f.lock = lock
	if err := durable.Lock(lock); err != nil {
		if pid := readOwner(f.path).PID; errors.Is(err, durable.ErrLocked) && pid != 0 {
			return fmt.Errorf("%w (process %d)", err, pid)
		}
		return fmt.Errorf("lock it: %w", err)
	}
	// What is left unfinished may be what fills the disk: it goes first.
	if err := f.clear(); err != nil {
		return err
	}
	return f.sign()
}

// makeFolder makes the last folder of a path.
func makeFolder(path string) error {
	// Where one may not write, some systems do not say that it exists.
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := os.Mkdir(path, 0o700); errors.Is(err, fs.ErrExist) {
		return nil // another made it meanwhile, or it is a file, and the next step says so
	} else if err != nil {
		return err
	}
	return durable.SyncFolder(filepath.Dir(path))
}

// clear removes what is left unfinished and finds the last sequence number.
func (f *Folder) clear() error {
	files, err := os.ReadDir(f.path)
	if err != nil {
		return err
	}
	for _, file := range files {
		name, unfinished := strings.CutSuffix(file.Name(), temporary)
		_, sequence, ours := parseName(name)
		if !ours {
			continue
		}
		f.last = max(f.last, sequence)
		if unfinished {
			if err := os.Remove(filepath.Join(f.path, file.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// sign writes whose folder it is.
func (f *Folder) sign() error {
	text, err := json.Marshal(owner{f.cfg.Group, f.cfg.Instance, os.Getpid()})
	if err != nil {
		return err
	}
	if _, err := f.lock.WriteAt(append(text, '\n'), 0); err != nil {
		return err
	}
	return f.lock.Truncate(int64(len(text)) + 1)
}

// readOwner is what the lock file says, as far as it can be read.
func readOwner(folder string) (o owner) {
	if text, err := os.ReadFile(filepath.Join(folder, lockName)); err == nil {
		_ = json.Unmarshal(text, &o) // torn: the folder's name has to do
	}
	return o
}

// Close gives the folder back. Whoever writes or reads a checkpoint has ended.
func (f *Folder) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return f.lock.Close()
}

// next gives out a sequence number.
func (f *Folder) next() (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, errClosed
	}
	f.last++
	return f.last, nil
}

// entry is a file with a checkpoint's name.
type entry struct {
	path     string
	shard    string
	sequence int64
}

// entries are the files in a folder, the newest of each shard first. Of what else
// is there nothing is said.
func entries(folder string) ([]entry, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, file := range files {
		if shard, sequence, ok := parseName(file.Name()); ok {
			all = append(all, entry{filepath.Join(folder, file.Name()), shard, sequence})
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(b.sequence, a.sequence))
	})
	return all, nil
}

// of are a partition's entries, the newest first.
func (f *Folder) of(p pipeline.Partition) ([]entry, error) {
	all, err := entries(f.path)
	shard := shardName(p)
	return slices.DeleteFunc(all, func(e entry) bool { return e.shard != shard }), err
}

// List is the checkpoints of p that can be used, the newest first. Of each that
// cannot, the log says why.
func (f *Folder) List(p pipeline.Partition) []pipeline.CheckpointFile {
	all, err := f.of(p)
	if err != nil {
		f.cfg.Logger.Warn("cannot look for checkpoints", "partition", p.String(), "folder", f.path, "error", plain(err))
		return nil
	}
	if len(all) == 0 {
		return nil
	}
	topics, err := f.cfg.IDs(p.Topic)
	if err != nil {
		f.cfg.Logger.Warn("cannot tell whose checkpoints these are", "partition", p.String(), "folder", f.path, "error", err)
		return nil
	}
	var good []pipeline.CheckpointFile
	for _, e := range all {
		file, err := readFile(e.path)
		if err == nil {
			err = file.belongs(p, topics)
		}
		switch {
		case err == nil:
			good = append(good, file)
		case !errors.Is(err, fs.ErrNotExist): // else it was removed meanwhile
			f.cfg.Logger.Warn("checkpoint refused", "partition", p.String(), "file", e.path, "reason", plain(err))
		}
	}
	return good
}

// remove removes the oldest first: if it cannot end, the newest are what is left.
func (f *Folder) remove(all []entry) error {
	for _, e := range slices.Backward(all) {
		if err := os.Remove(e.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failed(err, "remove checkpoint %s", e.path)
		}
	}
	if err := durable.SyncFolder(f.path); err != nil {
		return failed(err, "flush state folder %s", f.path)
	}
	return nil
}

// prune removes all but the newest of p. If that fails, the next one tries again.
func (f *Folder) prune(p pipeline.Partition) {
	all, err := f.of(p)
	if err == nil && len(all) > kept {
		err = f.remove(all[kept:])
	}
	if err != nil {
		f.cfg.Logger.Warn("cannot remove old checkpoints", "partition", p.String(), "folder", f.path, "error", plain(err))
	}
}
