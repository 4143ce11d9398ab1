package streams

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/podsync/podsync/runtime/websocket"
)

// A Dialer connects to a pod port.
type Dialer func(ctx context.Context, port int32) (net.Conn, error)

// Ports returns the stream of a client that connects to a pod's ports: over WebSocket to the given ports, over SPDY to
// any. Over WebSocket each port has a channel for data and one for errors. Each of them begins with the port's number.
func Ports(ports []int32, dial Dialer) Stream {
	return func(v *visit) {
		if v.speaksSPDY() {
			dial.serveStreams(v)
		} else {
			dial.serveChannels(v, ports)
		}
	}
}

func (dial Dialer) serveChannels(v *visit, ports []int32) {
	conn, err := v.accept("v4.channel.k8s.io")
	if err != nil {
		return // the response was sent
	}
	fwd := &forwarding{conn: conn, ctx: v.ctx}
	for range ports {
		fwd.inputs = append(fwd.inputs, newInput())
	}
	var running sync.WaitGroup
	for i, port := range ports {
		running.Go(func() { dial.servePort(fwd, i, port) })
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
func (dial Dialer) servePort(fwd *forwarding, i int, port int32) {
	data, errs := channelWriter{fwd.conn, byte(2 * i)}, channelWriter{fwd.conn, byte(2*i + 1)}
	number := binary.LittleEndian.AppendUint16(nil, uint16(port))
	for _, w := range []channelWriter{data, errs} {
		if _, err := w.Write(number); err != nil {
			return
		}
	}
	to, err := dial(fwd.ctx, port)
	if err != nil {
		_, _ = fmt.Fprintf(errs, "error forwarding port %d to pod: %v", port, err) // the client may have disconnected
		return
	}
	handOn(fwd.ctx, to, data, fwd.inputs[i])
}

// A forwarding is one WebSocket connection with its ports.
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
			continue // the server writes errors; it does not read them
		}
		f.inputs[message[0]/2].add(message[1:])
	}
}

// handOn copies in both directions until one side disconnects.
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
