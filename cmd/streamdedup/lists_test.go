package main

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

func TestListFlag(t *testing.T) {
	t.Parallel()
	f := func(args []string, want string) {
		t.Helper()
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		sizes := []uint64{1 << 30}
		sizeFlag.addList(fs, &sizes, "memory", "")
		err := fs.Parse(args)
		got := fs.Lookup("memory").Value.String()
		if want == "" {
			if err == nil {
				t.Errorf("%q is taken for %s", args, got)
			}
			return
		}
		if err != nil || got != want {
			t.Errorf("%q is %s, want %s; error %v", args, got, want, err)
		}
	}
	f(nil, "1GiB")
	f([]string{"--memory", "256KiB, 2GiB"}, "256KiB,2GiB")
	f([]string{"--memory", "1MiB", "--memory", "2MiB,3MiB"}, "1MiB,2MiB,3MiB")
	f([]string{"--memory", "1MiB,"}, "")
	f([]string{"--memory", "1MiB,many"}, "")

	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	counts := []uint64{4}
	numberFlag("partitions").addList(fs, &counts, "partitions", "")
	value := fs.Lookup("partitions").Value.(pflag.SliceValue)
	if err := value.Replace([]string{"1k", "64"}); err != nil || !slices.Equal(value.GetSlice(), []string{"1000", "64"}) {
		t.Errorf("replaced: %q, error %v", value.GetSlice(), err)
	}
	if err := value.Append("2"); err != nil || !slices.Equal(counts, []uint64{1000, 64, 2}) {
		t.Errorf("appended: %d, error %v", counts, err)
	}
	if value.Replace([]string{"no"}) == nil || value.Append("no") == nil {
		t.Error("a word is taken for a number")
	}
}
