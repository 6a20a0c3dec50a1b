//go:build unix

package main

import (
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// readdress puts the proxy's addresses where a broker wrote its own or another's.
func (p *proxy) readdress(frame []byte, a asked) ([]byte, error) {
	resp := kmsg.ResponseForKey(a.key)
	switch resp.(type) {
	case *kmsg.MetadataResponse, *kmsg.FindCoordinatorResponse, *kmsg.DescribeClusterResponse, *kmsg.ProduceResponse, *kmsg.FetchResponse:
	default:
		return frame, nil
	}
	resp.SetVersion(a.version)
	body := kbin.Reader{Src: frame[4:]} // behind the correlation ID
	if resp.IsFlexible() {
		kmsg.SkipTags(&body)
	}
	if err := resp.ReadFrom(body.Src); err != nil {
		return nil, fmt.Errorf("read an answer of kind %d, version %d: %w", a.key, a.version, err)
	}
	if !p.rename(resp) {
		return frame, nil
	}
	head := frame[:4:4]
	if resp.IsFlexible() {
		head = append(head, 0) // no tags
	}
	return resp.AppendTo(head), nil
}

// rename changes the addresses in an answer; false says that it has none.
func (p *proxy) rename(resp kmsg.Response) bool {
	switch resp := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range resp.Brokers {
			b := &resp.Brokers[i]
			p.stand(b.NodeID, &b.Host, &b.Port)
		}
	case *kmsg.FindCoordinatorResponse:
		p.stand(resp.NodeID, &resp.Host, &resp.Port)
		for i := range resp.Coordinators {
			c := &resp.Coordinators[i]
			p.stand(c.NodeID, &c.Host, &c.Port)
		}
	case *kmsg.DescribeClusterResponse:
		for i := range resp.Brokers {
			b := &resp.Brokers[i]
			p.stand(b.NodeID, &b.Host, &b.Port)
		}
	// A broker that is not the leader any more names who is.
	case *kmsg.ProduceResponse:
		for i := range resp.Brokers {
			b := &resp.Brokers[i]
			p.stand(b.NodeID, &b.Host, &b.Port)
		}
		return len(resp.Brokers) > 0
	case *kmsg.FetchResponse:
		for i := range resp.Brokers {
			b := &resp.Brokers[i]
			p.stand(b.NodeID, &b.Host, &b.Port)
		}
		return len(resp.Brokers) > 0
	}
	return true
}

// stand replaces the address of a broker by ours for it.
func (p *proxy) stand(id int32, host *string, port *int32) {
	if gate := p.gates[id]; gate != nil {
		own := gate.Addr().(*net.TCPAddr)
		*host, *port = own.IP.String(), int32(own.Port)
	}
}
