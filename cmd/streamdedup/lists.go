package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// list is a flag of several values, separated by commas or given one flag each.
// The first that is given replaces the default.
type list[T comparable] struct {
	to    *[]T
	kind  kindOf[T]
	given bool
}

var _ pflag.SliceValue = (*list[int])(nil)

// addList defines a flag of several values of this kind, whose default is what to
// holds.
func (k kindOf[T]) addList(fs *pflag.FlagSet, to *[]T, name, usage string) {
	fs.Var(&list[T]{to: to, kind: k}, name, usage)
}

func (l *list[T]) Set(s string) error {
	values, err := l.parse(strings.Split(s, ","))
	if err != nil {
		return err
	}
	if l.given {
		values = append(*l.to, values...)
	}
	*l.to, l.given = values, true
	return nil
}

func (l *list[T]) parse(texts []string) ([]T, error) {
	var values []T
	for _, text := range texts {
		v, err := l.kind.parse(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

func (l *list[T]) String() string { return strings.Join(l.GetSlice(), ",") }
func (l *list[T]) Type() string   { return l.kind.name + ",..." }

// Append implements [pflag.SliceValue].
func (l *list[T]) Append(s string) error {
	l.given = true
	return l.Set(s)
}

// Replace implements [pflag.SliceValue].
func (l *list[T]) Replace(texts []string) error {
	values, err := l.parse(texts)
	if err == nil {
		*l.to, l.given = values, true
	}
	return err
}

// GetSlice implements [pflag.SliceValue]: the values as they can be given again.
func (l *list[T]) GetSlice() []string {
	var texts []string
	for _, v := range *l.to {
		texts = append(texts, strings.ReplaceAll(l.kind.format(v), ",", "")) // no thousands
	}
	return texts
}
