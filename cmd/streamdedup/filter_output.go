package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/streamdedup/streamdedup/internal/files"
)

// outputs are the files that filter writes.
type outputs []*files.Output

// openOutputs opens what filter writes to. None may be an input, or another of
// them: it would be destroyed, or grow for ever.
func (a *app) openOutputs(s *filterSettings, inputs []string) (out outputs, to files.Outputs, err error) {
	var taken []named
	for _, name := range inputs {
		taken = append(taken, fileNamed("input "+name, name))
	}
	if len(inputs) == 0 || slices.Contains(inputs, files.Stdin) {
		taken = append(taken, stream("stdin", a.stdin))
	}
	to.Survivors = a.stdout
	if s.output == files.Stdin {
		stdout := stream("stdout", a.stdout.(stdoutWriter).Writer)
		if err := free(stdout, taken); err != nil {
			return nil, to, err
		}
		taken = append(taken, stdout)
	}
	for _, o := range []struct {
		flag, name string
		to         *io.Writer
	}{{"-o", s.output, &to.Survivors}, {"--divert", s.divert, &to.Diverted}, {"--duplicates", s.duplicates, &to.Duplicates}} {
		if o.name == "" || o.flag == "-o" && o.name == files.Stdin {
			continue
		}
		if o.name == files.Stdin {
			out.abandon()
			return nil, to, usagef("%s -: stdout is for the survivors", o.flag)
		}
		for _, this := range []named{fileNamed(o.flag+" "+o.name, o.name), partialOf(o.flag, o.name)} {
			if err := free(this, taken); err != nil {
				out.abandon()
				return nil, to, err
			}
			taken = append(taken, this)
		}
		file, err := files.Create(o.name)
		if err != nil {
			out.abandon()
			return nil, to, outputError(err)
		}
		out = append(out, file)
		*o.to = file
	}
	to.Begin = out.begin
	return out, to, nil
}

// outputError adds what to do next.
func outputError(err error) error {
	if errors.Is(err, files.ErrInUse) {
		return withHint(err, "wait until that run has ended, or write to another file")
	}
	return err
}

// begin drops what earlier runs have left of the files.
func (o outputs) begin() error {
	for _, file := range o {
		if err := file.Begin(); err != nil {
			return err
		}
	}
	return nil
}

// named is a file under the name that a message gives it.
type named struct {
	as   string
	path string      // "" where only info is known
	info os.FileInfo // nil where there is none yet
}

func fileNamed(as, name string) named {
	path, err := filepath.Abs(name)
	if err != nil {
		path = name
	}
	info, _ := os.Stat(name)
	return named{as, path, info}
}

// partialOf is what an output is until it is complete: that is overwritten, too.
func partialOf(flag, name string) named {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	name += files.Partial
	return fileNamed(name+", which "+flag+" is until it is complete,", name)
}

// stream is one of the process's own, which may be a file.
func stream(as string, s any) named {
	if file, ok := s.(*os.File); ok {
		info, _ := file.Stat()
		return named{as: as, info: info}
	}
	return named{as: as}
}

// free refuses a file that is one of the others. Pipes and devices may be.
func free(f named, others []named) error {
	for _, o := range others {
		same := f.path != "" && f.path == o.path
		if f.info != nil && o.info != nil {
			same = f.info.Mode().IsRegular() && os.SameFile(f.info, o.info)
		}
		if same {
			return withHint(usagef("%s is %s as well", f.as, o.as), "write to another file and rename it in the end")
		}
	}
	return nil
}

// end completes the files, or after an error leaves them as they are and says
// where.
func (o outputs) end(err error) error {
	if err != nil {
		o.abandon()
		return o.incomplete(err)
	}
	for i, file := range o {
		if err := file.Finish(); err != nil {
			o[i+1:].abandon()
			return o[i:].incomplete(err)
		}
	}
	return nil
}

func (o outputs) abandon() {
	for _, file := range o {
		file.Abandon()
	}
}

// incomplete adds to err where the part of the output is that was written.
func (o outputs) incomplete(err error) error {
	var names []string
	for _, file := range o {
		if file.Incomplete() {
			names = append(names, file.Written())
		}
	}
	if len(names) == 0 {
		return err
	}
	return withHint(err, strings.TrimSpace(hintOf(err)+"\nwhat was written until then is in "+oneOf(names)))
}
