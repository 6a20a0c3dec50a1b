package kafkaio

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// What happens to one request on the wire.
type fate uint8

const (
	pass fate = iota
	loseRequest
	loseAnswer // after the broker has done what was asked
	slow
)

// slowness is longer than a healthy broker takes for anything.
const slowness = 300 * time.Millisecond

// wire is a network that loses what a test wants it to. A lost message closes the
// connection, as a real loss ends in a time-out and a new one.
type wire struct {
	mu    sync.Mutex
	rule  func(key int16, nth int) fate
	seen  map[int16]int
	conns map[net.Conn]bool
	down  bool
	// lost are the requests that were lost. Whoever lost them may still send them.
	lost [][]byte
}

// set sets the rule, nil for none; nth counts the requests of a key from 1.
func (w *wire) set(rule func(key int16, nth int) fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rule, w.seen = rule, map[int16]int{}
}

func (w *wire) judge(key int16) fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rule == nil {
		return pass
	}
	w.seen[key]++
	return w.rule(key, w.seen[key])
}

// errLost is what a client sees of a connection that has died.
var errLost = &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.ECONNRESET)}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		_ = conn.Close()
		return nil, errLost
	}
	if w.conns == nil {
		w.conns = map[net.Conn]bool{}
	}
	w.conns[conn] = true
	return &wireConn{Conn: conn, wire: w, doomed: map[uint32]bool{}}, nil
}

// cut ends all connections for good.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	for conn := range w.conns {
		_ = conn.Close()
	}
}

func (w *wire) lose(request []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = append(w.lost, slices.Clone(request))
}

// losses is how many requests were lost.
func (w *wire) losses() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.lost)
}

// arrive lets a broker have, late, the requests that were lost. It returns when
// the broker has answered, and how many there were.
func (w *wire) arrive(t *testing.T, broker string) int {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	conn, err := net.Dial("tcp", broker)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, request := range w.lost {
		var size [4]byte
		if _, err := conn.Write(request); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(size[:]))); err != nil {
			t.Fatal(err)
		}
	}
	return len(w.lost)
}

// wireConn sees whole requests in Write, which is how kgo writes them, and cuts
// answers out of the stream in Read.
type wireConn struct {
	net.Conn
	wire   *wire
	mu     sync.Mutex
	doomed map[uint32]bool // correlation IDs
	rest   []byte
}

func (c *wireConn) Write(b []byte) (int, error) {
	if len(b) >= 12 {
		switch c.wire.judge(int16(binary.BigEndian.Uint16(b[4:]))) {
		case loseRequest:
			c.wire.lose(b)
			_ = c.Close()
			return 0, errLost
		case loseAnswer:
			c.mu.Lock()
			c.doomed[binary.BigEndian.Uint32(b[8:])] = true
			c.mu.Unlock()
		case slow:
			time.Sleep(slowness)
		}
	}
	return c.Conn.Write(b)
}

func (c *wireConn) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		var size [4]byte
		if _, err := io.ReadFull(c.Conn, size[:]); err != nil {
			return 0, err
		}
		frame := make([]byte, 4+binary.BigEndian.Uint32(size[:]))
		copy(frame, size[:])
		if _, err := io.ReadFull(c.Conn, frame[4:]); err != nil {
			return 0, err
		}
		c.mu.Lock()
		doomed := c.doomed[binary.BigEndian.Uint32(frame[4:])]
		c.mu.Unlock()
		if doomed {
			_ = c.Close()
			return 0, io.EOF
		}
		c.rest = frame
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
