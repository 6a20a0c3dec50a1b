//go:build unix

package main

import (
	"context"
	wire "encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// proxy stands between one instance and the brokers. It has an address for each
// broker and names it wherever the broker would name its own, so that all the
// instance says goes through it, and can be slowed, frozen and cut.
type proxy struct {
	brokers map[int32]string       // their own addresses, by ID
	gates   map[int32]net.Listener // ours, in their stead
	wg      sync.WaitGroup

	mu     sync.Mutex
	links  map[*link]bool
	cut    bool
	delay  time.Duration // of each frame, in both directions
	thawed chan struct{} // closed while nothing is frozen
	closed bool
}

func newProxy(brokers map[int32]string) (*proxy, error) {
	p := &proxy{brokers: brokers, gates: map[int32]net.Listener{}, links: map[*link]bool{}, thawed: make(chan struct{})}
	close(p.thawed)
	for id := range brokers {
		var lc net.ListenConfig
		l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			p.close()
			return nil, fmt.Errorf("open a proxy: %w", err)
		}
		p.gates[id] = l
		p.wg.Go(func() { p.accept(l, brokers[id]) })
	}
	return p, nil
}

// addresses are what an instance is told to connect to.
func (p *proxy) addresses() []string {
	var list []string
	for _, gate := range p.gates {
		list = append(list, gate.Addr().String())
	}
	return list
}

// close ends all connections and waits for that.
func (p *proxy) close() {
	for _, gate := range p.gates {
		_ = gate.Close() // nobody is told that a listener was closed twice
	}
	p.thaw()
	p.mu.Lock()
	p.closed = true
	p.drop()
	p.mu.Unlock()
	p.wg.Wait()
}

// drop closes the open connections; the lock is held.
func (p *proxy) drop() {
	for l := range p.links {
		reset(l.client)
		l.close()
	}
}

// sever cuts all connections, and refuses new ones until it is mended.
func (p *proxy) sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.drop()
}

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

// slow makes every frame late by d; zero is none.
func (p *proxy) slow(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// freeze lets nothing through until thaw. What was sent meanwhile arrives then,
// even if its sender has given up: a request can come after its time.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.thawed = make(chan struct{})
}

func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.thawed:
	default:
		close(p.thawed)
	}
}

// hold keeps a frame for as long as the network does.
func (p *proxy) hold() {
	p.mu.Lock()
	delay, thawed := p.delay, p.thawed
	p.mu.Unlock()
	<-thawed
	time.Sleep(delay)
}

func (p *proxy) accept(gate net.Listener, broker string) {
	for {
		client, err := gate.Accept()
		if err != nil {
			return // closed
		}
		var dialer net.Dialer
		upstream, err := dialer.DialContext(context.Background(), "tcp", broker)
		if err != nil {
			reset(client) // as the machine of a broker that is away does
			continue
		}
		l := &link{proxy: p, client: client, broker: upstream, asked: make(chan asked, 1024)}
		if p.track(l) {
			p.wg.Go(l.requests)
			p.wg.Go(l.answers)
		}
	}
}

// track notes a new connection; false says that it must not be.
func (p *proxy) track(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut || p.closed {
		reset(l.client)
		_ = l.broker.Close() // it has heard nothing
		return false
	}
	p.links[l] = true
	return true
}

func (p *proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// link is one connection of the instance and its continuation to a broker.
type link struct {
	proxy          *proxy
	client, broker net.Conn
	asked          chan asked
}

// asked is a request that waits for its answer; answers come in order.
type asked struct {
	key, version int16
}

func (l *link) close() {
	_ = l.client.Close() // whichever side ends first closes both
	_ = l.broker.Close()
}

// reset ends a connection as one is ended that nobody serves. A close in good order
// would say that somebody does, and does not speak our language.
func reset(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0) // at worst it is closed in good order
	_ = conn.Close()
}

// requests carries what the instance sends. It alone closes the broker's side, and
// only after the last frame: what a dead instance had sent still arrives.
func (l *link) requests() {
	defer l.proxy.forget(l)
	defer close(l.asked)
	defer l.close()
	for {
		frame, err := readFrame(l.client)
		if err != nil || len(frame) < 8 {
			return
		}
		l.proxy.hold()
		l.asked <- asked{key: int16(wire.BigEndian.Uint16(frame)), version: int16(wire.BigEndian.Uint16(frame[2:]))}
		if writeFrame(l.broker, frame) != nil {
			return
		}
	}
}

func (l *link) answers() {
	for a := range l.asked {
		frame, err := readFrame(l.broker)
		if err != nil {
			break
		}
		frame, err = l.proxy.readdress(frame, a)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		l.proxy.hold()
		if writeFrame(l.client, frame) != nil {
			break
		}
	}
	_ = l.client.Close()
	for range l.asked { // until the other direction has seen the end
	}
}

func readFrame(from io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, wire.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(from, frame)
	return frame, err
}

func writeFrame(to io.Writer, frame []byte) error {
	_, err := to.Write(append(wire.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}
