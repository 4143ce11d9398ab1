package fleet

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"time"
)

// requestTimeout is the time after which a dropped request fails: a client closes a connection whose ping has no response.
const requestTimeout = 30 * time.Second

// A Loss says how the requests of a partitioned node fail.
type Loss uint8

const (
	// Refused requests fail at once.
	Refused Loss = iota
	// Dropped requests fail after 30 s, or when the partition ends.
	Dropped
)

// A partition is a time in which a node has no connection to the API server.
type partition struct {
	loss  Loss
	ended chan struct{}
}

// Partition cuts the connection between the node and the API server for a duration, in both directions: requests of the
// agent fail, it sees no change to its pods and of its Node, and requests to the node fail. Its containers keep running.
// Events are not cut, because all nodes share one recorder. Partition returns at once, so the agent may still see a change
// that is made right after the call. It does nothing if the node is partitioned.
func (n *Node) Partition(d time.Duration, loss Loss) {
	p := &partition{loss, make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.partition != nil {
		return
	}
	n.partition = p
	n.fleet.parts.Go(func() {
		releasePods, releaseNode := n.fleet.podWatch.Hold(n.Name), n.fleet.nodeWatch.Hold(n.Name)
		select {
		case <-n.fleet.ctx.Done():
		case <-time.After(d):
		}
		close(p.ended) // requests succeed again, and then the changes are passed on
		releaseNode()
		releasePods()
		n.mu.Lock()
		n.partition = nil
		n.mu.Unlock()
	})
}

// partitioned returns the partition in which requests fail, nil while there is none.
func (n *Node) partitioned() *partition {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.partition; p != nil {
		select {
		case <-p.ended:
		default:
			return p
		}
	}
	return nil
}

// wait returns why a request of a partitioned node fails.
func (p *partition) wait(ctx context.Context) error {
	if p.loss == Refused {
		return fmt.Errorf("dial tcp: %w", syscall.EHOSTUNREACH)
	}
	select {
	case <-p.ended:
	case <-time.After(requestTimeout):
	case <-ctx.Done():
		return ctx.Err()
	}
	return fmt.Errorf("read tcp: %w", syscall.ETIMEDOUT)
}

// runKey is the key of the agent's run in its requests' contexts. By this key a Transport finds the agent that sends a
// request, although all nodes share one client.
type runKey struct{}

func (r *agentRun) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, runKey{}, r)
}

// Transport returns a transport in which the requests of partitioned nodes and of killed agents fail.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ http.RoundTripper }

// RoundTrip sends a request.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	r, ok := req.Context().Value(runKey{}).(*agentRun)
	if !ok {
		return t.RoundTripper.RoundTrip(req)
	}
	return r.Transport(nodeTransport{t.RoundTripper, r.node}).RoundTrip(req)
}

// A nodeTransport is one node's transport.
type nodeTransport struct {
	http.RoundTripper
	node *Node
}

// RoundTrip sends a request.
func (t nodeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	p := t.node.partitioned()
	if p == nil {
		return t.RoundTripper.RoundTrip(req)
	}
	if req.Body != nil {
		req.Body.Close()
	}
	return nil, p.wait(req.Context())
}
