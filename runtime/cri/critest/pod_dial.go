package critest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// DialPod connects to a pod port at an address of its sandbox. An agent whose client uses a connection of [Start],
// [Runtime.Dial], [Runtime.Direct] or an [AgentRun] dials so. For a client of a socket, use it as syncpod.Node.DialPod:
// otherwise probes and handlers dial the addresses in the machine's network. Any other address counts as the node's,
// whose ports belong to the pods in its network, and to pods with a host port.
//
// A program listens with [Command.Listen]. A server has all other ports of
// its pod and responds as probes expect: it accepts connections, answers HTTP and HTTPS with 200, and
// gRPC health checks with SERVING. All other ports refuse the connection.
func (r *Runtime) DialPod(ctx context.Context, network, address string) (net.Conn, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("critest: %w", err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("critest: port of %q: %w", address, err)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil, fmt.Errorf("critest: host of %q: %w", address, err)
	}
	for _, e := range r.endpoints(ip, int32(port)) {
		conn, err := r.connect(ctx, e.sandbox, e.port)
		if conn != nil || ctx.Err() != nil {
			return conn, err
		}
	}
	return nil, fmt.Errorf("dial %s %s: connect: connection refused", network, address)
}

// An endpoint is a port of a sandbox.
type endpoint struct {
	sandbox *sandbox
	port    int32
}

// endpoints returns the port of the sandbox with an address, or else those that have a port of the node.
func (r *Runtime) endpoints(ip netip.Addr, port int32) (found []endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sb := range r.sandboxes {
		if slices.Contains(sb.ips, ip.String()) && sb.ready() {
			return []endpoint{{sb, port}}
		}
	}
	for _, sb := range r.sandboxes {
		if sb.onNodeNetwork() && sb.ready() {
			found = append(found, endpoint{sb, port})
		}
		for _, m := range sb.config.GetPortMappings() {
			if m.GetHostPort() == port && !sb.onNodeNetwork() && sb.ready() {
				found = append(found, endpoint{sb, m.GetContainerPort()})
			}
		}
	}
	slices.SortFunc(found, func(a, b endpoint) int { return cmp.Compare(a.sandbox.seq, b.sandbox.seq) })
	return found
}

// connect connects to a sandbox port.
func (r *Runtime) connect(ctx context.Context, sb *sandbox, port int32) (net.Conn, error) {
	r.mu.Lock()
	p, ready, servers := sb.ports[port], sb.ready(), sb.servers
	r.mu.Unlock()
	switch {
	case p != nil && ready:
		return p.dial(ctx)
	case servers > 0 && ready:
		client, server := net.Pipe()
		return client, r.start(func() { r.answer(server) })
	}
	m := sb.config.GetMetadata()
	r.noteSilent(fmt.Sprintf("port %d of pod %s/%s refused a connection: no program listens on it, and no container is a server", port, m.GetNamespace(), m.GetName()))
	return nil, fmt.Errorf("dial tcp4 127.0.0.1:%d: connect: connection refused", port)
}
