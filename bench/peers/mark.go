package peers

import "bytes"

// mark waits for a text in what a process writes: a look at it now and then would be
// late by what the process does meanwhile, which may be all that it has to.
type mark struct {
	text []byte
	tail []byte        // what a text that is written in pieces may have begun in
	seen chan struct{} // closed when it was
}

func newMark(text string) *mark { return &mark{text: []byte(text), seen: make(chan struct{})} }

// Write implements [io.Writer].
func (m *mark) Write(p []byte) (int, error) {
	select {
	case <-m.seen:
		return len(p), nil
	default:
	}
	m.tail = append(m.tail, p...)
	if bytes.Contains(m.tail, m.text) {
		close(m.seen)
	}
	m.tail = bytes.Clone(m.tail[max(0, len(m.tail)-len(m.text)+1):])
	return len(p), nil
}
