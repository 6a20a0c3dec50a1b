//go:build unix

package e2e

import (
	wire "encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// proxy stands between one process and the broker. It names itself wherever the
// broker names its own address, so that all the process says goes through it.
type proxy struct {
	t        *testing.T
	upstream string
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	faults []*fault // to come
	added  []*fault
	conns  map[net.Conn]bool
}

// fault is what happens to one request, the first of its kind from now on.
type fault struct {
	key int16
	// lasts says that it happens to all of them, until the proxy is healed.
	lasts bool
	// only is the partition of the output that refuse is about, the others are
	// written; -1 for all of them.
	only int32
	// refuse is what the process is told instead of an answer; the broker never
	// sees the request.
	refuse *kerr.Error
	// reached is closed when the broker has answered, or the proxy in its stead.
	reached chan struct{}
	// released is closed to let a held answer through.
	released chan struct{}

	reach, release sync.Once
}

// let lets the held answer through.
func (f *fault) let() { f.release.Do(func() { close(f.released) }) }

func newProxy(t *testing.T, upstream string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, upstream: upstream, listener: l, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for conn := range p.conns {
			_ = conn.Close()
		}
		for _, f := range p.added {
			f.let()
		}
		p.conns, p.faults = nil, nil
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// hold keeps the answer to the next request of a kind until it is released; of a
// write, to the next that the broker accepts.
func (p *proxy) hold(key kmsg.Request) *fault {
	return p.add(&fault{key: key.Key()})
}

// holdAll is hold for all of them, until the proxy is healed.
func (p *proxy) holdAll(key kmsg.Request) *fault {
	return p.add(&fault{key: key.Key(), lasts: true})
}

// refuse answers the next produce request with an error.
func (p *proxy) refuse(with *kerr.Error) *fault {
	return p.add(&fault{key: (&kmsg.ProduceRequest{}).Key(), refuse: with, only: -1})
}

// refuseAll is refuse for all of them, until the proxy is healed.
func (p *proxy) refuseAll(with *kerr.Error) *fault {
	return p.add(&fault{key: (&kmsg.ProduceRequest{}).Key(), refuse: with, lasts: true, only: -1})
}

// refusePartition is refuseAll for one partition; the broker has the others' records.
func (p *proxy) refusePartition(number int32, with *kerr.Error) *fault {
	return p.add(&fault{key: (&kmsg.ProduceRequest{}).Key(), refuse: with, lasts: true, only: number})
}

// heal takes back the faults that are to come, and those that last.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if f.lasts {
			f.let()
		}
	}
	p.faults = nil
}

func (p *proxy) add(f *fault) *fault {
	f.reached, f.released = make(chan struct{}), make(chan struct{})
	if f.refuse != nil {
		f.let() // there is nothing to wait for
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.added = append(p.added, f)
	p.faults = append(p.faults, f)
	return f
}

// take is the fault that a request meets, nil for none.
func (p *proxy) take(key int16) *fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, f := range p.faults {
		if f.key != key {
			continue
		}
		if !f.lasts {
			p.faults = append(p.faults[:i], p.faults[i+1:]...)
		}
		return f
	}
	return nil
}

// putBack lets a fault happen later. One that lasts is still there.
func (p *proxy) putBack(f *fault) {
	if f.lasts {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append([]*fault{f}, p.faults...)
}

// wait waits until the fault has happened.
func (f *fault) wait(t *testing.T, d *daemon) {
	t.Helper()
	await(t, fmt.Sprintf("a request of kind %d meets its fault", f.key), func() bool {
		select {
		case <-f.reached:
			return true
		default:
			return false
		}
	}, d.done)
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		broker, err := net.Dial("tcp", p.upstream)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.track(client, broker) {
			return
		}
		link := &link{proxy: p, client: client, broker: broker, asked: make(chan asked, 1024)}
		p.wg.Go(link.requests)
		p.wg.Go(link.answers)
	}
}

// track notes connections to close at the end; false says that it has come.
func (p *proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		if p.conns == nil {
			_ = conn.Close()
			continue
		}
		p.conns[conn] = true
	}
	return p.conns != nil
}

// link is one connection of the process and its continuation to the broker.
type link struct {
	proxy          *proxy
	client, broker net.Conn
	asked          chan asked
}

// asked is a request that waits for its answer; answers come in order.
type asked struct {
	key, version int16
	correlation  uint32
	fault        *fault
	refusal      []byte // the answer, when the broker is not asked
	// refused is what the broker is not asked for, and is answered for by us.
	refused []kmsg.ProduceResponseTopic
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.broker.Close()
}

func (l *link) requests() {
	defer close(l.asked)
	defer l.close()
	for {
		frame, err := readFrame(l.client)
		if err != nil || len(frame) < 8 {
			return
		}
		a := asked{
			key: int16(wire.BigEndian.Uint16(frame)), version: int16(wire.BigEndian.Uint16(frame[2:])),
			correlation: wire.BigEndian.Uint32(frame[4:]),
		}
		a.fault = l.proxy.take(a.key)
		if a.fault != nil && a.fault.refuse != nil {
			frame = a.refuse(frame)
			if a.refusal != nil {
				l.asked <- a
				continue
			}
		}
		l.asked <- a
		if writeFrame(l.broker, frame) != nil {
			return
		}
	}
}

func (l *link) answers() {
	defer l.close()
	for a := range l.asked {
		frame := a.refusal
		if frame == nil {
			var err error
			if frame, err = readFrame(l.broker); err != nil {
				break
			}
			frame = l.readdress(frame, a)
		}
		if len(a.refused) > 0 {
			frame = l.addRefused(frame, a)
		} else if a.fault != nil && a.refusal == nil && !written(frame, a) {
			// Such as CONCURRENT_TRANSACTIONS, after which the client tries again.
			l.proxy.putBack(a.fault)
			a.fault = nil
		}
		if a.fault != nil {
			a.fault.reach.Do(func() { close(a.fault.reached) })
			<-a.fault.released
		}
		if writeFrame(l.client, frame) != nil {
			break
		}
	}
	for range l.asked { // until the other side has seen the end
		l.close()
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

// readdress puts the proxy's address where the broker wrote its own.
func (l *link) readdress(frame []byte, a asked) []byte {
	resp := kmsg.ResponseForKey(a.key)
	switch resp.(type) {
	case *kmsg.MetadataResponse, *kmsg.FindCoordinatorResponse:
	default:
		return frame
	}
	if err := a.parse(resp, frame); err != nil {
		l.proxy.t.Errorf("read the broker's answer of kind %d: %v", a.key, err)
		return frame
	}
	own := l.proxy.listener.Addr().(*net.TCPAddr)
	host, port := own.IP.String(), int32(own.Port)
	switch resp := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range resp.Brokers {
			resp.Brokers[i].Host, resp.Brokers[i].Port = host, port
		}
	case *kmsg.FindCoordinatorResponse:
		resp.Host, resp.Port = host, port
		for i := range resp.Coordinators {
			resp.Coordinators[i].Host, resp.Coordinators[i].Port = host, port
		}
	}
	return answer(resp, a)
}

// parse reads an answer, without its header.
func (a asked) parse(resp kmsg.Response, frame []byte) error {
	resp.SetVersion(a.version)
	body := kbin.Reader{Src: frame[4:]}
	if resp.IsFlexible() {
		kmsg.SkipTags(&body)
	}
	return resp.ReadFrom(body.Src)
}

// written is whether an answer is not that of a broker which refused a write.
func written(frame []byte, a asked) bool {
	resp := kmsg.NewPtrProduceResponse()
	if a.key != resp.Key() {
		return true
	}
	if a.parse(resp, frame) != nil {
		return false
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return false
			}
		}
	}
	return true
}

// answer is a response as it goes over the wire.
func answer(resp kmsg.Response, a asked) []byte {
	frame := wire.BigEndian.AppendUint32(nil, a.correlation)
	if resp.IsFlexible() {
		frame = append(frame, 0) // no tags
	}
	return resp.AppendTo(frame)
}

// refuse takes what is refused out of a produce request, and returns the rest of it.
// Where there is no rest, the answer is the refusal; what is refused of a part goes
// into the broker's answer.
func (a *asked) refuse(frame []byte) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(a.version)
	body := kbin.Reader{Src: frame[8:]}
	body.NullableString() // the client's ID
	if req.IsFlexible() {
		kmsg.SkipTags(&body)
	}
	header := frame[:len(frame)-len(body.Src)]
	if err := req.ReadFrom(body.Src); err != nil {
		panic("BUG: a produce request that cannot be read: " + err.Error())
	}
	rest := req.Topics[:0]
	for _, t := range req.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		left := t.Partitions[:0]
		for _, part := range t.Partitions {
			if a.fault.only >= 0 && a.fault.only != part.Partition {
				left = append(left, part)
				continue
			}
			refused := kmsg.NewProduceResponseTopicPartition()
			refused.Partition, refused.ErrorCode = part.Partition, a.fault.refuse.Code
			refused.BaseOffset = -1
			topic.Partitions = append(topic.Partitions, refused)
		}
		if len(topic.Partitions) > 0 {
			a.refused = append(a.refused, topic)
		}
		if t.Partitions = left; len(left) > 0 {
			rest = append(rest, t)
		}
	}
	switch {
	case len(a.refused) == 0:
		a.fault = nil // it is about another partition
		return frame
	case len(rest) == 0:
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		resp.SetVersion(a.version)
		resp.Topics, a.refused = a.refused, nil
		a.refusal = answer(resp, *a)
		return nil
	}
	req.Topics = rest
	return req.AppendTo(slices.Clone(header))
}

// addRefused adds to the broker's answer what it was not asked for.
func (l *link) addRefused(frame []byte, a asked) []byte {
	resp := kmsg.NewPtrProduceResponse()
	if err := a.parse(resp, frame); err != nil {
		l.proxy.t.Errorf("read the broker's answer to a write: %v", err)
		return frame
	}
	for _, t := range a.refused {
		i := slices.IndexFunc(resp.Topics, func(at kmsg.ProduceResponseTopic) bool {
			return at.Topic == t.Topic && at.TopicID == t.TopicID
		})
		if i < 0 {
			resp.Topics = append(resp.Topics, t)
			continue
		}
		resp.Topics[i].Partitions = append(resp.Topics[i].Partitions, t.Partitions...)
	}
	return answer(resp, a)
}
