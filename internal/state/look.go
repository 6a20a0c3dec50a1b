package state

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Found is a file that [Look] found.
type Found struct {
	Group, Instance string
	// Path is the file's.
	Path string
	// Bytes is its size, Written when it was finished.
	Bytes   int64
	Written time.Time
	// File is the checkpoint, nil if it is refused.
	File *File
	// Refused is why it cannot be used. Whether it is of the topics that are there
	// now is not known here, nor whether its body is whole: reading that tells.
	Refused error
}

// Look finds the checkpoints below a folder, whoever has its lock: by group,
// instance and partition, the newest first. It changes nothing.
func Look(dir string) ([]Found, error) {
	var found []Found
	groups, err := folders(dir)
	if err != nil {
		return nil, failed(err, "look into state folder %s", dir)
	}
	for _, group := range groups {
		instances, err := folders(group)
		if err != nil {
			return nil, failed(err, "look into state folder %s", group)
		}
		for _, instance := range instances {
			here, err := lookInto(instance)
			if err != nil {
				return nil, failed(err, "look into state folder %s", instance)
			}
			found = append(found, here...)
		}
	}
	slices.SortStableFunc(found, func(a, b Found) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Instance, b.Instance))
	})
	return found, nil
}

// folders are the folders in one.
func folders(dir string) ([]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, file := range files {
		if file.IsDir() {
			paths = append(paths, filepath.Join(dir, file.Name()))
		}
	}
	return paths, nil
}

// lookInto finds the checkpoints of one instance.
func lookInto(folder string) ([]Found, error) {
	all, err := entries(folder)
	if err != nil {
		return nil, err
	}
	o := readOwner(folder)
	if o.Group == "" {
		o.Group, o.Instance = filepath.Base(filepath.Dir(folder)), filepath.Base(folder)
	}
	var found []Found
	for _, e := range all {
		info, err := os.Stat(e.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		file, err := readFile(e.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			file, err = nil, plain(err)
		}
		found = append(found, Found{
			Group: o.Group, Instance: o.Instance, Path: e.path, Bytes: info.Size(), Written: info.ModTime(),
			File: file, Refused: err,
		})
	}
	return found, nil
}
