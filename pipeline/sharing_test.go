package pipeline

import (
	"fmt"
	"reflect"
	"testing"
	"unsafe"
)

// Workers write nothing that another reads, so that twice the workers do twice the
// work. It is counted: of all memory that can be reached from the workers, each with a
// shard, the lines of cache that two of them reach must stay as they are while all
// judge.
func TestWorkersShareNothingWritten(t *testing.T) {
	for _, keys := range [][]string{{"key"}, {"json:id", "header:h"}, {"sha256:json"}} {
		t.Run(fmt.Sprint(keys), func(t *testing.T) {
			workers := make([]*owned, 3)
			for i := range workers {
				workers[i] = newOwned(t, keys)
			}
			all := map[uintptr]lying{}
			shared := map[uintptr][lineBytes]byte{}
			for _, w := range workers {
				w.judge(0) // what they allocate when they begin they have
			}
			for _, w := range workers {
				for line, here := range reach(w) {
					if before, is := all[line]; is {
						shared[line] = *lineAt(line)
						here = lying{before.name + ", " + here.name, before.bytes | here.bytes}
					}
					all[line] = here
				}
			}
			if len(all) < 1000 || len(shared) == 0 {
				t.Fatalf("%d lines of cache can be reached, %d by two workers: of the configuration some must be", len(all), len(shared))
			}
			for n := range 5 {
				for _, w := range workers {
					w.judge(1 + n)
				}
			}
			for line, was := range shared {
				// What else lies in the line is nobody's here: it belongs to the test.
				for i, now := range *lineAt(line) {
					if all[line].bytes>>i&1 != 0 && now != was[i] {
						t.Errorf("written and shared: byte %d of a line of %s", i, all[line].name)
					}
				}
			}
			t.Logf("%d lines of cache, of which %d are shared", len(all), len(shared))
		})
	}
}

const lineBytes = 64

// owned is a worker's share of the world.
type owned struct {
	in, out *ring
	shard   *Shard
}

func newOwned(t *testing.T, keys []string) *owned {
	cfg := rules()
	cfg.Keys, cfg.LogChanges = keys, true
	s, err := NewShard(cfg, p0, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &owned{in: newRing(), out: newRing(), shard: s}
}

// judge has the n-th batch judged, by way of the rings.
func (o *owned) judge(n int) {
	var values []string
	for i := range 600 {
		values = append(values, fmt.Sprintf(`{"id":"%032d","n":%d}`, n*500+i, i))
	}
	b := batchOf(int64(n*600), values...)
	for i := range b.Records {
		b.Records[i].Key = b.Records[i].Value
		b.Records[i].Headers = []Header{{Name: "h", Value: b.Records[i].Value}}
	}
	o.in.put(task{op: opProcess, shard: o.shard, batch: b})
	t := o.in.take()
	t.run()
	o.out.put(t)
	_ = o.out.take()
}

// lineAt is a line of cache, which may begin before the object that lies in it.
func lineAt(line uintptr) *[lineBytes]byte { return *(**[lineBytes]byte)(unsafe.Pointer(&line)) }

// lying is what lies in a line of cache, and the set of the bytes that it takes.
type lying struct {
	name  string
	bytes uint64
}

// reach is the lines of cache that can be reached from a worker, and what lies in each.
func reach(o *owned) map[uintptr]lying {
	w := walk{lines: map[uintptr]lying{}, seen: map[object]bool{}}
	w.pointer(reflect.ValueOf(o.in), "ring")
	w.pointer(reflect.ValueOf(o.out), "ring")
	w.pointer(reflect.ValueOf(o.shard), "shard")
	return w.lines
}

// walk follows every pointer, slice and interface. Maps, channels and what functions hold
// it cannot look into, and text is no matter: nobody writes it, or reads it all the time.
type walk struct {
	lines map[uintptr]lying
	seen  map[object]bool
}

type object struct {
	at   unsafe.Pointer
	size uintptr
	typ  reflect.Type
}

// add notes size bytes at p; it reports whether they are new.
func (w *walk) add(p unsafe.Pointer, size uintptr, name string, typ reflect.Type) bool {
	key := object{p, size, typ}
	if p == nil || size == 0 || w.seen[key] {
		return false
	}
	w.seen[key] = true
	begin, end := uintptr(p), uintptr(p)+size
	for line := begin &^ (lineBytes - 1); line < end; line += lineBytes {
		first, after := max(begin, line)-line, min(end, line+lineBytes)-line
		w.lines[line] = lying{name, w.lines[line].bytes | ^uint64(0)>>(lineBytes-after+first)<<first}
	}
	return true
}

func (w *walk) pointer(v reflect.Value, name string) {
	if v.IsNil() || !w.add(v.UnsafePointer(), v.Type().Elem().Size(), name, v.Type()) {
		return
	}
	w.value(v.Elem(), name)
}

func (w *walk) value(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		w.pointer(v, name)
	case reflect.Interface:
		if !v.IsNil() {
			w.value(v.Elem(), name)
		}
	case reflect.Slice:
		whole := v.Slice(0, v.Cap())
		if w.add(v.UnsafePointer(), uintptr(v.Cap())*v.Type().Elem().Size(), name, v.Type()) {
			w.elements(whole, name)
		}
	case reflect.Array:
		w.elements(v, name)
	case reflect.Struct:
		for i := range v.NumField() {
			w.value(v.Field(i), name+"."+v.Type().Field(i).Name)
		}
	}
}

// elements looks into those of a slice or an array, if there can be anything in them.
func (w *walk) elements(v reflect.Value, name string) {
	switch v.Type().Elem().Kind() {
	case reflect.Pointer, reflect.Interface, reflect.String, reflect.Slice, reflect.Array, reflect.Struct:
		for i := range v.Len() {
			w.value(v.Index(i), name+"[]")
		}
	}
}
