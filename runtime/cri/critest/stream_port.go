package critest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/podsync/podsync/internal/base/websocket"
)

// listen listens on a port of a sandbox, in memory.
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

// servePorts connects a client to ports of a sandbox. Each port has two channels, for data and
// errors, and each begins with the port's number.
func (s service) servePorts(v *visit, sb *sandbox, ports []int32) {
	if v.speaksSPDY() {
		s.servePortStreams(v, sb)
		return
	}
	conn, err := v.accept("v4.channel.k8s.io")
	if err != nil {
		return // which was answered
	}
	fwd := &forwarding{conn: conn, ctx: v.ctx}
	for range ports {
		fwd.inputs = append(fwd.inputs, newInput())
	}
	var running sync.WaitGroup
	for i, port := range ports {
		running.Go(func() { s.servePort(fwd, i, sb, port) })
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		fwd.read()
	}()
	running.Wait()
	conn.Close()
	<-read
}

// servePort connects to one port.
func (s service) servePort(fwd *forwarding, i int, sb *sandbox, port int32) {
	data, errs := channelWriter{fwd.conn, byte(2 * i)}, channelWriter{fwd.conn, byte(2*i + 1)}
	number := binary.LittleEndian.AppendUint16(nil, uint16(port))
	for _, w := range []channelWriter{data, errs} {
		if _, err := w.Write(number); err != nil {
			return
		}
	}
	to, err := s.connect(fwd.ctx, sb, port)
	if err != nil {
		_, _ = fmt.Fprintf(errs, "error forwarding port %d to pod: %v", port, err) // the client may have disconnected
		return
	}
	handOn(fwd.ctx, to, data, fwd.inputs[i])
}

// A forwarding is one WebSocket with its ports.
type forwarding struct {
	conn   *websocket.Conn
	ctx    context.Context
	inputs []*input // of each port
}

// read passes on the client's data until the client disconnects.
func (f *forwarding) read() {
	stop := context.AfterFunc(f.ctx, func() { f.conn.Close() })
	defer stop()
	defer func() {
		for _, in := range f.inputs {
			in.close()
		}
	}()
	for {
		message, err := f.conn.Read()
		if err != nil {
			return
		}
		if len(message) == 0 || message[0]%2 != 0 || int(message[0])/2 >= len(f.inputs) {
			continue // errors are reported in the other direction
		}
		f.inputs[message[0]/2].add(message[1:])
	}
}

// handOn copies in both directions until one end disconnects.
func handOn(ctx context.Context, to net.Conn, data io.Writer, in *input) {
	stop := context.AfterFunc(ctx, func() { to.Close() })
	defer stop()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(to, in) // until the client or the program disconnects
		to.Close()
	}()
	_, _ = io.Copy(data, to) // likewise
	in.close()
	to.Close()
	<-sent
}
