package critest

import (
	"fmt"
	"net"
)

// listen listens on a sandbox port, in memory.
func (r *Runtime) listen(sb *sandbox, port int32) (net.Listener, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case port < 1 || port > 65535:
		return nil, fmt.Errorf("critest: %d is no port", port)
	case sb.ports[port] != nil:
		return nil, fmt.Errorf("critest: port %d: address already in use", port)
	}
	if sb.ports == nil {
		sb.ports = map[int32]*pipe{}
	}
	p := newPipe()
	sb.ports[port] = p
	return &portListener{p, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if sb.ports[port] == p {
			delete(sb.ports, port)
		}
	}}, nil
}

type portListener struct {
	*pipe
	free func()
}

func (l *portListener) Close() error {
	l.free()
	return l.pipe.Close()
}
