package streams

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/podsync/podsync/internal/spdy"
)

// serveStreams connects a client to a sandbox's ports, over SPDY.
func (dial Dialer) serveStreams(v *visit) {
	conn, err := v.acceptSPDY("portforward.k8s.io")
	if err != nil {
		return // the response was sent
	}
	ctx, cancel := context.WithCancel(v.ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	defer conn.Close()
	f := &portStreams{conn: conn, pairs: map[string]*portPair{}, inputs: map[uint32]*input{}}
	for {
		m, err := conn.Read()
		if err != nil {
			return
		}
		if pair := f.take(m); pair != nil {
			running.Go(func() { dial.servePair(ctx, conn, pair) })
		}
	}
}

// portStreams are the streams of one SPDY connection.
type portStreams struct {
	conn   *spdy.Conn
	pairs  map[string]*portPair // incomplete pairs, by the ID in their headers
	inputs map[uint32]*input    // by stream
}

// A portPair is the data stream and the error stream of one connection to a port.
type portPair struct {
	port       uint64
	data, errs uint32
	in         *input
}

// take processes a client message, and returns the pair that it completes, if any.
func (f *portStreams) take(m spdy.Message) *portPair {
	in := f.inputs[m.Stream]
	switch m.Kind {
	case spdy.Opened:
		return f.opened(m)
	case spdy.Data:
		in.add(m.Data)
	case spdy.Closed, spdy.Reset:
		in.close()
		delete(f.inputs, m.Stream)
	}
	return nil
}

// opened accepts a port stream.
func (f *portStreams) opened(m spdy.Message) *portPair {
	id, kind := m.Header.Get("requestid"), m.Header.Get("streamtype")
	port, err := strconv.ParseUint(m.Header.Get("port"), 10, 16)
	if err != nil || port == 0 || kind != "data" && kind != "error" {
		_ = f.conn.Reset(m.Stream) // the next Read notices a disconnected client
		return nil
	}
	pair := f.pairs[id]
	if pair == nil {
		pair = &portPair{port: port, in: newInput()}
		f.pairs[id] = pair
	}
	if kind == "error" {
		pair.errs = m.Stream
	} else {
		pair.data = m.Stream
		f.inputs[m.Stream] = pair.in
	}
	_ = f.conn.Accept(m.Stream) // likewise
	if pair.data == 0 || pair.errs == 0 {
		return nil
	}
	delete(f.pairs, id)
	return pair
}

// servePair connects to one port, once.
func (dial Dialer) servePair(ctx context.Context, conn *spdy.Conn, p *portPair) {
	to, err := dial(ctx, int32(p.port))
	if err == nil {
		handOn(ctx, to, streamWriter{conn, p.data}, p.in)
	} else {
		_, _ = fmt.Fprintf(streamWriter{conn, p.errs}, "error forwarding port %d to pod: %v", p.port, err) // the client may have disconnected
	}
	for _, stream := range []uint32{p.data, p.errs} {
		_ = conn.CloseWrite(stream) // likewise
	}
}

type streamWriter struct {
	conn   *spdy.Conn
	stream uint32
}

func (w streamWriter) Write(b []byte) (int, error) {
	if err := w.conn.Write(w.stream, b); err != nil {
		return 0, err
	}
	return len(b), nil
}
